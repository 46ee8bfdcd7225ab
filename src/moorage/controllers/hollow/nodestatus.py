"""The status and labels of hollow nodes, as far as nobody else has set them."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache
from importlib.metadata import version
from typing import Any
from uuid import uuid4

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data, ObjectMeta
from moorage.api.node import Node
from moorage.api.wellknown import LABEL_ARCH, LABEL_HOSTNAME, LABEL_INSTANCE_TYPE, LABEL_OS, LABEL_REGION, LABEL_ZONE
from moorage.client import Client, Exists
from moorage.client.clock import Clock, timestamp
from moorage.controllers.hollow.addresses import Addresses

NODE = kinds.row("v1", "Node")
NODE_NETWORK = "172.16.0.0/12"
_KUBERNETES = "v1.36.0"
_CAPACITY = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}
_INSTANCE_TYPE = "hollow-16"
_REGION, _ZONES = "local", "abc"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
_TURNS = {"True": "NodeReady", "False": "NodeNotReady"}
_AT_ONCE = 64
_read_node = msgspec.json.Decoder(Node).decode


async def ensure_nodes(client: Client, count: int, clock: Clock | None = None) -> None:
    """Create nodes `node-1`, `node-2` and so on, as kubelets register them; those that exist are left as they are."""
    names, addresses = set[str](), Addresses(NODE_NETWORK)
    for raw in (await client.list(NODE)).items:
        node = _read_node(raw)
        names.add(node.metadata.name)
        if address := internal_address(node):
            addresses.hold(("", node.metadata.name), address)
    now = (clock or Clock()).now
    missing = [number for number in range(1, count + 1) if f"node-{number}" not in names]
    for first in range(0, len(missing), _AT_ONCE):
        numbers = missing[first : first + _AT_ONCE]
        await asyncio.gather(*(_register(client, number, addresses, now()) for number in numbers))


async def _register(client: Client, number: int, addresses: Addresses, now: datetime) -> None:
    name = f"node-{number}"
    places = {
        LABEL_REGION: _REGION,
        LABEL_ZONE: f"{_REGION}-{_ZONES[(number - 1) % len(_ZONES)]}",
        LABEL_INSTANCE_TYPE: _INSTANCE_TYPE,
    }
    labels = _labels(name) | places
    machine = Node(metadata=ObjectMeta(name=name, uid=str(uuid4()), labels=labels))
    status = missing_status(machine, addresses.of(("", name)), now)
    with suppress(Exists):
        await client.create(NODE, {"metadata": {"name": name, "labels": labels}, "status": status})


def internal_address(node: Node) -> str:
    """The InternalIP address of a node."""
    return next((each.address for each in node.status.addresses if each.type == "InternalIP"), "")


def missing_labels(node: Node) -> dict[str, str]:
    """The labels that every kubelet sets and that this node lacks."""
    return _without(_labels(node.metadata.name), node.metadata.labels)


def lost_resources(old: Node, new: Node) -> frozenset[str]:
    """Resources that were removed from the capacity of a node, and so are not allocatable any more."""
    return frozenset(old.status.capacity.keys() - new.status.capacity.keys() - _CAPACITY.keys())


def missing_status(node: Node, address: str, now: datetime, lost: frozenset[str] = frozenset()) -> Data:
    """The fields that the status of a running node lacks: capacity, addresses, system information, conditions.

    Resources that it has lost are removed (null in the patch), not added again.
    """
    status = node.status
    missing: Data = {}
    if capacity := _without(_CAPACITY | _without(status.allocatable, dict.fromkeys(lost)), status.capacity):
        missing["capacity"] = capacity
    gone = dict.fromkeys((lost & status.allocatable.keys()) - status.capacity.keys())
    if allocatable := _without(capacity | status.capacity, status.allocatable) | gone:
        missing["allocatable"] = allocatable
    if not status.addresses:
        missing["addresses"] = [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": node.metadata.name},
        ]
    if info := _without(_system_info(node), msgspec.to_builtins(status.node_info)):
        # Kubelets leave this empty, but clients expect the field.
        missing["nodeInfo"] = {"kubeProxyVersion": "", **info}
    if conditions := _conditions(node, timestamp(now)):
        missing["conditions"] = conditions
    return missing


def turns(old: Node, new: Node) -> Iterator[str]:
    """The reasons of events when a node becomes ready or not, schedulable or not."""
    after = _ready(new)
    if _ready(old) != after and after in _TURNS:
        yield _TURNS[after]
    if old.spec.unschedulable != new.spec.unschedulable:
        yield "NodeNotSchedulable" if new.spec.unschedulable else "NodeSchedulable"


def _ready(node: Node) -> str:
    return next((each.status for each in node.status.conditions if each.type == "Ready"), "")


def _conditions(node: Node, now: str) -> list[Data]:
    """All conditions of a node, when one of the kubelet's is missing or Unknown; otherwise none.

    One with another status stays: people set it to try out pressure, or a node that is not ready.
    """
    known = {each.type: each for each in node.status.conditions}
    lost = [each for each in _CONDITIONS if each[0] not in known or known[each[0]].status == "Unknown"]
    if not lost:
        return []
    own = {
        type_: {
            "type": type_, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }
        for type_, status, reason, message in lost
    }  # fmt: skip
    kept = [own.pop(type_, None) or msgspec.to_builtins(each) for type_, each in known.items()]
    return [*kept, *own.values()]


def _labels(name: str) -> dict[str, str]:
    return {
        LABEL_HOSTNAME: name,
        LABEL_OS: "linux",
        LABEL_ARCH: _architecture(),
    }


def _system_info(node: Node) -> dict[str, str]:
    uid, labels = node.metadata.uid, node.metadata.labels
    return {
        "machineID": uid.replace("-", ""), "systemUUID": uid, "bootID": uid,
        "kernelVersion": os.uname().release, "osImage": "Moorage hollow node",
        "containerRuntimeVersion": f"hollow://{_version()}",
        "kubeletVersion": f"{_KUBERNETES}+moorage-{_version()}",
        "operatingSystem": labels.get(LABEL_OS, "linux"),
        "architecture": labels.get(LABEL_ARCH, _architecture()),
    }  # fmt: skip


@cache
def _version() -> str:
    return version("moorage")


@cache
def _architecture() -> str:
    machine = platform.machine()
    return _MACHINES.get(machine, machine)


def _without(items: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in items.items() if name not in others}
