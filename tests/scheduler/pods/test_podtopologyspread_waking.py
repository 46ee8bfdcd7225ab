"""Pods that wait for an even spread wake when it may have become possible, and not otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.scheduler.plugins.podtopologyspread import PodTopologySpread
from tests.scheduler.plugin_on_table import Data, PluginOnTable, pod, pods
from tests.scheduler.pods.spreadkit import HONOR_TAINTS, NODE_FOO, TAINT, ZONES, constraint, in_terms


def waiting(*constraints: Data, **spec: Any) -> PluginOnTable:
    """A pod was rejected, and waits."""
    alone = PluginOnTable(PodTopologySpread, ZONES)
    alone.add(*pods("a:foo b:foo x:bar y:foo y:foo y:foo"))
    assert alone.reasons(pod({"foo": ""}, topologySpreadConstraints=list(constraints) or [NODE_FOO], **spec))
    alone.woken.clear()
    return alone


def test_pods_that_are_picked_wake_those_that_wait_when_they_come_and_go() -> None:
    for there in ("x:foo", "b:foo,bar"):
        alone = waiting()
        (other,) = pods(there)
        alone.told(other)
        assert alone.woken == [(None, alone.woken[0][1])]
        alone.told_gone(other)
        assert len(alone.woken) == 1, "nobody waits any more until it is rejected again"


@pytest.mark.parametrize("there", ["x:bar", "x:foo@other", ":foo", "x:foo!"])
def test_other_pods_wake_nobody(there: str) -> None:
    alone = waiting()
    alone.told(pods(there)[0])
    alone.told_gone(pods(there)[0])
    assert not alone.woken


@pytest.mark.parametrize(
    ("before", "after", "wakes"),
    [("x:foo", "x:bar", True), ("x:bar", "x:foo", True), ("x:foo", "x:foo,bar", False), (":foo", "x:foo", True)],
)
def test_pods_that_change_wake_those_that_count_them_differently(before: str, after: str, wakes: bool) -> None:
    alone = waiting()
    for text in (before, after):
        assert alone.reasons(pod({"foo": ""}, topologySpreadConstraints=[NODE_FOO]))
        alone.woken.clear()
        (other,) = pods(text)
        alone.told(pod(other.metadata.labels, node=other.spec.node_name, metadata={"name": "other", "uid": "other"}))
    assert bool(alone.woken) is wakes


def test_nodes_wake_those_whose_labels_they_have() -> None:
    changes = [
        ("new", {"node": "new"}, (), True),
        ("new", {"zone": "3"}, (), False),
        ("a", {"zone": "1", "node": "other"}, (), True),
        ("a", {"zone": "1"}, (), True),
        ("a", {"zone": "2", "node": "a"}, (), False),
        ("a", {"zone": "1", "node": "a"}, (TAINT,), False),
    ]
    for name, labels, taints, wakes in changes:
        alone = waiting()
        alone.node(name, labels, *taints)
        assert bool(alone.woken) is wakes, (name, labels, taints)


def test_taints_and_selected_labels_wake_those_who_honor_them() -> None:
    alone = waiting(constraint("node", **HONOR_TAINTS))
    alone.node("a", ZONES["a"], TAINT)
    assert alone.woken
    alone = waiting(NODE_FOO, affinity=in_terms("disk", "ssd", operator="NotIn"))
    alone.node("a", ZONES["a"] | {"disk": "ssd"})
    assert alone.woken


def test_labels_that_change_all_the_time_do_not_confuse() -> None:
    alone = PluginOnTable(PodTopologySpread, ZONES)
    alone.add(*pods("a:foo b:foo x:foo"))
    given = pod({"foo": ""}, topologySpreadConstraints=[NODE_FOO])
    assert sorted(alone.reasons(given)) == ["a", "b", "x"]
    for number in range(1500):
        alone.node("a", {"zone": "1", "node": f"a-{number}"})
    alone.add(*pods("y:foo y:foo"))
    assert sorted(alone.reasons(given)) == ["y"]
