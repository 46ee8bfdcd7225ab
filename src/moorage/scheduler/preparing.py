"""Pods whose placement takes long to prepare: that is done beside the decisions, and other pods pass them meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from moorage.logs import Log
from moorage.match.deferral import Deferred, NotReady, deferring
from moorage.match.evaluations import Parked
from moorage.pace import SLICES
from moorage.scheduler.queue import Queue, Queued
from moorage.scheduler.table.shape import Shape

_LOG = Log(__name__)
SLICE_SECONDS = 0.004
"""Seconds of preparation after which others have their turn, for as long."""


class Preparing:
    """The pods that wait for answers. All pods of one shape wait for the same."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._waiting: dict[Shape, list[Queued]] = {}
        self._shapes = Parked(self._prepared)
        self._turn = asyncio.Lock()
        """One after the other, so that what was prepared is not forgotten before it is used."""
        self.stop = self._shapes.stop

    def park(self, entry: Queued, work: Deferred) -> None:
        """Let a pod wait until some work is done."""
        if self._queue.prepare(entry):
            self._waiting.setdefault(entry.info.shape, []).append(entry)
            self._shapes.park(entry.info.shape, work)

    def join(self, entry: Queued) -> bool:
        """Let a pod wait if others of its shape do."""
        waits = entry.info.shape in self._shapes and self._queue.prepare(entry)
        if waits:
            self._waiting.setdefault(entry.info.shape, []).append(entry)
        return waits

    def go_on(self, entry: Queued, steps: Iterator[None]) -> None:
        """Let a pod wait until plugins have taken the rest of their steps."""
        if self._queue.prepare(entry):
            self._waiting.setdefault(entry.info.shape, []).append(entry)
            self._shapes.wait_for(entry.info.shape, lambda: self._take(steps))

    async def _take(self, steps: Iterator[None]) -> None:
        async with self._turn:
            try:
                while not _take_some(steps):
                    await asyncio.sleep(SLICE_SECONDS)
            except NotReady:
                return  # what must be worked out is found again when the pod is tried
            except Exception:  # noqa: BLE001 - a plugin that fails here is asked again when the pod is tried
                _LOG.exception("Pod not prepared")

    def forget(self, shape: Shape) -> None:
        """A pod of this shape is gone: stop when it was the last that waits."""
        waiting = self._waiting.get(shape)
        if waiting is not None and not any(map(self._queue.prepares, waiting)):
            del self._waiting[shape]
            self._shapes.forget(shape)

    def _prepared(self, shape: Shape) -> None:
        for entry in self._waiting.pop(shape, ()):
            self._queue.prepared(entry)


def _take_some(steps: Iterator[None]) -> bool:
    """Take steps for a while; whether there are no more."""
    clock = SLICES.get()
    end = clock() + SLICE_SECONDS
    with deferring():
        for _ in steps:
            if clock() > end:
                return False
    return True
