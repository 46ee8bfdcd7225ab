"""Reads of the same thing at the same time, made once for all who ask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

AnswerT = TypeVar("AnswerT")


class SharedReads(Generic[AnswerT]):
    """Whoever asks while a read is under way waits for the next one, which is made once for all of them.

    A read that had begun before the question might not show what the asker knows to have been written.
    """

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Future[None]] = {}
        self._next: dict[Hashable, asyncio.Task[AnswerT]] = {}

    async def read(self, what: Hashable, read: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        """The answer of a read that begins now or later."""
        following = self._next.get(what)
        if following is None:
            under_way = self._under_way.get(what)
            if under_way is None:
                return await self._begin(what, read)
            following = self._next[what] = asyncio.create_task(self._follow(what, under_way, read))
            # Those who asked may all have gone when it fails.
            following.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            return await asyncio.shield(following)
        finally:
            del following  # an error holds this frame, and it the error

    async def _follow(
        self, what: Hashable, under_way: asyncio.Future[None], read: Callable[[], Awaitable[AnswerT]]
    ) -> AnswerT:
        await under_way
        del self._next[what]
        return await self._begin(what, read)

    async def _begin(self, what: Hashable, read: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        ended = self._under_way[what] = asyncio.get_running_loop().create_future()
        try:
            return await read()
        finally:
            del self._under_way[what]
            ended.set_result(None)
