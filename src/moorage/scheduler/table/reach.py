"""Which rows node selectors of volumes, classes and device pools match; most of them name one or two nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from moorage.api.labels import Labels
from moorage.api.meaning import reach_of
from moorage.api.meta import LabelSelector
from moorage.api.node import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.api.volume import PersistentVolume, TopologySelectorTerm
from moorage.bounded import Bounded
from moorage.features import Gates
from moorage.match.selector import NAME_FIELD, Term, compile_selector
from moorage.scheduler.table.nodes import ALL, Index, Mask, NodeTable, Rows
from moorage.scheduler.table.selection import MATCHES, UNCLEAR, RowSelection, are_on_a_node

_FEW = 64
"""Up to so many rows that a selector names, it is asked about each of them instead of about each value of a label."""
_SELECTORS_MAX = 8192
OnLabelError = Callable[[Iterable[Term], Labels, str], None]


class Relabelled:
    """Which rows have another node than before, or one with other labels: pods and taints make no difference here."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._position = -1
        self._nodes: list[Node | None] = []

    def rows(self) -> list[int]:
        """The rows that changed since the last call."""
        table = self._table
        changed = table.changed_since(self._position)
        self._position = table.position
        self._nodes += [None] * (table.size - len(self._nodes))
        asked = range(table.size) if changed is None else set(changed)
        relabelled = [row for row in asked if not _same(self._nodes[row], table.nodes[row])]
        for row in relabelled:
            self._nodes[row] = table.nodes[row]
        return relabelled


def _same(old: Node | None, new: Node | None) -> bool:
    if old is None or new is None or old is new:
        return old is new
    return old.metadata.name == new.metadata.name and old.metadata.labels == new.metadata.labels


