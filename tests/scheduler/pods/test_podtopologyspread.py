"""Pods are spread over places: what must hold, what is preferred, and what wakes pods that wait."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest

from moorage.api.cluster import Service
from moorage.api.decode import convert
from moorage.api.pod import Pod
from moorage.api.workload import ReplicaSet, StatefulSet
from moorage.scheduler.plugins.podtopologyspread import MISSING, REASON, PodTopologySpread
from moorage.scheduler.pods.spread import SOFT
from moorage.scheduler.table.nodes import HOSTNAME, ZONE
from tests.scheduler.plugin_on_table import Data, PluginOnTable, pod, pods
from tests.scheduler.pods.spreadkit import (
    BAR,
    FOO,
    HONOR_TAINTS,
    HOSTS,
    NODE_FOO,
    TAINT,
    TOLERATION,
    ZONE_FOO,
    ZONED_HOSTS,
    ZONES,
    constraint,
    in_terms,
    lacking,
    with_foo,
)


class Case(NamedTuple):
    """Constraints, the pods that are there, and the nodes that will do or lack a label; the others are too crowded."""

    name: str
    constraints: list[Data]
    there: str
    fits: str
    missing: str = ""
    labels: str = "foo"
    nodes: dict[str, dict[str, str]] = ZONES
    tainted: str = ""
    spec: Data = {}


IGNORE_AFFINITY: Data = {"nodeAffinityPolicy": "Ignore"}
SELECTS_FOO = {"nodeSelector": {"foo": ""}}

HARD_CASES = [
    Case("nobody is there", [ZONE_FOO], "", "abxy"),
    Case("nobody is there, and the pod does not match itself", [constraint("zone", BAR)], "", "abxy"),
    Case("pods of other namespaces do not count", [ZONE_FOO], "a:foo@ns1 a:foo@ns2 x:foo y:foo", "ab"),
    Case("without a selector nobody counts", [constraint("zone", None)], "x:foo y:foo", "abxy"),
    Case("a selector of everything counts nobody but the pod itself", [constraint("zone", {})], "x:foo y:foo", "abxy"),
    Case("zones 3/3", [ZONE_FOO], "a:foo a:foo b:foo y:foo y:foo y:foo", "abxy"),
    Case("zones 3/2", [ZONE_FOO], "a:foo a:foo b:foo y:foo y:foo", "xy"),
    Case(
        "a node without the label does not count", [ZONE_FOO], "a:foo b:foo x:foo y:foo", "a", missing="b",
        nodes=lacking(ZONES, "b", "zone"),
    ),
    Case("nobody has the label", [constraint("rack")], "", "", missing="abxy"),
    Case("nodes 2/1/0/3", [NODE_FOO], "a:foo a:foo b:foo y:foo y:foo y:foo", "x"),
    Case("nodes 2/1/0/3, skew 2", [constraint("node", skew=2)], "a:foo a:foo b:foo y:foo y:foo y:foo", "bx"),
    Case("nodes 2/1/0/3, skew 3", [constraint("node", skew=3)], "a:foo a:foo b:foo y:foo y:foo y:foo", "abx"),
    Case("nodes 2/1/0/3, not itself", [NODE_FOO], "a:foo a:foo b:foo y:foo y:foo y:foo", "bx", labels="bar"),
    Case(
        "nodes that the affinity excludes do not count", [NODE_FOO], "a:foo a:foo b:foo y:foo y:foo y:foo", "abx",
        spec={"affinity": in_terms("node", "a", "y")},
    ),
    Case("pods that are being deleted do not count", [NODE_FOO], "a:foo! b:foo x:foo y:foo", "a"),
    Case(
        "zones 0/1 beside an excluded node", [ZONE_FOO], "b:foo b:foo y:foo", "ab",
        spec={"affinity": in_terms("node", "b", operator="NotIn")},
    ),
    Case(
        "fewer domains than minDomains count as an empty one", [constraint("node", skew=2, minDomains=5)],
        "a:foo a:foo b:foo b:foo x:foo y:foo", "xy",
    ),
    Case(
        "enough domains for minDomains", [constraint("node", skew=2, minDomains=4)],
        "a:foo a:foo b:foo b:foo x:foo y:foo", "abxy",
    ),
    Case("zones 2/1, minDomains 3", [constraint("zone", skew=2, minDomains=3)], "a:foo b:foo y:foo", "xy"),
    Case("zones 2/1, minDomains 1", [constraint("zone", skew=2, minDomains=1)], "a:foo b:foo y:foo", "abxy"),
    Case("a nodeSelector is honored", [NODE_FOO], "a:foo b:foo y:foo", "xy", nodes=with_foo(*"abx"), spec=SELECTS_FOO),
    Case(
        "a nodeSelector is ignored", [constraint("node", **IGNORE_AFFINITY)], "a:foo b:foo y:foo", "x",
        nodes=with_foo(*"abx"), spec=SELECTS_FOO,
    ),
    Case(
        "node affinity is honored", [NODE_FOO], "a:foo b:foo y:foo", "xy", nodes=with_foo(*"abx"),
        spec={"affinity": in_terms("foo", "")},
    ),
    Case(
        "node affinity is ignored", [constraint("node", **IGNORE_AFFINITY)], "a:foo b:foo y:foo", "x",
        nodes=with_foo(*"abx"), spec={"affinity": in_terms("foo", "")},
    ),
    Case("taints are honored", [constraint("node", **HONOR_TAINTS)], "a:foo b:foo y:foo", "xy", tainted="y"),
    Case("taints are ignored", [NODE_FOO], "a:foo b:foo y:foo", "x", tainted="y"),
    Case(
        "tolerated taints change nothing", [constraint("node", **HONOR_TAINTS)], "a:foo b:foo y:foo", "x", tainted="y",
        spec={"tolerations": [TOLERATION]},
    ),
    Case("zones 3/3, nodes 2/1/0/3", [ZONE_FOO, NODE_FOO], "a:foo a:foo b:foo y:foo y:foo y:foo", "x"),
    Case("zones 3/4, nodes 2/1/0/4", [ZONE_FOO, NODE_FOO], "a:foo a:foo b:foo y:foo y:foo y:foo y:foo", ""),
    Case(
        "zones 1/0 of foo, nodes 1/0/0/1 of bar", [ZONE_FOO, constraint("node", BAR)], "a:foo y:bar", "x",
        labels="foo,bar",
    ),
    Case(
        "zones 1/0 of foo, nodes 0/0/1/1 of bar", [ZONE_FOO, constraint("node", BAR)], "a:foo x:bar y:bar", "",
        labels="foo,bar",
    ),
    Case(
        "zones 2/3 of foo, nodes 1/0/0/1 of bar", [ZONE_FOO, constraint("node", BAR)],
        "a:foo a:foo,bar y:foo y:foo,bar y:foo", "b", labels="foo,bar",
    ),
    Case(
        "the pod matches only one of two constraints", [ZONE_FOO, constraint("node", BAR)], "a:foo x:bar y:bar", "ab",
        labels="bar",
    ),
    Case(
        "the second of two labels is missing", [ZONE_FOO, NODE_FOO], "a:foo y:foo", "b", missing="x",
        nodes=lacking(ZONES, "x", "node"),
    ),
    Case(
        "affinity honored for zones, ignored for nodes", [ZONE_FOO, constraint("node", **IGNORE_AFFINITY)],
        "a:foo b:foo y:foo", "x", nodes=with_foo(*"abx"), spec=SELECTS_FOO,
    ),
    Case(
        "taints honored for zones, ignored for nodes", [constraint("zone", **HONOR_TAINTS), NODE_FOO],
        "a:foo b:foo y:foo", "x", tainted="y",
    ),
    Case(
        "affinity honored for both", [ZONE_FOO, NODE_FOO], "a:foo b:foo y:foo", "bx", nodes=with_foo(*"axy"),
        tainted="y", spec=SELECTS_FOO,
    ),
    Case(
        "all honored for zones, nothing for nodes",
        [constraint("zone", **HONOR_TAINTS), constraint("node", **IGNORE_AFFINITY)], "a:foo b:foo y:foo", "x",
        nodes=with_foo(*"axy"), tainted="y", spec=SELECTS_FOO,
    ),
    Case(
        "two constraints on zones, 2/1 of bar and 3/3 of foo", [constraint("zone", BAR), ZONE_FOO],
        "a:foo,bar a:foo b:foo,bar y:foo y:foo,bar y:foo", "xy", labels="foo,bar",
    ),
    Case(
        "two constraints on zones, 2/1 of bar and 3/4 of foo", [constraint("zone", BAR), ZONE_FOO],
        "a:foo,bar a:foo b:foo,bar y:foo y:foo,bar y:foo y:foo", "", labels="foo,bar",
    ),
    Case(
        "matchLabelKeys add the pod's own value", [constraint("zone", matchLabelKeys=["bar"])],
        "a:foo,bar=1 b:foo,bar=2 x:foo,bar=2", "xy", labels="foo,bar=1",
    ),
    Case(
        "matchLabelKeys alone", [constraint("zone", {}, matchLabelKeys=["bar"])],
        "a:foo,bar=1 b:foo,bar=2 x:foo,bar=2", "xy", labels="foo,bar=1",
    ),
    Case(
        "matchLabelKeys that the pod lacks add nothing", [constraint("zone", matchLabelKeys=["bar"])],
        "a:foo,bar=1 b:foo,bar=2 x:foo", "xy",
    ),
    Case(
        "matchLabelKeys need a selector", [constraint("zone", None, matchLabelKeys=["foo"])], "a:foo b:foo", "abxy",
    ),
]  # fmt: skip


def incoming(labels: str, constraints: list[Data], spec: Data) -> Pod:
    """The pod of a case."""
    found = pods(f":{labels}")[0].metadata.labels
    return pod(found, topologySpreadConstraints=constraints, **spec)


@pytest.mark.parametrize("case", HARD_CASES, ids=lambda case: case.name)
def test_what_must_hold(case: Case) -> None:
    alone = PluginOnTable(PodTopologySpread, case.nodes)
    for name in case.tainted:
        alone.node(name, case.nodes[name], TAINT)
    alone.add(*pods(case.there))
    expected = {name: (REASON, True) for name in case.nodes if name not in case.fits}
    expected |= dict.fromkeys(case.missing, (MISSING, False))
    assert alone.reasons(incoming(case.labels, case.constraints, case.spec)) == expected


class Scored(NamedTuple):
    """Constraints, the pods that are there, and the scores of the nodes that will do."""

    name: str
    constraints: list[Data]
    there: str
    scores: dict[str, int]
    labels: str = "foo"
    nodes: dict[str, dict[str, str]] = HOSTS
    tainted: str = ""
    spec: Data = {}


def soft(key: str, selector: Data | None = FOO, skew: int = 1, **more: Any) -> Data:
    """A constraint that only adds to the score."""
    return constraint(key, selector, skew, SOFT, **more)


HOST_FOO = soft(HOSTNAME)
SPREAD = "a:foo a:foo b:foo d:foo d:foo d:foo"
STEPS = "a:foo a:foo a:foo a:foo b:foo b:foo b:foo c:foo c:foo d:foo"
MANY = "a:foo a:foo a:foo a:foo b:foo b:foo x:foo y:foo y:foo y:foo"
THREE = {name: {"node": name} for name in "abc"}
PREFER = "a:foo a:foo b:foo c:foo"

SOFT_CASES = [
    Scored("nobody is there", [HOST_FOO], "", {"a": 100, "b": 100}),
    Scored("one node", [HOST_FOO], "a:foo a:foo b:foo", {"a": 100}),
    Scored("as many everywhere", [HOST_FOO], "a:foo b:foo", {"a": 100, "b": 100}),
    Scored("nodes 2/1/0/3", [HOST_FOO], SPREAD, {"a": 20, "b": 60, "c": 100, "d": 0}),
    Scored("without a selector", [soft(HOSTNAME, None)], SPREAD, dict.fromkeys("abcd", 100)),
    Scored("a selector of everything", [soft(HOSTNAME, {})], SPREAD, dict.fromkeys("abcd", 100)),
    Scored("skew 2", [soft(HOSTNAME, skew=2)], SPREAD, {"a": 33, "b": 66, "c": 100, "d": 16}),
    Scored("skew 3, nodes 4/3/2/1", [soft(HOSTNAME, skew=3)], STEPS, {"a": 44, "b": 66, "c": 77, "d": 100}),
    Scored(
        "nodes 4/2/1 and one that will not do", [HOST_FOO], MANY, {"a": 33, "b": 83, "x": 100}, nodes=ZONED_HOSTS
    ),
    Scored(
        "a node without the label", [HOST_FOO], MANY, {"a": 16, "b": 0, "x": 100},
        nodes=lacking(ZONED_HOSTS, "b", HOSTNAME),
    ),
    Scored("zones, one node will not do", [soft("zone")], MANY, {"a": 75, "b": 75, "x": 100}, nodes=ZONED_HOSTS),
    Scored(
        "zones and nodes, two nodes will not do", [soft("zone"), HOST_FOO],
        "a:foo a:foo b:foo x:foo x:foo y:foo y:foo y:foo y:foo", {"a": 100, "x": 63}, nodes=ZONED_HOSTS,
    ),
    Scored(
        "two constraints on zones", [soft("zone"), soft("zone", BAR)],
        "a:foo,bar a:foo b:foo,bar y:foo y:foo,bar y:foo", {"a": 85, "x": 100}, nodes=ZONES, labels="foo,bar",
    ),
    Scored(
        "zones of foo, nodes of bar", [soft("zone"), soft(HOSTNAME, BAR)], "a:foo b:foo,bar y:foo y:bar",
        {"a": 60, "b": 20, "x": 100, "y": 60}, nodes=ZONED_HOSTS, labels="foo,bar",
    ),
    Scored(
        "zones of foo, nodes of bar, some have none", [soft("zone"), soft(HOSTNAME, BAR)], "b:bar x:foo y:foo,bar",
        {"a": 100, "b": 60, "x": 40, "y": 0}, nodes=ZONED_HOSTS, labels="foo,bar",
    ),
    Scored(
        "zones of foo, nodes of bar, one will not do", [soft("zone"), soft(HOSTNAME, BAR)],
        "a:foo b:foo,bar y:foo y:bar", {"a": 50, "b": 25, "x": 100}, nodes=ZONED_HOSTS, labels="foo,bar",
    ),
    Scored("other namespaces do not count", [HOST_FOO], "a:foo@ns1 a:foo b:foo b:foo", {"a": 100, "b": 33}),
    Scored("pods that are being deleted do not count", [HOST_FOO], "a:foo! b:foo", {"a": 100, "b": 0}),
    Scored(
        "minDomains makes no difference", [soft("node", skew=2, minDomains=10)], "a:foo a:foo b:foo b:foo c:foo",
        {"a": 75, "b": 75, "c": 100}, nodes=THREE,
    ),
    Scored(
        "a nodeSelector is honored", [soft("node")], PREFER, {"a": 0, "b": 33, "c": 100},
        nodes=with_foo("a", "b", nodes=THREE), spec=SELECTS_FOO,
    ),
    Scored(
        "a nodeSelector is ignored", [soft("node", **IGNORE_AFFINITY)], PREFER, {"a": 66, "b": 100, "c": 100},
        nodes=with_foo("a", "b", nodes=THREE), spec=SELECTS_FOO,
    ),
    Scored(
        "node affinity is honored", [soft("node")], PREFER, {"a": 0, "b": 33, "c": 100},
        nodes=with_foo("a", "b", nodes=THREE), spec={"affinity": in_terms("foo", "")},
    ),
    Scored(
        "node affinity is ignored", [soft("node", **IGNORE_AFFINITY)], PREFER, {"a": 66, "b": 100, "c": 100},
        nodes=with_foo("a", "b", nodes=THREE), spec={"affinity": in_terms("foo", "")},
    ),
    Scored(
        "taints are honored", [soft("node", **HONOR_TAINTS)], PREFER, {"a": 0, "b": 33, "c": 100}, nodes=THREE,
        tainted="c",
    ),
    Scored("taints are ignored", [soft("node")], PREFER, {"a": 66, "b": 100, "c": 100}, nodes=THREE, tainted="c"),
    Scored(
        "matchLabelKeys alone", [soft("zone", {}, matchLabelKeys=["foo"]), soft(HOSTNAME, {}, matchLabelKeys=["bar"])],
        "a:foo b:foo,bar x:foo x:bar", {"a": 60, "b": 20, "x": 60, "y": 100}, nodes=ZONED_HOSTS, labels="foo,bar",
    ),
    Scored(
        "matchLabelKeys beside a selector", [soft("zone"), soft(HOSTNAME, BAR, matchLabelKeys=["baz"])],
        "a:foo b:foo,bar,baz x:foo x:bar x:bar,baz", {"a": 60, "b": 20, "x": 60, "y": 100}, nodes=ZONED_HOSTS,
        labels="foo,bar,baz",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", SOFT_CASES, ids=lambda case: case.name)
def test_what_is_preferred(case: Scored) -> None:
    alone = PluginOnTable(PodTopologySpread, case.nodes)
    for name in case.tainted:
        alone.node(name, case.nodes[name], TAINT)
    alone.add(*pods(case.there))
    given = incoming(case.labels, case.constraints, case.spec)
    assert alone.reasons(given) == {}
    assert alone.scores(given, case.scores) == case.scores


def service(**selector: str) -> Service:
    """A service of pods with these labels."""
    return convert({"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": selector}}, Service)


def owned(kind: str, labels: dict[str, str]) -> Pod:
    """A pod that a workload controls."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "1", "controller": True}
    return pod(labels, metadata={"ownerReferences": [owner]})


