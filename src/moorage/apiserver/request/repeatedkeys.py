"""Keys that a body gives twice: the last one counts, and a careful client wants to be told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml
from yaml import events

from moorage.gotext import quote

# The pure parser reads the same, only slowly, where PyYAML was built without libyaml.
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def in_json(body: bytes, data: Any) -> list[str]:
    """The places of keys that JSON text gives again, `data` being what was read from it."""
    try:
        if has_as_many_keys(body, data):
            return []
        return [place for place, again in places_in_json(body) if again]
    except RecursionError:
        return []  # whoever looks at the data says that they are nested too deeply


def places_in_json(body: bytes) -> Iterator[tuple[str, bool]]:
    """The place of each key, in the order of the text, and whether it was there before."""
    return _places(_pairs(body), "")


def has_as_many_keys(body: bytes, data: Any) -> bool:
    """Whether for certain no key of JSON text got lost when data was read from it."""
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
        return None  # whoever reads the body says what is wrong with it


def _places(data: Any, place: str) -> Iterator[tuple[str, bool]]:
    if isinstance(data, _Pairs):
        seen: set[str] = set()
        for key, value in data:
            here = f"{place}.{key}" if place else key
            yield here, key in seen
            seen.add(key)
            yield from _places(value, here)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _places(value, f"{place}[{index}]")


def in_yaml(text: str) -> tuple[list[str], str]:
    """What Kubernetes says of keys that YAML text gives again, and the text without what they replace."""
    scan = _Scan()
    try:
        parser = _Parser(text)
        while (event := parser.get_event()) is not None and type(event) is not events.DocumentEndEvent:
            scan.take(event)
    except yaml.YAMLError:
        return [], text  # whoever reads the text says what is wrong with it
    if not scan.lines:
        return [], text
    return ["yaml: unmarshal errors:\n" + "\n".join(scan.lines)], _without(text, scan.cuts)


def _without(text: str, cuts: list[tuple[int, int]]) -> str:
    kept, at = [], 0
    for start, end in sorted(cuts):
        if start >= at:
            kept.append(text[at:start])
            at = end
    return "".join(kept) + text[at:]


class _Map:
    """A map that is being read: where each of its keys starts, and whether a value comes next."""

    __slots__ = ("has_key", "starts")

    def __init__(self) -> None:
        self.starts: dict[str, int] = {}
        self.has_key = False


class _Scan:
    """Follows the events of a document. A key that comes again replaces its entry up to where the next one starts."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.cuts: list[tuple[int, int]] = []
        self._around: list[_Map | None] = []

    def take(self, event: Any) -> None:
        kind: Any = type(event)
        if kind in (events.MappingEndEvent, events.SequenceEndEvent):
            self._around.pop()
        elif isinstance(event, events.NodeEvent):
            here = self._around[-1] if self._around else None
            if here is not None:
                if not here.has_key:
                    self._read_key(here, event)
                here.has_key = not here.has_key
            if kind is events.MappingStartEvent:
                self._around.append(_Map())
            elif kind is events.SequenceStartEvent:
                self._around.append(None)

    def _read_key(self, here: _Map, event: Any) -> None:
        kind: Any = type(event)
        if kind is not events.ScalarEvent or event.value == "<<":
            return
        key, start = event.value, event.start_mark.index
        before = here.starts.pop(key, None)
        if before is not None:
            self.lines.append(f"  line {event.start_mark.line + 1}: key {quote(key)} already set in map")
            self.cuts.append((before, min((at for at in here.starts.values() if at > before), default=start)))
        here.starts[key] = start
