"""Long work on the event loop: it gives way to others after a few milliseconds."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from moorage.apiserver.base.offload import FLOW
from moorage.pace import SLICES

T = TypeVar("T")

FIRST, SLICE = 0.001, 0.005
"""Seconds of work at once: at the beginning, when nobody knows how many others begin too, and in each later turn."""


_SENDING = 2e-9
"""About how many seconds it takes to encrypt and send a byte."""


class Turns:
    """Turns for long work, of which one begins in each round of the event loop. Users get them in turn."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._goes_on = False
        """Whether the event loop will call back."""

    async def wait(self) -> None:
        """Wait for a turn."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(FLOW.get(), deque()).append(turn)
        if not self._goes_on:
            self._goes_on = True
            loop.call_soon(self._next)
        await turn

    def _next(self) -> None:
        while self._waiting:
            user, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[user] = turns
            if not turn.done():
                turn.set_result(None)
                break
        self._goes_on = bool(self._waiting)
        if self._goes_on:
            asyncio.get_running_loop().call_soon(self._next)


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


async def in_slices(items: Iterable[T], clock: Callable[[], float] | None = None) -> AsyncIterator[T]:
    """The same items; whoever else wants to run is let go first when too much time was spent on some of them."""
    clock = clock or SLICES.get()
    most, begun = FIRST, clock()
    for item in items:
        yield item
        if clock() - begun > most:
            await _TURNS.setdefault(asyncio.get_running_loop(), Turns()).wait()
            most, begun = SLICE, clock()


def _not_sent(_: object) -> int:
    return 0


class Round:
    """Small pieces of work, such as the lines of watches: in a round of the event loop no more than fits in a slice.

    Thousands that have a piece each to do would otherwise keep the loop from everybody else. Users get turns.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or SLICES.get()
        self._waiting: OrderedDict[str, deque[_Piece]] = OrderedDict()
        self._spent = 0.0
        self._goes_on = False
        """Whether the event loop will call back."""

    async def do(self, work: Callable[[], T], length: Callable[[T], int] = _not_sent) -> T:
        """Do a piece of work: at once if there is time left in this round, or in a later one.

        `length` says how many bytes of the result are sent to a client right afterwards, which takes time too.
        """
        if self._spent < SLICE and not self._waiting:
            return self._timed(work, length)
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        piece = _Piece(lambda: self._timed(work, length), done)
        self._waiting.setdefault(FLOW.get(), deque()).append(piece)
        try:
            return await done
        finally:
            del done, piece  # an error holds this frame, and they the error

    def _timed(self, work: Callable[[], T], length: Callable[[T], int]) -> T:
        begun, sent = self._clock(), 0
        try:
            result = work()
            sent = length(result)
            return result
        finally:
            self._spent += self._clock() - begun + sent * _SENDING
            if not self._goes_on:
                self._goes_on = True
                asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """A new round has begun."""
        self._spent, self._goes_on = 0.0, bool(self._waiting)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        while self._waiting and self._spent < SLICE:
            user, pieces = self._waiting.popitem(last=False)
            pieces.popleft().do()
            if pieces:
                self._waiting[user] = pieces


class _Piece:
    """A piece of work that somebody waits for."""

    __slots__ = ("_done", "_work")

    def __init__(self, work: Callable[[], Any], done: asyncio.Future[Any]) -> None:
        self._work = work
        self._done = done

    def do(self) -> None:
        if self._done.done():
            return
        try:
            self._done.set_result(self._work())
        except Exception as error:  # noqa: BLE001 - who waits gets it
            self._done.set_exception(error)


_ROUNDS: WeakKeyDictionary[asyncio.AbstractEventLoop, Round] = WeakKeyDictionary()


async def in_round(work: Callable[[], T], length: Callable[[T], int] = _not_sent) -> T:
    """Do a small piece of work in this round of the event loop, or in a later one when this one has been long."""
    loop = asyncio.get_running_loop()
    found = _ROUNDS.get(loop)
    if found is None:
        found = _ROUNDS[loop] = Round()
    return await found.do(work, length)


async def made(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    """The parts of something long, which are made one by one while they are sent; others are served meanwhile."""
    waiting = iter(parts)
    while (part := await in_round(lambda: next(waiting, None), lambda part: len(part or b""))) is not None:
        yield part
