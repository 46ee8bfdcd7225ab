"""What may change of a pod through its sub-resources: containers are added to look into it, resources are resized."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from moorage.registry.pod.strategy import POD
from tests.apiserver.asked import MERGE, Asked, Data
from tests.registry.pods import a_pod

PODS = "/api/v1/namespaces/default/pods"
DEBUGGER = {"name": "debugger", "image": "a", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}
MUTABLE = "only cpu and memory resources are mutable"


def told(new: Data, old: Data, part: str) -> list[str]:
    return [str(error) for error in POD.parts[part].errors(new, old)]


def looked_into(old: Data, *containers: Data) -> list[str]:
    new = copy.deepcopy(old)
    new["spec"]["ephemeralContainers"] = list(containers)
    return told(new, old, "ephemeralcontainers")


def resized(old: Data, resources: Data, /, **more: Any) -> list[str]:
    new = copy.deepcopy(old)
    new["spec"]["containers"][0]["resources"] = resources
    new["spec"] |= more
    return told(new, old, "resize")


def with_requests(**amounts: str) -> Data:
    return a_pod({"resources": {"requests": amounts}})


def annotated(pod: Data) -> Data:
    pod["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    pod["spec"]["nodeName"] = "n"
    return pod


def test_containers_are_added_and_stay_as_they_are() -> None:
    old = a_pod()
    assert looked_into(old, DEBUGGER) == []
    old["spec"]["ephemeralContainers"] = [DEBUGGER]
    assert looked_into(old, {**DEBUGGER, "name": "second"}, DEBUGGER) == []
    assert looked_into(old) == [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "debugger" may not be removed'
    ]
    assert looked_into(old, {**DEBUGGER, "image": "b"}) == [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "debugger" may not be changed\n'
        '- spec.ephemeralContainers.image: "a"\n+ spec.ephemeralContainers.image: "b"'
    ]


def test_a_container_that_is_added_is_judged() -> None:
    assert looked_into(a_pod(), {**DEBUGGER, "name": "A"})[0].startswith(
        "spec.ephemeralContainers[0].name: Invalid value"
    )


def test_nobody_looks_into_a_static_pod_nor_resizes_it() -> None:
    old = annotated(a_pod())
    assert looked_into(old, DEBUGGER) == [": Forbidden: static pods do not support ephemeral containers"]
    assert resized(old, {}) == [": Forbidden: static pods cannot be resized"]


def test_a_pod_gets_more_or_less_cpu_and_memory() -> None:
    old = with_requests(cpu="1", **{"ephemeral-storage": "1Gi"})
    assert resized(old, {"requests": {"cpu": "2", "memory": "1Gi", "ephemeral-storage": "1Gi"}}) == []
    assert resized(old, {"requests": {"cpu": "500m", "ephemeral-storage": "1024Mi"}}) == []


@pytest.mark.parametrize(
    ("resources", "errors"),
    [
        ({"requests": {"cpu": "1", "ephemeral-storage": "2Gi"}}, [f"spec: Forbidden: {MUTABLE}"]),
        ({"requests": {"ephemeral-storage": "1Gi"}}, [
            'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing',
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"]),
        ({"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}, "claims": [{"name": "c"}]}, [
            f"spec: Forbidden: {MUTABLE}"]),
    ],
)  # fmt: skip
def test_nothing_else_of_its_resources_changes(resources: Data, errors: list[str]) -> None:
    old = with_requests(cpu="1", **{"ephemeral-storage": "1Gi"})
    old["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
    old["status"] = {"qosClass": "Burstable"}
    assert resized(old, resources) == errors


def test_containers_stay_in_number_name_and_order() -> None:
    old = with_requests(cpu="1")
    (main,) = old["spec"]["containers"]
    forbidden = "spec.containers: Forbidden: containers may not be added or removed on resize"
    assert resized(old, {}, containers=[main, {**main, "name": "d"}])[-1] == forbidden
    renamed = "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"
    assert resized(old, {}, containers=[{**main, "name": "d"}])[-1] == renamed
    added = "spec.initContainers: Forbidden: initContainers may not be added or removed on resize"
    assert resized(old, main["resources"], initContainers=[{**main, "name": "i"}])[-1] == added


def test_init_containers_are_resized_likewise() -> None:
    old = with_requests(cpu="1")
    first = {**old["spec"]["containers"][0], "name": "i"}
    old["spec"]["initContainers"] = [first]
    resources = old["spec"]["containers"][0]["resources"]
    more = {**first, "resources": {"requests": {"cpu": "2"}}}
    assert resized(old, resources, initContainers=[more]) == []
    policy = [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]
    assert resized(old, resources, initContainers=[{**first, "resizePolicy": policy}]) == [
        "spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar containers are mutable"
    ]


def test_a_whole_pod_is_resized() -> None:
    old = a_pod(resources={"requests": {"cpu": "1"}})
    assert resized(old, {}, resources={"requests": {"cpu": "2"}}) == []
    assert resized(old, {}, resources={"requests": {"memory": "1Gi"}}) == [
        "spec.resources.requests: Forbidden: pod-level resource requests cannot be removed"
    ]
    new = copy.deepcopy(old)
    del new["spec"]["resources"]
    assert told(new, old, "resize")[-1] == "spec.resources: Forbidden: pod-level resources cannot be removed"
    large = {"requests": {"cpu": "1"}, "limits": {"hugepages-2Mi": "2Mi"}}
    assert "spec: Forbidden: only cpu and memory resources are mutable at pod-level" in resized(
        old, {}, resources=large
    )


def test_a_pod_is_resized_where_its_kubelet_can() -> None:
    old = with_requests(cpu="1")
    running = {"name": "c", "state": {"running": {}}}
    old["status"] = {"containerStatuses": [running]}
    wanted = {"requests": {"cpu": "2"}}
    assert resized(old, wanted) == ["spec: Forbidden: Pod running on node without support for resize"]
    running["resources"] = {}
    assert resized(old, wanted) == []
    old["spec"]["os"] = {"name": "windows"}
    assert resized(old, wanted) == [": Forbidden: windows pods cannot be resized"]


async def test_a_resize_does_not_replace_a_pod(ask: Asked) -> None:
    made = a_pod()
    await ask("POST", PODS, made)
    name = made["metadata"]["name"]
    sneaky = {"spec": {"nodeName": "n", "containers": [{"name": "other", "image": "other"}]}}
    code, refused = await ask.told("PATCH", f"{PODS}/{name}/resize", sneaky, MERGE)
    assert (code, refused["reason"]) == (422, "Invalid")
    _, kept = await ask.told("GET", f"{PODS}/{name}")
    assert "nodeName" not in kept["spec"]
