"""Runs one workload: its operations, one after the other, in a cluster of its own."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.client import ApiError, Exists, Missing
from moorage.client.errors import first_of
from moorage.tools.perf.cluster import NODE, POD, Failed, PerfCluster, running
from moorage.tools.perf.devices import give_devices, offer, without_devices
from moorage.tools.perf.histograms import Histograms
from moorage.tools.perf.measure import Collector, Measurement, peak_memory
from moorage.tools.perf.objects import ObjectTemplate, with_claim
from moorage.tools.perf.operations import (
    AllocResourceClaims,
    Barrier,
    Churn,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    CreateResourceClaims,
    CreateResourceDriver,
    DeletePods,
    Operation,
    Sleep,
    StartCollectingMetrics,
    StopCollectingMetrics,
    UpdateAny,
    seconds_of,
)
from moorage.tools.perf.workloads import WorkloadPlan

_VOLUME, _CLAIM = kinds.row("v1", "PersistentVolume"), kinds.row("v1", "PersistentVolumeClaim")
_CSI_NODE = kinds.row("storage.k8s.io/v1", "CSINode")
_REPORT_SECONDS = 0.25

Work = Callable[[int, Data], Awaitable[None]]


class Progress(msgspec.Struct, tag="progress"):
    """How far a workload has come."""

    operation: str
    done: int = 0
    total: int = 0
    placed: int = 0
    """Pods on nodes, of all operations."""


Report = Callable[[Progress], None]


async def run(plan: WorkloadPlan, report: Report) -> list[Measurement]:
    """Run a workload from an empty cluster to its end. Raises Failed."""
    try:
        async with running(plan) as cluster:
            workload = WorkloadRun(plan, cluster)
            await workload.perform(report)
    except ExceptionGroup as group:
        failures = group.subgroup(Failed)
        error = first_of(failures or group)
        raise Failed(f"{plan.name}: {error}") if isinstance(error, ApiError) else error from None
    for measurement in workload.measurements:
        measurement.memory = peak_memory()
    return workload.measurements


class WorkloadRun:
    """Performs the operations of a workload."""

    def __init__(self, plan: WorkloadPlan, cluster: PerfCluster) -> None:
        self.measurements: list[Measurement] = []
        self._plan, self._objects = plan, plan.objects
        self._cluster, self._client = cluster, cluster.client
        cluster.on_placed = self._placed
        self._expected: Counter[str] = Counter()
        """Pods that a barrier would wait for, by namespace."""
        self._collector: tuple[Collector, Histograms] | None = None
        self._steady: tuple[str, asyncio.Queue[str]] | None = None
        """The namespace of a steady state, and the names of its pods that were placed and are to be replaced."""
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
            CreateResourceDriver: self._create_driver,
            CreateResourceClaims: self._create_claims,
            AllocResourceClaims: self._alloc_claims,
            StartCollectingMetrics: self._start_collecting,
            StopCollectingMetrics: self._stop_collecting,
        }

    async def perform(self, report: Report) -> None:
        """Perform all operations in order."""
        self._cluster.begin(self._report(report))
        for number, operation in enumerate(self._plan.operations):
            self._number = number
            name = operation.__struct_config__.tag
            self._progress = Progress(str(name), 0, getattr(operation, "count", 0))
            try:
                await self._performers[type(operation)](operation)
            except ApiError as error:
                raise Failed(f"{self._plan.name}: operation {number} ({name}): {error}") from None

    async def _report(self, report: Report) -> None:
        while True:
            self._progress.placed = self._cluster.assigned.total()
            report(self._progress)
            await asyncio.sleep(_REPORT_SECONDS)

    def _placed(self, pod: Pod) -> None:
        metadata = pod.metadata
        if self._collector is not None:
            self._collector[0].bound(metadata.namespace, metadata.name, metadata.labels)
        if self._steady is not None and metadata.namespace == self._steady[0]:
            self._steady[1].put_nowait(metadata.name)

    async def _each(self, work: Work, objects: Iterable[Data]) -> None:
        async def counted(index: int, data: Data) -> None:
            await work(index, data)
            self._progress.done += 1

        await self._cluster.each(counted, objects)

    async def _create_namespaces(self, operation: CreateNamespaces) -> None:
        async def create(_: int, data: Data) -> None:
            await self._cluster.ensure_namespace(data["metadata"]["name"], data)

        path = operation.namespace_template_path
        await self._each(create, self._objects.namespaces(operation.prefix, operation.count, path))

    async def _create_nodes(self, operation: CreateNodes) -> None:
        strategy = operation.node_allocatable_strategy

        async def create(_: int, data: Data) -> None:
            name = await self._cluster.create(NODE, data)
            if strategy is not None:
                drivers = [
                    {"name": driver, "nodeID": name, "allocatable": room}
                    for driver, room in strategy.csi_node_allocatable.items()
                ]
                migrated = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(strategy.migrated_plugins)}
                metadata = {"name": name, "annotations": migrated}
                await self._client.create(_CSI_NODE, {"metadata": metadata, "spec": {"drivers": drivers}})

        await self._each(create, self._objects.nodes(operation, f"node-{self._number}-"))

    async def _create_any(self, operation: CreateAny) -> None:
        template = self._objects.template(operation.template_path)
        if operation.namespace:
            await self._cluster.ensure_namespace(operation.namespace)

        async def create(_: int, data: Data) -> None:
            await self._cluster.create(template.kind_of(data), data, operation.namespace)

        total, params = operation.count, operation.template_params
        await self._each(create, (template.render(index, total, params) for index in range(total)))

    async def _update_any(self, operation: UpdateAny) -> None:
        template = self._objects.template(operation.template_path)
        ticks = _ticks(operation.update_per_second)
        for index in range(operation.count):
            await anext(ticks)
            data = template.render(index, operation.count)
            if operation.namespace:
                data = {**data, "metadata": {**data["metadata"], "namespace": operation.namespace}}
            kind = template.kind_of(data)
            await self._client.update(kind, data, subresource="/".join(operation.subresources))
            if "status" in data:
                await self._client.update(kind, data, subresource="status")
            self._progress.done += 1

    async def _create_driver(self, operation: CreateResourceDriver) -> None:
        await offer(self._cluster, operation)

    async def _create_claims(self, operation: CreateResourceClaims) -> None:
        await self._create_any(CreateAny(operation.template_path, operation.namespace, operation.count))

    async def _alloc_claims(self, operation: AllocResourceClaims) -> None:
        claims = await without_devices(self._cluster, operation.namespace)
        self._progress.total = len(claims)
        for claim in claims:
            await give_devices(self._cluster, claim)
            self._progress.done += 1

    async def _churn(self, operation: Churn) -> None:
        namespace = operation.namespace or f"namespace-{self._number}"
        await self._cluster.ensure_namespace(namespace)
        templates = [self._objects.template(path) for path in operation.template_paths]
        self._cluster.begin(self._churning(operation, namespace, templates))

    async def _churning(self, operation: Churn, namespace: str, templates: list[ObjectTemplate]) -> None:
        is_recreating = operation.mode == "recreate"
        kept: list[list[tuple[Kind, str]]] = [[] for _ in range(operation.number)]
        for turn in count() if is_recreating or not operation.number else range(operation.number):
            await asyncio.sleep(operation.interval_milliseconds / 1e3)
            objects = kept[turn % len(kept)] if is_recreating else []
            if objects:
                for kind, name in objects:
                    with suppress(Missing):
                        await self._client.delete(kind, namespace if kind.namespaced else "", name)
                objects.clear()
                continue
            for template in templates:
                data = template.render(turn)
                kind = template.kind_of(data)
                with suppress(Exists):
                    name = await self._cluster.create(kind, data, namespace if kind.namespaced else "")
                    objects.append((kind, name))

    async def _create_pods(self, operation: CreatePods) -> None:
        namespace = operation.namespace or f"namespace-{self._number}"
        await self._cluster.ensure_namespace(namespace)
        # Templates are filled in beforehand, so that only the cluster's work is measured.
        pods = [await self._cluster.with_class(pod) for pod in self._objects.pods(operation)]
        if operation.collect_metrics:
            self._collect(namespace, [namespace])
        if operation.steady_state:
            await self._steadily(operation, namespace, pods)
        else:
            await self._each(self._creator(operation, namespace), pods)
            if operation.skip_wait_to_completion:
                self._expected[namespace] += operation.count
            else:
                await self._cluster.until(lambda: self._cluster.assigned[namespace], operation.count)
        if operation.collect_metrics:
            self._collected()

    def _creator(self, operation: CreatePods, namespace: str) -> Work:
        async def create(_: int, data: Data) -> None:
            name = await self._cluster.create_pod(data, namespace)
            if self._collector is not None:
                self._collector[0].created(namespace, name)

        async def create_with_volume(index: int, data: Data) -> None:
            volume, claim = self._objects.volume(operation, namespace, index)
            for kind, created, scope in ((_CLAIM, claim, namespace), (_VOLUME, volume, "")):
                await self._client.create(kind, created, scope)
                name = created["metadata"]["name"]
                await self._client.patch(kind, scope, name, {"status": {"phase": "Bound"}}, subresource="status")
            await create(index, with_claim(data, index))

        return create_with_volume if operation.persistent_volume_template_path else create

    async def _steadily(self, operation: CreatePods, namespace: str, pods: list[Data]) -> None:
        """Create all pods, wait until they are placed, delete them, and repeat, until the duration is over."""
        placed: asyncio.Queue[str] = asyncio.Queue()
        self._steady = namespace, placed

        async def delete(_: int, pod: Data) -> None:
            await self._client.delete(POD, namespace, pod["name"], grace=0)

        total = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds_of(operation.duration)):
                while True:
                    await self._each(self._creator(operation, namespace), pods)
                    names: list[Data] = []
                    while len(names) < len(pods):
                        names.append({"name": await placed.get()})
                        total += 1
                    await self._cluster.each(delete, names)
        self._steady = None
        if not total:
            raise Failed(f"{self._plan.name}: no pod at all was placed in {operation.duration}")

    async def _delete_pods(self, operation: DeletePods) -> None:
        work = self._deleted(operation)
        if operation.skip_wait_to_completion:
            self._cluster.begin(work)
        else:
            await work

    async def _deleted(self, operation: DeletePods) -> None:
        pods = self._cluster.matching(operation.namespace, operation.label_selector)
        ticks = _ticks(operation.delete_pods_per_second)
        for name in [pod.metadata.name for pod in pods]:
            await anext(ticks)
            with suppress(Missing):
                await self._client.delete(POD, operation.namespace, name)

    async def _barrier(self, operation: Barrier) -> None:
        is_enough = _is_attempted if operation.stage_requirement == "Attempted" else _is_placed
        for namespace in operation.namespaces or list(self._expected):
            count_pods = partial(self._count, is_enough, namespace, operation.label_selector)
            await self._cluster.until(count_pods, self._expected[namespace])
            if is_enough is _is_placed:
                del self._expected[namespace]

    def _count(self, is_enough: Callable[[Pod], bool], namespace: str, labels: dict[str, str]) -> int:
        return sum(map(is_enough, self._cluster.matching(namespace, labels)))

    async def _sleep(self, operation: Sleep) -> None:
        await asyncio.sleep(seconds_of(operation.duration))

    async def _start_collecting(self, operation: StartCollectingMetrics) -> None:
        self._collect(operation.name, operation.namespaces, operation.label_selector)

    async def _stop_collecting(self, _: StopCollectingMetrics) -> None:
        self._collected()

    def _collect(self, name: str, namespaces: list[str], labels: dict[str, str] | None = None) -> None:
        if self._collector is not None:
            raise Failed(f"{self._plan.name}: operation {self._number} measures while another measurement goes on")
        gc.collect()
        histograms = Histograms(self._cluster.registry, self._plan.metrics)
        self._collector = Collector(f"{self._plan.name}/{name}", namespaces, labels), histograms

    def _collected(self) -> None:
        if self._collector is None:
            raise Failed(f"{self._plan.name}: operation {self._number} ends a measurement that was never begun")
        collector, histograms = self._collector
        measurement = collector.measured()
        measurement.counted = list(histograms.items(collector.name))
        self.measurements.append(measurement)
        self._collector = None


def _is_placed(pod: Pod) -> bool:
    return bool(pod.spec.node_name)


def _is_attempted(pod: Pod) -> bool:
    return _is_placed(pod) or any(condition.type == "PodScheduled" for condition in pod.status.conditions)


async def _ticks(per_second: int) -> AsyncIterator[None]:
    """Yield so many times a second; without pause when it is 0."""
    begun = time.monotonic()
    for number in count(1):
        if per_second:
            await asyncio.sleep(begun + number / per_second - time.monotonic())
        yield
