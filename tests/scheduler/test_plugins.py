"""What each plugin says of a node: the inputs and numbers of kube-scheduler's own unit tests."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.features import NONE_ON
from tests.scheduler.profile_on_table import AskedPlugin, ProfileOnTable, node, pod

Data = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NO_MATCH = "node(s) didn't match Pod's node affinity/selector"
EFFECTS = {"N": "NoSchedule", "P": "PreferNoSchedule", "X": "NoExecute", "": ""}
MB = 1024 * 1024


def taint(text: str) -> Data:
    """`key=value:effect`, with N, P and X for the effects."""
    rest, effect = text.rsplit(":", 1)
    key, _, value = rest.partition("=")
    return {
        "key": key,
        "value": value,
        "effect": {"N": "NoSchedule", "P": "PreferNoSchedule", "X": "NoExecute"}[effect],
    }


def tolerates(text: str) -> Data:
    """`key operator value:effect`, with `-` for what is not given."""
    rest, effect = text.rsplit(":", 1)
    key, operator, value = (part.replace("-", "") if part == "-" else part for part in rest.split(" "))
    return {"key": key, "operator": operator, "value": value, "effect": EFFECTS[effect]}


@pytest.mark.parametrize(
    ("tolerations", "taints", "expected"),
    [
        (["foo Equal bar:P"], [["foo=bar:P"], ["foo=blah:P"]], [100, 0]),
        (["cpu Equal arm64:P", "disk Equal ssd:P"], [[], ["cpu=arm64:P"], ["cpu=arm64:P", "disk=ssd:P"]], [100] * 3),
        (["foo Equal bar:P"], [[], ["cpu=arm64:P"], ["cpu=arm64:P", "disk=ssd:P"]], [100, 50, 0]),
        (["cpu Equal arm64:N", "disk Equal ssd:N"], [[], ["cpu=arm64:N"], ["cpu=arm64:P", "disk=ssd:P"]],
         [100, 100, 0]),
        ([], [[], ["cpu=arm64:P"]], [100, 0]),
        (["sla Gt 950:P"], [["sla=800:P"], ["sla=999:P"]], [0, 100]),
        (["sla Lt 800:P"], [["sla=950:P"], ["sla=700:P"]], [0, 100]),
        (["runtime SemverGt 2.0.0:P"], [["runtime=1.7.2:P"], ["runtime=2.1.4:P"]], [0, 100]),
        (["ready.io/* Exists -:P"], [["ready.io/cni:P"], ["other.io/cni:P"]], [100, 0]),
        (["sla Gt 950:"], [["sla=high:P"], ["sla=999:P"]], [0, 100]),
    ],
)  # fmt: skip
def test_taints_that_ask_a_pod_to_go_elsewhere(
    tolerations: list[str], taints: list[list[str]], expected: list[int]
) -> None:
    nodes = [node(f"node{number}", {}, *map(taint, each)) for number, each in enumerate(taints)]
    asked = pod(tolerations=[*map(tolerates, tolerations)])
    assert AskedPlugin("TaintToleration", nodes).scores(asked) == expected


@pytest.mark.parametrize("expression", ['taint.key == "sla"', "int(taint.value) > 950"])
def test_an_expression_counts_for_taints_that_only_ask(expression: str) -> None:
    nodes = [node("asks", {}, taint("sla=999:P")), node("asks-more", {}, taint("sla=999:P"), taint("gpu:P"))]
    asked = pod(tolerations=[{"expression": expression}])
    assert AskedPlugin("TaintToleration", nodes).scores(asked) == [100, 0]
    assert AskedPlugin("TaintToleration", nodes, gates=NONE_ON).scores(asked) == [50, 0]


@pytest.mark.parametrize(
    ("tolerations", "taints", "tolerated"),
    [
        ([], ["dedicated=user1:N"], False),
        (["dedicated Equal user1:N"], ["dedicated=user1:N"], True),
        (["dedicated Equal user2:N"], ["dedicated=user1:N"], False),
        (["foo Exists -:N"], ["foo=bar:N"], True),
        (["dedicated Equal user2:N", "foo Exists -:N"], ["dedicated=user2:N", "foo=bar:N"], True),
        (["foo Equal bar:P"], ["foo=bar:N"], False),
        (["foo Equal bar:"], ["foo=bar:N"], True),
        (["dedicated Equal user2:N"], ["dedicated=user1:P"], True),
        (["- Exists -:"], ["a=1:N", "b=2:X"], True),
        (["sla Gt 950:N"], ["sla=990:N"], True),
        (["sla Gt 950:N"], ["sla=900:N"], False),
        (["sla Gt 950:N"], ["sla=high:N"], False),
        (["sla Lt 950:X"], ["sla=-5:X"], True),
        (["kernel SemverGt 5.15:N"], ["kernel=v6.1:N"], True),
        (["kernel SemverLt 5.15.0:N"], ["kernel=5.15.0-1034-aws:N"], True),
        (["readiness.io/* Exists -:N"], ["readiness.io/cni:N", "other.io/cni:N"], False),
    ],
)
def test_a_taint_that_is_not_tolerated_keeps_a_pod_away(
    tolerations: list[str], taints: list[str], tolerated: bool
) -> None:
    here = AskedPlugin("TaintToleration", [node("tainted", {}, *map(taint, taints))])
    expected = [] if tolerated else ["node(s) had untolerated taint(s)"]
    assert here.refusals(pod(tolerations=[*map(tolerates, tolerations)])) == [(expected, tolerated)]


def test_a_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    here = AskedPlugin("NodeUnschedulable", [node("open"), node("cordoned", unschedulable=True)])
    assert here.refusals(pod()) == [([], True), (["node(s) were unschedulable"], False)]
    tolerant = pod(tolerations=[tolerates("node.kubernetes.io/unschedulable Exists -:N")])
    assert here.reasons(tolerant) == [[], []]


def expression(key: str, operator: str, *values: str) -> Data:
    return {"key": key, "operator": operator, "values": list(values)}


def has(key: str, *values: str) -> Data:
    return expression(key, "In", *values) if values else expression(key, "Exists")


def term(*expressions: Data, name: str = "", cel: str = "") -> Data:
    fields = [expression("metadata.name", "In", name)] if name else []
    return {"matchExpressions": [*expressions], "matchFields": fields, "matchCELExpressions": [cel] if cel else []}


def required(*terms: Data) -> Data:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*terms]}}}


@pytest.mark.parametrize(
    ("spec", "labels", "matches"),
    [
        ({"nodeSelector": {"foo": "bar"}}, {}, False),
        ({"nodeSelector": {"foo": "bar"}}, {"foo": "bar"}, True),
        ({"nodeSelector": {"foo": "bar"}}, {"foo": "bar", "baz": "blah"}, True),
        ({"nodeSelector": {"foo": "bar", "baz": "blah"}}, {"foo": "bar"}, False),
        ({"affinity": required(term(has("foo", "bar", "value2")))}, {"foo": "bar"}, True),
        ({"affinity": required(term(expression("kernel", "Gt", "0204")))}, {"kernel": "0206"}, True),
        ({"affinity": required(term(expression("mem", "NotIn", "w", "z")))}, {"mem": "x"}, True),
        ({"affinity": required(term(has("gpu")))}, {"gpu": "nvidia"}, True),
        ({"affinity": required(term(has("foo", "v1", "v2")))}, {"foo": "bar"}, False),
        ({"affinity": required(term())}, {"foo": "bar"}, False),
        ({}, {"foo": "bar"}, True),
        ({"affinity": {"nodeAffinity": {}}}, {"foo": "bar"}, True),
        ({"affinity": required(term(has("gpu"), expression("gpu", "NotIn", "amd")))}, {"gpu": "x"}, True),
        ({"affinity": required(term(has("gpu"), has("gpu", "amd")))}, {"gpu": "x"}, False),
        ({"affinity": required(term(has("foo", "a")), term(has("x", "b")))}, {"foo": "a"}, True),
        ({"affinity": required(term(has("foo"))), "nodeSelector": {"foo": "bar"}}, {"foo": "bar"}, True),
        ({"affinity": required(term(has("foo"))), "nodeSelector": {"foo": "bar"}}, {"foo": "b"}, False),
        ({"affinity": required(term(expression("foo", "NotIn", "invalid value: ___@#"))) }, {"foo": "bar"}, False),
        ({"affinity": required(term(name="node1"))}, {}, True),
        ({"affinity": required(term(name="node2"))}, {}, False),
        ({"affinity": required(term(name="node2"), term(has("foo", "bar")))}, {"foo": "bar"}, True),
        ({"affinity": required(term(has("foo", "bar"), name="node2"))}, {"foo": "bar"}, False),
        ({"affinity": required(term(has("foo", "bar"), name="node1"))}, {"foo": "bar"}, True),
        ({"affinity": required(term(name="node2"), term(has("foo", "not")))}, {"foo": "bar"}, False),
        ({"affinity": required(term(name="node1"), term(name="node2"))}, {}, True),
        ({"affinity": required(term(expression("kernel", "SemverGt", "5.10")))}, {"kernel": "5.15.0"}, True),
        ({"affinity": required(term(expression("kernel", "SemverGt", "5.10")))}, {"kernel": "new"}, False),
        ({"affinity": required(term(cel='node.labels["rack"].startsWith("us")'))}, {"rack": "us-1"}, True),
        ({"affinity": required(term(cel='node.labels["rack"].startsWith("us")'))}, {}, False),
        ({"affinity": required(term(has("a"), cel='node.labels["rack"] == "b"'))}, {"a": "1"}, False),
    ],
)  # fmt: skip
def test_a_node_must_have_what_a_pod_selects(spec: Data, labels: dict[str, str], matches: bool) -> None:
    here = AskedPlugin("NodeAffinity", [node("node1", labels)])
    assert here.refusals(pod(**spec)) == [([] if matches else [NO_MATCH], matches)]


def test_two_names_at_once_match_no_node() -> None:
    both = term(name="node1")
    both["matchFields"].append(expression("metadata.name", "In", "node2"))
    here = AskedPlugin("NodeAffinity", [node("node1"), node("node2")])
    assert here.reasons(pod(affinity=required(both))) == [[NO_MATCH], [NO_MATCH]]


def test_a_pod_that_names_its_nodes_is_not_told_what_is_wrong_with_the_others() -> None:
    engine = ProfileOnTable()
    tainted = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    for each in (node("small", room={"cpu": "1", "pods": "10"}), node("tainted", {}, tainted), node("open")):
        engine.table.set_node(each)
    assert engine.message(pod({"cpu": "2"}, affinity=required(term(name="small")))) == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    unlabelled = required(term(has("zone"), name="open"), term(name="gone"))
    assert engine.message(pod(affinity=unlabelled)) == (
        f"0/3 nodes are available: 1 {NO_MATCH}, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_names_that_no_node_can_have_at_once_are_told_as_a_conflict() -> None:
    engine = ProfileOnTable()
    engine.table.set_node(node("node1"))
    both = term(name="node1")
    both["matchFields"].append(expression("metadata.name", "In", "node2"))
    conflict = "0/1 nodes are available: pod affinity terms conflict."
    assert engine.message(pod(affinity=required(both))) == conflict
    assert engine.place(pod(affinity=required(both, term(name="node1")))).node == "node1"


def test_what_the_profile_adds_must_match_as_well() -> None:
    added = {"addedAffinity": {REQUIRED: {"nodeSelectorTerms": [term(expression("zone", "In", "bar"))]}}}
    here = AskedPlugin(
        "NodeAffinity", [node("a", {"zone": "bar"}), node("b", {"zone": "bar", "x": "1"}), node("c")], args=added
    )
    enforced = "node(s) didn't match scheduler-enforced node affinity"
    assert here.reasons(pod()) == [[], [], [enforced]]
    assert here.reasons(pod(nodeSelector={"x": "1"})) == [[NO_MATCH], [], [enforced]]


def preferred(*terms: tuple[int, Data]) -> Data:
    return {PREFERRED: [{"weight": weight, "preference": each} for weight, each in terms]}


FOO_BAR_TERM = (2, term(expression("foo", "In", "bar")))
KEY_VALUE = expression("key", "In", "value")
ALL_THREE = term(expression("foo", "In", "bar"), KEY_VALUE, expression("az", "In", "az1"))
LABELS: dict[int, dict[str, str]] = {
    1: {"foo": "bar"}, 2: {"key": "value"}, 3: {"az": "az1"}, 4: {"abc": "az11", "def": "az22"},
    5: {"foo": "bar", "key": "value", "az": "az1"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("mine", "added", "nodes", "expected"),
    [
        ((), (), [1, 2, 3], [0, 0, 0]),
        ([FOO_BAR_TERM], (), [4, 2, 3], [0, 0, 0]),
        ([FOO_BAR_TERM], (), [1, 2, 3], [100, 0, 0]),
        ([FOO_BAR_TERM, (4, term(KEY_VALUE)), (5, ALL_THREE)], (), [1, 5, 2], [18, 100, 36]),
        ((), [FOO_BAR_TERM], [1, 2], [100, 0]),
        ([FOO_BAR_TERM], [(3, term(KEY_VALUE))], [1, 2, 5], [40, 60, 100]),
        ([(9, term(cel='"foo" in node.labels'))], (), [1, 2], [100, 0]),
        ([(9, term(expression("az", "DoesNotExist"), cel='node.labels["foo"] == "bar"'))], (), [1, 5], [100, 0]),
    ],
)
def test_preferred_terms_add_their_weights(mine: Any, added: Any, nodes: list[int], expected: list[int]) -> None:
    made = [node(f"node{number}", LABELS[number]) for number in nodes]
    here = AskedPlugin("NodeAffinity", made, args={"addedAffinity": preferred(*added)})
    assert here.scores(pod(affinity={"nodeAffinity": preferred(*mine)})) == expected


def ports(*texts: str) -> list[Data]:
    split = (text.split("/") for text in texts)
    return [{"protocol": protocol, "hostIP": ip, "hostPort": int(port)} for protocol, ip, port in split]


@pytest.mark.parametrize(
    ("wanted", "taken", "conflict"),
    [
        ([], [], False),
        (["UDP/127.0.0.1/8080"], ["UDP/127.0.0.1/9090"], False),
        (["UDP/127.0.0.1/8080"], ["UDP/127.0.0.1/8080"], True),
        (["TCP/127.0.0.1/8080"], ["TCP/127.0.0.1/8080"], True),
        (["TCP/127.0.0.1/8080"], ["TCP/127.0.0.2/8080"], False),
        (["UDP/127.0.0.1/8080"], ["TCP/127.0.0.1/8080"], False),
        (["UDP/127.0.0.1/8000", "UDP/127.0.0.1/8080"], ["UDP/127.0.0.1/8080"], True),
        (["TCP/127.0.0.1/8001", "UDP/127.0.0.1/8080"], ["TCP/127.0.0.1/8001", "UDP/127.0.0.1/8081"], True),
        (["TCP/0.0.0.0/8001"], ["TCP/127.0.0.1/8001"], True),
        (["TCP/10.0.10.10/8001", "TCP/0.0.0.0/8001"], ["TCP/127.0.0.1/8001"], True),
        (["TCP/127.0.0.1/8001"], ["TCP/0.0.0.0/8001"], True),
        (["UDP/127.0.0.1/8001"], ["TCP/0.0.0.0/8001"], False),
        (["UDP/127.0.0.1/8001"], ["TCP/0.0.0.0/8001", "UDP/0.0.0.0/8001"], True),
    ],
)
def test_host_ports_that_are_taken_keep_a_pod_away(wanted: list[str], taken: list[str], conflict: bool) -> None:
    there = pod(containers=[{"ports": ports(*taken)}])
    here = AskedPlugin("NodePorts", [node("only")], {"only": [there]})
    reasons = ["node(s) didn't have free ports for the requested pod ports"] if conflict else []
    assert here.refusals(pod(containers=[{"ports": ports(*wanted)}])) == [(reasons, True)]
    sidecar = {"restartPolicy": "Always", "ports": ports(*wanted)}
    assert here.reasons(pod(initContainers=[sidecar])) == [reasons]
    assert here.reasons(pod(initContainers=[{"ports": ports(*wanted)}])) == [[]]


IMAGES = {
    "40-300-2000": (40, 300, 2000), "250-10": (250, 10), "600-40-900": (600, 40, 900), "300-600-900": (300, 600, 900),
    "4000-30": (4000, 30), "20-30-40": (20, 30, 40), "none": (),
}  # fmt: skip


@pytest.mark.parametrize(
    ("containers", "init", "volumes", "nodes", "expected"),
    [
        ([40, 250], [], [], ["40-300-2000", "250-10"], [0, 5]),
        ([40, 300], [], [], ["40-300-2000", "250-10"], [7, 0]),
        ([10, 4000], [], [], ["4000-30", "250-10"], [100, 0]),
        ([10, 4000], [], [], ["4000-30", "250-10", "none"], [66, 0, 0]),
        ([300, 600, 900], [], [], ["600-40-900", "300-600-900", "none"], [32, 36, 0]),
        ([30, 40], [], [], ["20-30-40", "4000-30"], [1, 0]),
        ([30], [], [300], ["300-600-900", "4000-30"], [6, 0]),
        ([30, 300], [], [], ["300-600-900", "4000-30"], [6, 0]),
        ([30], [300], [], ["40-300-2000", "20-30-40"], [6, 0]),
        ([77], [], [], ["40-300-2000", "20-30-40"], None),
    ],
)
def test_images_that_are_there_already_make_a_better_score(
    containers: list[int], init: list[int], volumes: list[int], nodes: list[str], expected: list[int] | None
) -> None:
    made = [node(name, images={f"example.com/{size}:latest": size * MB for size in IMAGES[name]}) for name in nodes]
    asked = pod(
        containers=[{"image": f"example.com/{size}"} for size in containers],
        initContainers=[{"image": f"example.com/{size}"} for size in init],
        volumes=[{"name": f"v{size}", "image": {"reference": f"example.com/{size}"}} for size in volumes],
    )
    assert AskedPlugin("ImageLocality", made).scores(asked) == expected


def test_scheduling_gates_hold_a_pod_back() -> None:
    engine = ProfileOnTable()
    assert engine.runner.pre_enqueue(engine.info(pod())) == ""
    held = pod(schedulingGates=[{"name": "foo"}, {"name": "bar"}])
    assert engine.runner.pre_enqueue(engine.info(held)) == "waiting for scheduling gates: [foo bar]"


def test_priority_comes_first_then_the_time_of_waiting() -> None:
    engine = ProfileOnTable()
    low, high = (engine.info(pod(priority=priority)) for priority in (10, 100))
    key = engine.profile.queue_sort.sort_key
    assert key(high, 2.0) < key(low, 1.0)
    assert key(low, 1.0) < key(low, 2.0)
    assert key(engine.info(pod()), 1.0) > key(low, 1.0)
