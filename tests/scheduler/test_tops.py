"""The best rows are the same whether all are looked at, as in small tables, or only blocks that have changed."""

from __future__ import annotations

import random

import numpy as np
import pytest

from moorage.scheduler.table import tops
from tests.seeds import seed


@pytest.mark.seeded
@pytest.mark.parametrize("small", [8, 1000])
@pytest.mark.parametrize("size", [1, 7, 8, 9, 64, 500])
def test_the_best_rows_are_those_of_the_whole_array(size: int, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tops, "BLOCK", 8)
    monkeypatch.setattr(tops, "SMALL", small)
    monkeypatch.setattr(tops, "LEVELS", 3)
    chance = random.Random(seed(size))
    rank = np.full(size, -1, np.int64)
    here = tops.Tops(rank)
    for _ in range(300):
        rows = np.array([chance.randrange(size) for _ in range(chance.randrange(1, 4))], np.intp)
        rank[rows] = chance.randrange(-1, 5)
        here.changed(rows)
        if chance.random() < 0.05:
            rank[:] = chance.randrange(-1, 5)
            here.changed(slice(None))
        best, ties = here.best()
        expected = (rank == rank.max()).nonzero()[0].tolist()
        assert best == rank.max()
        assert (len(ties), list(ties)) == (len(expected), expected)
        assert [ties[number] for number in range(len(ties))] == expected


def test_only_the_blocks_that_have_changed_are_looked_at() -> None:
    rank = np.zeros(100 * tops.BLOCK, np.int64)
    here = tops.Tops(rank)
    here.best()
    rank[[5, tops.BLOCK]] = 1, 2
    here.changed(np.array([5], np.intp))
    best, ties = here.best()
    assert (best, list(ties)) == (1, [5]), "nobody said that the second block has changed"


def test_a_small_table_is_looked_through_only_when_its_best_rows_are_used_up() -> None:
    rank = np.array([3, 3, 1, 2], np.int64)
    here = tops.Tops(rank)
    here.best()
    rank[[0, 2]] = 1, 5
    here.changed((0,))
    assert here.best() == (3, [1]), "nobody said that the third row has changed"
    rank[1] = 0
    here.changed((1,))
    assert here.best() == (5, [2])
