"""Which rows nominated pods close to the pods of a shape, where sums decide: kept until rows or nominations change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from moorage.scheduler.framework import Demand
from moorage.scheduler.table.nodes import NodeTable
from moorage.scheduler.table.shape import PodInfo
from moorage.scheduler.table.sums import ResourceSums

BesideVersion = tuple[int, int, int]
"""How often nominations have changed, how often nodes have come or gone, and how many resources there are."""


class Beside:
    """The nominated pods that count for a shape, by row, and the rows where they leave no room."""

    __slots__ = ("_before", "_changed", "_sums", "closed", "decides", "version")

    def __init__(
        self, table: NodeTable, version: BesideVersion, demands: Sequence[Demand], before: dict[int, list[PodInfo]]
    ) -> None:
        self.version = version
        self._before = before
        self.closed: set[int] = set()
        """The rows where they leave no room, though they would do otherwise."""
        self.decides = bool(demands) and not any(info.shape.repels for pods in before.values() for info in pods)
        """Whether sums decide: no nominated pod keeps others away, and the pods of this shape ask for nothing else."""
        self._sums = ResourceSums(table, [(demand.resource, demand.amount) for demand in demands])
        self._changed = set(before)

    def changed(self, rows: slice | Iterable[int]) -> None:
        """Some rows have changed, or all of them."""
        self._changed.update(self._before if isinstance(rows, slice) else rows)

    def keep_up(self, would_do: Callable[[int], bool]) -> None:
        """Look again at the rows that have changed; `would_do` says which would do but for nominated pods."""
        for row in self._changed & self._before.keys():
            if would_do(row) and min(self._sums.left(row, self._before[row])) < 0:
                self.closed.add(row)
            else:
                self.closed.discard(row)
        self._changed.clear()
