"""One attempt to place one pod: pre-filter, filter, score, post-filter, reserve, permit, pre-bind, bind."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import ref

import msgspec
import numpy as np

from moorage.api import kinds
from moorage.api.pod import Pod
from moorage.bounded import Bounded
from moorage.client import ApiError, Unavailable
from moorage.client.backoff import Backoff
from moorage.logs import Log
from moorage.scheduler.beside import Beside
from moorage.scheduler.decisions import REJECTED, SHAPES_MAX, Decisions, Known
from moorage.scheduler.framework import (
    Cycle,
    Demand,
    Handle,
    Nomination,
    Plugin,
    Reject,
    Rejection,
    Scope,
    Skip,
    Timings,
    Unbindable,
    overrides,
    timed,
)
from moorage.scheduler.profile import Profile, Weighted
from moorage.scheduler.table.nodes import Index, Mask, NodeTable, Scores
from moorage.scheduler.table.shape import PodInfo, Shape
from moorage.scheduler.table.tops import Tops

_LOG = Log(__name__)
_POD = kinds.row("v1", "Pod")
_BIND_BACKOFF = Backoff(0.1, 5.0)
"""How long to wait when the API server did not answer to a binding, before the pod is read."""


@dataclass(slots=True)
class Placement:
    """The node that was chosen for a pod, or why there is none."""

    node: str = ""
    feasible: int = 0
    """How many nodes the choice was between."""
    rejected: Reject | None = None
    """Why the pod was rejected before any node was filtered."""
    rejections: dict[str, list[Rejection]] = field(default_factory=dict)
    """Why which nodes were rejected, by plugin; empty when a node was chosen."""
    not_reserved: tuple[str, str] | None = None
    """The plugin that could not reserve what the pod needs on the chosen node, and why."""

    @property
    def plugins(self) -> set[str]:
        """The plugins that rejected the pod or all nodes."""
        return {self.not_reserved[0]} if self.not_reserved else set(self.rejections)


class NodeReason(NamedTuple):
    """Why a plugin rejects one node."""

    plugin: str
    reason: str
    resolvable: bool
    """Whether the removal of pods from the node could help."""
    parse_error: bool
    """Whether the node was rejected because a value could not be parsed."""


@dataclass(slots=True)
class Evaluation:
    """What a profile says about one pod and every node. A node has either a score or reasons."""

    rejected: Reject | None = None
    """Why the pod was rejected before any node was filtered; there are neither scores nor reasons then."""
    scores: dict[str, int] = field(default_factory=dict)
    """The sum of the weighted scores, by the name of the node."""
    reasons: dict[str, list[NodeReason]] = field(default_factory=dict)
    """Of the first plugin that rejects the node, by the name of the node."""


class NotPermitted(Exception):
    """A permit or pre-bind plugin did not let the pod be bound."""


class _Special(NamedTuple):
    """What only the pods of some shapes need."""

    warming: list[Plugin]
    """The plugins that prepare for them."""
    may_wait: bool
    """Whether a permit or pre-bind plugin may let them wait."""


class CycleRunner:
    """Takes pods through the extension points of one profile. Everything up to reserve is synchronous."""

    def __init__(self, profile: Profile, handle: Handle) -> None:
        self.profile = profile
        self.name = profile.name
        self.handle = handle
        self.table: NodeTable = handle.table
        self.decisions = Decisions(handle.table, profile.filters, profile.scores)
        self.pick = self._random
        """Chooses between rows that are equally good."""
        self._nominated = handle.nominations.by_node
        self._warming = [plugin for plugin in profile.filters if overrides(type(plugin), "warm")]
        self._searching = [plugin for plugin in profile.post_filters if overrides(type(plugin), "search")]
        self._special: Bounded[ref[Shape], _Special] = Bounded(SHAPES_MAX)

    def start(self, info: PodInfo, timings: Timings | None = None) -> Cycle:
        """Begin an attempt to place a pod."""
        return Cycle(info, self.table, self, timings)

    def pre_enqueue(self, info: PodInfo) -> str:
        """Why a pod must not be tried yet; empty when it may."""
        for plugin in self.profile.pre_enqueue:
            if why := plugin.pre_enqueue(info):
                return why
        return ""

    def warm(self, info: PodInfo) -> Iterator[None]:
        """Let plugins prepare in small steps what they will need for a pod."""
        for plugin in self._special_to(info.shape).warming:
            yield from plugin.warm(info)

    def _special_to(self, shape: Shape) -> _Special:
        special = self._special.get(ref(shape))
        if special is None:
            waits = (*self.profile.permits, *self.profile.pre_binds)
            special = _Special(
                [plugin for plugin in self._warming if plugin.applies(shape)],
                any(plugin.applies(shape) for plugin in waits),
            )
            self._special.put(ref(shape, self._special.pop), special)
        return special

    def place(self, cycle: Cycle) -> Placement:
        """Pre-filter, filter and score: the best node for a pod, a random one of several that are equally good."""
        known = timed(cycle, "Filter", "", self.decisions.of, cycle)
        active = timed(cycle, "PreFilter", "", self._pre_filter, cycle, known)
        if isinstance(active, Reject):
            return _rejected(cycle, active)
        cycle.statuses = known.statuses
        nominated = cycle.pod.pod.status.nominated_node_name
        row = self.table.rows.get(nominated) if nominated else None
        if row is not None and self._accepts(cycle, known, active, row):
            return Placement(nominated, 1)
        scores = self._pre_score(cycle, known)
        if active or scores or known.is_relative:
            cycle.statuses = (
                *known.statuses,
                *((plugin.name, "Filter", "Success") for plugin in active),
                *((plugin.name, "Score", "Success") for plugin, _ in scores),
            )
            candidates = (known.rank != REJECTED).nonzero()[0]
            rows = timed(cycle, "Filter", "", self._filter, cycle, known, active, candidates)
            if not len(rows):
                return self._nowhere(cycle, known, active)
            return Placement(
                self.node_name(timed(cycle, "Score", "", self._best, cycle, known, scores, rows)), len(rows)
            )
        tops = known.tops
        if closed := self._closed(cycle, known, active):
            rank = known.rank.copy()
            rank[list(closed)] = REJECTED
            tops = Tops(rank)
        best, ties = tops.best()
        if best == REJECTED:
            return self._nowhere(cycle, known, active)
        return Placement(self.node_name(self.pick(ties)), len(ties))

    def evaluate(self, info: PodInfo) -> Evaluation:
        """Pre-filter, filter and score: what the plugins say about a pod and every node, with nothing chosen."""
        cycle = self.start(info)
        known = self.decisions.of(cycle)
        active = self._pre_filter(cycle, known)
        if isinstance(active, Reject):
            return Evaluation(active)
        rows = self._filter(cycle, known, active, (known.rank != REJECTED).nonzero()[0])
        if len(rows):
            totals = self._score(cycle, known, self._pre_score(cycle, known), rows)
        elif why := self._no_named_node(cycle, known):
            return Evaluation(why)
        names = [self.node_name(row) for row in rows.tolist()]
        evaluation = Evaluation(scores=dict(zip(names, totals.tolist(), strict=True)) if names else {})
        for plugin, rejections in self._diagnose_all(cycle, known, active).items():
            for reason, rejected, resolvable, parse_error in rejections:
                for row in rejected.tolist():
                    reasons = evaluation.reasons.setdefault(self.node_name(row), [])
                    reasons.append(NodeReason(plugin, reason, resolvable, parse_error))
        return evaluation

    def _pre_filter(self, cycle: Cycle, known: Known) -> list[Plugin] | Reject:
        """The plugins of scope CLUSTER that filter for this pod."""
        active = []
        for plugin in known.cluster_filters:
            answer = plugin.pre_filter(cycle)
            if isinstance(answer, Reject):
                cycle.rejected_by = plugin.name
                return answer
            if not isinstance(answer, Skip):
                active.append(plugin)
        return active

    def _filter(self, cycle: Cycle, known: Known, active: list[Plugin], rows: Index) -> Index:
        """Which of these rows, that plugins of scopes NODE and ROW accept, the pod fits on beside nominated pods."""
        for plugin in active:
            if not len(rows):
                return rows
            rows = rows[timed(cycle, "Filter", plugin.name, plugin.filter, cycle, rows)]
        closed = self._closed(cycle, known, active, rows)
        return rows[~np.isin(rows, list(closed))] if closed else rows

    def _accepts(self, cycle: Cycle, known: Known, active: list[Plugin], row: int) -> bool:
        """Whether the pod fits on a row, beside the pods that are nominated there."""
        return known.rank[row] != REJECTED and bool(len(self._filter(cycle, known, active, np.array([row], np.intp))))

    def _closed(self, cycle: Cycle, known: Known, active: list[Plugin], among: Index | None = None) -> Collection[int]:
        """The rows that would do but for pods that are nominated there."""
        if not self._nominated:
            return ()
        beside = None if active or not self.table.is_exact else self._beside(cycle, known)
        if beside is not None:
            beside.keep_up(lambda row: bool(known.rank[row] != REJECTED))
            return beside.closed
        rows = [row for row in self._nominated_before(cycle) if known.rank[row] != REJECTED]
        if among is not None and rows:
            rows = np.intersect1d(rows, among).tolist()
        closed = [row for row in rows if not self._fits_beside_nominated(cycle, row)]
        # Nominated pods were counted for a moment, and are not when rows are scored.
        self.decisions.of(cycle)
        return closed

    def _beside(self, cycle: Cycle, known: Known) -> Beside | None:
        """What is known of nominated pods, if sums decide about the rows where they are."""
        nominations = self.handle.nominations
        version = nominations.version, self.table.places, len(self.table.resources)
        nominated = nominations.node_of(cycle.pod.uid)
        beside = known.beside
        if beside is None or beside.version != version or nominated:
            beside = Beside(self.table, version, _demands(known, cycle.shape), self._nominated_before(cycle))
            # A pod that is nominated itself is not in its own way.
            known.beside = None if nominated else beside
        return beside if beside.decides else None

    def _nominated_before(self, cycle: Cycle) -> dict[int, list[PodInfo]]:
        """The pods that are nominated before this one, by row."""
        rows = [row for row in map(self.table.rows.get, self._nominated) if row is not None and self.table.alive[row]]
        return {row: pods for row in rows if (pods := self.nominated_before(cycle, row))}

    def _pre_score(self, cycle: Cycle, known: Known) -> list[Weighted]:
        """The plugins of scope CLUSTER that score for this pod."""
        return [scorer for scorer in known.cluster_scores if not isinstance(scorer.plugin.pre_score(cycle), Skip)]

    def _score(self, cycle: Cycle, known: Known, active: list[Weighted], rows: Index) -> Scores:
        """The sum of the weighted scores of each of these rows."""
        total: Scores = known.rank[rows]
        for raw, uniform, (plugin, weight) in zip(known.raw, known.uniform, known.relative, strict=True):
            if not uniform:
                total = total + weight * plugin.normalize(cycle, raw[rows])
        for plugin, weight in active:
            scores = timed(cycle, "Score", plugin.name, plugin.score, cycle, rows)
            if overrides(type(plugin), "normalize"):
                scores = plugin.normalize(cycle, scores)
            total = total + weight * scores
        return total

    def _best(self, cycle: Cycle, known: Known, active: list[Weighted], rows: Index) -> int:
        if len(rows) == 1:
            return int(rows[0])
        total = self._score(cycle, known, active, rows)
        return self.pick(rows[total == total.max()])

    def _random(self, rows: Index | Sequence[int]) -> int:
        return int(rows[0] if len(rows) == 1 else rows[self.handle.random.randrange(len(rows))])

    def _nowhere(self, cycle: Cycle, known: Known, active: list[Plugin]) -> Placement:
        """Why no node fits."""
        if why := self._no_named_node(cycle, known):
            return _rejected(cycle, why)
        placement = Placement(rejections=self._diagnose_all(cycle, known, active))
        statuses = (
            (plugin, "Filter", _status(resolvable=rejection.resolvable, parse_error=rejection.parse_error))
            for plugin, rejections in placement.rejections.items()
            for rejection in rejections
        )
        cycle.statuses = tuple(dict.fromkeys(statuses))
        return placement

    def _no_named_node(self, cycle: Cycle, known: Known) -> Reject | None:
        """Why there can be no node, when what the pod says about the names of nodes contradicts itself."""
        for plugin in known.filters:
            if isinstance(named := plugin.named(cycle.shape), Reject):
                cycle.rejected_by = plugin.name
                return named
        return None

    def _diagnose_all(self, cycle: Cycle, known: Known, active: list[Plugin]) -> dict[str, list[Rejection]]:
        """Which plugin rejects which rows first, and why; where none does, why not beside the nominated pods."""
        diagnosis, left = self.first_rejections(cycle, known, active, self.table.alive.nonzero()[0])
        for row in left.tolist() if self._nominated else ():
            with self.assuming(self.nominated_before(cycle, row), self.node_name(row)):
                for plugin, rejections in self.diagnose(cycle, row).items():
                    diagnosis.setdefault(plugin, []).extend(rejections)
        return diagnosis

    def first_rejections(
        self, cycle: Cycle, known: Known, active: list[Plugin], left: Index
    ) -> tuple[dict[str, list[Rejection]], Index]:
        """Which plugin rejects which of these rows first, and why; and the rows that none rejects."""
        diagnosis: dict[str, list[Rejection]] = {}
        for plugin in known.filters:
            if isinstance(names := plugin.named(cycle.shape), frozenset):
                named = np.isin(left, [self.table.rows[name] for name in names if name in self.table.rows])
                if not named.all():
                    reason = f"node(s) didn't satisfy plugin(s) [{plugin.name}]"
                    diagnosis[plugin.name] = [Rejection(reason, left[~named])]
                left = left[named]
        asked = {*known.filters, *active}
        for plugin in self.profile.filters:
            if plugin not in asked:
                continue
            if not len(left):
                break
            mask = plugin.filter(cycle, left)
            rejected = left[~mask]
            if len(rejected):
                diagnosis.setdefault(plugin.name, []).extend(plugin.diagnose(cycle, rejected))
            left = left[mask]
        return diagnosis, left

    def fits(self, cycle: Cycle, row: int) -> bool:
        """Whether a pod fits on one row as the table is now, beside the pods that are nominated there."""
        return self._fits_alone(cycle, row) and self._fits_beside_nominated(cycle, row)

    def diagnose(self, cycle: Cycle, row: int) -> dict[str, list[Rejection]]:
        """Why a pod does not fit on one row as the table is now, by plugin; nominated pods do not count."""
        known = self.decisions.of(cycle)
        active = self._pre_filter(cycle, known)
        if isinstance(active, Reject):
            return {cycle.rejected_by: [Rejection(active.reason, np.array([row], np.intp))]}
        return self.first_rejections(cycle, known, active, np.array([row], np.intp))[0]

    def demands(self, cycle: Cycle) -> tuple[Demand, ...]:
        """What must be left on a node, when of all that filters the pod only this depends on the pods there."""
        known = self.decisions.of(cycle)
        active = self._pre_filter(cycle, known)
        return () if active or isinstance(active, Reject) else _demands(known, cycle.shape)

    def suitable(self, cycle: Cycle) -> Mask:
        """The rows whose nodes themselves will do, whichever pods are there."""
        return self.decisions.of(cycle).good

    def _fits_alone(self, cycle: Cycle, row: int) -> bool:
        known = self.decisions.accepting(cycle, row)
        if known is None:
            return False
        active = self._pre_filter(cycle, known)
        if isinstance(active, Reject):
            return False
        rows = np.array([row], np.intp)
        return all(plugin.filter(cycle, rows)[0] for plugin in active)

    def _fits_beside_nominated(self, cycle: Cycle, row: int) -> bool:
        nominated = self.nominated_before(cycle, row)
        if not nominated:
            return True
        with self.assuming(nominated, self.node_name(row)):
            return self._fits_alone(cycle, row)

    def nominated_before(self, cycle: Cycle, row: int) -> list[PodInfo]:
        """The other pods that are nominated to a row and have at least the priority of this one."""
        pods = self._nominated.get(self.node_name(row), {}).values()
        return [info for info in pods if info.priority >= cycle.pod.priority and info.uid != cycle.pod.uid]

    @contextmanager
    def assuming(self, pods: Sequence[PodInfo], node: str) -> Iterator[None]:
        """Count some pods on a node for a moment."""
        assumed = [PodInfo(info.pod, info.shape, node) for info in pods]
        for info in assumed:
            self.table.add_pod(info)
        try:
            yield
        finally:
            for info in assumed:
                self.table.remove_pod(info)

    def node_name(self, row: int) -> str:
        """The name of the node of a row that has one."""
        node = self.table.nodes[row]
        assert node is not None  # only rows that are alive are feasible
        return node.metadata.name

    def search(self, cycle: Cycle, placement: Placement) -> Iterator[None]:
        """Let plugins take in small steps what `post_filter` would need long for."""
        for plugin in self._searching:
            for _ in plugin.search(cycle, placement.rejections):
                self.decisions.of(cycle)
                yield

    def post_filter(self, cycle: Cycle, placement: Placement) -> list[Nomination]:
        """Ask how room could be made for a pod that fits nowhere, until a plugin nominates a node."""
        nominations = []
        for plugin in self.profile.post_filters:
            nominations.append(plugin.post_filter(cycle, placement.rejections))
            if nominations[-1].node:
                break
        # Plugins took pods out of the table and put them back: look at those rows again, so that the next change of
        # one of them is compared with how it is now.
        self.decisions.of(cycle)
        return nominations

    def reserve(self, cycle: Cycle, placement: Placement) -> Placement:
        """Reserve what the pod needs on the node that was chosen; nothing is reserved when a plugin cannot."""
        reserves = self.profile.reserves
        for number, plugin in enumerate(reserves):
            if reason := plugin.reserve(cycle, placement.node):
                for other in reversed(reserves[: number + 1]):
                    other.unreserve(cycle, placement.node)
                return Placement(not_reserved=(plugin.name, reason))
        return placement

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Give back what was reserved for a pod that is not bound after all."""
        for plugin in reversed(self.profile.reserves):
            plugin.unreserve(cycle, node)

    def may_wait(self, cycle: Cycle) -> bool:
        """Whether a permit or pre-bind plugin may let the pod wait before it is bound."""
        return self._special_to(cycle.shape).may_wait

    async def permit(self, cycle: Cycle, node: str) -> None:
        """Permit and pre-bind. Raises NotPermitted."""
        for plugin in self.profile.permits:
            if reason := await plugin.permit(cycle, node):
                raise NotPermitted(f'running Permit plugin "{plugin.name}": {reason}')
        for plugin in self.profile.pre_binds:
            try:
                await plugin.pre_bind(cycle, node)
            except (ApiError, Unbindable) as error:
                raise NotPermitted(f'running PreBind plugin "{plugin.name}": {error}') from error

    async def bind(self, cycle: Cycle, node: str) -> None:
        """Bind a pod. When the answer is lost, the pod itself shows whether it was bound."""
        failures = 0
        while True:
            try:
                await self.profile.binder.bind(cycle, node)
            except Unavailable as error:
                _LOG.warning("No answer to a binding", pod=cycle.pod.key, node=node, err=error)
            else:
                return
            failures += 1
            await self.handle.clock.sleep(_BIND_BACKOFF.delay(failures))
            try:
                pod = msgspec.json.decode(await self.handle.client.get(_POD, *cycle.pod.key), type=Pod)
            except Unavailable:
                continue
            if pod.metadata.uid == cycle.pod.uid and pod.spec.node_name == node:
                return


def _demands(known: Known, shape: Shape) -> tuple[Demand, ...]:
    """What must be left on a node, when no plugin but one depends on the pods there, and that on nothing else."""
    by_row = [plugin for plugin in known.filters if plugin.scope is Scope.ROW]
    return by_row[0].demands(shape) if len(by_row) == 1 else ()


def _rejected(cycle: Cycle, why: Reject) -> Placement:
    cycle.statuses = ((cycle.rejected_by, "PreFilter", _status(resolvable=why.resolvable)),)
    return Placement(rejected=why)


def _status(*, resolvable: bool, parse_error: bool = False) -> str:
    """The status code of a plugin that rejects, as kube-scheduler names it."""
    return "Error" if parse_error else "Unschedulable" if resolvable else "UnschedulableAndUnresolvable"
