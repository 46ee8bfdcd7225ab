"""Priority of requests: work that can wait yields while a client outside of this process waits for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

_PAUSE = 0.02


class _Requests:
    """How many requests wait for their answers."""

    def __init__(self) -> None:
        self.count = 0


_WAITING = _Requests()


@contextmanager
def urgent() -> Iterator[None]:
    """Mark the work inside as something that a client waits for."""
    _WAITING.count += 1
    try:
        yield
    finally:
        _WAITING.count -= 1


async def let_others_go_first(patience: float) -> None:
    """Wait until no request waits for its answer, for some seconds at most."""
    loop = asyncio.get_running_loop()
    end = loop.time() + patience
    while _WAITING.count and loop.time() < end:
        await asyncio.sleep(_PAUSE)
