"""Kubernetes' list functions: `isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf`, and later `includes`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from moorage.cel.cost.sizes import TRAVERSAL, add, multiply, scale
from moorage.cel.errors import EvalError
from moorage.cel.ext.declare import Costing, Items, function, method
from moorage.cel.library import CallCost, Cost, Library, Operand
from moorage.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    list_of,
    param,
)
from moorage.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, UInt, compare, equal

_COMPARABLE = {
    "int": INT,
    "uint": UINT,
    "double": DOUBLE,
    "bool": BOOL,
    "duration": DURATION,
    "timestamp": TIMESTAMP,
    "string": STRING,
    "bytes": BYTES,
}
_ORDERED = (int, float, str, bytes, Timestamp, Duration)


def _is_above(a: Any, b: Any) -> bool:
    if not isinstance(a, _ORDERED):
        raise EvalError("no such overload")
    try:
        return compare(a, b) > 0
    except EvalError:
        # Upstream asks only whether the answer is "greater", and an error is another answer.
        return False


def _is_sorted(items: Items) -> bool:
    return not any(_is_above(a, b) for a, b in pairwise(items))


def _extreme(name: str, is_better: Callable[[Any, Any], bool]) -> Callable[[Items], Any]:
    def extreme(items: Items) -> Any:
        if not items:
            raise EvalError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if is_better(item, best):
                best = item
        return best

    return extreme


def _sum_of_int(items: Items) -> int:
    return _summed(items, int, INT_MIN, INT_MAX, "integer overflow")


def _sum_of_uint(items: Items) -> UInt:
    return UInt(_summed(items, UInt, 0, UINT_MAX, "unsigned integer overflow"))


def _sum_of_double(items: Items) -> float:
    # One by one: Python's sum() corrects rounding errors, and CEL does not.
    total = 0.0
    for item in items:
        if type(item) is not float:
            raise EvalError("no such overload")
        total += item
    return total


def _sum_of_duration(items: Items) -> Duration:
    if any(type(item) is not Duration for item in items):
        raise EvalError("no such overload")
    return Duration(_within((item.nanos for item in items), INT_MIN, INT_MAX, "duration overflow"))


def _summed(items: Items, kind: type[int], least: int, most: int, error: str) -> int:
    if any(type(item) is not kind for item in items):
        raise EvalError("no such overload")
    return _within(items, least, most, error)


def _within(numbers: Any, least: int, most: int, error: str) -> int:
    total = 0
    for number in numbers:
        total += number
        if not least <= total <= most:
            raise EvalError(error)
    return total


def _index_of(items: Items, item: Any) -> int:
    return next((index for index, other in enumerate(items) if equal(other, item)), -1)


def _last_index_of(items: Items, item: Any) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if equal(items[index], item)), -1)


def _includes(target: Any, item: Any) -> bool:
    if isinstance(target, list | tuple):
        return any(equal(other, item) for other in target)
    return equal(target, item)


def _estimate(operands: list[Operand]) -> CallCost:
    """Each element is compared; strings and bytes are read as well."""
    items = operands[0]
    per_item = Cost(1, 1)
    if items.type.params and items.type.params[0] in (STRING, BYTES):
        per_item = add(per_item, scale(items.element, TRAVERSAL))
    return CallCost(multiply(items.size, per_item))


def _extreme_estimate(operands: list[Operand]) -> CallCost:
    return CallCost(_estimate(operands).cost, operands[0].element)


def traversal(value: Any) -> int:
    """What it has cost to go through a value and all that is in it."""
    if isinstance(value, str | bytes):
        return int(len(value) * TRAVERSAL)
    if isinstance(value, list | tuple):
        return sum(map(traversal, value))
    if isinstance(value, dict):
        return sum(traversal(key) + traversal(item) for key, item in value.items())
    return 1


def _measure(args: tuple[Any, ...], _: Any) -> int:
    return traversal(args[0])


_COST, _EXTREME_COST = Costing(_estimate, _measure), Costing(_extreme_estimate, _measure)
_A = param("A")
_SUMS: dict[str, Callable[[Items], Any]] = {
    "int": _sum_of_int,
    "uint": _sum_of_uint,
    "double": _sum_of_double,
    "duration": _sum_of_duration,
}
_MIN, _MAX = _extreme("min", lambda a, b: _is_above(b, a)), _extreme("max", _is_above)

LIBRARY = Library(
    "kubernetes.lists",
    (
        function(
            "isSorted",
            *(
                method(f"list_{name}_is_sorted_bool", (list_of(kind),), BOOL, _is_sorted, _COST)
                for name, kind in _COMPARABLE.items()
            ),
        ),
        function(
            "sum",
            *(
                method(f"list_{name}_sum_{name}", (list_of(_COMPARABLE[name]),), _COMPARABLE[name], impl, _COST)
                for name, impl in _SUMS.items()
            ),
        ),
        function(
            "max",
            *(
                method(f"list_{name}_max_{name}", (list_of(kind),), kind, _MAX, _EXTREME_COST)
                for name, kind in _COMPARABLE.items()
            ),
        ),
        function(
            "min",
            *(
                method(f"list_{name}_min_{name}", (list_of(kind),), kind, _MIN, _EXTREME_COST)
                for name, kind in _COMPARABLE.items()
            ),
        ),
        function("indexOf", method("list_a_index_of_int", (list_of(_A), _A), INT, _index_of, _COST)),
        function("lastIndexOf", method("list_a_last_index_of_int", (list_of(_A), _A), INT, _last_index_of, _COST)),
    ),
)
"""Version 0, which Kubernetes 1.36 has."""

LATEST = Library(
    LIBRARY.name,
    (
        *LIBRARY.functions,
        function("includes", method("list_includes_dyn_dyn", (_A, param("B")), BOOL, _includes, _COST)),
    ),
)
"""Version 1, which Kubernetes has from 1.37 on."""
