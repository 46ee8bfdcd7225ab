"""All controllers of a process: started together, stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from moorage.client import Client, Informers
from moorage.client.clock import Clock
from moorage.client.events import Recorder
from moorage.controllers.controller import Context, Controller
from moorage.features import Gates

CONTROLLERS: tuple[Callable[[Context], Controller], ...] = ()


class Controllers:
    """Controllers that run."""

    def __init__(self, context: Context, controllers: Sequence[Controller]) -> None:
        self.context = context
        self.controllers = controllers
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Read everything once, then begin."""
        self._tasks.append(asyncio.create_task(self.context.recorder.run(), name="events of controllers"))
        await self.context.informers.start()
        for each in self.controllers:
            self._tasks.append(asyncio.create_task(each.run(), name=each.name))

    async def run(self) -> None:
        """Work until cancelled; one that fails ends all."""
        try:
            await self.start()
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await self.stop()

    async def stop(self) -> None:
        """End all."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.context.informers.stop()


def prepare(
    client: Client,
    gates: Gates,
    made: Sequence[Callable[[Context], Controller]] = CONTROLLERS,
    *,
    clock: Clock | None = None,
) -> Controllers:
    """Controllers that are ready to be started."""
    clock = clock or Clock()
    context = Context(client, Informers(client), Recorder(client, "moorage-controllers", clock), gates, clock)
    return Controllers(context, [make(context) for make in made])
