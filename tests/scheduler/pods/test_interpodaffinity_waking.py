"""Pods that wait for others to come near or go away wake when they do, and not otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.api.pod import Pod
from moorage.scheduler.pods.terms import Pick
from tests.scheduler.plugin_on_table import PluginOnTable, exists, far, near, one_of, pod, pods, term
from tests.scheduler.pods.affinitykit import BAR, FOO, HOSTNAME, HOSTS, TEAM1, holding, world


def waiting(given_pod: Pod, *there: Pod) -> PluginOnTable:
    """A pod was rejected, and waits."""
    alone = world(HOSTS, [])
    for each in there:
        alone.told(each)
    alone.add(*there)
    assert alone.reasons(given_pod)
    assert not alone.woken
    return alone


def test_a_pod_to_be_near_to_wakes_those_that_wait_for_it() -> None:
    for there, wakes in (("a:foo", True), ("a:bar", False), ("a:foo@other", False), (":foo", False)):
        alone = waiting(holding(near(term(HOSTNAME, FOO))))
        alone.told(pods(there)[0])
        assert bool(alone.woken) is wakes, there


def test_a_pod_to_be_far_from_wakes_those_that_wait_when_it_goes_or_changes() -> None:
    given_pod = holding(far(term(HOSTNAME, FOO)))
    there = pods("a:foo b:foo")
    alone = waiting(given_pod, *there)
    alone.told_gone(there[0])
    assert alone.woken
    alone = waiting(given_pod, *there)
    metadata = {"name": there[0].metadata.name, "uid": there[0].metadata.uid}
    alone.told(pod({"foo": "still"}, node="a", metadata=metadata))
    alone.told(pods("a:foo")[0])
    assert not alone.woken
    alone.told(pod({"bar": ""}, node="a", metadata=metadata))
    assert alone.woken


def test_a_pod_that_wanted_others_far_wakes_them_when_it_goes() -> None:
    keeper = holding(far(term(HOSTNAME, FOO)), node="a")
    stranger = holding(far(term(HOSTNAME, BAR)), node="a")
    alone = waiting(pod({"foo": ""}), keeper, stranger)
    alone.told_gone(stranger)
    assert not alone.woken
    alone.told_gone(keeper)
    assert len(alone.woken) == 1


def test_nodes_wake_those_for_whom_their_labels_matter() -> None:
    by_zone = {"zone": "1", HOSTNAME: "a"}
    cases = [
        (holding(near(term("zone", FOO))), "new", {"zone": "1"}, True),
        (holding(near(term("zone", FOO))), "new", {"rack": "1"}, False),
        (holding(near(term("zone", FOO))), "a", by_zone, True),
        (holding(near(term("zone", FOO))), "a", {HOSTNAME: "a", "disk": "ssd"}, False),
        (holding(far(term(HOSTNAME, FOO))), "new", {}, True),
        (holding(far(term(HOSTNAME, FOO))), "a", by_zone, False),
        (holding(far(term(HOSTNAME, FOO))), "a", {HOSTNAME: "other"}, True),
        (holding(far(term(HOSTNAME, FOO))), "a", {}, True),
        (pod({"baz": ""}), "new", {}, True),
        (pod({"baz": ""}), "a", {HOSTNAME: "other"}, True),
        (pod({"baz": ""}), "a", by_zone, False),
    ]
    for given_pod, name, labels, wakes in cases:
        alone = waiting(given_pod, *pods("a:foo b:foo"), holding(far(term(HOSTNAME, exists("baz"))), node="a"))
        alone.node(name, labels)
        assert bool(alone.woken) is wakes, (given_pod.spec.affinity, name, labels)


def test_namespaces_that_change_their_labels_wake_those_that_wait() -> None:
    alone = waiting(holding(near(term(HOSTNAME, FOO, namespaceSelector=TEAM1))), *pods("a:foo@new"))
    alone.namespace("new", team="team1")
    assert alone.woken


def test_so_many_terms_wait_that_rejected_pods_are_tried_again_instead() -> None:
    terms = [term(HOSTNAME, exists(f"foo-{number}")) for number in range(100)]
    alone = world(HOSTS, pods("a:foo-0 b:foo-0"))
    for number in range(101):
        assert alone.reasons(holding(far(*terms), f"app={number}"))
        assert len(alone.woken) == (number == 100)
    assert alone.reasons(holding(far(*terms), "app=1"))
    assert len(alone.woken) == 1


def test_namespaces_are_selected_once_and_term_by_term(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = world(HOSTS, pods("a:foo@subteam1.team1"))
    terms = [term(HOSTNAME, FOO, namespaceSelector=one_of("team", f"team{number}")) for number in (1, 2)]
    given = holding(far(*terms))
    asked: list[str] = []
    monkeypatch.setattr(Pick, "of", noted(Pick.of, asked))
    steps = alone.plugin.warm(alone.shapes.info(given))
    next(steps)
    first = len(asked)
    list(steps)
    assert first < len(asked)
    asked.clear()
    assert set(alone.reasons(given)) == {"a"}
    assert not asked, "everything was prepared"
    alone.namespace("subteam1.team1", team="team3")
    assert not alone.reasons(given)


def noted(make: Any, asked: list[str]) -> Any:
    """The same, with a note of each call."""

    def made(*args: Any) -> Pick:
        pick: Pick = make(*args)
        asked.append(pick.text)
        return pick

    return made
