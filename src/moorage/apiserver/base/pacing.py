"""Long work on the event loop: it gives way to others after a few milliseconds."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar
from weakref import WeakKeyDictionary

from moorage.apiserver.base.offload import FLOW

T = TypeVar("T")

FIRST, SLICE = 0.001, 0.005
"""Seconds of work at once: at the beginning, when nobody knows how many others begin too, and in each later turn."""


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


async def in_slices(items: Iterable[T], clock: Callable[[], float] = time.monotonic) -> AsyncIterator[T]:
    """The same items; whoever else wants to run is let go first when too much time was spent on some of them."""
    most, begun = FIRST, clock()
    for item in items:
        yield item
        if clock() - begun > most:
            await _TURNS.setdefault(asyncio.get_running_loop(), Turns()).wait()
            most, begun = SLICE, clock()
