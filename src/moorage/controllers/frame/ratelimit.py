"""A token bucket: so many at once, so many a second."""

from __future__ import annotations

import math

from moorage.client.clock import Clock


class TokenBucket:
    """Gives tokens at a rate; those that nobody takes are kept, up to a burst."""

    def __init__(self, clock: Clock, rate: float, burst: int) -> None:
        self._clock = clock
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._counted: float | None = None

    @property
    def rate(self) -> float:
        """Tokens a second; when it is 0 there are none, not even those that were kept."""
        return self._rate

    @rate.setter
    def rate(self, rate: float) -> None:
        self._count()
        self._rate = rate

    def take(self) -> float:
        """Take a token, or say in how many seconds there will be one: 0 means that it was taken."""
        self._count()
        if not self._rate:
            return math.inf
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self._rate

    async def wait(self) -> None:
        """Take a token as soon as there is one."""
        while seconds := self.take():
            await self._clock.sleep(seconds)

    def _count(self) -> None:
        now = self._clock.monotonic()
        if self._counted is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._counted) * self._rate)
        self._counted = now
