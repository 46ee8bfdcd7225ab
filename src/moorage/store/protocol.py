"""The protocol of stores: objects by key, a revision for each change, and watches that miss none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from enum import Enum
from typing import NamedTuple, Protocol, Self

HEAD = b'{"metadata":{"resourceVersion":"'
"""Every stored value begins with this and an empty resourceVersion: the revision is known only once it is written."""


class Item(NamedTuple):
    """An object as it is stored. `value` is its JSON with an empty resourceVersion in front."""

    key: str
    value: bytes
    revision: int
    """The revision of its last change."""

    @property
    def body(self) -> bytes:
        """The JSON with the revision filled in, as clients get it."""
        return b"%b%d%b" % (HEAD, self.revision, self.value[len(HEAD) :])


class Change(Enum):
    """What happened to a key."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class WatchEvent(NamedTuple):
    """One change. A deletion carries the last value, with the revision of the deletion."""

    change: Change
    item: Item
    previous: Item | None
    """The item before the change; None for an addition."""

    @property
    def revision(self) -> int:
        """The revision of the change."""
        return self.item.revision


class Batch(list[WatchEvent]):
    """Some changes in their order. Batches may be shared between watchers: read only."""

    __slots__ = ("_text", "revision")

    def __init__(self, events: Iterable[WatchEvent], revision: int) -> None:
        super().__init__(events)
        self.revision = revision
        """The revision up to which the watcher has seen everything, and from which it may resume."""
        self._text: bytes | None = None

    def text(self, line: Callable[[WatchEvent], bytes]) -> bytes:
        """The lines of all changes, made once for all watchers that want the same ones."""
        if self._text is None:
            self._text = b"".join(map(line, self))
        return self._text


class Page(NamedTuple):
    """Part of a list, all of it as of one revision."""

    items: list[Item]
    revision: int
    remaining: int
    """How many items follow; 0 on the last page."""


class StoreError(Exception):
    """An operation of the store failed."""


class CannotOpen(StoreError):
    """The store cannot be opened: the message says what is wrong with its file or address."""


class Damaged(CannotOpen):
    """What was stored is damaged, or part of it is missing: the message says how to go on."""


class KeyExists(StoreError):
    """There is an object under this key already."""


class KeyMissing(StoreError):
    """There is no object under this key."""


class RevisionConflict(StoreError):
    """The object has changed since it was read. `current` is its present state."""

    def __init__(self, current: Item) -> None:
        super().__init__(f"{current.key} is at revision {current.revision}")
        self.current = current


class Compacted(StoreError):
    """The revision is too old: the changes since then are no longer known. List again."""


class StoreUnavailable(StoreError):
    """The store cannot answer now: its disk is full, or its cluster has no leader.

    A write may or may not have been done.
    """


class StoreFull(StoreUnavailable):
    """There is no space left for this write; deletions may still be done."""


class Watch(Protocol):
    """The changes below a prefix: an iterator of batches."""

    def __aiter__(self) -> Self:
        """Itself."""

    async def __anext__(self) -> Batch:
        """The next changes, as soon as there are some; an empty batch says that nothing happened until now."""

    def report(self) -> None:
        """Give an empty batch to whoever waits for the next one."""


class Store(Protocol):
    """Objects by key, in the order of keys. Every method may raise StoreUnavailable."""

    async def revision(self) -> int:
        """The revision of the latest change."""

    async def get(self, key: str) -> Item | None:
        """The item under a key now."""

    async def list(self, prefix: str, *, revision: int = 0, limit: int = 0, after: str = "") -> Page:
        """The items whose keys begin with a prefix, as of a revision (0: now), those after a key, a limited number.

        Raises Compacted when the revision is too old.
        """

    async def read_each(self, places: Sequence[str]) -> Sequence[Sequence[Item]]:
        """The items at each of some places as of one revision: below a prefix that ends in a slash, or under a key.

        They should be few: they are read at once.
        """

    async def create(self, key: str, value: bytes, *, along: Sequence[Item] = ()) -> Item:
        """Create an object; returns once it is durable. Raises KeyExists.

        Each item of `along` replaces the object under its key, which must still be at its revision: either everything
        is written, the items not before the object, or nothing is. Raises KeyMissing, RevisionConflict for an item.
        """

    async def update(self, key: str, value: bytes, revision: int, *, along: Sequence[Item] = ()) -> Item:
        """Replace an object that is still at a revision; returns once it is durable. `along` is as in `create`.

        Raises KeyMissing, RevisionConflict.
        """

    async def delete(self, key: str, revision: int) -> Item:
        """Remove an object that is still at a revision. Returns it with the revision of the deletion.

        Raises KeyMissing, RevisionConflict.
        """

    def watch(self, prefix: str, after: int) -> AbstractAsyncContextManager[Watch]:
        """All changes below a prefix after a revision, in order, in batches, each change once and only when durable.

        The iterator raises Compacted when the revision is too old or the watcher too slow.
        """

    async def compact(self, revision: int) -> None:
        """Forget the changes before a revision; the present state stays."""

    async def close(self) -> None:
        """Finish what was begun and release everything."""
