"""What was worked out before, and no more of it than fits: what was not used for longest makes room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import lru_cache, wraps
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Text = TypeVar("Text", str, bytes)

SHORT = 512
"""How long a text may be whose result is remembered: so much memory is used for each, and no more."""


def remember_short(most: int) -> Callable[[Callable[[Text], V]], Callable[[Text], V]]:
    """Remember the results of a function for so many short texts; those of long ones are worked out each time."""

    def decorate(function: Callable[[Text], V]) -> Callable[[Text], V]:
        remembered = lru_cache(most)(function)

        @wraps(function)
        def call(text: Text) -> V:
            return remembered(text) if len(text) <= SHORT else function(text)

        return call

    return decorate


class Bounded(Generic[K, V]):
    """What was worked out before, by key, with the least recently used entry dropped first. Not for several threads."""

    __slots__ = ("_entries", "evictions", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.evictions = 0
        """How many entries had to make room."""
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value of a key, which counts as used now."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Keep a value."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > self.most:
            self._entries.popitem(last=False)
            self.evictions += 1

    def pop(self, key: K) -> V | None:
        """Drop a key; its value, if there was one."""
        return self._entries.pop(key, None)

    def values(self) -> Iterable[V]:
        """All values; that does not count as using them."""
        return self._entries.values()

    def clear(self) -> None:
        """Drop everything."""
        self._entries.clear()

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
