"""The latest changes of a store, and the watchers that follow them."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from types import TracebackType
from typing import Self

from moorage.bounded import remember_short
from moorage.store.protocol import Batch, Compacted, Item, StoreError, WatchEvent

MAX_EVENTS = 100_000
MAX_BYTES = 128 * 1024 * 1024
EVENT_BYTES = 300
"""What a change takes beside its key and its value."""
MAX_SHARED, SHARED_BYTES = 1000, 16 << 20
BATCH_EVENTS, BATCH_BYTES = 100, 64 << 10
"""How much a watcher gets at a time; so one that does not read holds little of what the log has dropped."""
LOOKED_AT, IN_A_ROUND = 1_000, 20_000
"""How many changes are looked at for a watcher at a time, and in a round of the event loop for all who are behind."""

_FOLDERS = 4096
"""Of how many folders is remembered in which others they are."""

_revision = attrgetter("item.revision")


def _size(event: WatchEvent) -> int:
    return EVENT_BYTES + len(event.item.key) + len(event.item.value)


class History:
    """A bounded log of changes. Watchers read it at their own pace; one that falls behind its start gets Compacted."""

    def __init__(self, revision: int, *, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self.start = revision
        """The log has all changes after this revision."""
        self.revision = revision
        """The revision of the latest change."""
        self.read = asyncio.Event()
        """Set while some watcher has read the whole log."""
        self.read.set()
        self._max_events, self._max_bytes = max_events, max_bytes
        self._events: list[WatchEvent] = []
        self._bytes = 0
        self._idle: dict[str, set[Watcher]] = {}
        self._shared: dict[tuple[str, int], Batch] = {}
        self._shared_bytes = 0
        self._looked_at = 0
        """How many changes were looked at in this round of the event loop for those who are behind."""
        self._failure: StoreError | None = None

    def append(self, events: list[WatchEvent], revision: int) -> None:
        """Add changes that have become durable, and wake the watchers of their prefixes."""
        before = self.revision
        self._events += events
        self._bytes += sum(map(_size, events))
        self.revision = revision
        self._forget_shared()
        self._trim(len(self._events) - len(events))
        if events:
            self.read.clear()
        for prefix in _concerned(self._idle, [event.item.key for event in events]):
            self._wake(prefix, before, nothing=False)

    def after(self, prefix: str, revision: int) -> Batch:
        """The next changes below a prefix after a revision, a limited number. Raises Compacted."""
        if self._failure:
            raise self._failure.with_traceback(None)
        batch = self._shared.get((prefix, revision))
        if batch is None:
            batch, size = self._batch(prefix, revision)
            if len(self._shared) < MAX_SHARED and self._shared_bytes + size <= SHARED_BYTES:
                self._shared[prefix, revision] = batch
                self._shared_bytes += size
        if batch.revision >= self.revision:
            self.read.set()
        return batch

    def _batch(self, prefix: str, revision: int) -> tuple[Batch, int]:
        """The next changes, and how long they are together."""
        events: list[WatchEvent] = []
        size = 0
        looked_at, more = self._next_after(revision)
        for event in looked_at:
            if not event.item.key.startswith(prefix):
                continue
            if (len(events) >= BATCH_EVENTS or size >= BATCH_BYTES) and event.revision != events[-1].revision:
                return Batch(events, events[-1].revision), size
            events.append(event)
            size += len(event.item.value)
        return Batch(events, looked_at[-1].revision if more else max(revision, self.revision)), size

    async def undone(self, prefix: str, revision: int) -> dict[str, Item | None]:
        """The items at a revision of the keys below a prefix that have changed since. Raises Compacted.

        Others are served meanwhile; what they change is in the result.
        """
        held: dict[str, Item | None] = {}
        more = True
        while more:
            await self.turn()
            looked_at, more = self._next_after(revision)
            for event in looked_at:
                if event.item.key.startswith(prefix):
                    held.setdefault(event.item.key, event.previous)
            revision = looked_at[-1].revision if looked_at else revision
        return held

    async def turn(self) -> None:
        """Wait until others were served, when many changes have been looked at in this round of the event loop."""
        while self._looked_at >= IN_A_ROUND:
            await asyncio.sleep(0)

    def watch(self, prefix: str, after: int) -> Watcher:
        """Follow the changes below a prefix after a revision."""
        return Watcher(self, prefix, after)

    def compact(self, revision: int) -> None:
        """Forget the changes up to a revision."""
        self._drop(bisect_right(self._events, revision, key=_revision))
        self.start = max(self.start, min(revision, self.revision))
        self._forget_shared()

    def report(self) -> None:
        """Wake all watchers with an empty batch: nothing happened up to now."""
        for prefix in list(self._idle):
            self._wake(prefix, self.revision, nothing=True)

    def fail(self, failure: StoreError) -> None:
        """End all watches, present and future, with an error; only the first one counts."""
        self._failure = self._failure or failure
        self.report()

    async def change(self, watcher: Watcher) -> bool:
        """Wait for a change below a watcher's prefix; True when it was woken by a report that there is none."""
        watchers = self._idle.setdefault(watcher.prefix, set())
        watchers.add(watcher)
        watcher.woken = asyncio.get_running_loop().create_future()
        try:
            return await watcher.woken
        finally:
            watchers.discard(watcher)
            if not watchers and self._idle.get(watcher.prefix) is watchers:
                del self._idle[watcher.prefix]

    def _wake(self, prefix: str, seen: int, *, nothing: bool) -> None:
        """Wake the watchers of a prefix, below which nothing has changed up to a revision since they wait."""
        # They leave `_idle`: of what comes before they read, nothing may be taken for seen.
        for watcher in self._idle.pop(prefix):
            watcher.wake(seen, nothing=nothing)

    def _next_after(self, revision: int) -> tuple[list[WatchEvent], bool]:
        """Some of the changes after a revision, and whether there are more. Raises Compacted."""
        if revision < self.start:
            raise Compacted(f"revision {revision} is too old: changes are known from revision {self.start} on")
        begin, count = bisect_right(self._events, revision, key=_revision), len(self._events)
        end = begin + LOOKED_AT
        if end >= count:
            end = count
        else:
            while end < count and self._events[end].revision == self._events[end - 1].revision:
                end += 1
        if end - begin > BATCH_EVENTS:
            self._look(end - begin)
        return self._events[begin:end], end < count

    def _look(self, count: int) -> None:
        if not self._looked_at:
            asyncio.get_running_loop().call_soon(self._rest)
        self._looked_at += count

    def _rest(self) -> None:
        """A new round of the event loop has begun."""
        self._looked_at = 0

    def _forget_shared(self) -> None:
        self._shared.clear()
        self._shared_bytes = 0

    def _trim(self, old: int) -> None:
        """Drop old changes when the log is too long, but none of the newest, which no watcher has read yet."""
        if len(self._events) <= self._max_events and self._bytes <= self._max_bytes:
            return
        # Many are dropped at once, because each drop moves the rest of the list.
        most_events, most_bytes = self._max_events * 9 // 10, self._max_bytes * 9 // 10
        events, size, count = len(self._events), self._bytes, 0
        while count < old and (events - count > most_events or size > most_bytes):
            size -= _size(self._events[count])
            count += 1
        self._drop(count)

    def _drop(self, count: int) -> None:
        if count:
            self.start = max(self.start, self._events[count - 1].revision)
            self._bytes -= sum(map(_size, self._events[:count]))
            del self._events[:count]


