"""The prices of the standard functions: what a call can cost, what one did cost, and how large its result can be."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from moorage.cel.ast import Literal
from moorage.cel.cost.sizes import (
    ANY,
    NOTHING,
    REGEX,
    TRAVERSAL,
    Bound,
    add_sizes,
    at_least_one,
    multiply,
    product,
    scale,
    scaled,
    total,
    union,
)
from moorage.cel.library import UNBOUNDED, CallCost, Cost, Estimate, Measure, Operand, Size
from moorage.cel.syntax.parser import NESTING_MAX
from moorage.cel.values import Optional

CALL = CallCost(Cost(1, 1))
"""The cost of a call that is not listed."""


def _affix(operands: list[Operand]) -> CallCost:
    return CallCost(scale(operands[1].size, TRAVERSAL))


def _contains(operands: list[Operand]) -> CallCost:
    text, part = (scale(operand.size, TRAVERSAL) for operand in operands)
    return CallCost(multiply(text, part))


def _matches(operands: list[Operand]) -> CallCost:
    # One more than the length: an empty text does not make an expensive pattern free.
    text = scale(add_sizes(operands[0].size, Size(1, 1)), TRAVERSAL)
    return CallCost(multiply(text, scale(operands[1].size, REGEX)))


def _in_list(operands: list[Operand]) -> CallCost:
    return CallCost(scale(operands[1].size, 1))


def _concatenate(operands: list[Operand]) -> CallCost:
    size = add_sizes(operands[0].size, operands[1].size)
    return CallCost(scale(size, TRAVERSAL), size)


def _concatenate_lists(operands: list[Operand]) -> CallCost:
    return CallCost(Cost(1, 1), add_sizes(operands[0].size, operands[1].size))


def _to_bytes(operands: list[Operand]) -> CallCost:
    size = operands[0].size
    return CallCost(scale(size, TRAVERSAL), Size(size.min, product(size.max, 4)))


def _to_text(operands: list[Operand]) -> CallCost:
    size = operands[0].size
    return CallCost(scale(size, TRAVERSAL), Size(size.min // 4, size.max))


def _compare(operands: list[Operand]) -> CallCost:
    most = min(operand.size.max for operand in operands)
    return CallCost(scale(Cost(min(most, 1), most), TRAVERSAL))


_EQUAL_AT_ONCE = frozenset(("kubernetes.Quantity", "kubernetes.Semver", "net.IP", "net.CIDR"))
_FORMAT_SIZE_MAX = 64


def _equals(operands: list[Operand]) -> CallCost:
    name = operands[0].type.name
    if operands[0].type == operands[1].type:
        if name in _EQUAL_AT_ONCE:
            return CALL
        if name == "kubernetes.NamedFormat":
            return CallCost(scale(Cost(1, _FORMAT_SIZE_MAX), TRAVERSAL))
        if name == "kubernetes.URL":
            return CallCost(scale(Cost(1, operands[1].size.max), TRAVERSAL))
    return _compare(operands)


_ORDERED = [
    f"{relation}_{kind}"
    for relation in ("less", "less_equals", "greater", "greater_equals")
    for kind in ("string", "bytes")
]

ESTIMATES: dict[str, Estimate] = {
    "starts_with_string": _affix,
    "ends_with_string": _affix,
    "contains_string": _contains,
    "matches_string": _matches,
    "in_list": _in_list,
    "add_string": _concatenate,
    "add_bytes": _concatenate,
    "add_list": _concatenate_lists,
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_text,
    "equals": _equals,
    "not_equals": _compare,
    **dict.fromkeys(_ORDERED, _compare),
}
"""By overload id."""


def size_of(value: Any) -> int:
    """The size that a value counts with: 1 for whatever has no length."""
    if isinstance(value, Optional):
        return size_of(value.value) if value.present else 1
    return len(value) if isinstance(value, str | bytes | list | tuple | dict) else 1


def _read(args: tuple[Any, ...], which: int) -> int:
    return scaled(size_of(args[which]), TRAVERSAL)


def _compared(args: tuple[Any, ...], _: Any) -> int:
    return scaled(min(map(size_of, args)), TRAVERSAL)


MEASURES: dict[str, Measure] = {
    # cel-go charges for the whole text when it counts but only for the affix when it estimates. The affix is what is
    # looked at, so that is what is counted.
    "starts_with_string": lambda args, _: _read(args, 1),
    "ends_with_string": lambda args, _: _read(args, 1),
    "contains_string": lambda args, _: _read(args, 0) * _read(args, 1),
    "matches_string": lambda args, _: scaled(size_of(args[0]) + 1, TRAVERSAL) * scaled(size_of(args[1]), REGEX),
    "in_list": lambda args, _: size_of(args[1]),
    "add_string": lambda _, result: scaled(size_of(result), TRAVERSAL),
    "add_bytes": lambda _, result: scaled(size_of(result), TRAVERSAL),
    "string_to_bytes": lambda args, _: _read(args, 0),
    "bytes_to_string": lambda args, _: _read(args, 0),
    "equals": _compared,
    "not_equals": _compared,
    **dict.fromkeys(_ORDERED, _compared),
}
"""By overload id."""


Result = Callable[[list[Operand], list[Bound]], Bound]

_DOUBLE_TEXT_MAX = 344
"""A sign, `0.`, 324 zeros and 17 digits."""

_PRECISION = re.compile(r"%\.([0-9]{1,9})")


def _text(size: int) -> Result:
    return lambda _, __: Bound(size)


def _insert(_: list[Operand], bounds: list[Bound]) -> Bound:
    if len(bounds) == 2:
        return union(*bounds).resized(total(bounds[0].size, bounds[1].size))
    into, key, value = bounds
    return Bound(total(into.size, 1), union(into.items, value), union(into.keys, key))


def _flatten(operands: list[Operand], bounds: list[Bound]) -> Bound:
    depth = operands[1].expr
    if not isinstance(depth, Literal):
        return Bound(UNBOUNDED, ANY)
    size, item = bounds[0].size, bounds[0].items
    for _ in range(min(depth.value, NESTING_MAX)):
        if item.items is NOTHING:
            break
        size, item = product(size, max(item.size, 1)), union(item.items, item)
    return Bound(size, item)


def _format(operands: list[Operand], bounds: list[Bound]) -> Bound:
    template = operands[0].expr
    if not isinstance(template, Literal):
        return Bound(UNBOUNDED)
    precision = max(map(int, _PRECISION.findall(template.value)), default=0)
    shown = total(_shown(bounds[1].items), precision)
    return Bound(total(len(template.value), product(template.value.count("%"), shown)))


def _shown(bound: Bound) -> int:
    """How long a value can be as text: a character of a string takes up to 8 as hexadecimal or 10 as an escape."""
    text = max(product(bound.size, 10), _DOUBLE_TEXT_MAX + 2)
    if bound is ANY or bound.items is NOTHING:
        return text
    per_entry = total(total(_shown(bound.items), _shown(bound.keys)), 4)
    return total(text, product(bound.size, per_entry))


RESULTS: dict[str, Result] = {
    "bool_to_string": _text(5),
    "int64_to_string": _text(20),
    "uint64_to_string": _text(20),
    "double_to_string": _text(_DOUBLE_TEXT_MAX),
    "timestamp_to_string": _text(30),
    "duration_to_string": _text(32),
    "string_to_string": lambda _, bounds: bounds[0],
    "bytes_to_bytes": lambda _, bounds: bounds[0],
    "optional_none": lambda _, __: at_least_one(Bound(0)),
    "string_format": _format,
    "list_flatten_int": _flatten,
}
"""By overload id, for results whose size neither the estimate nor the signature of the overload tells."""
