"""The time: what the machine says, or what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
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

    def monotonic(self) -> float:
        """Seconds since some moment, which nobody sets back: for how long something took."""
        return asyncio.get_running_loop().time()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call a function after some seconds, from the event loop."""
        return asyncio.get_running_loop().call_later(max(0.0, seconds), callback)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


def timestamp(moment: datetime, *, micro: bool = False) -> str:
    """A time as objects spell it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


@dataclass(order=True, slots=True)
class _Waiting:
    when: datetime
    number: int
    callback: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        self.callback = None


class ManualClock(Clock):
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime) -> None:
        self._start = self._now = start
        self._waiting: list[_Waiting] = []
        self._number = 0

    def now(self) -> datetime:
        """The time that was set."""
        return self._now

    def monotonic(self) -> float:
        """How far it was moved."""
        return (self._now - self._start).total_seconds()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call a function once the clock has been moved so far."""
        self._number += 1
        waiting = _Waiting(self._now + timedelta(seconds=max(0.0, seconds)), self._number, callback)
        heappush(self._waiting, waiting)
        return waiting

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been moved so far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        done = asyncio.Event()
        timer = self.call_later(seconds, done.set)
        try:
            await done.wait()
        finally:
            timer.cancel()

    def advance(self, seconds: float) -> None:
        """Move the clock; what is due by then happens, in order. Who sleeps is awake once the event loop goes on."""
        end = self._now + timedelta(seconds=seconds)
        while self._waiting and self._waiting[0].when <= end:
            due = heappop(self._waiting)
            if due.callback is not None:
                self._now = due.when
                due.callback()
        self._now = end
