"""Exponential back-off: how long to wait after so many failures in a row."""

from __future__ import annotations

from dataclasses import dataclass

_DOUBLINGS_MAX = 40
"""More would overflow, and no last delay is that long."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double from the first to the last."""

    first: float
    last: float

    def delay(self, failures: int) -> float:
        """The seconds to wait after the given number of failures in a row: `first` after one."""
        return min(self.first * 2.0 ** min(max(0, failures - 1), _DOUBLINGS_MAX), self.last)
