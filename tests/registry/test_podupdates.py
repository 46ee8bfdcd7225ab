from __future__ import annotations

import copy
from typing import Any

import pytest

from moorage.registry.pod.pods import pod_errors
from tests.registry.pods import a_pod

UPDATABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def changed(old: dict[str, Any], **spec: Any) -> list[str]:
    new = copy.deepcopy(old)
    new["spec"].update(spec)
    return [str(error) for error in pod_errors(new, old)]


def test_a_pod_may_change_its_images_and_shorten_its_time() -> None:
    old = a_pod({}, activeDeadlineSeconds=60)
    containers = copy.deepcopy(old["spec"]["containers"])
    containers[0]["image"] = "a:2"
    assert changed(old, containers=containers, activeDeadlineSeconds=30) == []
    assert changed(a_pod(), activeDeadlineSeconds=30) == []
    assert changed(old, tolerations=[{"key": "a", "operator": "Exists"}]) == []
    assert changed(old, hostNetwork=False, volumes=[]) == []


@pytest.mark.parametrize(
    ("deadline", "problem"),
    [
        (90, "Invalid value: 90: must be less than or equal to previous value"),
        (-1, "Invalid value: -1: must be between 0 and 2147483647, inclusive"),
    ],
)
def test_the_time_of_a_pod_only_gets_shorter(deadline: int, problem: str) -> None:
    errors = changed(a_pod(activeDeadlineSeconds=60), activeDeadlineSeconds=deadline)
    assert errors[-1] == f"spec.activeDeadlineSeconds: {problem}"


def test_the_time_of_a_pod_cannot_be_lifted() -> None:
    old = a_pod(activeDeadlineSeconds=60)
    new = copy.deepcopy(old)
    del new["spec"]["activeDeadlineSeconds"]
    assert [str(error) for error in pod_errors(new, old)] == [
        "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"
    ]


def test_other_fields_of_a_pod_stay_and_the_message_says_which_did_not() -> None:
    old = a_pod({"command": ["a"]}, nodeName="one")
    containers = copy.deepcopy(old["spec"]["containers"])
    containers[0]["command"] = ["b"]
    assert changed(old, containers=containers, nodeName="two", priority=5) == [
        f"spec: Forbidden: {UPDATABLE}\n"
        '- spec.containers[0].command[0]: "a"\n'
        '+ spec.containers[0].command[0]: "b"\n'
        '- spec.nodeName: "one"\n'
        '+ spec.nodeName: "two"\n'
        "+ spec.priority: 5"
    ]


def test_containers_cannot_be_added_to_a_pod() -> None:
    old = a_pod()
    more = [*old["spec"]["containers"], {**old["spec"]["containers"][0], "name": "more"}]
    assert changed(old, containers=more) == ["spec.containers: Forbidden: pod updates may not add or remove containers"]


def test_a_negative_grace_period_may_become_one_second() -> None:
    old = a_pod()
    old["spec"]["terminationGracePeriodSeconds"] = -5
    assert changed(old, terminationGracePeriodSeconds=1) == []
    assert changed(a_pod(), terminationGracePeriodSeconds=1)[0].startswith("spec: Forbidden: pod updates may not")


def test_node_affinity_is_judged_elsewhere_but_not_that_of_pods() -> None:
    node: dict[str, Any] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    }
    assert changed(a_pod(), affinity=node) == []
    both = {**node, "podAffinity": {}}
    assert changed(a_pod(), affinity=both)[0].endswith('\n+ spec.affinity: {"podAffinity":{}}')


def test_a_mirror_pod_stays_one() -> None:
    old = a_pod()
    new = copy.deepcopy(old)
    new["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    path = "metadata.annotations[kubernetes.io/config.mirror]"
    assert [str(error) for error in pod_errors(new, old)] == [f"{path}: Forbidden: may not add mirror pod annotation"]
    assert [str(error) for error in pod_errors(old, new)] == [
        f"{path}: Forbidden: may not remove or update mirror pod annotation"
    ]


def test_containers_that_look_into_a_pod_are_judged_when_it_changes() -> None:
    old = a_pod()
    new = copy.deepcopy(old)
    new["spec"]["ephemeralContainers"] = [
        {"name": "c", "image": "a", "targetContainerName": "x", "ports": [{"containerPort": 1, "protocol": "TCP"}],
         "resources": {"limits": {"cpu": "1"}}, "imagePullPolicy": "Always", "terminationMessagePolicy": "File"},
    ]  # fmt: skip
    assert [str(error) for error in pod_errors(new, old)][:4] == [
        'spec.ephemeralContainers[0].name: Duplicate value: "c"',
        'spec.ephemeralContainers[0].targetContainerName: Not found: "x"',
        "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
        "spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container",
    ]
