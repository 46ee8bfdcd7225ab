"""When to look at an object again: many moments, by the controllers' clock, with one timer for all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush

from moorage.client.clock import Clock, Timer
from moorage.client.informer import Key

_STALE = 1024
"""How many moments that nobody waits for any more may lie around."""
_LONGEST = 1e9
"""Thirty years of seconds: a date cannot be moved by all that an int64 holds."""


class Alarms:
    """Calls a function with each key when its moment has come: the earliest of those that were set."""

    def __init__(self, clock: Clock, ring: Callable[[Key], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._moments: dict[Key, datetime] = {}
        self._heap: list[tuple[datetime, Key]] = []
        self._timer: Timer | None = None
        self._timer_at: datetime | None = None

    def set(self, key: Key, seconds: float) -> None:
        """Ring after some seconds, unless it rings earlier anyway."""
        self.set_at(key, self._clock.now() + timedelta(seconds=min(max(0.0, seconds), _LONGEST)))

    def set_at(self, key: Key, moment: datetime) -> None:
        """Ring at a moment, unless it rings earlier anyway."""
        old = self._moments.get(key)
        if old is None or moment < old:
            self._moments[key] = moment
            heappush(self._heap, (moment, key))
            self._wait()

    def cancel(self, key: Key) -> None:
        """Do not ring."""
        self._moments.pop(key, None)

    def close(self) -> None:
        """Ring for nobody."""
        self._moments.clear()
        self._wait()

    def _wait(self) -> None:
        if len(self._heap) > 2 * len(self._moments) + _STALE:
            self._heap = [(moment, key) for key, moment in self._moments.items()]
            heapify(self._heap)
        heap = self._heap
        while heap and self._moments.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        first = heap[0][0] if heap else None
        if first == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = first
        self._timer = None
        if first is not None:
            self._timer = self._clock.call_later((first - self._clock.now()).total_seconds(), self._due)

    def _due(self) -> None:
        # A timer of the event loop may be a little early by the clock on the wall: then it waits the rest.
        self._timer_at = None
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            moment, key = heappop(self._heap)
            if self._moments.get(key) == moment:
                del self._moments[key]
                self._ring(key)
        self._wait()
