"""New nodes, which are left alone until whoever creates them has finished."""

from __future__ import annotations

from collections.abc import Callable

from moorage.client.clock import Clock, Timer

QUIET = 1.0
"""Seconds without a change of any new node, after which they count as settled."""
LONGEST = 10.0


class Settling:
    """Waits until no new node was added or changed for a moment, then calls back for each of them.

    A client that creates many nodes reads them back and updates them: if a controller wrote to them at the same time,
    that client would be answered with conflicts.
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
        """A node was added, or one that has not settled was changed."""
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
        """Call back for none."""
        if self._timer is not None:
            self._timer.cancel()
        self._names.clear()

    def _end(self) -> None:
        names, self._names, self._timer = self._names, set(), None
        for name in names:
            self._settled(name)
