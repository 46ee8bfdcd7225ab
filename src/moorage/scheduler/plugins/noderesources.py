"""Room: nodes without enough of it will not do, and the others are compared by what would be left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from moorage.api.decode import convert
from moorage.api.meta import Wire
from moorage.api.requests import CPU, EPHEMERAL, MEMORY, PODS
from moorage.scheduler.framework import MAX_SCORE, Cycle, Handle, Plugin, Rejection
from moorage.scheduler.table.nodes import Mask, NodeTable, Rows, Scores
from moorage.scheduler.table.shape import Shape

_NATIVE = (CPU, MEMORY, EPHEMERAL)
_STATES = 4096
"""How many answers are remembered, about all shapes together."""
A = TypeVar("A", Mask, Scores)


class Usage(NamedTuple):
    """How much of some resources (lines) some nodes (columns) have, and how much is asked of them."""

    allocatable: Scores
    before: Scores
    after: Scores
    weights: Scores
    """One a line."""


Strategy = Callable[[Usage], Scores]


class ResourceSpec(Wire):
    """A resource, and how much it counts."""

    name: str = ""
    weight: int = 1


_DEFAULT = (ResourceSpec(CPU), ResourceSpec(MEMORY))


class ShapePoint(Wire):
    """How good it is, from 0 to 10, when so many percent of a resource are used."""

    utilization: int = 0
    score: int = 0


class RequestedToCapacityRatio(Wire):
    """A broken line of points."""

    shape: tuple[ShapePoint, ...] = ()


class ScoringStrategy(Wire):
    """What makes a node good."""

    type: str = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatio = RequestedToCapacityRatio()


class FitArgs(Wire):
    """What NodeResourcesFit is told."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy()


class BalancedAllocationArgs(Wire):
    """What NodeResourcesBalancedAllocation is told."""

    resources: tuple[ResourceSpec, ...] = ()


class _Question(NamedTuple):
    """What a pod asks of the resources that count for it: their lines in the table, one amount and one weight each."""

    lines: NDArray[np.intp]
    asked: Scores
    weights: Scores

    def usage(self, table: NodeTable, counted: Scores, rows: Rows) -> Usage:
        """What that means for some nodes."""
        which = (self.lines[:, 0],) if isinstance(rows, slice) else (self.lines, rows)
        before = counted[which]
        return Usage(table.allocatable[which], before, before + self.asked, self.weights)


class _Questions:
    """The questions of pods, kept a shape."""

    def __init__(self, table: NodeTable, resources: Iterable[tuple[str, int]]) -> None:
        self._table = table
        self.resources = tuple(resources)
        self._kept: WeakKeyDictionary[Shape, _Question] = WeakKeyDictionary()

    def of(self, shape: Shape, asked: Mapping[str, int]) -> _Question:
        """The question of a shape. An extended resource that it does not ask for counts for nothing."""
        question = self._kept.get(shape)
        if question is None:
            counting = [(name, weight) for name, weight in self.resources if name in _NATIVE or asked.get(name)]
            question = self._kept[shape] = _Question(
                np.array([self._table.column_of(name) for name, _ in counting], np.intp)[:, None],
                np.array([asked.get(name, 0) for name, _ in counting], np.int64)[:, None],
                np.array([weight for _, weight in counting], np.int64)[:, None],
            )
        return question


