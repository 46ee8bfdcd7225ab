"""Informers: the objects of a kind as they are now, kept by list and watch, and a word at each change."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from heapq import heappop, heappush
from itertools import count
from typing import Any, Generic, TypeVar, cast

import msgspec

from moorage.api import kinds
from moorage.api.decode import DecodeError, decode
from moorage.api.kinds import Kind
from moorage.api.meta import Object
from moorage.client.client import Change, Client
from moorage.client.errors import ApiError, Expired, Missing

_LOG = logging.getLogger(__name__)
_FIRST_RETRY, _LAST_RETRY = 0.1, 10.0
_UNKNOWN_RETRY = 30.0
_AT_ONCE = 256
"""How many objects are read before others get their turn."""

T = TypeVar("T", bound=Object)
Key = tuple[str, str]
"""Namespace (empty for kinds without) and name."""
Handler = Callable[[T | None, T | None], None]
"""Called with the object before and after a change: None before an addition, None after a deletion."""


class _Index(Generic[T]):
    """Objects by what a function finds in them."""

    def __init__(self, keys: Callable[[T], Iterable[str]]) -> None:
        self._keys = keys
        self.places: dict[str, dict[Key, T]] = {}

    def change(self, key: Key, old: T | None, new: T | None) -> None:
        after = tuple(self._keys(new)) if new is not None else ()
        for each in self._keys(old) if old is not None else ():
            if each not in after and each in self.places:
                self.places[each].pop(key, None)
                if not self.places[each]:
                    del self.places[each]
        if new is not None:
            for each in after:
                self.places.setdefault(each, {})[key] = new


class Informer(Generic[T]):
    """All objects of a kind, by namespace and name. What it gives is shared: read only.

    An object that cannot be read is left out; of one that could be read before, the last readable state is kept.
    """

    def __init__(self, client: Client, kind: Kind, namespace: str = "", fields: str = "") -> None:
        self._client = client
        self.kind = kind
        self._namespace = namespace
        self._fields = fields
        self._objects: dict[Key, T] = {}
        self._handlers: list[Handler[T]] = []
        self._batch_handlers: list[Callable[[], None]] = []
        self._indexes: dict[str, _Index[T]] = {}
        self._revision = ""
        """Where to go on; empty when everything must be listed."""
        self._seen = 0
        """The revision up to which every change is here."""
        self._awaited: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._fruitless = 0
        """How many tries in a row brought nothing."""
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
        self._indexes.setdefault(name, _Index(keys))

    def get(self, namespace: str, name: str) -> T | None:
        """An object."""
        return self._objects.get((namespace, name))

    def by(self, index: str, key: str) -> Iterable[T]:
        """The objects that an index has under a key; copy it when objects may change meanwhile."""
        return self._indexes[index].places.get(key, {}).values()

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    async def caught_up(self, revision: str, seconds: float = 5.0) -> bool:
        """Wait until a write of one's own, which answered with this revision, is seen here too; not for ever."""
        if not revision.isdigit():
            return False
        if int(revision) <= self._seen:
            return True
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._awaited, (int(revision), next(self._numbers), reached))
        try:
            async with asyncio.timeout(seconds):
                await reached
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """List, then follow, for ever: a watch that ends is taken up again, a revision too old is listed anew."""
        loop = asyncio.get_running_loop()
        while True:
            begun, pause = loop.time(), 0.0
            self._fruitless += 1
            try:
                if not self._revision:
                    await self._list()
                await self._follow()
            except Expired:
                self._revision = ""
            except Missing as error:
                pause = _UNKNOWN_RETRY
                self._become_empty(error)
            except ApiError as error:
                pause = error.retry_after
                _LOG.warning("watching %s: %s", self.kind.resource, error)
            except Exception:  # noqa: BLE001 - an informer that ends leaves everybody with the past
                _LOG.exception("watching %s failed", self.kind.resource)
            if loop.time() - begun > _LAST_RETRY:
                self._fruitless = 0
            if self._fruitless > 1:
                wait = min(_FIRST_RETRY * 2.0 ** min(self._fruitless - 2, 40), _LAST_RETRY)
                pause = max(pause, wait * random.uniform(0.5, 1.5))
            await asyncio.sleep(pause)

    def _become_empty(self, why: Missing) -> None:
        """The server does not know the kind, so there are none; that may change, when somebody configures it."""
        if not self.synced.is_set() or self._objects:
            _LOG.warning("%s: taken for none: %s", self.kind.resource, why)
        for old in list(self._objects.values()):
            self._remove(old)
        self._revision, self._fruitless = "", 0
        self.synced.set()
        self._end_batch()

    async def _list(self) -> None:
        listing = await self._client.list(self.kind, self._namespace, fields=self._fields)
        gone = dict(self._objects)
        for number, item in enumerate(listing.items, 1):
            found = self._decoded(item)
            if found is not None:
                gone.pop(_key(found), None)
                self._put(found)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        for old in gone.values():
            self._remove(old)
        self._revision = listing.revision
        self.synced.set()
        self._end_batch()

    async def _follow(self) -> None:
        changes = self._client.watch(self.kind, self._namespace, after=self._revision, fields=self._fields)
        async with aclosing(changes):
            async for batch in changes:
                self._fruitless = 0
                for number, change in enumerate(batch, 1):
                    self._apply(change)
                    if number % _AT_ONCE == 0:
                        await asyncio.sleep(0)
                self._end_batch()

    def _end_batch(self) -> None:
        self._seen = int(self._revision) if self._revision.isdigit() else 0
        while self._awaited and self._awaited[0][0] <= self._seen:
            _, _, reached = heappop(self._awaited)
            if not reached.done():
                reached.set_result(None)
        for told in self._batch_handlers:
            self._call(told)

    def _apply(self, change: Change) -> None:
        found = self._decoded(change.object)
        if found is None:
            return
        if change.type == "DELETED":
            self._remove(found)
        elif change.type != "BOOKMARK":
            self._put(found)
        self._revision = found.metadata.resource_version or self._revision

    def _decoded(self, raw: msgspec.Raw) -> Object | None:
        """An object, or at least the head of one that cannot be read."""
        try:
            return self._read(raw)
        except (msgspec.DecodeError, UnicodeError):
            pass
        try:
            return decode(bytes(raw), self.kind.struct)
        except DecodeError as error:
            problem = error
        try:
            head = decode(bytes(raw), Object)
        except DecodeError:
            head = None
        name = f"{head.metadata.namespace}/{head.metadata.name}" if head else "an object"
        _LOG.warning("%s: %s cannot be read: %s", self.kind.resource, name, problem)
        return head

    def _put(self, found: Object) -> None:
        key = _key(found)
        old = self._objects.get(key)
        if old is not None:
            if old.metadata.resource_version == found.metadata.resource_version:
                return
            if old.metadata.uid != found.metadata.uid:
                self._remove(old)
                old = None
        if type(found) is not self.kind.struct:
            return
        new = cast(T, found)
        self._objects[key] = new
        for index in self._indexes.values():
            index.change(key, old, new)
        self._tell(old, new)

    def _remove(self, last: Object) -> None:
        key = _key(last)
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indexes.values():
                index.change(key, old, None)
            self._tell(cast(T, last) if type(last) is self.kind.struct else old, None)

    def _tell(self, old: T | None, new: T | None) -> None:
        for handler in self._handlers:
            self._call(handler, old, new)

    def _call(self, handler: Callable[..., None], *what: T | None) -> None:
        try:
            handler(*what)
        except Exception:  # noqa: BLE001 - one handler's trouble must not keep the news from the others
            _LOG.exception("what should follow a change of %s failed", self.kind.resource)


class Informers:
    """One informer a kind, shared by everybody who asks."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._informers: dict[Kind, Informer[Any]] = {}
        self._tasks: dict[Kind, asyncio.Task[None]] = {}

    def of(self, struct: type[T]) -> Informer[T]:
        """The informer of the kind that a struct reads."""
        return cast(Informer[T], self.kind(kinds.of(struct())))

    def kind(self, kind: Kind) -> Informer[Any]:
        """The informer of a kind that has no struct of its own."""
        if kind not in self._informers:
            self._informers[kind] = Informer(self.client, kind)
        return self._informers[kind]

    def __iter__(self) -> Iterator[Informer[Any]]:
        return iter(self._informers.values())

    async def start(self) -> None:
        """Begin all that were asked for and not begun yet, and wait until each has read everything once."""
        for kind, informer in self._informers.items():
            if kind not in self._tasks:
                self._tasks[kind] = asyncio.create_task(informer.run(), name=f"informer {kind.resource}")
        for informer in self._informers.values():
            await informer.synced.wait()

    async def stop(self) -> None:
        """End all."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()


def _key(item: Object) -> Key:
    return item.metadata.namespace, item.metadata.name
