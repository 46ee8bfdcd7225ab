"""Garbage collection: deletes objects whose owners are all gone, and finishes foreground and orphan deletion."""

from __future__ import annotations

import asyncio
from enum import Enum
from functools import partial

import msgspec

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Data, Object, OwnerReference
from moorage.bounded import Bounded
from moorage.client import Informer, Missing
from moorage.client.client import STRATEGIC
from moorage.client.events import WARNING
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_POLICY = {ORPHAN: "Orphan", FOREGROUND: "Foreground"}
_COLLECTED = tuple(kind for kind in kinds.KINDS if kind.kind != "Event")
"""Events have no owners, and there are too many of them to be watched for nothing."""
_ABSENT_KEPT = 4096
_LAG_SECONDS = 5.0
_AT_A_TIME = 32
"""Owners that are looked for before others have their turn: an answer need not come from elsewhere."""


class _Owner(Enum):
    SOLID = "there"
    WAITING = "there until what it owns is gone"
    ABSENT = "gone"


class GarbageCollector(Controller):
    """Deletes, orphans or waits for dependents, by the finalizers of their owners.

    Keys are the resource and the uid of an object.
    """

    name = "garbage-collector"
    component = "garbage-collector-controller"
    workers = 16

    def __init__(self, context: Context, assumed: frozenset[str] = frozenset()) -> None:
        """`assumed` are the uids of owners that exist somewhere else: they cannot be read, and are not gone."""
        super().__init__(context)
        self._assumed = assumed
        self._informers: dict[str, Informer[Object]] = {}
        self._places: dict[str, tuple[Kind, Key]] = {}
        self._dependents: dict[str, set[str]] = {}
        self._absent: Bounded[tuple[str, ...], bool] = Bounded(_ABSENT_KEPT)
        for kind in _COLLECTED:
            informer = self._informers[kind.resource] = context.informers.kind(kind)
            informer.on_change(partial(self._changed, kind))

    def _changed(self, kind: Kind, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and _is_alike(old, new):
            return
        item = new or old
        assert item is not None
        uid = item.metadata.uid
        before, after = _owners(old), _owners(new)
        for owner in before - after:
            left = self._dependents.get(owner, set())
            left.discard(uid)
            if not left:
                self._dependents.pop(owner, None)
        for owner in after - before:
            self._dependents.setdefault(owner, set()).add(uid)
        for owner in before | after:
            if (owner_object := self._object(owner)) is not None and _waits(owner_object):
                self._enqueue(owner)
        if new is None:
            self._places.pop(uid, None)
            self._enqueue_dependents(uid)
            return
        self._places[uid] = kind, (item.metadata.namespace, item.metadata.name)
        if item.metadata.owner_references or item.metadata.deletion_timestamp:
            self._enqueue(uid)
        if _waits(item):
            self._enqueue_dependents(uid)

    def _enqueue(self, uid: str) -> None:
        if place := self._places.get(uid):
            self.queue.add((place[0].resource, uid))

    def _enqueue_dependents(self, uid: str) -> None:
        for dependent in self._dependents.get(uid, ()):
            self._enqueue(dependent)

    def _object(self, uid: str) -> Object | None:
        if (place := self._places.get(uid)) is None:
            return None
        kind, key = place
        item = self._informers[kind.resource].get(*key)
        return item if item is not None and item.metadata.uid == uid else None

    async def reconcile(self, key: Key) -> None:
        """Delete, orphan or finalize one object."""
        uid = key[1]
        if (item := self._object(uid)) is None:
            return
        kind = self._places[uid][0]
        if item.metadata.deletion_timestamp is None:
            await self._judge(kind, item)
        elif ORPHAN in item.metadata.finalizers:
            await self._orphan(kind, item)
        elif _waits(item):
            await self._wait_for_dependents(kind, item)

    async def _judge(self, kind: Kind, item: Object) -> None:
        """Delete an object whose owners are all gone; when some are not, remove the references to those that are."""
        metadata = item.metadata
        owners: list[tuple[str, _Owner]] = []
        for number, reference in enumerate(metadata.owner_references, 1):
            owners.append((reference.uid, await self._owner(kind, item, reference)))
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)
        lost = [uid for uid, state in owners if state is not _Owner.SOLID]
        if not lost:
            return
        if len(lost) < len(owners):
            await self._disown(kind, item, lost)
            return
        policy = next((_POLICY[each] for each in metadata.finalizers if each in _POLICY), "Background")
        if any(state is _Owner.WAITING for _, state in owners) and self._dependents.get(metadata.uid):
            await self._break_circle(kind, item)
            policy = "Foreground"
        try:
            # The revision makes sure that nobody has given it another owner meanwhile.
            await self.client.delete(
                kind, metadata.namespace, metadata.name,
                uid=metadata.uid, revision=metadata.resource_version, propagation=policy,
            )  # fmt: skip
        except Missing:
            return

    async def _owner(self, kind: Kind, item: Object, reference: OwnerReference) -> _Owner:
        """Whether an owner exists; that it does not must be read from the server."""
        owner_kind = kinds.find(reference.api_version, reference.kind)
        if owner_kind is None or reference.uid in self._assumed:
            return _Owner.SOLID  # its kind is not known here, or not its objects
        namespace = item.metadata.namespace if owner_kind.namespaced else ""
        if owner_kind.namespaced and not namespace:
            message = f"ownerRef {_described(reference)} is of a kind with namespaces, and a {kind.kind} is in none"
            self.recorder.event(item, WARNING, "OwnerRefInvalidNamespace", message)
            return _Owner.SOLID
        known = self._object(reference.uid)
        if known is not None and self._places[reference.uid] == (owner_kind, (namespace, reference.name)):
            return _Owner.WAITING if _waits(known) else _Owner.SOLID
        where = (reference.uid, owner_kind.resource, namespace, reference.name)
        if where in self._absent:
            return _Owner.ABSENT
        if not await self._is_there(owner_kind, namespace, reference):
            self._absent.put(where, True)
            if known is not None:
                message = f"ownerRef {_described(reference)} does not exist in namespace {item.metadata.namespace!r}"
                self.recorder.event(item, WARNING, "OwnerRefInvalidNamespace", message)
            return _Owner.ABSENT
        if owner_kind.resource in self._informers:
            # Its informer lags behind. If it never sees the owner, it will not report its deletion either.
            self.queue.add_after((kind.resource, item.metadata.uid), _LAG_SECONDS)
        return _Owner.SOLID

    async def _is_there(self, kind: Kind, namespace: str, reference: OwnerReference) -> bool:
        try:
            body = await self.client.get(kind, namespace, reference.name)
        except Missing:
            return False
        return msgspec.json.decode(body, type=Object).metadata.uid == reference.uid

    async def _break_circle(self, kind: Kind, item: Object) -> None:
        """Have an object that waits for one of its own dependents no longer block the deletion of its owners."""
        dependents = (self._object(uid) for uid in self._dependents.get(item.metadata.uid, ()))
        if any(each is not None and _waits(each) for each in dependents):
            freed = [{"uid": each.uid, "blockOwnerDeletion": False} for each in item.metadata.owner_references]
            await self._change_owners(kind, item, freed)

    async def _wait_for_dependents(self, kind: Kind, item: Object) -> None:
        uid = item.metadata.uid
        dependents = [owned for each in self._dependents.get(uid, ()) if (owned := self._object(each)) is not None]
        if not any(_blocks(each, uid) for each in dependents):
            await self._remove_finalizer(kind, item, FOREGROUND)
            return
        for each in dependents:
            if each.metadata.deletion_timestamp is None:
                self._enqueue(each.metadata.uid)

    async def _orphan(self, kind: Kind, item: Object) -> None:
        uid = item.metadata.uid
        for each in list(self._dependents.get(uid, ())):
            if (dependent := self._object(each)) is not None:
                await self._disown(self._places[each][0], dependent, [uid])
        await self._remove_finalizer(kind, item, ORPHAN)

    async def _disown(self, kind: Kind, item: Object, owners: list[str]) -> None:
        await self._change_owners(kind, item, [{"$patch": "delete", "uid": uid} for uid in owners])

    async def _change_owners(self, kind: Kind, item: Object, owners: list[Data]) -> None:
        metadata = item.metadata
        patch = {"metadata": {"uid": metadata.uid, "ownerReferences": owners}}
        try:
            await self.client.patch(kind, metadata.namespace, metadata.name, patch, form=STRATEGIC)
        except Missing:
            return

    async def _remove_finalizer(self, kind: Kind, item: Object, finalizer: str) -> None:
        metadata = item.metadata
        left = [each for each in metadata.finalizers if each != finalizer]
        patch = {
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version, "finalizers": left or None}
        }
        try:
            await self.client.patch(kind, metadata.namespace, metadata.name, patch)
        except Missing:
            return


def _is_alike(old: Object, new: Object) -> bool:
    before, after = old.metadata, new.metadata
    return (
        before.owner_references == after.owner_references
        and before.finalizers == after.finalizers
        and before.deletion_timestamp == after.deletion_timestamp
    )


def _owners(item: Object | None) -> set[str]:
    return {each.uid for each in item.metadata.owner_references} if item is not None else set()


def _waits(item: Object) -> bool:
    return item.metadata.deletion_timestamp is not None and FOREGROUND in item.metadata.finalizers


def _blocks(item: Object, owner: str) -> bool:
    return any(each.uid == owner and each.block_owner_deletion for each in item.metadata.owner_references)


def _described(reference: OwnerReference) -> str:
    return f"[{reference.api_version}/{reference.kind}, name: {reference.name}, uid: {reference.uid}]"
