"""Quotas: how much may be used and how much is, measured again when objects that they count go or become smaller."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

import msgspec

from moorage.api import kinds
from moorage.api.decode import convert, decode
from moorage.api.meta import Data, Object
from moorage.api.quota import ResourceQuota
from moorage.client import Missing
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller
from moorage.registry.quotas import counted, measure, names_of
from moorage.registry.strategy import Strategy
from moorage.registry.table import strategy_of

_QUOTA = kinds.row("v1", "ResourceQuota")
_STRATEGIES = tuple(map(strategy_of, kinds.KINDS))
_COUNTED = tuple(each for each in _STRATEGIES if each.kind.namespaced and each.usage.is_counted)
_NAMESPACE = "namespace"
_TOGETHER = 0.05
"""How long changes are gathered, in seconds."""
_SETTLED = 5.0
"""After how many seconds a new quota is measured once more: a server may have stored objects before it knew of it."""
_RESYNC = 300.0


class ResourceQuotas(Controller):
    """Keeps the status of ResourceQuotas true, by which the API server allows writes.

    The API server adds what a new object uses in the transaction that stores the object. Here it is seen what no longer
    counts: objects that were deleted, have finished or ask for less.
    """

    name = "resourcequota"
    component = "resourcequota-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._quotas = context.informers.of(ResourceQuota)
        self._quotas.on_change(self._quota_changed)
        for strategy in _COUNTED:
            informer = context.informers.kind(strategy.kind)
            informer.index(_NAMESPACE, lambda item: [item.metadata.namespace])
            informer.on_change(partial(self._object_changed, strategy))

    def _quota_changed(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if new is not None and (old is None or old.spec != new.spec):
            self.enqueue(new)
            self.queue.add_after((new.metadata.namespace, new.metadata.name), _SETTLED)

    def _object_changed(self, strategy: Strategy, old: Object | None, new: Object | None) -> None:
        if old is None or (new is not None and not strategy.usage.updates):
            return
        for quota in self._quotas.by(_NAMESPACE, old.metadata.namespace):
            now = self.clock.now()
            if counted(strategy, old, quota, now) != counted(strategy, new, quota, now):
                self.queue.add_after((quota.metadata.namespace, quota.metadata.name), _TOGETHER)

    async def reconcile(self, key: Key) -> None:
        """Measure what is used of one quota."""
        with suppress(Missing):
            data: Data = msgspec.json.decode(await self.client.get(_QUOTA, *key))
            quota = convert(data, ResourceQuota)
            found = [
                (strategy, await self._inside(strategy, quota))
                for strategy in _COUNTED
                if names_of(strategy, quota.spec.hard)
            ]
            # Thousands of pods take a moment, in which the event loop serves others.
            used = await asyncio.to_thread(measure, quota, found, self.clock.now())
            status = {"hard": quota.spec.hard, "used": used}
            if status != data.get("status"):
                # It is refused when something was charged meanwhile: that object may not have been measured.
                await self.client.update(_QUOTA, {**data, "status": status}, subresource="status")
            self.queue.add_after(key, _RESYNC)

    async def _inside(self, strategy: Strategy, quota: ResourceQuota) -> Iterable[Object]:
        """The objects of a kind in the namespace of a quota, with all that were charged to it."""
        kind, metadata = strategy.kind, quota.metadata
        informer = self.context.informers.kind(kind)
        if informer.has_seen(metadata.resource_version):
            return list(informer.by(_NAMESPACE, metadata.namespace))
        listing = await self.client.list(kind, metadata.namespace)
        return [decode(bytes(item), kind.struct) for item in listing.items]
