"""Leases of hollow nodes: the heartbeats that the node lifecycle controller watches, spread evenly over time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil
from typing import NamedTuple

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data, Object
from moorage.api.node import Node
from moorage.client import ApiError, Client, Conflict, Exists, Missing
from moorage.client.clock import Clock, timestamp
from moorage.client.errors import is_race
from moorage.logs import Log

_LOG = Log(__name__)
_LEASE, _NAMESPACE = kinds.row("coordination.k8s.io/v1", "Lease"), "kube-node-lease"
_LEASE_SECONDS = 40
_read = msgspec.json.Decoder(Object).decode

# A real kubelet renews every 10 s a lease of 40 s, and a node counts as lost 10 s after its lease has run out. A
# renewal costs some 0.2 ms, so a few nodes can afford what a kubelet does, and a thousand renew every 30 s. However
# many there are, no more than MOST_PER_SECOND are written, a twentieth of a core: leases of 100,000 nodes last longer.
SHORTEST_TURN, LONG_TURN, PER_SECOND, MOST_PER_SECOND = 10.0, 30.0, 33.0, 200.0
_PAUSE = 1.0
_IN_FLIGHT = 32
_GOLDEN = 0.618034
"""Multiples of it, without their whole part, are spread evenly, however many there are."""


def turn_of(count: int) -> float:
    """Seconds between two renewals of a lease, with so many of them."""
    return max(SHORTEST_TURN, min(count / PER_SECOND, LONG_TURN), count / MOST_PER_SECOND)


class _Renewal(NamedTuple):
    due: float
    number: int
    """Another one for each node that was started."""
    lease: Data
    """The metadata of the lease."""


class NodeLeases:
    """Renews the leases of nodes, each a quarter of its time before it runs out; many are written together."""

    def __init__(self, client: Client, clock: Clock, count: Callable[[], int]) -> None:
        """`count` says how many nodes there are, of which some may not be started yet."""
        self._client = client
        self._clock = clock
        self._count = count
        self._leases: dict[str, Data] = {}
        self._versions: dict[str, str] = {}
        """The resourceVersions of the leases as they were last renewed."""
        self._due: list[_Renewal] = []
        """A heap of the times at which leases are to be renewed; those of nodes that were stopped are passed over."""
        self._started = 0
        self._some = asyncio.Event()

    def __contains__(self, name: str) -> bool:
        return name in self._leases

    async def start(self, node: Node) -> None:
        """Renew the lease of a node, now and from now on."""
        metadata = node.metadata
        owner = {"apiVersion": "v1", "kind": "Node", "name": metadata.name, "uid": metadata.uid}
        lease = {"name": metadata.name, "namespace": _NAMESPACE, "ownerReferences": [owner]}
        self._leases[metadata.name] = lease
        self._some.set()
        self._started += 1
        heappush(self._due, _Renewal(self._spread(self._started), self._started, lease))
        await self._renew(metadata.name, lease)

    def stop(self, name: str) -> None:
        """Stop renewing the lease of a node."""
        self._leases.pop(name, None)
        self._versions.pop(name, None)
        if not self._leases:
            self._some.clear()

    async def run(self) -> None:
        """Renew leases when they are due, for ever."""
        while True:
            await self._some.wait()
            await self._clock.sleep(_PAUSE)
            now = self._clock.monotonic()
            while batch := self._take(now):
                await asyncio.gather(*map(self._beat, batch))

    def _turn(self) -> float:
        return turn_of(max(self._count(), len(self._leases)))

    def _spread(self, number: int) -> float:
        """A time within one turn from now, another for each number."""
        return self._clock.monotonic() + number * _GOLDEN % 1 * self._turn()

    def _take(self, now: float) -> list[_Renewal]:
        """Some leases that are due."""
        batch: list[_Renewal] = []
        while self._due and self._due[0].due <= now and len(batch) < _IN_FLIGHT:
            renewal = heappop(self._due)
            if self._leases.get(renewal.lease["name"]) is renewal.lease:
                batch.append(renewal)
        return batch

    async def _beat(self, renewal: _Renewal) -> None:
        name = renewal.lease["name"]
        try:
            await self._renew(name, renewal.lease)
            due = renewal.due + self._turn()
            if due < self._clock.monotonic():  # this process has stood still, and all are late
                due = self._spread(renewal.number)
        except ApiError as error:
            due = self._clock.monotonic() + _PAUSE
            _LOG.warning("Node lease not renewed", benign=is_race(error), node=name, err=error)
        heappush(self._due, renewal._replace(due=due))

    async def _renew(self, name: str, lease: Data) -> None:
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": max(_LEASE_SECONDS, ceil(self._turn() * 4 / 3)),
            "renewTime": timestamp(self._clock.now(), micro=True),
        }
        renewed = _version(await self._written(name, lease, spec))
        if self._leases.get(name) is lease:
            self._versions[name] = renewed

    async def _written(self, name: str, lease: Data, spec: Data) -> bytes:
        """Renew a lease that nobody else has changed, or else bring it to what it must be."""
        if version := self._versions.get(name):
            try:
                data = {"metadata": {"resourceVersion": version}, "spec": spec}
                return await self._client.patch(_LEASE, _NAMESPACE, name, data)
            except (Conflict, Missing):
                pass
        data = {"metadata": lease, "spec": spec}
        try:
            return await self._client.create(_LEASE, data, _NAMESPACE)
        except Exists:
            return await self._client.patch(_LEASE, _NAMESPACE, name, data)


def _version(body: bytes) -> str:
    return _read(body).metadata.resource_version
