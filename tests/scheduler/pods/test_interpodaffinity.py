"""Pods are near to some and far from others: what must hold, what is preferred, and what wakes pods that wait."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from moorage.api.pod import Pod
from moorage.scheduler.plugins.interpodaffinity import NOT_FAR, NOT_NEAR, UNWANTED, InterPodAffinity
from tests.scheduler.plugin_on_table import Data, PluginOnTable, exists, far, near, one_of, pod, pods, term, weighted
from tests.scheduler.pods.affinitykit import BAR, FOO, FOOBAR, HOSTNAME, HOSTS, TEAM1, holding, world


class Case(NamedTuple):
    """A pod, the pods that are there, and why nodes will not do."""

    name: str
    given: Pod
    there: list[Pod]
    reasons: dict[str, str] = {}
    nodes: dict[str, dict[str, str]] = {}


ONE = {"1": {"region": "r1", "zone": "z11"}}
SCAN, VIRUS = one_of("service", "securityscan", "value2"), one_of("service", "antivirusscan", "value2")
NOT_SCAN = one_of("service", "securityscan", "value2", operator="NotIn")
SERVICE, SECURITY = exists("service"), exists("security")
ABC, DEF = exists("abc"), exists("def")
THERE = pods("1:service=securityscan")

SINGLE = [
    Case("without terms", pod(), []),
    Case("near, In", holding(near(term("region", SCAN)), "security=S1"), THERE),
    Case(
        "near, NotIn", holding(near(term("region", one_of("service", "a", "b", operator="NotIn"))), "security=S1"),
        THERE,
    ),
    Case(
        "near, another namespace", holding(near(term("region", SCAN, namespaces=["other"])), "security=S1"),
        pods("1:service=securityscan@ns"), {"1": NOT_NEAR},
    ),
    Case("near, the pod's own namespace", holding(near(term("region", SCAN)), namespace="ns"), THERE, {"1": NOT_NEAR}),
    Case("near, nobody matches", holding(near(term("region", VIRUS)), "security=S1"), THERE, {"1": NOT_NEAR}),
    Case("near without a selector", holding(near(term("region", None))), THERE, {"1": NOT_NEAR}),
    Case("near to everybody", holding(near(term("region", {}))), THERE),
    Case(
        "near, two terms that both match", holding(near(term("region", SERVICE), term("region", SCAN))), THERE
    ),
    Case(
        "near, two terms of which one does not match", holding(near(term("region", SERVICE), term("region", VIRUS))),
        THERE, {"1": NOT_NEAR},
    ),
    Case("near and far", holding(near(term("region", SCAN)) | far(term("node", VIRUS)), "security=S1"), THERE),
    Case(
        "near and far, and one there that wants others far",
        holding(near(term("region", SCAN)) | far(term("node", VIRUS)), "security=S1"),
        [holding(far(term("node", VIRUS)), "service=securityscan", node="1")],
    ),
    Case(
        "near, but not far", holding(near(term("region", SCAN)) | far(term("zone", SCAN)), "security=S1"), THERE,
        {"1": NOT_FAR},
    ),
    Case(
        "near and far, but one there wants this pod far",
        holding(near(term("region", SCAN)) | far(term("node", VIRUS)), "service=securityscan"),
        [holding(far(term("zone", SCAN)), "service=securityscan", node="1")], {"1": UNWANTED},
    ),
    Case(
        "near to others than oneself, of whom there are none",
        holding(near(term("region", NOT_SCAN)), "service=securityscan"), pods("2:service=securityscan"),
        {"1": NOT_NEAR},
    ),
    Case(
        "one there wants this pod far", pod({"service": "securityscan"}),
        [holding(far(term("zone", SCAN)), "service=securityscan", node="1")], {"1": UNWANTED},
    ),
    Case(
        "one there wants others far", pod({"service": "securityscan"}),
        [holding(far(term("zone", NOT_SCAN)), "service=securityscan", node="1")],
    ),
    Case(
        "far by the second term", holding(far(term("region", SERVICE), term("region", SECURITY)), "service=x"),
        [holding(far(term("zone", SECURITY)), "security=S1", node="1")], {"1": NOT_FAR},
    ),
    Case(
        "far, partly both ways", holding(far(term("zone", SERVICE), term("zone", SECURITY)), "service=x"),
        [holding(far(term("zone", SECURITY)), "security=S1", node="1")], {"1": NOT_FAR},
    ),
    Case(
        "far, partly the other way", holding(far(term("zone", SECURITY)), "security=S1"),
        [holding(far(term("zone", SERVICE), term("zone", SECURITY)), "service=x", node="1")], {"1": UNWANTED},
    ),
    Case(
        "far, two terms each, first", holding(far(term("zone", ABC), term("zone", DEF)), "abc,xyz"),
        [holding(far(term("zone", ABC), term("zone", DEF)), "def,xyz", node="1")], {"1": NOT_FAR},
    ),
    Case(
        "far, two terms each, second", holding(far(term("zone", ABC), term("zone", DEF)), "def,xyz"),
        [holding(far(term("zone", ABC), term("zone", DEF)), "abc,xyz", node="1")], {"1": NOT_FAR},
    ),
    Case(
        "near, namespaces by label", holding(near(term("region", SCAN, namespaceSelector=TEAM1))),
        pods("1:service=securityscan@subteam1.team1"),
    ),
    Case(
        "near, other namespaces by label", holding(near(term("region", SCAN, namespaceSelector=TEAM1))),
        pods("1:service=securityscan@subteam1.team2"), {"1": NOT_NEAR},
    ),
    Case(
        "far, namespaces by label",
        holding(far(term("zone", SCAN, namespaceSelector=TEAM1)), namespace="subteam1.team1"),
        pods("1:service=securityscan@subteam2.team1"), {"1": NOT_FAR},
    ),
    Case(
        "far, all namespaces", holding(far(term("zone", SCAN, namespaceSelector={})), namespace="subteam1.team1"),
        pods("1:service=securityscan@nowhere"), {"1": NOT_FAR},
    ),
    Case(
        "far, other namespaces by label",
        holding(far(term("zone", SCAN, namespaceSelector=TEAM1)), namespace="subteam1.team1"),
        pods("1:service=securityscan@subteam1.team2"),
    ),
    Case(
        "one there wants pods of namespaces by label far", pod({"service": "securityscan"}, "subteam1.team1"),
        [holding(far(term("zone", SCAN, namespaceSelector=TEAM1)), node="1")], {"1": UNWANTED},
    ),
    Case(
        "one there wants pods of other namespaces by label far", pod({"service": "securityscan"}, "subteam1.team2"),
        [holding(far(term("zone", SCAN, namespaceSelector=TEAM1)), node="1")],
    ),
    Case(
        "pods that are being deleted count", holding(far(term("zone", SCAN))), pods("1:service=securityscan!"),
        {"1": NOT_FAR},
    ),
]  # fmt: skip

REGIONS = {"a": {"region": "China"}, "b": {"region": "China", "az": "az1"}, "c": {"region": "India"}}
SAME_REGION = {"a": {"region": "r1", "hostname": "a"}, "b": {"region": "r1", "hostname": "b"}}
TWO_ZONES = {"a": {"region": "r1", "zone": "z1", "hostname": "a"}, "b": {"region": "r1", "zone": "z2", "hostname": "b"}}
ONE_ZONE = {"a": {"region": "r1", "zone": "z1", "hostname": "a"}, "b": {"region": "r1", "zone": "z1", "hostname": "b"}}
GROUP = holding(near(term("zone", FOOBAR), term("zone", one_of("service", "s"))), "foo=bar,service=s")

SEVERAL = [
    Case(
        "near is everywhere in the region", holding(near(term("region", FOOBAR))), pods("a:foo=bar"), {"c": NOT_NEAR},
        REGIONS,
    ),
    Case("the first of a group goes anywhere", GROUP, pods("a:foo=bar"), {}, {"a": {"zone": "1"}, "b": {"zone": "2"}}),
    Case(
        "the second of a group goes to the first", GROUP, pods("a:foo=bar,service=s"), {"b": NOT_NEAR},
        {"a": {"zone": "1"}, "b": {"zone": "2"}},
    ),
    Case(
        "the first of a group needs the label", GROUP, pods("a:foo=bar"), {"a": NOT_NEAR, "b": NOT_NEAR},
        {"a": {"rack": "1"}, "b": {"rack": "2"}},
    ),
    Case(
        "one of a group where no label is does not count", GROUP, pods("c:foo=bar,service=s"), {"c": NOT_NEAR},
        {"a": {"zone": "1"}, "b": {"zone": "2"}, "c": {}},
    ),
    Case(
        "far is everywhere in the region", holding(far(term("region", one_of("foo", "abc")))), pods("a:foo=abc"),
        {"a": NOT_FAR, "b": NOT_FAR}, SAME_REGION,
    ),
    Case(
        "far by any term",
        holding(far(term("region", one_of("foo", "abc")), term("zone", one_of("service", "scan")))),
        pods("a:foo=abc,service=scan"), {"a": NOT_FAR, "b": NOT_FAR}, TWO_ZONES,
    ),
    Case(
        "far leaves the other region", holding(far(term("region", one_of("foo", "abc")))), pods("a:foo=abc"),
        {"a": NOT_FAR, "b": NOT_FAR}, REGIONS,
    ),
    Case(
        "terms of pods in other namespaces", holding(far(term("region", FOOBAR)), "foo=123", "NS1"),
        [*pods("a:foo=bar@NS1"), holding(far(term("region", one_of("foo", "123"))), "", "NS2", "c")],
        {"a": NOT_FAR, "b": NOT_FAR}, REGIONS,
    ),
    Case(
        "one there wants others far by a label that nodes lack", pod({"foo": ""}),
        [holding(far(term("nope", FOO)), node="a")], {}, ONE_ZONE,
    ),
    Case("far by a label that nodes lack", holding(far(term("nope", FOO))), pods("a:foo"), {}, ONE_ZONE),
    Case(
        "two there want this pod far", pod({"foo": "", "bar": ""}),
        [holding(far(term("zone", FOO)), node="a"), holding(far(term("region", BAR)), node="a")],
        {"a": UNWANTED, "b": UNWANTED}, TWO_ZONES,
    ),
    Case(
        "far from one here and from another there", holding(far(term("zone", FOO), term("region", BAR))),
        pods("a:foo b:bar"), {"a": NOT_FAR, "b": NOT_FAR}, TWO_ZONES,
    ),
    Case(
        "one there, only one of its terms by a label that nodes have", pod({"foo": "", "bar": ""}),
        [holding(far(term("nope", FOO), term("zone", BAR)), node="a")], {"a": UNWANTED}, TWO_ZONES,
    ),
    Case(
        "only one of the terms by a label that nodes have", holding(far(term("nope", FOO), term("zone", BAR))),
        pods("a:foo,bar"), {"a": NOT_FAR}, TWO_ZONES,
    ),
    Case(
        "one there, both of its terms by labels that nodes have", pod({"foo": "", "bar": ""}),
        [holding(far(term("region", FOO), term("zone", BAR)), node="a")], {"a": UNWANTED, "b": UNWANTED}, TWO_ZONES,
    ),
    Case(
        "both terms by labels that nodes have", holding(far(term("region", FOO), term("zone", BAR))),
        pods("a:foo,bar"), {"a": NOT_FAR, "b": NOT_FAR}, TWO_ZONES,
    ),
    Case(
        "two there, each with a term about this pod", pod({"foo": "", "bar": ""}),
        [
            holding(far(term("zone", FOO), term("zone", exists("A"))), node="a"),
            holding(far(term("zone", BAR), term("zone", exists("B"))), node="b"),
        ],
        {"a": UNWANTED, "b": UNWANTED}, TWO_ZONES | {"c": {"region": "r1", "zone": "z3"}},
    ),
    Case(
        "near by region and by zone", holding(near(term("region", FOO), term("zone", BAR))), pods("a:foo,bar"), {},
        ONE_ZONE,
    ),
    Case(
        "near by region and by zone must be one pod", holding(near(term("region", FOO), term("zone", BAR))),
        pods("a:foo b:bar"), {"a": NOT_NEAR, "b": NOT_NEAR}, TWO_ZONES,
    ),
    Case("near on one host", holding(near(term(HOSTNAME, FOO))), pods("a:foo"), {"b": NOT_NEAR}, HOSTS),
    Case("far from one host", holding(far(term(HOSTNAME, FOO))), pods("a:foo"), {"a": NOT_FAR}, HOSTS),
    Case(
        "one there wants its host alone", pod({"foo": ""}), [holding(far(term(HOSTNAME, FOO)), node="a")],
        {"a": UNWANTED}, HOSTS,
    ),
    Case("pods of nodes that are gone do not count", holding(near(term("zone", FOO))), pods("z:foo"),
         {"a": NOT_NEAR, "b": NOT_NEAR}, TWO_ZONES),
]  # fmt: skip


@pytest.mark.parametrize("case", [*SINGLE, *SEVERAL], ids=lambda case: case.name)
def test_what_must_hold(case: Case) -> None:
    found = world(case.nodes or ONE, case.there).reasons(case.given)
    assert found == {name: (reason, reason != NOT_NEAR) for name, reason in case.reasons.items()}


@pytest.mark.parametrize(("kind", "name"), [(near, "requiredAffinityTerms"), (far, "requiredAntiAffinityTerms")])
def test_a_selector_that_cannot_be_read_rejects_the_pod(kind: Any, name: str) -> None:
    given = holding(kind(term("region", one_of("service", "{{.bad-value.}}")), term("node", VIRUS)))
    reason, resolvable = world(ONE, []).reasons(given)[""]
    assert reason.startswith(f'parsing pod: {name}: values[0][service]: Invalid value: "{{{{.bad-value.}}}}"')
    assert not resolvable


class Scored(NamedTuple):
    """A pod, the pods that are there, and the scores of nodes; None when there is nothing to say."""

    name: str
    given: Pod
    there: list[Pod]
    nodes: dict[str, dict[str, str]]
    scores: dict[str, int] | None
    args: Data = {}


CHINA, INDIA, AZ1, AZ2 = {"region": "China"}, {"region": "India"}, {"az": "az1"}, {"az": "az2"}
BOTH = CHINA | AZ1
S1, S2 = one_of("security", "S1"), one_of("security", "S2")
WITH_S1 = weighted((5, term("region", S1)))
WITH_S2 = weighted((6, term("region", S2)))
AWAY_S1 = weighted((-5, term("az", S1)))
AWAY_S2 = weighted((-5, term("az", S2)))
MIXED = weighted((8, term("region", S1)), (-5, term("az", S2)))
NOT_S1 = {"matchExpressions": one_of("security", "S1", operator="NotIn")["matchExpressions"] + S2["matchExpressions"]}
OPERATORS = weighted((8, term("region", NOT_S1)), (2, term("region", SECURITY)))
HARD = near(term("region", one_of("security", "S1", "value2")), term("region", SECURITY))
TEAMS = {"namespaces": ["subteam2.team2"], "namespaceSelector": TEAM1}
WITH_TEAM = weighted((5, term("region", S1, **TEAMS)))
AWAY_TEAM = weighted((-5, term("region", S1, **TEAMS)))
OTHERS = {"namespaceSelector": one_of("team", "team1", operator="NotIn")}
WITH_OTHERS = weighted((5, term("region", S1, **OTHERS)))
AWAY_OTHERS = weighted((-5, term("region", S1, **OTHERS)))
TEAM_HARD = near(term("region", one_of("service", "S1"), namespaces=["default", "subteam2.team2"],
                      namespaceSelector=TEAM1))  # fmt: skip
THREE = {"1": CHINA, "2": INDIA, "3": AZ1}
TWO = {"1": CHINA, "2": INDIA}
FIVE = {"1": CHINA, "2": INDIA, "3": CHINA, "4": CHINA, "5": INDIA}
FEDERATED = "1:security=S1@subteam1.team1 1:security=S1@subteam1.team1"
HARD_THERE = [holding(TEAM_HARD, node="1"), holding(TEAM_HARD, node="2")]

SCORED = [
    Scored("nobody has terms", pod({"security": "S1"}), [], THREE, None),
    Scored(
        "near in the region", holding(WITH_S1, "security=S1"), pods("1:security=S1 2:security=S2 3:security=S1"), THREE,
        {"1": 100, "2": 0, "3": 0},
    ),
    Scored(
        "near is everywhere in the region", holding(WITH_S1), pods("1:security=S1"),
        {"1": CHINA, "2": BOTH, "3": INDIA}, {"1": 100, "2": 100, "3": 0},
    ),
    Scored(
        "the region with more", holding(WITH_S2, "security=S1"),
        pods("1:security=S2 1:security=S2 2:security=S2 3:security=S2 4:security=S2 5:security=S2"), FIVE,
        {"1": 100, "2": 0, "3": 100, "4": 100, "5": 0},
    ),
    Scored(
        "several operators and weights", holding(OPERATORS, "security=S1"),
        pods("1:security=S1 2:security=S2 3:security=S1"), THREE, {"1": 20, "2": 100, "3": 0},
    ),
    Scored(
        "wanted near by one there", pod({"security": "S2"}),
        [holding(WITH_S1, "security=S1", node="1"), holding(WITH_S2, "security=S2", node="2")], THREE,
        {"1": 0, "2": 100, "3": 0},
    ),
    Scored(
        "wanted near, namespaces by label", pod({"security": "S1"}, "subteam1.team1"),
        [holding(WITH_TEAM, "security=S1", node="1"), holding(WITH_S2, "security=S2", node="2")], THREE,
        {"1": 100, "2": 0, "3": 0},
    ),
    Scored(
        "wanted far, namespaces by label", pod({"security": "S1"}, "subteam1.team1"),
        [holding(AWAY_TEAM, "security=S1", node="1"), holding(WITH_S2, "security=S2", node="2")], THREE,
        {"1": 0, "2": 100, "3": 100},
    ),
    Scored(
        "needed near by one there", pod({"security": "S1"}),
        [holding(HARD, "security=S1", node="1"), holding(HARD, "security=S2", node="2")], THREE,
        {"1": 100, "2": 100, "3": 0},
    ),
    Scored(
        "far, matching pods have a place", holding(AWAY_S1, "security=S1"), pods("1:security=S1 2:security=S2"),
        {"1": AZ1, "2": CHINA}, {"1": 0, "2": 100},
    ),
    Scored(
        "far, one has no place", holding(AWAY_S1, "security=S1"), pods("1:security=S1 2:security=S1"),
        {"1": AZ1, "2": CHINA}, {"1": 0, "2": 100},
    ),
    Scored(
        "far from more", holding(AWAY_S1, "security=S1"), pods("1:security=S1 1:security=S1 2:security=S2"),
        {"1": AZ1, "2": INDIA}, {"1": 0, "2": 100},
    ),
    Scored(
        "wanted far by one there", pod({"security": "S2"}),
        [holding(AWAY_S2, "security=S1", node="1"), holding(AWAY_S1, "security=S2", node="2")], {"1": AZ1, "2": AZ2},
        {"1": 0, "2": 100},
    ),
    Scored(
        "near and far", holding(MIXED, "security=S1"), pods("1:security=S1 2:security=S1"), {"1": CHINA, "2": AZ1},
        {"1": 100, "2": 0},
    ),
    Scored(
        "near and far, pods of one kind", holding(MIXED, "security=S1"),
        pods("1:security=S1 1:security=S1 2:security=S1 3:security=S1 3:security=S1 4:security=S1 5:security=S1"),
        FIVE | {"1": BOTH}, {"1": 100, "2": 0, "3": 100, "4": 100, "5": 0},
    ),
    Scored(
        "near and far, both ways", holding(MIXED, "security=S1"),
        [*pods("1:security=S1 2:security=S2"), holding(MIXED, node="3"), holding(AWAY_S1, node="4")],
        {"1": CHINA, "2": AZ1, "3": INDIA, "4": AZ2}, {"1": 100, "2": 0, "3": 100, "4": 0},
    ),
    Scored(
        "the same everywhere is nothing", pod({"security": "S1"}),
        [*pods("1:security=S1"), holding(MIXED, node="2")], {"1": CHINA, "2": CHINA}, {"1": 0, "2": 0},
    ),
    Scored(
        "near, namespaces by label", holding(WITH_TEAM, "security=S1", "subteam1.team1"),
        pods(f"{FEDERATED} 1:security=S1@subteam1.team2 2:security=S1@subteam2.team1"), TWO, {"1": 100, "2": 0},
    ),
    Scored(
        "near, namespaces by label and by name", holding(WITH_TEAM, "security=S1", "subteam1.team1"),
        pods(f"{FEDERATED} 1:security=S1@subteam2.team2 2:security=S1@subteam2.team1"), TWO, {"1": 100, "2": 0},
    ),
    Scored(
        "far, namespaces by label", holding(AWAY_TEAM, "security=S1", "subteam1.team1"),
        pods(f"{FEDERATED} 1:security=S1@subteam1.team2 2:security=S1@subteam2.team1"), TWO, {"1": 0, "2": 100},
    ),
    Scored(
        "far, namespaces by label and by name", holding(AWAY_TEAM, "security=S1", "subteam1.team1"),
        pods(f"{FEDERATED} 1:security=S1@subteam2.team2 2:security=S1@subteam2.team1"), TWO, {"1": 0, "2": 100},
    ),
    Scored(
        "near, namespaces without a label", holding(WITH_OTHERS, "security=S1", "subteam1.team1"),
        pods(f"{FEDERATED} 2:security=S1@subteam1.team2"), TWO, {"1": 0, "2": 100},
    ),
    Scored(
        "far, namespaces without a label", holding(AWAY_OTHERS, "security=S1", "subteam1.team1"),
        pods(f"{FEDERATED} 2:security=S1@subteam1.team2"), TWO, {"1": 100, "2": 0},
    ),
    Scored(
        "preferences of others are ignored", pod({"security": "S2"}),
        [holding(MIXED, "security=S1", node="1"), holding(WITH_S2, "security=S2", node="2")], TWO, None,
        {"ignorePreferredTermsOfExistingPods": True},
    ),
    Scored(
        "preferences of others are not ignored", pod({"security": "S2"}),
        [holding(MIXED, "security=S1", node="1"), holding(WITH_S2, "security=S2", node="2")], TWO, {"1": 0, "2": 100},
    ),
    Scored(
        "preferences of others count beside those of the pod", holding(WITH_S1, "security=S2"),
        [holding(WITH_S2, "security=S2", node="2")], TWO, {"1": 0, "2": 100},
        {"ignorePreferredTermsOfExistingPods": True},
    ),
    Scored("needs of others", pod({"service": "S1"}), HARD_THERE, THREE, {"1": 100, "2": 100, "3": 0}),
    Scored(
        "needs of others weigh nothing", pod({"service": "S1"}), HARD_THERE, THREE, None, {"hardPodAffinityWeight": 0}
    ),
    Scored("needs of others, another namespace", pod({"service": "S1"}, "subteam1.team2"), HARD_THERE, THREE, None),
    Scored(
        "needs of others, namespaces by label", pod({"service": "S1"}, "subteam1.team1"), HARD_THERE, THREE,
        {"1": 100, "2": 100, "3": 0},
    ),
    Scored(
        "needs of others, namespaces by name", pod({"service": "S1"}, "subteam2.team2"), HARD_THERE, THREE,
        {"1": 100, "2": 100, "3": 0},
    ),
    Scored(
        "needs of others weigh as much as is said", holding(weighted((2, term("region", S1))), "service=S1"),
        [*pods("1:security=S1"), HARD_THERE[1]], TWO, {"1": 0, "2": 100}, {"hardPodAffinityWeight": 3},
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", SCORED, ids=lambda case: case.name)
def test_what_is_preferred(case: Scored) -> None:
    assert world(case.nodes, case.there, **case.args).scores(case.given) == case.scores


@pytest.mark.parametrize("weight", [-1, 101])
def test_a_weight_that_cannot_be_is_refused(weight: int) -> None:
    with pytest.raises(ValueError, match="hardPodAffinityWeight"):
        PluginOnTable(InterPodAffinity, hardPodAffinityWeight=weight)


def test_labels_of_namespaces_count_as_they_are_now() -> None:
    alone = world(ONE, pods("1:service=securityscan@subteam1.team2"))
    given_pod = holding(far(term("zone", SCAN, namespaceSelector=TEAM1)))
    assert not alone.reasons(given_pod)
    alone.namespace("subteam1.team2", team="team1")
    assert alone.reasons(given_pod) == {"1": (NOT_FAR, True)}


def test_pods_that_come_and_go_for_a_moment_count_for_that_moment() -> None:
    alone = world(HOSTS, [])
    (held,) = alone.add(holding(far(term(HOSTNAME, FOO)), node="a"))
    cycle = alone.cycle(pod({"foo": ""}))
    assert alone.plugin.pre_filter(cycle) is None
    rows = alone.table.alive.nonzero()[0]
    assert alone.plugin.filter(cycle, rows).sum() == 1
    alone.table.remove_pod(held)
    assert alone.plugin.filter(cycle, rows).all()
    alone.table.add_pod(held)
    assert alone.plugin.filter(cycle, rows).sum() == 1
