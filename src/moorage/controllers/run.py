"""All controllers of a process: started together, stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from moorage.api.labels import LabelMatcher
from moorage.client import Client, Informers
from moorage.client.clock import Clock
from moorage.client.events import Recorder
from moorage.componentmetrics import expose_gates
from moorage.controllers.cluster.disruption import Disruption
from moorage.controllers.cluster.garbage import GarbageCollector
from moorage.controllers.cluster.namespaces import Namespaces
from moorage.controllers.cluster.resourcequotas import ResourceQuotas
from moorage.controllers.cluster.serviceaccounts import ServiceAccounts
from moorage.controllers.cluster.staledisruptions import StaleDisruptions
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.nodes.devicetaints import DeviceTaintEviction
from moorage.controllers.nodes.lifecycle import NodeLifecycle
from moorage.controllers.nodes.podgc import PodGC
from moorage.controllers.nodes.tainteviction import TaintEviction
from moorage.controllers.storage.ephemeralvolumes import EphemeralVolumes
from moorage.controllers.storage.protection import ClaimProtection, VolumeProtection
from moorage.controllers.storage.provisioner import Provisioner
from moorage.controllers.storage.resourceclaims import PodClaims, ResourceClaims
from moorage.controllers.storage.volumebinder import VolumeBinder
from moorage.controllers.workloads.cronjob import CronJobs
from moorage.controllers.workloads.daemonset import DaemonSets
from moorage.controllers.workloads.deployment import DeploymentController
from moorage.controllers.workloads.job import Jobs
from moorage.controllers.workloads.replicaset import ReplicaSetController, ReplicationControllers
from moorage.controllers.workloads.statefulset import StatefulSets
from moorage.features import Gates

Make = Callable[[Context], Controller]

CONTROLLERS: tuple[Make, ...] = (
    TaintEviction, DeviceTaintEviction, NodeLifecycle, PodGC,
    DeploymentController, ReplicaSetController, ReplicationControllers, StatefulSets, DaemonSets, Jobs, CronJobs,
    GarbageCollector, Namespaces, ServiceAccounts,
    PodClaims, ResourceClaims, EphemeralVolumes, VolumeBinder, Provisioner, ClaimProtection, VolumeProtection,
    Disruption, StaleDisruptions, ResourceQuotas,
)  # fmt: skip
"""Everything that a cluster needs whose nodes are real."""


class Controllers:
    """Controllers that run."""

    def __init__(self, context: Context, controllers: Sequence[Controller]) -> None:
        self.context = context
        self.controllers = controllers
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_idle(self) -> bool:
        """Whether no controller has anything to do until an object changes or a timer ends."""
        return all(each.is_idle for each in self.controllers)

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
    client: Client,
    gates: Gates,
    constructors: Sequence[Make] = CONTROLLERS,
    *,
    clock: Clock | None = None,
    attached: bool = False,
    rule_namespaces: LabelMatcher | None = None,
) -> Controllers:
    """Controllers that are ready to be started; `attached` when another controller manager evicts pods as well."""
    clock = clock or Clock()
    recorder = Recorder(client, "moorage-controllers", clock)
    context = Context(
        client, Informers(client), recorder, gates, clock, attached=attached, rule_namespaces=rule_namespaces
    )
    expose_gates(context.registry, gates)
    return Controllers(context, [make(context) for make in constructors])
