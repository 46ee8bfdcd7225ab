"""A cluster without kubelets: an API server with its store on disk, a scheduler, and what a workload needs besides."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Data, Object
from moorage.api.pod import Pod
from moorage.apiserver.run import APIServer, start
from moorage.client import Exists, Missing
from moorage.client.priority import urgent
from moorage.controllers.run import Make, prepare
from moorage.controllers.storage.resourceclaims import PodClaims, ResourceClaims
from moorage.controllers.storage.volumebinder import VolumeBinder
from moorage.scheduler.scheduler import Scheduler
from moorage.tools.perf.workloads import WorkloadPlan

NAMESPACE, NODE, POD = kinds.row("v1", "Namespace"), kinds.row("v1", "Node"), kinds.row("v1", "Pod")
_PRIORITY_CLASS = kinds.row("scheduling.k8s.io/v1", "PriorityClass")
_CLAIMS: tuple[Make, ...] = (PodClaims, ResourceClaims)
_CONTROLLERS: dict[str, tuple[Make, ...]] = {
    "ResourceClaim": _CLAIMS,
    "ResourceClaimTemplate": _CLAIMS,
    "PersistentVolumeClaim": (VolumeBinder,),
}
"""Who must run once an object of a kind is made: nothing else would bring it to life."""
AT_ONCE = 30
"""How many objects are on their way to the API server at a time, as in scheduler_perf."""
_LOOK_SECONDS = 0.02
_REASON = 240
_PATIENCE = 60.0
"""Seconds without any news of pods after which the rest is given up."""

_head = msgspec.json.Decoder(Object).decode


class Failed(Exception):
    """A workload that did not come to its end: one sentence."""


def first(group: ExceptionGroup[Any]) -> Exception:
    """The first of the errors that happened at the same time."""
    error: Exception = group.exceptions[0]
    return first(error) if isinstance(error, ExceptionGroup) else error


@asynccontextmanager
async def running(plan: WorkloadPlan) -> AsyncIterator[PerfCluster]:
    """A new cluster, until it is no longer needed."""
    with TemporaryDirectory(prefix="moorage-perf-") as folder:
        server = await start(Path(folder), "sqlite", plan.gates, "127.0.0.1", 0)
        try:
            scheduler = Scheduler(server.client("moorage-scheduler"), plan.gates, plan.configuration)
            async with asyncio.TaskGroup() as tasks:
                cluster = PerfCluster(plan, server, scheduler, tasks)
                with server.measuring(scheduler.metrics.registry):
                    cluster.begin(scheduler.run())
                    await cluster.pods.synced.wait()
                    yield cluster
                    cluster.end()
        finally:
            await server.stop(1)


class PerfCluster:
    """What is in a cluster, and what happens there beside the operations of a workload."""

    def __init__(self, plan: WorkloadPlan, server: APIServer, scheduler: Scheduler, tasks: asyncio.TaskGroup) -> None:
        self.client = server.client("moorage-perf")
        self.handle = scheduler.handle
        """What the scheduler knows."""
        self.registry = scheduler.metrics.registry
        """What the scheduler counts."""
        self.pods = self.handle.informers.of(Pod)
        self.pods.on_change(self._pod_changed)
        self.assigned: Counter[str] = Counter()
        """Pods on nodes, by namespace."""
        self.on_placed: Callable[[Pod], None] = lambda _: None
        """Called when a pod is on a node."""
        self.plan = plan
        self._server = server
        self._tasks = tasks
        self._begun: list[asyncio.Task[None]] = []
        self._news = asyncio.Event()
        self._namespaces: set[str] = set()
        self._priorities: set[int] = set()
        self._running: set[tuple[Make, ...]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Let something happen beside everything else."""
        self._begun.append(self._tasks.create_task(work))

    def end(self) -> None:
        """Stop what happens beside."""
        for task in self._begun:
            task.cancel()

    # -- pods as the scheduler sees them ------------------------------------------------------------------------

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._news.set()
        was, now = bool(old and old.spec.node_name), bool(new and new.spec.node_name)
        pod = new or old
        if was == now or pod is None:
            return
        self.assigned[pod.metadata.namespace] += now - was
        if now:
            self.on_placed(pod)

    async def seen(self, struct: type[Object]) -> None:
        """Wait until the scheduler knows of all objects of a kind that are there."""
        informer = self.handle.informers.of(struct)
        if not informer.synced.is_set():
            return  # no plugin of this scheduler reads them
        listing = await self.client.list(informer.kind)
        revisions = (_head(item).metadata.resource_version for item in listing.items)
        newest = max(revisions, key=int, default="0")
        while not await informer.caught_up(newest):
            pass

    def matching(self, namespace: str, labels: dict[str, str]) -> list[Pod]:
        """The pods of a namespace with some labels."""
        return [
            pod
            for pod in self.pods
            if pod.metadata.namespace == namespace and labels.items() <= pod.metadata.labels.items()
        ]

    async def until(self, has: Callable[[], int], wanted: int) -> None:
        """Wait until there are so many pods of some sort; give up when nothing happens any more."""
        while has() < wanted:
            self._news.clear()
            try:
                async with asyncio.timeout(_PATIENCE):
                    await self._news.wait()
            except TimeoutError:
                raise Failed(f"{self.plan.name}: {wanted - has():,} pods are not placed{self._why()}") from None
            await asyncio.sleep(_LOOK_SECONDS)

    def _why(self) -> str:
        for pod in self.pods:
            for condition in pod.status.conditions:
                if not pod.spec.node_name and condition.type == "PodScheduled":
                    return f", {pod.metadata.namespace}/{pod.metadata.name} for one: {condition.message[:_REASON]}"
        return ""

    # -- making things ------------------------------------------------------------------------------------------

    async def each(self, work: Callable[[int, Data], Awaitable[None]], objects: Iterable[Data]) -> None:
        """Do something with each object and its number, with several at a time."""
        waiting = zip(count(), objects, strict=False)

        async def worker() -> None:
            for index, data in waiting:
                await work(index, data)

        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(AT_ONCE):
                    workers.create_task(worker())
        except ExceptionGroup as group:
            raise first(group) from None

    async def ensure_namespace(self, name: str, data: Data | None = None) -> None:
        """Make a namespace that is not there yet."""
        if name not in self._namespaces:
            self._namespaces.add(name)
            with suppress(Exists):
                await self.client.create(NAMESPACE, data or {"metadata": {"name": name}})

    async def create(self, kind: Kind, data: Data, namespace: str = "") -> str:
        """Make an object, and let those run who bring it to life. Returns its name."""
        made = _CONTROLLERS.get(kind.kind, ())
        if made and made not in self._running:
            self._running.add(made)
            self.begin(prepare(self._server.client("moorage-controllers"), self.plan.gates, made).run())
        if kind is POD:
            data = await self.with_class(data)
        name = _head(await self.client.create(kind, data, namespace)).metadata.name
        if kind is NODE:
            # A new node is tainted until its kubelet says that it is ready.
            taints = (data.get("spec") or {}).get("taints") or None
            with suppress(Missing):
                await self.client.patch(NODE, "", name, {"spec": {"taints": taints}})
        return name

    async def create_pod(self, data: Data, namespace: str) -> str:
        """Make a pod that is all that it should be, which `create` would see to. Returns its name."""
        with urgent():  # as for a client from outside, whose part is played here
            return _head(await self.client.create(POD, data, namespace)).metadata.name

    async def with_class(self, pod: Data) -> Data:
        """A pod with the class of its priority: the API server takes no priority without one."""
        spec = pod.get("spec") or {}
        if spec.get("priority") is None or spec.get("priorityClassName"):
            return pod
        value = spec["priority"]
        name = f"priority-{value}".replace("--", "-minus-")
        if value not in self._priorities:
            self._priorities.add(value)
            await self.client.create(_PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
        rest = {field: found for field, found in spec.items() if field != "priority"}
        return {**pod, "spec": {**rest, "priorityClassName": name}}
