"""Short forms for declarations: a library reads as a table of signatures, implementations and costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from moorage.cel.library import Bind, Check, Estimate, Function, Measure, Overload
from moorage.cel.types import Type

Items = Sequence[Any]
"""The elements of a CEL list."""


class Costing(NamedTuple):
    """How a call is costed: ahead of time, and after it happened."""

    estimate: Estimate
    measure: Measure | None = None


def function(name: str, *overloads: Overload) -> Function:
    """A name with its overloads, in the order in which they are tried."""
    return Function(name, overloads)


def plain(
    id: str,  # noqa: A002
    args: tuple[Type, ...],
    result: Type,
    impl: Callable[..., Any],
    cost: Costing | None = None,
    bind: Bind | None = None,
) -> Overload:
    """An overload that is called `name(args)`."""
    estimate, measure = cost or (None, None)
    return Overload(id, args, result, impl, False, estimate, measure, bind)


def method(
    id: str,  # noqa: A002
    args: tuple[Type, ...],
    result: Type,
    impl: Callable[..., Any],
    cost: Costing | None = None,
    bind: Bind | None = None,
    check: Check | None = None,
) -> Overload:
    """An overload that is called `receiver.name(args)`; the receiver is the first of `args`."""
    estimate, measure = cost or (None, None)
    return Overload(id, args, result, impl, True, estimate, measure, bind, check)
