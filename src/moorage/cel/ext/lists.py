"""List functions of cel-go: `slice`, `flatten`, `sort`, `sortBy`, `lists.range`, `reverse` and `distinct`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.cel.ast import Expr, Literal
from moorage.cel.cost.sizes import TRAVERSAL, add, product, scale
from moorage.cel.errors import EvalError
from moorage.cel.ext import costs
from moorage.cel.ext.declare import Costing, Items, function, method, plain
from moorage.cel.library import UNBOUNDED, CallCost, Cost, Library, Operand, Size
from moorage.cel.syntax.macros import STANDARD, Expander, Macro, MacroError
from moorage.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    param,
)
from moorage.cel.values import Duration, Timestamp, equal

_COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
_ORDERED = (int, float, str, bytes, Timestamp, Duration)
_RANGE_MAX = 2**20
_MAP = next(macro.expand for macro in STANDARD if macro.name == "map" and macro.args == 2)


def _slice(items: Items, start: int, end: int) -> Items:
    if start < 0 or end < 0:
        raise EvalError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvalError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(items) < end:
        raise EvalError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: Items, depth: int = 1) -> Items:
    if depth < 0:
        raise EvalError("level must be non-negative")
    while depth > 0 and any(isinstance(item, list | tuple) for item in items):
        flat: list[Any] = []
        for item in items:
            if isinstance(item, list | tuple):
                flat.extend(item)
            else:
                flat.append(item)
        items, depth = flat, depth - 1
    return items


def _range(count: int) -> list[int]:
    if count > _RANGE_MAX:
        raise EvalError(f"lists.range({count}): more than {_RANGE_MAX} elements")
    return [*range(count)]


def _distinct(items: Items) -> list[Any]:
    if all(type(item) is str for item in items):
        return [*dict.fromkeys(items)]
    distinct: list[Any] = []
    for item in items:
        if not any(equal(item, other) for other in distinct):
            distinct.append(item)
    return distinct


def _sort(items: Items) -> Items:
    return _sort_by(items, items)


def _sort_by(items: Items, keys: Items) -> Items:
    if len(items) != len(keys):
        raise EvalError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(items)} and {len(keys)} elements respectively"
        )
    if not keys:
        return items
    if not isinstance(keys[0], _ORDERED):
        raise EvalError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvalError("list elements must have the same type")
    return [items[index] for index in sorted(range(len(keys)), key=keys.__getitem__)]


def _expand_sort_by(make: Expander, target: Any, args: list[Expr]) -> Expr:
    if isinstance(target, Literal):
        raise MacroError(
            target.offset, "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        )
    name = "@__sortBy_input__"
    keys = _MAP(make, make.ident(name), args)
    assert keys is not None  # the macro map never stays a call
    return make.let(name, target, make.method("@sortByAssociatedKeys", make.ident(name), keys))


def _literal(operand: Operand, default: int) -> int:
    """The number that an operand is for certain."""
    value = operand.expr.value if isinstance(operand.expr, Literal) else None
    return max(value, 0) if type(value) is int else default


def _making(size: Size, factor: float = 1, result: Size | None = None, element: Size | None = None) -> CallCost:
    """The cost of a list that takes `factor` for each unit of `size`, by default a list of that size."""
    return CallCost(add(scale(size, factor), _LIST), result or size, element)


def _slice_estimate(operands: list[Operand]) -> CallCost:
    end = _literal(operands[2], operands[0].size.max)
    length = max(end - _literal(operands[1], 0), 0)
    return _making(Size(length, length), element=operands[0].element)


def _flatten_estimate(operands: list[Operand]) -> CallCost:
    items = operands[0]
    depth = _literal(operands[1], UNBOUNDED) if len(operands) == 2 else 1
    return _making(items.size, depth, Size(0, _flat_length(items, depth)))


def _flat_length(items: Operand, depth: int) -> int:
    # Upstream takes the result to be as long as the list of lists, so that loops over it would seem cheap.
    if depth == 0:
        return items.size.max
    return product(items.size.max, max(items.element.max, 1)) if depth == 1 else UNBOUNDED


def _range_estimate(operands: list[Operand]) -> CallCost:
    length = _literal(operands[0], UNBOUNDED)
    return _making(Size(length, length))


def _reverse_estimate(operands: list[Operand]) -> CallCost:
    return _making(operands[0].size, element=operands[0].element)


def _pairs_estimate(which: int, factor: float) -> Callable[[list[Operand]], CallCost]:
    """Every element is compared with every other; upstream takes the result to be as long as that."""

    def estimate(operands: list[Operand]) -> CallCost:
        size = operands[which].size
        pairs = Size(product(size.min, size.min), product(size.max, size.max))
        return _making(pairs, factor, element=operands[0].element)

    return estimate


def _made(count: int, factor: float = 1) -> int:
    return int(count * factor) + _LIST.max


def _measure_result(_: tuple[Any, ...], result: Any) -> int:
    return _made(len(result))


def _measure_flatten(args: tuple[Any, ...], _: Any) -> int:
    return _made(len(args[0]), args[1] if len(args) == 2 else 1)


def _measure_pairs(args: tuple[Any, ...], _: Any) -> int:
    keys = args[-1]
    is_text = bool(keys) and isinstance(keys[0], str | bytes)
    return _made(len(keys) ** 2, _factor(is_text))


def _measure_distinct(args: tuple[Any, ...], _: Any) -> int:
    # Upstream adds a tenth for strings, which its estimate leaves out; ours are found by their hash.
    return _made(len(args[0]) ** 2, 2)


def _factor(is_text: bool) -> float:
    return 2 + TRAVERSAL if is_text else 2


def _sort_cost(kind: Type, which: int) -> Costing:
    return Costing(_pairs_estimate(which, _factor(kind in (STRING, BYTES))), _measure_pairs)


_LIST = add(costs.ONE, Cost(costs.LIST, costs.LIST))
_T = param("T")
_ITEMS, _DYNS = list_of(_T), list_of(DYN)
_FLATTEN = Costing(_flatten_estimate, _measure_flatten)

LIBRARY = Library(
    "cel.lib.ext.lists",
    (
        function(
            "slice",
            method("list_slice", (_ITEMS, INT, INT), _ITEMS, _slice, Costing(_slice_estimate, _measure_result)),
        ),
        function(
            "flatten",
            method("list_flatten", (list_of(_ITEMS),), _ITEMS, _flatten, _FLATTEN),
            method("list_flatten_int", (_DYNS, INT), _DYNS, _flatten, _FLATTEN),
        ),
        function(
            "sort",
            *(
                method(f"list_{kind.name}_sort", (list_of(kind),), list_of(kind), _sort, _sort_cost(kind, 0))
                for kind in _COMPARABLE
            ),
        ),
        function(
            "@sortByAssociatedKeys",
            *(
                method(
                    f"list_{kind.name}_sortByAssociatedKeys",
                    (_ITEMS, list_of(kind)),
                    _ITEMS,
                    _sort_by,
                    _sort_cost(kind, 1),
                )
                for kind in _COMPARABLE
            ),
        ),
        function(
            "lists.range",
            plain("lists_range", (INT,), list_of(INT), _range, Costing(_range_estimate, _measure_result)),
        ),
        function(
            "reverse",
            method(
                "list_reverse",
                (_ITEMS,),
                _ITEMS,
                lambda items: items[::-1],
                Costing(_reverse_estimate, _measure_result),
            ),
        ),
        function(
            "distinct",
            method("list_distinct", (_ITEMS,), _ITEMS, _distinct, Costing(_pairs_estimate(0, 2), _measure_distinct)),
        ),
    ),
    macros=(Macro("sortBy", 2, _expand_sort_by),),
)
