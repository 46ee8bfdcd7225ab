"""Selectors over the node table: asked once for each distinct value of the labels they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from moorage.scheduler.table.columns import Answers
from moorage.scheduler.table.nodes import NodeTable, Rows

_LARGEST = 2**62
MATCHES, UNCLEAR = 1, 2
"""Answers of a selector; 0 is no match. Unclear is one that cannot be evaluated, which is no match either."""
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

    def __init__(self, table: NodeTable, ask: Ask, keys: frozenset[str] | None, *, reads_name: bool) -> None:
        self._table = table
        self._ask = ask
        self._keys = None if keys is None else sorted(keys)
        self._reads_name = reads_name
        self._answers: Answers[str | None] | None = None
        self._known: dict[tuple[str | None, ...], int] = {}

    def answers(self, rows: Rows) -> NDArray[np.int64]:
        """The answer for each of these rows; 0 for a row without a node."""
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
        ask = self._ask
        answers = [ask(node.metadata.labels, node.metadata.name) if node is not None else 0 for node in chosen]
        return np.array(answers, np.int64)

    def _by_value(self, rows: Rows, key: str) -> NDArray[np.int64]:
        column = self._table.labels(key)
        if self._answers is None or self._answers.column is not column:
            ask = self._ask
            self._answers = Answers(column, lambda value: ask({} if value is None else {key: value}, ""), np.int64)
        return self._answers[rows].astype(np.int64, copy=False)

    def _by_values(self, rows: Rows, keys: list[str]) -> NDArray[np.int64]:
        columns = [self._table.labels(key) for key in keys]
        codes = [column.codes[rows] for column in columns]
        combined, span = np.zeros(len(codes[0]), np.int64), 1
        for column, numbers in zip(columns, codes, strict=True):
            span *= len(column.values)
            if span > _LARGEST:
                # So many combinations are thinkable that their numbers would run over; there are only as many as rows.
                combined = np.unique(combined, return_inverse=True)[1].astype(np.int64)
                span = (len(combined) + 1) * len(column.values)
            combined = combined * len(column.values) + numbers
        distinct, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
        answers = np.empty(len(distinct), np.int64)
        for place, at in enumerate(first):
            values = tuple(column.values[numbers[at]] for column, numbers in zip(columns, codes, strict=True))
            known = self._known.get(values)
            if known is None:
                labels = {key: value for key, value in zip(keys, values, strict=True) if value is not None}
                known = self._known[values] = self._ask(labels, "")
            answers[place] = known
        return answers[inverse]
