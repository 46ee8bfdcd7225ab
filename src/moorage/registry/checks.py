"""Field checks that the validation of several kinds shares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from moorage.api.meta import Data
from moorage.names import label_key_errors, label_value_errors
from moorage.quantity import Quantity
from moorage.registry import namesyntax
from moorage.validation.field import FieldError, duplicate, forbidden, invalid, not_supported, required

Errors = Iterator[FieldError]

IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"
NOT_POSITIVE = "must be greater than zero"


def one_of(path: str, value: str | None, allowed: Sequence[str]) -> Errors:
    """A required value out of a list."""
    if not value:
        yield required(path)
    elif value not in allowed:
        yield not_supported(path, value, allowed)


def nonnegative(path: str, part: Data, *names: str) -> Errors:
    """Numbers that must not be negative."""
    for name in names:
        if part.get(name, 0) < 0:
            yield invalid(f"{path}.{name}", part[name], NEGATIVE)


def syntax(path: str, value: str, problems: Iterable[str]) -> Errors:
    """The errors of a value, one for each problem."""
    for problem in problems:
        yield invalid(path, value, problem)


def repeated(path: str, names: Iterable[str]) -> Errors:
    """Refuse values that occur twice in a list."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)


def unchanged(path: str, new: Any, old: Any) -> Errors:
    """A field that is immutable."""
    if new != old:
        yield invalid(path, new, IMMUTABLE)


def port_number(path: str, value: int) -> Errors:
    """A port number."""
    if not 1 <= value <= 65535:
        yield invalid(path, value, namesyntax.BAD_PORT)


def port(path: str, value: Any) -> Errors:
    """A port by number or by name."""
    if isinstance(value, str):
        yield from syntax(path, value, namesyntax.port_name(value))
    else:
        yield from port_number(path, value or 0)


def int_or_percent(path: str, value: Any) -> Errors:
    """A non-negative integer or percentage; None is allowed."""
    if isinstance(value, str):
        yield from syntax(path, value, namesyntax.percent(value))
    elif value is not None and value < 0:
        yield invalid(path, value, NEGATIVE)


def at_most_100_percent(path: str, value: Any) -> Errors:
    """A percentage that is at most 100 %."""
    if isinstance(value, str) and not namesyntax.percent(value) and amount_of(value) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def amount_of(value: Any) -> int:
    """The number of an integer or a percentage; 0 when there is none."""
    if isinstance(value, str):
        digits = value.removesuffix("%").lstrip("0")
        # int() of a very long number is slow, and fails beyond 4,300 digits.
        return 0 if not digits.isdecimal() or not digits.isascii() else int(digits[:18])
    return value or 0


def label_selector(path: str, selector: Data | None) -> Errors:
    """A label selector."""
    if not selector:
        return
    for key, value in selector.get("matchLabels", {}).items():
        yield from syntax(f"{path}.matchLabels", key, label_key_errors(key))
        yield from syntax(f"{path}.matchLabels", value, label_value_errors(value))
    for index, condition in enumerate(selector.get("matchExpressions", ())):
        here = f"{path}.matchExpressions[{index}]"
        operator, values = condition.get("operator", ""), condition.get("values", ())
        if operator in ("In", "NotIn"):
            if not values:
                yield required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator not in ("Exists", "DoesNotExist"):
            yield invalid(f"{here}.operator", operator, "not a valid selector operator")
        elif values:
            yield forbidden(f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        key = condition.get("key", "")
        yield from syntax(f"{here}.key", key, label_key_errors(key))
        for at, value in enumerate(values):
            yield from syntax(f"{here}.values[{at}]", value, label_value_errors(value))


def nonnegative_amount(path: str, value: str) -> Errors:
    """A quantity that must not be negative."""
    if Quantity.of(value).nano < 0:
        yield invalid(path, value, NEGATIVE)


def positive_amount(path: str, value: str) -> Errors:
    """A quantity that must be positive."""
    if Quantity.of(value).nano <= 0:
        yield invalid(path, value, NOT_POSITIVE)


def differences(path: str, old: Any, new: Any) -> Iterator[str]:
    """A diff of two values, field by field: lines with - for the old and + for the new value."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            yield from differences(f"{path}.{name}", old.get(name), new.get(name))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(f"{path}[{index}]", before, after)
    elif old != new or type(old) is not type(new):
        if old is not None:
            yield f"- {path}: {_shown(old)}"
        if new is not None:
            yield f"+ {path}: {_shown(new)}"


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()
