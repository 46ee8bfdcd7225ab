"""NodeVolumeLimits: keeps pods off nodes that would exceed the limit of a CSI driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moorage.api.claims import claims_of
from moorage.api.pod import Pod
from moorage.api.volume import CSINode, PersistentVolumeClaim, VolumeAttachment
from moorage.scheduler.framework import SKIP, Cycle, Handle, Plugin, Rejection, Scope, Skip, Told
from moorage.scheduler.table.nodes import Mask, Rows
from moorage.scheduler.table.shape import Shape
from moorage.scheduler.volumes.attachments import Attached, Attachments, Unattachable, limits_of
from moorage.scheduler.volumes.claims import key_of
from moorage.scheduler.waiting import Waiting, leaves

REASON = "node(s) exceed max volume count"
_ROOM = "room"


class NodeVolumeLimits(Plugin):
    """Compares what drivers say a node can have with what is attached to it."""

    name = "NodeVolumeLimits"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._attachments = Attachments(handle)
        handle.table.observers.append(self._attachments)
        self._waiting = Waiting(handle, self.name)
        handle.informers.of(CSINode).on_change(self._node_changed)
        handle.informers.of(VolumeAttachment).on_change(self._attachment_changed)
        handle.informers.of(PersistentVolumeClaim).on_change(self._claim_changed)
        handle.informers.of(Pod).on_change(self._pod_changed)

    def applies(self, shape: Shape) -> bool:
        """Whether the pod has claims."""
        return any(volume.persistent_volume_claim or volume.ephemeral for volume in shape.spec.volumes)

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        """Find out which volumes the pod has that are limited in number."""
        volumes: set[Attached] | Unattachable
        try:
            volumes = self._attachments.limited_of(cycle.pod.pod)
        except Unattachable as error:
            volumes = error
        if not volumes:
            return SKIP
        cycle.data[self.name] = volumes
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """The limits allow the volumes of the pod beside those that are attached."""
        volumes: set[Attached] | Unattachable = cycle.data[self.name]
        if isinstance(volumes, Unattachable):
            return np.zeros(len(self.handle.table.alive[rows]), np.bool_)
        return ~self._attachments.exceeded(volumes)[rows]

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Rejection]:
        """Removing pods detaches their volumes, but does not create a missing claim."""
        volumes: set[Attached] | Unattachable = cycle.data[self.name]
        if isinstance(volumes, Unattachable):
            self._waiting.note(*((cycle.pod.key[0], use.claim) for use in claims_of(cycle.pod.pod)))
            yield Rejection(str(volumes), rows)
        else:
            self._waiting.note(_ROOM)
            yield Rejection(REASON, rows, resolvable=True)

    def tell(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Told]:
        """How many volumes each node can have, and how many it has."""
        volumes: set[Attached] | Unattachable = cycle.data[self.name]
        if isinstance(volumes, Unattachable):
            yield Told("unattachable", "volumes", str(volumes), rows)
            return
        for row in rows.tolist():
            for driver, there, limit in self._attachments.used(row, volumes):
                reason = f"{there} of {limit} volumes are attached"
                yield Told(driver, f"driver {driver}", reason, np.array([row], np.intp))

    def _node_changed(self, old: CSINode | None, new: CSINode | None) -> None:
        after = limits_of(new)
        if any(driver not in after or after[driver] > limit for driver, limit in limits_of(old).items()):
            self._waiting.changed(old, new, _ROOM)

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if new is None:
            self._waiting.changed(old, new, _ROOM)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if old is None and new is not None:
            self._waiting.changed(old, new, key_of(new))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and old.spec.volumes and leaves(old, new) and any(claims_of(old)):
            self._waiting.changed(old, new, _ROOM)
