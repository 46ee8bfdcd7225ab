"""Why a pod may run on some nodes and not on others: the scheduler answers, over the objects of a cluster."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.rules import POD_RULES
from moorage.features import Gate, Gates
from moorage.match.reasons import departures
from moorage.match.selector import Preferences, Term
from moorage.match.tolerations import Tolerations
from moorage.scheduler.asking import Asking, Inquiry
from moorage.scheduler.config import Configuration
from moorage.scheduler.explaining import alike
from moorage.scheduler.framework import Told
from moorage.scheduler.profile import ATTACHED_NAME, scheduler_name
from moorage.scheduler.table.distinct import distinct
from moorage.scheduler.table.shape import PodInfo
from moorage.tools.cluster import Cluster, ClusterObject
from moorage.tools.named import askable
from moorage.tools.remedy import Remedies, Remedy
from moorage.tools.settled import AskedPod, Settled
from moorage.validation.gates import gates_needed


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """One reason why a pod may not run on a node, or on any."""

    plugin: str
    subject: str
    reason: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason}"


@dataclass(slots=True)
class Fit:
    """Nodes on which a pod may run, all as good."""

    nodes: tuple[str, ...]
    score: int
    grace_seconds: int | None
    """Seconds until a NoExecute taint would evict the pod; None when it may stay."""
    scores: dict[str, int] = field(default_factory=dict)
    """What each plugin adds to the score."""


@dataclass(slots=True)
class RefusedNodes:
    """Nodes that a pod may not run on, all for the same reasons."""

    nodes: tuple[str, ...]
    refusals: tuple[NodeRefusal, ...]
    variants: int
    """How many sets of refusals there are that differ only in values; the one given is an example."""


class Preemption(NamedTuple):
    """What the scheduler would do to make room."""

    node: str
    victims: tuple[str, ...]
    """The pods that would be removed, by namespace and name."""
    violations: int
    """How many disruption budgets that would break."""


@dataclass(slots=True)
class PodAnswer:
    """Where a pod may run; pods that ask for the same share one."""

    profile: str = ""
    fits: list[Fit] = field(default_factory=list)
    rejected: tuple[NodeRefusal, ...] = ()
    """Why the pod is refused whatever the node."""
    refused: list[RefusedNodes] = field(default_factory=list)
    preemption: Preemption | None = None
    remedies: tuple[Remedy, ...] = ()
    """The smallest changes: of all, and of the cluster alone when the first one changes the pod."""
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


class Explainer:
    """Answers for pods of one cluster under one set of gates. Each is asked about alone, on the cluster as it is."""

    def __init__(
        self, cluster: Cluster, gates: Gates, configuration: Configuration | None = None,
        items: Sequence[ClusterObject] | None = None, *, exact: bool = False, asking: Asking | None = None,
    ) -> None:  # fmt: skip
        """`items` are the pods and templates to ask about, all of them by default; `exact`: keep values apart.

        `asking` has the objects already; then the cluster need only hold what is asked about, and its owners.
        """
        self._gates, self._exact = gates, exact
        self._configuration = configuration or Configuration()
        self._is_configured = configuration is not None
        self._is_attached = cluster.is_attached
        self._settled = Settled(cluster, gates)
        chosen = askable(cluster) if items is None else items
        self._asked = [self._settled.asked(item) for item in chosen]
        self._asking = asking or Asking(gates, self._configuration, self._settled.objects())
        self._answers: dict[Hashable, PodAnswer] = {}
        self._names = [node.metadata.name if node else "" for node in self._asking.table.nodes]
        self._finder = Remedies(self._asking, gates, cluster)
        self.notes = self._settled.notes
        """What had to be assumed about the cluster."""

    @property
    def pod_count(self) -> int:
        """How many pods and pod templates are asked about."""
        return len(self._asked)

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return self._asking.table.count

    def explain_all(self) -> Iterator[Explanation]:
        """Explain each pod and pod template, in the order in which they were given."""
        return map(self._explain, self._asked)

    def _explain(self, asked: AskedPod) -> Explanation:
        leaves, after = self._stay(asked.pod)
        answer = self._answer(asked)
        return Explanation(asked.item, answer, list(asked.refusals), asked.pod.spec.node_name, leaves, after)

    def _answer(self, asked: AskedPod) -> PodAnswer:
        pod, info = asked.pod, self._asking.info(asked.pod)
        metadata = pod.metadata
        owner = next((each.uid for each in metadata.owner_references if each.controller), "")
        own = info.shape.has_claims or any(volume.ephemeral for volume in pod.spec.volumes)
        key = (
            info.shape, metadata.namespace, owner, tuple(sorted(metadata.labels.items())),
            metadata.uid if own or pod.spec.node_name or pod.status.nominated_node_name else "",
        )  # fmt: skip
        if key not in self._answers:
            self._answers[key] = self._ask(asked, info)
        return self._answers[key]

    def _ask(self, asked: AskedPod, info: PodInfo) -> PodAnswer:
        inquiry = self._asking.ask(asked.pod)
        answer = PodAnswer(inquiry.profile, rejected=tuple(_rejected(inquiry)))
        answer.fits = self._fits(info, inquiry)
        grouping = _Grouping(self._asking.table.size)
        for plugin, told in inquiry.refusals:
            grouping.add(plugin, told)
        answer.refused = grouping.groups(self._names, exact=self._exact)
        if (candidate := inquiry.preemption) is not None:
            victims = tuple("/".join(victim.key) for victim in candidate.victims)
            answer.preemption = Preemption(candidate.node, victims, candidate.violations)
        if not answer.fits and self.node_count:
            answer.remedies = self._remedies(asked, inquiry)
        answer.notes = (*self._profile_note(asked.pod, inquiry), *self._ignored(info, inquiry))
        return answer

    def _fits(self, info: PodInfo, inquiry: Inquiry) -> list[Fit]:
        """The feasible nodes, those of equal score and grace period together, the best first."""
        table, rows = self._asking.table, inquiry.feasible
        lasting = Tolerations(info.pod.spec.tolerations, self._gates.for_eviction())
        codes = table.taints.codes[rows].tolist()
        grace = {code: lasting.grace_seconds(table.taints.values[code]) for code in set(codes)}
        totals = inquiry.totals.tolist()
        parts = [scores.tolist() for scores in inquiry.scores.values()] if self._exact else []
        places: dict[Hashable, list[int]] = {}
        for place, (total, code) in enumerate(zip(totals, codes, strict=True)):
            places.setdefault((total, grace[code], *(part[place] for part in parts)), []).append(place)
        fits = []
        for same in places.values():
            names = tuple(self._names[row] for row in rows[same].tolist())
            scores = {name: int(of[same[0]]) for name, of in inquiry.scores.items()}
            fits.append(Fit(names, totals[same[0]], grace[codes[same[0]]], scores))
        return sorted(fits, key=lambda fit: (-fit.score, fit.grace_seconds is not None))

    def _remedies(self, asked: AskedPod, inquiry: Inquiry) -> tuple[Remedy, ...]:
        missing = [gate for gate in Gate if gate in gates_needed(Pod(spec=asked.pod.spec))]
        missing = [gate for gate in missing if not self._gates.enabled(gate)]
        if missing:
            gates = self._gates.including(missing)
            others = Asking(gates, self._configuration, self._settled.objects())
            if len(rows := others.ask(asked.pod, preempt=False).feasible):
                text = f"turning on {' and '.join(gate.value for gate in missing)}"
                return (Remedy((text,), tuple(map(others.name, rows.tolist()))),)
        return self._finder.smallest(asked, inquiry)

    def _profile_note(self, pod: Pod, inquiry: Inquiry) -> Iterator[str]:
        name = scheduler_name(pod)
        if self._is_attached and name == ATTACHED_NAME:
            return
        if self._is_attached and any(each in pod.metadata.annotations for each in POD_RULES):
            yield f"its rules in annotations count here, but {name}, which places it, knows nothing of them"
        if inquiry.is_foreign:
            as_what = f"profile {inquiry.profile} of --config" if self._is_configured else "Kubernetes' default profile"
            yield f"scheduler {name} is not known here: answered as {as_what}"

    def _ignored(self, info: PodInfo, inquiry: Inquiry) -> Iterator[str]:
        nodes = [node for row in inquiry.feasible.tolist() if (node := self._asking.table.nodes[row]) is not None]
        return ignored_preferences(info.shape.preferences, nodes)

    def _stay(self, pod: Pod) -> tuple[str, int | None]:
        """Why a pod that is on a node has to leave it, and after how many seconds; None when it may stay."""
        row = self._asking.table.rows.get(pod.spec.node_name) if pod.spec.node_name else None
        node = self._asking.table.nodes[row] if row is not None else None
        gates = self._gates.for_eviction()
        tolerations = Tolerations(pod.spec.tolerations, gates)
        seconds = tolerations.grace_seconds(node.spec.taints) if node else None
        if node is None or seconds is None:
            return "", None
        return " and ".join(departures(tolerations, gates, node.spec.taints)), seconds


def _rejected(inquiry: Inquiry) -> Iterator[NodeRefusal]:
    if inquiry.held_back:
        yield NodeRefusal("", "the pod is held back", inquiry.held_back)
    for plugin, reason in inquiry.rejected:
        yield NodeRefusal(plugin, "the pod", reason)


class _Grouping:
    """Rows that are refused for the same reasons."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._texts: dict[NodeRefusal, int] = {}
        self._layers: dict[tuple[Hashable, int], NDArray[np.int64]] = {}
        """For each kind of refusal the number of its text in each row, 0 where there is none."""

    def add(self, plugin: str, told: Told) -> None:
        """Note a refusal."""
        number = self._texts.setdefault(NodeRefusal(plugin, told.subject, told.reason), len(self._texts) + 1)
        layer = 0
        while True:
            codes = self._layers.get(key := ((plugin, told.kind), layer))
            if codes is None:
                codes = self._layers[key] = np.zeros(self._size, np.int64)
            if not codes[told.rows].any():
                codes[told.rows] = number
                return
            layer += 1

    def groups(self, names: Sequence[str], *, exact: bool) -> list[RefusedNodes]:
        """The rows that agree in the kinds of all refusals, or in their texts; those with the fewest first."""
        texts, kinds_ = (_combined(self._layers.values(), as_kinds=as_kinds) for as_kinds in (False, True))
        refused = np.flatnonzero(np.any(list(self._layers.values()), axis=0)) if self._layers else np.zeros(0, np.intp)
        known = list(self._texts)
        found = []
        for rows in alike((texts if exact else kinds_)[refused], refused):
            example = (int(codes[rows[0]]) for codes in self._layers.values())
            refusals = tuple(known[number - 1] for number in example if number)
            variants = len(distinct(texts[rows]).first)
            found.append(RefusedNodes(tuple(names[row] for row in rows.tolist()), refusals, variants))
        return sorted(found, key=lambda nodes: len(nodes.refusals))