def _concerned(prefixes: Iterable[str], keys: Sequence[str]) -> list[str]:
    """Those of some prefixes below which one of some keys is."""
    folders = {key[: key.rfind("/") + 1] for key in keys}
    above = {place for folder in folders for place in _above(folder)}
    return [
        prefix
        for prefix in prefixes
        # Almost all end with a slash: then the folders decide.
        if prefix in above or (not prefix.endswith("/") and any(key.startswith(prefix) for key in keys))
    ]


@remember_short(_FOLDERS)
def _above(folder: str) -> tuple[str, ...]:
    """A folder, and all those that it is in."""
    return tuple([folder[:end] for end, letter in enumerate(folder, 1) if letter == "/"])


class Watcher:
    """One watch: a context manager, and its own iterator."""

    __slots__ = ("_history", "prefix", "seen", "woken")

    def __init__(self, history: History, prefix: str, after: int) -> None:
        self.prefix = prefix
        self.seen = after
        self.woken: asyncio.Future[bool] | None = None
        self._history = history

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __aiter__(self) -> Self:
        return self

    def report(self) -> None:
        """Give an empty batch to whoever waits for the next one."""
        self.wake(self._history.revision, nothing=True)

    def wake(self, seen: int, *, nothing: bool) -> None:
        """End the wait, if there is one, in which nothing has changed up to a revision."""
        if self.woken and not self.woken.done():
            self.seen = max(self.seen, seen)
            self.woken.set_result(nothing)

    async def __anext__(self) -> Batch:
        nothing = False
        while True:
            await self._history.turn()
            batch = self._history.after(self.prefix, self.seen)
            self.seen = batch.revision
            if batch or nothing:
                return batch
            if batch.revision >= self._history.revision:
                nothing = await self._history.change(self)
