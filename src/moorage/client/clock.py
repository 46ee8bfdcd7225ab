"""The time: what the machine says, or what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Timer(Protocol):
    """Something that will happen, unless it is cancelled."""

    def cancel(self) -> None:
        """Let it not happen."""


class Clock:
    """The machine's time."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call a function after some seconds, from the event loop."""
        return asyncio.get_running_loop().call_later(max(0.0, seconds), callback)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


def timestamp(moment: datetime, *, micro: bool = False) -> str:
    """A time as objects spell it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


class _Waiting:
    def __init__(self, when: datetime, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock(Clock):
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime) -> None:
        self._now = start
        self._waiting: list[_Waiting] = []

    def now(self) -> datetime:
        """The time that was set."""
        return self._now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call a function once the clock has been moved so far."""
        waiting = _Waiting(self._now + timedelta(seconds=max(0.0, seconds)), callback)
        self._waiting.append(waiting)
        return waiting

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been moved so far."""
        done = asyncio.Event()
        self.call_later(seconds, done.set)
        await done.wait()

    def advance(self, seconds: float) -> None:
        """Move the clock; what is due by then happens, in order."""
        end = self._now + timedelta(seconds=seconds)
        while due := [each for each in self._waiting if not each.cancelled and each.when <= end]:
            first = min(due, key=lambda each: each.when)
            self._waiting.remove(first)
            self._now = max(self._now, first.when)
            first.callback()
        self._waiting = [each for each in self._waiting if not each.cancelled]
        self._now = end
