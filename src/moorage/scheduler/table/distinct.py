"""Distinct numbers of an array: where each is met first, and which of them stands in each place.

`np.unique` says the same; it imports numpy.ma with its first call, which takes longer than most answers here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Distinct(NamedTuple):
    """The distinct values of an array, in their order."""

    first: NDArray[np.intp]
    """Where each is met first."""
    codes: NDArray[np.intp]
    """For each place, the number of its value among the distinct ones."""


def distinct(values: NDArray[np.integer[Any]]) -> Distinct:
    """The distinct values of a flat array."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    begins = np.ones(len(values), np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    codes = np.empty(len(values), np.intp)
    codes[order] = np.cumsum(begins) - 1
    return Distinct(order[begins], codes)
