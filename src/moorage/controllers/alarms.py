"""When to look at an object again: the earliest time asked for, by the controllers' clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from moorage.client.clock import Clock, Timer
from moorage.client.informer import Key


class Alarms:
    """One alarm a key, by a clock that tests can move."""

    def __init__(self, clock: Clock, ring: Callable[[Key], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._set: dict[Key, tuple[datetime, Timer]] = {}

    def set(self, key: Key, seconds: float) -> None:
        """Ring after some seconds, unless it rings earlier anyway."""
        when = self._clock.now() + timedelta(seconds=max(0.0, seconds))
        old = self._set.get(key)
        if old is not None:
            if old[0] <= when:
                return
            old[1].cancel()
        self._set[key] = when, self._clock.call_later(seconds, lambda: self._due(key))

    def cancel(self, key: Key) -> None:
        """Do not ring."""
        if old := self._set.pop(key, None):
            old[1].cancel()

    def close(self) -> None:
        """Ring for nobody."""
        for key in list(self._set):
            self.cancel(key)

    def _due(self, key: Key) -> None:
        self._set.pop(key, None)
        self._ring(key)
