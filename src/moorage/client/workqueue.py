"""A queue of keys to be worked on: each once at a time, later when told so, later and later when it fails."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys that wait. One that is added while it is worked on is worked on again afterwards, never at the same time."""

    def __init__(self, first_delay: float = 0.01, last_delay: float = 300.0) -> None:
        self._first, self._last = first_delay, last_delay
        self._waiting: deque[K] = deque()
        self._dirty: set[K] = set()
        self._working: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()

    def add(self, key: K) -> None:
        """Work on a key soon."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._working:
            self._waiting.append(key)
            self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Work on a key later; the earliest of several times counts."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        old = self._timers.get(key)
        if old is not None:
            if old.when() <= loop.time() + seconds:
                return
            old.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

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
        while not self._waiting:
            self._wake.clear()
            await self._wake.wait()
        key = self._waiting.popleft()
        self._dirty.discard(key)
        self._working.add(key)
        return key

    def done(self, key: K) -> None:
        """A key has been worked on."""
        self._working.discard(key)
        if key in self._dirty:
            self._waiting.append(key)
            self._wake.set()

    def __len__(self) -> int:
        return len(self._waiting)

    def close(self) -> None:
        """Forget all timers."""
        for timer in self._timers.values():
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
