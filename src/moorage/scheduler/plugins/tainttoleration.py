"""TaintToleration: filters by NoSchedule and NoExecute taints, scores by PreferNoSchedule taints."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from moorage.api.node import Taint
from moorage.match.tolerations import PREFER_NO_SCHEDULE
from moorage.scheduler.framework import Cycle, Handle, Plugin, Rejection, Scope, normalized
from moorage.scheduler.table.columns import Answers
from moorage.scheduler.table.nodes import Mask, Rows, Scores
from moorage.scheduler.table.shape import Shape

_Taints = tuple[Taint, ...]
_TOLERATED = 0


class TaintToleration(Plugin):
    """Asks the matcher once for each distinct set of taints."""

    name = "TaintToleration"
    scope = Scope.NODE

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._tolerated: WeakKeyDictionary[Shape, Answers[_Taints]] = WeakKeyDictionary()
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
                taint = tolerations.first_untolerated(taints)
                if wildcards:
                    self.handle.wildcard_seconds(time.perf_counter() - start)
                if taint is None:
                    return _TOLERATED
                parse_error(tolerations, taint)
                return 2 * (taints.index(taint) + 1) - bool(tolerations.verdict(taint).error)

            answers = self._tolerated[cycle.shape] = Answers(column, untolerated, np.int64, tolerations.cost)
        return answers

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Rejection]:
        """The first untolerated taint of each node."""
        column, answers = self.handle.table.taints, self._first_untolerated(cycle)
        codes = column.codes[rows]
        for code, at in zip(*np.unique(codes, return_index=True), strict=True):
            (answer,) = answers[rows[at : at + 1]].tolist()
            if answer != _TOLERATED:
                taint = column.values[code][(answer + 1) // 2 - 1]
                reason = f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
                yield Rejection(reason, rows[codes == code], parse_error=bool(answer % 2))

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """How many PreferNoSchedule taints are not tolerated."""
        column = self.handle.table.taints
        answers = self._unwanted.get(cycle.shape)
        if answers is None or answers.column is not column:
            tolerations, parse_error = cycle.shape.tolerations, self.handle.parse_error

            def unwanted(taints: _Taints) -> int:
                number = tolerations.untolerated_preferred(taints)
                for taint in taints if number else ():
                    if taint.effect == PREFER_NO_SCHEDULE:
                        parse_error(tolerations, taint)
                return number

            answers = self._unwanted[cycle.shape] = Answers(column, unwanted, np.int64, tolerations.cost)
        return answers[rows].astype(np.int64, copy=False)

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """The fewer the better."""
        return normalized(scores, reverse=True)
