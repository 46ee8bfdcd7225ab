"""Work on large objects is offloaded to a thread, so that the event loop goes on answering others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

FLOW: ContextVar[str] = ContextVar("flow", default="")
"""The flow of the request that is being served."""
P = ParamSpec("P")
T = TypeVar("T")

LARGE = 32 << 10
MAX_VALUES, MAX_METADATA = 50_000, 500_000
"""How many values an object may hold, every map, list, text and number being one; and with its metadata, whose managed
fields name all of them again.
"""

# One thread: large objects wait for each other, and small ones for none of them.
_THREAD = ThreadPoolExecutor(1, thread_name_prefix="large-objects")


async def offload(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do some work on `size` bytes: at once when they are few, in a thread when they are many."""
    if size < LARGE:
        return work(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_THREAD, lambda: work(*args, **kwargs))


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
