"""PodTopologySpread: keeps the skew of pods between topology domains small."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moorage.api.labels import Labels, SelectorError
from moorage.api.meta import Object
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.scheduler.explaining import alike
from moorage.scheduler.framework import MAX_SCORE, SKIP, Cycle, Handle, Plugin, Reject, Rejection, Scope, Skip, Told
from moorage.scheduler.pods.counts import Counts, by_value, pod_counts
from moorage.scheduler.pods.spread import Constraints, Spread, SpreadConstraint
from moorage.scheduler.table.columns import Codes
from moorage.scheduler.table.nodes import ALL, HOSTNAME, Mask, Rows, Scores
from moorage.scheduler.table.shape import PodInfo, Shape

REASON = "node(s) didn't match pod topology spread constraints"
MISSING = f"{REASON} (missing required label)"
_WAITING_MAX = 10_000
"""How many constraints of rejected pods are compared with each pod that changes."""


class Domains(NamedTuple):
    """What a constraint says of each value of its label."""

    codes: Codes
    allowed: Mask
    """By the number of the value; nodes without the label, which are number 0, are not allowed."""


@dataclass(slots=True)
class _SpreadFiltering:
    spread: Spread
    position: int = -1
    domains: list[Domains] = field(default_factory=list)


@dataclass(slots=True)
class _SpreadScoring:
    spread: Spread
    ignored: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    """The rows that lack a label, of those that were scored."""


class PodTopologySpread(Plugin):
    """Counts the pods that a constraint selects in each domain."""

    name = "PodTopologySpread"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._constraints = Constraints(handle.informers, args)
        self._counts = pod_counts(handle.table)
        self._waiting: set[Spread] = set()
        """The constraints that rejected pods since the last wake-up."""
        self._waiting_constraints = 0
        handle.informers.of(Pod).on_change(self._pod_changed)
        handle.informers.of(Node).on_change(self._node_changed)

    def applies(self, shape: Shape) -> bool:
        """Whether the pod has constraints, or may be given some."""
        return self._constraints.may_have(shape)

    def warm(self, pod: PodInfo) -> Iterator[None]:
        """Count the pods that the constraints of the pod are about."""
        try:
            spreads = self._constraints.of(pod)
        except SelectorError:
            return
        for spread in filter(None, spreads):
            for constraint in spread.constraints:
                if constraint.pick.selector.requirements:
                    yield from self._counts.steps((constraint.pick,), terminating=False)

    def pre_filter(self, cycle: Cycle) -> Skip | Reject | None:
        """Whether the pod has constraints that must hold."""
        try:
            spread = self._constraints.of(cycle.pod).hard
        except SelectorError as error:
            return Reject(f"topology spread constraints: {error}")
        if spread is None:
            return SKIP
        cycle.data[self.name] = _SpreadFiltering(spread)
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """The node has all topology keys, and one pod more keeps the skew of each constraint."""
        mask: Mask = self.handle.table.alive[rows]
        for codes, allowed in self._domains(cycle):
            mask = mask & allowed[codes[rows]]
        return mask

    def _domains(self, cycle: Cycle) -> list[Domains]:
        """What the constraints say, as the table is now."""
        state: _SpreadFiltering = cycle.data[self.name]
        table = self.handle.table
        if state.position != table.position:
            spread, labels = state.spread, cycle.pod.pod.metadata.labels
            spread.renew(table)
            state.domains = [self._allowed(spread, number, labels) for number in range(len(spread.constraints))]
            state.position = table.position
        return state.domains

    def _allowed(self, spread: Spread, number: int, labels: Labels) -> Domains:
        constraint, values = spread.constraints[number], spread.values[number]
        pods = self._by_value(spread, number)
        fewest = pods[values].min() if len(values) >= max(constraint.min_domains, 1) else 0.0
        itself = constraint.pick.selector.matches(labels)
        allowed: Mask = pods <= constraint.max_skew + fewest - itself
        allowed[0] = False
        return Domains(self.handle.table.labels(constraint.topology_key).codes, allowed)

    def _by_value(self, spread: Spread, number: int) -> NDArray[np.float64]:
        """How many pods there are for each value of a constraint's label, on the nodes that count."""
        constraint = spread.constraints[number]
        column = self.handle.table.labels(constraint.topology_key)
        return by_value(column.codes, self._count(constraint) * spread.counted[number], len(column.values))

    def _count(self, constraint: SpreadConstraint) -> Counts:
        """How many pods count on each row. A selector that picks every pod counts none of them, as in Kubernetes."""
        if constraint.pick.selector.requirements:
            return self._counts.of((constraint.pick,), terminating=False)
        return np.zeros(self.handle.table.size, np.int32)

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Rejection]:
        """The first constraint that does not hold. Removing pods helps against skew, not against a missing label."""
        self._wait(cycle.data[self.name].spread)
        unlabelled = np.zeros(len(rows), np.bool_)
        crowded = np.zeros(len(rows), np.bool_)
        for codes, allowed in self._domains(cycle):
            here = codes[rows]
            left = ~(unlabelled | crowded)
            unlabelled |= left & (here == 0)
            crowded |= left & (here != 0) & ~allowed[here]
        if crowded.any():
            yield Rejection(REASON, rows[crowded], resolvable=True)
        if unlabelled.any():
            yield Rejection(MISSING, rows[unlabelled])

    def tell(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Told]:
        """Every constraint that does not hold: how many pods there are in the domain, and where there are fewest."""
        state: _SpreadFiltering = cycle.data[self.name]
        for number, (codes, allowed) in enumerate(self._domains(cycle)):
            constraint, values = state.spread.constraints[number], state.spread.values[number]
            pods = self._by_value(state.spread, number)
            fewest = int(pods[values].min()) if len(values) >= max(constraint.min_domains, 1) else 0
            key, crowded = constraint.topology_key, rows[~allowed[codes[rows]]]
            for same in alike(codes[crowded], crowded):
                value = self.handle.table.labels(key).value(int(same[0]))
                here = f"{_pods(int(pods[codes[same[0]]]))} in {key}={value}, the fewest are {fewest}"
                over = f"maxSkew {constraint.max_skew} would be exceeded: {here}"
                reason = f"the node has no label {key}" if value is None else over
                yield Told((key, value is None), "topology spread", reason, same)

    def pre_score(self, cycle: Cycle) -> Skip | None:
        """Whether the pod has constraints that it would like to hold."""
        spread = self._constraints.of(cycle.pod).soft
        if spread is None:
            return SKIP
        cycle.data[_scoring(self.name)] = _SpreadScoring(spread)
        return None

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """The pods in the domains of a node, weighted by the number of domains."""
        table = self.handle.table
        state: _SpreadScoring = cycle.data[_scoring(self.name)]
        spread = state.spread
        spread.renew(table)
        codes = [table.labels(constraint.topology_key).codes[rows] for constraint in spread.constraints]
        ignored = np.zeros(len(codes[0]), np.bool_)
        for here in codes if spread.needs_all else ():
            ignored |= here == 0
        scored: slice | Mask = ~ignored if ignored.any() else ALL
        total = np.zeros(len(ignored), np.float64)
        for number, (constraint, here) in enumerate(zip(spread.constraints, codes, strict=True)):
            if constraint.topology_key == HOSTNAME:
                weight = math.log(len(total[scored]) + 2)
                part = self._count(constraint)[rows] * weight + (constraint.max_skew - 1)
                total += part if spread.needs_all else np.where(here != 0, part, 0.0)
            else:
                pods = self._by_value(spread, number)
                part = pods * math.log(_distinct(here[scored], len(pods)) + 2) + (constraint.max_skew - 1)
                part[0] = 0.0
                total += part[here]
        state.ignored = ignored
        scores: Scores = np.floor(total + 0.5).astype(np.int64)
        scores[ignored] = 0
        return scores

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """The fewer pods the better; a node without a topology key scores 0."""
        ignored = cycle.data[_scoring(self.name)].ignored
        counted = scores[~ignored]
        if not len(counted):
            return np.zeros_like(scores)
        most, fewest = int(counted.max()), int(counted.min())
        scaled = MAX_SCORE * (most + fewest - scores) // most if most else np.full_like(scores, MAX_SCORE)
        return np.where(ignored, 0, scaled)

    def _wait(self, spread: Spread) -> None:
        if spread not in self._waiting:
            if self._waiting_constraints >= _WAITING_MAX:
                self._wake(None, None)
            self._waiting_constraints += len(spread.constraints)
            self._waiting.add(spread)

    def _wake(self, old: Object | None, new: Object | None) -> None:
        """Wake the rejected pods; those that are rejected again wait again."""
        self._waiting.clear()
        self._waiting_constraints = 0
        self.handle.wake(self.name, old, new)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if self._waiting and any(spread.counts_differently(old, new) for spread in self._waiting):
            self._wake(old, new)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if self._waiting and any(spread.reads_differently(old, new) for spread in self._waiting):
            self._wake(old, new)


def _pods(number: int) -> str:
    return f"{number} pod{'' if number == 1 else 's'}"


def _scoring(name: str) -> str:
    return f"{name} scores"


def _distinct(codes: Codes, size: int) -> int:
    """How many different numbers there are, all below a size."""
    seen = np.zeros(size, np.bool_)
    seen[codes] = True
    return int(np.count_nonzero(seen))
