"""The thread on which expressions are evaluated that take long, at a pace that leaves the event loop its time."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from moorage.logs import Log
from moorage.match.deferral import Deferred, set_pace
from moorage.pace import Pace

K = TypeVar("K", bound=Hashable)

_LOG = Log(__name__)
_FAILED_SECONDS = 1.0

REST = 19.0
"""Seconds of rest for each second of work while the others are busy: it takes a twentieth of the time then."""
_SWITCH_SECONDS = 0.001
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
        self._slices = Pace(rest)
        self._jobs: list[_Job] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

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
            del job  # an error holds this frame, and the job the error

    def __len__(self) -> int:
        return len(self._jobs)

    def _serve(self) -> None:
        # Each time that the event loop gives up the interpreter it may have to wait so long to have it back.
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))
        while True:
            with self._changed:
                while not self._jobs:
                    self._changed.wait()
                job = min(self._jobs, key=lambda each: each.spent)
            if job.cancelled or self._is_done(job):
                with self._changed:
                    self._jobs.remove(job)

    def _is_done(self, job: _Job) -> bool:
        job.turn = 0.0
        self._slices.begin()
        set_pace(lambda: self._pace(job), lambda: self._rest(job))
        try:
            job.work()
        except _Aside:
            return job.cancelled
        except Exception as error:  # noqa: BLE001 - raised again where the result is awaited
            job.future.set_exception(error)
        else:
            job.future.set_result(None)
        return True

    def _rest(self, job: _Job) -> None:
        """In the middle of an evaluation, which would begin anew if another job had its turn."""
        worked = self._slices.keep()
        job.spent += worked
        job.turn += worked
        if job.cancelled:
            raise _Aside

    def _pace(self, job: _Job) -> None:
        self._rest(job)
        if job.cancelled or (job.turn > _TURN_SECONDS and len(self._jobs) > 1):
            raise _Aside


EVALUATIONS = EvaluationThread()
"""One for the whole process: all that takes long shares it."""


class Parked(Generic[K]):
    """Keys of what cannot be decided before something is worked out."""

    def __init__(self, again: Callable[[K], None]) -> None:
        """`again` is called with a key when it is time to decide again."""
        self._again = again
        self._tasks: dict[K, asyncio.Task[None]] = {}

    def park(self, key: K, work: Deferred) -> None:
        """Decide again when some work is done; a key that is parked already waits for what it waits for."""
        self.wait_for(key, lambda: _worked_out(work))

    def wait_for(self, key: K, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Decide again when something on the event loop is done, which is begun unless the key is parked already."""
        if key not in self._tasks:
            task = self._tasks[key] = asyncio.create_task(begin())
            task.add_done_callback(lambda _: self._done(key))

    def forget(self, key: K) -> None:
        """Stop what a key waits for, if it waits."""
        if task := self._tasks.get(key):
            task.cancel()

    def _done(self, key: K) -> None:
        if not self._tasks.pop(key).cancelled():
            self._again(key)

    async def stop(self) -> None:
        """Stop everything."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __contains__(self, key: K) -> bool:
        return key in self._tasks

    def __len__(self) -> int:
        return len(self._tasks)


async def _worked_out(work: Deferred) -> None:
    try:
        await EVALUATIONS.run(work)
    except Exception:  # noqa: BLE001 - it is decided again, and fails or waits again, but not in a hot loop
        _LOG.exception("Evaluation failed")
        await asyncio.sleep(_FAILED_SECONDS)
