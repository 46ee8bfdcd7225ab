"""What was worked out before, and no more of it than fits: what was not used for longest makes room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sized
from functools import lru_cache, wraps
from typing import Concatenate, Generic, ParamSpec, TypeVar, cast

SHORT = 1024
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
S = TypeVar("S", bound=Sized)
P = ParamSpec("P")
R = TypeVar("R")


def remember_short(
    most: int, longest: int = SHORT
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """Cache what a function gives for so many texts or lists, but for none that is long: some have megabytes."""

    def decorate(work: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        known = cast("Callable[Concatenate[S, P], R]", lru_cache(most)(work))

        @wraps(work)
        def ask(text: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            return known(text, *args, **kwargs) if len(text) <= longest else work(text, *args, **kwargs)

        return ask

    return decorate


class Bounded(Generic[K, V]):
    """What was worked out before, by key, with the least recently used entry dropped first. Not for several threads.

    With a bound in bytes, whoever puts an entry says how large it is; one that is larger than a sixteenth of the bound
    is not kept, because too many others would have to make room.
    """

    __slots__ = ("_entries", "_sizes", "bytes", "evictions", "most", "most_bytes")

    def __init__(self, most: int, most_bytes: int = 0) -> None:
        self.most = most
        self.most_bytes = most_bytes
        self.bytes = 0
        self.evictions = 0
        """How many entries had to make room."""
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._sizes: dict[K, int] = {}

    def get(self, key: K) -> V | None:
        """The value of a key, which counts as used now."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V, size: int = 0) -> None:
        """Keep a value, which takes so many bytes together with its key."""
        if size:
            self.pop(key)
            if size > self.most_bytes // 16:
                return
            self._sizes[key] = size
            self.bytes += size
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > self.most or self.bytes > self.most_bytes:
            oldest, _ = self._entries.popitem(last=False)
            self.bytes -= self._sizes.pop(oldest, 0)
            self.evictions += 1

    def pop(self, key: K) -> V | None:
        """Drop a key; its value, if there was one."""
        self.bytes -= self._sizes.pop(key, 0)
        return self._entries.pop(key, None)

    def values(self) -> Iterable[V]:
        """All values; that does not count as using them."""
        return self._entries.values()

    def clear(self) -> None:
        """Drop everything."""
        self._entries.clear()
        self._sizes.clear()
        self.bytes = 0

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
