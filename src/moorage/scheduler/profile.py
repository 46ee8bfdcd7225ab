"""A profile: the plugins that pods with one schedulerName are placed by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from moorage.client import ApiError
from moorage.scheduler.decisions import REJECTED, Decisions, Known, Weighted
from moorage.scheduler.framework import Cycle, Handle, Plugin, Reject, Rejection, Skip, Unbindable, overrides, timed
from moorage.scheduler.table.nodes import Index, NodeTable, Scores
from moorage.scheduler.table.shape import PodInfo

POINTS = {
    "preEnqueue": "pre_enqueue", "queueSort": "sort_key", "preFilter": "pre_filter", "filter": "filter",
    "postFilter": "post_filter", "preScore": "pre_score", "score": "score", "reserve": "reserve",
    "permit": "permit", "preBind": "pre_bind", "bind": "bind",
}  # fmt: skip
"""Extension points as configurations name them, and the method of a plugin that each is."""


@dataclass(slots=True)
class Placement:
    """Where a pod may go, or why it may not."""

    node: str = ""
    feasible: int = 0
    rejected: Reject | None = None
    """Why no node was even looked at."""
    rejections: dict[str, list[Rejection]] = field(default_factory=dict)
    """Why which nodes were rejected, by plugin; filled in only when no node will do."""
    refused: tuple[str, str] | None = None
    """The plugin that could not reserve what the pod needs on the chosen node, and why."""

    @property
    def plugins(self) -> set[str]:
        """Who rejected the pod."""
        return {self.refused[0]} if self.refused else set(self.rejections)


class NotPermitted(Exception):
    """A plugin held a pod back and then did not let it go."""


class Profile:
    """Plugins in their order, for the pods of one schedulerName."""

    def __init__(
        self, name: str, handle: Handle, weights: Mapping[str, int], at: Mapping[str, Sequence[Plugin]]
    ) -> None:
        self.name = name
        self.handle = handle
        self.table: NodeTable = handle.table
        self.filters = at["filter"]
        scores = [Weighted(plugin, weights[plugin.name]) for plugin in at["score"]]
        self._decisions = Decisions(handle.table, self.filters, scores)
        self._warming = [plugin for plugin in self.filters if overrides(type(plugin), "warm")]
        self._pre_enqueue = at["preEnqueue"]
        self.sort_key = at["queueSort"][0].sort_key
        self.post_filters = at["postFilter"]
        self.reserves = at["reserve"]
        self._permits = at["permit"]
        self._pre_binds = at["preBind"]
        self.binds = at["bind"]

    def waits(self, info: PodInfo) -> str:
        """Why a pod must not be tried yet; empty when it may."""
        return next(filter(None, (plugin.pre_enqueue(info) for plugin in self._pre_enqueue)), "")

    def warm(self, info: PodInfo) -> Iterator[None]:
        """Find out in small steps what plugins will be asked about a pod."""
        for plugin in self._warming:
            if plugin.applies(info.shape):
                yield from plugin.warm(info)

    def place(self, cycle: Cycle) -> Placement:
        """The best node for a pod, one of the best by chance when there are several; or why there is none."""
        known = timed(cycle, "Filter", "", self._decisions.of, cycle)
        active = timed(cycle, "PreFilter", "", self._prepared, cycle, known)
        if isinstance(active, Reject):
            return _rejected(cycle, active)
        cycle.said = known.said
        promised = cycle.pod.pod.status.nominated_node_name
        row = self.table.rows.get(promised) if promised else None
        if row is not None and len(self._feasible(cycle, known, active, np.array([row], np.intp))):
            return Placement(promised, 1)
        scores = [each for each in known.cluster_scores if not isinstance(each.plugin.pre_score(cycle), Skip)]
        if active or scores or known.is_relative or self.handle.nominated:
            cycle.said = (
                *known.said,
                *((each.name, "Filter", "Success") for each in active),
                *((each.plugin.name, "Score", "Success") for each in scores),
            )
            will_do = (known.rank != REJECTED).nonzero()[0]
            rows = timed(cycle, "Filter", "", self._feasible, cycle, known, active, will_do)
            if not len(rows):
                return self._nowhere(cycle, known, active)
            return Placement(self._name(timed(cycle, "Score", "", self._best, cycle, known, scores, rows)), len(rows))
        best = known.rank.max()
        if best == REJECTED:
            return self._nowhere(cycle, known, active)
        rows = (known.rank == best).nonzero()[0]
        return Placement(self._name(self._any(rows)), len(rows))

    def _nowhere(self, cycle: Cycle, known: Known, active: list[Plugin]) -> Placement:
        for plugin in known.filters:
            if isinstance(named := plugin.named(cycle.shape), Reject):
                cycle.rejected_by = plugin.name
                return _rejected(cycle, named)
        placement = Placement(rejections=self._diagnosed(cycle, known, active))
        said = (
            (name, "Filter", _status(resolvable=each.resolvable, unclear=each.unclear))
            for name, found in placement.rejections.items()
            for each in found
        )
        cycle.said = tuple(dict.fromkeys(said))
        return placement

    def holds_back(self, cycle: Cycle) -> bool:
        """Whether some plugin may let a pod wait before it is bound."""
        return any(plugin.applies(cycle.shape) for plugin in (*self._permits, *self._pre_binds))

    async def prepare(self, cycle: Cycle, node: str) -> None:
        """Wait until every plugin lets the pod be bound and has done what must come first. Raises NotPermitted."""
        for plugin in self._permits:
            if reason := await plugin.permit(cycle, node):
                raise NotPermitted(f'running Permit plugin "{plugin.name}": {reason}')
        for plugin in self._pre_binds:
            try:
                await plugin.pre_bind(cycle, node)
            except (ApiError, Unbindable) as error:
                raise NotPermitted(f'running PreBind plugin "{plugin.name}": {error}') from error

    def fits(self, cycle: Cycle, row: int) -> bool:
        """Whether a pod could go to one row as the table is now, without pods that were promised room."""
        known = self._decisions.of(cycle)
        active = self._prepared(cycle, known)
        if isinstance(active, Reject) or known.rank[row] == REJECTED:
            return False
        rows = np.array([row], np.intp)
        return all(plugin.filter(cycle, rows)[0] for plugin in active)

    def will_do(self, cycle: Cycle, row: int) -> bool:
        """Whether a pod could go to one row as the table is now, also beside the pods that were promised room there."""
        return self.fits(cycle, row) and self._fits_beside_promised(cycle, row)

    def diagnose(self, cycle: Cycle, row: int) -> dict[str, list[Rejection]]:
        """Why one row will not do as the table is now, without regard to promises."""
        known = self._decisions.of(cycle)
        active = self._prepared(cycle, known)
        if isinstance(active, Reject):
            return {cycle.rejected_by: [Rejection(active.reason, np.array([row], np.intp))]}
        return self._first_rejections(cycle, known, active, np.array([row], np.intp))[0]

    def settle(self, cycle: Cycle) -> None:
        """After pods were supposed to come and go: know again how it is, so that `opens` can tell what has changed."""
        self._decisions.of(cycle)

    def opens(self, cycle: Cycle, rows: Index, unpromised: Index) -> bool:
        """Whether some of these rows will do now and did not when pods like this were last tried.

        Rows where room is promised to others, or was until now, may have been good enough but for these promises.
        """
        before = self._decisions.seen(cycle.shape, rows)
        good = self._decisions.of(cycle).rank != REJECTED
        opened = {*rows[good[rows] & ~before].tolist(), *unpromised[good[unpromised]].tolist()}
        if not self.handle.nominated:
            return bool(opened)
        promised = {self.table.rows.get(name) for name in self.handle.nominated}
        if opened - promised:
            return True
        doubtful = promised.intersection((*opened, *rows[good[rows]].tolist()))
        will_do = any(self._good_beside_promised(cycle, row) for row in doubtful if row is not None)
        self.settle(cycle)
        return will_do

    def _good_beside_promised(self, cycle: Cycle, row: int) -> bool:
        """Whether a row is good enough for pods like this beside others that were promised room there."""
        others = [each for each in self._promised(cycle, row) if each.shape.spec != cycle.shape.spec]
        with self.supposing(others, self._name(row)):
            return bool(self._decisions.of(cycle).rank[row] != REJECTED)

    def could_open(self, cycle: Cycle, row: int) -> bool:
        """Whether a row that has changed would do if pods of lower priority left it."""
        if not self.post_filters or not self.table.alive[row] or cycle.shape.spec.preemption_policy == "Never":
            return False
        priority = cycle.pod.priority
        if all(each >= priority for each in self.table.priorities):
            return False
        if all(info.priority >= priority for info in self.table.pods[row].values()):
            return False
        # What plugins of scope CLUSTER say of this pod need not be true for others of its shape.
        found, _ = self._first_rejections(cycle, self._decisions.of(cycle), [], np.array([row], np.intp))
        return all(each.resolvable for rejections in found.values() for each in rejections)

    def _prepared(self, cycle: Cycle, known: Known) -> list[Plugin] | Reject:
        """The plugins of scope CLUSTER that have something to say about this pod."""
        active = []
        for plugin in known.cluster_filters:
            answer = plugin.pre_filter(cycle)
            if isinstance(answer, Reject):
                cycle.rejected_by = plugin.name
                return answer
            if not isinstance(answer, Skip):
                active.append(plugin)
        return active

    def _feasible(self, cycle: Cycle, known: Known, active: list[Plugin], rows: Index) -> Index:
        """Which of these rows will do, also beside the pods of the same or higher priority that were promised room."""
        rows = rows[known.rank[rows] != REJECTED]
        for plugin in active:
            if not len(rows):
                return rows
            rows = rows[timed(cycle, "Filter", plugin.name, plugin.filter, cycle, rows)]
        if not self.handle.nominated or not len(rows):
            return rows
        return np.array([row for row in rows if self._fits_beside_promised(cycle, int(row))], np.intp)

    def _promised(self, cycle: Cycle, row: int) -> list[PodInfo]:
        """The other pods of the same or higher priority that were promised room in a row."""
        nominated = self.handle.nominated.get(self._name(row), {}).values()
        return [each for each in nominated if each.priority >= cycle.pod.priority and each.uid != cycle.pod.uid]

    def _fits_beside_promised(self, cycle: Cycle, row: int) -> bool:
        promised = self._promised(cycle, row)
        if not promised:
            return True
        with self.supposing(promised, self._name(row)):
            return self.fits(cycle, row)

    @contextmanager
    def supposing(self, pods: Sequence[PodInfo], node: str) -> Iterator[None]:
        """Count some pods on a node for a moment, as if they were there."""
        there = [PodInfo(info.pod, info.shape, node) for info in pods]
        for info in there:
            self.table.add_pod(info)
        try:
            yield
        finally:
            for info in there:
                self.table.remove_pod(info)

    def _best(self, cycle: Cycle, known: Known, scores: list[Weighted], rows: Index) -> int:
        if len(rows) == 1:
            return int(rows[0])
        total: Scores = known.rank[rows]
        for raw, uniform, (plugin, weight) in zip(known.raw, known.uniform, known.relative, strict=True):
            if not uniform:
                total = total + weight * plugin.normalize(cycle, raw[rows])
        for plugin, weight in scores:
            found = timed(cycle, "Score", plugin.name, plugin.score, cycle, rows)
            if overrides(type(plugin), "normalize"):
                found = plugin.normalize(cycle, found)
            total = total + weight * found
        return self._any(rows[total == total.max()])

    def _any(self, rows: Index) -> int:
        return int(rows[0] if len(rows) == 1 else rows[self.handle.random.randrange(len(rows))])

    def _name(self, row: int) -> str:
        node = self.table.nodes[row]
        assert node is not None  # only rows that are alive are feasible
        return node.metadata.name

    def _diagnosed(self, cycle: Cycle, known: Known, active: list[Plugin]) -> dict[str, list[Rejection]]:
        """Which plugin rejected which rows first, and why; where none did, what promises stand in the way."""
        found, left = self._first_rejections(cycle, known, active, self.table.alive.nonzero()[0])
        for row in left.tolist() if self.handle.nominated else ():
            with self.supposing(self._promised(cycle, row), self._name(row)):
                for name, rejections in self.diagnose(cycle, row).items():
                    found.setdefault(name, []).extend(rejections)
        return found

    def _first_rejections(
        self, cycle: Cycle, known: Known, active: list[Plugin], left: Index
    ) -> tuple[dict[str, list[Rejection]], Index]:
        found: dict[str, list[Rejection]] = {}
        for plugin in known.filters:
            if isinstance(names := plugin.named(cycle.shape), frozenset):
                named = np.isin(left, [self.table.rows[name] for name in names if name in self.table.rows])
                if not named.all():
                    found[plugin.name] = [Rejection(f"node(s) didn't satisfy plugin(s) [{plugin.name}]", left[~named])]
                left = left[named]
        asked = {*known.filters, *active}
        for plugin in self.filters:
            if plugin not in asked:
                continue
            if not len(left):
                break
            mask = plugin.filter(cycle, left)
            rejected = left[~mask]
            if len(rejected):
                found.setdefault(plugin.name, []).extend(plugin.diagnose(cycle, rejected))
            left = left[mask]
        return found, left


def _rejected(cycle: Cycle, why: Reject) -> Placement:
    cycle.said = ((cycle.rejected_by, "PreFilter", _status(resolvable=why.resolvable)),)
    return Placement(rejected=why)


def _status(*, resolvable: bool, unclear: bool = False) -> str:
    """What a plugin that rejects says, in kube-scheduler's words."""
    return "Error" if unclear else "Unschedulable" if resolvable else "UnschedulableAndUnresolvable"
