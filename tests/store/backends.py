"""The two backends as the tests see them: something that opens, again and again, on the same contents."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from moorage.store.etcd import EtcdStore
from moorage.store.protocol import HEAD, Batch, Item, Store, WatchEvent
from moorage.store.sqlite import SqliteStore

_MEMORY = Path("/dev/shm")


def folder_in_memory() -> tempfile.TemporaryDirectory[str]:
    """A folder that waits for no disk, where the system has one: processes are killed here, not machines."""
    return tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None)


class Backend(Protocol):
    """A place that keeps objects while no store is open."""

    @property
    def clients(self) -> int:
        """How many stores may be open on it at once."""

    async def open(self, **options: Any) -> Store:
        """Open a store."""


@dataclass(frozen=True)
class Sqlite:
    """A database file."""

    path: Path
    clients: int = 1

    async def open(self, **options: Any) -> SqliteStore:
        return await SqliteStore.open(self.path, **options)


@dataclass(frozen=True)
class Etcd:
    """An etcd cluster."""

    endpoints: list[str]
    clients: int = 3

    async def open(self, **options: Any) -> EtcdStore:
        return await EtcdStore.open(self.endpoints, **options)


@asynccontextmanager
async def opened(backend: Backend, **options: Any) -> AsyncIterator[Store]:
    """A store that is closed afterwards."""
    store = await backend.open(**options)
    try:
        yield store
    finally:
        await store.close()


def value(text: object) -> bytes:
    """An object as it is stored, with something to know it by."""
    return b'%b"},"text":"%b"}' % (HEAD, str(text).encode())


async def take(batches: AsyncIterator[Batch], count: int) -> list[WatchEvent]:
    """The next events of a watch, whatever its batches; no more than were asked for may come."""
    events: list[WatchEvent] = []
    async with asyncio.timeout(120):
        while len(events) < count:
            events += await anext(batches)
    assert len(events) == count
    return events


def replayed(items: Iterable[Item], events: Iterable[WatchEvent]) -> dict[str, Item]:
    """What is there after some events, each of which must fit what was there before."""
    state = {item.key: item for item in items}
    for event in events:
        assert event.previous == state.pop(event.item.key, None), event
        assert event.change.value == ("ADDED" if event.previous is None else event.change.value)
        if event.change.value != "DELETED":
            state[event.item.key] = event.item
    return state