def workload(struct: type[ReplicaSet] | type[StatefulSet], selector: Data) -> ReplicaSet | StatefulSet:
    """A workload of pods that a selector picks."""
    return convert({"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": selector}}, struct)


def test_pods_of_a_service_are_spread_though_nobody_asked() -> None:
    alone = PluginOnTable(PodTopologySpread, HOSTS)
    alone.add(*pods(STEPS))
    assert alone.scores(pod({"foo": ""})) is None
    alone.told(service(foo=""))
    assert alone.scores(pod({"foo": ""})) == {"a": 44, "b": 66, "c": 77, "d": 100}
    assert alone.scores(pod({"bar": ""})) is None
    assert alone.scores(pod({"foo": ""}, namespace="other")) is None


@pytest.mark.parametrize(("kind", "struct"), [("ReplicaSet", ReplicaSet), ("StatefulSet", StatefulSet)])
def test_pods_of_a_workload_are_spread_though_nobody_asked(
    kind: str, struct: type[ReplicaSet] | type[StatefulSet]
) -> None:
    alone = PluginOnTable(PodTopologySpread, HOSTS)
    alone.add(*pods(STEPS))
    given = owned(kind, {"foo": ""})
    assert alone.scores(given) is None
    alone.told(workload(struct, FOO))
    assert alone.scores(given) == {"a": 44, "b": 66, "c": 77, "d": 100}
    alone.told(workload(struct, BAR))
    assert alone.scores(given) == dict.fromkeys("abcd", 100)
    alone.told(workload(struct, {}))
    assert alone.scores(given) is None


