"""Writes which volumes the claims of a pod are to have, and waits until they are bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import msgspec

from moorage.api import kinds
from moorage.api.claims import BOUND_BY_CONTROLLER, SELECTED_NODE, is_bound, is_for
from moorage.api.meta import Data, Object
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.volume import PersistentVolume, PersistentVolumeClaim
from moorage.client import Conflict, Informer
from moorage.scheduler.framework import Handle, Unbindable
from moorage.scheduler.table.shape import PodInfo
from moorage.scheduler.volumes.claims import VolumeDecision, Volumes, key_of

T = TypeVar("T", bound=Object)
_TRIES = 5
"""How often something is written that others keep changing meanwhile."""

WatchedObject = tuple[type[Object], str, str]
"""An object whose changes are waited for: its kind, namespace and name."""


class VolumeWrites:
    """Writes decisions into volumes and claims, from where controllers and provisioners read them."""

    def __init__(self, handle: Handle, volumes: Volumes, seconds: float) -> None:
        self._handle, self._volumes, self._seconds = handle, volumes, seconds
        self._listening: dict[WatchedObject, set[asyncio.Event]] = {}
        self._pods = handle.informers.of(Pod)
        self._pods.on_change(self._changed)
        handle.informers.of(Node).on_change(self._changed)
        volumes.claims.on_change(self._changed)
        volumes.volumes.on_change(self._volume_changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        item = new or old
        if self._listening and item is not None:
            self._tell((type(item), item.metadata.namespace, item.metadata.name))

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        self._changed(old, new)
        reference = new.spec.claim_ref if new is not None else None
        if self._listening and reference is not None:
            self._tell((PersistentVolumeClaim, reference.namespace, reference.name))

    def _tell(self, subject: WatchedObject) -> None:
        for event in self._listening.get(subject, ()):
            event.set()

    @contextmanager
    def _listen(self, info: PodInfo, decision: VolumeDecision) -> Iterator[asyncio.Event]:
        changed = asyncio.Event()
        subjects: list[WatchedObject] = [(Pod, *info.key), (Node, "", decision.node)]
        subjects += [(PersistentVolumeClaim, *key_of(claim)) for claim, _ in decision.bindings]
        subjects += [(PersistentVolumeClaim, *key_of(claim)) for claim in decision.provisions]
        subjects += [(PersistentVolume, "", volume.metadata.name) for _, volume in decision.bindings]
        for subject in subjects:
            self._listening.setdefault(subject, set()).add(changed)
        try:
            yield changed
        finally:
            for subject in set(subjects):
                events = self._listening[subject]
                events.discard(changed)
                if not events:
                    del self._listening[subject]

    async def carry_out(self, info: PodInfo, decision: VolumeDecision) -> None:
        """Return when all claims have their volume. Raises Unbindable or an ApiError."""
        for claim, volume in decision.bindings:
            await self._write(self._volumes.volumes, volume, partial(_claim_reference, claim=claim))
        for claim in decision.provisions:
            await self._write(self._volumes.claims, claim, partial(_selection, node=decision.node))
        with self._listen(info, decision) as changed:
            end = self._handle.clock.monotonic() + self._seconds
            timer = self._handle.clock.call_later(self._seconds, changed.set)
            try:
                while (waiting := self._unbound(info, decision)) is not None:
                    if self._handle.clock.monotonic() >= end:
                        why = f"{_text(waiting)} is not bound after {self._seconds:.0f} s"
                        raise Unbindable(f"binding volumes: context deadline exceeded: {why}")
                    await changed.wait()
                    changed.clear()
            finally:
                timer.cancel()

    async def _write(self, informer: Informer[T], item: T, change: Callable[[T], Data | None]) -> None:
        """Change an object as it is now, unless nothing is to be changed; others may change it meanwhile."""
        namespace, name = item.metadata.namespace, item.metadata.name
        current = informer.get(namespace, name) or item
        for _ in range(_TRIES):
            if current.metadata.uid != item.metadata.uid:
                raise Unbindable(f"binding volumes: {_text(item)} is another by now")
            patch = change(current)
            if patch is None:
                return
            patch["metadata"]["resourceVersion"] = current.metadata.resource_version
            try:
                answer = await self._handle.client.patch(informer.kind, namespace, name, patch)
            except Conflict:
                answer = await self._handle.client.get(informer.kind, namespace, name)
                current = msgspec.json.decode(answer, type=type(item))
                continue
            written = msgspec.json.decode(answer, type=Object)
            await informer.caught_up(written.metadata.resource_version)
            return
        raise Unbindable(f"binding volumes: {_text(item)} keeps changing")

    def _unbound(self, info: PodInfo, decision: VolumeDecision) -> PersistentVolumeClaim | None:
        """A claim that has not got its volume yet, None when all have. Raises Unbindable when one will not get it."""
        if not self._volumes.reaches.of(None).includes(decision.node):
            raise Unbindable(f'binding volumes: failed to get node "{decision.node}": node "{decision.node}" not found')
        pod = self._pods.get(*info.key)
        if pod is None or pod.metadata.uid != info.uid:
            raise Unbindable(f"binding volumes: pod {'/'.join(info.key)} does not exist any more")
        for claim, volume in decision.bindings:
            self._check_pre_bound(volume, decision.node)
            if not is_bound(now := self._claim(claim)):
                return now
        for claim in decision.provisions:
            now = self._claim(claim)
            if now.metadata.annotations.get(SELECTED_NODE) != decision.node:
                raise Unbindable(f'binding volumes: provisioning failed for PVC "{now.metadata.name}"')
            provisioned = self._volumes.volumes.get("", now.spec.volume_name) if is_bound(now) else None
            if provisioned is None:
                return now
            self._check_reach(provisioned, decision.node)
        return None

    def _check_pre_bound(self, volume: PersistentVolume, node: str) -> None:
        now = self._volumes.volumes.get("", volume.metadata.name)
        if now is None:
            raise Unbindable(f"binding volumes: {_text(volume)} does not exist any more")
        if now.spec.claim_ref is None or not now.spec.claim_ref.uid:
            raise Unbindable(f'binding volumes: ClaimRef got reset for pv "{now.metadata.name}"')
        self._check_reach(now, node)

    def _claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        now = self._volumes.claims.get(*key_of(claim))
        if now is None or now.metadata.uid != claim.metadata.uid:
            raise Unbindable(f"binding volumes: {_text(claim)} does not exist any more")
        return now

    def _check_reach(self, volume: PersistentVolume, node: str) -> None:
        if not self._volumes.reaches.of_volume(volume).includes(node):
            why = f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node}"'
            raise Unbindable(f"binding volumes: {why}: no matching NodeSelectorTerms")


def _claim_reference(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Data | None:
    """The patch that pre-binds a volume to a claim; None when it is bound to it already."""
    reference, metadata = volume.spec.claim_ref, claim.metadata
    if reference is not None and not is_for(volume, claim):
        raise Unbindable(f"binding volumes: {_text(volume)} was given to another claim")
    if reference is not None and reference.uid:
        return None
    claim_ref = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": metadata.namespace,
        "name": metadata.name, "uid": metadata.uid, "resourceVersion": metadata.resource_version,
    }  # fmt: skip
    mark = {} if reference is not None else {BOUND_BY_CONTROLLER: "yes"}
    return {"metadata": {"annotations": mark}, "spec": {"claimRef": claim_ref}}


def _selection(claim: PersistentVolumeClaim, node: str) -> Data | None:
    """The patch that has a volume provisioned for a claim on a node; None when it is there already."""
    selected = claim.metadata.annotations.get(SELECTED_NODE)
    if selected is not None and selected != node:
        raise Unbindable(f'binding volumes: {_text(claim)} is to have its volume on node "{selected}"')
    if selected == node or claim.spec.volume_name:
        return None
    return {"metadata": {"annotations": {SELECTED_NODE: node}}}


def _text(item: Object) -> str:
    return f'{kinds.of(item).singular} "{item.metadata.name}"'
