"""All controllers of a process: started together, stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from moorage.api.labels import LabelMatcher
from moorage.client import Client, Informers
from moorage.client.clock import Clock
from moorage.client.events import Recorder
from moorage.client.rights import Right
from moorage.componentmetrics import expose_gates
from moorage.controllers.cluster.disruption import Disruption
from moorage.controllers.cluster.garbage import GarbageCollector
from moorage.controllers.cluster.namespaces import Namespaces
from moorage.controllers.cluster.resourcequotas import ResourceQuotas
from moorage.controllers.cluster.serviceaccounts import ServiceAccounts
from moorage.controllers.cluster.staledisruptions import StaleDisruptions
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.frame.pods import POD
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

BY_NAME: Mapping[str, tuple[Make, ...]] = {
    "taint-eviction-controller": (TaintEviction,),
    "device-taint-eviction-controller": (DeviceTaintEviction,),
    "node-lifecycle-controller": (NodeLifecycle,),
    "pod-garbage-collector-controller": (PodGC,),
    "deployment-controller": (DeploymentController,),
    "replicaset-controller": (ReplicaSetController,),
    "replicationcontroller-controller": (ReplicationControllers,),
    "statefulset-controller": (StatefulSets,),
    "daemonset-controller": (DaemonSets,),
    "job-controller": (Jobs,),
    "cronjob-controller": (CronJobs,),
    "garbage-collector-controller": (GarbageCollector,),
    "namespace-controller": (Namespaces,),
    "serviceaccount-controller": (ServiceAccounts,),
    "resourceclaim-controller": (PodClaims, ResourceClaims),
    "ephemeral-volume-controller": (EphemeralVolumes,),
    "persistentvolume-binder-controller": (VolumeBinder, Provisioner),
    "persistentvolumeclaim-protection-controller": (ClaimProtection,),
    "persistentvolume-protection-controller": (VolumeProtection,),
    "disruption-controller": (Disruption, StaleDisruptions),
    "resourcequota-controller": (ResourceQuotas,),
}
"""What can be turned on and off, by the names of kube-controller-manager."""
CONTROLLERS: tuple[Make, ...] = tuple(make for makes in BY_NAME.values() for make in makes)
"""Everything that a cluster needs whose nodes are real."""
ROOT_CA = "root-ca-certificate-publisher-controller"
"""One more, which is made for a certificate."""
EVICTION = ("taint-eviction-controller", "device-taint-eviction-controller")
"""What runs beside a kube-controller-manager, which has all others."""
EVICTION_RIGHTS = (Right("delete", POD), Right("patch", POD, "status"))
_SUFFIX, _ALL = "-controller", "*"
_ALIASES = {
    "nodelifecycle": "node-lifecycle-controller",
    "podgc": "pod-garbage-collector-controller",
    "garbagecollector": "garbage-collector-controller",
    "resource-claim-controller": "resourceclaim-controller",
    "pvc-protection": "persistentvolumeclaim-protection-controller",
    "pv-protection": "persistentvolume-protection-controller",
    "root-ca-cert-publisher": ROOT_CA,
}
"""Names that kube-controller-manager used to have, where they are more than the suffix left out."""


class UnknownController(ValueError):
    """A name that no controller has."""


def selected(texts: Sequence[str]) -> frozenset[str]:
    """The names of controllers that are on, for a list as kube-controller-manager takes it: `*`, `foo`, `-foo`.

    What is named first holds. Raises UnknownController.
    """
    verdicts: dict[str, bool] = {}
    for text in texts:
        if text != _ALL:
            verdicts.setdefault(_known(text.removeprefix("-")), not text.startswith("-"))
    return frozenset(name for name in (*BY_NAME, ROOT_CA) if verdicts.get(name, _ALL in texts))


def _known(text: str) -> str:
    name = _ALIASES.get(text, text)
    for each in (name, name + _SUFFIX):
        if each in BY_NAME or each == ROOT_CA:
            return each
    raise UnknownController(f"there is no controller {text!r}: known are {', '.join((*BY_NAME, ROOT_CA))}")


class Controllers:
    """Controllers that run."""

    def __init__(self, context: Context, controllers: Sequence[Controller]) -> None:
        self.context = context
        self.controllers = controllers
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_idle(self) -> bool:
        """Whether no controller has anything to do until an object changes or a timer ends."""
        return self.context.gradual.is_idle and all(each.is_idle for each in self.controllers)

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
    kubelet_gates: Gates | None = None,
    clock: Clock | None = None,
    attached: bool = False,
    rule_namespaces: LabelMatcher | None = None,
) -> Controllers:
    """Controllers that are ready to be started; `attached` when another controller manager evicts pods as well.

    `kubelet_gates` are those of hollow kubelets among them.
    """
    clock = clock or Clock()
    recorder = Recorder(client, "moorage-controllers", clock)
    context = Context(
        client, Informers(client), recorder, gates, clock, attached=attached, rule_namespaces=rule_namespaces
    )
    expose_gates(context.registry, gates, kubelet_gates)
    return Controllers(context, [make(context) for make in constructors])
