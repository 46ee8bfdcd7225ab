"""The time: what the machine says, what a test says, or the machine's time made to run fast."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from heapq import heappop, heappush
from typing import Protocol

_MICROSECOND = timedelta(microseconds=1)
_FAST_SECOND = 0.01
"""How long a second takes that passes fast: long enough for what is due in it to be done."""


class Timer(Protocol):
    """A callback that will be called, unless it is cancelled."""

    def cancel(self) -> None:
        """Do not call it."""


class Clock:
    """The machine's time."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some moment, which nobody sets back: for how long something took."""
        return time.monotonic()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call a function after some seconds, from the event loop."""
        return asyncio.get_running_loop().call_later(max(0.0, seconds), callback)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


@lru_cache(maxsize=64)
def timestamp(moment: datetime, *, micro: bool = False) -> str:
    """A time as objects spell it."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds" if micro else "seconds") + "Z"


@dataclass(order=True, slots=True)
class _Waiting:
    elapsed: timedelta
    number: int
    callback: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        self.callback = None


class ManualClock(Clock):
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._elapsed = timedelta()
        self._waiting: list[_Waiting] = []
        self._number = 0

    def now(self) -> datetime:
        """The time that was set."""
        return self._start + self._elapsed

    def monotonic(self) -> float:
        """How far it was moved."""
        return self._elapsed.total_seconds()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call a function once the clock has been moved so far."""
        self._number += 1
        # A callback that is set again for a rounding error later must not come at the same moment for ever.
        delay = max(timedelta(seconds=seconds), _MICROSECOND) if seconds > 0 else timedelta()
        waiting = _Waiting(self._elapsed + delay, self._number, callback)
        heappush(self._waiting, waiting)
        return waiting

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been moved so far."""
        await _sleep(self, seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass; what is due by then is called, in order. Tasks that sleep wake up when the loop goes on."""
        end = self._elapsed + timedelta(seconds=seconds)
        while self._waiting and self._waiting[0].elapsed <= end:
            due = heappop(self._waiting)
            if due.callback is not None:
                self._elapsed = due.elapsed
                due.callback()
        self._elapsed = end

    def jump(self, seconds: float) -> None:
        """Set the time of day, forward or back, without letting any time pass."""
        self._start += timedelta(seconds=seconds)


@dataclass(slots=True, eq=False)
class _Coming:
    due: float
    callback: Callable[[], None]
    forget: Callable[[_Coming], None]
    handle: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        if self.handle is not None:
            self.handle.cancel()
        self.forget(self)


class FastClock(Clock):
    """The machine's time, and on demand more of it in a moment, so that nobody need wait for what takes long."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._coming: set[_Coming] = set()

    def now(self) -> datetime:
        """The time of day, and what has passed in addition."""
        return super().now() + timedelta(seconds=self._ahead)

    def monotonic(self) -> float:
        """Seconds since some moment, what has passed in addition included."""
        return super().monotonic() + self._ahead

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call a function after some seconds, or as soon as so many have passed in addition."""
        coming = _Coming(self.monotonic() + max(0.0, seconds), callback, self._coming.discard)
        self._coming.add(coming)
        self._await(coming)
        return coming

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await _sleep(self, seconds)

    async def run_fast(self, seconds: float) -> None:
        """Let some seconds pass in a few moments: second by second, so that what happens every few seconds does."""
        while seconds > 0:
            self._ahead += min(1.0, seconds)
            seconds -= 1.0
            for coming in sorted(self._coming, key=lambda each: each.due):
                if coming in self._coming:
                    self._await(coming)
            await asyncio.sleep(_FAST_SECOND)

    def _await(self, coming: _Coming) -> None:
        if coming.handle is not None:
            coming.handle.cancel()
        loop = asyncio.get_running_loop()
        coming.handle = loop.call_later(max(0.0, coming.due - self.monotonic()), self._ring, coming)

    def _ring(self, coming: _Coming) -> None:
        self._coming.discard(coming)
        coming.callback()


async def _sleep(clock: Clock, seconds: float) -> None:
    if seconds <= 0:
        await asyncio.sleep(0)
        return
    done = asyncio.Event()
    timer = clock.call_later(seconds, done.set)
    try:
        await done.wait()
    finally:
        timer.cancel()
