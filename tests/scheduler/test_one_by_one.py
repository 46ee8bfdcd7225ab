"""What plugins about other pods say in columns is what Kubernetes says node by node and pod by pod."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.api.labels import NOTHING, LabelMatcher, Requirement, from_struct
from moorage.api.node import Node
from moorage.api.pod import Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from moorage.scheduler.plugins.interpodaffinity import NOT_FAR, NOT_NEAR, UNWANTED, InterPodAffinity
from moorage.scheduler.plugins.podtopologyspread import MISSING, REASON, PodTopologySpread
from moorage.scheduler.pods import counts
from moorage.scheduler.pods.spread import HARD, HOSTNAME, SOFT
from moorage.scheduler.table import nodes
from moorage.scheduler.table.shape import PodInfo
from tests.scheduler.alone import Alone, Data, exists, far, near, one_of, pod, term, weighted

TEAMS = {"a": "team1", "b": "team2", "c": "team1"}
TAINT = {"key": "gpu", "effect": "NoSchedule"}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
Reasons = dict[str, tuple[str, bool]]

node_labels = st.fixed_dictionaries(
    {},
    optional={
        "zone": st.sampled_from("123"),
        "rack": st.sampled_from("12345"),
        HOSTNAME: st.sampled_from("abcdef"),
        "disk": st.sampled_from(["ssd", "hdd"]),
    },
)
pod_labels = st.fixed_dictionaries({}, optional={"app": st.sampled_from("xy"), "tier": st.sampled_from("12")})
label_selectors = st.one_of(
    st.none(),
    st.just({}),
    st.builds(lambda value: {"matchLabels": {"app": value}}, st.sampled_from("xy")),
    st.just(exists("tier")),
    st.just(one_of("app", "x", operator="NotIn")),
)
keys = st.sampled_from(["zone", "rack", HOSTNAME])
namespaces = [
    {}, {}, {"namespaces": ["b"]}, {"namespaceSelector": one_of("team", "team1")},
    {"namespaceSelector": {}, "namespaces": ["a"]},
]  # fmt: skip
terms = st.builds(
    lambda key, selector, more: term(key, selector, **more), keys, label_selectors, st.sampled_from(namespaces)
)
preferences = st.lists(st.tuples(st.integers(-9, 9).filter(bool), terms), max_size=2)


def merged(*parts: Data) -> Data:
    """One affinity of several."""
    found: Data = {}
    for part in parts:
        for side, lists in part.items():
            found[side] = {**found.get(side, {}), **lists}
    return found


affinities = st.builds(
    lambda one, two, three: merged(near(*one), far(*two), weighted(*three)),
    st.lists(terms, max_size=2),
    st.lists(terms, max_size=2),
    preferences,
)


def changes(affinity: st.SearchStrategy[Data]) -> st.SearchStrategy[list[Any]]:
    """Nodes and pods that come, change and go."""
    number, node = st.integers(0, 19), st.integers(0, 7)
    pods = st.tuples(st.just("pod"), number, node, pod_labels, st.sampled_from("abc"), st.booleans(), affinity)
    nodes = st.tuples(st.just("node"), node, node_labels, st.booleans())
    gone = st.one_of(st.tuples(st.just("no node"), node), st.tuples(st.just("no pod"), number))
    return st.lists(st.one_of(nodes, nodes, pods, pods, pods, gone), min_size=20, max_size=60)


def played(alone: Alone, given_changes: list[Any]) -> Iterator[None]:
    """Do to the table what changes say, and stop now and then to look."""
    known: dict[int, PodInfo] = {}
    for step, change in enumerate(given_changes, 1):
        match change:
            case ("node", number, labels, tainted):
                alone.node(f"node-{number}", labels, *([TAINT] if tainted else ()))
            case ("no node", number):
                alone.table.remove_node(f"node-{number}")
            case ("pod", number, node, labels, namespace, deleted, affinity):
                if number in known and known[number].node_name != f"node-{node}":
                    alone.table.remove_pod(known.pop(number))
                metadata = {"uid": str(number), **(DELETED if deleted else {})}
                more = {"affinity": affinity} if affinity else {}
                (known[number],) = alone.add(pod(labels, namespace, f"node-{node}", metadata=metadata, **more))
            case ("no pod", number) if number in known:
                alone.table.remove_pod(known.pop(number))
        if step % 8 == 0 or step == len(given_changes):
            yield


class OneByOne:
    """The nodes, and the pods that are on them."""

    def __init__(self, alone: Alone, given_pod: Pod) -> None:
        self.given = given_pod
        self.there: list[tuple[Node, list[Pod]]] = []
        for row, node in enumerate(alone.table.nodes):
            if node is not None:
                self.there.append((node, [info.pod for info in alone.table.pods[row].values()]))


class Spreading(OneByOne):
    """PodTopologySpread."""

    def constraints(self, action: str) -> list[TopologySpreadConstraint]:
        return [each for each in self.given.spec.topology_spread_constraints if each.when_unsatisfiable == action]

    def selector(self, each: TopologySpreadConstraint) -> LabelMatcher:
        found, labels = from_struct(each.label_selector), self.given.metadata.labels
        more = [Requirement(key, "=", (labels[key],)) for key in each.match_label_keys if key in labels]
        return found if found is NOTHING else LabelMatcher([*found.requirements, *more])

    def count(self, there: list[Pod], each: TopologySpreadConstraint) -> int:
        selector = self.selector(each)
        return sum(
            bool(selector.requirements)
            and other.metadata.namespace == self.given.metadata.namespace
            and other.metadata.deletion_timestamp is None
            and selector.matches(other.metadata.labels)
            for other in there
        )

    def by_domain(self, each: TopologySpreadConstraint, action: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for node, there in self.there:
            labels = node.metadata.labels
            selected = self.given.spec.node_selector.items() <= labels.items()
            if (
                all(other.topology_key in labels for other in self.constraints(action))
                and (selected or each.node_affinity_policy == "Ignore")
                and (not node.spec.taints or each.node_taints_policy == "Ignore")
            ):
                value = labels[each.topology_key]
                found[value] = found.get(value, 0) + self.count(there, each)
        return found

    def reason(self, node: Node) -> tuple[str, bool] | None:
        for each in self.constraints(HARD):
            value = node.metadata.labels.get(each.topology_key)
            if value is None:
                return MISSING, False
            domains = self.by_domain(each, HARD)
            fewest = min(domains.values()) if len(domains) >= (each.min_domains or 1) else 0
            itself = self.selector(each).matches(self.given.metadata.labels)
            if domains.get(value, 0) + itself - fewest > each.max_skew:
                return REASON, True
        return None

    def reasons(self) -> Reasons:
        found = {node.metadata.name: self.reason(node) for node, _ in self.there}
        return {name: reason for name, reason in found.items() if reason}

    def scores(self) -> dict[str, int] | None:
        every = self.constraints(SOFT)
        if not every:
            return None
        ranked = [each for each in self.there if all(one.topology_key in each[0].metadata.labels for one in every)]
        raw: dict[str, int] = {}
        for node, there in ranked:
            total = 0.0
            for each in every:
                if each.topology_key == HOSTNAME:
                    number, size = self.count(there, each), len(ranked)
                else:
                    number = self.by_domain(each, SOFT).get(node.metadata.labels[each.topology_key], 0)
                    size = len({other.metadata.labels[each.topology_key] for other, _ in ranked})
                total += number * math.log(size + 2) + each.max_skew - 1
            raw[node.metadata.name] = math.floor(total + 0.5)
        most, least = max(raw.values(), default=0), min(raw.values(), default=0)
        scaled = {name: 100 * (most + least - score) // most if most else 100 for name, score in raw.items()}
        return {node.metadata.name: scaled.get(node.metadata.name, 0) for node, _ in self.there}


class Affinities(OneByOne):
    """InterPodAffinity."""

    def side(self, of: Pod, name: str) -> PodAffinity:
        found = getattr(of.spec.affinity, name) if of.spec.affinity else None
        return found or PodAffinity()

    def required(self, of: Pod, name: str) -> tuple[PodAffinityTerm, ...]:
        return self.side(of, name).required_during_scheduling_ignored_during_execution

    def about(self, of: Pod, each: PodAffinityTerm, other: Pod) -> bool:
        own = not each.namespaces and each.namespace_selector is None
        names = (of.metadata.namespace,) if own else each.namespaces
        namespace = other.metadata.namespace
        if namespace not in names and not from_struct(each.namespace_selector).matches({"team": TEAMS[namespace]}):
            return False
        return from_struct(each.label_selector).matches(other.metadata.labels)

    def pairs(self) -> tuple[set[Any], set[Any], set[Any]]:
        """Labels with their values where pods are to be near to, to be far from, and that want the pod far."""
        wanted, hated = self.required(self.given, "pod_affinity"), self.required(self.given, "pod_anti_affinity")
        near_to, far_from, unwanted = set(), set(), set()
        for node, there in self.there:
            labels = node.metadata.labels
            for other in there:
                if all(self.about(self.given, each, other) for each in wanted):
                    near_to |= {(each.topology_key, labels.get(each.topology_key)) for each in wanted}
                far_from |= {
                    (each.topology_key, labels.get(each.topology_key))
                    for each in hated
                    if self.about(self.given, each, other)
                }
                unwanted |= {
                    (each.topology_key, labels.get(each.topology_key))
                    for each in self.required(other, "pod_anti_affinity")
                    if self.about(other, each, self.given)
                }
        return near_to, far_from, unwanted

    def reasons(self) -> Reasons:
        near_to, far_from, unwanted = self.pairs()
        wanted = self.required(self.given, "pod_affinity")
        nobody = all(value is None for _, value in near_to)
        first = nobody and all(self.about(self.given, each, self.given) for each in wanted)
        found: Reasons = {}
        for node, _ in self.there:
            labels = node.metadata.labels
            here = [(each.topology_key, labels.get(each.topology_key)) for each in wanted]
            if any(value is None or not (first or (key, value) in near_to) for key, value in here):
                found[node.metadata.name] = NOT_NEAR, False
            elif far_from & set(labels.items()):
                found[node.metadata.name] = NOT_FAR, True
            elif unwanted & set(labels.items()):
                found[node.metadata.name] = UNWANTED, True
        return found

    def weights(self, other: Pod, hard_weight: int) -> Iterator[tuple[str, int]]:
        """The labels by which a pod that is there makes nodes better or worse."""
        for one, two in ((self.given, other), (other, self.given)):
            for name, sign in (("pod_affinity", 1), ("pod_anti_affinity", -1)):
                for each in self.side(one, name).preferred_during_scheduling_ignored_during_execution:
                    if self.about(one, each.pod_affinity_term, two):
                        yield each.pod_affinity_term.topology_key, sign * each.weight
        for needed in self.required(other, "pod_affinity"):
            if self.about(other, needed, self.given):
                yield needed.topology_key, hard_weight

    def scores(self, hard_weight: int) -> dict[str, int]:
        pairs: dict[tuple[str, str], int] = {}
        for node, there in self.there:
            for other in there:
                for key, weight in self.weights(other, hard_weight):
                    if key in node.metadata.labels:
                        pair = key, node.metadata.labels[key]
                        pairs[pair] = pairs.get(pair, 0) + weight
        raw = {
            node.metadata.name: sum(pairs.get(pair, 0) for pair in node.metadata.labels.items())
            for node, _ in self.there
        }
        least, most = min(raw.values()), max(raw.values())
        return {
            name: int(100 * ((score - least) / (most - least))) if most > least else 0 for name, score in raw.items()
        }


constraints = st.lists(
    st.fixed_dictionaries(
        {
            "topologyKey": keys,
            "maxSkew": st.integers(1, 3),
            "whenUnsatisfiable": st.sampled_from([HARD, SOFT]),
            "minDomains": st.sampled_from([1, 2, 4]),
            "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
            "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
            "matchLabelKeys": st.sampled_from([[], ["tier"]]),
            "labelSelector": label_selectors,
        }
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=120)
@given(
    changes(st.just({})), constraints, pod_labels, st.sampled_from([{}, {"disk": "ssd"}, {"disk": "ssd", "rack": "1"}])
)
def test_pods_are_spread_as_a_loop_spreads_them(
    happens: list[Any], spread: list[Data], labels: dict[str, str], selects: dict[str, str]
) -> None:
    with patch.object(nodes, "_SIZE", 2):
        alone = Alone(PodTopologySpread)
    given_pod = pod(labels, "a", topologySpreadConstraints=spread, nodeSelector=selects)
    for _ in played(alone, happens):
        loop = Spreading(alone, given_pod)
        assert alone.reasons(given_pod) == loop.reasons()
        if loop.there:
            assert alone.scores(given_pod) == loop.scores()


@settings(max_examples=120)
@given(changes(affinities), affinities, pod_labels, st.sampled_from([0, 1, 7]), st.sampled_from([0, 64]))
def test_pods_are_near_and_far_as_a_loop_says(
    happens: list[Any], affinity: Data, labels: dict[str, str], hard_weight: int, few: int
) -> None:
    with patch.object(nodes, "_SIZE", 2), patch.object(counts, "_FEW", few):
        alone = Alone(InterPodAffinity, hardPodAffinityWeight=hard_weight)
        for name, team in TEAMS.items():
            alone.namespace(name, team=team)
        given_pod = pod(labels, "a", affinity=affinity)
        for _ in played(alone, happens):
            loop = Affinities(alone, given_pod)
            assert alone.reasons(given_pod) == loop.reasons()
            if loop.there:
                scores = loop.scores(hard_weight)
                assert (alone.scores(given_pod) or dict.fromkeys(scores, 0)) == scores
