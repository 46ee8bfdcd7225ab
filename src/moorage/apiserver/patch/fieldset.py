"""Sets of fields in the format of managedFields (FieldsV1): their algebra, and their paths as text.

A set is a tree of maps. The names in it are `f:` and a field's name, `k:` and the keys of a list item, `v:` and the
value of an item of a set. A field is a member when its map is empty or has the member `.` in it. Sets are never
changed after they are created, so parts of them are shared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from moorage.bounded import SHORT, remember_short
from moorage.gotext import quote

FieldSet = Mapping[str, Any]

LEAF: FieldSet = {}
SELF = "."

_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def scalar(value: str | float | bool | None) -> str:
    """A key or a value in an element: JSON as Go writes it, with HTML characters escaped."""
    return _escaped(value) if isinstance(value, str) and len(value) > SHORT else _remembered(value)


def _escaped(value: str | float | bool | None) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False).translate(_HTML)


_remembered = lru_cache(maxsize=8192, typed=True)(_escaped)


def is_member(fields: FieldSet) -> bool:
    """Whether a field itself is in the set, not only fields below it."""
    return not fields or SELF in fields


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of either set."""
    if not left or not right:
        return left or right
    both = dict(left)
    for element, fields in right.items():
        mine = both.get(element)
        both[element] = fields if mine is None else _joined(mine, fields)
    return both


def union_of(sets: Sequence[FieldSet]) -> FieldSet:
    """The members of any of some sets, joined in pairs, so that each is copied a few times only."""
    while len(sets) > 1:
        sets = [union(*sets[at : at + 2]) if at + 1 < len(sets) else sets[at] for at in range(0, len(sets), 2)]
    return sets[0] if sets else LEAF


def _joined(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left or not right:
        more = left or right
        return more if not more or SELF in more else {SELF: LEAF, **more}
    return union(left, right)


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of the first set that are not in the second; a field stays when only fields below it go."""
    kept: dict[str, Any] = {}
    for element, fields in left.items():
        if element == SELF:
            continue
        other = right.get(element)
        rest = fields if other is None else _narrowed(fields, other, difference, is_member(other))
        if rest is not None:
            kept[element] = rest
    return kept


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of both sets."""
    shared: dict[str, Any] = {}
    for element, fields in left.items():
        other = right.get(element)
        if element == SELF or other is None:
            continue
        both = _narrowed(fields, other, intersection, not is_member(other))
        if both is not None:
            shared[element] = both
    return shared


def _narrowed(fields: FieldSet, other: FieldSet, narrow: Any, leaves: bool) -> FieldSet | None:
    member = is_member(fields) and not leaves
    below: FieldSet = narrow(fields, other)
    if not below:
        return LEAF if member else None
    return {SELF: LEAF, **below} if member else below


def in_order(fields: FieldSet) -> FieldSet:
    """The same set with its elements in the order of Kubernetes, which clients rely on when they compare sets."""
    if not fields:
        return fields
    # Names of fields, and the dot before them, are in the order of their text; other elements begin with later letters.
    elements = sorted(fields) if max(fields) < "g" else sorted(fields, key=_place)
    return {element: below and in_order(below) for element in elements for below in (fields[element],)}


@remember_short(8192)
def _place(element: str) -> tuple[Any, ...]:
    return (-1,) if element == SELF else _rank(element)


def paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """The members as paths such as `.spec.containers[name="web"].image`, in the order of Kubernetes' messages."""
    below = sorted((_rank(element), element) for element in fields if element != SELF)
    for _, element in below:
        if is_member(fields[element]):
            yield prefix + words(element)
    for _, element in below:
        if fields[element]:
            yield from paths(fields[element], prefix + words(element))


def words(element: str) -> str:
    """An element as messages write it: `.name`, `[name="web"]`, `[="value"]`."""
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return f".{text}"
    value = json.loads(text)
    if kind == "k:":
        return f"[{','.join(f'{name}={_shown(key)}' for name, key in value.items())}]"
    return f"[={_shown(value)}]" if kind == "v:" else f"[{value}]"


def _shown(value: Any) -> str:
    return quote(value) if isinstance(value, str) else json.dumps(value)


def _rank(element: str) -> tuple[Any, ...]:
    """Fields come before keys, keys before values; numbers are numbers and come before words."""
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return (0, text)
    value = json.loads(text)
    if kind == "k:":
        return (1, [(name, _order(key)) for name, key in value.items()])
    return (2 if kind == "v:" else 3, _order(value))


def _order(value: Any) -> tuple[int, Any]:
    if isinstance(value, str):
        return (1, value)
    return (2, value) if isinstance(value, bool) else (0, value)


def canonical(fields: Any) -> FieldSet | None:
    """A set from a client, with its elements in canonical form; None when it is not a valid set."""
    if not isinstance(fields, dict):
        return None
    tidy: dict[str, Any] = {}
    for element, below in fields.items():
        if element == SELF:
            tidy[SELF] = LEAF
        elif element[:2] in ("f:", "k:", "v:", "i:"):
            name, rest = _respelled(element), canonical(below)
            if name is None or rest is None:
                return None
            tidy[name] = rest
        elif element[1:2] != ":":
            return None
    return tidy


def _respelled(element: str) -> str | None:
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return element
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if kind == "k:":
        if not isinstance(value, dict) or not value or any(isinstance(key, dict | list) for key in value.values()):
            return None
        return key_element([(name, value[name]) for name in sorted(value)])
    if kind == "i:":
        return element if type(value) is int else None
    return None if isinstance(value, dict | list) else f"v:{scalar(value)}"


def key_element(keys: list[tuple[str, Any]]) -> str:
    """The element of a list item with keys, which are given in alphabetical order."""
    return f"k:{{{','.join(f'{scalar(name)}:{scalar(value)}' for name, value in keys)}}}"
