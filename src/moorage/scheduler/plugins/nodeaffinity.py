"""NodeAffinity: filters by nodeSelector and required node affinity, scores by preferred node affinity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from moorage.api.decode import convert
from moorage.api.pod import NodeAffinity as Affinity
from moorage.api.pod import PodSpec
from moorage.match.selector import NAME_FIELD, compile_preferences, compile_selector
from moorage.scheduler.framework import Cycle, Handle, Plugin, Reject, Rejection, Scope, normalized
from moorage.scheduler.table.nodes import Mask, Rows, Scores
from moorage.scheduler.table.selection import RowSelection
from moorage.scheduler.table.shape import Shape


class NodeAffinity(Plugin):
    """Asks the matcher once for each distinct value of the labels that a selector reads."""

    name = "NodeAffinity"
    scope = Scope.NODE
    reason = "node(s) didn't match Pod's node affinity/selector"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        added = convert(args.get("addedAffinity") or {}, Affinity)
        self._added_selector = compile_selector(added.required_during_scheduling_ignored_during_execution, handle.gates)
        self._added = self._selection(self._added_selector)
        self._added_preferences = compile_preferences(
            added.preferred_during_scheduling_ignored_during_execution, handle.gates
        )
        if errors := (*self._added_selector.errors, *self._added_preferences.errors):
            raise ValueError(f"addedAffinity: {'; '.join(errors)}")
        self._required: WeakKeyDictionary[Shape, RowSelection] = WeakKeyDictionary()
        self._preferred: WeakKeyDictionary[Shape, RowSelection] = WeakKeyDictionary()
        self._names: WeakKeyDictionary[Shape, frozenset[str] | None] = WeakKeyDictionary()

    def _selection(self, selector: Any) -> RowSelection:
        def ask(labels: Mapping[str, str], name: str) -> int:
            return bool(selector.verdict(labels, name).matched)

        return RowSelection(self.handle.table, ask, selector.keys, reads_name=selector.reads_name, cost=selector.cost)

    def named(self, shape: Shape) -> frozenset[str] | Reject | None:
        """The nodes that the terms name, when every term does."""
        names = self._names_of(shape)
        return Reject("pod affinity terms conflict") if names is not None and not names else names

    def _names_of(self, shape: Shape) -> frozenset[str] | None:
        if shape not in self._names:
            self._names[shape] = _names(shape.spec)
        return self._names[shape]

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """The selector matches, and the one that the profile adds."""
        shape = cycle.shape
        selection = self._required.get(shape)
        if selection is None:
            selection = self._required[shape] = self._selection(shape.selector)
        names = self._names_of(shape)
        mask = self._only(names, selection, rows) if names is not None else selection.answers(rows).astype(np.bool_)
        if self._added_selector.terms is not None:
            mask &= self._added.answers(rows).astype(np.bool_)
        return mask

    def _only(self, names: frozenset[str], selection: RowSelection, rows: Rows) -> Mask:
        """A selector that names its nodes need not be asked about the others."""
        table = self.handle.table
        mask = np.zeros(table.size, np.bool_)
        named = np.array([table.rows[name] for name in names if name in table.rows], np.intp)
        mask[named] = selection.answers(named)
        return mask[rows]

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Rejection]:
        """What the profile adds counts first."""
        added = self._added.answers(rows).astype(np.bool_)
        if not added.all():
            yield Rejection("node(s) didn't match scheduler-enforced node affinity", rows[~added])
        if added.any():
            yield Rejection(self.reason, rows[added])

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """The weights of the preferred terms that match."""
        shape = cycle.shape
        selection = self._preferred.get(shape)
        if selection is None:
            mine, added = shape.preferences, self._added_preferences
            keys = None if mine.keys is None or added.keys is None else mine.keys | added.keys
            selection = self._preferred[shape] = RowSelection(
                self.handle.table,
                lambda labels, name: mine.score(labels, name) + added.score(labels, name),
                keys,
                reads_name=mine.reads_name or added.reads_name,
                cost=mine.cost + added.cost,
            )
        return selection.answers(rows)

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """The more the better."""
        return normalized(scores)


def _names(spec: PodSpec) -> frozenset[str] | None:
    """The names of the only nodes that could match, when every term names its node."""
    affinity = spec.affinity and spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    if not required or not required.node_selector_terms:
        return None
    names: set[str] = set()
    for term in required.node_selector_terms:
        named = [
            {*requirement.values}
            for requirement in term.match_fields
            if requirement.key == NAME_FIELD and requirement.operator == "In"
        ]
        if not named:
            return None
        names |= set.intersection(*named)
    return frozenset(names)
