"""New nodes as their kubelets and drivers would bring them up: at once, and ready."""

from __future__ import annotations

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.api.node import Node
from moorage.api.wellknown import TAINT_UNSCHEDULABLE
from moorage.client import Client, Missing
from moorage.client.clock import Clock, timestamp
from moorage.controllers.hollow.nodestatus import missing_labels, missing_status
from moorage.controllers.nodes.lifecycle import TAINT_OF_CONDITION

NODE = kinds.row("v1", "Node")
_SLICE = kinds.row("resource.k8s.io/v1", "ResourceSlice")
_CSI_NODE = kinds.row("storage.k8s.io/v1", "CSINode")
_NO_ADDRESS = "192.0.2.1"
_NOT_COPIED = ("podCIDR", "podCIDRs", "providerID", "unschedulable", "taints")
_KEPT = ("capacity", "allocatable", "nodeInfo")


async def become_ready(client: Client, clock: Clock, name: str, taints: list[Data] | None) -> None:
    """Give a node that was created what its kubelet reports; of its taints only those that are given stay."""
    node = msgspec.json.decode(await client.get(NODE, "", name), type=Node)
    status = missing_status(node, _NO_ADDRESS, clock.now())
    await client.patch(NODE, "", name, {"status": status}, subresource="status")
    patch = {"metadata": {"labels": missing_labels(node)}, "spec": {"taints": taints or None}}
    await client.patch(NODE, "", name, patch)


async def add_like(client: Client, clock: Clock, model: Data, name: str) -> None:
    """Add a node with the labels, the taints, the room, the devices and the storage drivers of another one."""
    like, spec = model["metadata"]["name"], model.get("spec", {})
    labels = {**model["metadata"].get("labels", {}), "kubernetes.io/hostname": name}
    copied = {part: value for part, value in spec.items() if part not in _NOT_COPIED}
    await client.create(NODE, {"metadata": {"name": name, "labels": labels}, "spec": copied})
    now, room = timestamp(clock.now()), {part: each for part, each in model.get("status", {}).items() if part in _KEPT}
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
    await client.patch(NODE, "", name, {"status": {**room, "conditions": [ready]}}, subresource="status")
    passing = {*TAINT_OF_CONDITION.values(), TAINT_UNSCHEDULABLE}
    await become_ready(client, clock, name, [each for each in spec.get("taints") or () if each["key"] not in passing])
    await _add_devices(client, like, name)
    await _add_drivers(client, like, name)


async def _add_devices(client: Client, like: str, name: str) -> None:
    for item in (await client.list(_SLICE)).items:
        data: Data = msgspec.json.decode(item)
        spec, pool = data["spec"], data["spec"].get("pool", {})
        if spec.get("nodeName") == like:
            renamed = name if pool.get("name") == like else f"{pool.get('name', '')}-{name}"
            spec |= {"nodeName": name, "pool": {**pool, "name": renamed}}
            await client.create(_SLICE, {"metadata": {"name": f"{name}-{data['metadata']['name']}"}, "spec": spec})


async def _add_drivers(client: Client, like: str, name: str) -> None:
    try:
        drivers: Data = msgspec.json.decode(await client.get(_CSI_NODE, "", like))
    except Missing:
        return
    await client.create(_CSI_NODE, {"metadata": {"name": name}, "spec": drivers.get("spec") or {}})
