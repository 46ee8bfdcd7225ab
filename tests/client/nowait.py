"""A clock for what waits again and again."""

from __future__ import annotations

import asyncio

from moorage.client.clock import Clock


class NoWait(Clock):
    """A clock on which every wait is over at once."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        """How long the waits would have taken."""

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)
