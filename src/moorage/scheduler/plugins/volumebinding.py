"""VolumeBinding: filters by the reach of volumes, and has claims bound before their pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moorage.api.claims import claims_of, class_of, is_bound, not_made_for
from moorage.api.node import Node
from moorage.api.rules import NODE_AFFINITY
from moorage.api.volume import CSIDriver, CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.scheduler.explaining import explain_selector, tell_selector
from moorage.scheduler.framework import Cycle, Explained, Handle, Plugin, Reject, Rejection, Scope, Told
from moorage.scheduler.table.nodes import Mask, Rows
from moorage.scheduler.table.reach import Reach
from moorage.scheduler.table.shape import PodInfo, Shape
from moorage.scheduler.volumes.claims import VolumeDecision, key_of, room_of, volumes_of
from moorage.scheduler.volumes.finding import PodVolumeClaims, VolumeSearch
from moorage.scheduler.volumes.writes import VolumeWrites
from moorage.scheduler.waiting import Waiting
from moorage.validation.attached import attached_errors

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"
NONE_TO_BIND = "node(s) didn't find available persistent volumes to bind"
TOO_SMALL = "node(s) did not have enough free storage"
LOST = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_SECONDS = 600
_LONGEST = 200
_CLAIM, _VOLUME, _CLASS, _SUPPLY, _NODE = "claim", "volume", "class", "supply", "node"


class VolumeBinding(Plugin):
    """Checks bound claims by node affinity, and finds volumes for claims that wait for their first consumer."""

    name = "VolumeBinding"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        seconds = args.get("bindTimeoutSeconds", _SECONDS)
        if not isinstance(seconds, int) or seconds < 0:
            raise ValueError(f"bindTimeoutSeconds: Invalid value: {seconds}: invalid BindTimeoutSeconds")
        if "shape" in args:
            raise ValueError("shape: volumes are not scored by how well they are used: leave it out")
        self._volumes = volumes_of(handle)
        self._writes = VolumeWrites(handle, self._volumes, seconds)
        self._waiting = Waiting(handle, self.name)
        self.reserved: dict[str, VolumeDecision] = {}
        """The decisions that are being carried out, by the uid of the pod."""
        self._volumes.claims.on_change(self._claim_changed)
        self._volumes.volumes.on_change(self._volume_changed)
        self._volumes.classes.on_change(self._class_changed)
        self._volumes.capacities.on_change(self._capacity_changed)
        self._volumes.drivers.on_change(self._driver_changed)
        handle.informers.of(Node).on_change(self._node_changed)

    def applies(self, shape: Shape) -> bool:
        """Whether the pod has claims."""
        return any(volume.persistent_volume_claim or volume.ephemeral for volume in shape.spec.volumes)

    def pre_filter(self, cycle: Cycle) -> Reject | None:
        """All claims are there, and those that do not wait for the pod are bound."""
        claims = self._claims(cycle.pod)
        if isinstance(claims, Reject):
            self._await_claims(cycle.pod)
            return claims
        pod_claims = PodVolumeClaims()
        for claim in claims:
            if is_bound(claim):
                pod_claims.bound.append(claim)
            elif self._volumes.waits(claim):
                pod_claims.waiting.append(claim)
            else:
                self._await_claims(cycle.pod)
                return Reject(UNBOUND)
        cycle.data[self.name] = pod_claims
        return None

    def _claims(self, info: PodInfo) -> Iterable[PersistentVolumeClaim] | Reject:
        claims: dict[str, PersistentVolumeClaim] = {}
        for use in claims_of(info.pod):
            claim = self._volumes.claims.get(info.key[0], use.claim)
            if claim is None:
                missing = f'persistentvolumeclaim "{use.claim}"'
                awaited = f"waiting for ephemeral volume controller to create the {missing}"
                return Reject(awaited if use.ephemeral else f"{missing} not found")
            if problem := _problem(claim) or (not_made_for(info.pod, claim) if use.ephemeral else ""):
                return Reject(problem)
            claims[use.claim] = claim
        return claims.values()

    def _search(self, cycle: Cycle, rows: Rows) -> VolumeSearch:
        table = self.handle.table
        index = np.arange(table.size)[rows] if isinstance(rows, slice) else rows
        return VolumeSearch(table, self._volumes, cycle.data[self.name], index)

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """Every claim has a volume that the node can reach, or can have one."""
        return self._search(cycle, rows).will_do

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Rejection]:
        """Why the volumes do not fit; removing pods does not help."""
        self._await_claims(cycle.pod)
        self._await_volumes(cycle.data[self.name])
        search = self._search(cycle, rows)
        unclear = search.out_of_reach & self._unclear(cycle, rows)
        if unclear.any():
            yield Rejection(OUT_OF_REACH, rows[unclear], parse_error=True)
        reasons = (
            (OUT_OF_REACH, search.out_of_reach & ~unclear),
            (NONE_TO_BIND, search.none_to_bind),
            (TOO_SMALL, search.too_small),
            (LOST, search.lost),
        )
        for reason, mask in reasons:
            if mask.any():
                yield Rejection(reason, rows[mask])

    def explain(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Explained]:
        """Why volumes cannot be reached."""
        for volume, reach in self._reaches(cycle):
            beyond = rows[~reach.mask(rows)]
            yield from explain_selector(self.handle.table, _subject(volume), reach.selector, beyond)

    def tell(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Told]:
        """Why volumes cannot be reached, and which claims find none."""
        for volume, reach in self._reaches(cycle):
            beyond = rows[~reach.mask(rows)]
            yield from tell_selector(self.handle.table, _subject(volume), reach.selector, beyond)
        pod_claims: PodVolumeClaims = cycle.data[self.name]
        search = self._search(cycle, rows)
        waiting = ", ".join(claim.metadata.name for claim in pod_claims.waiting)
        bound = ", ".join(claim.metadata.name for claim in pod_claims.bound)
        for kind, claims, reason, mask in (
            ("none", waiting, "no free volume that it could have here, and none can be made", search.none_to_bind),
            ("small", waiting, "there is not enough free storage to make a volume", search.too_small),
            ("lost", bound, "is bound to a volume that does not exist", search.lost),
        ):
            if mask.any():
                yield Told(kind, f"claim {claims}", reason, rows[mask])

    def _unclear(self, cycle: Cycle, rows: NDArray[np.intp]) -> Mask:
        """Where the reach of a volume cannot be evaluated."""
        mask = np.zeros(len(rows), np.bool_)
        for _, reach in self._reaches(cycle):
            mask |= reach.unclear(rows)
        return mask

    def _reaches(self, cycle: Cycle) -> Iterator[tuple[PersistentVolume, Reach]]:
        """The volumes of the claims that are bound, and from where each can be reached."""
        for claim in cycle.data[self.name].bound:
            volume = self._volumes.volumes.get("", claim.spec.volume_name)
            if volume is not None:
                yield volume, self._volumes.reaches.of_volume(volume)

    def reserve(self, cycle: Cycle, node: str) -> str:
        """Take the volumes that were found on a node."""
        pod_claims: PodVolumeClaims | None = cycle.data.get(self.name)
        if pod_claims is not None and pod_claims.waiting:
            search = self._search(cycle, np.array([self.handle.table.rows[node]], np.intp))
            decision = self.reserved[cycle.pod.uid] = search.decision(node)
            self._volumes.assume(cycle.pod.uid, decision)
        return ""

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Free them."""
        decision = self.reserved.pop(cycle.pod.uid, None)
        if decision is not None:
            self._volumes.forget(cycle.pod.uid, decision)

    async def pre_bind(self, cycle: Cycle, node: str) -> None:
        """Have the claims bound."""
        decision = self.reserved.get(cycle.pod.uid)
        if decision is not None:
            await self._writes.carry_out(cycle.pod, decision)
            self.unreserve(cycle, node)

    def _await_claims(self, info: PodInfo) -> None:
        for use in claims_of(info.pod):
            key = info.key[0], use.claim
            claim = self._volumes.claims.get(*key)
            self._waiting.note((_CLAIM, key), *(((_CLASS, class_of(claim)),) if claim else ()))

    def _await_volumes(self, pod_claims: PodVolumeClaims) -> None:
        self._waiting.note(_NODE)
        self._waiting.note(*((_VOLUME, claim.spec.volume_name) for claim in pod_claims.bound))
        self._waiting.note(*((_SUPPLY, class_of(claim)) for claim in pod_claims.waiting))

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None:
            self._waiting.changed(old, new, (_CLAIM, key_of(new)))

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if new is not None:
            self._waiting.changed(old, new, (_VOLUME, new.metadata.name), (_SUPPLY, new.spec.storage_class_name))

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        if new is not None and (old is None or old.allowed_topologies != new.allowed_topologies):
            self._waiting.changed(old, new, (_CLASS, new.metadata.name))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None and (old is None or old.metadata.labels != new.metadata.labels):
            self._waiting.changed(old, new, _NODE)

    def _capacity_changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        room = room_of(new) if new is not None else None
        before = room_of(old) if old is not None else None
        if new is not None and room is not None and (before is None or room > before):
            self._waiting.changed(old, new, (_SUPPLY, new.storage_class_name))

    def _driver_changed(self, old: CSIDriver | None, new: CSIDriver | None) -> None:
        if old is not None and old.spec.storage_capacity and not (new and new.spec.storage_capacity):
            self._waiting.changed(old, new, _NODE)


def _problem(claim: PersistentVolumeClaim) -> str:
    """Why a claim is of no use, empty when it may be."""
    name = claim.metadata.name
    if claim.status.phase == "Lost":
        lost = claim.spec.volume_name
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{lost}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    return ""


def _subject(volume: PersistentVolume) -> str:
    """A volume as reasons name it, with what is wrong with rules in its annotations: these reach no node."""
    errors = attached_errors(volume) if NODE_AFFINITY in volume.metadata.annotations else []
    wrong = f" ({str(errors[0])[:_LONGEST]})" if errors else ""
    return f"volume {volume.metadata.name}{wrong}"
