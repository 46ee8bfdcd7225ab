"""The rows with the best rank, found block by block: the change of one row costs the same in a table of any size."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from moorage.scheduler.table.nodes import Scores

BLOCK = 1024
SMALL = 8 * BLOCK
"""A table with no more rows is looked through at once when it must be, which takes less time than to keep blocks."""
FEW, LEVELS = 16, 32
"""How many rows of a small table may have changed, and how many ranks be known, so that only these are looked at."""


class Tops:
    """The rows with the best rank: of a small table all of them, of a large one how many each block of rows has."""

    __slots__ = ("_best", "_changed", "_floor", "_levels", "_rank", "_ties")

    def __init__(self, rank: Scores) -> None:
        blocks = -(-len(rank) // BLOCK) if len(rank) > SMALL else 0
        self._rank = rank
        self._best = np.zeros(blocks, np.int64)
        self._ties = np.zeros(blocks, np.int64)
        self._levels: dict[int, list[int]] = {}
        """In a small table the rows of every rank from a floor on, in order: the best one at last is among them."""
        self._floor = 0
        self._changed: set[int] = set(range(blocks))
        """The blocks where ranks have changed; in a small table the rows."""

    def changed(self, rows: slice | Iterable[int]) -> None:
        """The ranks of some rows have changed, or of all of them."""
        if not len(self._best):
            self._changed.update(range(FEW + 1) if isinstance(rows, slice) else rows)
        elif isinstance(rows, slice):
            self._changed.update(range(len(self._best)))
        else:
            self._changed.update(row // BLOCK for row in rows)

    def best(self) -> tuple[int, Sequence[int]]:
        """The best rank, and the rows that have it, in order; until ranks change."""
        if not len(self._best):
            return self._best_level()
        for block in self._changed:
            ranks = self._rank[block * BLOCK : (block + 1) * BLOCK]
            best = self._best[block] = ranks.max()
            self._ties[block] = np.count_nonzero(ranks == best)
        self._changed.clear()
        best = int(self._best.max())
        blocks = (self._best == best).nonzero()[0]
        return best, Ties(self._rank, best, blocks, self._ties[blocks].cumsum())

    def _best_level(self) -> tuple[int, Sequence[int]]:
        levels = self._levels
        if len(self._changed) > FEW or len(levels) > LEVELS:
            levels.clear()
        elif self._changed:
            self._keep_up()
        self._changed.clear()
        while levels:
            best = max(levels)
            if levels[best]:
                return best, levels[best]
            del levels[best]
        best = self._floor = int(self._rank.max())
        levels[best] = (self._rank == best).nonzero()[0].tolist()
        return best, levels[best]

    def _keep_up(self) -> None:
        """Move the rows that have changed to the level of their rank."""
        for row in self._changed:
            for rows in self._levels.values():
                place = bisect_left(rows, row)
                if place < len(rows) and rows[place] == row:
                    del rows[place]
                    break
            rank = self._rank.item(row)
            if rank >= self._floor:
                insort(self._levels.setdefault(rank, []), row)


class Ties(Sequence[int]):
    """The rows that have the best rank, in order, none of which is looked for before it is asked for."""

    __slots__ = ("_best", "_blocks", "_rank", "_upto")

    def __init__(self, rank: Scores, best: int, blocks: NDArray[np.intp], upto: NDArray[np.int64]) -> None:
        self._rank, self._best, self._blocks, self._upto = rank, best, blocks, upto

    def __len__(self) -> int:
        return int(self._upto[-1])

    @overload
    def __getitem__(self, number: int) -> int: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[int]: ...
    def __getitem__(self, number: int | slice) -> int | Sequence[int]:
        """The row at a place."""
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
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
