"""Priority of requests: work that can wait yields while a client outside of this process waits for an answer."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager

_PAUSE = 0.02


class _Requests:
    """How many requests wait for their answers: one more inside of the block."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1


_WAITING = _Requests()


def urgent() -> AbstractContextManager[None]:
    """Mark the work inside as something that a client waits for."""
    return _WAITING


async def let_others_go_first(patience: float) -> None:
    """Wait until no request waits for its answer, for some seconds at most."""
    loop = asyncio.get_running_loop()
    end = loop.time() + patience
    while _WAITING.count and loop.time() < end:
        await asyncio.sleep(_PAUSE)
