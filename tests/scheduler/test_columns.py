"""Answers for all nodes at once equal those that are given node by node, whatever happened to the cluster before."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moorage.api.decode import convert
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.requests import amounts, host_ports
from moorage.features import ALL_ON, Gate, Gates
from moorage.match.deferral import INLINE_COST, NotReady, deferring
from moorage.scheduler.cycle import Placement
from moorage.scheduler.decisions import REJECTED, Decisions
from moorage.scheduler.table.columns import Answers, Column
from moorage.scheduler.table.nodes import ALL, NodeTable
from tests.scheduler.profile_on_table import ProfileOnTable, configured, node, pod
from tests.scheduler.reference import Reference

Data = dict[str, Any]

TAINT_KEYS = ("sla", "example.com/cni", "example.com/storage", "node.kubernetes.io/unschedulable")
TAINT_VALUES = ("", "5", "950", "0950", "high", "1.20.3", "v1.21", "99999999999999999999")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TAINT_EXPRESSIONS = (
    'taint.key == "sla"',
    'taint.key.startsWith("example.com/")',
    "int(taint.value) > 900",
    'taint.effect == "PreferNoSchedule" || taint.value == "5"',
    "has(taint.timeAdded)",
)
LABELS = {
    "zone": ("a", "b", ""),
    "kernel": ("5.15.0", "6.1", "v6.2.1", "old"),
    "cores": ("8", "64", "many"),
    "example.com/gpu": ("t4",),
}
NODE_EXPRESSIONS = (
    'node.labels["zone"] == "a"',
    '"zone" in node.labels && node.labels["zone"] != "b"',
    'semver.compare(node.labels["kernel"], ">=6.1")',
    "size(node.labels) > 2",
    'node.labels["zone"] + node.labels["kernel"] + node.labels["cores"] == "a6.18"',
)
NODES = tuple(f"node-{number}" for number in range(7))
IMAGES = ("app", "example.com/tool:1", "example.com:5000/base")

taints = st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from(TAINT_KEYS), "value": st.sampled_from(TAINT_VALUES), "effect": st.sampled_from(EFFECTS)}
    ),
    max_size=3,
)
labels = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in LABELS.items()})
room = st.fixed_dictionaries(
    {"pods": st.sampled_from(["0", "2", "110"]), "cpu": st.sampled_from(["0", "1", "1500m", "64"])},
    optional={
        "memory": st.sampled_from(["512Mi", "3Gi", "1Ti"]),
        "ephemeral-storage": st.sampled_from(["1Gi", "100Gi"]),
        "example.com/gpu": st.sampled_from(["0", "2", "4"]),
        "example.org/nic": st.just("1"),
        "hugepages-2Mi": st.just("4Mi"),
    },
)
nodes = st.builds(
    lambda name, labels, taints, room, cordoned, images: node(
        name, labels, *taints, room=room, unschedulable=cordoned, images=images
    ),
    st.sampled_from(NODES),
    labels,
    taints,
    room,
    st.sampled_from([False, False, True]),
    st.dictionaries(st.sampled_from(IMAGES), st.sampled_from([1, 90 << 20, 800 << 20, 4 << 30]), max_size=2),
)

tolerations = st.lists(
    st.one_of(
        st.builds(
            lambda key, operator, value, effect: {
                "key": key, "operator": operator, "value": "" if operator == "Exists" else value, "effect": effect
            },
            st.sampled_from([*TAINT_KEYS, "example.com/*", "*", "s*a"]),
            st.sampled_from(["Equal", "Exists", "Gt", "Lt", "SemverEq", "SemverGt", "SemverLt"]),
            st.sampled_from(["5", "900", "1.20.3", "1.20"]),
            st.sampled_from(["", *EFFECTS]),
        ),
        st.sampled_from([{"operator": "Exists"}, {"operator": "Exists", "effect": "NoSchedule"}]),
        st.builds(lambda expression: {"expression": expression}, st.sampled_from(TAINT_EXPRESSIONS)),
    ),
    max_size=3,
)  # fmt: skip


def requirement(key: str, operator: str, values: list[str]) -> Data:
    number = {"Exists": 0, "DoesNotExist": 0, "In": 2, "NotIn": 2}.get(operator, 1)
    return {"key": key, "operator": operator, "values": values[:number]}


terms = st.builds(
    lambda expressions, fields, cel: {
        "matchExpressions": expressions, "matchFields": fields, "matchCELExpressions": cel
    },
    st.lists(
        st.builds(
            requirement,
            st.sampled_from(list(LABELS)),
            st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "SemverEq", "SemverGt", "SemverLt"]),
            st.sampled_from([["a", "b"], ["8", "6.1"], ["6.1", "a"]]),
        ),
        max_size=2,
    ),
    st.lists(
        st.builds(
            lambda operator, name: {"key": "metadata.name", "operator": operator, "values": [name]},
            st.sampled_from(["In", "NotIn"]),
            st.sampled_from(NODES),
        ),
        max_size=2,
    ),
    st.lists(st.sampled_from(NODE_EXPRESSIONS), max_size=1),
)  # fmt: skip
affinities = st.builds(
    lambda required, preferred: {
        "nodeAffinity": {
            **({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required}} if required else {}),
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": weight, "preference": term} for weight, term in preferred
            ],
        }
    },
    st.lists(terms, max_size=2),
    st.lists(st.tuples(st.integers(1, 100), terms), max_size=2),
)
requests = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "100m", "700m", "2"]),
        "memory": st.sampled_from(["1", "256Mi", "2Gi"]),
        "ephemeral-storage": st.just("600Mi"),
        "example.com/gpu": st.sampled_from(["1", "3"]),
        "example.org/nic": st.just("1"),
        "hugepages-2Mi": st.just("2Mi"),
    },
)
ports = st.lists(
    st.fixed_dictionaries(
        {"hostPort": st.sampled_from([80, 443]), "containerPort": st.just(80)},
        optional={"protocol": st.sampled_from(["TCP", "UDP"]), "hostIP": st.sampled_from(["127.0.0.1", "0.0.0.0"])},
    ),
    max_size=2,
)
containers = st.builds(
    lambda image, requests, ports: {"image": image, "resources": {"requests": requests}, "ports": ports},
    st.sampled_from(IMAGES),
    requests,
    ports,
)
init_containers = st.builds(
    lambda container, policy: {**container, **policy}, containers, st.sampled_from([{}, {"restartPolicy": "Always"}])
)
specs = st.fixed_dictionaries(
    {"containers": st.lists(containers, min_size=1, max_size=2)},
    optional={
        "initContainers": st.lists(init_containers, max_size=2),
        "tolerations": tolerations,
        "affinity": affinities,
        "nodeSelector": st.fixed_dictionaries({"zone": st.sampled_from(["a", "b"])}),
        "overhead": st.just({"cpu": "50m", "memory": "64Mi"}),
        "resources": st.just({"requests": {"cpu": "900m", "memory": "1Gi"}}),
    },
)
gates = st.sampled_from([ALL_ON, *(Gates(frozenset(Gate) - {gate}) for gate in Gate), Gates(frozenset())])

CONFIGURATIONS: tuple[Data, ...] = (
    {},
    {
        "NodeResourcesFit": {
            "scoringStrategy": {
                "type": "MostAllocated",
                "resources": [{"name": "cpu", "weight": 3}, {"name": "example.com/gpu", "weight": 2}],
            },
            "ignoredResources": ["example.org/nic"],
        },
        "NodeResourcesBalancedAllocation": {
            "resources": [
                {"name": "cpu", "weight": 1},
                {"name": "memory", "weight": 1},
                {"name": "example.com/gpu", "weight": 1},
            ]
        },
        "NodeAffinity": {
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["b"]}]}]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 7, "preference": {"matchExpressions": [{"key": "cores", "operator": "DoesNotExist"}]}}
                ],
            }
        },
    },
    {
        "NodeResourcesFit": {
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 5}],
                "requestedToCapacityRatio": {
                    "shape": [
                        {"utilization": 0, "score": 0},
                        {"utilization": 30, "score": 9},
                        {"utilization": 100, "score": 2},
                    ]
                },
            },
            "ignoredResourceGroups": ["example.com"],
        }
    },
)


@contextmanager
def everything_is_small() -> Iterator[None]:
    """A table of two rows, a log of nine changes, four shapes remembered: so that all of it runs over soon."""
    with (
        patch("moorage.scheduler.table.nodes.FIRST_SIZE", 2),
        patch("moorage.scheduler.table.nodes.LOG_MAX", 9),
        patch("moorage.scheduler.decisions.SHAPES_MAX", 4),
        patch.object(Column, "is_stale", lambda column, rows: len(column.values) > 5),
    ):
        yield


class Cluster(RuleBasedStateMachine):
    """Nodes and pods come, change and go; at any time any pod is placed as the reference would place it."""

    @initialize(gates=gates, args=st.sampled_from(CONFIGURATIONS), small=st.booleans())
    def begin(self, gates: Gates, args: Data, small: bool) -> None:
        self.patches = ExitStack()
        if small:
            self.patches.enter_context(everything_is_small())
        self.engine = ProfileOnTable(gates, configured(args))
        self.truth = Reference(gates, args)
        self.asked: list[Pod] = [pod()]

    def teardown(self) -> None:
        self.patches.close()

    @rule(given=nodes)
    def a_node_appears_or_changes(self, given: Node) -> None:
        self.engine.table.set_node(given)
        self.truth.nodes[given.metadata.name] = given

    @rule(name=st.sampled_from(NODES))
    def a_node_goes(self, name: str) -> None:
        self.engine.table.remove_node(name)
        self.truth.nodes.pop(name, None)

    @rule(spec=specs, name=st.sampled_from(NODES))
    def a_pod_is_put_on_a_node(self, spec: Data, name: str) -> None:
        given = pod(**spec)
        self.engine.table.add_pod(self.engine.info(given, name))
        self.truth.pods[given.metadata.uid] = name, given

    @precondition(lambda self: self.truth.pods)
    @rule(data=st.data(), spec=specs)
    def a_pod_changes(self, data: st.DataObject, spec: Data) -> None:
        uid = data.draw(st.sampled_from(sorted(self.truth.pods)))
        name, old = self.truth.pods[uid]
        new = pod(**spec, metadata={"uid": uid, "name": old.metadata.name})
        self.engine.table.replace_pod(self.engine.info(new, name))
        self.truth.pods[uid] = name, new

    @precondition(lambda self: self.truth.pods)
    @rule(data=st.data())
    def a_pod_goes(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.truth.pods)))
        name, old = self.truth.pods.pop(uid)
        self.engine.table.remove_pod(self.engine.info(old, name))

    @rule(spec=specs)
    def a_pod_of_a_new_shape_is_placed(self, spec: Data) -> None:
        given = pod(**spec)
        self.asked.append(given)
        self._check(given)

    @rule(data=st.data())
    def a_pod_of_a_known_shape_is_placed(self, data: st.DataObject) -> None:
        self._check(data.draw(st.sampled_from(self.asked)))

    @rule(data=st.data(), spec=specs, name=st.sampled_from(NODES))
    def a_pod_is_placed_beside_a_nominated_one(self, data: st.DataObject, spec: Data, name: str) -> None:
        nominated, given = pod(**spec, priority=5), data.draw(st.sampled_from(self.asked))
        self.engine.handle.nominations.nominate(self.engine.info(nominated), name)
        node = self.truth.nodes.get(name)
        before = node is not None and self.truth.refusal(given, node) is None
        self.truth.pods[nominated.metadata.uid] = name, nominated
        beside = node is not None and self.truth.refusal(given, node) is None
        found = self.engine.best(given)
        assert (name in found) <= (before and beside)
        del self.truth.pods[nominated.metadata.uid]
        self.engine.handle.nominations.release(nominated.metadata.uid)

    def _check(self, given: Pod) -> None:
        engine, truth = self.engine, self.truth
        placement = engine.place(given)
        feasible = {each.metadata.name for each in truth.feasible(given)}
        assert bool(placement.node) == bool(feasible)
        assert engine.best(given) == truth.best(given)
        if not feasible:
            assert engine.message(given) == truth.message(given)
            if placement.rejected is None:
                self._check_rejections(given, placement)
        cycle = engine.cycle(given)
        known = engine.runner.decisions.of(cycle)
        assert {engine.name(row) for row in (known.rank != REJECTED).nonzero()[0]} == feasible
        fresh = Decisions(engine.table, engine.profile.filters, engine.profile.scores).of(cycle)
        alive = engine.table.alive
        assert (known.rank == fresh.rank).all()
        assert all((mine[alive] == other[alive]).all() for mine, other in zip(known.raw, fresh.raw, strict=True))
        assert known.uniform == fresh.uniform

    def _check_rejections(self, given: Pod, placement: Placement) -> None:
        """Every node is rejected by the plugin that would reject it first, and it is known if removals could help."""
        for name, each_node in self.truth.nodes.items():
            row = self.engine.table.rows[name]
            refusal = self.truth.refusal(given, each_node)
            assert refusal is not None
            found = [
                (plugin, each.reason, each.resolvable)
                for plugin, rejections in placement.rejections.items()
                for each in rejections
                if row in each.rows
            ]
            assert sorted(reason for _, reason, _ in found) == sorted(refusal.reasons)
            assert {plugin for plugin, _, _ in found} == {refusal.plugin}
            assert all(resolvable for _, _, resolvable in found) == refusal.resolvable

    @invariant()
    def the_table_equals_a_recount(self) -> None:
        if hasattr(self, "truth"):
            check_table(self.engine.table, self.truth)


def check_table(table: NodeTable, truth: Reference) -> None:
    """Whether a table has what a count of nodes and pods one by one gives."""
    assert table.count == len(truth.nodes) == table.alive.sum()
    used = {name for name, _ in truth.pods.values()}
    assert table.priorities == Counter(each.spec.priority or 0 for _, each in truth.pods.values())
    assert set(table.rows) == set(truth.nodes) | used
    assert sorted((*table.rows.values(), *table.free_rows)) == list(range(table.size))
    for name, row in table.rows.items():
        assert set(table.pods[row]) == {uid for uid, (where, _) in truth.pods.items() if where == name}
        bare = truth.nodes.get(name) or Node()
        there = [each for where, each in truth.pods.values() if where == name]
        sums = truth.requested(convert({"metadata": {"name": name}}, Node))
        for resource, line in table.resources.items():
            expected = len(there) if resource == "pods" else sums[resource]
            assert table.requested[line, row] == expected
            assert table.allocatable[line, row] == amounts(bare.status.allocatable).get(resource, 0)
        taken = {taken for each in there for port in host_ports(each.spec) for taken in port.taken}
        assert set(table.ports.get(row, {})) == taken
        assert {port for port, rows in table.port_rows.items() if row in rows} == taken
        assert table.taints.value(row) == bare.spec.taints
    free = [row for row in range(table.size) if row not in table.rows.values()]
    assert not table.requested[:, free].any()
    assert not table.scored[:, free].any()
    assert set(table.ports) <= set(table.rows.values())
    images = {row for rows in table.images.values() for row in rows}
    assert images <= {table.rows[name] for name, each in truth.nodes.items() if each.status.images}


TestCluster = Cluster.TestCase
TestCluster.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_a_large_cluster_after_many_changes() -> None:
    """More rows than a table begins with, more changes than are worth repeating one by one, columns made anew."""
    chance = random.Random(3)
    engine, truth = ProfileOnTable(), Reference(ALL_ON)
    asked = [
        pod({"cpu": "1"}, tolerations=[{"key": "sla", "operator": "Gt", "value": "500"}]),
        pod({"memory": "1Gi"}, nodeSelector={"zone": "a"}, tolerations=[{"key": "*", "operator": "Exists"}]),
        pod(tolerations=[{"expression": "int(taint.value) % 2 == 0"}]),
    ]
    sizes = set()
    for number in range(3400):
        name = f"node-{chance.randrange(150)}"
        if chance.random() < 0.2 and name in truth.nodes:
            engine.table.remove_node(name)
            del truth.nodes[name]
        else:
            value = str(chance.randrange(100_000)) if chance.random() < 0.9 else "none"
            taints = [{"key": "sla", "value": value, "effect": chance.choice(EFFECTS)}]
            made = node(name, {"zone": chance.choice("ab"), "n": str(number)}, *taints)
            engine.table.set_node(made)
            truth.nodes[name] = made
        if number % 130 == 0 or number > 3390:
            for given in asked:
                assert engine.best(given) == truth.best(given)
        sizes.add(engine.table.size)
    assert sizes == {64, 128, 256}
    assert engine.table.epoch > 2
    check_table(engine.table, truth)


def test_a_value_is_asked_about_once_however_many_rows_have_it() -> None:
    column: Column[str] = Column(8, "")
    calls: list[str] = []

    def length(value: str) -> int:
        calls.append(value)
        return len(value)

    answers = Answers(column, length, np.int64)
    for row, value in enumerate(("a", "bb", "a", "bb", "ccc")):
        column.set(row, value)
    assert answers[ALL].tolist() == [1, 2, 1, 2, 3, 0, 0, 0]
    column.set(0, "dddd")
    assert answers[np.array([0, 1], np.intp)].tolist() == [4, 2]
    assert calls == ["", "a", "bb", "ccc", "dddd"]


def test_a_value_of_many_parts_is_not_asked_about_on_the_event_loop() -> None:
    column: Column[tuple[str, ...]] = Column(2, ())
    column.set(0, ("a",) * 100)
    column.set(1, ("a",) * 300)
    asked: list[int] = []

    def ask(value: tuple[str, ...]) -> int:
        asked.append(len(value))
        return 1

    answers = Answers(column, ask, np.int64, INLINE_COST // 200, len)
    with deferring(), pytest.raises(NotReady):
        answers[ALL]
    assert asked == [0, 100]


def test_a_selector_over_so_many_labels_that_their_combinations_cannot_be_numbered() -> None:
    engine = ProfileOnTable()
    keys = [f"key-{number:02}" for number in range(17)]
    same = dict.fromkeys(keys, "0")
    engine.table.set_node(node("good", same))
    engine.table.set_node(node("bad", {**same, "key-00": "15"}))
    for number in range(14):  # which makes sixteen values with none, and 16 ** 16 is 2 ** 64
        engine.table.set_node(node(f"other-{number}", dict.fromkeys(keys, str(number + 1))))
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": ["0"]} for key in keys]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert engine.best(pod(affinity=affinity)) == {"good"}


def test_what_happened_too_long_ago_is_not_known_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moorage.scheduler.table.nodes.LOG_MAX", 10)
    table = NodeTable()
    start = table.position
    table.set_node(node("a"))
    assert table.changed_since(start) == [table.rows["a"]]
    for _ in range(12):
        table.touch(table.rows["a"])
    assert table.changed_since(start) is None
    assert len(table.changed_since(table.position - 2) or ()) == 2


def test_a_pod_may_ask_for_what_no_node_has_heard_of_yet() -> None:
    engine = ProfileOnTable()
    there = pod({"example.com/new": "3", "cpu": "1"})
    engine.table.add_pod(engine.info(there, "later"))
    engine.table.set_node(node("later", room={"cpu": "4", "pods": "9", "example.com/new": "4"}))
    assert engine.message(pod({"example.com/new": "2"})) == "0/1 nodes are available: 1 Insufficient example.com/new."
    assert engine.best(pod({"example.com/new": "1"})) == {"later"}
