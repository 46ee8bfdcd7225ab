"""Which pods would have to leave a node for another: tried one by one, or worked out where only sums matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from moorage.scheduler.framework import Cycle, Demand
from moorage.scheduler.pods.budgets import PodBudgets
from moorage.scheduler.table.nodes import NodeTable
from moorage.scheduler.table.shape import PodInfo
from moorage.scheduler.table.sums import ResourceSums

NO_VICTIMS = "No preemption victims found for incoming pod"
_FAR = datetime.max.replace(tzinfo=UTC)


@dataclass(slots=True)
class PreemptionCandidate:
    """A node, and the pods that would have to leave it, the most important first."""

    node: str
    victims: list[PodInfo]
    violations: int
    """How many disruption budgets that would break."""
    rank: tuple[float, ...] = field(init=False)
    """What candidates are compared by: smaller is better."""

    def __post_init__(self) -> None:
        priorities = [victim.priority for victim in self.victims]
        highest, number = priorities[0], len(priorities)
        # Of those of one priority the first has run for longest.
        self.rank = (
            self.violations,
            highest,
            sum(priorities) + number * 2**31,
            number,
            -_start(self.victims[0]).timestamp(),
        )


class VictimsByTrial:
    """Takes pods out of the table and puts them back, and asks every plugin each time. Right for all pods."""

    def __init__(self, cycle: Cycle, budgets: PodBudgets) -> None:
        self._cycle, self._table, self._budgets = cycle, cycle.table, budgets

    def on(self, row: int) -> PreemptionCandidate | str:
        """Remove all pods of lower priority, then bring back as many as possible, the most important first."""
        lower = _lower(self._table, self._cycle, row)
        if not lower:
            return NO_VICTIMS
        node = lower[0].node_name
        with self._without(lower) as removed:
            if not self._cycle.fitting.fits(self._cycle, row):
                return self._why_not(row)
            violating, others = _by_budget(lower, self._budgets)
            violations = 0
            for info in (*violating, *others):
                removed.give_back(info)
                if not self._cycle.fitting.fits(self._cycle, row):
                    removed.take(info)
                    violations += info in violating
            victims = sorted(removed.taken, key=_importance)
        return PreemptionCandidate(node, victims, violations) if victims else NO_VICTIMS

    def _why_not(self, row: int) -> str:
        """Why the pod does not fit even without the pods of lower priority."""
        diagnosis = self._cycle.fitting.diagnose(self._cycle, row)
        reasons = [rejection.reason for rejections in diagnosis.values() for rejection in rejections]
        return reasons[0] if reasons else NO_VICTIMS

    @contextmanager
    def _without(self, pods: list[PodInfo]) -> Iterator[_Removed]:
        removed = _Removed(self._table)
        try:
            for info in pods:
                removed.take(info)
            yield removed
        finally:
            for info in list(removed.taken):
                removed.give_back(info)


class VictimsBySums:
    """Adds and subtracts what pods ask for. Right where that alone decides whether the pod fits; else it says None."""

    def __init__(self, cycle: Cycle, budgets: PodBudgets, demands: tuple[Demand, ...]) -> None:
        self._cycle, self._table, self._budgets = cycle, cycle.table, budgets
        self._reasons = [demand.reason for demand in demands]
        self._sums = ResourceSums(cycle.table, [(demand.resource, demand.amount) for demand in demands])
        self._suitable = cycle.fitting.suitable(cycle)

    def on(self, row: int, nominated: Sequence[PodInfo]) -> PreemptionCandidate | str | None:
        """The same as by trial."""
        sums = self._sums
        if not self._suitable[row] or any(info.shape.repels for info in nominated):
            return None
        lower = _lower(self._table, self._cycle, row)
        if not lower:
            return NO_VICTIMS
        left = sums.left(row)
        for info in lower:
            left = [have + takes for have, takes in zip(left, sums.taken(info), strict=True)]
        short = [reason for have, reason in zip(left, self._reasons, strict=True) if have < 0]
        if short:
            return short[0]
        for info in nominated:
            left = [have - takes for have, takes in zip(left, sums.taken(info), strict=True)]
        return self._fewest(lower, left) if min(left) >= 0 else NO_VICTIMS

    def _fewest(self, lower: list[PodInfo], left: list[int]) -> PreemptionCandidate | str:
        violating, others = _by_budget(lower, self._budgets) if len(self._budgets) else ([], lower)
        victims: list[PodInfo] = []
        violations = 0
        for number, info in enumerate((*violating, *others)):
            less = [have - takes for have, takes in zip(left, self._sums.taken(info), strict=True)]
            if min(less) >= 0:
                left = less
            else:
                victims.append(info)
                violations += number < len(violating)
        if violating:
            victims.sort(key=_importance)
        return PreemptionCandidate(lower[0].node_name, victims, violations) if victims else NO_VICTIMS


class _Removed:
    """Pods that are taken out of the table for a what-if question."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.taken: list[PodInfo] = []

    def take(self, info: PodInfo) -> None:
        """Take a pod out of the table."""
        self._table.remove_pod(info)
        self.taken.append(info)

    def give_back(self, info: PodInfo) -> None:
        """Put it back."""
        self.taken.remove(info)
        self._table.add_pod(info)


def _lower(table: NodeTable, cycle: Cycle, row: int) -> list[PodInfo]:
    """The pods of lower priority on a row, the most important first."""
    priority = cycle.pod.priority
    return sorted([info for info in table.pods[row].values() if info.priority < priority], key=_importance)


def _by_budget(pods: list[PodInfo], budgets: PodBudgets) -> tuple[list[PodInfo], list[PodInfo]]:
    """The pods whose removal would break a disruption budget, and the others."""
    allowed: dict[str, int] = {}
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for info in pods:
        broken = False
        for budget in budgets.of(info.pod):
            uid = budget.metadata.uid
            allowed[uid] = allowed.get(uid, budget.status.disruptions_allowed) - 1
            broken = broken or allowed[uid] < 0
        (violating if broken else others).append(info)
    return violating, others


def _importance(info: PodInfo) -> tuple[int, datetime]:
    """The most important first: by priority, then by how long it has run."""
    return -info.priority, _start(info)


def _start(info: PodInfo) -> datetime:
    """When a pod started; of one that has not, the end of time."""
    return info.pod.status.start_time or _FAR
