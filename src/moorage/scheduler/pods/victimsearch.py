"""The search for nodes where room can be made: what was found out about a node is kept until it changes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from weakref import ref

import numpy as np

from moorage.api.pod import PodDisruptionBudget
from moorage.bounded import Bounded
from moorage.scheduler.framework import Cycle, Handle
from moorage.scheduler.pods.budgets import PodBudgets
from moorage.scheduler.pods.victims import PreemptionCandidate, VictimsBySums, VictimsByTrial
from moorage.scheduler.table.nodes import Index
from moorage.scheduler.table.shape import PodInfo, Shape

SEARCHES_MAX = 8
ROWS_A_STEP = 64
"""On how many nodes victims are looked for by sums before others have their turn."""
_CHUNK = 1024
_TRIAL = 32
"""So many times as long as by sums it takes to find victims by trial."""

RowAnswer = PreemptionCandidate | str
"""The pods that would have to leave a node, or why it is of no use."""


class _Found:
    """What is known of nodes, for the pods of one shape or for one pod."""

    def __init__(self) -> None:
        self.answers: dict[int, RowAnswer] = {}
        self.nominated: dict[int, list[PodInfo]] = {}
        """The nominated pods that count on a row, where there are any."""
        self.begin = -1
        """The row that a search has begun with which is not at its end."""
        self.attempts = 0
        """How often it was interrupted."""
        self.position, self.starts, self.epoch = -1, -1, -1

    def keep_up(self, cycle: Cycle, nominated: dict[int, list[PodInfo]]) -> None:
        """Forget the nodes that have changed, or for which other pods are nominated."""
        table = cycle.table
        changed, started = table.changed_since(self.position), table.starts.since(self.starts)
        if self.epoch != table.epoch or changed is None or started is None:
            self.answers.clear()
            changed, started = [], []
        differing = [row for row, pods in nominated.items() if pods != self.nominated.get(row)]
        for row in chain(changed, started, differing, self.nominated.keys() - nominated.keys()):
            self.answers.pop(row, None)
        self.nominated = nominated
        self.position, self.starts, self.epoch = table.position, table.starts.position, table.epoch


class VictimSearches:
    """Keeps what the last searches have found out."""

    def __init__(self, handle: Handle, share: int, least: int) -> None:
        """`share` percent of the nodes, and `least` at least, are enough candidates."""
        self.handle, self.share, self.least = handle, share, least
        informer = handle.informers.of(PodDisruptionBudget)
        self.budgets = PodBudgets(informer)
        informer.on_change(self._budget_changed)
        self.by_shape: Bounded[ref[Shape], _Found] = Bounded(SEARCHES_MAX)
        """Where sums decide, pods of one shape have the same answers."""
        self.by_pod: Bounded[str, _Found] = Bounded(SEARCHES_MAX)
        """Where they do not, answers are kept until the search is at its end."""

    def _budget_changed(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        self.by_shape.clear()
        self.by_pod.clear()

    def steps(self, cycle: Cycle, rows: Index) -> Iterator[None]:
        """Search as long as needed, or twice as long as all nodes would take if nothing changed meanwhile."""
        table, priority = cycle.table, cycle.pod.priority
        there = (info for row in rows for info in list(table.pods[row].values()))
        yield from self.budgets.learn(info.pod for info in there if info.priority < priority)
        for _ in range(2 * (len(rows) * (1 + _TRIAL) // ROWS_A_STEP + 1)):
            if self.of(cycle).attempt(rows, ROWS_A_STEP) is not None:
                return
            yield

    def of(self, cycle: Cycle) -> VictimSearch:
        """The search for a pod, as the table is now."""
        demands = cycle.fitting.demands(cycle) if self.handle.table.is_exact else ()
        if demands:
            found = self.by_shape.get(ref(cycle.shape)) or _Found()
            self.by_shape.put(ref(cycle.shape, self.by_shape.pop), found)
            return VictimSearch(self, cycle, found, VictimsBySums(cycle, self.budgets, demands))
        found = self.by_pod.get(cycle.pod.uid) or _Found()
        self.by_pod.put(cycle.pod.uid, found)
        return VictimSearch(self, cycle, found, None)


class VictimSearch:
    """Looks for victims of one pod. Each attempt begins anew, with what is known of nodes that have not changed."""

    def __init__(self, searches: VictimSearches, cycle: Cycle, found: _Found, sums: VictimsBySums | None) -> None:
        self._searches, self._handle, self._cycle, self._found = searches, searches.handle, cycle, found
        self._sums, self._trial = sums, VictimsByTrial(cycle, searches.budgets)
        self._work = 0.0
        """On how many nodes victims were looked for, counted as by sums."""

    def attempt(self, rows: Index, most: float) -> tuple[list[PreemptionCandidate], dict[str, int]] | None:
        """Candidates, and why others are none; None when victims were looked for on as many nodes without an end."""
        self._found.keep_up(self._cycle, self._nominated())
        if self._found.begin < 0 and len(rows):
            self._found.begin = int(rows[self._handle.random.randrange(len(rows))])
        enough = min(len(rows), max(len(rows) * self._searches.share // 100, self._searches.least))
        candidates: list[PreemptionCandidate] = []
        tried: dict[str, int] = {}
        self._work, harmless = 0.0, False
        for row in _in_turn(rows, self._found.begin):
            if harmless and len(candidates) >= enough:
                break
            answer = self._found.answers.get(row)
            if answer is None and self._work >= most:
                self._found.attempts += 1
                return None
            if answer is None:
                answer = self._found.answers[row] = self._answer(row)
            if isinstance(answer, str):
                tried[answer] = tried.get(answer, 0) + 1
            else:
                candidates.append(answer)
                harmless = harmless or not answer.violations
        return candidates, tried

    def finish(self, rows: Index) -> tuple[list[PreemptionCandidate], dict[str, int]]:
        """Candidates, and why others are none, whatever it takes."""
        found = self._whole(rows)
        interrupted, self._found.begin, self._found.attempts = self._found.attempts > 0, -1, 0
        if self._sums is not None or not interrupted or not found[0]:
            return found
        best = self._still(found[0])
        if best is None:
            self._found = _Found()
            return self._whole(rows)
        return [best], found[1]

    def _whole(self, rows: Index) -> tuple[list[PreemptionCandidate], dict[str, int]]:
        result = self.attempt(rows, np.inf)
        assert result is not None  # there was no limit
        self._searches.by_pod.pop(self._cycle.pod.uid)
        return result

    def _still(self, candidates: list[PreemptionCandidate]) -> PreemptionCandidate | None:
        """The best candidate as the table is now: found by trial, it may depend on other nodes that have changed."""
        best: PreemptionCandidate | None = None
        for candidate in sorted(candidates, key=lambda each: each.rank):
            if best is not None and best.rank <= candidate.rank:
                break
            answer = self._answer(self._handle.table.rows[candidate.node])
            if not isinstance(answer, str) and (best is None or answer.rank < best.rank):
                best = answer
        return best

    def _nominated(self) -> dict[int, list[PodInfo]]:
        table, before = self._handle.table, self._cycle.fitting.nominated_before
        rows = [table.rows[node] for node in self._handle.nominations.by_node if node in table.rows]
        found = {row: before(self._cycle, row) for row in rows if table.alive[row]}
        return {row: pods for row, pods in found.items() if pods}

    def _answer(self, row: int) -> RowAnswer:
        answer = self._sums.on(row, self._found.nominated.get(row, ())) if self._sums is not None else None
        self._work += 1
        if answer is None:
            answer = self._trial.on(row)
            self._work += _TRIAL
            # The row was changed, and is again as it was.
            self._found.position = self._handle.table.position
        return answer


def _in_turn(rows: Index, begin: int) -> Iterator[int]:
    """All rows, from one of them on."""
    start = int(np.searchsorted(rows, begin))
    for part in (rows[start:], rows[:start]):
        for first in range(0, len(part), _CHUNK):
            yield from part[first : first + _CHUNK].tolist()
