"""Pods whose expressions take long: they are evaluated beside the event loop, and other pods pass them meanwhile."""

from __future__ import annotations

import asyncio
import logging

from moorage.match.deferral import Deferred
from moorage.match.evaluations import EVALUATIONS
from moorage.scheduler.queue import Queue, Queued
from moorage.scheduler.table.shape import Shape

_LOG = logging.getLogger(__name__)
_FAILED_SECONDS = 1.0


class Preparing:
    """The pods that wait for answers. All pods of one shape wait for the same."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._waiting: dict[Shape, list[Queued]] = {}
        self.tasks: dict[Shape, asyncio.Task[None]] = {}

    def park(self, entry: Queued, work: Deferred) -> None:
        """Let a pod wait until some work is done."""
        if not self._queue.prepare(entry):
            return
        shape = entry.info.shape
        waiting = self._waiting.setdefault(shape, [])
        waiting.append(entry)
        if len(waiting) == 1:
            task = self.tasks[shape] = asyncio.create_task(_prepare(work))
            task.add_done_callback(lambda _: self._done(shape))

    def forget(self, shape: Shape) -> None:
        """A pod of this shape is gone: stop when it was the last that waits."""
        waiting = self._waiting.get(shape)
        if waiting is not None and not any(map(self._queue.prepares, waiting)):
            self.tasks[shape].cancel()

    def _done(self, shape: Shape) -> None:
        del self.tasks[shape]
        for entry in self._waiting.pop(shape):
            self._queue.prepared(entry)

    async def stop(self) -> None:
        """Cancel everything."""
        tasks = list(self.tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _prepare(work: Deferred) -> None:
    try:
        await EVALUATIONS.run(work)
    except Exception:  # noqa: BLE001 - the pod is tried again, and fails or waits again, but not in a hot loop
        _LOG.exception("not prepared")
        await asyncio.sleep(_FAILED_SECONDS)
