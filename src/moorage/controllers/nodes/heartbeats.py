"""Heartbeats of nodes: when the last one was seen, and which nodes have sent none for too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from moorage.client.clock import Clock
from moorage.client.timers import Timers

_STALL = 5.0


class _Beat(NamedTuple):
    heard: float
    patience: float

    @property
    def end(self) -> float:
        """When the node will have been silent for too long; whole microseconds, as timers count."""
        return round(self.heard + self.patience, 6)


class Heartbeats:
    """Times by this machine's own clock: what a node says of the time is never compared with it.

    A heartbeat costs one entry in a dictionary. The timer of a node is not moved by it, but set again when it ends and
    the node was heard of since. A timer that ends late means that this process has stood still and heard nobody: then
    every node has its time anew.
    """

    def __init__(self, clock: Clock, silent: Callable[[str], None]) -> None:
        self._clock = clock
        self._silent = silent
        self._beats: dict[str, _Beat] = {}
        self._watched: dict[str, float] = {}
        """When the timer of each node ends."""
        self._timers: Timers[str] = Timers(clock, self._look_at)
        self._restarted = -_STALL

    def __contains__(self, node: str) -> bool:
        return node in self._beats

    def beat(self, node: str, patience: float) -> None:
        """A node was heard of; it may be silent for so many seconds from now."""
        beat = self._beats[node] = _Beat(self._clock.monotonic(), patience)
        if node not in self._watched:
            self._watch(node, beat)

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
        self._restarted = self._clock.monotonic()
        for node in list(self._beats):
            self.again(node)

    def stop(self) -> None:
        """Cancel all timers."""
        self._timers.close()

    def _watch(self, node: str, beat: _Beat) -> None:
        self._watched[node] = beat.end
        self._timers.set(node, beat.end - self._clock.monotonic())

    def _look_at(self, node: str) -> None:
        now, due = self._clock.monotonic(), self._watched.pop(node)
        if self._restarted < due + _STALL < now:
            self.restart()
        beat = self._beats.get(node)
        if beat is None or node in self._watched:
            return
        if beat.end > now:
            self._watch(node, beat)
        else:
            self._silent(node)
