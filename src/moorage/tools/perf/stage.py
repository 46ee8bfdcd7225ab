"""Runs one workload: an API server with its store on disk, a scheduler, and the operations one after the other."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Object
from moorage.api.pod import Pod
from moorage.apiserver.run import APIServer, start
from moorage.client import ApiError, Client, Exists, Missing
from moorage.controllers.resourceclaims import PodClaims, ResourceClaims
from moorage.controllers.run import Make, prepare
from moorage.controllers.volumebinder import VolumeBinder
from moorage.scheduler.scheduler import Scheduler
from moorage.tools.perf.measure import Collector, Measurement, peak_memory
from moorage.tools.perf.objects import ObjectTemplate, with_claim
from moorage.tools.perf.operations import (
    Barrier,
    Churn,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    DeletePods,
    Operation,
    Sleep,
    StartCollectingMetrics,
    StopCollectingMetrics,
    UpdateAny,
    seconds_of,
)
from moorage.tools.perf.workloads import Plan

_NAMESPACE, _NODE, _POD = kinds.row("v1", "Namespace"), kinds.row("v1", "Node"), kinds.row("v1", "Pod")
_VOLUME, _CLAIM = kinds.row("v1", "PersistentVolume"), kinds.row("v1", "PersistentVolumeClaim")
_PRIORITY_CLASS = kinds.row("scheduling.k8s.io/v1", "PriorityClass")
_CSI_NODE = kinds.row("storage.k8s.io/v1", "CSINode")
_CONTROLLERS: dict[str, tuple[Make, ...]] = {
    "ResourceClaimTemplate": (PodClaims, ResourceClaims),
    "PersistentVolumeClaim": (VolumeBinder,),
}
"""Who must run once an object of a kind is made: nothing else would bring it to life."""
_AT_ONCE = 30
"""How many objects are on their way to the API server at a time, as in scheduler_perf."""
_TOLD_SECONDS, _LOOK_SECONDS = 0.25, 0.02
_REASON = 240
_PATIENCE = 60.0
"""Seconds without any pod placed after which the rest is given up."""

Data = dict[str, Any]
_head = msgspec.json.Decoder(Object).decode


class Failed(Exception):
    """A workload that did not come to its end: one sentence."""


class Progress(msgspec.Struct, tag="progress"):
    """How far a workload is."""

    operation: str
    done: int = 0
    total: int = 0
    placed: int = 0
    """Pods on nodes, all together."""


Tell = Callable[[Progress], None]


async def run(plan: Plan, tell: Tell) -> list[Measurement]:
    """Run a workload from an empty cluster to its end. Raises Failed."""
    with TemporaryDirectory(prefix="moorage-perf-") as folder:
        server = await start(Path(folder), "sqlite", plan.gates, "127.0.0.1", 0)
        try:
            async with _stage(plan, server) as stage:
                await stage.perform(tell)
        except ExceptionGroup as group:
            failures = group.subgroup(Failed)
            raise (_first(failures) if failures else _first(group)) from None
        finally:
            await server.stop(1)
    for each in stage.measurements:
        each.memory = peak_memory()
    return stage.measurements


@asynccontextmanager
async def _stage(plan: Plan, server: APIServer) -> AsyncIterator[Stage]:
    scheduler = Scheduler(server.client("moorage-scheduler"), plan.gates, plan.configuration)
    async with asyncio.TaskGroup() as tasks:
        stage = Stage(plan, server, scheduler, tasks)
        with server.measuring(scheduler.metrics.registry):
            stage.begin(scheduler.run())
            yield stage
            stage.end()


def _first(group: ExceptionGroup[Any]) -> Exception:
    error: Exception = group.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error


class Stage:
    """A cluster without kubelets, and the operations that happen in it."""

    def __init__(self, plan: Plan, server: APIServer, scheduler: Scheduler, tasks: asyncio.TaskGroup) -> None:
        self.plan = plan
        self.measurements: list[Measurement] = []
        self._server = server
        self._client: Client = server.client("moorage-perf")
        self._tasks = tasks
        self._begun: list[asyncio.Task[Any]] = []
        self._pods = scheduler.handle.informers.of(Pod)
        self._pods.on_change(self._pod_changed)
        self._news = asyncio.Event()
        self._assigned: Counter[str] = Counter()
        """Pods on nodes, by namespace."""
        self._expected: Counter[str] = Counter()
        """Pods that a barrier would wait for, by namespace."""
        self._namespaces: set[str] = set()
        self._priorities: set[int] = set()
        self._running: set[tuple[Make, ...]] = set()
        self._collector: Collector | None = None
        self._steady: asyncio.Queue[str] | None = None
        self._steady_namespace = ""
        self._progress = Progress("start")
        self._number = 0
        self._performers: dict[type[Operation], Callable[[Any], Awaitable[None]]] = {
            CreateNamespaces: self._create_namespaces,
            CreateNodes: self._create_nodes,
            CreatePods: self._create_pods,
            DeletePods: self._delete_pods,
            Churn: self._churn,
            Barrier: self._barrier,
            Sleep: self._sleep,
            CreateAny: self._create_any,
            UpdateAny: self._update_any,
            StartCollectingMetrics: self._start_collecting,
            StopCollectingMetrics: self._stop_collecting,
        }

    def begin(self, work: Any) -> None:
        """Let something happen beside everything else."""
        self._begun.append(self._tasks.create_task(work))

    def end(self) -> None:
        """Stop what happens beside."""
        for task in self._begun:
            task.cancel()

    async def perform(self, tell: Tell) -> None:
        """All operations, one after the other."""
        self.begin(self._tell(tell))
        await self._pods.synced.wait()
        for number, operation in enumerate(self.plan.operations):
            self._number = number
            name = operation.__struct_config__.tag
            self._progress = Progress(str(name), 0, getattr(operation, "count", 0))
            try:
                await self._performers[type(operation)](operation)
            except ApiError as error:
                raise Failed(f"{self.plan.name}: operation {self._number} ({name}): {error}") from None

    async def _tell(self, tell: Tell) -> None:
        while True:
            self._progress.placed = self._assigned.total()
            tell(self._progress)
            await asyncio.sleep(_TOLD_SECONDS)

    # -- pods as the scheduler sees them ------------------------------------------------------------------------

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._news.set()
        was, now = bool(old and old.spec.node_name), bool(new and new.spec.node_name)
        pod = new or old
        if was == now or pod is None:
            return
        metadata = pod.metadata
        self._assigned[metadata.namespace] += now - was
        if now and self._collector is not None:
            self._collector.bound(metadata.namespace, metadata.name, metadata.labels)
        if now and self._steady is not None and metadata.namespace == self._steady_namespace:
            self._steady.put_nowait(metadata.name)

    async def _until(self, has: Callable[[], int], wanted: int) -> None:
        """Wait until there are so many; give up when nothing happens any more."""
        while has() < wanted:
            self._news.clear()
            try:
                async with asyncio.timeout(_PATIENCE):
                    await self._news.wait()
            except TimeoutError:
                raise Failed(f"{self.plan.name}: {wanted - has():,} pods are not placed{self._why()}") from None
            await asyncio.sleep(_LOOK_SECONDS)

    def _why(self) -> str:
        for pod in self._pods:
            for condition in pod.status.conditions:
                if not pod.spec.node_name and condition.type == "PodScheduled":
                    return f", {pod.metadata.namespace}/{pod.metadata.name} for one: {condition.message[:_REASON]}"
        return ""

    # -- making things ------------------------------------------------------------------------------------------

    async def _each(self, work: Callable[[int, Data], Awaitable[None]], objects: Iterable[Data]) -> None:
        """Do something with each object, with several at a time."""
        waiting = zip(count(), objects, strict=False)

        async def worker() -> None:
            for index, each in waiting:
                await work(index, each)
                self._progress.done += 1

        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(_AT_ONCE):
                    workers.create_task(worker())
        except ExceptionGroup as group:
            raise _first(group) from None

    async def _ensure_namespace(self, name: str) -> None:
        if name not in self._namespaces:
            self._namespaces.add(name)
            with suppress(Exists):
                await self._client.create(_NAMESPACE, {"metadata": {"name": name}})

    async def _with_class(self, pod: Data) -> Data:
        """A pod with the class of its priority: the API server takes no priority without one."""
        spec = pod["spec"]
        if spec.get("priority") is None or spec.get("priorityClassName"):
            return pod
        value = spec["priority"]
        name = f"priority-{value}".replace("--", "-minus-")
        if value not in self._priorities:
            self._priorities.add(value)
            await self._client.create(_PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
        rest = {field: found for field, found in spec.items() if field != "priority"}
        return {**pod, "spec": {**rest, "priorityClassName": name}}

    async def _create(self, kind: Kind, data: Data, namespace: str) -> str:
        """Make an object; a node is ready at once, as if its kubelet had said so. Returns its name."""
        if kind is _POD:
            data = await self._with_class(data)
        name = _head(await self._client.create(kind, data, namespace)).metadata.name
        if kind is _NODE:
            taints = (data.get("spec") or {}).get("taints") or None
            with suppress(Missing):
                await self._client.patch(_NODE, "", name, {"spec": {"taints": taints}})
        return name

    async def _ensure_controllers(self, kind: Kind) -> None:
        made = _CONTROLLERS.get(kind.kind, ())
        if made and made not in self._running:
            self._running.add(made)
            self.begin(prepare(self._server.client("moorage-controllers"), self.plan.gates, made).run())

    async def _create_namespaces(self, operation: CreateNamespaces) -> None:
        async def create(_: int, data: Data) -> None:
            self._namespaces.add(data["metadata"]["name"])
            with suppress(Exists):
                await self._client.create(_NAMESPACE, data)

        path = operation.namespace_template_path
        await self._each(create, self.plan.objects.namespaces(operation.prefix, operation.count, path))

    async def _create_nodes(self, operation: CreateNodes) -> None:
        strategy = operation.node_allocatable_strategy

        async def create(_: int, data: Data) -> None:
            name = await self._create(_NODE, data, "")
            if strategy is not None:
                drivers = [
                    {"name": driver, "nodeID": name, "allocatable": room}
                    for driver, room in strategy.csi_node_allocatable.items()
                ]
                migrated = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(strategy.migrated_plugins)}
                metadata = {"name": name, "annotations": migrated}
                await self._client.create(_CSI_NODE, {"metadata": metadata, "spec": {"drivers": drivers}})

        await self._each(create, self.plan.objects.nodes(operation, f"node-{self._number}-"))

    async def _create_any(self, operation: CreateAny) -> None:
        template = self.plan.objects.template(operation.template_path)
        if operation.namespace:
            await self._ensure_namespace(operation.namespace)

        async def create(_: int, data: Data) -> None:
            kind = template.kind_of(data)
            await self._ensure_controllers(kind)
            await self._create(kind, data, operation.namespace)

        await self._each(
            create,
            (template.made(index, operation.count, operation.template_params) for index in range(operation.count)),
        )

    async def _update_any(self, operation: UpdateAny) -> None:
        template = self.plan.objects.template(operation.template_path)
        ticks = _ticks(operation.update_per_second)
        for index in range(operation.count):
            await anext(ticks)
            data = template.made(index, operation.count)
            if operation.namespace:
                data = {**data, "metadata": {**data["metadata"], "namespace": operation.namespace}}
            kind = template.kind_of(data)
            await self._client.update(kind, data, subresource="/".join(operation.subresources))
            if "status" in data:
                await self._client.update(kind, data, subresource="status")
            self._progress.done += 1

    # -- pods ---------------------------------------------------------------------------------------------------

    async def _create_pods(self, operation: CreatePods) -> None:
        namespace = operation.namespace or f"namespace-{self._number}"
        await self._ensure_namespace(namespace)
        # Templates are filled in beforehand, so that only the cluster's work is measured.
        pods = [await self._with_class(pod) for pod in self.plan.objects.pods(operation)]
        if operation.collect_metrics:
            self._collect(namespace, [namespace])
        if operation.steady_state:
            await self._steadily(operation, namespace, pods)
        else:
            await self._each(self._creator(operation, namespace), pods)
            if operation.skip_wait_to_completion:
                self._expected[namespace] += operation.count
            else:
                await self._until(lambda: self._assigned[namespace], operation.count)
        if operation.collect_metrics:
            self._collected()

    def _creator(self, operation: CreatePods, namespace: str) -> Callable[[int, Data], Awaitable[None]]:
        async def create(_: int, data: Data) -> None:
            name = _head(await self._client.create(_POD, data, namespace)).metadata.name
            if self._collector is not None:
                self._collector.created(namespace, name)

        async def create_with_volume(index: int, data: Data) -> None:
            volume, claim = self.plan.objects.volume(operation, namespace, index)
            for kind, made, where in ((_CLAIM, claim, namespace), (_VOLUME, volume, "")):
                name = _head(await self._client.create(kind, made, where)).metadata.name
                await self._client.patch(kind, where, name, {"status": {"phase": "Bound"}}, subresource="status")
            await create(index, with_claim(data, index))

        return create_with_volume if operation.persistent_volume_template_path else create

    async def _steadily(self, operation: CreatePods, namespace: str, pods: list[Data]) -> None:
        """Follow each pod that is placed by another, until the time is up."""
        self._steady, self._steady_namespace = asyncio.Queue(), namespace
        create = self._creator(operation, namespace)

        async def replace() -> None:
            assert self._steady is not None
            while True:
                name = await self._steady.get()
                await self._client.delete(_POD, namespace, name, grace=0)
                await create(0, pods[0])
                self._progress.done += 1

        with suppress(TimeoutError):
            async with asyncio.timeout(seconds_of(operation.duration)), asyncio.TaskGroup() as workers:
                await self._each(create, pods)
                for _ in range(_AT_ONCE):
                    workers.create_task(replace())
        self._steady = None

    async def _delete_pods(self, operation: DeletePods) -> None:
        work = self._deleted(operation)
        if operation.skip_wait_to_completion:
            self.begin(work)
        else:
            await work

    async def _deleted(self, operation: DeletePods) -> None:
        names = [pod.metadata.name for pod in self._matching(operation.namespace, operation.label_selector)]
        ticks = _ticks(operation.delete_pods_per_second)
        for name in names:
            await anext(ticks)
            with suppress(Missing):
                await self._client.delete(_POD, operation.namespace, name)

    def _matching(self, namespace: str, labels: dict[str, str]) -> list[Pod]:
        return [
            pod
            for pod in self._pods
            if pod.metadata.namespace == namespace and labels.items() <= pod.metadata.labels.items()
        ]

    async def _barrier(self, operation: Barrier) -> None:
        for namespace in operation.namespaces or list(self._expected):
            wanted = self._expected[namespace]
            is_enough = _is_attempted if operation.stage_requirement == "Attempted" else _is_placed
            await self._until(partial(self._count, is_enough, namespace, operation.label_selector), wanted)
            if is_enough is _is_placed:
                del self._expected[namespace]

    def _count(self, is_enough: Callable[[Pod], bool], namespace: str, labels: dict[str, str]) -> int:
        return sum(map(is_enough, self._matching(namespace, labels)))

    # -- the rest -----------------------------------------------------------------------------------------------

    async def _sleep(self, operation: Sleep) -> None:
        await asyncio.sleep(seconds_of(operation.duration))

    async def _churn(self, operation: Churn) -> None:
        namespace = operation.namespace or f"namespace-{self._number}"
        await self._ensure_namespace(namespace)
        templates = [self.plan.objects.template(path) for path in operation.template_paths]
        self.begin(self._churning(operation, namespace, templates))

    async def _churning(self, operation: Churn, namespace: str, templates: list[ObjectTemplate]) -> None:
        kept: list[list[tuple[Kind, str]]] = [[] for _ in range(operation.number)]
        turns = count() if operation.mode == "recreate" or not operation.number else range(operation.number)
        for turn in turns:
            await asyncio.sleep(operation.interval_milliseconds / 1e3)
            here = kept[turn % len(kept)] if operation.mode == "recreate" else []
            if here:
                for kind, name in here:
                    with suppress(Missing):
                        await self._client.delete(kind, namespace if kind.namespaced else "", name)
                here.clear()
                continue
            for template in templates:
                data = template.made(turn)
                kind = template.kind_of(data)
                with suppress(Exists):
                    here.append((kind, await self._create(kind, data, namespace if kind.namespaced else "")))

    async def _start_collecting(self, operation: StartCollectingMetrics) -> None:
        self._collect(operation.name, operation.namespaces, operation.label_selector)

    async def _stop_collecting(self, _: StopCollectingMetrics) -> None:
        self._collected()

    def _collect(self, name: str, namespaces: list[str], labels: dict[str, str] | None = None) -> None:
        if self._collector is not None:
            raise Failed(f"{self.plan.name}: operation {self._number} measures while another measurement goes on")
        gc.collect()
        self._collector = Collector(f"{self.plan.name}/{name}", namespaces, labels)

    def _collected(self) -> None:
        if self._collector is None:
            raise Failed(f"{self.plan.name}: operation {self._number} ends a measurement that was never begun")
        self.measurements.append(self._collector.measured())
        self._collector = None


def _is_placed(pod: Pod) -> bool:
    return bool(pod.spec.node_name)


def _is_attempted(pod: Pod) -> bool:
    return _is_placed(pod) or any(each.type == "PodScheduled" for each in pod.status.conditions)


async def _ticks(per_second: int) -> AsyncIterator[None]:
    """So many moments a second; without pause when it is 0."""
    begun = time.monotonic()
    for number in count(1):
        if per_second:
            await asyncio.sleep(begun + number / per_second - time.monotonic())
        yield
