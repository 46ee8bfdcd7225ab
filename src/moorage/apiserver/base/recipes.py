"""Recipes: what the server made of a write, replayed for later ones that differ only in values that it copies."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from moorage.bounded import Bounded
from moorage.registry.schema import is_canonical_time

_RECIPES, _SEEN = 256, 1024
_MOST_VALUES = 256
"""How many values a write has at most that is learnt from: each takes memory, and time to look for."""
_TEXTS, _TEXT_BYTES, _ENTRY = 256, 4 << 20, 1 << 10
_is_fraction = re.compile(rb"\d{6}Z").fullmatch
_WORD = rb"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NO_AMOUNT = rb"(?!\d+(?:\.\d*)?[a-z]*-?\d*\Z)"
"""Amounts are stored in another form than they come in; a resource may be called as any field is."""

ValueCheck = Callable[[bytes], object]


def _matches(pattern: bytes) -> ValueCheck:
    return re.compile(pattern).fullmatch


# Each of these is either a value of its own or something that the server never writes by itself. What is too long is
# refused first: looking for an amount takes as long as the square of the length.
is_address = _matches(rb"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}")
is_container_id = _matches(rb"[a-z-]+://[0-9a-f]{64}")
is_name = _matches(rb"(?!.{254})%b(?:\.%b)*" % (_WORD, _WORD))
is_host = _matches(rb"(?!.{254})%b%b(?:\.%b)*" % (_NO_AMOUNT, _WORD, _WORD))
is_label = _matches(rb"(?!.{64})%b" % _WORD)
is_prefix = _matches(rb"(?!.{250})[a-z0-9][-a-z0-9]*")
is_hex = _matches(rb"(?!.{33})%b[0-9a-f]{32}" % _NO_AMOUNT)
is_number = _matches(rb"\d+")
is_sentence = _matches(rb".* .*")
is_uid = _matches(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_time(value: bytes) -> bool:
    """Whether a value is a time as it is stored."""
    return is_canonical_time(value.decode())


def is_micro_time(value: bytes) -> bool:
    """Whether a value is a time with microseconds as it is stored."""
    return value[19:20] == b"." and _is_fraction(value[20:]) is not None and is_time(value[:19] + b"Z")


class SplitText(NamedTuple):
    """A JSON text, split at the values of some fields."""

    rest: tuple[bytes, ...]
    """The text between the values, and the names of their fields."""
    values: list[bytes]
    ordered: list[bytes]
    """Those of the values by which something may be sorted."""


class CopiedFields:
    """Fields of which the server validates the syntax, and then only compares, sorts and copies their values.

    `listed` are texts that stand before such a value in a list, up to its quote.
    """

    def __init__(self, checks: Mapping[str, ValueCheck], listed: Mapping[bytes, ValueCheck] | None = None) -> None:
        # As a field, and within the name of an element of managed fields: k:{\"ip\":\"10.0.0.1\"}
        spellings = [
            (form % name.encode(), check) for name, check in checks.items() for form in (b'%b":"', b'%b\\":\\"')
        ]
        self._checks = {**dict(spellings), **(listed or {})}
        self._ordered = {name for name, check in spellings if check in (is_time, is_address, is_uid)}
        # Printable ASCII without quotes and backslashes is the same text in JSON, however it is written.
        names = b"|".join(map(re.escape, self._checks))
        self._field = re.compile(rb'"(%b)([ !#-\[\]-~]+)(?=\\?")' % names)
        self._known: Bounded[bytes, SplitText] = Bounded(_TEXTS, _TEXT_BYTES)

    def split_again(self, text: bytes) -> SplitText | None:
        """The same as `split`, for a text that many objects have in common: that of a template, or of one second."""
        split = self._known.get(text)
        if split is None and (split := self.split(text)) is not None:
            self._known.put(text, split, _ENTRY + 4 * len(text))
        return split

    def split(self, text: bytes) -> SplitText | None:
        """A text split at the values of these fields; None when one of them is not valid."""
        pieces = self._field.split(text)
        values, ordered = pieces[2::3], []
        for name, value in zip(pieces[1::3], values, strict=True):
            if not self._checks[name](value):
                return None
            if name in self._ordered:
                ordered.append(value)
        del pieces[2::3]
        return SplitText(tuple(pieces), values, ordered)


def arrangement(values: Sequence[bytes], ordered: Sequence[bytes]) -> Hashable:
    """Which values are equal, and how some of them are ordered: with the text around them it decides about a write."""
    first: dict[bytes, int] = {}
    places = [first.setdefault(value, place) for place, value in enumerate(values)]
    ranks = {value: rank for rank, value in enumerate(sorted(set(ordered)))}
    return tuple(places), tuple([ranks[value] for value in ordered])


class Recipe(NamedTuple):
    """A text that was stored, as literal pieces with values between them."""

    literals: list[bytes]
    values: list[int]
    """The place of each value among those of the write."""

    def text(self, values: Sequence[bytes]) -> bytes:
        """The text that is stored for other values."""
        pieces = self.literals.copy()
        pieces[1::2] = [values[place] for place in self.values]
        return b"".join(pieces)


def recipe_of(stored: bytes, rest: Iterable[bytes], values: Sequence[bytes]) -> Recipe | None:
    """How a stored text follows from the values of a write; None when they are elsewhere, or names of fields, too."""
    wanted = b"|".join(map(re.escape, sorted(set(values), key=len, reverse=True)))
    quoted = re.compile(rb'(?<=")(%b)(?=\\?")' % wanted)
    if any(map(quoted.search, rest)) or re.search(rb'"(?:%b)\\?":' % wanted, stored):
        return None
    literals = quoted.split(stored)
    return Recipe(literals, [values.index(value) for value in literals[1::2]])


class Recipes:
    """The recipes of writes that were made lately, each learnt from the second write of its sort."""

    def __init__(self) -> None:
        self._recipes: Bounded[Hashable, Sequence[Recipe]] = Bounded(_RECIPES)
        self._seen: Bounded[int, bool] = Bounded(_SEEN)

    def __len__(self) -> int:
        """How many sorts of writes are remembered, by recipe or as having been made once."""
        return len(self._recipes) + len(self._seen)

    def get(self, sort: Hashable) -> Sequence[Recipe] | None:
        """The recipes of the texts that a sort of write stores."""
        return self._recipes.get(sort)

    def learn(self, sort: Hashable, stored: Sequence[bytes], rest: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Learn what was stored for some values with `rest` around them, if such a write has come before."""
        if len(values) > _MOST_VALUES:
            return
        key = hash(sort)
        is_first = key not in self._seen
        self._seen.put(key, True)
        recipes = () if is_first else [recipe_of(text, rest, values) for text in stored]
        learnt = [recipe for recipe in recipes if recipe is not None]
        if len(learnt) == len(stored):
            self._recipes.put(sort, learnt)
