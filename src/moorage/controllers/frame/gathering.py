"""Many requests of a controller: a bounded number at a time, so that the event loop goes on answering others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

IN_FLIGHT = 100


async def gather_some(work: Iterable[Awaitable[T]]) -> list[T | BaseException]:
    """The results of some work in its order, or what it raised; all is tried."""
    waiting, results = iter(work), list[T | BaseException]()
    while batch := list(islice(waiting, IN_FLIGHT)):
        results += await asyncio.gather(*batch, return_exceptions=True)
    return results


def raise_first(results: Iterable[object]) -> None:
    """Raise the first of some results that is an exception."""
    for result in results:
        if isinstance(result, BaseException):
            raise result
