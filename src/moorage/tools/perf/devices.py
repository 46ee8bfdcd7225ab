"""Devices without drivers: publishes resource slices, and allocates claims before any pod uses them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

import msgspec
import numpy as np

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.api.node import Node
from moorage.api.resource import AllocationResult, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from moorage.scheduler.devices.answers import FITS, Devices
from moorage.scheduler.devices.plan import Fault
from moorage.scheduler.devices.results import result_of
from moorage.scheduler.framework import Handle
from moorage.scheduler.plugins.dynamicresources import DynamicResources
from moorage.tools.perf.cluster import Failed, PerfCluster
from moorage.tools.perf.operations import CreateResourceDriver

_CLAIM, _SLICE = kinds.row("resource.k8s.io/v1", "ResourceClaim"), kinds.row("resource.k8s.io/v1", "ResourceSlice")

_read_claim = msgspec.json.Decoder(ResourceClaim).decode


async def offer(cluster: PerfCluster, operation: CreateResourceDriver) -> None:
    """Publish devices on some nodes, and wait until the scheduler has seen them."""
    await cluster.seen(Node)

    async def create(_: int, data: Data) -> None:
        await cluster.create(_SLICE, data)

    names = [node.metadata.name for node in cluster.handle.informers.of(Node)]
    await cluster.each(create, slices(operation, names))
    await cluster.seen(ResourceSlice)


def slices(operation: CreateResourceDriver, nodes: Iterable[str]) -> Iterator[Data]:
    """The devices of those nodes that a driver is for."""
    devices = [_device(number) for number in range(operation.max_claims_per_node)]
    for name in nodes:
        if fnmatchcase(name, operation.nodes):
            pool = {"name": name, "resourceSliceCount": 1}
            spec = {"driver": operation.driver_name, "nodeName": name, "pool": pool, "devices": devices}
            yield {"metadata": {"name": name}, "spec": spec}


def _device(number: int) -> Data:
    """A device with the properties that scheduler_perf gives to its own."""
    return {
        "name": f"instance-{number}",
        "attributes": {
            "model": {"string": "A100"}, "family": {"string": "GPU"}, "driverVersion": {"version": "1.2.3"},
            "dra.example.com/numa": {"int": number},
        },
        "capacity": {"memory": {"value": "1Gi"}},
    }  # fmt: skip


async def without_devices(cluster: PerfCluster, namespace: str) -> list[ResourceClaim]:
    """The unallocated claims of one namespace or of all, once the scheduler has seen them. Raises Failed."""
    if DynamicResources.name not in cluster.handle.shared:
        raise Failed(f"{cluster.plan.name}: claims get no devices: the scheduler runs without {DynamicResources.name}")
    for struct in (Node, ResourceSlice, DeviceTaintRule, DeviceClass, ResourceClaim):
        await cluster.seen(struct)
    claims = list(cluster.handle.informers.of(ResourceClaim))
    return [
        claim for claim in claims if claim.status.allocation is None and namespace in ("", claim.metadata.namespace)
    ]


async def give_devices(cluster: PerfCluster, claim: ResourceClaim) -> None:
    """Allocate the devices of a claim on a node chosen at random. Raises Failed."""
    devices: Devices = cluster.handle.shared[DynamicResources.name]
    metadata = claim.metadata
    try:
        allocation = _allocation(cluster.handle, devices, claim)
    except Fault as fault:
        raise Failed(f"{cluster.plan.name}: {fault.sentence([claim])}") from None
    patch = {"status": {"allocation": msgspec.to_builtins(allocation)}}
    answer = await cluster.client.patch(_CLAIM, metadata.namespace, metadata.name, patch, subresource="status")
    devices.ledger.written(_read_claim(answer))


def _allocation(handle: Handle, devices: Devices, claim: ResourceClaim) -> AllocationResult:
    answers = devices.answers([claim])
    devices.inventory.sync()
    rows = np.flatnonzero(handle.table.alive)
    fitting = rows[answers.codes(rows) == FITS].tolist()
    row = handle.random.choice(fitting) if fitting else None
    picks = answers.picks(row) if row is not None else None
    node = handle.table.nodes[row] if row is not None else None
    if picks is None or node is None:
        raise Fault(": no node has enough devices left", 0)
    return result_of(answers.plan.claims[0], picks[0], node.metadata.name)
