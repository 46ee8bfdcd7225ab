"""Where long work may rest: on a paced thread between its steps, and on an event loop by a clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import NamedTuple, Self, TypeVar

T = TypeVar("T")

_BUSY = 0.5
"""The share of a processor from which the rest of the process counts as busy; with less of it the rest is shorter."""
_SLICE_SECONDS = 0.002

SLICES: ContextVar[Callable[[], float]] = ContextVar("slices", default=time.monotonic)
"""The clock by which work on an event loop gives way to others. A simulation sets its own, in which work takes no time:
what it finds must not depend on how slow the machine is."""


class ProcessorUse(NamedTuple):
    """Seconds: what a clock shows, and what the process and the thread that asks have worked."""

    clock: float
    process: float
    thread: float

    @classmethod
    def now(cls) -> Self:
        """Up to now."""
        return cls(time.perf_counter(), time.process_time(), time.thread_time())

    def busy(self, since: ProcessorUse) -> float:
        """How busy what is not this thread was since then: from 0, not at all, to 1, when it needs the processor."""
        others = (self.process - since.process) - (self.thread - since.thread)
        passed = self.clock - since.clock
        return min(1.0, max(0.0, others / (_BUSY * passed))) if passed > 0 else 0.0


class Pace:
    """Works in slices, and rests the longer the busier the rest of the process is."""

    def __init__(self, rest: float) -> None:
        """`rest` is how many seconds of rest there are for each second of work while the others are busy."""
        self._rest = rest
        self._since = self._rested = ProcessorUse(0.0, 0.0, 0.0)
        self._thread = 0
        """The thread that works: a paced one may wait for another with a fresh stack."""

    def begin(self) -> None:
        """Work begins: what the thread did before does not count."""
        self._thread, self._since = threading.get_ident(), ProcessorUse.now()

    def keep(self) -> float:
        """Rest after a slice of work. Returns the seconds of work that the rest was for, 0 when it is not due."""
        if self._thread != threading.get_ident():
            self.begin()
            self._rested = self._since
        worked = time.thread_time() - self._since.thread
        if worked < _SLICE_SECONDS:
            return 0.0
        before, self._rested = self._rested, ProcessorUse.now()
        time.sleep(worked * self._rest * self._rested.busy(before))
        self._since = ProcessorUse.now()
        return worked


class _Thread(threading.local):
    rest: Callable[[], object] | None = None


_THREAD = _Thread()


def resting() -> Callable[[], object] | None:
    """What is called between steps on this thread, if anything."""
    return _THREAD.rest


def set_rest(rest: Callable[[], object] | None) -> None:
    """Have a function called between steps on this thread. What it raises ends the work."""
    _THREAD.rest = rest


def rest() -> None:
    """After a step: rest, on a thread that is paced."""
    if _THREAD.rest is not None:
        _THREAD.rest()


def with_rests(items: Iterable[T]) -> Iterator[T]:
    """The items, with a rest before each."""
    for item in items:
        rest()
        yield item
