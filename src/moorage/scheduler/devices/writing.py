"""Writes the allocation, the reservation and the finalizer of claims."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.api.resource import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from moorage.api.rules import COVER, DEVICE_TOLERATIONS, text_of
from moorage.client import Client, Conflict, Unavailable
from moorage.client.backoff import Backoff
from moorage.client.client import STRATEGIC
from moorage.client.clock import Clock, timestamp
from moorage.scheduler.devices.ledger import Ledger
from moorage.scheduler.framework import Unbindable

FINALIZER = "resource.kubernetes.io/delete-protection"
MOST_USERS = 256
_CLAIM = kinds.row("resource.k8s.io/v1", "ResourceClaim")
_TRIES = 8
_AT_ONCE = 64
"""How many claims are written at a time: more at once would only keep everybody else waiting."""
_BACKOFF = Backoff(0.1, 5.0)
"""How long to wait when the API server does not answer."""


class ClaimWriter:
    """One write a claim at a time: pods that share a claim do not get in each other's way."""

    def __init__(self, client: Client, ledger: Ledger, clock: Clock) -> None:
        self._client = client
        self._ledger = ledger
        self._clock = clock
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def reserve(self, claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod) -> None:
        """Reserve a claim for a pod, with these devices when it has none yet. Raises ApiError or Unbindable."""
        async with self._lock(claim), self._slots:
            latest = self._ledger.get(claim.metadata.namespace, claim.metadata.name) or claim
            conflicts = failures = 0
            while True:
                try:
                    latest = await self.write(latest, allocation, pod)
                except Conflict:
                    conflicts += 1
                    if conflicts == _TRIES:
                        raise
                except Unavailable:
                    # The write may have been made: only the claim itself can tell.
                    failures += 1
                    await self._clock.sleep(_BACKOFF.delay(failures))
                else:
                    self._ledger.written(latest)
                    return
                latest = await self._read(claim)

    async def unreserve(self, claim: ResourceClaim, pod: Pod) -> None:
        """A pod will not use a claim after all. Raises ApiError."""
        users = [{"$patch": "delete", "uid": pod.metadata.uid}]
        patch = {"metadata": {"uid": claim.metadata.uid}, "status": {"reservedFor": users}}
        async with self._lock(claim):
            self._ledger.written(await self._status(claim, patch, STRATEGIC))

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Take its devices from a claim that nobody uses. Raises ApiError."""
        status = {"allocation": None, "devices": None, "reservedFor": None}
        patch = {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status}
        await self._status(claim, patch)

    def _lock(self, claim: ResourceClaim) -> asyncio.Lock:
        return self._locks.setdefault(claim.metadata.uid, asyncio.Lock())

    async def write(self, claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod) -> ResourceClaim:
        """Write allocation and reservation into a claim as it is now. Raises ApiError or Unbindable."""
        name, users = f"claim {claim.metadata.namespace}/{claim.metadata.name}", claim.status.reserved_for
        has = claim.status.allocation
        if claim.metadata.deletion_timestamp is not None:
            raise Unbindable(f"{name} got deleted in the meantime")
        if has is not None and allocation is not None and has.devices.results != allocation.devices.results:
            raise Unbindable(f"{name} got allocated elsewhere in the meantime")
        if has is None and allocation is None:
            raise Unbindable(f"{name} got deallocated elsewhere in the meantime")
        if any(each.uid == pod.metadata.uid for each in users):
            return claim
        if len(users) >= MOST_USERS:
            raise Unbindable(f"{name} is reserved for {MOST_USERS} others already")
        user = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        status: Data = {"reservedFor": msgspec.to_builtins([*users, user])}
        if has is None:
            if FINALIZER not in claim.metadata.finalizers or _is_unrecorded(claim):
                claim = await self._protect(claim, allocation)
            now = {"allocationTimestamp": timestamp(self._clock.now())}
            status["allocation"] = msgspec.to_builtins(allocation) | now
        patch = {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status}
        return await self._status(claim, patch)

    async def _protect(self, claim: ResourceClaim, allocation: AllocationResult | None) -> ResourceClaim:
        """Keep a claim from vanishing while it has devices, and record what covers its rules."""
        metadata = claim.metadata
        changed: Data = {"resourceVersion": metadata.resource_version}
        changed["finalizers"] = list(dict.fromkeys((*metadata.finalizers, FINALIZER)))
        if allocation is not None and _is_unrecorded(claim):
            written = dict.fromkeys(each for result in allocation.devices.results for each in result.tolerations)
            changed["annotations"] = {COVER: text_of(tuple(written))}
        patch = {"metadata": changed}
        return _claim(await self._client.patch(_CLAIM, metadata.namespace, metadata.name, patch))

    async def _status(self, claim: ResourceClaim, patch: Data, form: str = "") -> ResourceClaim:
        where = claim.metadata.namespace, claim.metadata.name
        options = {"form": form} if form else {}
        return _claim(await self._client.patch(_CLAIM, *where, patch, subresource="status", **options))

    async def _read(self, claim: ResourceClaim) -> ResourceClaim:
        """A claim as it is now. Waits for a server that does not answer."""
        metadata, failures = claim.metadata, 0
        while True:
            try:
                latest = _claim(await self._client.get(_CLAIM, metadata.namespace, metadata.name))
            except Unavailable:
                failures += 1
                await self._clock.sleep(_BACKOFF.delay(failures))
                continue
            if latest.metadata.uid != metadata.uid:
                raise Unbindable(f"claim {metadata.namespace}/{metadata.name} got deleted in the meantime")
            return latest


def _is_unrecorded(claim: ResourceClaim) -> bool:
    return DEVICE_TOLERATIONS in claim.metadata.annotations and COVER not in claim.metadata.annotations


def _claim(data: bytes) -> ResourceClaim:
    return msgspec.json.decode(data, type=ResourceClaim)
