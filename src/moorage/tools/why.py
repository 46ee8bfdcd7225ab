"""Why a pod may run on some nodes and not on others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from moorage.api import kinds
from moorage.api.node import Node, Taint
from moorage.api.pod import Pod, PodSpec
from moorage.api.volume import PersistentVolume, PersistentVolumeClaim
from moorage.features import Gate, Gates
from moorage.match.reasons import Complaint, departures, selector_lacks
from moorage.match.selector import (
    Preferences,
    Selector,
    compile_pod_selector,
    compile_preferences,
    compile_selector,
)
from moorage.match.tolerations import NO_EXECUTE, NO_SCHEDULE, Tolerations
from moorage.tools.admission import ManifestAdmission
from moorage.tools.cluster import Cluster, ClusterObject
from moorage.tools.nodes import UNSCHEDULABLE, GroupTable, Marks, NodeGroup, Nodes, NodeView
from moorage.tools.preferences import ignored_preferences
from moorage.tools.remedy import Remedy, smallest_change
from moorage.validation.gates import gates_needed

TAINT_WEIGHT, AFFINITY_WEIGHT, MAX_SCORE = 3, 2, 100
"""The weights of the scheduler's TaintToleration and NodeAffinity scores, and the best score of each."""


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """One reason why a pod may not run on a node. Refusals of the same kind differ only in values."""

    kind: tuple[str, ...]
    subject: str = field(compare=False)
    reason: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason}"


class NodeSet:
    """The names of the nodes of some groups, without a copy."""

    __slots__ = ("_groups", "_size")

    def __init__(self, groups: Sequence[NodeGroup]) -> None:
        self._groups = groups
        self._size = sum(map(len, map(attrgetter("names"), groups)))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[str]:
        return (name for group in self._groups for name in group.names)


@dataclass(slots=True)
class Fit:
    """Nodes on which a pod may run."""

    nodes: NodeSet
    score: int
    grace_seconds: int | None
    """Seconds until a NoExecute taint would evict the pod; None when it may stay."""


@dataclass(slots=True)
class RefusedNodes:
    """Nodes that a pod may not run on, all for the same reasons."""

    nodes: NodeSet
    refusals: tuple[NodeRefusal, ...]
    variants: int
    """How many sets of refusals there are that differ only in values; the one given is an example."""


@dataclass(slots=True)
class PodAnswer:
    """Where a pod may run; pods with the same constraints share one."""

    fits: list[Fit] = field(default_factory=list)
    refused: list[RefusedNodes] = field(default_factory=list)
    remedy: Remedy | None = None
    notes: tuple[str, ...] = ()

    @property
    def node_count(self) -> int:
        """On how many nodes the pod may run."""
        return sum(len(fit.nodes) for fit in self.fits)


@dataclass(slots=True)
class Explanation:
    """Where one pod may run, whether it is admitted, and whether it may stay where it is."""

    item: ClusterObject
    answer: PodAnswer
    admission: list[str]
    """Admission errors."""
    placed_on: str
    leaves: str
    """Why the pod has to leave the node it is on, empty when it may stay."""
    leaves_after: int | None

    @property
    def fits(self) -> bool:
        """Whether the pod is admitted and may run somewhere."""
        return bool(self.answer.fits and not self.admission)

    @property
    def is_finding(self) -> bool:
        """Whether the pod counts for the exit code: it fits nowhere, is refused by admission, or has to leave."""
        short = any(fit.grace_seconds is not None for fit in self.answer.fits)
        return bool(self.admission or not self.answer.fits or short or self.leaves)


@dataclass(frozen=True, slots=True)
class _Question:
    """The constraints of a pod on nodes, compiled under one set of gates."""

    spec: PodSpec
    namespace: str
    claims: tuple[str, ...]
    gates: Gates
    tolerations: Tolerations
    complaint: Complaint
    lasting: Tolerations
    """The tolerations as eviction sees them."""
    selector: Selector
    preferences: Preferences
    volumes: tuple[tuple[str, Selector], ...]
    notes: tuple[str, ...]
    exact: bool
    """Whether refusals that differ only in values are kept apart."""


