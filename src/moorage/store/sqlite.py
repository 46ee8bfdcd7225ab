"""The store of a single server: all objects in memory, and every change in an SQLite file before it is visible."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple

from moorage.bounded import Bounded
from moorage.store.database import FIRST_REVISION, Row, checksum_of
from moorage.store.disk import Disk
from moorage.store.history import MAX_BYTES, MAX_EVENTS, History, Watcher
from moorage.store.keys import SortedKeys
from moorage.store.protocol import (
    Change,
    Item,
    KeyExists,
    KeyMissing,
    Page,
    RevisionConflict,
    StoreFull,
    StoreUnavailable,
    WatchEvent,
)

MAX_BATCH, MAX_BATCH_BYTES = 512, 2 * 1024 * 1024
FREED_AT_ONCE = 16
PROGRESS_SECONDS = 5.0

_LISTED = 1024
_REGISTRY = "/registry/"
_CLOSED = "the store is closed"
_BEING_DELETED = b'"deletionTimestamp":"'
_MARK_BYTES = 4096
"""More than an object grows by while it is being deleted: its mark, and the conditions of a namespace."""


class _Write(NamedTuple):
    """A change that is not on disk yet."""

    key: str
    value: bytes | None
    previous: Item | None
    done: asyncio.Future[Item] | None
    """Awaited by the caller; None when the write goes along with another one."""
    along: Sequence[_Write] = ()
    """Writes that are committed with this one or not at all."""

    def frees_space(self) -> bool:
        """Whether this is a deletion, or a mark on an object that is being deleted and not gone yet."""
        if self.value is None:
            return True
        most = len(self.previous.value) + _MARK_BYTES if self.previous else 0
        return len(self.value) <= most and _BEING_DELETED in self.value

    def event(self, revision: int) -> WatchEvent:
        """The event of the change, once it has its revision."""
        if self.value is None:
            assert self.previous is not None
            return WatchEvent(Change.DELETED, self.previous._replace(revision=revision), self.previous)
        change = Change.MODIFIED if self.previous else Change.ADDED
        return WatchEvent(change, Item(self.key, self.value, revision), self.previous)


class _Listed(NamedTuple):
    """Items below a prefix."""

    kind: str
    changed: int
    """The revision of the latest change of their kind when they were listed."""
    items: Sequence[Item]


class SqliteStore:
    """Objects in memory and in a file. Reads and checks happen in the event loop, commits in a thread.

    A key has at most one pending change; the next one waits for it and then sees its outcome. So a change becomes
    visible only when it is durable, and a batch that fails affects no other.
    """

    def __init__(self, disk: Disk, history: History) -> None:
        self._items = disk.items
        self._keys = SortedKeys(disk.items)
        self._changed: dict[str, int] = {}
        """The revisions of the latest changes, by kind."""
        self._listed: Bounded[str, _Listed] = Bounded(_LISTED)
        """What is below prefixes."""
        self._history = history
        self._pending: dict[str, list[asyncio.Future[None]]] = {}
        self._queue: SimpleQueue[_Write | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._finished: asyncio.Future[None] = self._loop.create_future()
        self._reports = self._loop.call_later(PROGRESS_SECONDS, self._report)
        writer = threading.Thread(target=self._write_batches, args=(disk, history.revision), daemon=True)
        writer.name = "store-writer"
        writer.start()

    @classmethod
    async def open(cls, path: Path, *, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> SqliteStore:
        """Open a database file, or make a new one. Raises CannotOpen."""
        disk = await asyncio.to_thread(Disk, path)
        history = History(disk.revision, max_events=max_events, max_bytes=max_bytes)
        if disk.revision == FIRST_REVISION:
            history.start = 0
        return cls(disk, history)

    async def revision(self) -> int:
        """The revision of the latest change."""
        return self._history.revision

    async def get(self, key: str) -> Item | None:
        """The item under a key now."""
        return self._items.get(key)

    async def list(self, prefix: str, *, revision: int = 0, limit: int = 0, after: str = "") -> Page:
        """The items whose keys begin with a prefix, as of a revision (0: now), those after a key, a limited number."""
        self._check_reached(revision)
        held = self._history.undone(prefix, revision) if revision else {}
        if after:
            held = {key: item for key, item in held.items() if key > after}
        keys = self._keys.first(prefix, after, limit and limit + len(held))
        total = len(keys) if not limit else self._keys.count(prefix, after)
        if held:
            total += sum(item is not None for item in held.values()) - sum(key in self._items for key in held)
            keys = sorted([key for key in keys if key not in held] + [key for key, item in held.items() if item])
        if limit:
            del keys[limit:]
        items = [held.get(key) or self._items[key] for key in keys] if held else [self._items[key] for key in keys]
        return Page(items, revision or self._history.revision, total - len(items))

    async def read_each(self, places: Sequence[str]) -> Sequence[Sequence[Item]]:
        """The items now below each of some prefixes or under some keys, as of one revision."""
        return [self._below(place) if place.endswith("/") else self._under(place) for place in places]

    def _under(self, key: str) -> Sequence[Item]:
        item = self._items.get(key)
        return (item,) if item else ()

    def _below(self, prefix: str) -> Sequence[Item]:
        """The items below a prefix: the same ones as last time when nothing of their kind has changed."""
        known = self._listed.get(prefix)
        if known is not None and known.changed == self._changed.get(known.kind, 0):
            return known.items
        items, kind = [self._items[key] for key in self._keys.first(prefix, "", 0)], _kind_of(prefix)
        if kind:
            self._listed.put(prefix, _Listed(kind, self._changed.get(kind, 0), items))
        return items

    async def create(self, key: str, value: bytes, *, along: Sequence[Item] = ()) -> Item:
        """Create an object; returns once it is durable."""
        if along:
            await self._settled([key, *(item.key for item in along)])
        if await self._current(key):
            raise KeyExists(f"{key} exists")
        return await self._write(key, value, None, await self._replacements(along) if along else ())

    async def update(self, key: str, value: bytes, revision: int, *, along: Sequence[Item] = ()) -> Item:
        """Replace an object that is still at a revision; returns once it is durable."""
        if along:
            await self._settled([key, *(item.key for item in along)])
        previous = await self._current_at(key, revision)
        return await self._write(key, value, previous, await self._replacements(along) if along else ())

    async def delete(self, key: str, revision: int) -> Item:
        """Remove an object that is still at a revision. Returns it with the revision of the deletion."""
        return await self._write(key, None, await self._current_at(key, revision))

    def watch(self, prefix: str, after: int) -> Watcher:
        """All changes below a prefix after a revision, in order, in batches."""
        return self._history.watch(prefix, after)

    async def compact(self, revision: int) -> None:
        """Forget the changes before a revision; the present state stays."""
        self._check_reached(revision)
        self._history.compact(revision)

    async def close(self) -> None:
        """Finish what was begun and release everything."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.shield(self._finished)

    def _check_reached(self, revision: int) -> None:
        if revision > self._history.revision:
            raise StoreUnavailable(f"revision {revision} is still to come: the latest is {self._history.revision}")

    async def _current(self, key: str) -> Item | None:
        while (waiting := self._pending.get(key)) is not None:
            turn: asyncio.Future[None] = self._loop.create_future()
            waiting.append(turn)
            await turn
        return self._items.get(key)

    async def _current_at(self, key: str, revision: int) -> Item:
        current = await self._current(key)
        if current is None:
            raise KeyMissing(f"{key} does not exist")
        if current.revision != revision:
            raise RevisionConflict(current)
        return current

    async def _settled(self, keys: Sequence[str]) -> None:
        """Wait until none of these keys has a pending change. Nobody else runs before the caller waits again."""
        while any(key in self._pending for key in keys):
            for key in keys:
                await self._current(key)

    async def _replacements(self, items: Sequence[Item]) -> Sequence[_Write]:
        return [_Write(item.key, item.value, await self._current_at(item.key, item.revision), None) for item in items]

    async def _write(self, key: str, value: bytes | None, previous: Item | None, along: Sequence[_Write] = ()) -> Item:
        if self._closed:
            raise StoreUnavailable(_CLOSED)
        key.encode()  # a key that SQLite cannot store would fail the whole batch
        done: asyncio.Future[Item] = self._loop.create_future()
        self._pending[key] = []
        for write in along:
            self._pending[write.key] = []
        self._queue.put(_Write(key, value, previous, done, along))
        return await done

    def _write_batches(self, disk: Disk, revision: int) -> None:
        """The writer thread: commit the changes that have come in while the last batch was being committed."""
        while writes := self._gathered():
            try:
                revision = self._commit(disk.commit, writes, revision)
            except StoreFull as error:
                self._refuse([write for write in writes if not write.frees_space()], error)
                revision = self._free(disk, [write for write in writes if write.frees_space()], revision)
            except StoreUnavailable as error:
                self._refuse(writes, error)
            disk.tidy()
        disk.close()
        self._loop.call_soon_threadsafe(self._finish)

    def _free(self, disk: Disk, writes: Sequence[_Write], revision: int) -> int:
        """Commit changes that free space, few at a time; the revision of the last one."""
        for start in range(0, len(writes), FREED_AT_ONCE):
            few = writes[start : start + FREED_AT_ONCE]
            try:
                revision = self._commit(disk.commit_freeing, few, revision)
            except StoreUnavailable as error:
                self._refuse(few, error)
            disk.tidy()
        return revision

    def _commit(self, commit: Callable[[Sequence[Row]], None], writes: Sequence[_Write], revision: int) -> int:
        """Write changes and make them visible; the revision of the last one. Raises StoreUnavailable."""
        numbered = enumerate(writes, revision + 1)
        commit([(at, write.key, write.value, checksum_of(at, write.value)) for at, write in numbered])
        self._loop.call_soon_threadsafe(self._apply, writes, revision)
        return revision + len(writes)

    def _refuse(self, writes: Sequence[_Write], error: StoreUnavailable) -> None:
        self._loop.call_soon_threadsafe(self._fail, writes, type(error), str(error))

    def _gathered(self) -> Sequence[_Write]:
        writes: list[_Write] = []
        size = 0
        write = self._queue.get()
        while write is not None:
            writes.append(write)
            writes += write.along
            size += sum(len(each.value or b"") for each in (write, *write.along))
            if len(writes) >= MAX_BATCH or size >= MAX_BATCH_BYTES:
                return writes
            try:
                write = self._queue.get_nowait()
            except Empty:
                return writes
        if writes:
            self._queue.put(None)
        return writes

    def _apply(self, writes: Sequence[_Write], revision: int) -> None:
        """Make a batch that is on disk visible to readers and watchers, and wake its callers and the next ones."""
        events = [write.event(revision + place) for place, write in enumerate(writes, 1)]
        for event in events:
            item = event.item
            self._changed[_kind_of(item.key)] = item.revision
            if event.change is Change.DELETED:
                del self._items[item.key]
                self._keys.remove(item.key)
                continue
            self._items[item.key] = item
            if event.change is Change.ADDED:
                self._keys.add(item.key)
        self._history.append(events, revision + len(events))
        for write, event in zip(writes, events, strict=True):
            if write.done is not None and not write.done.done():
                write.done.set_result(event.item)
            self._release(write.key)

    def _fail(self, writes: Sequence[_Write], kind: type[StoreUnavailable], sentence: str) -> None:
        for write in writes:
            if write.done is not None and not write.done.done():
                write.done.set_exception(kind(sentence))
            self._release(write.key)

    def _release(self, key: str) -> None:
        for turn in self._pending.pop(key):
            if not turn.done():
                turn.set_result(None)

    def _report(self) -> None:
        self._history.report()
        self._reports = self._loop.call_later(PROGRESS_SECONDS, self._report)

    def _finish(self) -> None:
        self._reports.cancel()
        self._history.fail(StoreUnavailable(_CLOSED))
        self._finished.set_result(None)


def _kind_of(key: str) -> str:
    """The part of a key that the objects of a kind have in common, /registry/GROUP/PLURAL/; empty when it has none."""
    if not key.startswith(_REGISTRY):
        return ""
    group = key.find("/", len(_REGISTRY))
    return key[: key.find("/", group + 1) + 1] if group > 0 else ""
