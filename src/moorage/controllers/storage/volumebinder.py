"""Binds claims to volumes, writes the status of both, and reclaims volumes whose claim is gone."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

import msgspec

from moorage.api import kinds
from moorage.api.claims import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    class_of,
    is_for,
    mode_of,
    waits_for_consumer,
)
from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.api.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.client import Missing
from moorage.client.events import NORMAL, WARNING
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.frame.pods import is_finished
from moorage.controllers.storage.volumes import (
    BETA_STORAGE_PROVISIONER,
    IS_DEFAULT_CLASS,
    PROVISIONED_BY,
    STORAGE_PROVISIONER,
    USERS,
    best_match,
    index_by_claim,
    mismatch,
)

_CLAIM = kinds.row("v1", "PersistentVolumeClaim")
_PREBOUND, _FREE, _UNBOUND = "pre-bound to", "free", "unbound"
_RELEASED = ("Released", "Failed")

Bindable = TypeVar("Bindable", PersistentVolume, PersistentVolumeClaim)


class VolumeBinder(Controller):
    """Keys are claims (namespace and name) and volumes (no namespace)."""

    name = "persistentvolume-binder"
    component = "persistentvolume-controller"
    workers = 8

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._taken: set[str] = set()
        self._claims = context.informers.of(PersistentVolumeClaim)
        self._volumes = context.informers.of(PersistentVolume)
        self._classes = context.informers.of(StorageClass)
        self._pods = context.informers.of(Pod)
        index_by_claim(self._pods)
        self._claims.index(_UNBOUND, _unbound)
        self._volumes.index(_PREBOUND, _prebound_to)
        self._volumes.index(_FREE, lambda each: [] if each.spec.claim_ref else [each.spec.storage_class_name])
        self._claims.on_change(self._claim_changed)
        self._volumes.on_change(self._volume_changed)
        self._classes.on_change(self._class_changed)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        item = new or old
        assert item is not None
        self.enqueue(item)
        for volume in self._volumes.by(_PREBOUND, f"{item.metadata.namespace}/{item.metadata.name}"):
            self.enqueue(volume)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if new is not None:
            self.enqueue(new)
        for item in (old, new):
            if item is not None and (reference := item.spec.claim_ref) is not None:
                self.queue.add((reference.namespace, reference.name))
        if new is not None:
            for claim in self._claims.by(_UNBOUND, new.metadata.name):
                self.enqueue(claim)
            if new.spec.claim_ref is None:
                self._enqueue_unbound(new.spec.storage_class_name)

    def _class_changed(self, _: StorageClass | None, new: StorageClass | None) -> None:
        if new is not None:
            self._enqueue_unbound(new.metadata.name)

    def _enqueue_unbound(self, storage_class: str) -> None:
        for claim in self._claims.by(_UNBOUND, ""):
            if claim.spec.storage_class_name is None or class_of(claim) == storage_class:
                self.enqueue(claim)

    async def reconcile(self, key: Key) -> None:
        """Bind a claim or reclaim a volume."""
        with suppress(Missing):
            if key[0]:
                if (claim := self._claims.get(*key)) is not None:
                    await self._sync_claim(claim)
            elif (volume := self._volumes.get(*key)) is not None:
                await self._sync_volume(volume)

    async def _sync_claim(self, claim: PersistentVolumeClaim) -> None:
        if BIND_COMPLETED in claim.metadata.annotations:
            await self._keep(claim)
        elif claim.spec.volume_name:
            await self._bind_as_asked(claim)
        else:
            await self._find(claim)

    async def _find(self, claim: PersistentVolumeClaim) -> None:
        """Bind a claim that names no volume, or have one provisioned."""
        storage_class = self._classes.get("", class_of(claim))
        waits = waits_for_consumer(storage_class)
        prebound = self._volumes.by(_PREBOUND, f"{claim.metadata.namespace}/{claim.metadata.name}")
        free = () if waits else self._volumes.by(_FREE, class_of(claim))
        left = (each for each in (*prebound, *free) if each.metadata.name not in self._taken)
        if (volume := best_match(left, claim)) is not None:
            await self._take(volume, claim)
            return
        if claim.spec.storage_class_name is None and (default := self._default_class()):
            await self._change(claim, {"spec": {"storageClassName": default}})
            return
        if waits and SELECTED_NODE not in claim.metadata.annotations:
            self._report_wait(claim)
        elif class_of(claim):
            await self._provision(claim, storage_class)
        else:
            message = "no persistent volumes available for this claim and no storage class is set"
            self.recorder.event(claim, NORMAL, "FailedBinding", message)
        await self._set_claim(claim, "Pending")

    async def _take(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Bind a volume, which other claims must not choose meanwhile."""
        self._taken.add(volume.metadata.name)
        try:
            await self._bind(volume, claim)
        finally:
            self._taken.discard(volume.metadata.name)

    def _default_class(self) -> str:
        """The youngest of the classes that are marked as the default."""
        chosen = [each for each in self._classes if each.metadata.annotations.get(IS_DEFAULT_CLASS) == "true"]
        chosen.sort(key=lambda each: each.metadata.name)
        chosen.sort(key=lambda each: str(each.metadata.creation_timestamp), reverse=True)
        return chosen[0].metadata.name if chosen else ""

    def _report_wait(self, claim: PersistentVolumeClaim) -> None:
        users = self._pods.by(USERS, f"{claim.metadata.namespace}/{claim.metadata.name}")
        waiting = [pod.metadata.name for pod in users if not pod.spec.node_name and not is_finished(pod)]
        reason, message = "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
        if waiting:
            pods = "pod" if len(waiting) == 1 else "pods"
            reason, message = "WaitForPodScheduled", f"waiting for {pods} {','.join(waiting)} to be scheduled"
        self.recorder.event(claim, NORMAL, reason, message)

    async def _provision(self, claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> None:
        """Ask the provisioner of a class for a volume, by the annotation that it watches for."""
        if storage_class is None:
            message = f'storageclass.storage.k8s.io "{class_of(claim)}" not found'
            self.recorder.event(claim, WARNING, "ProvisioningFailed", message)
            return
        provisioner = storage_class.provisioner
        if provisioner.startswith("kubernetes.io/"):
            message = f"no volume plugin matched name: {provisioner}: create a volume that suits the claim"
            self.recorder.event(claim, WARNING, "ProvisioningFailed", message)
            return
        if claim.metadata.annotations.get(STORAGE_PROVISIONER) != provisioner:
            annotations = {STORAGE_PROVISIONER: provisioner, BETA_STORAGE_PROVISIONER: provisioner}
            await self._change(claim, {"metadata": {"annotations": annotations}})
            message = (
                f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually "
                "by the system administrator. If volume creation is delayed, please verify that the provisioner is "
                "running and correctly registered."
            )
            self.recorder.event(claim, NORMAL, "ExternalProvisioning", message)

    async def _bind_as_asked(self, claim: PersistentVolumeClaim) -> None:
        """Bind a claim that names its volume, if that suits it."""
        volume = self._volumes.get("", claim.spec.volume_name)
        if volume is not None and is_for(volume, claim):
            await self._bind(volume, claim)
            return
        if volume is not None and volume.spec.claim_ref is not None:
            message = f'volume "{volume.metadata.name}" already bound to a different claim.'
            self.recorder.event(claim, WARNING, "FailedBinding", message)
        elif volume is not None:
            if not (problem := mismatch(volume, claim)):
                await self._bind(volume, claim)
                return
            message = f'Cannot bind to requested volume "{volume.metadata.name}": {problem}'
            self.recorder.event(claim, WARNING, "VolumeMismatch", message)
        await self._set_claim(claim, "Pending")

    async def _keep(self, claim: PersistentVolumeClaim) -> None:
        """Check that a claim that was bound still has its volume."""
        volume = self._volumes.get("", claim.spec.volume_name)
        reference = volume.spec.claim_ref if volume is not None else None
        if volume is not None and (reference is None or reference.uid == claim.metadata.uid):
            await self._bind(volume, claim)
        elif volume is None:
            lost = "its" if claim.spec.volume_name else "reference to"
            message = f"Bound claim has lost {lost} PersistentVolume. Data on the volume is lost!"
            await self._lose(claim, "ClaimLost", message)
        else:
            message = "Two claims are bound to the same volume, this one is bound incorrectly"
            await self._lose(claim, "ClaimMisbound", message)

    async def _lose(self, claim: PersistentVolumeClaim, reason: str, message: str) -> None:
        if claim.status.phase != "Lost":
            await self._set_claim(claim, "Lost")
            self.recorder.event(claim, WARNING, reason, message)

    async def _sync_volume(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            await self._set_volume(volume, "Available")
            return
        claim = await self._claim_of(volume)
        if claim is None:
            await self._release(volume)
        elif not claim.spec.volume_name:
            if mode_of(claim) != mode_of(volume):
                name = claim.metadata.name
                message = (
                    f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{name}" due to incompatible '
                )
                self.recorder.event(volume, WARNING, "VolumeMismatch", f"{message}volumeMode.")
            self.enqueue(claim)
        elif claim.spec.volume_name == volume.metadata.name:
            await self._set_volume(volume, "Bound")
        elif PROVISIONED_BY in volume.metadata.annotations and volume.spec.persistent_volume_reclaim_policy == "Delete":
            await self._release(volume)
        else:
            await self._unbind(volume)

    async def _claim_of(self, volume: PersistentVolume) -> PersistentVolumeClaim | None:
        """Exactly the claim that a volume is bound to; that it is gone must be read from the server."""
        reference = volume.spec.claim_ref
        assert reference is not None
        claim = self._claims.get(reference.namespace, reference.name)
        if claim is not None and claim.metadata.uid == reference.uid:
            return claim
        try:
            body = await self.client.get(_CLAIM, reference.namespace, reference.name)
        except Missing:
            return None
        claim = msgspec.json.decode(body, type=PersistentVolumeClaim)
        return claim if claim.metadata.uid == reference.uid else None

    async def _release(self, volume: PersistentVolume) -> None:
        """Release a volume whose claim is gone, as its reclaim policy says."""
        if volume.status.phase not in _RELEASED:
            volume = await self._set_volume(volume, "Released")
        policy = volume.spec.persistent_volume_reclaim_policy
        if policy in ("Retain", "") or PROVISIONED_BY in volume.metadata.annotations:
            return  # a provisioned volume is deleted by its provisioner
        message = f"nobody here can {policy.lower()} a volume that no provisioner has made: set its policy to Retain"
        if volume.status.phase != "Failed":
            await self._set_volume(volume, "Failed", message)
            self.recorder.event(volume, WARNING, f"VolumeFailed{policy}", message)

    async def _unbind(self, volume: PersistentVolume) -> None:
        """Unbind a volume from a claim that got another one; a claimRef that a user wrote keeps the claim's name."""
        if BOUND_BY_CONTROLLER in volume.metadata.annotations:
            patch: Data = {"metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}, "spec": {"claimRef": None}}
        else:
            patch = {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}
        await self._set_volume(await self._change(volume, patch), "Available")

    async def _bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Write the binding to both, the volume first, so that no other claim is bound to it."""
        metadata = claim.metadata
        if volume.spec.claim_ref is None or volume.spec.claim_ref.uid != metadata.uid:
            reference = {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": metadata.namespace,
                "name": metadata.name, "uid": metadata.uid, "resourceVersion": metadata.resource_version,
            }  # fmt: skip
            mark = {} if is_for(volume, claim) else {BOUND_BY_CONTROLLER: "yes"}
            patch: Data = {"metadata": {"annotations": mark}, "spec": {"claimRef": reference}}
            volume = await self._change(volume, patch)
        volume = await self._set_volume(volume, "Bound")
        marks = {} if BIND_COMPLETED in metadata.annotations else {BIND_COMPLETED: "yes"}
        if claim.spec.volume_name != volume.metadata.name:
            marks[BOUND_BY_CONTROLLER] = "yes"
        if marks:
            patch = {"metadata": {"annotations": marks}, "spec": {"volumeName": volume.metadata.name}}
            claim = await self._change(claim, patch)
        await self._set_claim(claim, "Bound", volume)

    async def _set_claim(
        self, claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None = None
    ) -> PersistentVolumeClaim:
        status: Data = {}
        if claim.status.phase != phase:
            status["phase"] = phase
            if volume is not None:
                status["capacity"] = dict(volume.spec.capacity)
        modes = volume.spec.access_modes if volume is not None else ()
        if claim.status.access_modes != modes:
            status["accessModes"] = list(modes) or None
        if volume is None and claim.status.capacity:
            status["capacity"] = None
        return await self._change(claim, {"status": status}, "status") if status else claim

    async def _set_volume(self, volume: PersistentVolume, phase: str, message: str = "") -> PersistentVolume:
        if volume.status.phase == phase:
            return volume
        return await self._change(volume, {"status": {"phase": phase, "message": message or None}}, "status")

    async def _change(self, item: Bindable, patch: Data, subresource: str = "") -> Bindable:
        """Patch an object as it was read, and wait until the informer has seen the change."""
        metadata = item.metadata
        patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": metadata.resource_version}
        kind = kinds.of(item)
        answer = await self.client.patch(kind, metadata.namespace, metadata.name, patch, subresource=subresource)
        changed = msgspec.json.decode(answer, type=type(item))
        informer = self._volumes if isinstance(item, PersistentVolume) else self._claims
        await informer.caught_up(changed.metadata.resource_version)
        return changed


def _unbound(claim: PersistentVolumeClaim) -> list[str]:
    """The volume that a claim which is not bound names, empty when it names none."""
    return [] if BIND_COMPLETED in claim.metadata.annotations else [claim.spec.volume_name]


def _prebound_to(volume: PersistentVolume) -> list[str]:
    reference = volume.spec.claim_ref
    return [f"{reference.namespace}/{reference.name}"] if reference is not None else []
