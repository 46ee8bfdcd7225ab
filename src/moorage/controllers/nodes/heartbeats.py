"""Heartbeats: when each node was last heard of, and which have been silent for too long."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import NamedTuple

from moorage.client.clock import Clock, Timer

_STALL = 5.0


class _Beat(NamedTuple):
    heard: float
    patience: float

    @property
    def end(self) -> float:
        return self.heard + self.patience


class Heartbeats:
    """Times by this machine's own clock: what a node says of the time is never compared with it.

    A heartbeat costs one entry in a dictionary. Each node stands once in a heap, under a time at which it may have
    become silent; one timer waits for the first of them. When that rings late, this process has stood still and heard
    nobody, so everybody has their time anew.
    """

    def __init__(self, clock: Clock, silent: Callable[[str], None]) -> None:
        self._clock = clock
        self._silent = silent
        self._beats: dict[str, _Beat] = {}
        self._watched: set[str] = set()
        self._heap: list[tuple[float, str]] = []
        self._timer: Timer | None = None

    def __contains__(self, node: str) -> bool:
        return node in self._beats

    def beat(self, node: str, patience: float) -> None:
        """A node was heard of; it may be silent for so many seconds from now."""
        beat = self._beats[node] = _Beat(self._clock.monotonic(), patience)
        if node not in self._watched:
            self._watch(node, beat)
            self._arm()

    def again(self, node: str) -> None:
        """A node that is known was heard of."""
        self.beat(node, self._beats[node].patience)

    def forget(self, node: str) -> None:
        """A node is gone."""
        self._beats.pop(node, None)

    def is_silent(self, node: str) -> bool:
        """Whether a node has not been heard of for too long."""
        beat = self._beats.get(node)
        return beat is not None and beat.end <= self._clock.monotonic()

    def restart(self) -> None:
        """Give every node its time anew."""
        for node in list(self._beats):
            self.again(node)

    def stop(self) -> None:
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _watch(self, node: str, beat: _Beat) -> None:
        self._watched.add(node)
        heapq.heappush(self._heap, (beat.end, node))

    def _arm(self) -> None:
        if self._timer is None and self._heap:
            when = self._heap[0][0]
            self._timer = self._clock.call_later(when - self._clock.monotonic(), lambda: self._ring(when))

    def _ring(self, when: float) -> None:
        self._timer = None
        now = self._clock.monotonic()
        if now > when + _STALL:
            self.restart()
        while self._heap and self._heap[0][0] <= now:
            _, node = heapq.heappop(self._heap)
            self._watched.discard(node)
            beat = self._beats.get(node)
            if beat is None:
                continue
            if beat.end > now:
                self._watch(node, beat)
            else:
                self._silent(node)
        self._arm()
