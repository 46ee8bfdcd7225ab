"""A cluster without kubelets: an API server with its store on disk, a scheduler, and controllers where needed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
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
from moorage.client.errors import first_of
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
"""The controllers that are started once an object of a kind is created."""
AT_ONCE = 30
"""How many objects are on their way to the API server at a time, as in scheduler_perf."""
_LOOK_SECONDS = 0.02
_MAX_REASON = 240
_PATIENCE = 60.0
"""Seconds without a change of any pod after which waiting for more of them ends."""

_head = msgspec.json.Decoder(Object).decode


class Failed(Exception):
    """A workload that was not completed: one sentence."""


@asynccontextmanager
async def running(plan: WorkloadPlan) -> AsyncIterator[PerfCluster]:
    """A new cluster for the duration of a `with` block."""
    with TemporaryDirectory(prefix="moorage-perf-") as folder:
        server = await start(Path(folder), "sqlite", plan.gates, "127.0.0.1", 0)
        try:
            scheduler = Scheduler(server.client("moorage-scheduler"), plan.gates, plan.configuration)
            async with asyncio.TaskGroup() as tasks:
                cluster = PerfCluster(plan, server, scheduler, tasks)
                with server.measuring("scheduler", scheduler.metrics.registry):
                    cluster.begin(scheduler.run())
                    await cluster.pods.synced.wait()
                    yield cluster
                    cluster.end()
        finally:
            await server.stop(1)


class PerfCluster:
    """A running cluster, and the background tasks beside the operations of a workload."""

    def __init__(self, plan: WorkloadPlan, server: APIServer, scheduler: Scheduler, tasks: asyncio.TaskGroup) -> None:
        self.client = server.client("moorage-perf")
        self.handle = scheduler.handle
        """The scheduler's state: its informers and its node table."""
        self.registry = scheduler.metrics.registry
        """The scheduler's metrics."""
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
        """Start a background task."""
        self._begun.append(self._tasks.create_task(work))

    def end(self) -> None:
        """Cancel the background tasks."""
        for task in self._begun:
            task.cancel()

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
        """Wait until the scheduler's informer has all objects of a kind."""
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

    async def until(self, count: Callable[[], int], target: int) -> None:
        """Wait until a count of pods reaches a target. Raises Failed when no pod changes any more."""
        while count() < target:
            self._news.clear()
            try:
                async with asyncio.timeout(_PATIENCE):
                    await self._news.wait()
            except TimeoutError:
                raise Failed(f"{self.plan.name}: {target - count():,} pods are not placed{self._why()}") from None
            await asyncio.sleep(_LOOK_SECONDS)

    def _why(self) -> str:
        for pod in self.pods:
            for condition in pod.status.conditions:
                if not pod.spec.node_name and condition.type == "PodScheduled":
                    return f", {pod.metadata.namespace}/{pod.metadata.name} for one: {condition.message[:_MAX_REASON]}"
        return ""

    async def each(self, work: Callable[[int, Data], Awaitable[None]], objects: Iterable[Data]) -> None:
        """Await work for each object and its index, for several of them at a time."""
        remaining = enumerate(objects)

        async def worker() -> None:
            for index, data in remaining:
                await work(index, data)

        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(AT_ONCE):
                    workers.create_task(worker())
        except ExceptionGroup as group:
            raise first_of(group) from None

    async def ensure_namespace(self, name: str, data: Data | None = None) -> None:
        """Create a namespace, unless it exists."""
        if name not in self._namespaces:
            self._namespaces.add(name)
            with suppress(Exists):
                await self.client.create(NAMESPACE, data or {"metadata": {"name": name}})

    async def create(self, kind: Kind, data: Data, namespace: str = "") -> str:
        """Create an object, and start the controllers that it needs. Returns its name."""
        makers = _CONTROLLERS.get(kind.kind, ())
        if makers and makers not in self._running:
            self._running.add(makers)
            self.begin(prepare(self._server.client("moorage-controllers"), self.plan.gates, makers).run())
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
        """Create a pod that `with_class` has prepared. Returns its name."""
        with urgent():  # the priority of a request from a client outside of the process
            return _head(await self.client.create(POD, data, namespace)).metadata.name

    async def with_class(self, pod: Data) -> Data:
        """A pod with the class of its priority: the API server takes no priority without one."""
        spec = pod.get("spec") or {}
        if spec.get("priority") is None or spec.get("priorityClassName"):
            return pod
        priority = spec["priority"]
        name = f"priority-{priority}".replace("--", "-minus-")
        if priority not in self._priorities:
            self._priorities.add(priority)
            await self.client.create(_PRIORITY_CLASS, {"metadata": {"name": name}, "value": priority})
        rest = {field: value for field, value in spec.items() if field != "priority"}
        return {**pod, "spec": {**rest, "priorityClassName": name}}
