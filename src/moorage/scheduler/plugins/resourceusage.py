"""How much of its resources a node would have in use: what NodeResourcesFit and the balanced allocation work out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from moorage.api.meta import Wire
from moorage.api.requests import CPU, EPHEMERAL, MEMORY
from moorage.scheduler.table.nodes import NodeTable, Rows, Scores
from moorage.scheduler.table.shape import Shape

_NATIVE = (CPU, MEMORY, EPHEMERAL)


class Usage(NamedTuple):
    """How much of some resources (lines) some nodes (columns) have, and how much is asked of them."""

    allocatable: Scores
    before: Scores
    after: Scores
    weights: Scores
    """One a line."""


class ResourceSpec(Wire):
    """A resource, and how much it counts."""

    name: str = ""
    weight: int = 1


DEFAULT_RESOURCES = (ResourceSpec(CPU), ResourceSpec(MEMORY))


class ResourceQuestion(NamedTuple):
    """The resources that count for a pod: their lines in the table, and for each what the pod asks for and a weight."""

    lines: NDArray[np.intp]
    asked: Scores
    weights: Scores

    def usage(self, table: NodeTable, counted: Scores, rows: Rows) -> Usage:
        """How much of them some rows have, and how much would be in use."""
        which = (self.lines[:, 0],) if isinstance(rows, slice) else (self.lines, rows)
        before = counted[which]
        return Usage(table.allocatable[which], before, before + self.asked, self.weights)


class ResourceQuestions:
    """The question of each shape."""

    def __init__(self, table: NodeTable, resources: Iterable[tuple[str, int]]) -> None:
        self._table = table
        self.resources = tuple(resources)
        self._kept: WeakKeyDictionary[Shape, ResourceQuestion] = WeakKeyDictionary()
        self._lines = 0
        """How many lines the table had: a new one may be of a resource that no node had before."""

    def of(self, shape: Shape, asked: Mapping[str, int]) -> ResourceQuestion:
        """The question of a shape. An extended resource that it does not ask for counts for nothing."""
        if self._lines != len(self._table.resources):
            self._lines = len(self._table.resources)
            self._kept.clear()
        question = self._kept.get(shape)
        if question is None:
            counting = [(name, weight) for name, weight in self.resources if name in _NATIVE or asked.get(name)]
            question = self._kept[shape] = ResourceQuestion(
                np.array([self._table.line_of(name) for name, _ in counting], np.intp)[:, None],
                np.array([asked.get(name, 0) for name, _ in counting], np.int64)[:, None],
                np.array([weight for _, weight in counting], np.int64)[:, None],
            )
        return question


def weights_of(resources: Iterable[ResourceSpec]) -> tuple[tuple[str, int], ...]:
    """The names and weights of resources. Raises ValueError."""
    weights = tuple((resource.name, resource.weight or 1) for resource in resources)
    if any(not name or not 1 <= weight <= 100 for name, weight in weights):
        raise ValueError("resources: each must have a name, and a weight from 1 to 100")
    return weights