def test_the_selectors_of_service_and_workload_must_both_match() -> None:
    alone = PluginOnTable(PodTopologySpread, HOSTS)
    alone.add(*pods("a:foo a:foo,bar b:foo"))
    alone.told(service(foo=""))
    alone.told(workload(ReplicaSet, BAR))
    assert alone.scores(owned("ReplicaSet", {"foo": "", "bar": ""}), "ab") == {"a": 66, "b": 100}


def test_a_service_without_selector_spreads_nobody() -> None:
    alone = PluginOnTable(PodTopologySpread, HOSTS)
    alone.told(convert({"metadata": {"name": "all", "namespace": "default"}}, Service))
    alone.told(service())
    assert alone.scores(pod({"foo": ""})) is None


def test_system_defaults_know_zones_too_and_do_without_them() -> None:
    nodes = {
        "a": {HOSTNAME: "a", ZONE: "1"},
        "b": {HOSTNAME: "b", ZONE: "1"},
        "x": {HOSTNAME: "x", ZONE: "2"},
        "n": {HOSTNAME: "n"},
    }
    alone = PluginOnTable(PodTopologySpread, nodes)
    alone.add(*pods("a:foo a:foo b:foo x:foo n:foo"))
    alone.told(service(foo=""))
    host, zone = math.log(4 + 2), math.log(3 + 2)
    raw = {
        "a": round(2 * host + 2 + 3 * zone + 4),
        "b": round(1 * host + 2 + 3 * zone + 4),
        "x": round(1 * host + 2 + 1 * zone + 4),
        "n": round(1 * host + 2),
    }
    most, least = max(raw.values()), min(raw.values())
    expected = {name: 100 * (most + least - score) // most for name, score in raw.items()}
    assert alone.scores(pod({"foo": ""})) == expected


def test_a_pod_with_constraints_of_its_own_gets_no_others() -> None:
    alone = PluginOnTable(PodTopologySpread, HOSTS)
    alone.told(service(foo=""))
    assert alone.scores(pod({"foo": ""}, topologySpreadConstraints=[constraint(HOSTNAME)])) is None


def test_a_list_of_default_constraints_replaces_those_of_the_system() -> None:
    defaults = [constraint("node", None), constraint("zone", None, action=SOFT)]
    alone = PluginOnTable(PodTopologySpread, ZONES, defaultingType="List", defaultConstraints=defaults)
    alone.add(*pods("a:foo b:foo"))
    assert alone.reasons(pod({"foo": ""})) == {}
    alone.told(service(foo=""))
    assert alone.reasons(pod({"foo": ""})) == {"a": (REASON, True), "b": (REASON, True)}
    assert alone.scores(pod({"foo": ""})) == {"a": 0, "b": 0, "x": 100, "y": 100}
    alone.node("n", {"node": "n"})
    assert alone.scores(pod({"foo": ""})) == {"a": 0, "b": 0, "x": 100, "y": 100, "n": 0}


def test_an_empty_list_of_default_constraints_turns_them_off() -> None:
    alone = PluginOnTable(PodTopologySpread, HOSTS, defaultingType="List")
    assert not alone.plugin.applies(alone.cycle(pod()).shape)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"defaultingType": "Some"}, "defaultingType"),
        ({"defaultConstraints": [constraint("zone", None)]}, "defaultConstraints: must be empty"),
        ({"defaultingType": "List", "defaultConstraints": [constraint("zone", None, 0)]}, "maxSkew"),
        ({"defaultingType": "List", "defaultConstraints": [constraint("", None)]}, "topologyKey"),
        ({"defaultingType": "List", "defaultConstraints": [constraint("zone", None, 1, "No")]}, "whenUnsatisfiable"),
        ({"defaultingType": "List", "defaultConstraints": [constraint("zone", FOO)]}, "labelSelector"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(args: Data, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        PluginOnTable(PodTopologySpread, **args)


def test_a_selector_that_cannot_be_read_rejects_the_pod() -> None:
    alone = PluginOnTable(PodTopologySpread, ZONES)
    wrong = {"matchLabels": {"foo": "{{wrong}}"}}
    reason, resolvable = alone.reasons(pod({}, topologySpreadConstraints=[constraint("zone", wrong)]))[""]
    assert 'Invalid value: "{{wrong}}"' in reason
    assert not resolvable


def test_pods_that_come_and_go_for_a_moment_count_for_that_moment() -> None:
    alone = PluginOnTable(PodTopologySpread, ZONES)
    (there,) = alone.add(*pods("a:foo"))
    given = pod({"foo": ""}, topologySpreadConstraints=[ZONE_FOO])
    assert sorted(alone.reasons(given)) == ["a", "b"]
    cycle = alone.cycle(given)
    alone.plugin.pre_filter(cycle)
    rows = alone.table.alive.nonzero()[0]
    assert alone.plugin.filter(cycle, rows).tolist() == [alone.name(int(row)) in "xy" for row in rows]
    alone.table.remove_pod(there)
    assert alone.plugin.filter(cycle, rows).all()
    alone.table.add_pod(there)
    assert not alone.plugin.filter(cycle, rows).all()
