"""All controllers of a process: started together, stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from moorage.client import Client, Informers
from moorage.client.clock import Clock
from moorage.client.events import Recorder
from moorage.controllers.controller import Context, Controller
from moorage.controllers.cronjob import CronJobs
from moorage.controllers.daemonset import DaemonSets
from moorage.controllers.deployment import DeploymentController
from moorage.controllers.devicetaints import DeviceTaintEviction
from moorage.controllers.disruption import Disruption
from moorage.controllers.ephemeralvolumes import EphemeralVolumes
from moorage.controllers.garbage import GarbageCollector
from moorage.controllers.job import Jobs
from moorage.controllers.namespaces import Namespaces
from moorage.controllers.nodelifecycle import NodeLifecycle
from moorage.controllers.podgc import PodGC
from moorage.controllers.protection import ClaimProtection, VolumeProtection
from moorage.controllers.provisioner import Provisioner
from moorage.controllers.replicaset import ReplicaSetController, ReplicationControllers
from moorage.controllers.resourceclaims import PodClaims, ResourceClaims
from moorage.controllers.serviceaccounts import ServiceAccounts
from moorage.controllers.staledisruptions import StaleDisruptions
from moorage.controllers.statefulset import StatefulSets
from moorage.controllers.tainteviction import TaintEviction
from moorage.controllers.volumebinder import VolumeBinder
from moorage.features import Gates

Make = Callable[[Context], Controller]

CONTROLLERS: tuple[Make, ...] = (
    TaintEviction, DeviceTaintEviction, NodeLifecycle, PodGC,
    DeploymentController, ReplicaSetController, ReplicationControllers, StatefulSets, DaemonSets, Jobs, CronJobs,
    GarbageCollector, Namespaces, ServiceAccounts,
    PodClaims, ResourceClaims, EphemeralVolumes, VolumeBinder, Provisioner, ClaimProtection, VolumeProtection,
    Disruption, StaleDisruptions,
)  # fmt: skip
"""Everything that a cluster needs whose nodes are real."""


class Controllers:
    """Controllers that run."""

    def __init__(self, context: Context, controllers: Sequence[Controller]) -> None:
        self.context = context
        self.controllers = controllers
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Work until cancelled; one that fails ends all."""
        try:
            await self.start()
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await self.stop()

    async def start(self) -> None:
        """Read everything once, then begin."""
        self._tasks.append(asyncio.create_task(self.context.recorder.run(), name="events of controllers"))
        await self.context.informers.start()
        for each in self.controllers:
            self._tasks.append(asyncio.create_task(each.run(), name=each.name))

    async def stop(self) -> None:
        """End all."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.context.informers.stop()


def prepare(
    client: Client, gates: Gates, made: Sequence[Make] = CONTROLLERS, *, clock: Clock | None = None
) -> Controllers:
    """Controllers that are ready to be started."""
    clock = clock or Clock()
    context = Context(client, Informers(client), Recorder(client, "moorage-controllers", clock), gates, clock)
    return Controllers(context, [make(context) for make in made])
