"""The store of a single server: all objects in memory, and every change in an SQLite file before it is visible."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue

from moorage.store.database import FIRST_REVISION, Row, checksum_of
from moorage.store.disk import Disk
from moorage.store.history import MAX_BYTES, MAX_EVENTS, History
from moorage.store.memory import MemoryStore, Write
from moorage.store.protocol import Item, StoreFull, StoreUnavailable

MAX_BATCH, MAX_BATCH_BYTES = 512, 2 * 1024 * 1024
FREED_AT_ONCE = 16
PROGRESS_SECONDS = 5.0

_CLOSED = "the store is closed"
_BEING_DELETED = b'"deletionTimestamp":"'
_MARK_BYTES = 4096
"""More than an object grows by while it is being deleted: its mark, and the conditions of a namespace."""


class SqliteStore(MemoryStore):
    """Objects in memory and in a file. Reads and checks happen in the event loop, commits in a thread.

    A key has at most one pending change; the next one waits for it and then sees its outcome. So a change becomes
    visible only when it is durable, and a batch that fails affects no other.
    """

    def __init__(self, disk: Disk, history: History) -> None:
        super().__init__(disk.items, history)
        self._pending: dict[str, list[asyncio.Future[None]]] = {}
        self._begun: list[Write] = []
        """Writes of this turn of the event loop, which are handed to the writer together: each hand-over costs."""
        self._queue: SimpleQueue[list[Write] | None] = SimpleQueue()
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

    async def close(self) -> None:
        """Finish what was begun and release everything."""
        if not self._closed:
            self._closed = True
            self._hand_over()
            self._queue.put(None)
        await asyncio.shield(self._finished)

    async def _current(self, key: str) -> Item | None:
        while (waiting := self._pending.get(key)) is not None:
            turn: asyncio.Future[None] = self._loop.create_future()
            waiting.append(turn)
            await turn
        return self._items.get(key)

    async def _settled(self, keys: Sequence[str]) -> None:
        """Wait until none of these keys has a pending change. Nobody else runs before the caller waits again."""
        while any(key in self._pending for key in keys):
            for key in keys:
                await self._current(key)

    async def _write(self, key: str, value: bytes | None, previous: Item | None, along: Sequence[Write] = ()) -> Item:
        if self._closed:
            raise StoreUnavailable(_CLOSED)
        key.encode()  # a key that SQLite cannot store would fail the whole batch
        done: asyncio.Future[Item] = self._loop.create_future()
        self._pending[key] = []
        for write in along:
            self._pending[write.key] = []
        if not self._begun:
            self._loop.call_soon(self._hand_over)
        self._begun.append(Write(key, value, previous, done, along))
        try:
            return await done
        finally:
            del done  # an error holds this frame, and it the error

    def _hand_over(self) -> None:
        if self._begun:
            self._queue.put(self._begun)
            self._begun = []

    def _write_batches(self, disk: Disk, revision: int) -> None:
        """The writer thread: commit the changes that have come in while the last batch was being committed."""
        waiting: deque[Write] = deque()
        while writes := self._gathered(waiting):
            try:
                revision = self._commit(disk.commit, writes, revision)
            except StoreFull as error:
                self._refuse([write for write in writes if not _frees_space(write)], error)
                revision = self._free(disk, [write for write in writes if _frees_space(write)], revision)
            except StoreUnavailable as error:
                self._refuse(writes, error)
            disk.tidy()
        disk.close()
        self._loop.call_soon_threadsafe(self._finish)

    def _free(self, disk: Disk, writes: Sequence[Write], revision: int) -> int:
        """Commit changes that free space, few at a time; the revision of the last one."""
        for start in range(0, len(writes), FREED_AT_ONCE):
            few = writes[start : start + FREED_AT_ONCE]
            try:
                revision = self._commit(disk.commit_freeing, few, revision)
            except StoreUnavailable as error:
                self._refuse(few, error)
            disk.tidy()
        return revision

    def _commit(self, commit: Callable[[Sequence[Row]], None], writes: Sequence[Write], revision: int) -> int:
        """Write changes and make them visible; the revision of the last one. Raises StoreUnavailable."""
        numbered = enumerate(writes, revision + 1)
        commit([(at, write.key, write.value, checksum_of(at, write.value)) for at, write in numbered])
        self._loop.call_soon_threadsafe(self._apply, writes, revision)
        return revision + len(writes)

    def _refuse(self, writes: Sequence[Write], error: StoreUnavailable) -> None:
        self._loop.call_soon_threadsafe(self._fail, writes, type(error), str(error))

    def _gathered(self, waiting: deque[Write]) -> Sequence[Write]:
        """The next writes to commit together, of all that are waiting; none when the store is closed."""
        while not waiting or not self._queue.empty():
            more = self._queue.get()
            if more is None:
                self._queue.put(None)
                break
            waiting += more
        writes: list[Write] = []
        size = 0
        while waiting and len(writes) < MAX_BATCH and size < MAX_BATCH_BYTES:
            write = waiting.popleft()
            writes.append(write)
            writes += write.along
            size += sum(len(each.value or b"") for each in (write, *write.along))
        return writes

    def _apply(self, writes: Sequence[Write], revision: int) -> None:
        """Make a batch that is on disk visible to readers and watchers, and wake its callers and the next ones."""
        events = self._show(writes, revision)
        for write, event in zip(writes, events, strict=True):
            if write.done is not None and not write.done.done():
                write.done.set_result(event.item)
            self._release(write.key)

    def _fail(self, writes: Sequence[Write], kind: type[StoreUnavailable], sentence: str) -> None:
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


def _frees_space(write: Write) -> bool:
    """Whether a change is a deletion, or a mark on an object that is being deleted and not gone yet."""
    if write.value is None:
        return True
    most = len(write.previous.value) + _MARK_BYTES if write.previous else 0
    return len(write.value) <= most and _BEING_DELETED in write.value
