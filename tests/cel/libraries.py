"""Call one overload of a library directly, and cost it, without an environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from moorage.cel.ast import Expr, Ident, Literal
from moorage.cel.cost.sizes import UNKNOWN
from moorage.cel.errors import EvalError
from moorage.cel.library import CallCost, Library, Overload, Size
from moorage.cel.types import DYN, Type


def overload(library: Library, name: str) -> Overload:
    return next(one for function in library.functions for one in function.overloads if one.id == name)


def call(library: Library, name: str, *args: Any) -> Any:
    return overload(library, name).impl(*args)


def error(library: Library, name: str, *args: Any) -> str:
    with pytest.raises(EvalError) as caught:
        call(library, name, *args)
    return str(caught.value)


_SOMETHING = Ident(0, 0, "x")


@dataclass(frozen=True)
class Given:
    """An operand of a known size."""

    size: Size = UNKNOWN
    element: Size = UNKNOWN
    type: Type = DYN
    expr: Expr = _SOMETHING


def exactly(size: int, **others: Any) -> Given:
    return Given(Size(size, size), **others)


def up_to(size: int, **others: Any) -> Given:
    return Given(Size(0, size), **others)


def number(value: int) -> Given:
    return Given(Size(1, 1), expr=Literal(0, 0, value))


def estimate(library: Library, name: str, *operands: Given) -> CallCost:
    costing = overload(library, name).estimate
    assert costing is not None
    return costing([*operands])


def measure(library: Library, name: str, *args: Any) -> int:
    one = overload(library, name)
    assert one.measure is not None
    return one.measure(args, one.impl(*args))
