"""NodeResourcesBalancedAllocation: prefers nodes whose resources would be in use to the same extent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from moorage.api.decode import convert
from moorage.api.meta import Wire
from moorage.scheduler.framework import MAX_SCORE, Cycle, Handle, Plugin
from moorage.scheduler.plugins.resourceusage import (
    DEFAULT_RESOURCES,
    ResourceQuestions,
    ResourceSpec,
    weights_of,
)
from moorage.scheduler.table.nodes import Rows, Scores
from moorage.scheduler.table.shape import Shape


class BalancedAllocationArgs(Wire):
    """The arguments of NodeResourcesBalancedAllocation."""

    resources: tuple[ResourceSpec, ...] = ()


class NodeResourcesBalancedAllocation(Plugin):
    """Prefers nodes where the pod evens out how much of each resource is used."""

    name = "NodeResourcesBalancedAllocation"
    by_amounts = True

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        balanced = convert(args, BalancedAllocationArgs)
        self._questions = ResourceQuestions(handle.table, weights_of(balanced.resources or DEFAULT_RESOURCES))

    def applies(self, shape: Shape) -> bool:
        """A pod that asks for nothing would only flock together with others of its kind."""
        return any(shape.requests.get(name) for name, _ in self._questions.resources)

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """Around 75 when the pod changes little, towards 100 when it evens out, towards 50 when it does not."""
        table, shape = self.handle.table, cycle.shape
        usage = self._questions.of(shape, shape.requests).usage(table, table.requested, rows)
        before, after = _balance(usage.allocatable, np.array((usage.before, usage.after)))
        half = MAX_SCORE // 2
        score: Scores = half + (half + after - before) // 2
        return score


def _balance(allocatable: Scores, used: Scores) -> Scores:
    """100 less the standard deviation of how much of each resource is used; `used` has several states of the nodes."""
    has = allocatable > 0
    fractions = np.minimum(used / np.maximum(allocatable, 1), 1.0) * has
    number = has.sum(axis=0)
    if len(allocatable) == 2:
        deviation = np.abs((fractions[:, 0] - fractions[:, 1]) / 2) * (number == 2)
    else:
        mean = fractions.sum(axis=1) / np.maximum(number, 1)
        squares = (((fractions - mean[:, None]) ** 2) * has).sum(axis=1)
        deviation = np.sqrt(squares / np.maximum(number, 1)) * (number > 2)
        largest, smallest = fractions.max(axis=1), np.where(has, fractions, 1.0).min(axis=1)
        deviation = np.where(number == 2, (largest - smallest) / 2, deviation)
    score: Scores = ((1 - deviation) * MAX_SCORE).astype(np.int64)
    return score
