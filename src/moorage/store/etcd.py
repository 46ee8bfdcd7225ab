"""The store that several servers share: objects in an etcd cluster."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from moorage.store.history import History, Watcher
from moorage.store.members import COMPACT, PAUSE_SECONDS, RANGE, TXN, Lost, Members, Tls, encode
from moorage.store.messages import (
    DELETE,
    MOD_REVISION,
    CompactionRequest,
    Compare,
    DeleteRequest,
    EtcdEvent,
    KeyValue,
    PutRequest,
    RangeRequest,
    RangeResponse,
    RequestOp,
    TxnRequest,
    WatchCreateRequest,
    WatchRequest,
    WatchResponse,
)
from moorage.store.protocol import (
    CannotOpen,
    Change,
    Compacted,
    Item,
    KeyExists,
    KeyMissing,
    Page,
    RevisionConflict,
    StoreError,
    StoreUnavailable,
    WatchEvent,
)
from moorage.store.sharedreads import SharedReads

TIMEOUT_SECONDS = 10.0
MAX_EVENTS = 10_000
MAX_BYTES = 16 * 1024 * 1024
PAGE_ITEMS = 5_000

_NO_OBJECT = 0
_NO_REVISION = -1


class EtcdStore:
    """Objects in etcd. Reads are linearizable, so that all servers see the same."""

    def __init__(self, members: Members, *, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self._members = members
        self._max_events, self._max_bytes = max_events, max_bytes
        self._streams: set[_Stream] = set()
        self._ranges: SharedReads[RangeResponse] = SharedReads()
        self._each: SharedReads[Sequence[Sequence[Item]]] = SharedReads()
        self._closed = False

    @classmethod
    async def open(
        cls,
        endpoints: Sequence[str],
        *,
        tls: Tls | None = None,
        timeout: float = TIMEOUT_SECONDS,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
    ) -> EtcdStore:
        """Connect to members given as host:port. Raises CannotOpen."""
        store = cls(Members(endpoints, tls, timeout), max_events=max_events, max_bytes=max_bytes)
        try:
            await store.revision()
        except StoreError as error:
            await store.close()
            raise CannotOpen(str(error)) from error
        return store

    async def revision(self) -> int:
        """The revision of the latest change."""
        response = await self._range(RangeRequest(key=b"\0", count_only=True))
        return response.header.revision

    async def get(self, key: str) -> Item | None:
        """The item under a key now."""
        response = await self._range(RangeRequest(key=key.encode()))
        return _item(response.kvs[0]) if response.kvs else None

    async def list(self, prefix: str, *, revision: int = 0, limit: int = 0, after: str = "") -> Page:
        """The items whose keys begin with a prefix, as of a revision (0: now), those after a key, a limited number."""
        first, end = _range(prefix)
        items: list[Item] = []
        while True:
            count = min(limit - len(items), PAGE_ITEMS) if limit else PAGE_ITEMS
            start = max(first, after.encode() + b"\0") if after else first
            response = await self._range(RangeRequest(key=start, range_end=end, limit=count, revision=revision))
            revision = revision or response.header.revision
            items += map(_item, response.kvs)
            remaining = response.count - len(response.kvs)
            if not remaining or len(items) == limit:
                return Page(items, revision, remaining)
            after = items[-1].key

    async def read_each(self, places: Sequence[str]) -> Sequence[Sequence[Item]]:
        """The items now below each of some prefixes or under some keys, as of one revision."""

        async def read() -> Sequence[Sequence[Item]]:
            bounds = (_range(place) if place.endswith("/") else (place.encode(), b"") for place in places)
            ranges = [RangeRequest(key=key, range_end=end) for key, end in bounds]
            request = TxnRequest(success=[RequestOp(request_range=each) for each in ranges])
            response = await self._members.read(TXN, request)
            return [list(map(_item, found.response_range.kvs)) for found in response.responses]

        return await self._each.read(tuple(places), read)

    async def create(self, key: str, value: bytes, *, along: Sequence[Item] = ()) -> Item:
        """Create an object; returns once it is durable."""
        return await self._change(key, _NO_OBJECT, value, along)

    async def update(self, key: str, value: bytes, revision: int, *, along: Sequence[Item] = ()) -> Item:
        """Replace an object that is still at a revision; returns once it is durable."""
        return await self._change(key, revision or _NO_REVISION, value, along)

    async def delete(self, key: str, revision: int) -> Item:
        """Remove an object that is still at a revision. Returns it with the revision of the deletion."""
        return await self._change(key, revision or _NO_REVISION, None)

    @contextlib.asynccontextmanager
    async def watch(self, prefix: str, after: int) -> AsyncIterator[Watcher]:
        """All changes below a prefix after a revision, in order, in batches."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        stream = next((stream for stream in self._streams if stream.serves(prefix, after)), None)
        if stream is None:
            history = History(after, max_events=self._max_events, max_bytes=self._max_bytes)
            stream = _Stream(self._members, prefix, history)
            self._streams.add(stream)
        stream.watchers += 1
        try:
            yield stream.history.watch(prefix, after)
        finally:
            stream.watchers -= 1
            if not stream.watchers:
                self._streams.discard(stream)
                await stream.stop()

    async def compact(self, revision: int) -> None:
        """Forget the changes before a revision; the present state stays."""
        # It may have been compacted already.
        with contextlib.suppress(Compacted):
            await self._members.read(COMPACT, CompactionRequest(revision=revision))
        for stream in self._streams:
            stream.history.compact(revision)

    async def close(self) -> None:
        """Finish what was begun and release everything."""
        self._closed = True
        await asyncio.gather(*(stream.stop() for stream in self._streams))
        await self._members.close()

    async def _change(self, key: str, revision: int, value: bytes | None, along: Sequence[Item] = ()) -> Item:
        name = key.encode()
        put, remove = PutRequest(key=name, value=value or b""), DeleteRequest(key=name, prev_kv=True)
        expected = [(key, revision), *((item.key, item.revision or _NO_REVISION) for item in along)]
        request = TxnRequest(
            compare=[Compare(target=MOD_REVISION, key=each.encode(), mod_revision=at) for each, at in expected],
            success=[
                RequestOp(request_delete_range=remove) if value is None else RequestOp(request_put=put),
                *(RequestOp(request_put=PutRequest(key=item.key.encode(), value=item.value)) for item in along),
            ],
            failure=[RequestOp(request_range=RangeRequest(key=each.encode())) for each, _ in expected],
        )
        try:
            response = await self._members.write(TXN, request)
        except Lost as lost:
            return await self._outcome(key, revision, value, lost)
        if not response.succeeded:
            raise _refusal(expected, [found.response_range.kvs for found in response.responses])
        result = response.responses[0]
        last = result.response_delete_range.prev_kvs[0].value if value is None else value
        return Item(key, last, response.header.revision)

    async def _outcome(self, key: str, revision: int, value: bytes | None, lost: Lost) -> Item:
        """The item of a write without an answer: the write was done when its own value is under the key."""
        current = await self.get(key)
        if current and current.value == value and current.revision > revision:
            return current
        raise StoreUnavailable(f"etcd did not say whether {key} was written: {lost}") from lost

    async def _range(self, request: RangeRequest) -> RangeResponse:
        return await self._ranges.read(encode(request), lambda: self._members.read(RANGE, request))


