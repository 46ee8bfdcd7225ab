"""Objects in memory: what a store that keeps them on disk too builds on, and a whole store for what is never kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from moorage.bounded import Bounded
from moorage.store.history import History, Watcher
from moorage.store.keys import SortedKeys
from moorage.store.protocol import (
    Change,
    Item,
    KeyExists,
    KeyMissing,
    Page,
    RevisionConflict,
    StoreUnavailable,
    WatchEvent,
)

_LISTED = 1024
_REGISTRY = "/registry/"


class Write(NamedTuple):
    """A change that is not visible yet."""

    key: str
    value: bytes | None
    previous: Item | None
    done: asyncio.Future[Item] | None = None
    """Awaited by the caller; None when the write goes along with another one."""
    along: Sequence[Write] = ()
    """Writes that are committed with this one or not at all."""

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


class MemoryStore:
    """Objects in memory. A change is visible at once, and gone with the process."""

    def __init__(self, items: dict[str, Item], history: History) -> None:
        self._items = items
        self._keys = SortedKeys(items)
        self._changed: dict[str, int] = {}
        """The revisions of the latest changes, by kind."""
        self._listed: Bounded[str, _Listed] = Bounded(_LISTED)
        """What is below prefixes."""
        self._history = history

    async def revision(self) -> int:
        """The revision of the latest change."""
        return self._history.revision

    async def get(self, key: str) -> Item | None:
        """The item under a key now."""
        return self._items.get(key)

    async def list(self, prefix: str, *, revision: int = 0, limit: int = 0, after: str = "") -> Page:
        """The items whose keys begin with a prefix, as of a revision (0: now), those after a key, a limited number."""
        self._check_reached(revision)
        held = await self._history.undone(prefix, revision) if revision else {}
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
        """Create an object; returns once it is visible."""
        if along:
            await self._settled([key, *(item.key for item in along)])
        if await self._current(key):
            raise KeyExists(f"{key} exists")
        return await self._write(key, value, None, await self._replacements(along) if along else ())

    async def update(self, key: str, value: bytes, revision: int, *, along: Sequence[Item] = ()) -> Item:
        """Replace an object that is still at a revision; returns once the change is visible."""
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
        """End all watches."""
        self._history.fail(StoreUnavailable("the store is closed"))

    def _check_reached(self, revision: int) -> None:
        if revision > self._history.revision:
            raise StoreUnavailable(f"revision {revision} is still to come: the latest is {self._history.revision}")

    async def _current(self, key: str) -> Item | None:
        """The item under a key, once no change of it is pending."""
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

    async def _replacements(self, items: Sequence[Item]) -> Sequence[Write]:
        return [Write(item.key, item.value, await self._current_at(item.key, item.revision)) for item in items]

    async def _write(self, key: str, value: bytes | None, previous: Item | None, along: Sequence[Write] = ()) -> Item:
        events = self._show([Write(key, value, previous), *along], self._history.revision)
        await asyncio.sleep(0)  # others have their turn, as when a disk is waited for
        return events[0].item

    def _show(self, writes: Sequence[Write], revision: int) -> Sequence[WatchEvent]:
        """Make changes visible to readers and watchers."""
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
        return events


def _kind_of(key: str) -> str:
    """The part of a key that the objects of a kind have in common, /registry/GROUP/PLURAL/; empty when it has none."""
    if not key.startswith(_REGISTRY):
        return ""
    group = key.find("/", len(_REGISTRY))
    return key[: key.find("/", group + 1) + 1] if group > 0 else ""