class Explainer:
    """Answers for the pods of one cluster under one set of gates."""

    def __init__(self, cluster: Cluster, gates: Gates, *, exact: bool = False) -> None:
        self._gates = gates
        self._exact = exact
        self.nodes = Nodes([node for _, node in cluster.of(Node)])
        self._volumes = {volume.metadata.name: volume for _, volume in cluster.of(PersistentVolume)}
        self._claims = {
            (claim.metadata.namespace or "default", claim.metadata.name): claim
            for _, claim in cluster.of(PersistentVolumeClaim)
        }
        self._pods = [item for item in cluster.items if kinds.of(item.object).pod_spec]
        self._answers: dict[object, PodAnswer] = {}
        self._admission = ManifestAdmission(cluster.items, gates)

    @property
    def pod_count(self) -> int:
        """How many pods and pod templates there are."""
        return len(self._pods)

    def explain_all(self) -> Iterator[Explanation]:
        """Explain each pod and pod template, in the order in which they were given."""
        for item in self._pods:
            yield self._explain(item)

    def _explain(self, item: ClusterObject) -> Explanation:
        spec = kinds.of(item.object).pod_spec_of(item.object)
        assert spec is not None  # only items with a pod specification are kept
        trial = self._admission.trial(item)
        refusals = [trial.unreadable] if trial.unreadable else trial.refusals
        leaves, after = self._stay(spec)
        answer = self._answer(spec, item.object.metadata.namespace or "default")
        told = [str(refusal._replace(path=item.path(refusal.path))) for refusal in refusals]
        return Explanation(item, answer, told, spec.node_name, leaves, after)

    def _answer(self, spec: PodSpec, namespace: str) -> PodAnswer:
        affinity = spec.affinity and spec.affinity.node_affinity
        claims = tuple(each.persistent_volume_claim.claim_name for each in spec.volumes if each.persistent_volume_claim)
        identity = (spec.tolerations, tuple(spec.node_selector.items()), affinity, claims and (namespace, claims))
        if identity not in self._answers:
            question = self._question(spec, namespace, claims, self._gates)
            answer = self._ask(question)
            if not answer.fits and len(self.nodes):
                answer.remedy = self._remedy(question)
            self._answers[identity] = answer
        return self._answers[identity]

    def _question(self, spec: PodSpec, namespace: str, claims: tuple[str, ...], gates: Gates) -> _Question:
        affinity = spec.affinity and spec.affinity.node_affinity
        preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
        volumes, notes = self._volume_selectors(namespace, claims, gates)
        tolerations = Tolerations(spec.tolerations, gates)
        return _Question(
            spec,
            namespace,
            claims,
            gates,
            tolerations,
            Complaint(tolerations, gates),
            Tolerations(spec.tolerations, gates.for_eviction()),
            compile_pod_selector(spec, gates),
            compile_preferences(preferred, gates),
            volumes,
            notes,
            self._exact,
        )

    def _volume_selectors(
        self, namespace: str, claims: Iterable[str], gates: Gates
    ) -> tuple[tuple[tuple[str, Selector], ...], tuple[str, ...]]:
        selectors, notes = [], []
        for name in claims:
            claim = self._claims.get((namespace, name))
            volume = self._volume_of(claim, namespace, name)
            if volume is None:
                missing = "is not bound to a volume given here" if claim else "is not among the manifests"
                notes.append(f"claim {name} {missing}: where its volume can be reached is not considered")
            elif volume.spec.node_affinity:
                required = volume.spec.node_affinity.required
                selector = compile_selector(required, gates)
                selectors.append((f"volume {volume.metadata.name}", selector))
        return tuple(selectors), tuple(notes)

    def _volume_of(self, claim: PersistentVolumeClaim | None, namespace: str, name: str) -> PersistentVolume | None:
        if claim and claim.spec.volume_name:
            return self._volumes.get(claim.spec.volume_name)
        for volume in self._volumes.values():
            ref = volume.spec.claim_ref
            if ref and (ref.namespace or "default", ref.name) == (namespace, name):
                return volume
        return None

    def _table(self, question: _Question) -> GroupTable:
        selectors = [question.selector, *(selector for _, selector in question.volumes)]
        keys = _union([each.keys for each in selectors] + [question.preferences.keys])
        by_name = any(each.reads_name for each in selectors) or question.preferences.reads_name
        by_time = any("timeAdded" in toleration.expression for toleration in question.tolerations.tolerations)
        return self.nodes.grouped(keys, by_name=by_name, by_time=by_time)

    def _ask(self, question: _Question) -> PodAnswer:
        table = self._table(question)
        by_marks = [tuple(_repelled(marks, question)) for marks in table.marks]
        by_view = [tuple(_unselected(view, question)) for view in table.views]
        # Classes are numbers: with thousands of groups, hashing the refusals of each would take most of the time.
        marks_classes, view_classes = _classes(by_marks), _classes(by_view)
        by_class: dict[tuple[int, int], list[NodeGroup]] = {}
        for group in table.groups:
            by_class.setdefault((marks_classes[group.marks], view_classes[group.view]), []).append(group)
        open_groups = by_class.pop((_OPEN, _OPEN), [])
        fits = _ranked(open_groups, table, question)
        refused = []
        for groups in by_class.values():
            refusals = by_marks[groups[0].marks] + by_view[groups[0].view]
            variants = {(by_marks[group.marks] and group.marks, by_view[group.view] and group.view) for group in groups}
            refused.append(RefusedNodes(NodeSet(groups), refusals, len(variants)))
        # The nodes with the fewest refusals come first.
        refused.sort(key=lambda nodes: len(nodes.refusals))
        return PodAnswer(
            fits, refused, notes=(*question.notes, *ignored_preferences(question.preferences, table, open_groups))
        )

    def _remedy(self, question: _Question) -> Remedy | None:
        missing = [
            gate for gate in Gate if gate in gates_needed(Pod(spec=question.spec)) and not self._gates.enabled(gate)
        ]
        if missing:
            gates = self._gates.including(missing)
            answer = self._ask(self._question(question.spec, question.namespace, question.claims, gates))
            if nodes := tuple(name for fit in answer.fits for name in fit.nodes):
                return Remedy((f"turning on {' and '.join(gate.value for gate in missing)}",), nodes)
        return smallest_change(question.spec, self._table(question), self._gates)

    def _stay(self, spec: PodSpec) -> tuple[str, int | None]:
        """Why a pod that is on a node has to leave it, and after how many seconds; None when it may stay."""
        node = self.nodes.by_name.get(spec.node_name)
        gates = self._gates.for_eviction()
        tolerations = Tolerations(spec.tolerations, gates)
        seconds = tolerations.grace_seconds(node.spec.taints) if node else None
        if node is None or seconds is None:
            return "", None
        return " and ".join(departures(tolerations, gates, node.spec.taints)), seconds


