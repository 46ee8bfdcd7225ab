"""Checks that the rules of many kinds share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from moorage.names import label_key_errors, label_value_errors
from moorage.quantity import Quantity
from moorage.registry import namesyntax
from moorage.registry.schema import Data
from moorage.validation.field import FieldError, forbidden, invalid, not_supported, required

Errors = Iterator[FieldError]

IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"
NOT_POSITIVE = "must be greater than zero"


def one_of(path: str, value: str | None, allowed: Sequence[str]) -> Errors:
    """A value that must be there and be one of those that there are."""
    if not value:
        yield required(path)
    elif value not in allowed:
        yield not_supported(path, value, allowed)


def nonnegative(path: str, part: Data, *names: str) -> Errors:
    """Numbers that may not be below zero."""
    for name in names:
        if part.get(name, 0) < 0:
            yield invalid(f"{path}.{name}", part[name], NEGATIVE)


def syntax(path: str, value: str, problems: Iterable[str]) -> Errors:
    """What is wrong with a name."""
    for problem in problems:
        yield invalid(path, value, problem)


def unchanged(path: str, new: Any, old: Any) -> Errors:
    """A field that keeps its value for ever."""
    if new != old:
        yield invalid(path, new, IMMUTABLE)


def port_number(path: str, value: int) -> Errors:
    """A port."""
    if not 1 <= value <= 65535:
        yield invalid(path, value, namesyntax.BAD_PORT)


def port(path: str, value: Any) -> Errors:
    """A port by number or by name."""
    if isinstance(value, str):
        yield from syntax(path, value, namesyntax.port_name(value))
    else:
        yield from port_number(path, value or 0)


def int_or_percent(path: str, value: Any) -> Errors:
    """A number or a share; None is neither, and fine."""
    if isinstance(value, str):
        yield from syntax(path, value, namesyntax.percent(value))
    elif value is not None and value < 0:
        yield invalid(path, value, NEGATIVE)


def at_most_100_percent(path: str, value: Any) -> Errors:
    """A share of a whole."""
    if isinstance(value, str) and not namesyntax.percent(value) and amount_of(value) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def amount_of(value: Any) -> int:
    """The number in a number or a share; 0 when there is none."""
    if isinstance(value, str):
        digits = value.removesuffix("%").lstrip("0")
        # int() of a very long number is slow and refused beyond 4,300 digits.
        return 0 if not digits.isdecimal() or not digits.isascii() else int(digits[:18])
    return value or 0


def label_selector(path: str, selector: Data | None) -> Errors:
    """What is wrong with a selector of labels."""
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
    """An amount of a resource that may not be below zero."""
    if Quantity.of(value).nano < 0:
        yield invalid(path, value, NEGATIVE)


def positive_amount(path: str, value: str) -> Errors:
    """An amount of a resource that must be above zero."""
    if Quantity.of(value).nano <= 0:
        yield invalid(path, value, NOT_POSITIVE)


def differences(path: str, old: Any, new: Any) -> Iterator[str]:
    """What changed, one line for what was and one for what is, field by field."""
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
