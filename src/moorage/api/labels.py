"""Label selectors: the text of a query, or a LabelSelector, compiled into a function of labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from threading import Lock
from typing import NamedTuple

import msgspec

from moorage.api.meta import Data, LabelSelector, LabelSelectorRequirement
from moorage.bounded import Bounded, remember_short
from moorage.gotext import quote
from moorage.names import label_key_errors, label_value_errors, lenient_int64

Labels = Mapping[str, str]
Test = Callable[[Labels], bool]


class SelectorError(ValueError):
    """The selector cannot be parsed; the message is Kubernetes' own."""


class Requirement(NamedTuple):
    """One condition on one label. The operators are `=`, `==`, `!=`, `in`, `notin`, `>`, `<`, `exists` and `!`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator in ("exists", "!"):
            return self.key if self.operator == "exists" else f"!{self.key}"
        if self.operator in ("in", "notin"):
            return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
        return f"{self.key}{self.operator}{self.values[0]}"


class LabelMatcher:
    """A compiled label selector: all of its requirements must hold, so without any it matches everything."""

    __slots__ = ("matches", "requirements")

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self.matches: Test = _all(self.requirements)
        """Whether an object with these labels is selected."""

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


_FEW = 8


def _all(requirements: Sequence[Requirement]) -> Test:
    if len(requirements) > _FEW:
        return _Rules(requirements).match
    tests = list(map(_test, requirements))
    if not tests:
        return lambda _: True
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda labels: first(labels) and second(labels)
    return lambda labels: all(test(labels) for test in tests)


class _Rules:
    """Many requirements, by the label that they are about: as few are looked at as an object has labels."""

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self._allowed: dict[str, frozenset[str]] = {}
        self._excluded: dict[str, set[str]] = {}
        self._required: set[str] = set()
        self._others: list[Test] = []
        for requirement in requirements:
            self._add(requirement)

    def _add(self, requirement: Requirement) -> None:
        key, operator, values = requirement
        if operator in ("=", "==", "in", "!"):
            allowed = frozenset(values)
            self._allowed[key] = self._allowed.get(key, allowed) & allowed
        if operator in ("!=", "notin"):
            self._excluded.setdefault(key, set()).update(values)
        elif operator in (">", "<"):
            self._others.append(_number_test(requirement))
        elif operator != "!":
            self._required.add(key)

    def match(self, labels: Labels) -> bool:
        """Whether all of them hold."""
        if len(labels) < len(self._required) or not self._required <= labels.keys():
            return False
        for key, value in labels.items():
            if (key in self._allowed and value not in self._allowed[key]) or value in self._excluded.get(key, ()):
                return False
        return all(test(labels) for test in self._others)


def _test(requirement: Requirement) -> Test:
    key, operator, values = requirement
    if operator in ("=", "==", "in"):
        if len(values) == 1:
            value = values[0]
            return lambda labels: labels.get(key) == value
        allowed = frozenset(values)
        return lambda labels: labels.get(key) in allowed
    if operator in ("!=", "notin"):
        excluded = frozenset(values)
        return lambda labels: labels.get(key) not in excluded
    if operator in (">", "<"):
        return _number_test(requirement)
    return (lambda labels: key in labels) if operator == "exists" else (lambda labels: key not in labels)


def _number_test(requirement: Requirement) -> Test:
    key, operator, values = requirement
    bound = lenient_int64(values[0])
    assert bound is not None  # _checked() has refused other values

    def test(labels: Labels) -> bool:
        number = lenient_int64(labels.get(key, ""))
        if number is None:
            return False
        return number > bound if operator == ">" else number < bound

    return test


MAX_REQUIREMENTS = 200
"""How many requirements the selector of a query may have; a set may have more values."""


def too_many_requirements() -> SelectorError:
    """The error for a selector that is compared with every object for too long."""
    return SelectorError(f"more than {MAX_REQUIREMENTS} requirements; ask for fewer, or name values in a set")


EVERYTHING = LabelMatcher(())
NOTHING = LabelMatcher(())
NOTHING.matches = lambda _: False

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def from_struct(selector: LabelSelector | None, *, trusted: bool = False) -> LabelMatcher:
    """The selector of an object. None matches nothing, an empty one everything. Raises SelectorError.

    `trusted`: its keys and values were checked before.
    """
    read = Requirement if trusted else _checked
    if selector is None:
        return NOTHING
    requirements = [read(key, "=", (value,)) for key, value in selector.match_labels.items()]
    for expression in selector.match_expressions:
        if expression.operator not in _OPERATORS:
            raise SelectorError(f"{quote(expression.operator)} is not a valid label selector operator")
        requirements.append(read(expression.key, _OPERATORS[expression.operator], expression.values))
    return LabelMatcher(requirements)


def selector_of(selector: LabelSelector | None) -> LabelMatcher:
    """The same, compiled once for all objects that hold the same selector; a large one once for each that holds it."""
    if selector is None:
        return NOTHING
    size = size_of(selector)
    return _compiled(msgspec.json.encode(selector)) if size <= _SMALL else _LARGE.of(selector, size)


def size_of(selector: LabelSelector | None) -> int:
    """How many conditions and values a selector has."""
    if selector is None:
        return 0
    return len(selector.match_labels) + sum([1 + len(each.values) for each in selector.match_expressions])


def anchor(selector: LabelSelector | None) -> tuple[str, str] | None:
    """A label that all objects have which a selector picks; None when it names none."""
    if selector is None:
        return None
    equal = ((each.key, each.values[0]) for each in selector.match_expressions if _is_equality(each))
    return next(chain(selector.match_labels.items(), equal), None)


def _is_equality(requirement: LabelSelectorRequirement) -> bool:
    return requirement.operator == "In" and len(requirement.values) == 1


_SMALL = 16
_LARGE_BYTES = 16 << 20
_REQUIREMENT_BYTES = 300


class _LargeSelectors:
    """Selectors that take long to compile, or only to be compared as texts: known by the very object that has them."""

    def __init__(self) -> None:
        self._known: Bounded[int, tuple[LabelSelector, LabelMatcher]] = Bounded(1024, _LARGE_BYTES)
        self._lock = Lock()

    def of(self, selector: LabelSelector, size: int) -> LabelMatcher:
        """A selector with so many conditions and values, compiled."""
        with self._lock:
            known = self._known.get(id(selector))
        if known is not None and known[0] is selector:
            return known[1]
        matcher = from_struct(selector, trusted=True)  # what is stored was checked when it was written
        with self._lock:
            most = self._known.most_bytes // 16
            self._known.put(id(selector), (selector, matcher), min(_REQUIREMENT_BYTES * size, most))
        return matcher


_LARGE = _LargeSelectors()


@remember_short(4096)
def _compiled(encoded: bytes) -> LabelMatcher:
    return from_struct(msgspec.json.decode(encoded, type=LabelSelector))


def selects(selector: Data, labels: Labels) -> bool:
    """Whether a LabelSelector that may be invalid, as JSON has it, matches labels; an unknown operator does not."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(
        _holds(each.get("key", ""), each.get("operator", ""), each.get("values", ()), labels)
        for each in selector.get("matchExpressions", ())
    )


