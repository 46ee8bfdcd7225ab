"""Selectors over the node table: asked once for each distinct value of the labels they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from moorage.api.node import Node
from moorage.match.deferral import one_by_one
from moorage.scheduler.table.columns import Answers
from moorage.scheduler.table.distinct import distinct
from moorage.scheduler.table.nodes import NodeTable, Rows

_LARGEST = 2**62
MATCHES, UNCLEAR = 1, 2
"""Answers of a selector; 0 is no match. Unclear is one that cannot be evaluated, which is no match either."""
_FEW = 1024
_Labels = tuple[tuple[str, str], ...]
Ask = Callable[[Mapping[str, str], str], int]
"""The answer for a node's labels and name."""


def are_on_a_node(table: NodeTable, keys: frozenset[str] | None, labels: Mapping[str, str], name: str) -> bool:
    """Whether these labels, of those that are read, are those of a node: having none of them is always asked about."""
    if labels or name or keys is None:
        return True
    bare = table.alive.copy()
    for key in keys:
        bare &= table.labels(key).codes == 0
    return bool(bare.any())


class RowSelection:
    """A question about labels and names, and its answers for rows."""

    def __init__(
        self, table: NodeTable, ask: Ask, keys: frozenset[str] | None, *, reads_name: bool, cost: int = 1
    ) -> None:
        """`cost` is what one answer can cost."""
        self._table = table
        self._ask = ask
        self._keys = None if keys is None else sorted(keys)
        self._reads_name = reads_name
        self._cost = cost
        self._answers: Answers[str | None] | None = None
        self._known: dict[_Labels, int] = {}
        self._nodes: dict[str, tuple[Mapping[str, str], int]] = {}
        """The labels of each node when it was asked about, and the answer."""

    def answers(self, rows: Rows) -> NDArray[np.int64]:
        """The answer for each of these rows; 0 for a row without a node. NotReady when that takes long."""
        if self._reads_name or self._keys is None:
            return self._each(rows)
        if not self._keys:
            return np.full(len(self._table.alive[rows]), self._ask({}, ""), np.int64)
        if len(self._keys) == 1:
            return self._by_value(rows, self._keys[0])
        return self._by_values(rows, self._keys)

    def _each(self, rows: Rows) -> NDArray[np.int64]:
        nodes = self._table.nodes
        chosen = nodes if isinstance(rows, slice) else [nodes[row] for row in rows]
        if len(self._nodes) > 2 * len(nodes) + _FEW:
            self._nodes.clear()
        missing = [node for node in chosen if node is not None and not self._knows(node)]
        if missing:
            self._ask_each(missing)
        known = self._nodes
        return np.array([known[node.metadata.name][1] if node is not None else 0 for node in chosen], np.int64)

    def _knows(self, node: Node) -> bool:
        known = self._nodes.get(node.metadata.name)
        return known is not None and (known[0] is node.metadata.labels or known[0] == node.metadata.labels)

    def _ask_each(self, nodes: list[Node]) -> None:
        def ask(node: Node) -> None:
            metadata = node.metadata
            self._nodes[metadata.name] = metadata.labels, self._ask(metadata.labels, metadata.name)

        one_by_one(nodes, ask, self._cost)

    def _by_value(self, rows: Rows, key: str) -> NDArray[np.int64]:
        column = self._table.labels(key)
        if self._answers is None or self._answers.column is not column:
            ask = self._ask
            self._answers = Answers(
                column, lambda value: ask({} if value is None else {key: value}, ""), np.int64, self._cost
            )
        return self._answers[rows].astype(np.int64, copy=False)

    def _by_values(self, rows: Rows, keys: list[str]) -> NDArray[np.int64]:
        named = ((key, self._table.labels(key)) for key in keys)
        # Of a label that no node has, nothing depends.
        columns = [(key, column, column.codes[rows]) for key, column in named if len(column.values) > 1]
        combined, span = np.zeros(len(self._table.alive[rows]), np.int64), 1
        for _, column, codes in columns:
            span *= len(column.values)
            if span > _LARGEST:
                # So many combinations are thinkable that their numbers would run over; there are only as many as rows.
                combined = distinct(combined).codes
                span = (len(combined) + 1) * len(column.values)
            combined = combined * len(column.values) + codes
        first, inverse = distinct(combined)
        combinations: list[_Labels] = [
            tuple(
                [(key, value) for key, column, numbers in columns if (value := column.values[numbers[at]]) is not None]
            )
            for at in first
        ]
        missing = [labels for labels in combinations if labels not in self._known]
        if missing:
            one_by_one(missing, self._ask_about, self._cost)
        return np.array([self._known[labels] for labels in combinations], np.int64)[inverse]

    def _ask_about(self, labels: _Labels) -> None:
        self._known[labels] = self._ask(dict(labels), "")
