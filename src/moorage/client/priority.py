"""Who goes first: work that can wait steps aside while somebody outside of this process waits for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

_PAUSE = 0.02


class _Waiting:
    """How many are waiting for an answer."""

    def __init__(self) -> None:
        self.count = 0


_WAITING = _Waiting()


@contextmanager
def urgent() -> Iterator[None]:
    """Somebody waits for what is done here."""
    _WAITING.count += 1
    try:
        yield
    finally:
        _WAITING.count -= 1


async def let_others_go_first(patience: float) -> None:
    """Wait until nobody waits for an answer, though no longer than some seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + patience
    while _WAITING.count and loop.time() < end:
        await asyncio.sleep(_PAUSE)
