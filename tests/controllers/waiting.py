"""Waiting for controllers: for what they do now, and for what they do a moment later by the clock of the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

import msgspec

from moorage.api.meta import Data, Object
from moorage.client import Client, Informer, Informers
from moorage.client.clock import Clock, ManualClock
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.run import Controllers, prepare
from moorage.features import ALL_ON, Gates
from tests import plane

_TICK, _MOMENT = 0.02, 1.0
"""How far a clock is moved at each look, and at most in one wait: enough for back-offs and for changes that are
gathered, and for nothing that is seconds away."""
_PATIENCE = 120.0
"""Seconds after which somebody who never comes to rest is taken for broken."""


class _Actor(NamedTuple):
    """Somebody who does something when objects change."""

    informers: Informers
    is_idle: Callable[[], bool]
    clock: Clock


_actors: list[_Actor] = []


@contextmanager
def awaited(informers: Informers, is_idle: Callable[[], bool], clock: Clock) -> Iterator[None]:
    """While the block lasts, somebody is waited for by all who settle."""
    actor = _Actor(informers, is_idle, clock)
    _actors.append(actor)
    try:
        yield
    finally:
        _actors.remove(actor)


@asynccontextmanager
async def started(
    client: Client, clock: Clock | None, *made: Callable[[Context], Controller], gates: Gates = ALL_ON
) -> AsyncIterator[Controllers]:
    """Controllers that run while the block does, by a clock of the test's if there is one."""
    controllers = prepare(client, gates, made, clock=clock)
    await controllers.start()
    context = controllers.context
    try:
        with awaited(context.informers, lambda: controllers.is_idle, context.clock):
            yield controllers
    finally:
        await controllers.stop()


async def settle() -> None:
    """Run the event loop until everybody has seen every object as it is and has nothing left to do for now."""
    async with asyncio.timeout(_PATIENCE):
        while not all([await _is_settled(each) for each in _actors]):
            await asyncio.sleep(0)


async def read(client: Client, kind: str, name: str, namespace: str = "default", api_version: str = "v1") -> Data:
    """An object as it is when there is nothing left to do for now."""
    await settle()
    return await plane.read(client, kind, name, namespace, api_version)


async def read_all(client: Client, kind: str, namespace: str = "", api_version: str = "v1") -> list[Data]:
    """All objects of a kind as they are when there is nothing left to do for now."""
    await settle()
    return await plane.read_all(client, kind, namespace, api_version)


async def eventually(check: Callable[[], Awaitable[Any]]) -> Any:
    """Look until the answer is true; an AssertionError counts as not yet.

    When there is nothing left to do for now and the answer is still not true, a little time passes by the clocks of the
    test, a second at most in one wait.
    """
    left = _MOMENT

    async def look() -> Any:
        nonlocal left
        clocks = {each.clock for each in _actors if isinstance(each.clock, ManualClock)} if left > 0 else ()
        if clocks:
            await settle()
        problem: AssertionError | None = None
        try:
            if answer := await check():
                return answer
        except AssertionError as error:
            problem = error
        left -= _TICK
        for clock in clocks:
            clock.advance(_TICK)
        if problem is not None:
            raise problem
        return None

    return await plane.eventually(look)


async def _is_settled(actor: _Actor) -> bool:
    for informer in actor.informers:
        if not actor.is_idle() or not await _is_current(actor.informers.client, informer):
            return False
    return actor.is_idle()


async def _is_current(client: Client, informer: Informer[Any]) -> bool:
    stored = (msgspec.json.decode(item, type=Object) for item in (await client.list(informer.kind)).items)
    return {_revision(each) for each in stored} == {_revision(each) for each in informer}


def _revision(item: Object) -> tuple[str, str]:
    return item.metadata.uid, item.metadata.resource_version