def picks(selector: LabelSelector | None, labels: Labels) -> bool:
    """Whether a selector matches labels. For many selectors and one object: to compile each would take far longer."""
    if selector is None or any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    return all(_holds(each.key, each.operator, each.values, labels) for each in selector.match_expressions)


def _holds(key: str, operator: str, values: Collection[str], labels: Labels) -> bool:
    match operator:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False


@remember_short(1024)
def parse(text: str) -> LabelMatcher:
    """The selector of a query, such as `app=web,tier in (front,back),!canary`. Raises SelectorError."""
    return LabelMatcher(_Parser(text).requirements())


def _checked(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    errors = []
    if problems := label_key_errors(key):
        errors.append(_invalid("key", key, "; ".join(problems)))
    if operator in ("in", "notin") and not values:
        errors.append("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")
    if operator in ("exists", "!") and values:
        shown = "[" + ",".join(map(quote, values)) + "]"
        errors.append(f"values: Invalid value: {shown}: values set must be empty for exists and does not exist")
    for index, value in enumerate(values):
        if operator in (">", "<") and lenient_int64(value) is None:
            reason = "for 'Gt', 'Lt' operators, the value must be an integer"
            errors.append(_invalid(f"values[{index}]", value, reason))
        if wrong := label_value_errors(value):
            errors.append(_invalid(f"values[{index}][{key}]", value, "; ".join(wrong)))
    if errors:
        raise SelectorError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    return Requirement(key, operator, values)


def _invalid(path: str, value: str, reason: str) -> str:
    return f"{path}: Invalid value: {quote(value)}: {reason}"


_TOKEN = re.compile(r"==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+")
_SYMBOLS = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">"))
_END = ""
_BINARY = ("in", "notin", "=", "==", "!=", ">", "<")


class _Parser:
    """Parses requirements from left to right; errors name the expected tokens in Kubernetes' words."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), _END]
        self._place = 0

    def requirements(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while self._next() != _END:
            if len(requirements) == MAX_REQUIREMENTS:
                raise too_many_requirements()
            if self._next() != "!" and not self._at_word():
                raise SelectorError(f"found '{self._next()}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            token = self._take()
            if token == _END:
                break
            if token != ",":
                raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
            if self._next() != "!" and not self._at_word():
                raise SelectorError(f"found '{self._next()}', expected: identifier after ','")
        return requirements

    def _requirement(self) -> Requirement:
        absent = self._next() == "!"
        if absent:
            self._take()
        key = self._word()
        if problems := label_key_errors(key):
            raise SelectorError(_invalid("<nil>", key, "; ".join(problems)))
        if self._next() in (_END, ",") or absent:
            return _checked(key, "!" if absent else "exists", ())
        operator = self._take()
        if operator not in _BINARY:
            raise SelectorError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._list() if operator in ("in", "notin") else (self._value(),)
        return _checked(key, operator, tuple(sorted(set(values))))

    def _list(self) -> tuple[str, ...]:
        if (token := self._take()) != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        values = [self._item("',', ')' or identifier")]
        while self._next() == ",":
            self._take()
            values.append(self._item("',', or identifier"))
        if (token := self._take()) != ")":
            raise SelectorError(f"found '{token}', expected: ',' or ')'")
        return tuple(values)

    def _item(self, expected: str) -> str:
        """A value of a list, which may be empty."""
        if self._next() in (",", ")"):
            return ""
        if not self._at_word():
            raise SelectorError(f"found '{self._next()}', expected: {expected}")
        return self._take()

    def _value(self) -> str:
        return "" if self._next() in (_END, ",") else self._word()

    def _word(self) -> str:
        if not self._at_word():
            raise SelectorError(f"found '{self._next()}', expected: identifier")
        return self._take()

    def _at_word(self) -> bool:
        return self._next() != _END and self._next() not in _SYMBOLS

    def _next(self) -> str:
        return self._tokens[self._place]

    def _take(self) -> str:
        token = self._next()
        self._place = min(self._place + 1, len(self._tokens) - 1)
        return token
