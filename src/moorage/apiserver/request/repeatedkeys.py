"""Keys that JSON text gives twice: the last one counts, and clients can ask to be told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

MOST, LONGEST = 100, 64 << 10
"""How many repeated keys are named, as Kubernetes names them, and with how many characters."""


class KeyPlace(NamedTuple):
    """Where a value is: the place of what contains it, its key or index there, and the length of its path."""

    above: KeyPlace | None
    step: str | int
    length: int

    def __str__(self) -> str:
        steps: list[str] = []
        here: KeyPlace | None = self
        while here is not None:
            dot = "." if here.above else ""
            steps.append(f"[{here.step}]" if isinstance(here.step, int) else f"{dot}{here.step}")
            here = here.above
        return "".join(reversed(steps))


def in_json(body: bytes, data: Any) -> list[str]:
    """The paths of the first keys that JSON text repeats, `data` being what was read from it."""
    try:
        if has_as_many_keys(body, data):
            return []
        return [str(place) for place in _first(place for place, again in places_in_json(body) if again)]
    except RecursionError:
        return []  # too deep a nesting is refused when the fields are checked


def _first(places: Iterable[KeyPlace]) -> Iterator[KeyPlace]:
    length = 0
    for place in islice(places, MOST):
        length += place.length
        if length > LONGEST:
            return
        yield place


def places_in_json(body: bytes) -> Iterator[tuple[KeyPlace, bool]]:
    """The place of each key, in the order of the text, and whether it repeats an earlier one."""
    return _places(_pairs(body), None)


def has_as_many_keys(body: bytes, data: Any) -> bool:
    """Whether JSON text certainly repeats no key, `data` being what was read from it."""
    # Where no space stands before a colon each key ends in `":`, and a text can only add to their number. So there are
    # at least as many of these as keys, and when no key got lost in reading, none was there twice.
    has_space = b" :" in body or b"\n:" in body or b"\t:" in body or b"\r:" in body
    return not has_space and body.count(b'":') == _keys(data)


def _keys(data: Any) -> int:
    if type(data) is dict:
        count = len(data)
        for value in data.values():
            kind = type(value)
            if kind is dict or kind is list:
                count += _keys(value)
        return count
    return sum(map(_keys, data)) if type(data) is list else 0


class _Pairs(list[tuple[str, Any]]):
    """An object of JSON with all its keys."""


def _pairs(body: bytes) -> Any:
    try:
        return json.loads(body, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return None  # a parse error is reported where the body is read


def _places(data: Any, above: KeyPlace | None) -> Iterator[tuple[KeyPlace, bool]]:
    length = above.length + 1 if above else 0
    if isinstance(data, _Pairs):
        seen: set[str] = set()
        for key, value in data:
            here = KeyPlace(above, key, length + len(key))
            yield here, key in seen
            seen.add(key)
            yield from _places(value, here)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _places(value, KeyPlace(above, index, length + 8))
