"""VolumeRestrictions: disks that only one pod may write to, and ReadWriteOncePod claims."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moorage.api.pod import Pod, PodSpec, Volume
from moorage.api.volume import PersistentVolumeClaim
from moorage.client.informer import Key
from moorage.scheduler.framework import SKIP, Cycle, Handle, Plugin, Reject, Rejection, Scope, Skip, Told
from moorage.scheduler.table.nodes import Mask, NodeTable, Rows
from moorage.scheduler.table.shape import PodInfo, Shape
from moorage.scheduler.volumes.claims import key_of, shared_claims, volumes_of
from moorage.scheduler.waiting import Waiting, leaves

DISK_CONFLICT = "node(s) had no available disk"
CLAIM_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
_ONE_POD = "ReadWriteOncePod"

Disk = tuple[Hashable, bool]
"""The identity of a disk, and whether it is mounted read-only: several read-only users do not conflict."""


def disks_of(spec: PodSpec) -> list[Disk]:
    """The disks that a pod mounts without a claim."""
    return [disk for volume in spec.volumes for disk in _disks(volume)]


def _disks(volume: Volume) -> Iterator[Disk]:
    if (gce := volume.gce_persistent_disk) is not None:
        yield ("gce", gce.pd_name), gce.read_only
    if (aws := volume.aws_elastic_block_store) is not None:
        yield ("aws", aws.volume_id), False
    if (iscsi := volume.iscsi) is not None:
        yield ("iscsi", iscsi.iqn), iscsi.read_only
    if (rbd := volume.rbd) is not None:
        for monitor in rbd.monitors:
            yield ("rbd", monitor, rbd.pool, rbd.image), rbd.read_only


class Disks:
    """Which rows have pods that read or write a disk."""

    def __init__(self, table: NodeTable) -> None:
        self._readers: dict[Hashable, dict[int, int]] = {}
        self._writers: dict[Hashable, dict[int, int]] = {}
        for row in table.rows.values():
            for info in table.pods[row].values():
                self.pod_added(row, info)

    def pod_added(self, row: int, info: PodInfo) -> None:
        """Count the disks of a pod."""
        self._change(row, info, 1)

    def pod_removed(self, row: int, info: PodInfo) -> None:
        """Count them no more."""
        self._change(row, info, -1)

    def _change(self, row: int, info: PodInfo, by: int) -> None:
        for disk, read_only in disks_of(info.shape.spec) if info.shape.spec.volumes else ():
            users = self._readers if read_only else self._writers
            rows = users.setdefault(disk, {})
            rows[row] = rows.get(row, 0) + by
            if not rows[row]:
                del rows[row]
            if not rows:
                del users[disk]

    def table_grown(self, size: int) -> None:
        """Rows that are not there yet have no disks."""

    def taken(self, disk: Disk) -> Iterator[int]:
        """The rows where a disk is in use in a way that another use would hurt."""
        yield from self._writers.get(disk[0], ())
        if not disk[1]:
            yield from self._readers.get(disk[0], ())


@dataclass(slots=True)
class _DiskNeeds:
    disks: list[Disk]
    in_use: bool
    """Whether a claim of the pod's that only one pod may use is in use."""


class VolumeRestrictions(Plugin):
    """Keeps pods off nodes that have one of their disks, and waiting while a claim of theirs is in use anywhere."""

    name = "VolumeRestrictions"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._volumes = volumes_of(handle)
        self._disks = Disks(handle.table)
        handle.table.observers.append(self._disks)
        self._waiting = Waiting(handle, self.name)
        self._volumes.claims.on_change(self._claim_changed)
        handle.informers.of(Pod).on_change(self._pod_changed)

    def applies(self, shape: Shape) -> bool:
        """Whether the pod has such disks, or claims."""
        return any(volume.persistent_volume_claim for volume in shape.spec.volumes) or bool(disks_of(shape.spec))

    def pre_filter(self, cycle: Cycle) -> Skip | Reject | None:
        """Find out which claims only one pod may use, and whether one does."""
        namespace = cycle.pod.key[0]
        exclusive: list[Key] = []
        for volume in cycle.pod.pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            claim = self._volumes.claims.get(namespace, name)
            if claim is None:
                self._waiting.note((namespace, name))
                return Reject(f'persistentvolumeclaim "{name}" not found')
            if _ONE_POD in claim.spec.access_modes:
                exclusive.append((namespace, name))
        needs = _DiskNeeds(disks_of(cycle.shape.spec), any(key in self._volumes.users for key in exclusive))
        if not needs.disks and not needs.in_use:
            return SKIP
        cycle.data[self.name] = needs
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """No disk is in use there, and no claim is in use anywhere."""
        needs: _DiskNeeds = cycle.data[self.name]
        if needs.in_use:
            return np.zeros(len(self.handle.table.alive[rows]), np.bool_)
        return ~self._conflicts(needs)[rows]

    def _conflicts(self, needs: _DiskNeeds) -> Mask:
        mask = np.zeros(self.handle.table.size, np.bool_)
        for disk in needs.disks:
            mask[list(self._disks.taken(disk))] = True
        return mask

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Rejection]:
        """The disk or claim that is in use; removing its user helps."""
        needs: _DiskNeeds = cycle.data[self.name]
        self._waiting.note(*shared_claims(cycle.pod), *(disk for disk, _ in needs.disks))
        conflicts = self._conflicts(needs)[rows]
        for reason, mask in ((DISK_CONFLICT, conflicts), (CLAIM_IN_USE, ~conflicts)):
            if mask.any():
                yield Rejection(reason, rows[mask], resolvable=True)

    def tell(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Told]:
        """The disk that is in use on a node, or the claim that is in use anywhere."""
        needs: _DiskNeeds = cycle.data[self.name]
        conflicts = self._conflicts(needs)[rows]
        if conflicts.any():
            yield Told("disk", "volume", "a disk of the pod is in use by another pod there", rows[conflicts])
        claims = sorted(name for _, name in shared_claims(cycle.pod) if (cycle.pod.key[0], name) in self._volumes.users)
        if not conflicts.all():
            reason = "is ReadWriteOncePod, and another pod uses it"
            yield Told("claim", f"claim {', '.join(claims)}", reason, rows[~conflicts])

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if old is None and new is not None:
            self._waiting.changed(old, new, key_of(new))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and old.spec.volumes and leaves(old, new):
            claims = (volume.persistent_volume_claim for volume in old.spec.volumes)
            keys = [(old.metadata.namespace, claim.claim_name) for claim in claims if claim is not None]
            self._waiting.changed(old, new, *keys, *(disk for disk, _ in disks_of(old.spec)))
