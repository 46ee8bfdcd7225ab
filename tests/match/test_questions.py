from __future__ import annotations

from typing import Any

import pytest

from moorage.api.node import Node, NodeSelector, Taint
from moorage.api.pod import Toleration
from moorage.match import NONE_ON, DecodeError, Verdict, explain, parse_gates, selects, tolerates

SLA = "example.com/sla"


def taint(value: str, effect: str = "NoSchedule") -> dict[str, Any]:
    return {"key": SLA, "value": value, "effect": effect}


def above(value: str) -> dict[str, Any]:
    return {"key": SLA, "operator": "Gt", "value": value}


def node(*taints: dict[str, Any], name: str = "a", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(taints)},
    }


def pod(*tolerations: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"tolerations": tolerations, **spec}}


def deployment(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": spec}}}


def requires(*requirements: dict[str, Any]) -> dict[str, Any]:
    return {"nodeSelectorTerms": [{"matchExpressions": list(requirements)}]}


NEW = {"key": "kernel", "operator": "SemverGt", "values": ["5.10.0"]}


def word(verdict: Verdict) -> str:
    return "error" if verdict.error else "match" if verdict else "no match"


@pytest.mark.parametrize(
    ("pods", "nodes", "answer"),
    [
        (above("900"), taint("950"), "match"),
        (above("900"), taint("800"), "no match"),
        (above("900"), taint("high"), "error"),
        (above("900"), taint("800", "PreferNoSchedule"), "no match"),
        ([above("900"), {"operator": "Exists"}], taint("high"), "match"),
        ([above("900")], [taint("950"), taint("800", "PreferNoSchedule")], "match"),
        ([above("900")], [taint("high"), taint("800")], "no match"),
        ([above("900")], [taint("950"), taint("high")], "error"),
        (pod(above("900")), node(taint("950"), taint("100", "PreferNoSchedule")), "match"),
        (pod(above("900")), node(taint("950"), taint("100", "NoExecute")), "no match"),
        (pod(), node(), "match"),
        (deployment(tolerations=[above("900")]), node(taint("950")), "match"),
        (Toleration(SLA, "Gt", "900"), Taint(SLA, "950", "NoSchedule"), "match"),
        ((Toleration(SLA, "Gt", "900"),), (Taint(SLA, "800", "NoSchedule"),), "no match"),
    ],
)
def test_tolerates_has_three_answers_for_objects_and_for_parts(pods: Any, nodes: Any, answer: str) -> None:
    assert word(tolerates(pods, nodes)) == answer


@pytest.mark.parametrize(
    ("selector", "labels", "answer"),
    [
        (pod(nodeSelector={"disk": "ssd"}), {"disk": "ssd"}, "match"),
        (pod(nodeSelector={"disk": "ssd"}), {}, "no match"),
        (requires(NEW), {"kernel": "5.15.3"}, "match"),
        (requires(NEW), {"kernel": "5.4.0"}, "no match"),
        (requires(NEW), {"kernel": "new"}, "error"),
        (NodeSelector(), {}, "no match"),
        (deployment(nodeSelector={"disk": "ssd"}), {"disk": "ssd"}, "match"),
        (
            {"apiVersion": "v1", "kind": "PersistentVolume", "spec": {"nodeAffinity": {"required": requires(NEW)}}},
            {"kernel": "5.4.0"},
            "no match",
        ),
        ({"apiVersion": "v1", "kind": "PersistentVolume", "spec": {}}, {}, "match"),
    ],
)
def test_selects_has_three_answers_for_pods_volumes_and_selectors(
    selector: Any, labels: dict[str, str], answer: str
) -> None:
    assert word(selects(selector, node(**labels))) == answer


def test_explain_says_what_each_taint_and_each_term_lacks() -> None:
    demanding = pod(
        above("900"),
        nodeSelector={"disk": "ssd"},
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": requires(NEW)}},
    )
    assert explain(demanding, node(taint("800"), kernel="5.4.0")) == [
        "taint example.com/sla=800:NoSchedule: 800 is not greater than 900 (`Gt 900`)",
        "`disk=ssd`: the node has no label disk",
        "`kernel SemverGt [5.10.0]`: the label is 5.4.0",
    ]
    assert explain(demanding, node(taint("950"), disk="ssd", kernel="5.15.3")) == []


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        ({"nodeSelectorTerms": []}, "a node selector without terms selects no node"),
        ({"nodeSelectorTerms": [{}]}, "a node selector term without conditions selects no node"),
        (
            requires({"key": "kernel", "operator": "Near", "values": ["5"]}),
            'kernel Near [5]: "Near" is not a valid selector operator',
        ),
    ],
)
def test_explain_says_what_is_wrong_with_a_selector(selector: dict[str, Any], reason: str) -> None:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}
    assert explain(pod(affinity=affinity), node()) == [reason]


def test_gates_are_on_unless_one_says_otherwise() -> None:
    assert not tolerates(above("900"), taint("950"), NONE_ON)
    assert tolerates(above("900"), taint("950"), parse_gates("TaintTolerationComparisonOperators=true"))
    (reason,) = explain(pod(above("900")), node(taint("950")), NONE_ON)
    assert reason.endswith("`Gt` needs the feature gate TaintTolerationComparisonOperators, which is off")


def test_typed_objects_are_taken_as_they_are() -> None:
    assert selects(pod(nodeSelector={}), Node())


@pytest.mark.parametrize(
    ("pods", "nodes", "error", "message"),
    [
        (above("900") | {"value": 900}, taint("1"), DecodeError, "value: expected a string, got an integer: put it in"),
        (pod(), pod(), TypeError, "a Pod is no node"),
        (node(), node(), TypeError, "a Node is no pod and has no pod template"),
        ({"apiVersion": "v1", "kind": "Secret"}, node(), TypeError, "a Secret is no pod and has no pod template"),
        ({"kind": "Pod"}, node(), DecodeError, "apiVersion: is missing"),
    ],
)
def test_what_is_neither_is_refused(pods: Any, nodes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tolerates(pods, nodes)
