"""The syntax tree. Every node has an id, unique in its tree, and the offset of its position in the source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, eq=False)
class Literal:
    """A constant: None, bool, int, UInt, float, str or bytes."""

    id: int
    offset: int
    value: Any


@dataclass(slots=True, eq=False)
class Ident:
    """A name: a variable, an iteration variable or a type. A leading dot stays in the name."""

    id: int
    offset: int
    name: str


@dataclass(slots=True, eq=False)
class Select:
    """`operand.field`, or `has(operand.field)` when `test_only`. Optional selection (`.?`) is a Call of `_?._`."""

    id: int
    offset: int
    operand: Expr
    field: str
    test_only: bool = False


@dataclass(slots=True, eq=False)
class Call:
    """A function, a method (then `target` is its receiver) or an operator (`_+_`, `_[_]`, `_?_:_`, `!_`, `@in`)."""

    id: int
    offset: int
    function: str
    args: list[Expr]
    target: Expr | None = None


@dataclass(slots=True, eq=False)
class ListLiteral:
    """`[a, ?b]`; `optional` holds the indices of the elements marked with `?`."""

    id: int
    offset: int
    elements: list[Expr]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class MapEntry:
    """One `key: value` of a map literal, or one `field: value` of a message literal (then key is a str)."""

    id: int
    offset: int
    key: Any
    value: Expr
    optional: bool = False


@dataclass(slots=True, eq=False)
class MapLiteral:
    """`{key: value, ?key: value}`."""

    id: int
    offset: int
    entries: list[MapEntry]


@dataclass(slots=True, eq=False)
class Message:
    """`Name{field: value}`: parsed so that the checker can say that no such type is declared."""

    id: int
    offset: int
    name: str
    entries: list[MapEntry]


@dataclass(slots=True, eq=False)
class Comprehension:
    """What a macro that iterates expands to: a fold over `range`.

    `macro` keeps the call as it was written, so that the code generator can use a native loop and error messages can
    show what the person wrote. Its target and args are the unexpanded nodes.
    """

    id: int
    offset: int
    var: str
    var2: str | None
    range: Expr
    accu: str
    init: Expr
    condition: Expr
    step: Expr
    result: Expr
    macro: Call | None = field(default=None)


Expr = Literal | Ident | Select | Call | ListLiteral | MapLiteral | Message | Comprehension


def children(expr: Expr) -> list[Expr]:
    """The nodes directly below a node."""
    match expr:
        case Literal() | Ident():
            return []
        case Select():
            return [expr.operand]
        case Call():
            return [*expr.args, expr.target] if expr.target is not None else expr.args
        case ListLiteral():
            return expr.elements
        case MapLiteral():
            return [node for entry in expr.entries for node in (entry.key, entry.value)]
        case Message():
            return [entry.value for entry in expr.entries]
        case Comprehension():
            return [expr.range, expr.init, expr.condition, expr.step, expr.result]
