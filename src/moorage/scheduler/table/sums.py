"""What the pods of a row leave of some resources: whether a pod fits, where nothing but sums decides that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moorage.api.requests import PODS
from moorage.scheduler.table.nodes import NodeTable
from moorage.scheduler.table.shape import PodInfo, Shape


class ResourceSums:
    """The resources that a pod asks for, counted as the table counts them, and without a change of the table.

    It must not be kept when a node may have come, and the table must be exact.
    """

    __slots__ = ("_asked", "_lines", "_names", "_table", "_taken")

    def __init__(self, table: NodeTable, asked: Sequence[tuple[str, int]]) -> None:
        self._table = table
        self._asked = [amount for _, amount in asked]
        self._lines = [table.line_of(name) for name, _ in asked]
        self._names = [name if name in table.resources else "" for name, _ in asked]
        self._taken: dict[Shape, list[int]] = {}

    def left(self, row: int, nominated: Iterable[PodInfo] = ()) -> list[int]:
        """What would be left if the pod came, and these before it; it fits when nothing is below zero."""
        allocatable, requested = self._table.allocatable, self._table.requested
        left = [
            allocatable.item(line, row) - requested.item(line, row) - amount
            for line, amount in zip(self._lines, self._asked, strict=True)
        ]
        for info in nominated:
            left = [have - takes for have, takes in zip(left, self.taken(info), strict=True)]
        return left

    def taken(self, info: PodInfo) -> list[int]:
        """What a pod takes of each of the resources."""
        taken = self._taken.get(info.shape)
        if taken is None:
            requests = info.shape.requests
            taken = [requests.get(name, 0) + (name == PODS) for name in self._names]
            self._taken[info.shape] = taken
        return taken
