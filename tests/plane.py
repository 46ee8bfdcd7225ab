"""A real API server in the event loop of the test, small objects, and a way to wait for what must become true."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.apiserver.run import APIServer, start
from moorage.client import Client
from moorage.client.clock import Clock
from moorage.features import ALL_ON, Gates

Data = dict[str, Any]
PATIENCE = 120.0
"""How many seconds a test waits before it fails; only a test that fails waits for so long."""


@asynccontextmanager
async def api_server(
    directory: Path, gates: Gates = ALL_ON, clock: Clock | None = None, plugins: tuple[str, ...] = ()
) -> AsyncIterator[APIServer]:
    """A server on a data directory, which may hold the data of an earlier one."""
    server = await start(directory, "sqlite", gates, "127.0.0.1", 0, clock=clock, plugins=frozenset(plugins))
    try:
        yield server
    finally:
        await server.stop(1)


async def create(client: Client, manifest: Data, **status: Any) -> Data:
    """Create an object from its manifest, and set its status when one is given."""
    kind = kinds.row(manifest["apiVersion"], manifest["kind"])
    namespace = manifest["metadata"].get("namespace", "default") if kind.namespaced else ""
    created: Data = msgspec.json.decode(await client.create(kind, manifest, namespace))
    if status:
        name = created["metadata"]["name"]
        changed = await client.patch(kind, namespace, name, {"status": status}, subresource="status")
        created = msgspec.json.decode(changed)
    return created


async def read(client: Client, kind: str, name: str, namespace: str = "default", api_version: str = "v1") -> Data:
    """An object as it is stored now."""
    row = kinds.row(api_version, kind)
    data: Data = msgspec.json.decode(await client.get(row, namespace if row.namespaced else "", name))
    return data


async def read_all(client: Client, kind: str, namespace: str = "", api_version: str = "v1") -> list[Data]:
    """All objects of a kind."""
    listing = await client.list(kinds.row(api_version, kind), namespace)
    return [msgspec.json.decode(item) for item in listing.items]


async def eventually(check: Callable[[], Awaitable[Any]]) -> Any:
    """Ask again and again until the answer is true; an AssertionError counts as not yet."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE
    while True:
        problem: Exception | None = None
        try:
            if answer := await check():
                return answer
        except AssertionError as error:
            problem = error
        if loop.time() > end:
            raise AssertionError(f"not within {PATIENCE} s") from problem
        await asyncio.sleep(0.01)


def node(name: str, labels: dict[str, str] | None = None, taints: list[Data] | None = None, **allocatable: str) -> Data:
    """A node that is ready and has room for pods."""
    room = {"cpu": "16", "memory": "64Gi", "pods": "110", **allocatable}
    ready = {
        "type": "Ready",
        "status": "True",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
    status = {"capacity": room, "allocatable": room, "conditions": [ready]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"taints": taints or []},
        "status": status,
    }


def pod(name: str, namespace: str = "default", labels: dict[str, str] | None = None, **spec: Any) -> Data:
    """A pod with one container."""
    requests = spec.pop("requests", {"cpu": "100m", "memory": "100Mi"})
    container = {"name": "main", "image": "pause:3.10", "resources": {"requests": requests}}
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
