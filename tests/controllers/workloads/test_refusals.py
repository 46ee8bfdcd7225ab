"""A stored template whose gate was turned off: its pods are tried less and less often until the gate is back on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pytest

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.client import Client, Informers
from moorage.client.clock import ManualClock
from moorage.client.events import Recorder
from moorage.client.transport import Answer, Transport
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.run import Controllers
from moorage.controllers.workloads.daemonset import DaemonSets
from moorage.controllers.workloads.job import Jobs
from moorage.controllers.workloads.replicaset import ReplicaSetController
from moorage.controllers.workloads.statefulset import StatefulSets
from moorage.features import ALL_ON, NONE_ON, Gates
from tests.controllers.small_cluster import becomes
from tests.controllers.waiting import eventually, read, read_all
from tests.plane import api_server, create, node

_START = datetime(2026, 1, 1, tzinfo=UTC)
_DELAYS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0)
_PROBLEM = 'spec.tolerations[0].operator: Unsupported value: "Gt": supported values: "Equal", "Exists"'


class Workload(NamedTuple):
    """A kind of workload that wants three pods, and the controller that makes them."""

    made: Callable[[Context], Controller]
    controller: str
    api_version: str
    kind: str
    spec: Data
    first: int = 3
    """How many pods there are while none of them is ready."""

    def manifest(self) -> Data:
        labels = {"app": "web"}
        pod = {
            "containers": [{"name": "main", "image": "pause:3.10"}],
            "tolerations": [{"key": "sla", "operator": "Gt", "value": "950"}],
        }
        batch = self.kind == "Job"
        own = {"restartPolicy": "Never"} if batch else {}
        spec = {"template": {"metadata": {"labels": labels}, "spec": {**pod, **own}}, **self.spec}
        selector = {} if batch else {"selector": {"matchLabels": labels}}
        return {
            "apiVersion": self.api_version, "kind": self.kind,
            "metadata": {"name": "web"}, "spec": {**spec, **selector},
        }  # fmt: skip


_SETS, _BATCH = "apps/v1", "batch/v1"
_PARALLEL = {"replicas": 3, "serviceName": "web", "podManagementPolicy": "Parallel"}
_INDEXED = {"parallelism": 3, "completions": 3, "completionMode": "Indexed"}
WORKLOADS = {
    "ReplicaSet": Workload(ReplicaSetController, "replicaset-controller", _SETS, "ReplicaSet", {"replicas": 3}),
    "ordered StatefulSet": Workload(
        StatefulSets, "statefulset-controller", _SETS, "StatefulSet", {"replicas": 3, "serviceName": "web"}, first=1
    ),
    "parallel StatefulSet": Workload(StatefulSets, "statefulset-controller", _SETS, "StatefulSet", _PARALLEL),
    "DaemonSet": Workload(DaemonSets, "daemonset-controller", _SETS, "DaemonSet", {}),
    "Job": Workload(Jobs, "job-controller", _BATCH, "Job", {"parallelism": 3, "completions": 3}),
    "indexed Job": Workload(Jobs, "job-controller", _BATCH, "Job", _INDEXED),
}


class Watched:
    """The way to whichever server there is, which notes when a pod was to be created."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.to: Transport
        self.tries: list[float] = []

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        if method == "POST" and target.endswith("/pods"):
            self.tries.append(self.clock.monotonic())
        return await self.to.request(method, target, body, content_type)

    def stream(self, target: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.to.stream(target)

    async def close(self) -> None:
        """Whoever has the server closes it."""


class Plane:
    """Controllers that go on while the API server is started anew with other gates."""

    def __init__(self, directory: Path, workload: Workload) -> None:
        self.clock = ManualClock(_START)
        self.way = Watched(self.clock)
        self._directory = directory
        self._workload = workload
        client = Client(self.way)
        recorder = Recorder(client, "test", self.clock)
        context = Context(client, Informers(client), recorder, ALL_ON, self.clock)
        self.controllers = Controllers(context, [workload.made(context)])

    @asynccontextmanager
    async def server(self, gates: Gates) -> AsyncIterator[Client]:
        async with api_server(self._directory, gates) as server:
            self.way.to = server.client("controllers").transport
            yield server.client("test")

    def failures(self) -> float:
        """How often a pod was refused, as the metrics have it."""
        labels = {"controller": self._workload.controller}
        registry = self.controllers.context.registry
        return registry.get_sample_value("moorage_controllers_failed_creates_total", labels) or 0


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
async def test_a_template_whose_gate_was_turned_off(workload: Workload, tmp_path: Path) -> None:
    plane = Plane(tmp_path, workload)
    kind = kinds.row(workload.api_version, workload.kind)
    try:
        async with plane.server(ALL_ON) as client:
            for number in range(3):
                await create(client, node(f"n{number}"))
                await client.patch(kinds.row("v1", "Node"), "", f"n{number}", {"spec": {"taints": None}})
            await create(client, workload.manifest())
        async with plane.server(NONE_ON) as client:
            await plane.controllers.start()
            await eventually(_says(plane, 1))
            for number, delay in enumerate(_DELAYS, 2):
                # However often somebody touches it, the server is not asked before its time.
                await client.patch(kind, "default", "web", {"metadata": {"labels": {"touched": str(number)}}})
                plane.clock.advance(delay)
                await eventually(_says(plane, number))
            moments = list(accumulate((0.0, *_DELAYS)))
            assert plane.way.tries == pytest.approx(moments)

            async def events_are_right() -> list[Data]:
                events = [each for each in await read_all(client, "Event") if each["reason"] == "FailedCreate"]
                assert [each["count"] for each in events] == [len(moments)]
                return events

            (event,) = await eventually(events_are_right)
            assert _PROBLEM in event["message"]
            assert event["source"] == {"component": workload.controller}
            assert not await read_all(client, "Pod")
            if workload.kind == "ReplicaSet":
                (condition,) = (await read(client, workload.kind, "web", api_version=_SETS))["status"]["conditions"]
                assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
                assert condition["message"] == f'Pod "web-" is invalid: {_PROBLEM}'

        async with plane.server(ALL_ON) as client:
            plane.clock.advance(30)

            async def made() -> bool:
                return len(await read_all(client, "Pod")) == workload.first

            await eventually(made)
            if workload.kind == "ReplicaSet":
                await becomes(client, workload.kind, "web", _has_no_conditions, workload.api_version)
    finally:
        await plane.controllers.stop()


def _says(plane: Plane, count: int) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return plane.failures() == count

    return check


def _has_no_conditions(data: Data) -> bool:
    return bool(data["status"]["replicas"] == 3 and not data["status"].get("conditions"))
