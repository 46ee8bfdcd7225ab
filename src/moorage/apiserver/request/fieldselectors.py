"""Field selectors: the text of a query, such as `spec.nodeName=n1,status.phase!=Failed`, as a predicate of objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from moorage.api.labels import SelectorError
from moorage.api.meta import Data
from moorage.bounded import remember_short
from moorage.gotext import quote
from moorage.registry import selectable
from moorage.registry.selectable import FieldText
from moorage.registry.table import strategy_named

Predicate = Callable[[Data], bool]
"""Tells whether an object is selected."""


_ONLY_NAMES = '{quoted} is not a known field selector: only "metadata.name", "metadata.namespace"'


class FieldRequirement(NamedTuple):
    """One condition on one field."""

    field: str
    equal: bool
    value: str


class FieldSelector:
    """All of some requirements. Without any it selects everything."""

    __slots__ = ("matches", "requirements")

    def __init__(self, requirements: tuple[FieldRequirement, ...], getters: Mapping[str, FieldText]) -> None:
        self.requirements = requirements
        self.matches: Predicate = _all([_predicate(getters[each.field], each) for each in requirements])
        """Whether an object is selected."""

    def exact(self, field: str) -> str | None:
        """The one value that a field must have, None when several will do."""
        return next((each.value for each in self.requirements if each.field == field and each.equal), None)


def _all(predicates: list[Predicate]) -> Predicate:
    if not predicates:
        return lambda _: True
    if len(predicates) == 1:
        return predicates[0]
    return lambda item: all(predicate(item) for predicate in predicates)


def _predicate(get: FieldText, requirement: FieldRequirement) -> Predicate:
    value = requirement.value
    return (lambda item: get(item) == value) if requirement.equal else (lambda item: get(item) != value)


@remember_short(1024)
def parse(text: str, api_version: str, kind: str) -> FieldSelector:
    """The selector of a query about objects of a kind. Raises SelectorError."""
    strategy = strategy_named(api_version.rpartition("/")[0], kind)
    getters = None if strategy is None else strategy.fields
    refusal = _ONLY_NAMES if strategy is None or getters is None else strategy.field_refusal
    requirements = tuple(_requirement(text, term) for term in sorted(_terms(text)) if term)
    known = selectable.NAMES if getters is None else getters
    for label, _, _ in requirements:
        if label not in known:
            raise SelectorError(refusal.format(label=label, quoted=quote(label), version=api_version))
    return FieldSelector(requirements, known)


def _terms(text: str) -> list[str]:
    """The parts between commas; a comma after a backslash is data."""
    terms, start, escaped = [], 0, False
    for place, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            terms.append(text[start:place])
            start = place + 1
    return [*terms, text[start:]]


def _requirement(text: str, term: str) -> FieldRequirement:
    head, equals, tail = term.partition("=")
    if not equals:
        raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
    equal = not head.endswith("!")
    return FieldRequirement(head if equal else head[:-1], equal, _unescaped(tail.removeprefix("=") if equal else tail))


def _unescaped(text: str) -> str:
    plain, escaped = [], False
    for char in text:
        if escaped:
            if char not in "\\,=":
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{char}")
            plain.append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            plain.append(char)
    if escaped:
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    return "".join(plain)
