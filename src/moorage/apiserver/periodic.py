"""The periodic tasks of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from moorage.client.clock import Clock
from moorage.logs import Log
from moorage.store.protocol import StoreError

_LOG = Log(__name__)


class PeriodicTasks:
    """Tasks that run periodically until all of them are stopped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, task: Callable[[], Awaitable[None]], every: float) -> None:
        """Run a task now and then every so many seconds."""
        self._tasks.append(asyncio.create_task(self._run(name, task, every)))

    async def stop(self) -> None:
        """Stop all tasks."""
        for running in self._tasks:
            running.cancel()
        for running in self._tasks:
            with suppress(asyncio.CancelledError):
                await running

    async def _run(self, name: str, task: Callable[[], Awaitable[None]], every: float) -> None:
        while True:
            try:
                await task()
            except StoreError as error:
                _LOG.warning("Periodic task failed", task=name, err=error)
            await self._clock.sleep(every)
