"""What a profile says about a pod and every node, asked without an API server and without a queue."""

from __future__ import annotations

from moorage.scheduler.config import Configuration
from moorage.scheduler.cycle import NodeReason
from tests.scheduler.profile_on_table import ProfileOnTable, node, pod

ELSEWHERE = "node(s) didn't match the requested node name"
GPU = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}


def with_nodes(*names: str) -> ProfileOnTable:
    engine = ProfileOnTable()
    for name in names:
        engine.table.set_node(node(name))
    return engine


def test_every_node_has_a_score_or_the_reasons_of_the_plugin_that_rejects_it_first() -> None:
    engine = with_nodes("free", "full")
    engine.table.set_node(node("tainted", {}, GPU, room={"cpu": "1", "memory": "1Gi", "pods": "1"}))
    engine.table.add_pod(engine.info(pod({"cpu": "4", "memory": "8Gi"}), "full"))
    evaluation = engine.evaluate(pod({"cpu": "2", "memory": "4Gi"}))
    assert evaluation.rejected is None
    assert evaluation.reasons == {
        "full": [
            NodeReason("NodeResourcesFit", "Insufficient cpu", resolvable=True, parse_error=False),
            NodeReason("NodeResourcesFit", "Insufficient memory", resolvable=True, parse_error=False),
        ],
        "tainted": [
            NodeReason("TaintToleration", "node(s) had untolerated taint(s)", resolvable=False, parse_error=False),
        ],
    }
    assert set(evaluation.scores) == {"free"}


def test_the_node_with_the_highest_score_is_the_one_that_the_pod_is_placed_on() -> None:
    engine = ProfileOnTable(configuration=Configuration())
    for name in ("empty", "used"):
        engine.table.set_node(node(name))
    engine.table.set_node(node("preferred", {"disk": "ssd"}))
    engine.table.add_pod(engine.info(pod({"cpu": "3", "memory": "6Gi"}), "used"))
    term = {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
    preferred = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    asked = pod({"cpu": "1", "memory": "2Gi"}, affinity=preferred)
    scores = engine.evaluate(asked).scores
    assert sorted(scores, key=lambda name: scores[name]) == ["used", "empty", "preferred"]
    assert engine.best(asked) == {"preferred"}


def test_a_value_that_cannot_be_parsed_is_told_apart() -> None:
    engine = ProfileOnTable()
    engine.table.set_node(node("odd", {}, {"key": "sla", "value": "high", "effect": "NoSchedule"}))
    tolerations = [{"key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"}]
    (reason,) = engine.evaluate(pod(tolerations=tolerations)).reasons["odd"]
    assert reason.parse_error


def test_nominated_pods_do_not_count_when_nodes_are_scored() -> None:
    engine = ProfileOnTable()
    for name in ("empty", "kept"):
        engine.table.set_node(node(name))
    engine.table.add_pod(engine.info(pod({"cpu": "1", "memory": "2Gi"}), "empty"))
    engine.handle.nominations.nominate(engine.info(pod({"cpu": "3", "memory": "6Gi"}, priority=10)), "kept")
    assert engine.best(pod({"cpu": "1", "memory": "1Gi"})) == {"kept"}


def test_room_that_is_kept_for_nominated_pods_is_a_reason() -> None:
    engine = with_nodes("only")
    engine.handle.nominations.nominate(engine.info(pod({"cpu": "3"}, priority=10)), "only")
    (reason,) = engine.evaluate(pod({"cpu": "2"})).reasons["only"]
    assert reason.reason == "Insufficient cpu"
    assert set(engine.evaluate(pod({"cpu": "2"}, priority=20)).scores) == {"only"}


def test_names_that_contradict_each_other_reject_the_pod_before_any_node() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("a", "b")]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}}
    evaluation = with_nodes("a", "b").evaluate(pod(affinity={"nodeAffinity": required}))
    assert evaluation.rejected is not None
    assert evaluation.rejected.reason == "pod affinity terms conflict"
    assert not evaluation.scores
    assert not evaluation.reasons


def test_a_pod_that_names_its_node_is_rejected_by_all_others() -> None:
    engine = with_nodes("a", "b", "c")
    named = pod({"cpu": "1"}, nodeName="b")
    assert engine.place(named).node == "b"
    evaluation = engine.evaluate(named)
    assert set(evaluation.scores) == {"b"}
    reason = NodeReason("NodeName", ELSEWHERE, resolvable=False, parse_error=False)
    assert evaluation.reasons == {"a": [reason], "c": [reason]}


def test_a_pod_that_names_a_node_that_is_not_there_is_told_so() -> None:
    assert with_nodes("a", "b").message(pod(nodeName="gone")) == f"0/2 nodes are available: 2 {ELSEWHERE}."


def test_pods_of_one_template_share_a_shape_whichever_node_they_are_on() -> None:
    shapes = ProfileOnTable().shapes
    waiting = shapes.info(pod({"cpu": "1"}))
    assert {shapes.assigned(pod({"cpu": "1"}, nodeName=name)).shape for name in ("", "a", "b")} == {waiting.shape}
    assert shapes.info(pod({"cpu": "1"}, nodeName="a")).shape is not waiting.shape
