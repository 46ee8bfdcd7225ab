"""The thread on which expressions are evaluated that take long, at a pace that leaves the event loop its time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from moorage.match.deferral import Deferred, NotReady, deferring, set_pace

T = TypeVar("T")

REST = 4.0
"""Seconds of rest for each second of work: evaluations take a fifth of a processor, the event loop has the others."""
_PAUSE_AFTER = 0.002
_TURN_SECONDS = 0.25
"""Seconds of work after which another job has its turn."""


class _Aside(BaseException):
    """A job is interrupted: it is cancelled, or another one has its turn. What it has worked out is kept."""


@dataclass(slots=True, eq=False)
class _Job:
    work: Deferred
    future: Future[None] = field(default_factory=Future)
    spent: float = 0.0
    """Seconds of work so far."""
    turn: float = 0.0
    """Seconds of work in this turn."""
    cancelled: bool = False


class EvaluationThread:
    """Does jobs in turns; who has had least comes first, so that a small job never waits for a large one."""

    def __init__(self, rest: float = REST) -> None:
        self._rest = rest
        self._jobs: list[_Job] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._since = 0.0

    async def run(self, work: Deferred) -> None:
        """Have something worked out. It may be interrupted and begun again: it must keep what it has."""
        job = _Job(work)
        with self._changed:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="evaluations", daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            await asyncio.wrap_future(job.future)
        finally:
            job.cancelled = True

    def __len__(self) -> int:
        return len(self._jobs)

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._jobs:
                    self._changed.wait()
                job = min(self._jobs, key=lambda each: each.spent)
            if job.cancelled or self._is_done(job):
                with self._changed:
                    self._jobs.remove(job)

    def _is_done(self, job: _Job) -> bool:
        job.turn, self._since = 0.0, time.thread_time()
        set_pace(lambda: self._pace(job))
        try:
            job.work()
        except _Aside:
            return job.cancelled
        except Exception as error:  # noqa: BLE001 - raised again where the result is awaited
            job.future.set_exception(error)
        else:
            job.future.set_result(None)
        return True

    def _pace(self, job: _Job) -> None:
        busy = time.thread_time() - self._since
        if busy < _PAUSE_AFTER:
            return
        time.sleep(busy * self._rest)
        self._since = time.thread_time()
        job.spent += busy
        job.turn += busy
        if job.cancelled or (job.turn > _TURN_SECONDS and len(self._jobs) > 1):
            raise _Aside


EVALUATIONS = EvaluationThread()
"""One for the whole process: all that takes long shares it."""


async def patiently(question: Callable[[], T]) -> T:
    """The answer to a question, at once when it is cheap; what takes long is evaluated beside the event loop."""
    while True:
        try:
            with deferring():
                return question()
        except NotReady as later:
            work = later.work
        await EVALUATIONS.run(work)
