"""Which devices are taken: by the claims as the API has them, and by decisions that are not written or seen yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from moorage.api.resource import AllocationResult, ResourceClaim
from moorage.client import Informer
from moorage.scheduler.devices.pools import DeviceId


class AssumedClaim(NamedTuple):
    """A claim as it will be once a write of ours is seen."""

    claim: ResourceClaim
    is_written: bool


class Ledger:
    """The claims with their allocations, ours from the moment they are decided, and the devices that are taken."""

    def __init__(self, claims: Informer[ResourceClaim], changed: Callable[[DeviceId], None]) -> None:
        self._claims = claims
        self._changed = changed
        self.assumed: dict[str, AssumedClaim] = {}
        """The claims that are decided or written here and not seen yet, by uid."""
        self._counted: dict[str, ResourceClaim] = {}
        """The claims with devices as the API has them: the last state of a deleted claim need not have its devices."""
        self.taken: dict[DeviceId, int] = {}
        """How many claims have each device; more than one would be a defect."""
        claims.on_change(self._seen)

    def get(self, namespace: str, name: str) -> ResourceClaim | None:
        """A claim as the API has it, after the writes that were made here."""
        claim = self._claims.get(namespace, name)
        assumed = self.assumed.get(claim.metadata.uid) if claim is not None else None
        return assumed.claim if assumed is not None and assumed.is_written else claim

    def is_reserved(self, uid: str) -> bool:
        """Whether devices were chosen for a claim and that is not written yet."""
        assumed = self.assumed.get(uid)
        return assumed is not None and not assumed.is_written

    def reserve(self, claim: ResourceClaim, allocation: AllocationResult) -> None:
        """Keep the devices that were chosen for a claim from all others."""
        status = msgspec.structs.replace(claim.status, allocation=allocation)
        self._assume(AssumedClaim(msgspec.structs.replace(claim, status=status), False))

    def withdraw(self, uid: str) -> bool:
        """Free devices that were reserved and will not be written into the claim. Whether there were any."""
        if not self.is_reserved(uid):
            return False
        self._release(self.assumed.pop(uid).claim)
        return True

    def written(self, claim: ResourceClaim) -> None:
        """A claim was written: it counts from now on, and until it is seen."""
        self._assume(AssumedClaim(claim, True))
        self._settle(claim.metadata.uid, self._claims.get(claim.metadata.namespace, claim.metadata.name))

    def _assume(self, assumed: AssumedClaim) -> None:
        uid = assumed.claim.metadata.uid
        before = self.assumed.get(uid)
        self.assumed[uid] = assumed
        self._take(assumed.claim)
        if before is not None:
            self._release(before.claim)

    def _seen(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        either = new or old
        assert either is not None
        uid = either.metadata.uid
        counted = self._counted.pop(uid, None)
        if new is not None and new.status.allocation is not None:
            self._counted[uid] = new
            self._take(new)
        if counted is not None:
            self._release(counted)
        self._settle(uid, new)

    def _settle(self, uid: str, seen: ResourceClaim | None) -> None:
        """Drop an assumed claim once the informer has seen our write, or the end of the claim."""
        assumed = self.assumed.get(uid)
        if assumed is None:
            return
        is_gone = seen is None or seen.metadata.uid != uid
        if is_gone or (assumed.is_written and revision_of(seen) >= revision_of(assumed.claim)):
            self._release(self.assumed.pop(uid).claim)

    def _take(self, claim: ResourceClaim) -> None:
        for device in devices_of(claim):
            self.taken[device] = count = self.taken.get(device, 0) + 1
            if count == 1:
                self._changed(device)

    def _release(self, claim: ResourceClaim) -> None:
        for device in devices_of(claim):
            self.taken[device] -= 1
            if not self.taken[device]:
                del self.taken[device]
                self._changed(device)


def devices_of(claim: ResourceClaim) -> Iterator[DeviceId]:
    """The devices that a claim keeps from others: all but those with admin access."""
    allocation = claim.status.allocation
    for each in allocation.devices.results if allocation is not None else ():
        if not each.admin_access:
            yield DeviceId(each.driver, each.pool, each.device)


def revision_of(claim: ResourceClaim | None) -> int:
    """Revisions of one object grow."""
    text = claim.metadata.resource_version if claim is not None else ""
    return int(text) if text.isdigit() else 0
