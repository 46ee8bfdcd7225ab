"""Columns of the node table that hold texts: each distinct value has a number, and a question is asked of it once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from moorage.match.deferral import NotReady, pause, spend

V = TypeVar("V", bound=Hashable)
Codes = NDArray[np.int32]


class Column(Generic[V]):
    """One value a row, as the number of the value. Numbers are never used again, so that answers can be kept."""

    def __init__(self, size: int, nothing: V) -> None:
        self.values: list[V] = [nothing]
        self._numbers: dict[V, int] = {nothing: 0}
        self.codes: Codes = np.zeros(size, np.int32)

    def set(self, row: int, value: V) -> None:
        """Put a value into a row."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        self.codes[row] = number

    def number(self, value: V) -> int | None:
        """The number of a value; None when no row ever had it."""
        return self._numbers.get(value)

    def value(self, row: int) -> V:
        """The value of a row."""
        return self.values[int(self.codes[row])]

    def grow(self, size: int) -> None:
        """Make room for more rows."""
        self.codes = np.concatenate([self.codes, np.zeros(size - len(self.codes), np.int32)])

    def is_stale(self, rows: int) -> bool:
        """Whether so many values are no longer in any of the rows that the column is worth making anew."""
        return len(self.values) > 4 * rows + 1024


class Answers(Generic[V]):
    """What a function says of each value of a column, asked once a value and kept."""

    def __init__(
        self,
        column: Column[V],
        answer: Callable[[V], int],
        dtype: type[np.generic],
        cost: int = 1,
        parts: Callable[[V], int] = lambda _: 1,
    ) -> None:
        """`cost` is what the answer for one value can cost, or for each of its parts if it has several."""
        self.column = column
        self._cost, self._parts = cost, parts
        self._answer = answer
        self._known = np.zeros(0, dtype)

    def __getitem__(self, rows: slice | NDArray[np.intp]) -> NDArray[np.generic]:
        """The answers for some rows. NotReady when there are values that take long to be asked about."""
        if len(self._known) < len(self.column.values):
            self._fill()
        answers: NDArray[np.generic] = self._known[self.column.codes[rows]]
        return answers

    def _fill(self) -> None:
        """Ask about the values that are new. What was answered is kept when this is interrupted."""
        known, more = self._known, list[int]()
        try:
            for value in self.column.values[len(known) :]:
                spend(self._cost * self._parts(value), self._fill)
                more.append(self._answer(value))
                pause()
        except NotReady:
            raise NotReady(self._fill) from None
        finally:
            self._known = np.concatenate([known, np.array(more, known.dtype)])
