"""An event loop in which no time is waited for: when nothing is left to be done, its clock moves to the next timer."""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import copy_context
from datetime import datetime, timedelta
from typing import Any, TypeVar, TypeVarTuple

from moorage.apiserver.base.offload import offloaded
from moorage.client.clock import Clock, Timer
from moorage.match.evaluations import EVALUATIONS
from moorage.pace import SLICES

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_SEED = 20260101
_REAL_PAUSE = 0.02
"""How many real seconds at most are waited at a time for work that was given to threads."""


class _VirtualSelector(selectors.SelectSelector):
    """Waits for nothing but threads: instead of waiting for a timer, the time of the timer comes."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.threads = 0
        """How many calls are being executed by threads of the loop."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Asked first: what a thread finishes after this is waited for once more, and what it finished before is ready.
        is_busy = timeout is None or self.threads or len(EVALUATIONS) or offloaded()
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if is_busy or timeout is None:
            return super().select(_REAL_PAUSE)
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time. Everything that sleeps or sets a timer in it is on this time."""

    def __init__(self) -> None:
        self._virtual = _VirtualSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual.now

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], Any], *args: *Ts) -> asyncio.Future[Any]:
        """Call a function in a thread; no virtual time passes before it returns."""
        future = super().run_in_executor(executor, func, *args)
        self._virtual.threads += 1
        future.add_done_callback(self._returned)
        return future

    def _returned(self, _: object) -> None:
        self._virtual.threads -= 1


def played(story: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that runs on virtual time, with the same random choices each time."""
    state = random.getstate()
    random.seed(_SEED)
    try:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            context = copy_context()
            context.run(SLICES.set, runner.get_loop().time)
            return runner.run(story, context=context)
    finally:
        random.setstate(state)


class VirtualClock(Clock):
    """The clock of a virtual loop. It knows the timers that somebody set to do something at a certain time.

    Whoever sleeps does so between two looks at the world, again and again: that alone is no reason to go on.
    """

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._loop = asyncio.get_running_loop()
        self._origin = self._loop.time()
        self._timers: list[asyncio.TimerHandle] = []
        self.rang = 0.0
        """When a timer was last found to have ended."""

    def now(self) -> datetime:
        """The time of day in the simulation."""
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Virtual seconds since the start, whole microseconds as timers count."""
        return round(self._loop.time() - self._origin, 6)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call a function after some virtual seconds."""
        # A callback that is set again for a rounding error later must not come at the same moment for ever.
        handle = self._loop.call_later(max(seconds, 1e-6) if seconds > 0 else 0.0, callback)
        self._timers.append(handle)
        return handle

    async def sleep(self, seconds: float) -> None:
        """Wait virtual seconds."""
        await asyncio.sleep(max(seconds, 1e-6) if seconds > 0 else 0.0)

    def next_timer(self) -> float | None:
        """In how many seconds the first of the timers ends; None when there is none."""
        now = self._loop.time()
        running = [each for each in self._timers if not each.cancelled()]
        self._timers = [each for each in running if each.when() > now]
        if len(self._timers) < len(running):
            self.rang = self.monotonic()
        return min((each.when() - now for each in self._timers), default=None)
