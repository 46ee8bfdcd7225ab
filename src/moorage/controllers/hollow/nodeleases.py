"""Leases of hollow nodes: the heartbeats that the node lifecycle controller watches, spread evenly over time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from itertools import islice
from math import ceil

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data, Object
from moorage.api.node import Node
from moorage.client import ApiError, Client, Conflict, Missing
from moorage.client.clock import Clock, timestamp
from moorage.client.errors import is_race
from moorage.logs import Log

_LOG = Log(__name__)
_LEASE, _NAMESPACE = kinds.row("coordination.k8s.io/v1", "Lease"), "kube-node-lease"
_LEASE_SECONDS = 40
_read = msgspec.json.Decoder(Object).decode

# A real kubelet renews every 10 s, and a node counts as lost about 50 s after its last sign of life. A renewal costs
# some 0.1 ms, so a few nodes can afford what a kubelet does; many renew more seldom, up to a turn of 30 s that leaves
# room for one that is missed: 33 writes a second for 1,000 nodes, less than a hundredth of a core.
SHORTEST_TURN, LONGEST_TURN, PER_SECOND = 10.0, 30.0, 33.0
_IN_FLIGHT = 16


class NodeLeases:
    """Renews the leases of nodes. Those that are due in the same second are written together."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._waiting: OrderedDict[str, Data] = OrderedDict()
        self._versions: dict[str, str] = {}
        """The resourceVersions of the leases as they were last renewed."""
        self._some = asyncio.Event()

    def __contains__(self, name: str) -> bool:
        return name in self._waiting

    async def start(self, node: Node) -> None:
        """Renew the lease of a node, now and from now on."""
        metadata = node.metadata
        owner = {"apiVersion": "v1", "kind": "Node", "name": metadata.name, "uid": metadata.uid}
        lease = {"name": metadata.name, "namespace": _NAMESPACE, "ownerReferences": [owner]}
        self._waiting[metadata.name] = lease
        self._some.set()
        await self._renew(metadata.name, lease)

    def stop(self, name: str) -> None:
        """Stop renewing the lease of a node."""
        self._waiting.pop(name, None)
        self._versions.pop(name, None)
        if not self._waiting:
            self._some.clear()

    async def run(self) -> None:
        """Renew leases, those that have waited longest first, for ever."""
        while True:
            await self._some.wait()
            pause, share = self._pace()
            await self._clock.sleep(pause)
            due = list(islice(self._waiting.items(), share))
            for at in range(0, len(due), _IN_FLIGHT):
                await asyncio.gather(*(self._beat(name, lease) for name, lease in due[at : at + _IN_FLIGHT]))

    def _pace(self) -> tuple[float, int]:
        """How long to pause, and how many leases to renew then."""
        count = len(self._waiting)
        turn = min(max(count / PER_SECOND, SHORTEST_TURN), LONGEST_TURN)
        pause = max(1.0, turn / count)
        return pause, ceil(count * pause / turn)

    async def _beat(self, name: str, lease: Data) -> None:
        try:
            await self._renew(name, lease)
        except ApiError as error:
            # It keeps its place, and so is tried again after the next pause.
            _LOG.warning("Node lease not renewed", benign=is_race(error), node=name, err=error)

    async def _renew(self, name: str, lease: Data) -> None:
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": timestamp(self._clock.now(), micro=True),
        }
        renewed = _version(await self._written(name, lease, spec))
        if self._waiting.get(name) is lease:
            self._versions[name] = renewed
            self._waiting.move_to_end(name)

    async def _written(self, name: str, lease: Data, spec: Data) -> bytes:
        """Renew a lease that nobody else has changed, or else bring it to what it must be."""
        if version := self._versions.get(name):
            with suppress(Conflict, Missing):
                data = {"metadata": {"resourceVersion": version}, "spec": spec}
                return await self._client.patch(_LEASE, _NAMESPACE, name, data)
        data = {"metadata": lease, "spec": spec}
        try:
            return await self._client.patch(_LEASE, _NAMESPACE, name, data)
        except Missing:
            return await self._client.create(_LEASE, data, _NAMESPACE)


def _version(body: bytes) -> str:
    return _read(body).metadata.resource_version
