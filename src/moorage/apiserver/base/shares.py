"""What users share: each may hold as much as is still free, and who must wait is served in turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Shared:
    """A number of things for all users. Each may hold as many as are free: one gets half, two get a third each.

    So something is left for whoever comes next, whatever the others do.
    """

    __slots__ = ("_held", "size", "used")

    def __init__(self, size: int) -> None:
        self.size = size
        self.used = 0
        self._held: dict[str, int] = {}

    def take(self, user: str, amount: int = 1) -> bool:
        """Let a user hold so many more, unless that would be too many."""
        held = self._held.get(user, 0) + amount
        if held > self.size - self.used:
            return False
        self._held[user] = held
        self.used += amount
        return True

    def give_back(self, user: str, amount: int = 1) -> None:
        """A user holds so many less."""
        held = self._held[user] - amount
        self.used -= amount
        if held:
            self._held[user] = held
        else:
            del self._held[user]

    def held(self, user: str) -> int:
        """How many a user holds."""
        return self._held.get(user, 0)


class TooMany(Exception):
    """A user has too much waiting."""


class Seats:
    """Seats for work that is done at the same time. Users who find none wait in queues, which are served in turn."""

    def __init__(self, seats: int, places: int) -> None:
        self.seats = Shared(seats)
        self.waiting = Shared(places)
        self.refused = 0
        self.dispatched = 0
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    def take(self, user: str) -> bool:
        """Take a seat at once, if there is one for this user and nobody of theirs waits."""
        if user in self._queues or not self.seats.take(user):
            return False
        self.dispatched += 1
        return True

    async def wait(self, user: str) -> None:
        """Wait for a seat. Raises TooMany when a user has too much waiting already."""
        if not self.waiting.take(user):
            self.refused += 1
            raise TooMany
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(user, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(user)
            else:
                self._forget(user, turn)
            raise
        finally:
            self.waiting.give_back(user)

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        """Hold a seat while the block runs. Raises TooMany."""
        if not self.take(user):
            await self.wait(user)
        try:
            yield
        finally:
            self.leave(user)

    def leave(self, user: str) -> None:
        """Give a seat back: the users who wait get it in turn."""
        self.seats.give_back(user)
        for waiting in list(self._queues) if self._queues else ():
            if self._next(waiting) and self.seats.take(waiting):
                queue = self._queues.pop(waiting)
                queue.popleft().set_result(None)
                self.dispatched += 1
                if queue:
                    self._queues[waiting] = queue

    def _next(self, user: str) -> bool:
        """Whether somebody still waits in the queue of a user; those who gave up are dropped from its front."""
        queue = self._queues[user]
        while queue and queue[0].done():
            queue.popleft()
        if not queue:
            del self._queues[user]
        return bool(queue)

    def _forget(self, user: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(user)
        if queue and turn in queue:
            queue.remove(turn)
            self._next(user)
