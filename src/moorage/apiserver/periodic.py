"""What the API server does again and again, beside answering."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from moorage.client.clock import Clock
from moorage.store.protocol import StoreError

_LOG = logging.getLogger(__name__)


class PeriodicTasks:
    """Tasks that are done every so many seconds until all of them are stopped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, do: Callable[[], Awaitable[None]], every: float) -> None:
        """Do something now and every so many seconds."""
        self._tasks.append(asyncio.create_task(self._run(name, do, every)))

    async def stop(self) -> None:
        """Do no more of it."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self, name: str, do: Callable[[], Awaitable[None]], every: float) -> None:
        while True:
            try:
                await do()
            except StoreError as error:
                _LOG.warning("%s: %s", name, error)
            await self._clock.sleep(every)
