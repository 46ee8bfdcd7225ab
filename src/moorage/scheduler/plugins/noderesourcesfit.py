"""NodeResourcesFit: keeps pods off nodes without enough room, and scores the others by what would be in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moorage.api.decode import convert
from moorage.api.meta import Wire
from moorage.api.requests import PODS, amount_text
from moorage.scheduler.explaining import alike
from moorage.scheduler.framework import MAX_SCORE, Cycle, Demand, Handle, Plugin, Rejection, Told
from moorage.scheduler.plugins.resourceusage import (
    DEFAULT_RESOURCES,
    ResourceQuestions,
    ResourceSpec,
    Usage,
    weights_of,
)
from moorage.scheduler.table.distinct import distinct
from moorage.scheduler.table.nodes import Mask, Rows, Scores
from moorage.scheduler.table.shape import Shape

UsageScore = Callable[[Usage], Scores]

_FULL = "Too many pods"
_MOST_NAMED = 100
"""How many resources are named that there is not enough of, unless others are the reason on some nodes."""


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
    """The arguments of NodeResourcesFit."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy()


class NodeResourcesFit(Plugin):
    """Keeps pods off nodes that have not enough left of what they ask for."""

    name = "NodeResourcesFit"
    by_amounts = True

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        fit = convert(args, FitArgs)
        self._ignored, self._ignored_groups = frozenset(fit.ignored_resources), frozenset(fit.ignored_resource_groups)
        self._questions = ResourceQuestions(
            handle.table, weights_of(fit.scoring_strategy.resources or DEFAULT_RESOURCES)
        )
        self._strategy = _strategy(fit.scoring_strategy)

    def _asked(self, shape: Shape) -> Iterable[tuple[str, int]]:
        for name, value in shape.requests.items():
            ignored = name in self._ignored or name.partition("/")[0] in self._ignored_groups
            if value and name != PODS and not (ignored and _is_extended(name)):
                yield name, value

    def demands(self, shape: Shape) -> tuple[Demand, ...]:
        """Room for one more pod, and for what it asks for."""
        asked = (Demand(name, value, f"Insufficient {name}") for name, value in self._asked(shape))
        return (Demand(PODS, 1, _FULL), *asked)

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """Everything fits, and one more pod does."""
        table = self.handle.table
        pods = table.resources[PODS]
        mask: Mask = table.requested[pods][rows] < table.allocatable[pods][rows]
        for number, (name, value) in enumerate(self._asked(cycle.shape), 1):
            column = table.line_of(name)
            mask &= table.allocatable[column][rows] - table.requested[column][rows] >= value
            if number % _MOST_NAMED == 0 and not mask.any():
                break
        return mask

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Rejection]:
        """Each resource that there is not enough of; more than a node has at all, no removal of pods can give."""
        table = self.handle.table
        pods = table.resources[PODS]
        if len(full := rows[table.requested[pods][rows] >= table.allocatable[pods][rows]]):
            yield Rejection(_FULL, full, resolvable=True)
        named, count = np.isin(rows, full), 0
        for name, value in self._asked(cycle.shape):
            if count >= _MOST_NAMED and named.all():
                break
            column = table.line_of(name)
            room = table.allocatable[column][rows]
            short = room - table.requested[column][rows] < value
            named |= short
            for resolvable, part in ((True, short & (room >= value)), (False, short & (room < value))):
                if part.any():
                    count += 1
                    yield Rejection(f"Insufficient {name}", rows[part], resolvable)

    def tell(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Told]:
        """What is asked for and what is free, of each resource that there is not enough of."""
        table = self.handle.table
        for name, value in ((PODS, 1), *self._asked(cycle.shape)):
            line = table.line_of(name)
            room, used = table.allocatable[line][rows], table.requested[line][rows]
            short = room - used < value
            rooms, uses = distinct(room[short]), distinct(used[short])
            codes = rooms.codes * (len(uses.first) + 1) + uses.codes
            for same in alike(codes, rows[short]):
                all_of_it, taken = int(table.allocatable[line][same[0]]), int(table.requested[line][same[0]])
                if name == PODS:
                    yield Told(name, name, f"{taken} of {all_of_it} are there", same)
                else:
                    yield Told(name, name, _shortage(name, value, all_of_it - taken, all_of_it), same)

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """What the strategy says."""
        table, shape = self.handle.table, cycle.shape
        return self._strategy(self._questions.of(shape, shape.scored).usage(table, table.scored, rows))


def _shortage(name: str, asked: int, free: int, room: int) -> str:
    """`asks for 4, 3.2 of 8 free`; in full where rounding would hide the difference."""
    texts = [amount_text(name, value) for value in (asked, max(free, 0), room)]
    if texts[0] == texts[1]:
        texts = [str(value) for value in (asked, max(free, 0), room)]
    return f"asks for {texts[0]}, {texts[1]} of {texts[2]} free" if room else f"asks for {texts[0]}, the node has none"


def _least(usage: Usage) -> Scores:
    left: Scores = np.maximum(usage.allocatable - usage.after, 0) * MAX_SCORE // np.maximum(usage.allocatable, 1)
    return left


def _most(usage: Usage) -> Scores:
    used: Scores = np.minimum(usage.after, usage.allocatable) * MAX_SCORE // np.maximum(usage.allocatable, 1)
    return used


def _mean(of: Callable[[Usage], Scores]) -> UsageScore:
    """The weighted mean over the resources that a node has."""

    def strategy(usage: Usage) -> Scores:
        weights = usage.weights * (usage.allocatable > 0)
        mean: Scores = (of(usage) * weights).sum(axis=0) // np.maximum(weights.sum(axis=0), 1)
        return mean

    return strategy


def _rounded_mean(of: Callable[[Usage], Scores]) -> UsageScore:
    """The same, rounded to the nearest, over the resources that score at all."""

    def strategy(usage: Usage) -> Scores:
        scores = of(usage)
        weights = usage.weights * ((usage.allocatable > 0) & (scores > 0))
        total, number = (scores * weights).sum(axis=0), np.maximum(weights.sum(axis=0), 1)
        mean: Scores = np.floor(total / number + 0.5).astype(np.int64)
        return mean

    return strategy


_STRATEGIES = {"LeastAllocated": _least, "MostAllocated": _most}


def _strategy(strategy: ScoringStrategy) -> UsageScore:
    if strategy.type == "RequestedToCapacityRatio":
        return _rounded_mean(_ratio(_points(strategy.requested_to_capacity_ratio.shape)))
    if strategy.type not in _STRATEGIES:
        known = ", ".join((*_STRATEGIES, "RequestedToCapacityRatio"))
        raise ValueError(f"scoringStrategy.type: {strategy.type!r}: there are {known}")
    return _mean(_STRATEGIES[strategy.type])


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
        scores = np.full(used.shape, points[-1][1], np.int64)
        for number in range(len(points) - 1, -1, -1):
            x, y = points[number]
            if number == 0:
                scores = np.where(used <= x, y, scores)
                continue
            x0, y0 = points[number - 1]
            between = y0 + np.trunc((y - y0) * (used - x0) / (x - x0)).astype(np.int64)
            scores = np.where(used <= x, between, scores)
        return scores

    return score


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name
