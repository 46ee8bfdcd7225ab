"""A whole control plane in one process: the API server, the scheduler, the controllers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from moorage.apiserver.run import APIServer, start
from moorage.client import Client
from moorage.features import NONE_ON, Gates
from moorage.scheduler.config import Configuration
from moorage.scheduler.scheduler import Scheduler
from moorage.store import EtcdFiles

_LOG = logging.getLogger(__name__)
_RESTART_SECONDS = 1.0


@dataclass(slots=True)
class Settings:
    """What a control plane is told to be."""

    directory: Path
    store: str = "sqlite"
    bind: str = "127.0.0.1"
    port: int = 6443
    apiserver_gates: Gates = NONE_ON
    scheduler_gates: Gates = NONE_ON
    controllers_gates: Gates = NONE_ON
    etcd_files: EtcdFiles = (None, None, None)
    scheduling: Configuration = field(default_factory=Configuration)


class ControlPlane:
    """A control plane that runs."""

    def __init__(self, server: APIServer) -> None:
        self.server = server
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def start(cls, settings: Settings) -> ControlPlane:
        """Start everything. Raises CannotStart when the API server cannot."""
        server = await start(
            settings.directory, settings.store, settings.apiserver_gates, settings.bind, settings.port,
            etcd_files=settings.etcd_files,
        )  # fmt: skip
        plane = cls(server)

        async def schedule(client: Client) -> None:
            scheduler = Scheduler(client, settings.scheduler_gates, settings.scheduling)
            with server.measuring(scheduler.metrics.registry):
                await scheduler.run()

        plane.run("moorage-scheduler", schedule)
        return plane

    def run(self, component: str, work: Callable[[Client], Awaitable[None]]) -> None:
        """Keep a component running: one that fails is started anew, with the failure in the log."""

        async def kept() -> None:
            while True:
                try:
                    await work(self.server.client(component))
                except Exception:  # noqa: BLE001 - the log has it, and the others go on
                    _LOG.exception("%s failed and is started again", component)
                await asyncio.sleep(_RESTART_SECONDS)

        self._tasks.append(asyncio.create_task(kept(), name=component))

    async def stop(self) -> None:
        """Stop everything, the API server last."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        await self.server.stop()