def _combined(layers: Iterable[NDArray[np.int64]], *, as_kinds: bool) -> NDArray[np.int64]:
    """One number for each combination."""
    combined: NDArray[np.int64] = np.zeros(1, np.int64)
    for codes in layers:
        part = (codes > 0).astype(np.int64) if as_kinds else codes
        combined = distinct(combined * (int(part.max()) + 1) + part).codes
    return combined


def ignored_preferences(preferences: Preferences, nodes: Sequence[Node]) -> Iterator[str]:
    """A sentence for each preferred term that has no answer, at all or on some nodes: it adds nothing to a score."""
    for term in preferences.terms:
        if term.errors:
            yield f"a preferred term is ignored: {'; '.join(term.errors)}"
        elif (gate := next((each.gate for each in term.conditions if each.gate), None)) is not None:
            yield f"a preferred term is ignored: feature gate {gate.value} is off"
        else:
            yield from _unanswered(term, nodes)


def _unanswered(term: Term, nodes: Sequence[Node]) -> Iterator[str]:
    errors = [error for node in nodes if (error := term.verdict(node.metadata.labels, node.metadata.name).error)]
    if errors:
        yield f"a preferred term is ignored on {len(errors)} {'node' if len(errors) == 1 else 'nodes'}: {errors[0]}"
