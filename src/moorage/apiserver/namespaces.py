"""Namespaces that end: what is in them goes first, then they do."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from moorage.api import kinds
from moorage.apiserver.objects import decode, decoded, encode, key, prefix
from moorage.store.protocol import Conflict, Item, Missing, Store, StoreError

_LOG = logging.getLogger(__name__)
NAMESPACE = kinds.row("v1", "Namespace")
_INSIDE = tuple(kind for kind in kinds.KINDS if kind.namespaced and kind.group != "events.k8s.io")
_RETRY_SECONDS = 1.0


class EndingNamespaces:
    """Empties namespaces that were deleted. What waits for a finalizer is waited for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Go on with the namespaces that were ending when the server stopped."""
        for item in (await self._store.list(prefix(NAMESPACE))).items:
            metadata = decoded(item)["metadata"]
            if metadata.get("deletionTimestamp"):
                self.end(metadata["name"])

    async def stop(self) -> None:
        """Leave the rest for the next start."""
        for task in self._tasks.values():
            task.cancel()
        for task in list(self._tasks.values()):
            with suppress(asyncio.CancelledError):
                await task

    def end(self, name: str) -> None:
        """Empty a namespace that is marked as deleted, then remove it."""
        if name not in self._tasks:
            self._tasks[name] = task = asyncio.create_task(self._end(name))
            task.add_done_callback(lambda _: self._tasks.pop(name, None))

    async def _end(self, name: str) -> None:
        while True:
            try:
                if await self._empty(name) and await self._remove(name):
                    return
            except StoreError as error:
                _LOG.warning("ending namespace %s: %s", name, error)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _empty(self, name: str) -> bool:
        left = 0
        for kind in _INSIDE:
            for item in (await self._store.list(prefix(kind, name))).items:
                left += not await self._delete(item)
        return not left

    async def _delete(self, item: Item) -> bool:
        data = decode(item)
        metadata = data["metadata"]
        with suppress(Conflict, Missing):
            if not metadata.get("finalizers"):
                await self._store.delete(item.key, item.revision)
                return True
            if not metadata.get("deletionTimestamp"):
                metadata |= {"deletionTimestamp": metadata["creationTimestamp"], "deletionGracePeriodSeconds": 0}
                await self._store.update(item.key, encode(data), item.revision)
        return False

    async def _remove(self, name: str) -> bool:
        item = await self._store.get(key(NAMESPACE, "", name))
        if item is None:
            return True
        if decoded(item)["metadata"].get("finalizers"):
            return False
        with suppress(Conflict, Missing):
            await self._store.delete(item.key, item.revision)
            return True
        return False