def _repelled(marks: Marks, question: _Question) -> Iterator[NodeRefusal]:
    """The refusals by taints."""
    tolerations = question.tolerations
    if marks.cordoned and not tolerations.verdict(UNSCHEDULABLE).matched:
        yield NodeRefusal(("cordon",), "node", "it is cordoned (spec.unschedulable)")
    for taint in marks.taints:
        if taint.effect not in (NO_SCHEDULE, NO_EXECUTE) or (marks.cordoned and taint == UNSCHEDULABLE):
            continue
        if not tolerations.verdict(taint).matched:
            yield _refusal_of(taint, question)


def _refusal_of(taint: Taint, question: _Question) -> NodeRefusal:
    lacks = question.complaint(taint)
    text = "; ".join(lack.text for lack in lacks)
    exact = (text, taint.value) if question.exact else ()
    return NodeRefusal((taint.key, taint.effect, *(lack.kind for lack in lacks), *exact), f"taint {taint}", text)


def _unselected(view: NodeView, question: _Question) -> Iterator[NodeRefusal]:
    """The refusals by node selectors, affinity and volumes."""
    for subject, selector in (("node affinity", question.selector), *question.volumes):
        if not selector.verdict(view.labels, view.name).matched:
            lacks = selector_lacks(selector, view.labels, view.name)
            text = "; ".join(lack.text for lack in lacks)
            several = "no term matches: " if len(lacks) > 1 else ""
            kinds_ = (text,) if question.exact else tuple(lack.kind for lack in lacks)
            yield NodeRefusal((subject, *kinds_), subject, several + text)


def _union(parts: list[frozenset[str] | None]) -> frozenset[str] | None:
    known = [part for part in parts if part is not None]
    return frozenset().union(*known) if len(known) == len(parts) else None


_OPEN = 0
"""The class of the marks and of the views without refusals."""


def _classes(refusals: list[tuple[NodeRefusal, ...]]) -> list[int]:
    numbers: dict[tuple[NodeRefusal, ...], int] = {(): _OPEN}
    return [numbers.setdefault(each, len(numbers)) for each in refusals]


def _ranked(groups: list[NodeGroup], table: GroupTable, question: _Question) -> list[Fit]:
    """Score nodes by taints and affinity as the scheduler does; merge those of equal score and grace period."""
    marks = {group.marks: table.marks[group.marks].taints for group in groups}
    views = {group.view: table.views[group.view] for group in groups}
    repelled = {place: question.tolerations.untolerated_preferred(taints) for place, taints in marks.items()}
    grace = {place: question.lasting.grace_seconds(taints) for place, taints in marks.items()}
    preferred = {place: question.preferences.score(view.labels, view.name) for place, view in views.items()}
    most_repelled, most_preferred = max(repelled.values(), default=0), max(preferred.values(), default=0)
    taint_scores = {
        place: TAINT_WEIGHT * (MAX_SCORE - MAX_SCORE * count // most_repelled if most_repelled else MAX_SCORE)
        for place, count in repelled.items()
    }
    affinity_scores = {
        place: AFFINITY_WEIGHT * (MAX_SCORE * weight // most_preferred if most_preferred else 0)
        for place, weight in preferred.items()
    }
    fits: dict[tuple[int, int | None], list[NodeGroup]] = {}
    for group in groups:
        rank = taint_scores[group.marks] + affinity_scores[group.view], grace[group.marks]
        fits.setdefault(rank, []).append(group)
    ranked = [Fit(NodeSet(nodes), score, seconds) for (score, seconds), nodes in fits.items()]
    return sorted(ranked, key=lambda fit: (-fit.score, fit.grace_seconds is not None))
