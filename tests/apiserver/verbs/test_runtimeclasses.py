"""A pod of a runtime class has its overhead, its node selector and its tolerations, or is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.asked import Asked, Data

CLASSES, PODS = "/apis/node.k8s.io/v1/runtimeclasses", "/api/v1/namespaces/default/pods"
SECONDS = 300
LOST = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}
    for name in ("not-ready", "unreachable")
]
ANY_GPU = {"key": "gpu", "operator": "Exists"}
ONE_GPU = {"key": "gpu", "operator": "Equal", "value": "a100", "effect": "NoSchedule"}
FAST_GPU = {"key": "gpu-level", "operator": "Gt", "value": "5"}
EVERYTHING = {"operator": "Exists"}
ALL_NEW = {**EVERYTHING, "effect": "NoSchedule"}
EXPRESSION = {"expression": "taint.key == 'a'"}


async def made(ask: Asked, **fields: Any) -> None:
    manifest = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "sandbox"}}
    code, told = await ask.told("POST", CLASSES, {**manifest, "handler": "runsc", **fields})
    assert code == 201, told


async def pod(ask: Asked, name: str = "a", **spec: Any) -> tuple[int, Data]:
    container = {"name": "c", "image": "i"}
    given = {"runtimeClassName": "sandbox", "containers": [container], **spec}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": given}
    return await ask.told("POST", PODS, manifest)


async def test_a_pod_has_what_its_class_says(ask: Asked) -> None:
    scheduling = {"nodeSelector": {"sandbox": "yes"}, "tolerations": [ANY_GPU]}
    await made(ask, overhead={"podFixed": {"cpu": "250m"}}, scheduling=scheduling)
    _, told = await pod(ask, nodeSelector={"zone": "a"})
    spec = told["spec"]
    assert spec["overhead"] == {"cpu": "250m"}
    assert spec["nodeSelector"] == {"zone": "a", "sandbox": "yes"}
    assert spec["tolerations"] == [*LOST, ANY_GPU]


async def test_a_class_that_says_nothing_changes_nothing(ask: Asked) -> None:
    await made(ask)
    _, told = await pod(ask)
    assert "overhead" not in told["spec"]
    assert "nodeSelector" not in told["spec"]
    assert told["spec"]["tolerations"] == LOST


async def test_a_class_that_changes_counts_for_the_next_pod(ask: Asked) -> None:
    await made(ask, overhead={"podFixed": {"cpu": "1"}})
    for name in ("a", "b", "c"):
        assert (await pod(ask, name))[1]["spec"]["overhead"] == {"cpu": "1"}
    changed = {"overhead": {"podFixed": {"cpu": "2"}}}
    await ask("PATCH", f"{CLASSES}/sandbox", changed, "application/merge-patch+json")
    assert (await pod(ask, "d"))[1]["spec"]["overhead"] == {"cpu": "2"}


@pytest.mark.parametrize(
    ("own", "given", "left"),
    [
        ([ONE_GPU], [ANY_GPU], [*LOST, ANY_GPU]),
        ([ANY_GPU], [ONE_GPU], [ANY_GPU, *LOST]),
        ([ANY_GPU], [ANY_GPU], [ANY_GPU, *LOST]),
        ([ONE_GPU], [EVERYTHING], [EVERYTHING]),
        ([FAST_GPU], [ANY_GPU, FAST_GPU], [FAST_GPU, *LOST, ANY_GPU]),
        ([], [{**LOST[0], "tolerationSeconds": 5}], [*LOST]),
        ([], [{**LOST[0], "tolerationSeconds": 500}], [LOST[1], {**LOST[0], "tolerationSeconds": 500}]),
        ([{**ONE_GPU, "value": "h100"}], [ONE_GPU], [{**ONE_GPU, "value": "h100"}, *LOST, ONE_GPU]),
        ([EXPRESSION], [ALL_NEW], [EXPRESSION, *LOST, ALL_NEW]),
    ],
)
async def test_a_toleration_that_another_includes_is_left_out(
    ask: Asked, own: list[Data], given: list[Data], left: list[Data]
) -> None:
    await made(ask, scheduling={"tolerations": given})
    code, told = await pod(ask, tolerations=own)
    assert code == 201, told
    assert told["spec"]["tolerations"] == left


@pytest.mark.parametrize(
    ("fields", "spec", "why"),
    [
        ({}, {"runtimeClassName": "other"}, 'pod rejected: RuntimeClass "other" not found'),
        (
            {"overhead": {"podFixed": {"cpu": "1"}}},
            {"overhead": {"cpu": "2"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {},
            {"overhead": {"cpu": "2"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            {"scheduling": {"nodeSelector": {"a": "b"}}},
            {"nodeSelector": {"a": "c"}},
            "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c",
        ),
    ],
)
async def test_a_pod_that_contradicts_its_class_is_refused(ask: Asked, fields: Data, spec: Data, why: str) -> None:
    await made(ask, **fields)
    code, told = await pod(ask, **spec)
    assert (code, told["message"]) == (403, f'pods "a" is forbidden: {why}')


async def test_overhead_in_other_words_is_the_same(ask: Asked) -> None:
    await made(ask, overhead={"podFixed": {"cpu": "1"}})
    code, told = await pod(ask, overhead={"cpu": "1000m"})
    assert (code, told["spec"]["overhead"]) == (201, {"cpu": "1"})


async def test_the_tolerations_of_a_class_are_judged_as_those_of_pods(ask: Asked) -> None:
    scheduling = {"tolerations": [{"key": "a", "operator": "Above"}]}
    manifest = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "x"}, "handler": "h"}
    code, told = await ask.told("POST", CLASSES, {**manifest, "scheduling": scheduling})
    assert (code, told["details"]["causes"][0]["field"]) == (422, "scheduling.tolerations[0].operator")
