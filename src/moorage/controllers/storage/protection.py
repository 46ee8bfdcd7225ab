"""Finalizers that keep claims while pods use them, and volumes while they are bound."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

import msgspec

from moorage.api import kinds
from moorage.api.claims import claims_of
from moorage.api.meta import Object
from moorage.api.pod import Pod
from moorage.api.volume import PersistentVolume, PersistentVolumeClaim
from moorage.client import Informer, Missing
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.frame.pods import POD
from moorage.controllers.storage.volumes import USERS, index_by_claim

T = TypeVar("T", bound=Object)


class _Protection(Controller):
    finalizer: str

    def _watch(self, informer: Informer[T]) -> None:
        informer.on_change(lambda _, new: self.enqueue(new) if new is not None and self._is_due(new) else None)

    def _is_due(self, item: Object) -> bool:
        """Whether a finalizer may have to be put on or taken off."""
        return (item.metadata.deletion_timestamp is not None) == (self.finalizer in item.metadata.finalizers)

    async def _change(self, item: Object, finalizers: list[str]) -> None:
        metadata = item.metadata
        patch = {"metadata": {"resourceVersion": metadata.resource_version, "finalizers": finalizers or None}}
        with suppress(Missing):
            await self.client.patch(kinds.of(item), metadata.namespace, metadata.name, patch)

    async def _protect(self, item: Object | None, *, in_use: bool) -> None:
        if item is None or not self._is_due(item):
            return
        held = list(item.metadata.finalizers)
        if item.metadata.deletion_timestamp is None:
            await self._change(item, [*held, self.finalizer])
        elif not in_use:
            await self._change(item, [each for each in held if each != self.finalizer])


class ClaimProtection(_Protection):
    """Keeps a claim that is deleted until no pod on a node uses it any more."""

    name = "persistentvolumeclaim-protection"
    finalizer = "kubernetes.io/pvc-protection"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._claims = context.informers.of(PersistentVolumeClaim)
        self._pods = context.informers.of(Pod)
        index_by_claim(self._pods)
        self._watch(self._claims)
        self._pods.on_change(self._pod_changed)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None and old is not None:
            for use in claims_of(old):
                self.queue.add((old.metadata.namespace, use.claim))

    async def reconcile(self, key: Key) -> None:
        """Put the finalizer on a claim, or take it off one that may go."""
        claim = self._claims.get(*key)
        is_leaving = claim is not None and claim.metadata.deletion_timestamp is not None
        await self._protect(claim, in_use=is_leaving and await self._is_used(*key))

    async def _is_used(self, namespace: str, name: str) -> bool:
        """Whether a pod uses a claim; that none does must be read from the server."""
        if any(pod.spec.node_name for pod in self._pods.by(USERS, f"{namespace}/{name}")):
            return True
        needle = f'"{name}"'.encode()
        for item in (await self.client.list(POD, namespace)).items:
            if needle in bytes(item) or b'"ephemeral"' in bytes(item):
                pod = msgspec.json.decode(item, type=Pod)
                if pod.spec.node_name and any(use.claim == name for use in claims_of(pod)):
                    return True
        return False


class VolumeProtection(_Protection):
    """Keeps a volume that is deleted until it is no longer bound."""

    name = "persistentvolume-protection"
    finalizer = "kubernetes.io/pv-protection"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._volumes = context.informers.of(PersistentVolume)
        self._watch(self._volumes)

    async def reconcile(self, key: Key) -> None:
        """Put the finalizer on a volume, or take it off one that may go."""
        volume = self._volumes.get(*key)
        await self._protect(volume, in_use=volume is not None and volume.status.phase == "Bound")
