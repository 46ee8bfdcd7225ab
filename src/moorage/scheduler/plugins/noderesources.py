"""Room: nodes without enough of it will not do, and the others are compared by what would be left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moorage.scheduler.framework import MAX_SCORE, Cycle, Handle, Plugin, Rejection
from moorage.scheduler.requests import CPU, EPHEMERAL, MEMORY, PODS
from moorage.scheduler.shape import Shape
from moorage.scheduler.table import Mask, NodeTable, Rows, Scores

_NATIVE = (CPU, MEMORY, EPHEMERAL)
_NONZERO = {CPU: 0, MEMORY: 1}
_DEFAULT = ({"name": CPU, "weight": 1}, {"name": MEMORY, "weight": 1})


class Usage(NamedTuple):
    """How much of a resource some nodes have, and how much is asked of them, without and with the pod."""

    allocatable: Scores
    before: Scores
    after: Scores
    weight: int


Strategy = Callable[[list[Usage]], Scores]


def _usages(
    table: NodeTable, shape: Shape, rows: Rows, resources: Iterable[tuple[str, int]], *, as_scored: bool
) -> list[Usage]:
    """The resources that count for a pod: an extended one that it does not ask for counts for nothing."""
    found = []
    for name, weight in resources:
        asked = shape.nonzero[_NONZERO[name]] if as_scored and name in _NONZERO else shape.requests.get(name, 0)
        if not asked and name not in _NATIVE:
            continue
        column = table.column_of(name)
        counted = table.nonzero[_NONZERO[name]] if as_scored and name in _NONZERO else table.requested[column]
        before = counted[rows]
        found.append(Usage(table.allocatable[column][rows], before, before + asked, weight))
    return found


class NodeResourcesFit(Plugin):
    """Keeps pods off nodes that have not enough left of what they ask for."""

    name = "NodeResourcesFit"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._ignored = frozenset(args.get("ignoredResources") or ())
        self._ignored_groups = frozenset(args.get("ignoredResourceGroups") or ())
        strategy = args.get("scoringStrategy") or {}
        self._resources = _weights(strategy.get("resources") or _DEFAULT)
        self._strategy = _strategy(strategy)

    def _asked(self, shape: Shape) -> Iterable[tuple[str, int]]:
        for name, value in shape.requests.items():
            if name in self._ignored or name.partition("/")[0] in self._ignored_groups:
                continue
            if name != PODS:
                yield name, value

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """Everything fits, and one more pod does."""
        table = self.handle.table
        pods = table.resources[PODS]
        mask: Mask = table.requested[pods][rows] < table.allocatable[pods][rows]
        for name, value in self._asked(cycle.shape):
            column = table.column_of(name)
            mask &= table.allocatable[column][rows] - table.requested[column][rows] >= value
        return mask

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Rejection]:
        """Each resource that there is not enough of; more than a node has at all, no removal of pods can give."""
        table = self.handle.table
        pods = table.resources[PODS]
        if len(full := rows[table.requested[pods][rows] >= table.allocatable[pods][rows]]):
            yield Rejection("Too many pods", full, resolvable=True)
        for name, value in self._asked(cycle.shape):
            column = table.column_of(name)
            room = table.allocatable[column][rows]
            short = room - table.requested[column][rows] < value
            for resolvable, part in ((True, short & (room >= value)), (False, short & (room < value))):
                if part.any():
                    yield Rejection(f"Insufficient {name}", rows[part], resolvable)

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """What the strategy says."""
        usages = _usages(self.handle.table, cycle.shape, rows, self._resources, as_scored=True)
        return self._strategy(usages) if usages else np.zeros(len(self.handle.table.alive[rows]), np.int64)


class NodeResourcesBalancedAllocation(Plugin):
    """Prefers nodes where the pod evens out how much of each resource is used."""

    name = "NodeResourcesBalancedAllocation"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._resources = _weights(args.get("resources") or _DEFAULT)

    def applies(self, shape: Shape) -> bool:
        """A pod that asks for nothing would only flock together with others of its kind."""
        return any(shape.requests.get(name) for name, _ in self._resources)

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """Around 75 when the pod changes little, towards 100 when it evens out, towards 50 when it does not."""
        usages = _usages(self.handle.table, cycle.shape, rows, self._resources, as_scored=False)
        gained = _balance(usages, with_pod=True) - _balance(usages, with_pod=False)
        half = MAX_SCORE // 2
        score: Scores = half + (half + gained) // 2
        return score


def _balance(usages: list[Usage], *, with_pod: bool) -> Scores:
    """100 less the standard deviation of how much of each resource is used."""
    fractions = []
    present = []
    for usage in usages:
        has = usage.allocatable > 0
        used = np.where(has, usage.after if with_pod else usage.before, 0) / np.where(has, usage.allocatable, 1)
        fractions.append(np.minimum(used, 1.0))
        present.append(has)
    if len(fractions) == 2:
        deviation = np.where(present[0] & present[1], np.abs((fractions[0] - fractions[1]) / 2), 0.0)
    else:
        stacked, there = np.array(fractions), np.array(present)
        number = np.maximum(there.sum(axis=0), 1)
        mean = stacked.sum(axis=0) / number
        squares = np.where(there, (stacked - mean) ** 2, 0.0).sum(axis=0)
        deviation = np.where(there.sum(axis=0) > 1, np.sqrt(squares / number), 0.0)
    return ((1 - deviation) * MAX_SCORE).astype(np.int64)


def _least(usage: Usage) -> Scores:
    room = np.maximum(usage.allocatable, 1)
    left: Scores = np.maximum(usage.allocatable - usage.after, 0) * MAX_SCORE // room
    return left


def _most(usage: Usage) -> Scores:
    used: Scores = np.minimum(usage.after, usage.allocatable) * MAX_SCORE // np.maximum(usage.allocatable, 1)
    return used


def _weighted(of: Callable[[Usage], Scores], *, skip_zero: bool = False) -> Strategy:
    """The mean over the resources that a node has."""

    def strategy(usages: list[Usage]) -> Scores:
        total = np.zeros(len(usages[0].before), np.int64)
        weights = np.zeros(len(total), np.int64)
        for usage in usages:
            found = of(usage)
            counts = (usage.allocatable > 0) & (found > 0) if skip_zero else usage.allocatable > 0
            total += np.where(counts, found * usage.weight, 0)
            weights += np.where(counts, usage.weight, 0)
        if skip_zero:
            mean = np.round(total / np.maximum(weights, 1)).astype(np.int64)
        else:
            mean = total // np.maximum(weights, 1)
        return mean

    return strategy


def _strategy(given: Mapping[str, Any]) -> Strategy:
    kind = given.get("type") or "LeastAllocated"
    if kind == "RequestedToCapacityRatio":
        shape = (given.get("requestedToCapacityRatio") or {}).get("shape") or ()
        return _weighted(_ratio([(point["utilization"], point["score"] * 10) for point in shape]), skip_zero=True)
    return _weighted({"LeastAllocated": _least, "MostAllocated": _most}[kind])


def _ratio(points: list[tuple[int, int]]) -> Callable[[Usage], Scores]:
    """The score that a broken line gives to how much of a resource is used."""

    def score(usage: Usage) -> Scores:
        room = np.maximum(usage.allocatable, 1)
        over = (usage.allocatable == 0) | (usage.after > usage.allocatable)
        used = np.where(over, 100, usage.after * 100 // room)
        found = np.full(len(used), points[-1][1], np.int64)
        for number in range(len(points) - 1, -1, -1):
            x, y = points[number]
            if number == 0:
                found = np.where(used <= x, y, found)
                continue
            x0, y0 = points[number - 1]
            between = y0 + np.trunc((y - y0) * (used - x0) / (x - x0)).astype(np.int64)
            found = np.where(used <= x, between, found)
        return found

    return score


def _weights(resources: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, int], ...]:
    return tuple((str(each["name"]), int(each.get("weight") or 1)) for each in resources)
