"""NodeAffinity: filters by nodeSelector and required node affinity, scores by preferred node affinity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from moorage.api.decode import convert
from moorage.api.pod import NodeAffinity as Affinity
from moorage.api.pod import PodSpec
from moorage.match.selector import NAME_FIELD, Preferences, Selector, Term, compile_preferences, compile_selector
from moorage.scheduler.explaining import KeptWords, explain_selector, tell_selector
from moorage.scheduler.framework import Cycle, Explained, Handle, Plugin, Reject, Rejection, Scope, Told, normalized
from moorage.scheduler.table.nodes import Mask, Rows, Scores
from moorage.scheduler.table.selection import MATCHES, UNCLEAR, Ask, RowSelection, are_on_a_node
from moorage.scheduler.table.shape import Shape

_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"


class _Selection(RowSelection):
    """The rows that a selector matches."""

    is_unclear = False
    """Whether there is a value for which it has no answer."""


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
        self._required: WeakKeyDictionary[Shape, _Selection] = WeakKeyDictionary()
        self._words = KeptWords()
        self._preferred: WeakKeyDictionary[Shape, RowSelection] = WeakKeyDictionary()
        self._names: WeakKeyDictionary[Shape, frozenset[str] | None] = WeakKeyDictionary()

    def _selection(self, selector: Selector) -> _Selection:
        def ask(labels: Mapping[str, str], name: str) -> int:
            verdict = selector.verdict(labels, name)
            if verdict.error:
                self._note(selector.terms or (), selector.keys, labels, name)
                selection.is_unclear = True
                return UNCLEAR
            return verdict.matched

        selection = _Selection(
            self.handle.table, ask, selector.keys, reads_name=selector.reads_name, cost=selector.cost
        )
        return selection

    def _note(self, terms: Iterable[Term], keys: frozenset[str] | None, labels: Mapping[str, str], name: str) -> None:
        if are_on_a_node(self.handle.table, keys, labels, name):
            self.handle.label_error(terms, labels, name)

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
        selection, names = self._selection_of(shape), self._names_of(shape)
        mask = self._only(names, selection, rows) if names is not None else selection.answers(rows) == MATCHES
        if self._added_selector.terms is not None:
            mask &= self._added.answers(rows) == MATCHES
        return mask

    def _selection_of(self, shape: Shape) -> _Selection:
        selection = self._required.get(shape)
        if selection is None:
            selection = self._required[shape] = self._selection(shape.selector)
        return selection

    def _only(self, names: frozenset[str], selection: RowSelection, rows: Rows) -> Mask:
        """A selector that names its nodes need not be asked about the others."""
        table = self.handle.table
        mask = np.zeros(table.size, np.bool_)
        named = np.array([table.rows[name] for name in names if name in table.rows], np.intp)
        mask[named] = selection.answers(named) == MATCHES
        return mask[rows]

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Rejection]:
        """What the profile adds counts first."""
        if self._added_selector.terms is not None:
            added = self._added.answers(rows)
            for answer in (0, UNCLEAR):
                if len(rejected := rows[added == answer]):
                    yield Rejection(_ENFORCED, rejected, parse_error=answer == UNCLEAR)
            rows = rows[added == MATCHES]
        selection = self._selection_of(cycle.shape)
        unclear = selection.answers(rows) == UNCLEAR if selection.is_unclear else np.zeros(len(rows), np.bool_)
        for is_error, rejected in ((False, rows[~unclear]), (True, rows[unclear])):
            if len(rejected):
                yield Rejection(self.reason, rejected, parse_error=is_error)

    def explain(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Explained]:
        """Which label is not as a term demands; nodes that no term names need no words."""
        table, names = self.handle.table, self._names_of(cycle.shape)
        if names is not None:
            rows = rows[np.isin(rows, [table.rows[name] for name in names if name in table.rows])]
        keep = partial(self._words.of, cycle.shape)
        return explain_selector(table, "node affinity", cycle.shape.selector, rows, keep)

    def tell(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Told]:
        """What the labels of the nodes lack, in every term; for what the profile adds, too."""
        if self._added_selector.terms is not None:
            yield from tell_selector(self.handle.table, "node affinity of the profile", self._added_selector, rows)
        yield from tell_selector(self.handle.table, "node affinity", cycle.shape.selector, rows)

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """The weights of the preferred terms that match."""
        shape = cycle.shape
        selection = self._preferred.get(shape)
        if selection is None:
            both = Preferences((*shape.preferences.terms, *self._added_preferences.terms))
            selection = self._preferred[shape] = RowSelection(
                self.handle.table, self._weighing(both), both.keys, reads_name=both.reads_name, cost=both.cost
            )
        return selection.answers(rows)

    def _weighing(self, preferences: Preferences) -> Ask:
        def weigh(labels: Mapping[str, str], name: str) -> int:
            total = 0
            for term in preferences.terms:
                verdict = term.verdict(labels, name)
                if verdict.matched:
                    total += term.weight
                elif verdict.error:
                    self._note((term,), preferences.keys, labels, name)
            return total

        return weigh

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
