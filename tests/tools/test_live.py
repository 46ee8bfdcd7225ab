"""A running cluster is read in pages, and what cannot be read is said."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.resource import ExactDeviceRequest, ResourceClaim
from moorage.client import Client, Forbidden, TooManyRequests, Unavailable
from moorage.client.clock import ManualClock
from moorage.client.transport import Answer
from moorage.controllers.run import CONTROLLERS, prepare
from moorage.features import ALL_ON, NONE_ON, Gate, Gates
from moorage.scheduler.config import Configuration
from moorage.scheduler.scheduler import Scheduler
from moorage.tools.live import LiveReader
from moorage.tools.snapshot import KINDS, SnapshotWriter, load_snapshot
from tests.plane import api_server, create

_START = datetime(2026, 1, 1, tzinfo=UTC)
_NOT_PLACEMENT = {
    "configmaps", "secrets", "serviceaccounts", "events", "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
}  # fmt: skip
Refuse = Callable[[str, dict[str, str]], Answer | None]


def _status(code: int, reason: str, message: str, **more: Any) -> Answer:
    return Answer(
        code, json.dumps({"kind": "Status", "code": code, "reason": reason, "message": message, **more}).encode()
    )


@dataclass(slots=True)
class _Server:
    """Lists of objects in pages, with refusals in between."""

    objects: dict[str, list[Data]]
    refuse: Refuse = lambda _path, _query: None
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        assert method == "GET"
        address = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        self.asked.append((address.path, query))
        await asyncio.sleep(0)
        refused = self.refuse(address.path, query)
        if refused is not None:
            return refused
        if address.path == "/metrics":
            return Answer(404, b"")
        items = self.objects.get(address.path.rpartition("/")[2], [])
        first, limit = int(query.get("continue", 0)), int(query["limit"])
        metadata: Data = {"resourceVersion": "1"}
        if first + limit < len(items):
            metadata |= {"continue": str(first + limit), "remainingItemCount": len(items) - first - limit}
        return Answer(200, json.dumps({"metadata": metadata, "items": items[first : first + limit]}).encode())

    @asynccontextmanager
    async def stream(self, target: str) -> AsyncIterator[AsyncIterator[bytes]]:
        raise AssertionError(target)
        yield

    async def close(self) -> None:
        pass


def _pods(number: int) -> list[Data]:
    return [{"metadata": {"name": f"pod-{index}", "namespace": "default"}} for index in range(number)]


def _refusing(resource: str, *answers: Answer) -> Refuse:
    waiting = list(answers)
    return lambda path, _: waiting.pop(0) if waiting and path.endswith(f"/{resource}") else None


async def test_long_lists_are_read_in_pages_with_progress() -> None:
    server = _Server({"pods": _pods(2500), "nodes": [{"metadata": {"name": "n"}}]})
    seen: list[tuple[str, int, int | None]] = []
    reader = LiveReader(Client(server), lambda *progress: seen.append(progress))
    cluster = await reader.cluster()
    assert [pod.metadata.name for _, pod in cluster.of(Pod)] == [f"pod-{index}" for index in range(2500)]
    assert len(cluster.of(Node)) == 1
    assert cluster.is_complete
    assert [entry for entry in seen if entry[0] == "pods"] == [
        ("pods", 1000, 2500), ("pods", 2000, 2500), ("pods", 2500, None),
    ]  # fmt: skip
    assert max(int(query.get("limit", 0)) for _, query in server.asked) == 1000


async def test_of_leases_only_those_of_nodes_are_read() -> None:
    server = _Server({})
    await LiveReader(Client(server)).cluster()
    (path,) = [path for path, _ in server.asked if path.endswith("/leases")]
    assert path == "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


async def test_a_kind_that_may_not_be_read_is_named_and_one_that_is_not_served_is_not() -> None:
    def refuse(path: str, _: dict[str, str]) -> Answer | None:
        if path.endswith("/persistentvolumes"):
            return _status(403, "Forbidden", "persistentvolumes is forbidden")
        return _status(404, "NotFound", "not here") if "resource.k8s.io" in path else None

    reader = LiveReader(Client(_Server({"pods": _pods(1)}, refuse)))
    cluster = await reader.cluster()
    assert cluster.unread == {"persistentvolumes": "persistentvolumes is forbidden"}
    stream = io.BytesIO()
    await reader.write(SnapshotWriter(stream, _START, None))
    stream.seek(0)
    assert load_snapshot(stream, "file").unread == {"persistentvolumes": "may not be listed"}


async def test_devices_of_an_older_server_are_read_in_its_version() -> None:
    request = {"name": "gpu", "deviceClassName": "gpu", "allocationMode": "All"}
    claim = {"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": {"requests": [request]}}}

    def refuse(path: str, _: dict[str, str]) -> Answer | None:
        return _status(404, "NotFound", "not here") if path.startswith("/apis/resource.k8s.io/v1/") else None

    cluster = await LiveReader(Client(_Server({"resourceclaims": [claim]}, refuse))).cluster()
    assert not cluster.problems
    (found,) = [claim for _, claim in cluster.of(ResourceClaim)]
    (asked,) = found.spec.devices.requests
    assert asked.exactly == ExactDeviceRequest(device_class_name="gpu", allocation_mode="All")


async def test_who_may_read_nothing_is_told_so() -> None:
    server = _Server({}, lambda *_: _status(403, "Forbidden", "no"))
    with pytest.raises(Forbidden, match="nothing may be read: no"):
        await LiveReader(Client(server)).cluster()


async def test_a_busy_server_is_left_alone_for_as_long_as_it_asks() -> None:
    busy = _status(429, "TooManyRequests", "busy", details={"retryAfterSeconds": 7})
    server = _Server({"pods": _pods(3)}, _refusing("pods", busy, busy))
    clock = ManualClock(_START)
    reading = asyncio.ensure_future(LiveReader(Client(server), clock=clock).cluster())
    waits = 0
    while not reading.done():
        for _ in range(500):
            await asyncio.sleep(0)
        if not reading.done():
            clock.advance(7)
            waits += 1
    assert len((await reading).of(Pod)) == 3
    assert waits == 2


async def test_a_server_that_stays_busy_is_given_up() -> None:
    busy = _status(429, "TooManyRequests", "too busy", details={"retryAfterSeconds": 1})
    server = _Server({}, lambda path, _: busy if path.endswith("/pods") else None)
    clock = ManualClock(_START)
    reading = asyncio.ensure_future(LiveReader(Client(server), clock=clock).cluster())
    while not reading.done():
        await asyncio.sleep(0)
        clock.advance(1)
    with pytest.raises(TooManyRequests, match="pods cannot be listed, asked 6 times: too busy"):
        await reading
    assert sum(path.endswith("/pods") for path, _ in server.asked) == 6


async def test_pages_that_take_too_long_are_gone_on_with() -> None:
    old = _status(410, "Expired", "too old", metadata={"continue": "1000"})
    expired = iter([old])

    def refuse(path: str, query: dict[str, str]) -> Answer | None:
        is_second = path.endswith("/pods") and query.get("continue") == "1000"
        return next(expired, None) if is_second else None

    fresh = _status(410, "Expired", "too old", metadata={"continue": "1001"})
    server = _Server({"pods": _pods(1500)}, refuse)
    with pytest.raises(Exception, match="too old"):  # the same place again would go on for ever
        await LiveReader(Client(server)).cluster()
    expired = iter([fresh])
    cluster = await LiveReader(Client(server)).cluster()
    assert len(cluster.of(Pod)) == 1499


async def test_what_is_no_list_is_one_sentence() -> None:
    server = _Server({}, lambda path, _: Answer(200, b'{"items": 7}') if path.endswith("/pods") else None)
    with pytest.raises(Unavailable, match="the list of pods cannot be read: "):
        await LiveReader(Client(server)).cluster()


_STOCK = b"""# HELP kubernetes_feature_enabled [BETA] This metric records the data about the stage and enablement.
# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="APIServerTracing",stage=""} 1
kubernetes_feature_enabled{name="TaintTolerationComparisonOperators",stage="ALPHA"} %d
"""

_OURS = b"".join(
    b'kubernetes_feature_enabled{name="%s",stage="ALPHA"} %d\n' % (gate.value.encode(), gate is Gate.SEMVER)
    for gate in Gate
)


@pytest.mark.parametrize(
    ("answer", "gates", "version", "placing"),
    [
        (Answer(200, _STOCK % 1), Gates(frozenset({Gate.COMPARISON})), "", ALL_ON),
        (Answer(200, _STOCK % 0), NONE_ON, "", ALL_ON),
        (Answer(200, _OURS), Gates(frozenset({Gate.SEMVER})), "", Gates(frozenset({Gate.SEMVER}))),
        (Answer(200, b"something_else 1\n"), None, "v1.36.4", ALL_ON),
        (_status(403, "Forbidden", "no"), None, "v1.36.0+moorage-1", None),
        (_status(403, "Forbidden", "no"), None, "", None),
    ],
)
async def test_the_gates_are_those_that_the_server_says_and_beside_one_that_knows_none_those_of_attach_mode(
    answer: Answer, gates: Gates | None, version: str, placing: Gates | None
) -> None:
    told = Answer(200, json.dumps({"gitVersion": version}).encode()) if version else Answer(403, b"")
    server = _Server({}, lambda path, _: {"/metrics": answer, "/version": told}.get(path))
    reader = LiveReader(Client(server))
    assert await reader.gates() == gates
    assert await reader.placing_gates() == (placing, placing == ALL_ON)


async def test_our_own_server_is_read_as_it_is(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        client = server.client("test")
        spec = {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "hush"}]}]}
        made = await create(
            client,
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}, "spec": spec},
        )
        reader = LiveReader(client)
        assert (await reader.gates(), await reader.placing_gates()) == (ALL_ON, (ALL_ON, False))
        stream = io.BytesIO()
        await reader.write(SnapshotWriter(stream, _START, None))
        stream.seek(0)
        cluster, live = load_snapshot(stream, "file"), await reader.cluster()
        assert not cluster.problems
        assert not cluster.unread
        ((_, pod),) = cluster.of(Pod)
        assert pod.metadata.uid == made["metadata"]["uid"]
        assert pod.status.phase == "Pending"
        by_name = sorted(cluster.items, key=lambda item: item.name)
        assert by_name == sorted(live.items, key=lambda item: item.name)
        await client.close()


_TEMPLATE: Data = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "serviceAccountName": "robot",
        "initContainers": [{"name": "first", "image": "i", "restartPolicy": "Always", "command": ["a"]}],
        "containers": [{
            "name": "c", "image": "i", "args": ["--password=hush"], "ports": [{"containerPort": 80, "name": "http"}],
            "envFrom": [{"secretRef": {"name": "s"}}], "volumeMounts": [{"name": "conf", "mountPath": "/etc/c"}],
            "livenessProbe": {"httpGet": {"port": "http"}}, "resources": {"requests": {"cpu": "1"}},
        }],
        "volumes": [{"name": "conf", "configMap": {"name": "c"}}, {"name": "tmp", "emptyDir": {}}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
             "labelSelector": {"matchLabels": {"app": "web"}}},
        ],
    },
}  # fmt: skip


async def test_a_controller_can_make_pods_of_the_templates_in_it(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        client = server.client("test")
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": _TEMPLATE}
        for kind in ("Deployment", "StatefulSet", "DaemonSet"):
            its = spec if kind != "DaemonSet" else {key: spec[key] for key in ("selector", "template")}
            await create(
                client,
                {
                    "apiVersion": "apps/v1",
                    "kind": kind,
                    "metadata": {"name": "web", "namespace": "default"},
                    "spec": its,
                },
            )
        cluster = await LiveReader(client).cluster()
        for item in cluster.items:
            workload = kinds.of(item.object)
            if workload.pod_spec:
                template = json.loads(msgspec.json.encode(item.object))["spec"]["template"]
                assert "hush" not in str(template)
                named = {
                    "name": workload.kind.lower(),
                    "namespace": "default",
                    "labels": template["metadata"]["labels"],
                }
                await create(client, {"apiVersion": "v1", "kind": "Pod", **template, "metadata": named})
        assert len((await LiveReader(client).cluster()).of(Pod)) == 3
        await client.close()


async def test_every_kind_that_scheduler_and_controllers_read_is_in_it() -> None:
    client = Client(_Server({}))
    scheduler = Scheduler(client, ALL_ON, Configuration())
    controllers = prepare(client, ALL_ON, CONTROLLERS)
    read = {
        informer.kind.resource
        for informers in (scheduler.handle.informers, controllers.context.informers)
        for informer in informers
    }
    assert read - {kind.resource for kind in KINDS} == _NOT_PLACEMENT & read
    assert {kind.kind for kind in kinds.KINDS if kind.pod_spec} <= {kind.kind for kind in KINDS}