class _Stream:
    """One watch of etcd for all watchers of a prefix. It is resumed when a connection or a member is lost."""

    def __init__(self, members: Members, prefix: str, history: History) -> None:
        self.history = history
        self.watchers = 0
        self._members = members
        self._prefix = prefix
        self._task = asyncio.create_task(self._follow(), name=f"etcd watch {prefix}")

    def serves(self, prefix: str, after: int) -> bool:
        """Whether this stream has all changes below a prefix after a revision."""
        return prefix == self._prefix and self.history.start <= after and not self._task.done()

    async def stop(self) -> None:
        """End the watch, and with it all watchers."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _follow(self) -> None:
        try:
            while True:
                with contextlib.suppress(StoreUnavailable):
                    await self._follow_one_member()
                await asyncio.sleep(PAUSE_SECONDS)
        except Compacted as compacted:
            self.history.fail(compacted)
        finally:
            self.history.fail(StoreUnavailable("the store is closed"))

    async def _follow_one_member(self) -> None:
        key, end = _range(self._prefix)
        # Watched from the last seen revision, etcd reports when it has compacted anything after it. Watched from the
        # next one it would not, and a deletion at that very revision may have been compacted.
        start = max(1, self.history.revision)
        create = WatchCreateRequest(key=key, range_end=end, start_revision=start, prev_kv=True, progress_notify=True)
        async with contextlib.aclosing(self._members.watch(WatchRequest(create_request=create))) as responses:
            async for response in responses:
                if response.compact_revision:
                    raise Compacted(f"etcd has forgotten what happened before revision {response.compact_revision}")
                if response.canceled:
                    return
                if not response.created:
                    self._take(response)
                # Read no faster than the fastest watcher: what none of them has read stays in etcd.
                await self.history.read.wait()

    def _take(self, response: WatchResponse) -> None:
        seen = self.history.revision
        events = [_event(event) for event in response.events if event.kv.mod_revision > seen]
        if events:
            # The header may be ahead of the events: etcd sends a backlog in several responses.
            self.history.append(events, events[-1].revision)
        elif not response.events:
            self.history.append([], max(seen, response.header.revision))
            self.history.report()


def _item(kv: KeyValue) -> Item:
    return Item(kv.key.decode(), kv.value, kv.mod_revision)


def _event(event: EtcdEvent) -> WatchEvent:
    kv = event.kv
    if kv.mod_revision == kv.create_revision:
        return WatchEvent(Change.ADDED, _item(kv), None)
    if not event.prev_kv.mod_revision:
        raise Compacted(f"etcd has forgotten what was there before revision {kv.mod_revision}")
    previous = _item(event.prev_kv)
    if event.type == DELETE:
        return WatchEvent(Change.DELETED, previous._replace(revision=kv.mod_revision), previous)
    return WatchEvent(Change.MODIFIED, _item(kv), previous)


def _range(prefix: str) -> tuple[bytes, bytes]:
    """The first key with a prefix and the first one after; UTF-8 has no byte 0xff, so adding 1 cannot overflow."""
    key = prefix.encode()
    return (key, key[:-1] + bytes([key[-1] + 1])) if key else (b"\0", b"\0")


def _refusal(expected: Sequence[tuple[str, int]], found: Sequence[Sequence[KeyValue]]) -> StoreError:
    """Why nothing was written: the first key that is not at the revision at which it must be."""
    (key, revision), current = next(
        (each, kvs)
        for each, kvs in zip(expected, found, strict=True)
        if each[1] != (kvs[0].mod_revision if kvs else _NO_OBJECT)
    )
    if not current:
        return KeyMissing(f"{key} does not exist")
    return RevisionConflict(_item(current[0])) if revision else KeyExists(f"{key} exists")
