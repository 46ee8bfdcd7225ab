"""VolumeZone: keeps pods in the zone and region of their volumes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moorage.api.claims import WAIT_FOR_FIRST_CONSUMER, class_of
from moorage.api.node import Node
from moorage.api.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.scheduler.explaining import alike
from moorage.scheduler.framework import SKIP, Cycle, Handle, Plugin, Reject, Rejection, Scope, Skip, Told
from moorage.scheduler.table.nodes import REGION, ZONE, Mask, Rows
from moorage.scheduler.table.shape import PodInfo, Shape
from moorage.scheduler.volumes.claims import key_of, shared_claims, volumes_of
from moorage.scheduler.waiting import Waiting

REASON = "node(s) had no available volume zone"
_NEWER = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    ZONE: ZONE,
    REGION: REGION,
}
"""The labels that say where something is, and by what newer one nodes may say the same."""
_SEVERAL = "__"
"""What stands between the zones of a volume that is in several."""
_NODE, _CLASS, _VOLUME = "node", "class", "volume"


class Topology(NamedTuple):
    """A label of a volume, and the values of which a node must have one."""

    key: str
    values: frozenset[str]


def topologies_of(volume: PersistentVolume) -> list[Topology]:
    """Where a volume is; a label that does not parse says nothing."""
    topologies = []
    for key in _NEWER:
        values = [zone.strip() for zone in volume.metadata.labels.get(key, "").split(_SEVERAL)]
        if all(values):
            topologies.append(Topology(key, frozenset(values)))
    return topologies


class VolumeZone(Plugin):
    """Compares the labels of volumes with those of nodes. A node that has no such label is in every zone."""

    name = "VolumeZone"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._volumes = volumes_of(handle)
        self._waiting = Waiting(handle, self.name)
        self._volumes.claims.on_change(self._claim_changed)
        self._volumes.volumes.on_change(self._volume_changed)
        self._volumes.classes.on_change(self._class_changed)
        handle.informers.of(Node).on_change(self._node_changed)

    def applies(self, shape: Shape) -> bool:
        """Whether the pod has claims of its own."""
        return any(volume.persistent_volume_claim for volume in shape.spec.volumes)

    def pre_filter(self, cycle: Cycle) -> Skip | Reject | None:
        """Find out where the pod's volumes are."""
        required: list[Topology] = []
        for volume in cycle.pod.pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            topologies = self._topologies(cycle.pod, volume.persistent_volume_claim.claim_name)
            if isinstance(topologies, str):
                self._note(cycle.pod)
                return Reject(topologies)
            required += topologies
        if not required:
            return SKIP
        cycle.data[self.name] = required
        return None

    def _topologies(self, info: PodInfo, name: str) -> list[Topology] | str:
        """The topology of the volume of a claim, or why that is not known."""
        claim = self._volumes.claims.get(info.key[0], name)
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found' if name else "PersistentVolumeClaim had no name"
        if claim.spec.volume_name:
            volume = self._volumes.volumes.get("", claim.spec.volume_name)
            missing = f'persistentvolume "{claim.spec.volume_name}" not found'
            return missing if volume is None else topologies_of(volume)
        if not (class_name := class_of(claim)):
            return "PersistentVolumeClaim had no pv name and storageClass name"
        storage_class = self._volumes.classes.get("", class_name)
        if storage_class is None:
            return f'storageclass.storage.k8s.io "{class_name}" not found'
        if storage_class.volume_binding_mode is None:
            return f'VolumeBindingMode not set for StorageClass "{class_name}"'
        waits = storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        return [] if waits else "PersistentVolume had no name"

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """The node is in the zone and region of every volume, or has no such label."""
        table = self.handle.table
        somewhere = np.zeros(len(table.alive[rows]), np.bool_)
        for key in _NEWER:
            somewhere |= table.labels(key).codes[rows] != 0
        mask = np.ones_like(somewhere)
        for key, values in cycle.data[self.name]:
            there, has = self._among(key, values, rows)
            newer, _ = self._among(_NEWER[key], values, rows)
            mask &= np.where(has, there, newer)
        return mask | ~somewhere

    def _among(self, key: str, values: frozenset[str], rows: Rows) -> tuple[Mask, Mask]:
        """Which rows have one of these values of a label, and which have the label at all."""
        column = self.handle.table.labels(key)
        codes = column.codes[rows]
        numbers = [number for value in values if (number := column.number(value)) is not None]
        return np.isin(codes, numbers), codes != 0

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Rejection]:
        """Removing pods does not help."""
        self._note(cycle.pod)
        yield Rejection(REASON, rows)

    def tell(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Told]:
        """Where the volumes are, and where the node is."""
        table = self.handle.table
        for key, values in cycle.data[self.name]:
            there, has = self._among(key, values, rows)
            newer, _ = self._among(_NEWER[key], values, rows)
            wrong = rows[~np.where(has, there, newer)]
            for same in alike(table.labels(key).codes[wrong], wrong):
                value = table.labels(key).value(int(same[0]))
                where = f"the node has no label {key}" if value is None else f"the node is in {value}"
                yield Told(key, "volume zone", f"a volume is in {', '.join(sorted(values))} ({key}), {where}", same)

    def _note(self, info: PodInfo) -> None:
        self._waiting.note(_NODE)
        for key in shared_claims(info):
            self._waiting.note(key)
            if (claim := self._volumes.claims.get(*key)) is not None:
                self._waiting.note((_VOLUME, claim.spec.volume_name), (_CLASS, class_of(claim)))

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None:
            self._waiting.changed(old, new, key_of(new))

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if new is not None and (old is None or topologies_of(old) != topologies_of(new)):
            self._waiting.changed(old, new, (_VOLUME, new.metadata.name))

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        if old is None and new is not None and new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            self._waiting.changed(old, new, (_CLASS, new.metadata.name))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None and (old is None or old.metadata.labels != new.metadata.labels):
            self._waiting.changed(old, new, _NODE)
