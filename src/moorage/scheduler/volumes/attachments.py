"""Which volumes of which drivers are attached to each node, and how many a node can have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from moorage.api.claims import claims_of, class_of, not_made_for
from moorage.api.pod import Pod
from moorage.api.volume import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from moorage.client.informer import Key
from moorage.scheduler.framework import Handle
from moorage.scheduler.table.nodes import Index, Mask, Scores
from moorage.scheduler.table.shape import PodInfo
from moorage.scheduler.volumes.claims import key_of, volumes_of
from moorage.scheduler.volumes.migrated import driver_and_handle, driver_of

_NODE, _VOLUME = "node", "volume"


class Attached(NamedTuple):
    """A volume as its driver knows it; one that is not made yet goes by its claim."""

    driver: str
    handle: str
    unmade: bool = False


class Unattachable(Exception):
    """A pod cannot have its volumes; the sentence says why."""


@dataclass(slots=True)
class _Limited:
    """The nodes that can have only so many volumes of a driver, in the same order everywhere."""

    places: dict[str, int]
    rows: Index
    limits: Scores
    counts: Scores


class Attachments:
    """Counts distinct volumes by node and driver, anew for nodes where something has changed."""

    def __init__(self, handle: Handle) -> None:
        self._table = handle.table
        self._volumes = volumes_of(handle)
        self._attachments = handle.informers.of(VolumeAttachment)
        self._attachments.index(_NODE, lambda attachment: [attachment.spec.node_name])
        self._attachments.index(_VOLUME, lambda attachment: [attachment.spec.source.persistent_volume_name or ""])
        self._claims: dict[Key, set[str]] = {}
        """The nodes that have, or had, pods with a claim."""
        self._there: dict[str, frozenset[Attached]] = {}
        """What the pods of a node have."""
        self._nodes: dict[Attached, set[str]] = {}
        """The nodes whose pods have a volume."""
        self._counts: dict[str, Counter[str]] = {}
        """How many volumes a node has of each driver."""
        self._limits: dict[str, dict[str, int]] = {}
        """How many volumes of a driver each node can have."""
        self._limited: dict[str, _Limited] = {}
        self._places = -1
        self._stale: set[str] = set()
        handle.informers.of(CSINode).on_change(self._node_changed)
        self._attachments.on_change(self._attachment_changed)
        self._volumes.claims.on_change(self._claim_changed)
        self._volumes.volumes.on_change(self._volume_changed)
        self._volumes.classes.on_change(self._class_changed)
        for row in handle.table.rows.values():
            for info in handle.table.pods[row].values():
                self.pod_added(row, info)

    def pod_added(self, row: int, info: PodInfo) -> None:
        """A pod may bring volumes."""
        if info.shape.spec.volumes:
            self._stale.add(info.node_name)
            for use in claims_of(info.pod):
                self._claims.setdefault((info.key[0], use.claim), set()).add(info.node_name)

    def pod_removed(self, row: int, info: PodInfo) -> None:
        """A pod may take volumes away."""
        if info.shape.spec.volumes:
            self._stale.add(info.node_name)

    def table_grown(self, size: int) -> None:
        """What is kept is kept by node."""

    def _node_changed(self, old: CSINode | None, new: CSINode | None) -> None:
        item = new or old
        assert item is not None
        for driver in [driver for driver, nodes in self._limits.items() if item.metadata.name in nodes]:
            del self._limits[driver][item.metadata.name]
            self._limited.pop(driver, None)
        for driver, limit in limits_of(new).items():
            self._limits.setdefault(driver, {})[item.metadata.name] = limit
            self._limited.pop(driver, None)

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        self._stale.update(attachment.spec.node_name for attachment in (old, new) if attachment is not None)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None:
            self._stale |= self._claims.get(key_of(new), set())
        elif old is not None:
            self._stale |= self._claims.pop(key_of(old), set())

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        for volume in (old, new):
            if volume is not None:
                self._stale.update(at.spec.node_name for at in self._attachments.by(_VOLUME, volume.metadata.name))
                if (reference := volume.spec.claim_ref) is not None:
                    self._stale |= self._claims.get((reference.namespace, reference.name), set())

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        if old is None or new is None:
            self._stale.update(*self._claims.values())

    def limited_of(self, pod: Pod) -> set[Attached]:
        """The volumes of a pod to be placed that some node can have only so many of. Raises Unattachable."""
        limited = set()
        for use in claims_of(pod):
            key = pod.metadata.namespace, use.claim
            claim = self._volumes.claims.get(*key)
            if claim is None:
                raise Unattachable(f'looking up PVC {"/".join(key)}: persistentvolumeclaim "{use.claim}" not found')
            if use.ephemeral and (problem := not_made_for(pod, claim)):
                raise Unattachable(problem)
            attached = self._attached(claim)
            if attached is not None and self._limits.get(attached.driver):
                limited.add(attached)
        return limited

    def exceeded(self, volumes: set[Attached]) -> Mask:
        """The rows of the table where these volumes would be more than the node can have."""
        self._renew()
        mask = np.zeros(self._table.size, np.bool_)
        for driver, number in Counter(volume.driver for volume in volumes).items():
            limited = self._limited_by(driver)
            more = np.full(len(limited.rows), number, np.int64)
            for volume in volumes:
                if volume.driver == driver:
                    there = [limited.places[name] for name in self._nodes.get(volume, ()) if name in limited.places]
                    more[there] -= 1
            mask[limited.rows[(more > 0) & (limited.counts + more > limited.limits)]] = True
        return mask

    def used(self, row: int, volumes: set[Attached]) -> Iterator[tuple[str, int, int]]:
        """The drivers of volumes that a row would have too many of: how many it has, and how many it can have."""
        node = self._table.nodes[row]
        for driver in sorted({volume.driver for volume in volumes}):
            of_driver = {volume for volume in volumes if volume.driver == driver}
            if node is not None and self.exceeded(of_driver)[row]:
                limited = self._limited_by(driver)
                place = limited.places[node.metadata.name]
                yield driver, int(limited.counts[place]), int(limited.limits[place])

    def _limited_by(self, driver: str) -> _Limited:
        limited = self._limited.get(driver)
        if limited is None:
            rows = self._table.rows
            nodes = {name: limit for name, limit in self._limits.get(driver, {}).items() if name in rows}
            limited = self._limited[driver] = _Limited(
                {name: place for place, name in enumerate(nodes)},
                np.array([rows[name] for name in nodes], np.intp),
                np.array(list(nodes.values()), np.int64),
                np.array([self._counts.get(name, Counter())[driver] for name in nodes], np.int64),
            )
        return limited

    def _renew(self) -> None:
        if self._places != self._table.places:
            self._places = self._table.places
            self._limited.clear()
        for name in self._stale:
            self._count(name)
        self._stale.clear()

    def _count(self, name: str) -> None:
        """Count the volumes of a node again."""
        row = self._table.rows.get(name)
        pods = self._table.pods[row].values() if row is not None else ()
        there = frozenset(volume for info in pods for volume in self._volumes_of(info.pod))
        before = self._there.pop(name, frozenset())
        for volume in before - there:
            self._nodes[volume].discard(name)
            if not self._nodes[volume]:
                del self._nodes[volume]
        for volume in there - before:
            self._nodes.setdefault(volume, set()).add(name)
        counts = Counter(volume.driver for volume in there | set(self._attached_to(name)))
        if there:
            self._there[name] = there
        for driver, limited in self._limited.items():
            if name in limited.places:
                limited.counts[limited.places[name]] = counts[driver]
        self._counts.pop(name, None)
        if counts:
            self._counts[name] = counts

    def _volumes_of(self, pod: Pod) -> Iterator[Attached]:
        """The volumes of a pod that is on a node; those of which nothing is known do not count."""
        for use in claims_of(pod):
            claim = self._volumes.claims.get(pod.metadata.namespace, use.claim)
            attached = self._attached(claim) if claim is not None else None
            if attached is not None:
                yield attached

    def _attached_to(self, node: str) -> Iterator[Attached]:
        for attachment in self._attachments.by(_NODE, node):
            name = attachment.spec.source.persistent_volume_name
            volume = self._volumes.volumes.get("", name) if name is not None else None
            if volume is not None and volume.spec.csi is not None and attachment.spec.attacher:
                yield Attached(attachment.spec.attacher, volume.spec.csi.volume_handle)

    def _attached(self, claim: PersistentVolumeClaim) -> Attached | None:
        """The volume of a claim, or the one that it will have; None when no driver counts it."""
        volume = self._volumes.volumes.get("", claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is not None:
            known = driver_and_handle(volume)
            return Attached(*known) if known is not None and all(known) else None
        storage_class = self._volumes.classes.get("", class_of(claim))
        driver = driver_of(storage_class.provisioner) if storage_class is not None else ""
        return Attached(driver, "/".join(key_of(claim)), unmade=True) if driver else None


def limits_of(node: CSINode | None) -> dict[str, int]:
    """How many volumes of each driver a node can have; a driver that sets no limit is left out."""
    limits = {}
    for driver in node.spec.drivers if node is not None else ():
        if driver.allocatable is not None and driver.allocatable.count is not None:
            limits[driver.name] = driver.allocatable.count
    return limits
