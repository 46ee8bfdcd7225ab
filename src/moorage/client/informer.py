"""Informers: a cache of the objects of a kind, kept up to date by list and watch, with handlers for changes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from functools import cache, cached_property
from heapq import heappop, heappush
from itertools import count
from typing import Any, Generic, TypeVar, cast

import msgspec

from moorage.api import kinds
from moorage.api.decode import DecodeError, decode
from moorage.api.kinds import Kind
from moorage.api.meta import Object
from moorage.client.backoff import Backoff
from moorage.client.client import Client, ObjectEvent
from moorage.client.clock import Clock
from moorage.client.errors import ApiError, Expired, Forbidden, Missing
from moorage.client.sharing import reader
from moorage.logs import Log
from moorage.names import canonical_int64

_LOG = Log(__name__)
_BACKOFF = Backoff(first=0.1, last=10.0)
_UNKNOWN_RETRY = 30.0
"""How many seconds until a server that does not know the kind is asked again."""
_OPTIONAL_GROUP = "resource.k8s.io"
"""Roles name its kinds only where it is turned on, and servers check rights before they look for kinds."""
_AT_ONCE = 256
"""How many objects are decoded before the event loop serves others."""

T = TypeVar("T", bound=Object)
Key = tuple[str, str]
"""Namespace (empty for kinds without) and name."""
ChangeHandler = Callable[[T | None, T | None], None]
"""Called with the object before and after a change: None before an addition, None after a deletion."""


@cache
def _reader(struct: type[T]) -> Callable[[msgspec.Raw], T]:
    """What decodes an object: one reader for each struct, so that informers of one process share what it decodes."""
    return reader(struct)


class _Index(Generic[T]):
    """Objects by the keys that a function computes from them."""

    def __init__(self, keys: Callable[[T], Sequence[str]]) -> None:
        self._keys = keys
        self.entries: dict[str, dict[Key, T]] = {}

    def change(self, key: Key, old: T | None, new: T | None) -> None:
        entries = self.entries
        after = self._keys(new) if new is not None else ()
        for entry in self._keys(old) if old is not None else ():
            if entry not in after and entry in entries:
                entries[entry].pop(key, None)
                if not entries[entry]:
                    del entries[entry]
        if new is not None:
            for entry in after:
                if (there := entries.get(entry)) is None:
                    entries[entry] = {key: new}
                else:
                    there[key] = new


class Informer(Generic[T]):
    """All objects of a kind, by namespace and name. They are shared with everybody else: read only.

    An object that cannot be decoded is left out, or stays as it was when it could last be decoded.
    """

    def __init__(
        self, client: Client, kind: Kind, namespace: str = "", fields: str = "", clock: Clock | None = None
    ) -> None:
        self._client = client
        self._clock = clock or Clock()
        self.kind = kind
        self._namespace = namespace
        self._fields = fields
        self._objects: dict[Key, T] = {}
        self._handlers: list[ChangeHandler[T]] = []
        self._batch_handlers: list[Callable[[], None]] = []
        self._indexes: dict[str, _Index[T]] = {}
        self._revision = ""
        """The revision to watch from; empty when everything must be listed."""
        self._seen = 0
        """The revision up to which every change has been applied."""
        self._awaited: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._failures = 0
        """How many attempts in a row brought no event."""
        self.is_optional = kind.group == _OPTIONAL_GROUP
        """Whether a kind that may not be listed counts as one that is not served."""
        self.synced = asyncio.Event()
        """Set once everything has been listed for the first time."""

    @cached_property
    def _read(self) -> Callable[[msgspec.Raw], Object]:
        """Made when there is something to decode: an informer that is only filled needs none."""
        return _reader(self.kind.struct)

    def on_change(self, handler: ChangeHandler[T]) -> None:
        """Call a function at each change, from the event loop. Added later than `run`, it misses the first list."""
        self._handlers.append(handler)

    def on_batch(self, handler: Callable[[], None]) -> None:
        """Call a function after the change handlers have been called for a batch of changes."""
        self._batch_handlers.append(handler)

    def index(self, name: str, keys: Callable[[T], Sequence[str]]) -> None:
        """Keep objects by the keys that a function computes from them. Add indexes before `run`."""
        self._indexes.setdefault(name, _Index(keys))

    def get(self, namespace: str, name: str) -> T | None:
        """An object."""
        return self._objects.get((namespace, name))

    def by(self, index: str, key: str) -> Iterable[T]:
        """The objects that an index has under a key; copy it when objects may change meanwhile."""
        return self._indexes[index].entries.get(key, {}).values()

    def count(self, index: str, key: str) -> int:
        """How many objects an index has under a key."""
        return len(self._indexes[index].entries.get(key, ()))

    def index_keys(self, index: str) -> Iterable[str]:
        """The keys under which an index has objects."""
        return self._indexes[index].entries.keys()

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def has_seen(self, revision: str) -> bool:
        """Whether every change up to a revision is known here."""
        wanted = canonical_int64(revision)
        return wanted is not None and wanted <= self._seen

    async def caught_up(self, revision: str, seconds: float = 5.0) -> bool:
        """Wait until the write that was answered with this revision is seen here too; False after some seconds."""
        wanted = canonical_int64(revision)
        if wanted is None:
            return False
        if wanted <= self._seen:
            return True
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._awaited, (wanted, next(self._numbers), reached))
        try:
            async with asyncio.timeout(seconds):
                await reached
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """List and watch until cancelled: a watch that ends is resumed, or listed again when its revision expired."""
        while True:
            begun, pause = self._clock.monotonic(), 0.0
            self._failures += 1
            try:
                if not self._revision:
                    await self._list()
                await self._follow()
            except Expired:
                self._revision = ""
            except ApiError as error:
                pause = self._failed(error)
            except Exception:  # noqa: BLE001 - an informer that ends leaves everybody with stale objects
                _LOG.exception("Watch failed", resource=self.kind.resource)
            if self._clock.monotonic() - begun > _BACKOFF.last:
                self._failures = 0
            if self._failures > 1:
                pause = max(pause, _BACKOFF.delay(self._failures - 1) * random.uniform(0.5, 1.5))
            await self._clock.sleep(pause)

    def _failed(self, error: ApiError) -> float:
        """Seconds until the next attempt."""
        if isinstance(error, Missing) or (self.is_optional and isinstance(error, Forbidden)):
            self._become_empty(error)
            return _UNKNOWN_RETRY
        _LOG.warning("Watch failed", resource=self.kind.resource, err=error)
        return error.retry_after

    def _become_empty(self, why: ApiError) -> None:
        """The server does not know the kind, or lets others list it: there are no objects, until that changes."""
        absent = self._client.absent
        if (not self.synced.is_set() or self._objects) and self.kind.resource not in absent:
            absent.add(self.kind.resource)
            what = "Resource may not be listed" if isinstance(why, Forbidden) else "Resource not served"
            _LOG.warning(f"{what}, taken for empty", resource=self.kind.resource, err=why)
        for old in list(self._objects.values()):
            self.remove(old)
        self._revision, self._failures = "", 0
        self.synced.set()
        self.end_batch()

    async def _list(self) -> None:
        listing = await self._client.list(self.kind, self._namespace, fields=self._fields)
        self._client.absent.discard(self.kind.resource)
        gone = dict(self._objects)
        for number, item in enumerate(listing.items, 1):
            new = self._decoded(item)
            if new is not None:
                gone.pop(_key(new), None)
                self.put(new)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        for old in gone.values():
            self.remove(old)
        self.synced.set()
        self.end_batch(listing.revision)

    async def _follow(self) -> None:
        batches = self._client.watch(self.kind, self._namespace, after=self._revision, fields=self._fields)
        async with aclosing(batches):
            async for batch in batches:
                self._failures = 0
                for number, event in enumerate(batch, 1):
                    self._apply(event)
                    if number % _AT_ONCE == 0:
                        await asyncio.sleep(0)
                self.end_batch()

    def end_batch(self, revision: str = "") -> None:
        """Tell everybody who waits that all changes up to a revision, by default the last object's, are here."""
        self._revision = revision or self._revision
        self._seen = canonical_int64(self._revision) or 0
        while self._awaited and self._awaited[0][0] <= self._seen:
            _, _, reached = heappop(self._awaited)
            if not reached.done():
                reached.set_result(None)
        for handler in self._batch_handlers:
            try:
                handler()
            except Exception:  # noqa: BLE001 - as for the handlers of changes
                self._handler_failed()

    def _apply(self, event: ObjectEvent) -> None:
        try:
            item: Object | None = event.decoded(self._read)
        except (msgspec.DecodeError, UnicodeError):
            item = self._decoded(event.object)
        if item is None:
            return
        if event.type == "DELETED":
            self.remove(item)
        elif event.type != "BOOKMARK":
            self.put(item)
        self._revision = item.metadata.resource_version or self._revision

    def _decoded(self, raw: msgspec.Raw) -> Object | None:
        """An object, or only the metadata of one that cannot be decoded."""
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
        name = (head.metadata.namespace, head.metadata.name) if head else ("", "")
        _LOG.warning("Object cannot be read", resource=self.kind.resource, object=name, err=problem)
        return head

    def put(self, item: Object) -> None:
        """Add or replace an object, as a list or a watch has it."""
        key = _key(item)
        old = self._objects.get(key)
        if old is not None:
            if old.metadata.resource_version == item.metadata.resource_version:
                return
            if old.metadata.uid != item.metadata.uid:
                self.remove(old)
                old = None
        if type(item) is not self.kind.struct:
            return
        new = cast(T, item)
        self._objects[key] = new
        for index in self._indexes.values():
            index.change(key, old, new)
        self._notify(old, new)

    def remove(self, last: Object) -> None:
        """Drop an object, given its last state."""
        key = _key(last)
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indexes.values():
                index.change(key, old, None)
            self._notify(cast(T, last) if type(last) is self.kind.struct else old, None)

    def _notify(self, old: T | None, new: T | None) -> None:
        for handler in self._handlers:
            try:
                handler(old, new)
            except Exception:  # noqa: BLE001 - an error of one handler must not keep the others from being called
                self._handler_failed()

    def _handler_failed(self) -> None:
        _LOG.exception("Handler of a change failed", resource=self.kind.resource)


class Informers:
    """One informer for each kind, shared by everybody who asks for it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._informers: dict[Kind, Informer[Any]] = {}
        self._tasks: dict[Kind, asyncio.Task[None]] = {}

    def of(self, struct: type[T]) -> Informer[T]:
        """The informer of the kind that is decoded into a struct."""
        return cast(Informer[T], self.kind(kinds.of(struct())))

    def kind(self, kind: Kind) -> Informer[Any]:
        """The informer of a kind that has no struct of its own."""
        if kind not in self._informers:
            self._informers[kind] = Informer(self.client, kind)
        return self._informers[kind]

    def __iter__(self) -> Iterator[Informer[Any]]:
        return iter(self._informers.values())

    async def start(self) -> None:
        """Start the informers that were asked for and are not running, and wait until each has listed once."""
        for kind, informer in self._informers.items():
            if kind not in self._tasks:
                self._tasks[kind] = asyncio.create_task(informer.run(), name=f"informer {kind.resource}")
        for informer in self._informers.values():
            await informer.synced.wait()

    async def stop(self) -> None:
        """Stop all informers."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()


def _key(item: Object) -> Key:
    return item.metadata.namespace, item.metadata.name
