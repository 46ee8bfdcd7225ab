"""Pods whose expressions take long: they are evaluated beside the event loop, and other pods pass them meanwhile."""

from __future__ import annotations

from moorage.match.deferral import Deferred
from moorage.match.evaluations import Parked
from moorage.scheduler.queue import Queue, Queued
from moorage.scheduler.table.shape import Shape


class Preparing:
    """The pods that wait for answers. All pods of one shape wait for the same."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._waiting: dict[Shape, list[Queued]] = {}
        self._shapes = Parked(self._prepared)
        self.stop = self._shapes.stop

    def park(self, entry: Queued, work: Deferred) -> None:
        """Let a pod wait until some work is done."""
        if self._queue.prepare(entry):
            self._waiting.setdefault(entry.info.shape, []).append(entry)
            self._shapes.park(entry.info.shape, work)

    def forget(self, shape: Shape) -> None:
        """A pod of this shape is gone: stop when it was the last that waits."""
        waiting = self._waiting.get(shape)
        if waiting is not None and not any(map(self._queue.prepares, waiting)):
            del self._waiting[shape]
            self._shapes.forget(shape)

    def _prepared(self, shape: Shape) -> None:
        for entry in self._waiting.pop(shape, ()):
            self._queue.prepared(entry)
