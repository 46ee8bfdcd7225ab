"""Quotas at a write: what it uses is charged to the quotas of its namespace in the transaction that stores it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import NamedTuple

from moorage.api import kinds
from moorage.api.decode import convert, decode
from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.api.quota import ResourceQuota
from moorage.apiserver.base import objects
from moorage.apiserver.base.objects import prefix
from moorage.apiserver.base.offload import offload
from moorage.apiserver.http.failures import conflict
from moorage.apiserver.verbs.admission import refused
from moorage.apiserver.verbs.backend import Backend
from moorage.registry.quotas import ObjectWrite, charge
from moorage.registry.state import Denied
from moorage.registry.table import strategy_of
from moorage.store.protocol import Item, KeyMissing, RevisionConflict

_QUOTA = kinds.row("v1", "ResourceQuota")
_ATTEMPTS = 100
"""How often a write is tried when other servers charge the same quotas: each time one of them has got further."""


class StoredWrite(NamedTuple):
    """An object as it is to be stored."""

    kind: Kind
    namespace: str
    subresource: str
    item: Item
    """With the revision that it replaces."""
    old: Item | None
    """None for a new object."""


async def check_quotas(backend: Backend, write: StoredWrite) -> None:
    """Refuse (403) what the quotas of its namespace do not allow; nothing is charged."""
    if quotas := await _quotas(backend, write):
        await _charges(backend, write, quotas)


async def store_charged(backend: Backend, write: StoredWrite, quotas: Sequence[Item] | None = None) -> Item:
    """Store an object and charge it to the quotas of its namespace: both or neither.

    `quotas` are those of the namespace, when they were read for this request already. Refused (403) when a quota does
    not allow it. Raises KeyExists, KeyMissing, RevisionConflict.
    """
    if quotas is None:
        quotas = await _quotas(backend, write)
    if not quotas:
        return await _store(backend, write, ())
    # One at a time, or all but one of those who wait would find the quotas changed.
    async with backend.charging.setdefault(write.namespace, asyncio.Lock()):
        for _ in range(_ATTEMPTS):
            charges = await _charges(backend, write, await _quotas(backend, write))
            try:
                return await _store(backend, write, charges)
            except RevisionConflict as error:
                if error.current.key == write.item.key:
                    raise
            except KeyMissing:
                if write.old is not None and await backend.store.get(write.item.key) is None:
                    raise
    raise conflict(_QUOTA, charges[0].key.rpartition("/")[2])


async def _quotas(backend: Backend, write: StoredWrite) -> Sequence[Item]:
    """The quotas that a write may have to be charged to."""
    if not write.namespace or (
        write.old is not None and write.subresource not in strategy_of(write.kind).usage.updates
    ):
        return ()
    (found,) = await backend.store.read_each([prefix(_QUOTA, write.namespace)])
    return found


async def _charges(backend: Backend, write: StoredWrite, quotas: Sequence[Item]) -> list[Item]:
    """The quotas that change with a write, as they are to be stored."""
    size = len(write.item.value) + sum(len(item.value) for item in quotas)
    found = [objects.decoded(item) for item in quotas]
    return await offload(size, _charged, write, quotas, found, backend.now())


def _charged(write: StoredWrite, quotas: Sequence[Item], found: Sequence[Data], now: datetime) -> list[Item]:
    kind = write.kind
    new = decode(write.item.value, kind.struct)
    old = decode(write.old.value, kind.struct) if write.old is not None else None
    measured = ObjectWrite(strategy_of(kind), new, old, write.subresource, now)
    try:
        used = charge(measured, [convert(data, ResourceQuota) for data in found])
    except Denied as error:
        raise refused(kind, {"metadata": {"name": new.metadata.name}}, error) from None
    return [
        item._replace(value=objects.encode({**data, "status": {**data["status"], "used": amounts}}))
        for item, data, amounts in zip(quotas, found, used, strict=True)
        if amounts is not None
    ]


def _store(backend: Backend, write: StoredWrite, charges: Sequence[Item]) -> Awaitable[Item]:
    key, value, revision = write.item
    if write.old is None:
        return backend.store.create(key, value, along=charges)
    return backend.store.update(key, value, revision, along=charges)
