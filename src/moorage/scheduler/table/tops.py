"""The rows with the best rank, found block by block: the change of one row costs the same in a table of any size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from moorage.scheduler.table.nodes import Index, Rows, Scores

BLOCK = 1024
SMALL = 8 * BLOCK
"""A table with no more rows is looked through at once, which takes less time than to keep blocks."""


class Tops:
    """The best rank of each block of rows, and how many rows of the block have it."""

    __slots__ = ("_best", "_changed", "_rank", "_ties")

    def __init__(self, rank: Scores) -> None:
        blocks = -(-len(rank) // BLOCK) if len(rank) > SMALL else 0
        self._rank = rank
        self._best = np.zeros(blocks, np.int64)
        self._ties = np.zeros(blocks, np.int64)
        self._changed = set(range(blocks))
        """The blocks where ranks have changed."""

    def changed(self, rows: Rows) -> None:
        """The ranks of some rows have changed."""
        if not len(self._best):
            return
        if isinstance(rows, slice):
            self._changed.update(range(len(self._best)))
        else:
            self._changed.update((rows // BLOCK).tolist())

    def best(self) -> tuple[int, Index | Ties]:
        """The best rank, and the rows that have it."""
        if not len(self._best):
            best = self._rank.max()
            return best, (self._rank == best).nonzero()[0]
        for block in self._changed:
            ranks = self._rank[block * BLOCK : (block + 1) * BLOCK]
            best = self._best[block] = ranks.max()
            self._ties[block] = np.count_nonzero(ranks == best)
        self._changed.clear()
        best = int(self._best.max())
        blocks = (self._best == best).nonzero()[0]
        return best, Ties(self._rank, best, blocks, self._ties[blocks].cumsum())


class Ties:
    """The rows that have the best rank, in order, none of which is looked for before it is asked for."""

    __slots__ = ("_best", "_blocks", "_rank", "_upto")

    def __init__(self, rank: Scores, best: int, blocks: NDArray[np.intp], upto: NDArray[np.int64]) -> None:
        self._rank, self._best, self._blocks, self._upto = rank, best, blocks, upto

    def __len__(self) -> int:
        return int(self._upto[-1])

    def __getitem__(self, number: int) -> int:
        place = int(self._upto.searchsorted(number, "right"))
        before = int(self._upto[place - 1]) if place else 0
        return int(self._rows(int(self._blocks[place]))[number - before])

    def __iter__(self) -> Iterator[int]:
        for block in self._blocks.tolist():
            yield from self._rows(block).tolist()

    def _rows(self, block: int) -> NDArray[np.intp]:
        start = block * BLOCK
        rows: NDArray[np.intp] = (self._rank[start : start + BLOCK] == self._best).nonzero()[0] + start
        return rows