class _Remembered(Generic[A]):
    """Answers about single nodes, by what a node has and what is taken of it.

    Each pod that is placed asks about its node again, and nodes of one size that hold as much are many.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._kept: WeakKeyDictionary[Shape, dict[bytes, A]] = WeakKeyDictionary()
        self._number = 0

    def answer(self, shape: Shape, taken: Scores, rows: Rows, ask: Callable[[Shape, Rows], A]) -> A:
        """What a question about rows gives: read only."""
        if isinstance(rows, slice) or len(rows) != 1:
            return ask(shape, rows)
        row = rows[0]
        state = self._table.allocatable[:, row].tobytes() + taken[:, row].tobytes()
        found = self._kept.get(shape, {}).get(state)
        if found is None:
            self._number += 1
            if self._number > _STATES:
                self._kept.clear()
                self._number = 1
            found = self._kept.setdefault(shape, {})[state] = ask(shape, rows)
        return found


class NodeResourcesFit(Plugin):
    """Keeps pods off nodes that have not enough left of what they ask for."""

    name = "NodeResourcesFit"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        told = convert(args, FitArgs)
        self._ignored, self._ignored_groups = frozenset(told.ignored_resources), frozenset(told.ignored_resource_groups)
        self._questions = _Questions(handle.table, _weights(told.scoring_strategy.resources or _DEFAULT))
        self._strategy = _strategy(told.scoring_strategy)
        self._fitting: _Remembered[Mask] = _Remembered(handle.table)
        self._scored: _Remembered[Scores] = _Remembered(handle.table)

    def _asked(self, shape: Shape) -> Iterable[tuple[str, int]]:
        for name, value in shape.requests.items():
            ignored = name in self._ignored or name.partition("/")[0] in self._ignored_groups
            if name != PODS and not (ignored and _is_extended(name)):
                yield name, value

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """Everything fits, and one more pod does."""
        return self._fitting.answer(cycle.shape, self.handle.table.requested, rows, self._fits)

    def _fits(self, shape: Shape, rows: Rows) -> Mask:
        table = self.handle.table
        pods = table.resources[PODS]
        mask: Mask = table.requested[pods][rows] < table.allocatable[pods][rows]
        for name, value in self._asked(shape):
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
        return self._scored.answer(cycle.shape, self.handle.table.scored, rows, self._score)

    def _score(self, shape: Shape, rows: Rows) -> Scores:
        table = self.handle.table
        return self._strategy(self._questions.of(shape, shape.scored).usage(table, table.scored, rows))


class NodeResourcesBalancedAllocation(Plugin):
    """Prefers nodes where the pod evens out how much of each resource is used."""

    name = "NodeResourcesBalancedAllocation"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        told = convert(args, BalancedAllocationArgs)
        self._questions = _Questions(handle.table, _weights(told.resources or _DEFAULT))
        self._scored: _Remembered[Scores] = _Remembered(handle.table)

    def applies(self, shape: Shape) -> bool:
        """A pod that asks for nothing would only flock together with others of its kind."""
        return any(shape.requests.get(name) for name, _ in self._questions.resources)

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """Around 75 when the pod changes little, towards 100 when it evens out, towards 50 when it does not."""
        return self._scored.answer(cycle.shape, self.handle.table.requested, rows, self._score)

    def _score(self, shape: Shape, rows: Rows) -> Scores:
        table = self.handle.table
        usage = self._questions.of(shape, shape.requests).usage(table, table.requested, rows)
        before, after = _balance(usage.allocatable, np.stack([usage.before, usage.after]))
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


def _least(usage: Usage) -> Scores:
    left: Scores = np.maximum(usage.allocatable - usage.after, 0) * MAX_SCORE // np.maximum(usage.allocatable, 1)
    return left


def _most(usage: Usage) -> Scores:
    used: Scores = np.minimum(usage.after, usage.allocatable) * MAX_SCORE // np.maximum(usage.allocatable, 1)
    return used


def _mean(of: Callable[[Usage], Scores]) -> Strategy:
    """The weighted mean over the resources that a node has."""

    def strategy(usage: Usage) -> Scores:
        weights = usage.weights * (usage.allocatable > 0)
        mean: Scores = (of(usage) * weights).sum(axis=0) // np.maximum(weights.sum(axis=0), 1)
        return mean

    return strategy


def _rounded_mean(of: Callable[[Usage], Scores]) -> Strategy:
    """The same, rounded to the nearest, over the resources that score at all."""

    def strategy(usage: Usage) -> Scores:
        found = of(usage)
        weights = usage.weights * ((usage.allocatable > 0) & (found > 0))
        total, number = (found * weights).sum(axis=0), np.maximum(weights.sum(axis=0), 1)
        mean: Scores = np.floor(total / number + 0.5).astype(np.int64)
        return mean

    return strategy


_STRATEGIES = {"LeastAllocated": _least, "MostAllocated": _most}


def _strategy(given: ScoringStrategy) -> Strategy:
    if given.type == "RequestedToCapacityRatio":
        return _rounded_mean(_ratio(_points(given.requested_to_capacity_ratio.shape)))
    if given.type not in _STRATEGIES:
        known = ", ".join((*_STRATEGIES, "RequestedToCapacityRatio"))
        raise ValueError(f"scoringStrategy.type: {given.type!r}: there are {known}")
    return _mean(_STRATEGIES[given.type])


def _points(shape: Sequence[ShapePoint]) -> list[tuple[int, int]]:
    used = [point.utilization for point in shape]
    if not used or used != sorted(set(used)) or not 0 <= used[0] <= used[-1] <= 100:
        raise ValueError("requestedToCapacityRatio.shape: points must have rising utilizations from 0 to 100")
    if any(not 0 <= point.score <= 10 for point in shape):
        raise ValueError("requestedToCapacityRatio.shape: scores must be from 0 to 10")
    return [(point.utilization, point.score * 10) for point in shape]


def _ratio(points: list[tuple[int, int]]) -> Callable[[Usage], Scores]:
    """The score that a broken line gives to how much of a resource is used."""

    def score(usage: Usage) -> Scores:
        room = np.maximum(usage.allocatable, 1)
        over = (usage.allocatable == 0) | (usage.after > usage.allocatable)
        used = np.where(over, 100, usage.after * 100 // room)
        found = np.full(used.shape, points[-1][1], np.int64)
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


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def _weights(resources: Iterable[ResourceSpec]) -> tuple[tuple[str, int], ...]:
    found = tuple((each.name, each.weight or 1) for each in resources)
    if any(not name or not 1 <= weight <= 100 for name, weight in found):
        raise ValueError("resources: each must have a name, and a weight from 1 to 100")
    return found
