"""From which nodes a volume can be reached: node selectors over the table, most of which name a node or two."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

import numpy as np

from moorage.api.meta import LabelSelector
from moorage.api.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.api.volume import PersistentVolume, TopologySelectorTerm
from moorage.features import Gates
from moorage.match.selector import NAME_FIELD, compile_selector
from moorage.scheduler.selection import Selection
from moorage.scheduler.table import ALL, Index, Mask, NodeTable, Rows

_FEW = 64
"""Up to so many rows that a selector names, it is asked about each of them instead of about each value of a label."""
_KEPT = 8192


class Reach:
    """The rows that a node selector matches. Rows are those of nodes that are there."""

    def __init__(self, table: NodeTable, selector: NodeSelector | None, gates: Gates) -> None:
        self._table = table
        self._selector = compile_selector(selector, gates)
        self._selection = Selection(table, self._ask, self._selector.keys, reads_name=self._selector.reads_name)
        self._named = _named(selector)
        self._places = -1
        self._known: Index | None = None
        self._masked = (-1, 0)
        """For which nodes, and how many rows, the mask holds."""
        self._mask: Mask = np.zeros(0, np.bool_)

    def _ask(self, labels: Mapping[str, str], name: str) -> int:
        return self._selector.verdict(labels, name).matched

    def few(self) -> Index | None:
        """The rows that match, when the selector names so few that they are known; None when `mask` must be asked."""
        if self._named is None:
            return None
        if self._places != self._table.places:
            self._places = self._table.places
            self._known = self._matching(self._named)
        return self._known

    def _matching(self, named: list[NodeSelectorRequirement]) -> Index | None:
        table = self._table
        found = np.zeros(table.size, np.bool_)
        for requirement in named:
            for value in requirement.values:
                if requirement.key == NAME_FIELD:
                    if (row := table.rows.get(value)) is not None:
                        found[row] = True
                    continue
                column = table.labels(requirement.key)
                if (number := column.number(value)) is not None:
                    found |= column.codes == number
        rows = found.nonzero()[0]
        if len(rows) > _FEW:
            return None
        nodes = ((row, table.nodes[row]) for row in rows)
        return np.array(
            [row for row, node in nodes if node is not None and self._ask(node.metadata.labels, node.metadata.name)],
            np.intp,
        )

    def mask(self, rows: Rows) -> Mask:
        """Which of these rows match."""
        now = self._table.places, self._table.size
        if self._masked != now:
            few = self.few()
            if few is None:
                self._mask = self._selection.answers(ALL).astype(np.bool_)
            else:
                self._mask = np.zeros(self._table.size, np.bool_)
                self._mask[few] = True
            self._masked = now
        return self._mask[rows]

    def includes(self, node: str) -> bool:
        """Whether a node is there and matches."""
        row = self._table.rows.get(node)
        found = self._table.nodes[row] if row is not None else None
        return found is not None and bool(self._ask(found.metadata.labels, node))


def _named(selector: NodeSelector | None) -> list[NodeSelectorRequirement] | None:
    """For each term a requirement that only nodes of some names or label values meet; None when a term has none."""
    if selector is None:
        return None
    found = []
    for term in selector.node_selector_terms:
        labels = (each for each in term.match_expressions if each.operator == "In")
        names = (each for each in term.match_fields if each.operator == "In" and each.key == NAME_FIELD)
        requirement = next(names, None) or next(labels, None)
        if requirement is None:
            return None
        found.append(requirement)
    return found


class Reaches:
    """One reach for all volumes, classes and pools that have the same selector."""

    def __init__(self, table: NodeTable, gates: Gates) -> None:
        self._table, self._gates = table, gates
        self._reaches: OrderedDict[NodeSelector | None, Reach] = OrderedDict()

    def of(self, selector: NodeSelector | None) -> Reach:
        """The reach of a node selector; None reaches every node."""
        reach = self._reaches.get(selector)
        if reach is None:
            reach = self._reaches[selector] = Reach(self._table, selector, self._gates)
            if len(self._reaches) > _KEPT:
                self._reaches.popitem(last=False)
        else:
            self._reaches.move_to_end(selector)
        return reach

    def of_volume(self, volume: PersistentVolume) -> Reach:
        """From where a volume can be reached."""
        affinity = volume.spec.node_affinity
        return self.of(affinity.required if affinity is not None else None)

    def of_topologies(self, terms: Iterable[TopologySelectorTerm]) -> Reach:
        """The reach of the topologies that a class allows; a class that names none allows all."""
        found = tuple(
            NodeSelectorTerm(
                tuple(NodeSelectorRequirement(each.key, "In", each.values) for each in term.match_label_expressions)
            )
            for term in terms
        )
        return self.of(NodeSelector(found) if found else None)

    def of_labels(self, selector: LabelSelector) -> Reach:
        """The reach of a label selector; an empty one picks all nodes."""
        labels = [NodeSelectorRequirement(key, "In", (value,)) for key, value in selector.match_labels.items()]
        rest = [NodeSelectorRequirement(each.key, each.operator, each.values) for each in selector.match_expressions]
        requirements = (*labels, *rest)
        return self.of(NodeSelector((NodeSelectorTerm(requirements),)) if requirements else None)
