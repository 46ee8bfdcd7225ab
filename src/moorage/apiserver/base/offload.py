"""Work on large objects is offloaded to a thread, so that the event loop goes on answering others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from moorage.apiserver.base.shares import Seats
from moorage.pace import Pace, set_rest

FLOW: ContextVar[str] = ContextVar("flow", default="")
"""The flow of the request that is being served."""
P = ParamSpec("P")
T = TypeVar("T")

LARGE = 32 << 10
YAML_COST = 16
"""How much longer it takes to read a byte of YAML than one of JSON."""
MAX_VALUES, MAX_METADATA = 50_000, 500_000
"""How many values an object may hold, every map, list, text and number being one; and with its metadata, whose managed
fields name all of them again.
"""

VERY_LARGE = 256 << 10
_IN_HAND = Seats(4, 1_000_000)
_HAS_TURN: ContextVar[bool] = ContextVar("has_turn", default=False)
_THREADS = 2
_REST = 3.0
"""Seconds of rest for each second that expressions are compiled, while others are busy."""
_POOL = ThreadPoolExecutor(_THREADS, "large-objects", lambda: set_rest(Pace(_REST).keep))
_SEATS: WeakKeyDictionary[asyncio.AbstractEventLoop, Seats] = WeakKeyDictionary()
"""Those of each loop: one that ends before its work does takes its seats with it."""


async def offload(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do some work that costs as much as reading `size` bytes of JSON: at once when that is little, or in a thread.

    One user gets one of the threads, and users who wait get them in turn.
    """
    if size < LARGE:
        return work(*args, **kwargs)
    loop, user = asyncio.get_running_loop(), FLOW.get()
    seats = _seats(loop)
    if not seats.take(user):
        await seats.wait(user)

    def leave(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits in it
            loop.call_soon_threadsafe(seats.leave, user)

    job = _POOL.submit(work, *args, **kwargs)
    result = asyncio.wrap_future(job)
    # When the work ends, not when somebody ceases to wait for it: it goes on all the same.
    job.add_done_callback(leave)
    try:
        return await result
    finally:
        del job, result  # an error holds this frame and the data of all who called, and they the error


@asynccontextmanager
async def in_hand(size: int) -> AsyncIterator[None]:
    """Wait for a turn to work on an object of `size` bytes, if it is very large: data takes ten times as much.

    Of all requests four have a turn, and of one user half of those that are left.
    """
    if size < VERY_LARGE or _HAS_TURN.get():
        yield
        return
    async with _IN_HAND.turn(FLOW.get()):
        before = _HAS_TURN.set(True)
        try:
            yield
        finally:
            _HAS_TURN.reset(before)


def offloaded() -> int:
    """How much work of the running loop the threads have begun whose results are not there yet."""
    return _seats(asyncio.get_running_loop()).seats.used


def _seats(loop: asyncio.AbstractEventLoop) -> Seats:
    found = _SEATS.get(loop)
    if found is None:
        found = _SEATS[loop] = Seats(_THREADS, 1_000_000)
    return found


def holds_more(data: Any, most: int) -> bool:
    """Whether data holds more than `most` values; it counts no further."""
    count, waiting = 1, [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            count += len(value)
            waiting += value.values()
        elif isinstance(value, list):
            count += len(value)
            waiting += value
        if count > most:
            return True
    return False
