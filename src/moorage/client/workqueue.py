"""A queue of keys to be worked on: each once at a time, later when told so, later and later when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

from moorage.client.clock import Clock, Timer

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys that wait. One that is added while it is worked on is worked on again afterwards, never at the same time."""

    def __init__(self, first_delay: float = 0.01, last_delay: float = 300.0, clock: Clock | None = None) -> None:
        self._first, self._last = first_delay, last_delay
        self._clock = clock or Clock()
        self._waiting: asyncio.Queue[K] = asyncio.Queue()
        self._dirty: set[K] = set()
        self._working: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, tuple[float, Timer]] = {}

    def add(self, key: K) -> None:
        """Work on a key soon."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._working:
            self._waiting.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Work on a key later; the earliest of several times counts."""
        if seconds <= 0:
            self.add(key)
            return
        when = self._clock.monotonic() + seconds
        if key in self._timers:
            before, timer = self._timers[key]
            if before <= when:
                return
            timer.cancel()
        self._timers[key] = when, self._clock.call_later(seconds, partial(self._due, key))

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def retry(self, key: K) -> float:
        """Work on a key again, twice as late as the last time. Returns the delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(self._first * 2.0 ** min(failures, 40), self._last)
        self.add_after(key, delay)
        return delay

    def failures(self, key: K) -> int:
        """How often in a row a key has failed."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """A key is well again."""
        self._failures.pop(key, None)

    async def take(self) -> K:
        """The next key; done() must follow."""
        key = await self._waiting.get()
        self._dirty.discard(key)
        self._working.add(key)
        return key

    def done(self, key: K) -> None:
        """A key has been worked on."""
        self._working.discard(key)
        if key in self._dirty:
            self._waiting.put_nowait(key)

    def __len__(self) -> int:
        return self._waiting.qsize()

    def close(self) -> None:
        """Forget all timers."""
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()


async def work(
    queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[None]], failed: Callable[[K, Exception], None]
) -> None:
    """Reconcile keys for ever; one that raises is tried again, later and later. Run several for more at a time."""
    while True:
        key = await queue.take()
        try:
            await reconcile(key)
        except Exception as error:  # noqa: BLE001 - one key's trouble must not end the others' work
            failed(key, error)
            queue.retry(key)
        else:
            queue.forget(key)
        finally:
            queue.done(key)
