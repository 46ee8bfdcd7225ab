"""Nodes that have just come: left alone until whoever makes them is done."""

from __future__ import annotations

from collections.abc import Callable

from moorage.client.clock import Clock, Timer

QUIET = 1.0
"""Seconds without a change of any new node, after which those who make them seem to be done."""
LONGEST = 10.0


class Settling:
    """Waits until no new node has come or been changed for a moment, then tells of all of them.

    Who makes many nodes reads them once they are there and writes them back: to write at the same moment would be met
    with a conflict.
    """

    def __init__(self, clock: Clock, settled: Callable[[str], None]) -> None:
        self._clock = clock
        self._settled = settled
        self._names: set[str] = set()
        self._latest = 0.0
        self._timer: Timer | None = None

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def see(self, name: str) -> None:
        """A node has come, or one that has just come was changed."""
        now = self._clock.monotonic()
        if not self._names:
            self._latest = now + LONGEST
        self._names.add(name)
        if self._timer is not None:
            self._timer.cancel()
        delay = min(QUIET, self._latest - now)
        if delay > 0:
            self._timer = self._clock.call_later(delay, self._end)
        else:
            self._end()

    def stop(self) -> None:
        """Tell of nobody."""
        if self._timer is not None:
            self._timer.cancel()
        self._names.clear()

    def _end(self) -> None:
        names, self._names, self._timer = self._names, set(), None
        for name in names:
            self._settled(name)
