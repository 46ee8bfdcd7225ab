"""Controllers under a clock that stands still, and the nodes and pods that they look after."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.apiserver.run import APIServer
from moorage.client import Client, Missing
from moorage.client.clock import ManualClock, timestamp
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.run import Controllers
from moorage.features import ALL_ON, Gates
from tests.controllers import waiting
from tests.controllers.waiting import eventually, read, read_all, settle
from tests.plane import create, node, pod

NODE, POD = kinds.row("v1", "Node"), kinds.row("v1", "Pod")
KEY, VALUE = "kubernetes.io/e2e-evict-taint-key", "evictTaintVal"


def clock_of_today() -> ManualClock:
    """A clock that stands a minute ahead of the server: all times that the server puts into objects have been."""
    return ManualClock(datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=1))


@asynccontextmanager
async def running(
    server: APIServer, clock: ManualClock, *made: Callable[[Context], Controller], gates: Gates = ALL_ON
) -> AsyncIterator[Controllers]:
    """Controllers that run."""
    async with waiting.started(server.client("controllers"), clock, *made, gates=gates) as controllers:
        yield controllers


def taint(value: str = VALUE, key: str = KEY, added: datetime | None = None) -> Data:
    """A NoExecute taint."""
    return {"key": key, "value": value, "effect": "NoExecute"} | ({"timeAdded": timestamp(added)} if added else {})


def toleration(seconds: int | None = None, **more: Any) -> Data:
    """A toleration for that taint."""
    tolerated = {"key": KEY, "value": VALUE, "effect": "NoExecute", **more}
    return tolerated if seconds is None else {**tolerated, "tolerationSeconds": seconds}


async def set_taints(client: Client, name: str, *taints: Data) -> None:
    """Give a node these taints and no others."""
    await client.patch(NODE, "", name, {"spec": {"taints": list(taints)}})


async def ready_node(client: Client, name: str, **more: Any) -> None:
    """A node without the taint that new nodes have."""
    await create(client, node(name, **more))
    await set_taints(client, name)


async def resident(client: Client, name: str, on: str, *tolerations: Data, **spec: Any) -> Data:
    """A pod on a node, which is gone as soon as it is deleted."""
    spec = {"terminationGracePeriodSeconds": 0, **spec}
    return await create(client, pod(name, nodeName=on, tolerations=list(tolerations), **spec))


async def exists(client: Client, name: str) -> bool:
    """Whether a pod is there and stays."""
    try:
        data = await read(client, "Pod", name)
    except Missing:
        return False
    return "deletionTimestamp" not in data["metadata"]


async def stay(client: Client, *names: str) -> None:
    """Pods are there when the controllers have done all that is to be done now, and are not being deleted."""
    await settle()
    assert {name: await exists(client, name) for name in names} == dict.fromkeys(names, True)


async def evicted(client: Client, name: str) -> None:
    """Wait until a pod has been evicted."""

    async def gone() -> bool:
        return not await exists(client, name)

    await eventually(gone)


async def events(client: Client, name: str) -> list[str]:
    """The messages of events about an object."""
    return [each["message"] for each in await read_all(client, "Event") if each["involvedObject"]["name"] == name]


async def recorded(client: Client, name: str, message: str) -> None:
    """Wait until an event about an object has this message."""

    async def check() -> bool:
        return message in await events(client, name)

    await eventually(check)


def condition(item: Data, type_: str) -> Data:
    """One condition of an object, or nothing."""
    return next((each for each in item.get("status", {}).get("conditions", ()) if each["type"] == type_), {})


def taints_of(item: Data) -> set[str]:
    """The taints of a node, by what kubectl calls them."""
    return {f"{each['key'].rpartition('/')[2]}:{each['effect']}" for each in item["spec"].get("taints", ())}


async def patch_status(client: Client, kind: str, name: str, **status: Any) -> Data:
    """Change the status of an object."""
    row = kinds.row("v1", kind)
    namespace = "default" if row.namespaced else ""
    answer = await client.patch(row, namespace, name, {"status": status}, subresource="status")
    changed: Data = msgspec.json.decode(answer)
    return changed


__all__ = [
    "KEY",
    "NODE",
    "POD",
    "clock_of_today",
    "condition",
    "events",
    "evicted",
    "exists",
    "patch_status",
    "ready_node",
    "recorded",
    "resident",
    "running",
    "set_taints",
    "stay",
    "taint",
    "taints_of",
    "timedelta",
    "toleration",
]  # fmt: skip
