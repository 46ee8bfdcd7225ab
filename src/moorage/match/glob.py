"""Wildcard keys: `*` stands for any run of characters except `/`, as in Go's path.Match."""

from __future__ import annotations

from collections.abc import Callable


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """A test for one pattern. It takes time linear in the key, however many `*` there are."""
    segments = [segment.split("*") for segment in pattern.split("/")]

    def matches(key: str) -> bool:
        parts = key.split("/")
        return len(parts) == len(segments) and all(map(_segment_matches, segments, parts))

    return matches


def _segment_matches(literals: list[str], text: str) -> bool:
    if len(literals) == 1:
        return text == literals[0]
    first, *middle, last = literals
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    # Taking the leftmost place for each literal never makes a later one fail.
    at, end = len(first), len(text) - len(last)
    for literal in middle:
        at = text.find(literal, at, end)
        if at < 0:
            return False
        at += len(literal)
    return True