class LabelRows:
    """The rows that have a value of a label, found without a look at all others."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._relabelled = Relabelled(table)
        self._version = 0
        self._sorted: dict[str, tuple[Index, Index]] = {}
        """For each label the rows in the order of their values, and where each value begins."""

    @property
    def version(self) -> int:
        """Changes when a node comes or goes, or when its labels change."""
        if self._relabelled.rows():
            self._version += 1
            self._sorted.clear()
        return self._version

    def having(self, key: str, value: str) -> Index:
        """The rows where a label, or the name of the node, has a value."""
        table = self._table
        if key == NAME_FIELD:
            row = table.rows.get(value)
            return np.array([] if row is None else [row], np.intp)
        column = table.labels(key)
        if key not in self._sorted:
            rows = np.argsort(column.codes, kind="stable")
            self._sorted[key] = rows, np.searchsorted(column.codes[rows], np.arange(len(column.values) + 1))
        rows, starts = self._sorted[key]
        number = column.number(value)
        return rows[:0] if number is None else rows[starts[number] : starts[number + 1]]


class Reach:
    """The rows with a node that a node selector matches."""

    def __init__(
        self, table: NodeTable, selector: NodeSelector | None, gates: Gates, rows: LabelRows, on_error: OnLabelError
    ) -> None:
        self._table = table
        self.selector = compile_selector(selector, gates)
        self._on_error = on_error
        self._selection = RowSelection(
            table, self._ask, self.selector.keys, reads_name=self.selector.reads_name, cost=self.selector.cost
        )
        self._named = _named(selector)
        self._rows = rows
        self._version = -1
        self._known: Index | None = None
        self._masked = (-1, 0)
        """For which nodes, and how many rows, the mask holds."""
        self._mask: Mask = np.zeros(0, np.bool_)

    def _ask(self, labels: Mapping[str, str], name: str) -> int:
        verdict = self.selector.verdict(labels, name)
        if verdict.error:
            if are_on_a_node(self._table, self.selector.keys, labels, name):
                self._on_error(self.selector.terms or (), labels, name)
            return UNCLEAR
        return verdict.matched

    def few(self, version: int) -> Index | None:
        """The rows that match, when the selector names so few that they are known; None when `mask` must be asked."""
        if self._named is not None and self._version != version:
            self._version = version
            self._known = self._matching(self._named)
        return self._known

    def _matching(self, named: list[NodeSelectorRequirement]) -> Index | None:
        named_rows = [
            self._rows.having(requirement.key, value) for requirement in named for value in requirement.values
        ]
        if sum(map(len, named_rows)) > _FEW:
            return None
        nodes = ((row, self._table.nodes[row]) for row in sorted({row for rows in named_rows for row in rows.tolist()}))
        return np.array(
            [row for row, node in nodes if node is not None and self._includes(node)],
            np.intp,
        )

    def mask(self, rows: Rows) -> Mask:
        """Which of these rows match."""
        now = self._rows.version, self._table.size
        if self._masked != now:
            few = self.few(now[0])
            if few is None:
                self._mask = self._selection.answers(ALL) == MATCHES
            else:
                self._mask = np.zeros(self._table.size, np.bool_)
                self._mask[few] = True
            self._masked = now
        return self._mask[rows]

    def unclear(self, rows: Rows) -> Mask:
        """Which of these rows do not match because the selector cannot be evaluated there."""
        mask: Mask = self._selection.answers(rows) == UNCLEAR
        return mask

    def includes(self, node: str) -> bool:
        """Whether a node is there and matches."""
        row = self._table.rows.get(node)
        there = self._table.nodes[row] if row is not None else None
        return there is not None and self._includes(there)

    def _includes(self, node: Node) -> bool:
        return self._ask(node.metadata.labels, node.metadata.name) == MATCHES


def _named(selector: NodeSelector | None) -> list[NodeSelectorRequirement] | None:
    """For each term a requirement that only nodes of some names or label values meet; None when a term has none."""
    if selector is None:
        return None
    requirements = []
    for term in selector.node_selector_terms:
        labels = (requirement for requirement in term.match_expressions if requirement.operator == "In")
        names = (
            requirement
            for requirement in term.match_fields
            if requirement.operator == "In" and requirement.key == NAME_FIELD
        )
        requirement = next(names, None) or next(labels, None)
        if requirement is None:
            return None
        requirements.append(requirement)
    return requirements


class Reaches:
    """One reach for all volumes, classes and pools that have the same selector."""

    def __init__(self, table: NodeTable, gates: Gates, on_error: OnLabelError = lambda *_: None) -> None:
        """`on_error` is told of terms that cannot be evaluated for the labels and the name of a node."""
        self._table, self._gates, self._on_error = table, gates, on_error
        self.rows = LabelRows(table)
        self._reaches: Bounded[NodeSelector | None, Reach] = Bounded(_SELECTORS_MAX)

    def of(self, selector: NodeSelector | None) -> Reach:
        """The reach of a node selector; None reaches every node."""
        reach = self._reaches.get(selector)
        if reach is None:
            reach = Reach(self._table, selector, self._gates, self.rows, self._on_error)
            self._reaches.put(selector, reach)
        return reach

    def of_volume(self, volume: PersistentVolume) -> Reach:
        """From where a volume can be reached."""
        return self.of(reach_of(volume))

    def of_topologies(self, terms: Iterable[TopologySelectorTerm]) -> Reach:
        """The reach of the topologies that a class allows; a class that names none allows all."""
        selector_terms = tuple(
            NodeSelectorTerm(
                tuple(
                    NodeSelectorRequirement(requirement.key, "In", requirement.values)
                    for requirement in term.match_label_expressions
                )
            )
            for term in terms
        )
        return self.of(NodeSelector(selector_terms) if selector_terms else None)

    def of_labels(self, selector: LabelSelector) -> Reach:
        """The reach of a label selector; an empty one picks all nodes."""
        labels = [NodeSelectorRequirement(key, "In", (value,)) for key, value in selector.match_labels.items()]
        rest = [
            NodeSelectorRequirement(requirement.key, requirement.operator, requirement.values)
            for requirement in selector.match_expressions
        ]
        requirements = (*labels, *rest)
        return self.of(NodeSelector((NodeSelectorTerm(requirements),)) if requirements else None)
