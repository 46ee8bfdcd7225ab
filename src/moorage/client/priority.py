"""Who goes first: work that can wait steps aside while the event loop has more urgent things to do."""

from __future__ import annotations

import asyncio

_BUSY = 0.001
"""A turn of the event loop that takes longer has others in it."""
_PAUSE = 0.02


async def let_others_go_first(patience: float) -> None:
    """Wait until the event loop has little to do, though no longer than some seconds."""
    loop = asyncio.get_running_loop()
    begun = start = loop.time()
    while begun < start + patience:
        await asyncio.sleep(0)
        if loop.time() - begun < _BUSY:
            return
        await asyncio.sleep(_PAUSE)
        begun = loop.time()
