"""Informers: the objects of a kind as they are now, kept by list and watch, and a word at each change."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

import msgspec

from moorage.api import kinds
from moorage.api.decode import DecodeError, decode
from moorage.api.kinds import Kind
from moorage.api.meta import Object
from moorage.client.client import Change, Client
from moorage.client.errors import ApiError, Expired

_LOG = logging.getLogger(__name__)
_FIRST_RETRY, _LAST_RETRY = 0.1, 10.0

T = TypeVar("T", bound=Object)
Key = tuple[str, str]
"""Namespace (empty for kinds without) and name."""
Handler = Callable[[T | None, T | None], None]
"""Called with the object before and after a change: None before an addition, None after a deletion."""


class Informer(Generic[T]):
    """All objects of a kind, by namespace and name. What it gives is shared: read only."""

    def __init__(self, client: Client, kind: Kind, namespace: str = "", fields: str = "") -> None:
        self._client = client
        self.kind = kind
        self._namespace = namespace
        self._fields = fields
        self._objects: dict[Key, T] = {}
        self._handlers: list[Handler[T]] = []
        self._batch_handlers: list[Callable[[], None]] = []
        self._indexes: dict[str, tuple[Callable[[T], Iterable[str]], dict[str, dict[Key, T]]]] = {}
        self._revision = ""
        self._moved = asyncio.Event()
        self._read = msgspec.json.Decoder(kind.struct).decode
        self.synced = asyncio.Event()
        """Set once everything was read for the first time."""

    def on_change(self, handler: Handler[T]) -> None:
        """Call a function at each change, from the event loop; before the start, or it misses what is there."""
        self._handlers.append(handler)

    def on_batch(self, handler: Callable[[], None]) -> None:
        """Call a function after each batch of changes has been told."""
        self._batch_handlers.append(handler)

    def index(self, name: str, keys: Callable[[T], Iterable[str]]) -> None:
        """Keep objects by keys that a function finds in them; before the start."""
        self._indexes.setdefault(name, (keys, {}))

    def get(self, namespace: str, name: str) -> T | None:
        """An object."""
        return self._objects.get((namespace, name))

    def by(self, index: str, key: str) -> Iterable[T]:
        """The objects that an index has under a key; copy it when objects may change meanwhile."""
        return self._indexes[index][1].get(key, {}).values()

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    async def caught_up(self, revision: str, seconds: float = 5.0) -> bool:
        """Wait until a write of one's own, which answered with this revision, is seen here too; not for ever."""
        if not revision.isdigit():
            return False
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not self._is_past(revision):
            try:
                async with asyncio.timeout_at(end):
                    await self._moved.wait()
            except TimeoutError:
                return False
        return True

    def _is_past(self, revision: str) -> bool:
        return self._revision.isdigit() and int(self._revision) >= int(revision)

    async def run(self) -> None:
        """List, then follow, for ever: a watch that ends is taken up again, a revision too old is listed anew."""
        wait = _FIRST_RETRY
        while True:
            try:
                if not self._revision:
                    await self._list()
                    wait = _FIRST_RETRY
                await self._follow()
                wait = _FIRST_RETRY
                continue
            except Expired:
                self._revision = ""
                continue
            except ApiError as error:
                _LOG.warning("watching %s: %s", self.kind.resource, error)
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))
            wait = min(wait * 2, _LAST_RETRY)

    async def _list(self) -> None:
        listing = await self._client.list(self.kind, self._namespace, fields=self._fields)
        gone = dict(self._objects)
        for number, item in enumerate(listing.items):
            found = self._decoded(item)
            if found is not None:
                gone.pop(_key(found), None)
                self._put(found)
            if number % 256 == 255:
                await asyncio.sleep(0)
        for old in gone.values():
            self._remove(old)
        self._revision = listing.revision
        self.synced.set()
        self._end_batch()

    async def _follow(self) -> None:
        changes = self._client.watch(self.kind, self._namespace, after=self._revision, fields=self._fields)
        try:
            async for batch in changes:
                for change in batch:
                    self._apply(change)
                self._end_batch()
        finally:
            with suppress(RuntimeError):
                await cast(Any, changes).aclose()

    def _end_batch(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()
        for told in self._batch_handlers:
            told()

    def _apply(self, change: Change) -> None:
        found = self._decoded(change.object)
        if found is None:
            return
        if change.type == "DELETED":
            self._remove(found)
        elif change.type != "BOOKMARK":
            self._put(found)
        self._revision = found.metadata.resource_version or self._revision

    def _decoded(self, raw: msgspec.Raw) -> T | None:
        try:
            return cast(T, self._read(raw))
        except msgspec.ValidationError:
            pass
        try:
            return cast(T, decode(bytes(raw), self.kind.struct))
        except DecodeError as error:
            _LOG.warning("an object of %s cannot be read and is left out: %s", self.kind.resource, error)
            return None

    def _put(self, new: T) -> None:
        key = _key(new)
        old = self._objects.get(key)
        if old is not None and old.metadata.resource_version == new.metadata.resource_version:
            return
        self._objects[key] = new
        if old is not None and old.metadata.uid != new.metadata.uid:
            self._tell(key, old, None)
            old = None
        self._tell(key, old, new)

    def _remove(self, last: T) -> None:
        key = _key(last)
        if self._objects.pop(key, None) is not None:
            self._tell(key, last, None)

    def _tell(self, key: Key, old: T | None, new: T | None) -> None:
        for keys, places in self._indexes.values():
            for each in keys(old) if old is not None else ():
                places.get(each, {}).pop(key, None)
            for each in keys(new) if new is not None else ():
                places.setdefault(each, {})[key] = new  # type: ignore[assignment]
        for handler in self._handlers:
            handler(old, new)


class Informers:
    """One informer a kind, shared by everybody who asks."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._informers: dict[Kind, Informer[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def of(self, struct: type[T]) -> Informer[T]:
        """The informer of the kind that a struct reads."""
        return cast(Informer[T], self.kind(kinds.of(struct())))

    def kind(self, kind: Kind) -> Informer[Any]:
        """The informer of a kind that has no struct of its own."""
        if kind not in self._informers:
            self._informers[kind] = Informer(self.client, kind)
        return self._informers[kind]

    async def start(self) -> None:
        """Begin all that were asked for, and wait until each has read everything once."""
        for informer in self._informers.values():
            self._tasks.append(asyncio.create_task(informer.run(), name=f"informer {informer.kind.resource}"))
        for informer in self._informers.values():
            await informer.synced.wait()

    async def stop(self) -> None:
        """End all."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()


def _key(item: Object) -> Key:
    return item.metadata.namespace, item.metadata.name
