"""Claims and volumes as informers have them, what decisions under way assume, and which pods use claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar

from moorage.api.claims import (
    SELECTED_NODE,
    claims_of,
    class_of,
    is_for,
    waits_for_consumer,
)
from moorage.api.volume import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from moorage.client.informer import Key
from moorage.quantity import Quantity
from moorage.scheduler.framework import Handle
from moorage.scheduler.table.reach import Reach, Reaches
from moorage.scheduler.table.shape import PodInfo
from moorage.scheduler.volumes.supply import Layout, Supplies, fits

_BY_CLAIM, _CLASS = "claim", "class"
K = TypeVar("K")


@dataclass(slots=True)
class VolumeDecision:
    """What must be done so that a pod has its volumes on a node."""

    node: str
    bindings: list[tuple[PersistentVolumeClaim, PersistentVolume]] = field(default_factory=list)
    """Claims, and the volumes that they are to have."""
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)
    """Claims for which volumes are to be made."""


class Volumes:
    """What every plugin that looks at volumes shares."""

    def __init__(self, handle: Handle) -> None:
        informers = handle.informers
        self.claims = informers.of(PersistentVolumeClaim)
        self.volumes = informers.of(PersistentVolume)
        self.classes = informers.of(StorageClass)
        self.drivers = informers.of(CSIDriver)
        self.capacities = informers.of(CSIStorageCapacity)
        self.reaches = Reaches(handle.table, handle.gates, handle.label_error)
        self._supplies = Supplies(handle.table, self.reaches)
        self._assumed_claims: dict[str, dict[str, Key]] = {}
        """The claims that volumes are to be bound to, by the volume's name and the uid of the pod that wants it."""
        self._assumed_volumes: dict[Key, dict[str, str]] = {}
        """The volumes that claims are to be bound to, by claim and the uid of the pod that wants it."""
        self._assumed_nodes: dict[Key, dict[str, str]] = {}
        """The nodes that volumes are to be made for, by claim and the uid of the pod that wants it."""
        self.users: Counter[Key] = Counter()
        """How many pods on nodes use a claim that is not only theirs."""
        self.volumes.index(_BY_CLAIM, _claim_named_by)
        self.capacities.index(_CLASS, lambda capacity: [capacity.storage_class_name])
        self.volumes.on_change(self._supplies.volume_changed)
        for row in handle.table.rows.values():
            for info in handle.table.pods[row].values():
                self.pod_added(row, info)

    def pod_added(self, row: int, info: PodInfo) -> None:
        """Count the claims of a pod."""
        if info.shape.spec.volumes:
            self.users.update(shared_claims(info))

    def pod_removed(self, row: int, info: PodInfo) -> None:
        """Count them no more."""
        if info.shape.spec.volumes:
            for key in shared_claims(info):
                self.users[key] -= 1
                if not self.users[key]:
                    del self.users[key]

    @property
    def has_assumptions(self) -> bool:
        """Whether something is assumed that is neither written nor forgotten."""
        return bool(self._assumed_claims or self._assumed_volumes or self._assumed_nodes)

    def table_grown(self, size: int) -> None:
        """Claims are not counted by row."""

    def assume(self, pod: str, decision: VolumeDecision) -> None:
        """Let other decisions take into account what will be done for a pod, by its uid."""
        for claim, volume in decision.bindings:
            self._assumed_claims.setdefault(volume.metadata.name, {})[pod] = key_of(claim)
            self._assumed_volumes.setdefault(key_of(claim), {})[pod] = volume.metadata.name
        for claim in decision.provisions:
            self._assumed_nodes.setdefault(key_of(claim), {})[pod] = decision.node

    def forget(self, pod: str, decision: VolumeDecision) -> None:
        """Forget what was assumed: it is written, or will not be."""
        for claim, volume in decision.bindings:
            _drop(self._assumed_claims, volume.metadata.name, pod)
            _drop(self._assumed_volumes, key_of(claim), pod)
        for claim in decision.provisions:
            _drop(self._assumed_nodes, key_of(claim), pod)

    def selected_node(self, claim: PersistentVolumeClaim) -> str:
        """The node that a volume is to be made for, empty when none has been chosen."""
        return claim.metadata.annotations.get(SELECTED_NODE) or next(
            iter(self._assumed_nodes.get(key_of(claim), {}).values()), ""
        )

    def waits(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a claim is bound only when a pod that uses it is placed."""
        return not claim.spec.volume_name and waits_for_consumer(self.classes.get("", class_of(claim)))

    def pre_bound(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The volume that names a claim which is not bound yet, or is going to name it."""
        key = key_of(claim)
        assumed = [self.volumes.get("", name) for name in self._assumed_volumes.get(key, {}).values()]
        here = [volume for volume in assumed if volume is not None and volume.spec.claim_ref is None]
        there = [volume for volume in self.volumes.by(_BY_CLAIM, "/".join(key)) if is_for(volume, claim)]
        for volume in (*there, *here):
            if volume.spec.storage_class_name == class_of(claim) and fits(volume, claim):
                return volume
        return None

    def layout(self, claim: PersistentVolumeClaim) -> Layout:
        """The free volumes of the class of a claim."""
        return self._supplies.of(class_of(claim)).layout()

    @property
    def busy(self) -> Collection[str]:
        """The names of the volumes that claims are to be bound to."""
        return self._assumed_claims.keys()

    def pools(self, storage_class: StorageClass, claim: PersistentVolumeClaim) -> list[Reach] | None:
        """The reach of each storage capacity that is large enough for a claim; None when the driver reports none."""
        driver = self.drivers.get("", storage_class.provisioner)
        request = claim.spec.resources.requests.get("storage")
        if driver is None or not driver.spec.storage_capacity or request is None:
            return None
        size = Quantity.of(request)
        return [
            self.reaches.of_labels(capacity.node_topology)
            for capacity in self.capacities.by(_CLASS, storage_class.metadata.name)
            if capacity.node_topology is not None and (room := room_of(capacity)) is not None and room >= size
        ]


def volumes_of(handle: Handle) -> Volumes:
    """What all plugins of a scheduler share."""
    observers = handle.table.observers
    known = next((observer for observer in observers if isinstance(observer, Volumes)), None)
    if known is None:
        known = Volumes(handle)
        observers.append(known)
    return known


def key_of(claim: PersistentVolumeClaim) -> Key:
    """Namespace and name."""
    return claim.metadata.namespace, claim.metadata.name


def shared_claims(info: PodInfo) -> set[Key]:
    """The claims of a pod that others could use too."""
    return {(info.key[0], use.claim) for use in claims_of(info.pod) if not use.ephemeral}


def room_of(capacity: CSIStorageCapacity) -> Quantity | None:
    """How large a new volume may be; None when that is not known."""
    limit = capacity.maximum_volume_size
    limit = capacity.capacity if limit is None else limit
    return None if limit is None else Quantity.of(limit)


def _claim_named_by(volume: PersistentVolume) -> list[str]:
    reference = volume.spec.claim_ref
    return [f"{reference.namespace}/{reference.name}"] if reference is not None else []


def _drop(kept: dict[K, dict[str, Any]], key: K, pod: str) -> None:
    holders = kept.get(key, {})
    holders.pop(pod, None)
    if not holders:
        kept.pop(key, None)
