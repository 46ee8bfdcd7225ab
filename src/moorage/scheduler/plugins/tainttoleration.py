"""TaintToleration: filters by NoSchedule and NoExecute taints, scores by PreferNoSchedule taints."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from moorage.api.node import Taint
from moorage.match.expressions import TaintExpression
from moorage.match.reasons import EXPLAINED_COST, Complaint, Lack
from moorage.match.tolerations import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE
from moorage.pace import with_rests
from moorage.scheduler.explaining import KeptWords, Words, alike, briefly, by_frequency, kinds_of
from moorage.scheduler.framework import Cycle, Explained, Handle, Plugin, Rejection, Scope, Told, normalized
from moorage.scheduler.plugins.nodeunschedulable import UNSCHEDULABLE
from moorage.scheduler.table.columns import Answers
from moorage.scheduler.table.nodes import Mask, Rows, Scores
from moorage.scheduler.table.shape import Shape

_Taints = tuple[Taint, ...]
_TOLERATED = 0


class TaintToleration(Plugin):
    """Asks the matcher once for each distinct set of taints."""

    name = "TaintToleration"
    scope = Scope.NODE
    reason = "node(s) had untolerated taint(s)"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._tolerated: WeakKeyDictionary[Shape, Answers[_Taints]] = WeakKeyDictionary()
        self._words = KeptWords()
        self._unwanted: WeakKeyDictionary[Shape, Answers[_Taints]] = WeakKeyDictionary()

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """Every NoSchedule and NoExecute taint is tolerated."""
        mask: Mask = self._first_untolerated(cycle)[rows] == _TOLERATED
        return mask

    def _first_untolerated(self, cycle: Cycle) -> Answers[_Taints]:
        """The number of the first taint of a set that is not tolerated, doubled, and one less when it has no answer."""
        column = self.handle.table.taints
        answers = self._tolerated.get(cycle.shape)
        if answers is None or answers.column is not column:
            tolerations, parse_error = cycle.shape.tolerations, self.handle.parse_error
            wildcards = any("*" in toleration.key for toleration in tolerations.tolerations)

            def untolerated(taints: _Taints) -> int:
                start = time.perf_counter()
                taint = tolerations.first_untolerated(with_rests(taints))
                if wildcards:
                    self.handle.wildcard_seconds(time.perf_counter() - start)
                if taint is None:
                    return _TOLERATED
                parse_error(tolerations, taint)
                return 2 * (taints.index(taint) + 1) - bool(tolerations.verdict(taint).error)

            answers = self._tolerated[cycle.shape] = Answers(column, untolerated, np.int64, tolerations.cost, len)
        return answers

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Rejection]:
        """One reason for all nodes, as in Kubernetes; `explain` says which taints."""
        parse_errors = (self._first_untolerated(cycle)[rows] % 2).astype(np.bool_)
        for is_error, rejected in ((False, rows[~parse_errors]), (True, rows[parse_errors])):
            if len(rejected):
                yield Rejection(self.reason, rejected, parse_error=is_error)

    def explain(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Explained]:
        """The first untolerated taint of each node, and what the tolerations of its key lack."""
        column, shape = self.handle.table.taints, cycle.shape
        complaint = Complaint(shape.tolerations, self.handle.gates, most=EXPLAINED_COST)

        def first_taint(taints: _Taints, row: NDArray[np.intp]) -> Words:
            (answer,) = self._first_untolerated(cycle)[row].tolist()
            taint = taints[(answer + 1) // 2 - 1]
            lacks = complaint(taint)
            value = f"={taint.value}" if taint.value else ""
            return (taint.key, kinds_of(lacks)), f"taint {taint.key}{value}: {briefly(lacks)}"

        def say(place: int) -> Words | None:
            taints = column.value(int(rows[place]))
            return self._words.of(shape, taints, partial(first_taint, taints, rows[place : place + 1]))

        expressions = [each.expression for each in shape.tolerations.tolerations if each.expression]
        cost = sum(TaintExpression(source).cost for source in expressions)
        return by_frequency(column.codes[rows], say, cost)

    def tell(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Told]:
        """Every untolerated taint, and what each toleration of its key lacks; a cordoned node is told of elsewhere."""
        table, tolerations = self.handle.table, cycle.shape.tolerations
        complaint, known = Complaint(tolerations, self.handle.gates), dict[Taint, tuple[Lack, ...]]()
        for same in alike(table.taints.codes[rows], rows):
            for taint in table.taints.value(int(same[0])):
                if taint.effect not in (NO_SCHEDULE, NO_EXECUTE) or tolerations.verdict(taint).matched:
                    continue
                named = same[~table.unschedulable[same]] if taint == UNSCHEDULABLE else same
                lacks = known.get(taint) or known.setdefault(taint, complaint(taint))
                kind = (taint.key, taint.effect, kinds_of(lacks))
                yield Told(kind, f"taint {taint}", "; ".join(lack.text for lack in lacks), named)

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """How many PreferNoSchedule taints are not tolerated."""
        column = self.handle.table.taints
        answers = self._unwanted.get(cycle.shape)
        if answers is None or answers.column is not column:
            tolerations, parse_error = cycle.shape.tolerations, self.handle.parse_error

            def unwanted(taints: _Taints) -> int:
                number = tolerations.untolerated_preferred(with_rests(taints))
                for taint in with_rests(taints) if number else ():
                    if taint.effect == PREFER_NO_SCHEDULE:
                        parse_error(tolerations, taint)
                return number

            answers = self._unwanted[cycle.shape] = Answers(column, unwanted, np.int64, tolerations.cost, len)
        return answers[rows].astype(np.int64, copy=False)

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """The fewer the better."""
        return normalized(scores, reverse=True)
