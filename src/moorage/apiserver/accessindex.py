"""An index of what authentication and authorization read: roles, bindings and service accounts."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from moorage.api import kinds
from moorage.apiserver.access.rbac import Rbac
from moorage.apiserver.base.objects import decoded, prefix
from moorage.logs import Log
from moorage.store.protocol import Change, Compacted, Item, Store, StoreError

_LOG = Log(__name__)
_RBAC = "rbac.authorization.k8s.io/v1"
_FOLLOWED = (
    *(kinds.row(_RBAC, name) for name in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")),
    kinds.row("v1", "ServiceAccount"),
)
_RETRY_SECONDS = 1.0


class AccessIndex:
    """Keeps up with some kinds in the store by watching them."""

    def __init__(self, store: Store, rbac: Rbac) -> None:
        self._store = store
        self._rbac = rbac
        self._accounts: set[tuple[str, str, str]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Read everything once, then watch."""
        for kind in _FOLLOWED:
            revision = await self._fill(kind)
            self._tasks.append(asyncio.create_task(self._follow(kind, revision)))

    async def stop(self) -> None:
        """Stop watching."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task

    def exists(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        """Whether the object that a token is bound to exists; tokens are bound to service accounts alone."""
        return kind == "ServiceAccount" and (namespace, name, uid) in self._accounts

    async def _fill(self, kind: kinds.Kind) -> int:
        page = await self._store.list(prefix(kind))
        if kind.kind == "ServiceAccount":
            self._accounts.clear()
            for item in page.items:
                self._put(kind, item)
        else:
            self._rbac.replace(kind.kind, [decoded(item) for item in page.items])
        return page.revision

    async def _follow(self, kind: kinds.Kind, revision: int) -> None:
        while True:
            try:
                async with self._store.watch(prefix(kind), revision) as batches:
                    async for batch in batches:
                        for event in batch:
                            (self._remove if event.change is Change.DELETED else self._put)(kind, event.item)
                        revision = batch.revision
            except Compacted:
                revision = await self._fill(kind)
            except StoreError as error:
                _LOG.warning("Watch of the store failed", resource=kind.plural, err=error)
                await asyncio.sleep(_RETRY_SECONDS)

    def _put(self, kind: kinds.Kind, item: Item) -> None:
        data = decoded(item)
        if kind.kind == "ServiceAccount":
            metadata = data["metadata"]
            self._accounts.add((metadata["namespace"], metadata["name"], metadata["uid"]))
        else:
            self._rbac.put(kind.kind, data)

    def _remove(self, kind: kinds.Kind, item: Item) -> None:
        metadata = decoded(item)["metadata"]
        namespace = metadata.get("namespace", "")
        if kind.kind == "ServiceAccount":
            self._accounts.discard((namespace, metadata["name"], metadata["uid"]))
        else:
            self._rbac.remove(kind.kind, namespace, metadata["name"])
