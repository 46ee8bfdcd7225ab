"""Answers that take long: who asks on the event loop is told that they are not ready, and what must be worked out."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TypeVar

from moorage.pace import set_rest

INLINE_COST = 200_000
"""What may be spent on a question at once: 20 milliseconds at the worst."""
STEP_COST = 10
"""What a step of an expression counts as: up to a microsecond, when it fails. A plain comparison counts as 1."""

T = TypeVar("T")
Deferred = Callable[[], object]


class NotReady(Exception):
    """An answer is not known yet, and takes too long to be worked out at once."""

    def __init__(self, work: Deferred) -> None:
        super().__init__()
        self.work = work
        """Works it out and keeps it, so that the question can be asked again. It may be called on any thread."""


class _Turn(threading.local):
    """How the questions that are asked on this thread are answered."""

    pace: Callable[[], None] | None = None
    """Called between evaluations on the thread that takes its time."""
    left: int | None = None
    """What may still be spent on the question that is being asked; None when it may take as long as it takes."""


_TURN = _Turn()


class deferring:  # noqa: N801 - a context manager, read as a verb
    """What takes long is not evaluated inside: NotReady is raised instead."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _TURN.left
        _TURN.left = INLINE_COST

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _TURN.left = self._before


def is_bounded() -> bool:
    """Whether questions on this thread are deferred or paced, so that what was worked out should be kept."""
    return _TURN.left is not None or _TURN.pace is not None


def spend(cost: int, work: Deferred) -> None:
    """Note what follows; NotReady(work) when too much would be spent at once."""
    if _TURN.left is not None:
        if cost > _TURN.left:
            raise NotReady(work)
        _TURN.left -= cost


def pause() -> None:
    """After an evaluation: rest, on the thread that takes its time."""
    if _TURN.pace is not None:
        _TURN.pace()


def one_by_one(items: Iterable[T], ask: Callable[[T], object], cost: int) -> None:
    """Ask about each item, where the answers are kept and each may cost so much.

    NotReady, with the rest as its work, when that takes long.
    """
    waiting = deque(items)

    def work() -> None:
        try:
            while waiting:
                spend(cost, work)
                ask(waiting[0])
                waiting.popleft()
                pause()
        except NotReady:
            raise NotReady(work) from None

    work()


def set_pace(pace: Callable[[], None], rest: Callable[[], None] | None = None) -> None:
    """Have functions called on this thread: between evaluations, and between the steps of the loops of one."""
    _TURN.pace = pace
    set_rest(rest)
