"""The indexes of indexed Jobs: sets of numbers, kept and written as intervals such as `0,2-5`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from moorage.api.pod import Pod
from moorage.names import lenient_int64

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
_MAX_INT32 = 2**31 - 1


class Indexes:
    """Some indexes of a Job."""

    __slots__ = ("_intervals",)

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        merged: list[tuple[int, int]] = []
        for first, last in sorted(intervals):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(merged[-1][1], last)
            else:
                merged.append((first, last))
        self._intervals = merged

    @classmethod
    def parse(cls, text: str, completions: int) -> Indexes:
        """Read intervals, below a limit; what cannot be read is left out."""
        intervals = []
        for part in filter(None, text.split(",")):
            first, _, last = part.partition("-")
            begin = _read(first)
            end = _read(last) if last else begin
            if begin is not None and end is not None and 0 <= begin < completions:
                intervals.append((begin, min(end, completions - 1)))
        return cls(intervals)

    def plus(self, indexes: Iterable[int]) -> Indexes:
        """These indexes and some more."""
        return Indexes([*self._intervals, *((index, index) for index in indexes)])

    def __or__(self, other: Indexes) -> Indexes:
        return Indexes([*self._intervals, *other._intervals])

    def __and__(self, other: Indexes) -> Indexes:
        common: list[tuple[int, int]] = []
        mine, theirs = list(reversed(self._intervals)), list(reversed(other._intervals))
        while mine and theirs:
            first, last = max(mine[-1][0], theirs[-1][0]), min(mine[-1][1], theirs[-1][1])
            if first <= last:
                common.append((first, last))
            (mine if mine[-1][1] <= theirs[-1][1] else theirs).pop()
        return Indexes(common)

    def __contains__(self, index: int) -> bool:
        place = bisect_right(self._intervals, (index, _MAX_INT32)) - 1
        return place >= 0 and index <= self._intervals[place][1]

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self._intervals)

    def missing(self, count: int, completions: int) -> list[int]:
        """The first indexes that are not here."""
        indexes: list[int] = []
        begin = 0
        for first, last in [*self._intervals, (completions, completions)]:
            indexes += range(begin, min(first, completions, begin + count - len(indexes)))
            begin = last + 1
        return indexes[:count]

    def __str__(self) -> str:
        return ",".join(_text(first, last) for first, last in self._intervals)


def _read(text: str) -> int | None:
    """A number; most are short, and read without the care that others need."""
    return int(text) if len(text) < 10 and text.isascii() and text.isdigit() else lenient_int64(text)


def _text(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}{',' if last == first + 1 else '-'}{last}"


def index_of(pod: Pod) -> int | None:
    """The index of a pod."""
    index = lenient_int64(pod.metadata.annotations.get(INDEX, ""))
    return index if index is not None and index >= 0 else None


def failures(pod: Pod, annotation: str = FAILURES) -> int:
    """How many pods of the same index failed before this one, by its annotation."""
    count = lenient_int64(pod.metadata.annotations.get(annotation, "")) or 0
    return count if 0 <= count <= _MAX_INT32 else 0


def all_failures(pod: Pod) -> int:
    """The same, with those that the Job ignores."""
    return failures(pod) + failures(pod, IGNORED_FAILURES)
