"""A scheduler on a real API server, with nodes that are ready, for tests to play on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.apiserver.run import APIServer
from moorage.client import Client
from moorage.client.clock import Clock
from moorage.features import ALL_ON, Gates
from moorage.scheduler.config import Configuration
from moorage.scheduler.scheduler import Scheduler
from tests.plane import Data, api_server, create, eventually, node, pod, read, read_all

NODE, POD = kinds.row("v1", "Node"), kinds.row("v1", "Pod")


class Stage:
    """What a test does and sees."""

    def __init__(
        self, server: APIServer, gates: Gates, configuration: Configuration, clock: Clock | None = None,
        way: Client | None = None,
    ) -> None:  # fmt: skip
        self.server = server
        self._way = way or server.client("scheduler")
        self.client: Client = server.client("test")
        self._gates, self._configuration, self._clock = gates, configuration, clock
        self.scheduler = self._made()
        self._task: asyncio.Task[None] | None = None

    def _made(self) -> Scheduler:
        return Scheduler(self._way, self._gates, self._configuration, clock=self._clock, seed=7)

    async def start(self) -> None:
        self._task = asyncio.create_task(self.scheduler.run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def restart(self, gates: Gates | None = None) -> None:
        await self.stop()
        self._gates = self._gates if gates is None else gates
        self.scheduler = self._made()
        await self.start()

    async def node(
        self, name: str, labels: dict[str, str] | None = None, taints: list[Data] | None = None, **room: str
    ) -> None:
        """A node without the taint that admission puts on new ones."""
        await create(self.client, node(name, labels, taints, **room))
        await self.taint(name, *(taints or ()))

    async def taint(self, name: str, *taints: Data) -> None:
        await self.client.patch(NODE, "", name, {"spec": {"taints": list(taints)}})

    async def pod(self, name: str, **given: Any) -> Data:
        return await create(self.client, pod(name, **given))

    async def node_of(self, name: str) -> str:
        """Where a pod was put; waits for it."""

        async def placed() -> str:
            return str((await read(self.client, "Pod", name))["spec"].get("nodeName", ""))

        return str(await eventually(placed))

    async def unschedulable(self, name: str, expected: str = "") -> str:
        """Why a pod was not placed; waits until somebody has said so (with these words)."""

        async def said() -> str:
            found = await read(self.client, "Pod", name)
            assert not found["spec"].get("nodeName")
            for each in found["status"].get("conditions") or ():
                if each["type"] == "PodScheduled" and each["status"] == "False" and expected in each["message"]:
                    return str(each["message"])
            return ""

        return str(await eventually(said))

    async def events(self, name: str) -> list[Data]:
        return [each for each in await read_all(self.client, "Event") if each["involvedObject"]["name"] == name]

    async def delete(self, name: str) -> None:
        await self.client.delete(POD, "default", name, grace=0)

    async def get(self, name: str) -> Data:
        data: Data = msgspec.json.decode(await self.client.get(POD, "default", name))
        return data


@asynccontextmanager
async def stage(
    directory: Path, gates: Gates = ALL_ON, configuration: Configuration | None = None, clock: Clock | None = None
) -> AsyncIterator[Stage]:
    async with api_server(directory, clock=clock) as server:
        here = Stage(server, gates, configuration or Configuration(), clock)
        await here.start()
        try:
            yield here
        finally:
            await here.stop()
