"""Moments at which something is due, many of them, with one timer of the clock for all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from heapq import heappop, heappush

from moorage.client.clock import Clock, Timer
from moorage.client.informer import Key


class Alarms:
    """Calls a function with each key when its moment has come. A key has one moment, the last that was set."""

    def __init__(self, clock: Clock, ring: Callable[[Key], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._moments: dict[Key, datetime] = {}
        self._heap: list[tuple[datetime, Key]] = []
        self._timer: Timer | None = None
        self._timer_at: datetime | None = None

    def set(self, key: Key, moment: datetime) -> None:
        """Ring for a key at a moment."""
        if self._moments.get(key) != moment:
            self._moments[key] = moment
            heappush(self._heap, (moment, key))
            self._wait()

    def cancel(self, key: Key) -> None:
        """Do not ring for a key."""
        self._moments.pop(key, None)

    def close(self) -> None:
        """Do not ring at all any more."""
        self._moments.clear()
        self._heap.clear()
        self._wait()

    def _wait(self) -> None:
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
