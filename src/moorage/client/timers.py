"""Timers: any number of keys that become due, with one timer of the event loop for all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, TypeVar

from moorage.client.clock import Clock, Timer

K = TypeVar("K", bound=Hashable)

_CANCELLED_MAX = 1024
"""How many entries the heap may hold beside twice those that are still due."""
_LONGEST = 1e9
"""Thirty years of seconds: no date can be moved by all that an int64 holds."""


class Timers(Generic[K]):
    """Calls a function with each key once its time has come: the earliest of the times that were set for it.

    Time is that of `Clock.monotonic`, so that a clock that is set back delays nothing. Whoever waits for a time of day
    looks at the clock again when called, and sets the timer again for what is left.
    """

    def __init__(self, clock: Clock, due: Callable[[K], None]) -> None:
        self._clock = clock
        self._due = due
        self._times: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._numbers = count()
        self._timer: Timer | None = None
        self._timer_at: float | None = None

    def set(self, key: K, seconds: float) -> None:
        """Call after some seconds, unless an earlier time is set already."""
        # Whole microseconds, as clocks of tests count: otherwise a time could stay a rounding error away.
        time = round(self._clock.monotonic() + min(max(0.0, seconds), _LONGEST), 6)
        earlier = self._times.get(key)
        if earlier is None or time < earlier:
            self._times[key] = time
            heappush(self._heap, (time, next(self._numbers), key))
            self._wait()

    def cancel(self, key: K) -> None:
        """Do not call."""
        self._times.pop(key, None)

    def close(self) -> None:
        """Cancel everything."""
        self._times.clear()
        self._wait()

    def __len__(self) -> int:
        return len(self._times)

    def _wait(self) -> None:
        """Let the one timer end when the first key is due."""
        if len(self._heap) > 2 * len(self._times) + _CANCELLED_MAX:
            self._heap = [(time, next(self._numbers), key) for key, time in self._times.items()]
            heapify(self._heap)
        while self._heap and self._times.get(self._heap[0][2]) != self._heap[0][0]:
            heappop(self._heap)
        first = self._heap[0][0] if self._heap else None
        if first == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = first
        self._timer = None if first is None else self._clock.call_later(first - self._clock.monotonic(), self._ring)

    def _ring(self) -> None:
        self._timer_at = None
        now = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= now:
            time, _, key = heappop(self._heap)
            if self._times.get(key) == time:
                del self._times[key]
                self._due(key)
        self._wait()
