"""Long work on the event loop: it gives way to others after a few milliseconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

SLICE = 0.005
_AT_ONCE = 16


async def in_slices(items: Iterable[T], clock: Callable[[], float] = time.monotonic) -> AsyncIterator[T]:
    """The same items; whoever else wants to run is let go first when too much time was spent on some of them."""
    waiting, begun = iter(items), clock()
    while batch := list(islice(waiting, _AT_ONCE)):
        for item in batch:
            yield item
        if clock() - begun > SLICE:
            await asyncio.sleep(0)
            begun = clock()
