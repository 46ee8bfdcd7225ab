"""Costs that several libraries have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.cel.cost.sizes import REGEX, TRAVERSAL, add_sizes, multiply, scale, scaled
from moorage.cel.ext.declare import Costing
from moorage.cel.library import CallCost, Cost, Operand, Size

LIST = 10
"""Cost of making a list, beside its elements."""

ONE = Cost(1, 1)

Sizing = Callable[[list[Operand]], Size]


def traversal(factor: float = TRAVERSAL, size: Sizing | None = None) -> Costing:
    """A call that reads its first operand, a string, from end to end."""

    def estimate(operands: list[Operand]) -> CallCost:
        return CallCost(scale(operands[0].size, factor), size(operands) if size else None)

    return Costing(estimate, lambda args, _: scaled(len(args[0]), factor))


def sized(size: Sizing) -> Costing:
    """A call of cost 1 whose result has a known size."""
    return Costing(lambda operands: CallCost(ONE, size(operands)))


def first(operands: list[Operand]) -> Size:
    """The size of the first operand: what comes out is as long as what went in."""
    return operands[0].size


def up_to_first(operands: list[Operand]) -> Size:
    """At most the size of the first operand: what comes out is a part of what went in."""
    return Size(0, operands[0].size.max)


def matching(text: Size, pattern: Size) -> Cost:
    """The cost of applying a regular expression. One character is added so that an empty string is not free."""
    return multiply(scale(add_sizes(text, Size(1, 1)), TRAVERSAL), scale(pattern, REGEX))


def matched(args: tuple[Any, ...], _: Any) -> int:
    """What applying a regular expression to a string has cost."""
    return scaled(len(args[0]) + 1, TRAVERSAL) * scaled(len(args[1]), REGEX)


def pieces(text: Size) -> int:
    """The largest number of pieces that a string can be cut into.

    Upstream counts one piece for each character, although a string of n separators has n + 1 pieces. Its number stays
    where the difference is small; for short strings, nested loops over pieces would otherwise cost less than they do.
    """
    return text.max if text.max >= 16 else text.max + 1
