"""The work queue of a controller: keys to reconcile, each one at a time, some later, failed ones with back-off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from datetime import datetime
from typing import Generic, TypeVar

from moorage.client.backoff import Backoff
from moorage.client.clock import Clock
from moorage.client.timers import Timers

RETRIES = Backoff(first=0.01, last=300.0)

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys that wait. One that is added while it is worked on is worked on again afterwards, never at the same time."""

    def __init__(self, clock: Clock, retries: Backoff = RETRIES) -> None:
        self._clock = clock
        self._retries = retries
        self._waiting: asyncio.Queue[K] = asyncio.Queue()
        self._dirty: set[K] = set()
        self._working: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: Timers[K] = Timers(clock, self.add)

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
        else:
            self._timers.set(key, seconds)

    def add_at(self, key: K, moment: datetime) -> None:
        """Work on a key at a time of day; the earliest of several times counts."""
        self.add_after(key, (moment - self._clock.now()).total_seconds())

    def cancel(self, key: K) -> None:
        """Do not work on a key later; what is to be worked on now still is."""
        self._timers.cancel(key)

    def retry(self, key: K) -> float:
        """Work on a key again, twice as late as the last time. Returns the delay."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._retries.delay(failures)
        self.add_after(key, delay)
        return delay

    def failures(self, key: K) -> int:
        """How often in a row a key has failed."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """A key was reconciled: its next failure counts as the first."""
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

    @property
    def is_idle(self) -> bool:
        """Whether no key waits or is worked on; those that are for later do not count."""
        return not self._dirty and not self._working

    def close(self) -> None:
        """Cancel all timers."""
        self._timers.close()


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
        # Neither a queue that is not empty nor a key without anything to do waits for anything by itself.
        await asyncio.sleep(0)
