"""Who must leave for a pod of higher priority, and where: the cases of kube-scheduler's own unit tests."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.api.decode import convert
from moorage.api.pod import Pod, PodDisruptionBudget
from moorage.scheduler.plugins.defaultpreemption import DefaultPreemption
from moorage.scheduler.pods.victims import PreemptionCandidate
from tests.scheduler.profile_on_table import MINE, ProfileOnTable, configured, node, pod

Data = dict[str, Any]
SIZES = {"small": "100m", "medium": "200m", "large": "300m", "huge": "500m"}
PRIORITIES = {"negative": -100, "low": 0, "mid": 100, "high": 1000, "highest": 10_000}
NODE = {"cpu": "500m", "memory": "500", "pods": "32"}


def sized(priority: str, size: str, name: str = "", start: int = 0, **more: Any) -> Pod:
    """A pod of a priority and a size; `start` orders pods by when they started."""
    metadata = {"name": name, "uid": name, "labels": more.pop("labels", {})} if name else {}
    status = {"startTime": f"2026-01-01T00:00:{start:02}Z"} if start else {}
    return pod({"cpu": SIZES[size]}, priority=PRIORITIES[priority], metadata=metadata, status=status, **more)


class Scene:
    """Nodes of one size with pods on them, written as `name:priority size[start]`."""

    def __init__(self, *nodes: str, args: Data | None = None, **budgets: Data) -> None:
        self.engine = ProfileOnTable(
            configuration=configured({"DefaultPreemption": args or {}}, (*MINE, "InterPodAffinity"))
        )
        for number, text in enumerate(nodes, 1):
            self.engine.table.set_node(node(f"node{number}", {"hostname": f"node{number}"}, room=NODE))
            for word in text.split(", ") if text else ():
                self.put(f"node{number}", word)
        for name, given in budgets.items():
            status = {"disruptionsAllowed": given.get("allowed", 0), "disruptedPods": given.get("disrupted", {})}
            spec = {"selector": {"matchLabels": {"app": name}}}
            metadata = {"name": name, "namespace": "default", "uid": name}
            self.engine.told(convert({"metadata": metadata, "spec": spec, "status": status}, PodDisruptionBudget))

    def put(self, where: str, word: str) -> None:
        name, _, what = word.partition(":")
        name, _, app = name.partition("@")
        priority, size = what.split()
        size, _, start = size.partition("[")
        given = sized(priority, size, name, int(start.rstrip("]") or 0), labels={"app": app} if app else {})
        self.engine.table.add_pod(self.engine.info(given, where))

    @property
    def plugin(self) -> DefaultPreemption:
        found = self.engine.profile.post_filters[0]
        assert isinstance(found, DefaultPreemption)
        return found

    def candidates(self, given: Pod) -> dict[str, tuple[set[str], int]]:
        """The nodes where room could be made: who would leave, and how many budgets that breaks."""
        return {
            each.node: ({victim.uid for victim in each.victims}, each.violations) for each in self._candidates(given)
        }

    def _candidates(self, given: Pod) -> list[PreemptionCandidate]:
        cycle = self.engine.cycle(given)
        before = self.engine.table.requested.copy()
        rows = self.engine.table.alive.nonzero()[0]
        found, _ = self.plugin.candidates(cycle, rows)
        assert (self.engine.table.requested == before).all()
        return found

    def chosen(self, given: Pod) -> str:
        """The node where it does least harm."""
        return self.engine.nomination(given).node


@pytest.mark.parametrize(
    ("given", "nodes", "expected"),
    [
        (("high", "large"), ["p1:mid large", "p2:mid large"], {"node1": {"p1"}, "node2": {"p2"}}),
        (("low", "large"), ["p1:mid large", "p2:mid large"], {}),
        (("mid", "large"), ["p1:mid large"], {}),
        (("high", "large"), ["p11:low small, p12:mid large", "p2:mid large"], {"node1": {"p12"}, "node2": {"p2"}}),
        (
            ("high", "large"),
            ["p11:mid small, p12:low small, p13:mid medium, p14:high small", "p2:high large"],
            {"node1": {"p12", "p13"}},
        ),
        (
            ("high", "large"),
            ["p11:low small[5], p12:low small[4], p13:mid medium[3], p14:high small[2]", "p2:high large[1]"],
            {"node1": {"p11", "p13"}},
        ),
    ],
)
def test_as_few_pods_leave_as_will_do(given: tuple[str, str], nodes: list[str], expected: dict[str, set[str]]) -> None:
    found = Scene(*nodes).candidates(sized(*given))
    assert found == {name: (victims, 0) for name, victims in expected.items()}


def test_a_pod_that_does_not_want_company_leaves_rather_than_others() -> None:
    here = Scene("p2:mid small, p3:high small", "p4:high small")
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchExpressions": [{"key": "foo", "operator": "Exists"}]},
                    "topologyKey": "hostname",
                }
            ]
        }
    }
    lonely = sized("low", "small", "p1", labels={"foo": ""}, affinity=apart)
    here.engine.table.add_pod(here.engine.info(lonely, "node1"))
    assert here.candidates(sized("high", "small", "p", labels={"foo": ""}))["node1"] == ({"p1"}, 0)


@pytest.mark.parametrize(
    ("pods", "budget", "victims", "violations"),
    [
        ("p1@foo:mid medium, p2@foo:mid medium", {"allowed": 1}, {"p1", "p2"}, 1),
        ("p1@foo:mid medium, p2@foo:mid medium", {"allowed": 2}, {"p1", "p2"}, 0),
        ("p1@foo:mid medium, p2@foo:mid medium", {"allowed": 1, "disrupted": {"p3": None}}, {"p1", "p2"}, 1),
        ("p1@foo:mid medium, p2@foo:mid medium", {"disrupted": {"p2": "2026-01-01T00:00:00Z"}}, {"p1", "p2"}, 1),
        (
            "p1@foo:mid medium, p2@foo:mid medium, p3@foo:mid small",
            {"disrupted": {"p1": "2026-01-01T00:00:00Z", "p2": "2026-01-01T00:00:00Z"}},
            {"p1", "p2", "p3"},
            1,
        ),
    ],
)
def test_budgets_that_would_break_are_counted(pods: str, budget: Data, victims: set[str], violations: int) -> None:
    if "disrupted" in budget:
        budget = {**budget, "disrupted": dict.fromkeys(budget["disrupted"], "2026-01-01T00:00:00Z")}
    assert Scene(pods, foo=budget).candidates(sized("high", "huge")) == {"node1": (victims, violations)}


def test_a_pod_without_a_budget_leaves_before_one_of_lower_priority_whose_budget_would_break() -> None:
    here = Scene("kept@foo:low large, leaves:mid medium", foo={"allowed": 0})
    assert here.candidates(sized("high", "medium")) == {"node1": ({"leaves"}, 0)}


def test_the_search_goes_on_until_a_node_is_found_where_no_budget_breaks() -> None:
    nodes = ["p1@foo:mid large", "p2@foo:mid large", "p3:mid large", "p4:mid large", "p5@foo:mid large"]
    args = {"minCandidateNodesPercentage": 40, "minCandidateNodesAbsolute": 2}
    for seed in range(10):
        here = Scene(*nodes, args=args, foo={"allowed": 0})
        here.engine.handle.random.seed(seed)
        found = here.candidates(sized("high", "large"))
        assert any(not violations for _, violations in found.values())
        assert 2 <= len(found) <= 4
        assert here.chosen(sized("high", "large")) in ("node3", "node4")


def test_not_all_nodes_are_looked_at_when_some_are_enough() -> None:
    args = {"minCandidateNodesPercentage": 40, "minCandidateNodesAbsolute": 1}
    here = Scene(*(f"p{number}:mid large" for number in range(5)), args=args)
    assert len(here.candidates(sized("high", "large"))) == 2


@pytest.mark.parametrize(
    ("given", "nodes", "expected"),
    [
        (("high", "large"), ["p1:mid large[9]", "p2:mid large[9]"], {"node1", "node2"}),
        (("high", "huge"), ["a:mid medium, b:mid large", "c:mid medium, d:low medium", "e:low medium, f:low medium"],
         {"node3"}),
        (("high", "huge"), ["a:mid medium, b:mid large", "c:mid large, d:low medium", "e:mid medium, f:mid medium"],
         {"node2"}),
        (("high", "huge"), [
            "a:mid small, b:negative small, c:mid small, d:negative small", "e:mid large, f:negative medium",
            "g:mid medium, h:negative small, i:low small",
        ], {"node2"}),
        (("high", "huge"), [
            "a:mid small, b:negative small, c:negative small", "d:mid large, e:negative medium",
            "f:mid medium, g:negative small, h:low small",
        ], {"node2"}),
        (("highest", "huge"), [
            "a:mid small, b:low small, c:low small", "d:high large",
            "e:mid medium, f:low small, g:low small, h:low medium",
            "i:mid medium, j:mid small, k:mid small, l:negative small",
        ], {"node1"}),
        (("high", "huge"), ["a:mid medium[2], b:mid medium[2]", "c:mid medium[3], d:mid medium[3]",
                            "e:mid medium[1], f:mid medium[1]"], {"node2"}),
        (("high", "huge"), ["a:mid medium[4], b:mid medium[2]", "c:mid medium[5], d:mid medium[1]",
                            "e:mid medium[3], f:mid medium[6]"], {"node3"}),
        (("high", "huge"), ["a:low medium[4], b:mid medium[2]", "c:mid medium[6], d:low medium[1]",
                            "e:low medium[3], f:mid medium[5]"], {"node2"}),
    ],
)  # fmt: skip
def test_room_is_made_where_it_does_least_harm(given: tuple[str, str], nodes: list[str], expected: set[str]) -> None:
    assert Scene(*nodes).chosen(sized(*given)) in expected


def test_a_pod_whose_policy_is_never_removes_nobody() -> None:
    here = Scene("p1:low large")
    nomination = here.engine.nomination(sized("high", "large", preemptionPolicy="Never"))
    assert nomination.node == ""
    assert nomination.message == "preemption: not eligible due to preemptionPolicy=Never."


@pytest.mark.parametrize(
    ("reason", "leaving", "waits"),
    [
        ("PreemptionByScheduler", True, True),
        ("PreemptionByScheduler", False, False),
        ("DeletionByTaintManager", True, False),
    ],
)
def test_a_nominated_pod_waits_for_the_victims_on_its_node(reason: str, leaving: bool, waits: bool) -> None:
    here = Scene("", "p2:low large")
    data: Data = {"name": "p1", "uid": "p1"} | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {})
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    victim = pod({"cpu": "500m"}, priority=0, metadata=data, status={"conditions": [condition]})
    here.engine.table.add_pod(here.engine.info(victim, "node1"))
    given = sized("high", "huge", "p")
    here.engine.handle.nominations.nominate(here.engine.info(given), "node1")
    nomination = here.engine.nomination(given)
    assert ("terminating pod on the nominated node" in nomination.message) == waits
    assert bool(nomination.node) != waits


def test_nodes_that_no_removal_could_open_are_told_apart() -> None:
    here = Scene("p1:high large", "p2:low large", "p3:low large, p4:high medium")
    here.engine.table.set_node(node("cordoned", room=NODE, unschedulable=True))
    message = here.engine.nomination(sized("mid", "huge", "p", nodeSelector={"hostname": "node1"})).message
    assert message == (
        "preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, "
        "3 Preemption is not helpful for scheduling."
    )
    message = here.engine.nomination(sized("mid", "huge", "q", nodeSelector={"hostname": "node3"})).message
    assert message == (
        "preemption: 0/4 nodes are available: 1 Insufficient cpu, 3 Preemption is not helpful for scheduling."
    )


def test_room_for_nominated_pods_is_not_free() -> None:
    here = Scene("p1:low large, p2:low medium")
    here.engine.handle.nominations.nominate(here.engine.info(sized("high", "large", "first")), "node1")
    assert here.candidates(sized("high", "large")) == {}
    assert here.candidates(sized("high", "medium")) == {"node1": ({"p1", "p2"}, 0)}
    assert here.candidates(sized("highest", "large")) == {"node1": ({"p1"}, 0)}


def test_a_resource_that_comes_to_a_node_counts_beside_nominated_pods() -> None:
    here = Scene("")
    here.engine.handle.nominations.nominate(here.engine.info(sized("high", "small", "first")), "node1")

    def asking() -> Pod:
        return pod({"example.com/gpu": "1"}, priority=0)

    assert not here.engine.place(asking()).node
    here.engine.table.set_node(node("node1", {"hostname": "node1"}, room={**NODE, "example.com/gpu": "1"}))
    assert here.engine.place(asking()).node == "node1"
