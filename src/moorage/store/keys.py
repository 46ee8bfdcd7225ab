"""Sorted keys in runs of limited length: adding one to a million moves a few hundred of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator

RUN = 1000


class SortedKeys:
    """A sorted set of keys."""

    __slots__ = ("_firsts", "_runs")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        ordered = sorted(keys)
        self._runs = [ordered[start : start + RUN] for start in range(0, len(ordered), RUN)]
        self._firsts = [run[0] for run in self._runs]

    def add(self, key: str) -> None:
        """Add a key that is not in the set."""
        if not self._runs:
            self._runs.append([key])
            self._firsts.append(key)
            return
        index = self._run_of(key)
        run = self._runs[index]
        insort(run, key)
        self._firsts[index] = run[0]
        if len(run) > 2 * RUN:
            self._runs[index : index + 1] = run[:RUN], run[RUN:]
            self._firsts.insert(index + 1, run[RUN])

    def remove(self, key: str) -> None:
        """Remove a key that is in the set."""
        index = self._run_of(key)
        run = self._runs[index]
        del run[bisect_left(run, key)]
        if run:
            self._firsts[index] = run[0]
        else:
            del self._runs[index], self._firsts[index]

    def count(self, prefix: str, after: str = "") -> int:
        """How many keys begin with a prefix and come after a key."""
        return sum(stop - start for _, start, stop in self._spans(prefix, after))

    def first(self, prefix: str, after: str, limit: int) -> list[str]:
        """The first keys that begin with a prefix and come after a key; all of them for limit 0."""
        keys: list[str] = []
        if not after and self._runs:
            # The first key that does not come before the prefix tells whether there is any: often there is none.
            run = self._runs[max(0, bisect_right(self._firsts, prefix) - 1)]
            start = bisect_left(run, prefix)
            if start < len(run) and not run[start].startswith(prefix):
                return keys
        for run, start, stop in self._spans(prefix, after):
            keys += run[start:stop]
            if limit and len(keys) >= limit:
                return keys[:limit]
        return keys

    def _spans(self, prefix: str, after: str) -> Iterator[tuple[list[str], int, int]]:
        end = beyond(prefix)
        skip, low = (bisect_right, after) if after >= prefix else (bisect_left, prefix)
        for index in range(self._run_of(low), len(self._runs)):
            run = self._runs[index]
            if end and run[0] >= end:
                return
            start = skip(run, low) if run[0] <= low else 0
            yield run, start, max(start, bisect_left(run, end) if end and run[-1] >= end else len(run))

    def _run_of(self, key: str) -> int:
        return max(0, bisect_right(self._firsts, key) - 1)


def beyond(prefix: str) -> str:
    """The least key that sorts after all keys with a prefix; nothing when there is none."""
    stem = prefix.rstrip(chr(0x10FFFF))
    return stem[:-1] + chr(ord(stem[-1]) + 1) if stem else ""
