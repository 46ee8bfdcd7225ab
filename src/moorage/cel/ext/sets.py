"""Lists as sets: `sets.contains`, `sets.equivalent` and `sets.intersects`, by CEL's equality."""

from __future__ import annotations

from typing import Any

from moorage.cel.cost.sizes import add, multiply, scale, scaled
from moorage.cel.ext import costs
from moorage.cel.ext.declare import Costing, Items, function, plain
from moorage.cel.library import CallCost, Library, Operand
from moorage.cel.types import BOOL, list_of, param
from moorage.cel.values import equal


def has(items: Items, item: Any) -> bool:
    """Whether an element is equal to `item`."""
    # A string is equal to strings only, so Python's own search will do.
    return item in items if type(item) is str else any(equal(item, other) for other in items)


def contains(items: Items, others: Items) -> bool:
    """Whether all the others are among the items."""
    return all(has(items, other) for other in others)


def equivalent(items: Items, others: Items) -> bool:
    """Whether the two lists have the same elements, however often."""
    return contains(items, others) and contains(others, items)


def intersects(items: Items, others: Items) -> bool:
    """Whether the two lists have an element in common."""
    return any(has(others, item) for item in items)


def _pairs(factor: int) -> Costing:
    """Every element of one list is compared with every element of the other, `factor` times."""

    def estimate(operands: list[Operand]) -> CallCost:
        pairs = multiply(operands[0].size, scale(operands[1].size, 1))
        return CallCost(add(scale(pairs, factor), costs.ONE))

    return Costing(estimate, lambda args, _: 1 + scaled(len(args[0]) * len(args[1]), factor))


_LISTS = (list_of(param("T")), list_of(param("T")))

LIBRARY = Library(
    "cel.lib.ext.sets",
    (
        function("sets.contains", plain("list_sets_contains_list", _LISTS, BOOL, contains, _pairs(1))),
        function("sets.equivalent", plain("list_sets_equivalent_list", _LISTS, BOOL, equivalent, _pairs(2))),
        function("sets.intersects", plain("list_sets_intersects_list", _LISTS, BOOL, intersects, _pairs(1))),
    ),
)
