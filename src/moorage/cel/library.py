"""What a library is made of: functions with their overloads, each with a signature, an implementation and a cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from moorage.cel.ast import Call, Expr
from moorage.cel.errors import EvalError
from moorage.cel.syntax.macros import Macro
from moorage.cel.types import Type

UNBOUNDED = 2**64 - 1
"""The largest size or cost; all arithmetic on estimates saturates here."""


Hints = Mapping[tuple[str, ...], int]
"""Largest sizes of what variables hold, by path: ("node", "labels"), ("node", "labels", "@keys").

A path is a variable, then field names, `@items` of a list, `@keys` and `@values` of a map.
"""


class Size(NamedTuple):
    """Bounds of a length: characters of a string, bytes, elements of a list, entries of a map."""

    min: int
    max: int


class Cost(NamedTuple):
    """Bounds of a cost, in cel-go's units."""

    min: int
    max: int


class CallCost(NamedTuple):
    """What a call costs beyond evaluating its operands, and how large its result can be, when that is known.

    `element` bounds the size of the elements of a result that is a list (or of the values of a map).
    """

    cost: Cost
    size: Size | None = None
    element: Size | None = None


class Operand(Protocol):
    """One operand of a call as the estimator sees it."""

    @property
    def expr(self) -> Expr:
        """The syntax node."""

    @property
    def type(self) -> Type:
        """The checked type."""

    @property
    def size(self) -> Size:
        """Bounds of the operand's own size; (0, UNBOUNDED) when nothing is known."""

    @property
    def element(self) -> Size:
        """Bounds of the size of its elements (of a list) or values (of a map)."""


Estimate = Callable[[list[Operand]], CallCost]
"""Static cost of a call. A method's receiver is the first operand."""

Measure = Callable[[tuple[Any, ...], Any], int]
"""Cost of a call that happened, from its arguments (receiver first) and its result."""

Bind = Callable[[dict[int, Any]], Callable[..., Any] | None]
"""Given the arguments that are constants, by position, an implementation that takes only the others, or None.

It may raise EvalError when a constant is bad: then `impl` is called, and raises, when the expression is evaluated.
"""

Check = Callable[[Call, dict[int, Type]], tuple[Expr, str] | None]
"""Given a call and the types of all nodes, the node that makes the call certain to fail and why, or None."""


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function. `args` includes the receiver of a method as its first element.

    `impl` takes exactly `args` and raises EvalError. Without `estimate` and `measure` a call costs 1. `bind` prepares
    what constants allow ahead of time: a compiled regular expression, a parsed version constraint. `check` is asked
    once the expression has been type-checked: a template of `format` must fit its arguments.
    """

    id: str
    args: tuple[Type, ...]
    result: Type
    impl: Callable[..., Any]
    method: bool = False
    estimate: Estimate | None = None
    measure: Measure | None = None
    bind: Bind | None = None
    check: Check | None = None
    cross_type: bool = False
    """Whether it compares numbers of different types, which an environment may leave out."""


@dataclass(frozen=True, slots=True)
class Function:
    """A name and what it can be applied to, in the order in which overloads are tried."""

    name: str
    overloads: tuple[Overload, ...]


def define(
    name: str, args: tuple[Type, ...], result: Type, implementation: Callable[..., Any], *, method: bool = False
) -> Function:
    """A function of one's own that costs 1; a method's receiver is the first of `args`.

    Whatever the implementation raises is an error of evaluation, as CEL has them: `failing() || true` is true.
    """

    def call(*values: Any) -> Any:
        try:
            return implementation(*values)
        except EvalError:
            raise
        except Exception as error:
            raise EvalError(f"{name}: {error}") from error

    overload = Overload("_".join((name, *map(str, args))), args, result, call, method)
    return Function(name, (overload,))


@dataclass(frozen=True, slots=True)
class Library:
    """A named set of functions, macros and types that an environment can include."""

    name: str
    functions: tuple[Function, ...] = ()
    macros: tuple[Macro, ...] = ()
    types: dict[str, Type] = field(default_factory=dict)
    """Type names that expressions may mention, such as `net.IP`."""
