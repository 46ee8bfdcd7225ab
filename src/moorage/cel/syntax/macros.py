"""Macros: calls that the parser replaces by other expressions before anything is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moorage.cel.ast import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    Message,
    Select,
)

ACCUMULATOR = "@result"
UNUSED = "#unused"
COPIES_MAX = 20_000
"""How large a tree may get by copying: a chain of macros that copy their receiver doubles with every link."""


class MacroError(Exception):
    """The arguments of a macro are not of the form it needs."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


class Expander:
    """Makes the nodes of an expansion: each with a fresh id, all at the position of the macro."""

    __slots__ = ("_new_id", "offset")

    def __init__(self, new_id: Callable[[], int], offset: int) -> None:
        self._new_id = new_id
        self.offset = offset

    def literal(self, value: Any) -> Expr:
        """A constant."""
        return Literal(self._new_id(), self.offset, value)

    def ident(self, name: str) -> Expr:
        """A name."""
        return Ident(self._new_id(), self.offset, name)

    def accu(self) -> Expr:
        """The accumulator of the enclosing comprehension."""
        return Ident(self._new_id(), self.offset, ACCUMULATOR)

    def call(self, function: str, *args: Expr) -> Expr:
        """A call of a function or operator."""
        return Call(self._new_id(), self.offset, function, list(args))

    def method(self, function: str, target: Expr, *args: Expr) -> Expr:
        """A call of a method."""
        return Call(self._new_id(), self.offset, function, list(args), target)

    def list_of(self, *elements: Expr) -> Expr:
        """A list literal."""
        return ListLiteral(self._new_id(), self.offset, [*elements])

    def empty_map(self) -> Expr:
        """An empty map literal."""
        return MapLiteral(self._new_id(), self.offset, [])

    def has(self, operand: Expr, field: str) -> Expr:
        """A test for the presence of a field."""
        return Select(self._new_id(), self.offset, operand, field, test_only=True)

    def fold(
        self,
        var: str,
        range_: Expr,
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr | None = None,
        *,
        var2: str | None = None,
        accu: str = ACCUMULATOR,
    ) -> Expr:
        """A comprehension. Without a `result` it is the accumulator."""
        result = result or self.accu()
        return Comprehension(self._new_id(), self.offset, var, var2, range_, accu, init, condition, step, result)

    def let(self, name: str, value: Expr, body: Expr) -> Expr:
        """`body` with `name` standing for `value`: a fold over nothing whose accumulator is the name."""
        return self.fold(UNUSED, self.list_of(), value, self.literal(False), self.ident(name), body, accu=name)

    def copy(self, expr: Expr) -> Expr:
        """The same expression again, with fresh ids, for a macro that uses an argument twice."""
        new = self._new_id()
        if new > COPIES_MAX:
            raise MacroError(self.offset, f"macro expansion limit exceeded: {COPIES_MAX} nodes")
        return _COPIES[type(expr)](self, new, expr)

    def copy_all(self, exprs: list[Expr]) -> list[Expr]:
        """Copies of several expressions."""
        return [self.copy(expr) for expr in exprs]

    def copy_entries(self, entries: list[MapEntry]) -> list[MapEntry]:
        """Copies of the entries of a map or message literal."""
        return [
            MapEntry(
                self._new_id(),
                entry.offset,
                entry.key if isinstance(entry.key, str) else self.copy(entry.key),
                self.copy(entry.value),
                entry.optional,
            )
            for entry in entries
        ]


def _copy_call(make: Expander, new: int, expr: Any) -> Expr:
    target = make.copy(expr.target) if expr.target is not None else None
    return Call(new, expr.offset, expr.function, make.copy_all(expr.args), target)


def _copy_comprehension(make: Expander, new: int, expr: Any) -> Expr:
    parts = make.copy_all([expr.range, expr.init, expr.condition, expr.step, expr.result])
    range_, init, condition, step, result = parts
    return Comprehension(
        new, expr.offset, expr.var, expr.var2, range_, expr.accu, init, condition, step, result, expr.macro
    )


_COPIES: dict[type, Callable[[Expander, int, Any], Expr]] = {
    Literal: lambda _, new, e: Literal(new, e.offset, e.value),
    Ident: lambda _, new, e: Ident(new, e.offset, e.name),
    Select: lambda make, new, e: Select(new, e.offset, make.copy(e.operand), e.field, e.test_only),
    Call: _copy_call,
    ListLiteral: lambda make, new, e: ListLiteral(new, e.offset, make.copy_all(e.elements), e.optional),
    MapLiteral: lambda make, new, e: MapLiteral(new, e.offset, make.copy_entries(e.entries)),
    Message: lambda make, new, e: Message(new, e.offset, e.name, make.copy_entries(e.entries)),
    Comprehension: _copy_comprehension,
}

Expansion = Callable[[Expander, Any, list[Expr]], Expr | None]


@dataclass(frozen=True, slots=True)
class Macro:
    """A call of this name, number of arguments and style is replaced by what `expand` makes of it.

    `expand` gets the receiver (None for a function) and the arguments. None means that the call stays a call;
    MacroError that the arguments are of the wrong form.
    """

    name: str
    args: int
    expand: Expansion
    method: bool = True


def variable(arg: Expr, message: str = "argument must be a simple name") -> str:
    """The name that an argument declares."""
    if not isinstance(arg, Ident):
        raise MacroError(arg.offset, message)
    if arg.name in (ACCUMULATOR, "__result__"):
        raise MacroError(arg.offset, "iteration variable overwrites accumulator variable")
    return arg.name


def variables(args: list[Expr]) -> tuple[str, str]:
    """The two names that a two-variable macro declares."""
    first, second = variable(args[0]), variable(args[1])
    if first == second:
        raise MacroError(args[1].offset, f"duplicate variable name: {first}")
    return first, second


def _has(make: Expander, _: Any, args: list[Expr]) -> Expr:
    if not isinstance(args[0], Select):
        raise MacroError(args[0].offset, "invalid argument to has() macro")
    return make.has(args[0].operand, args[0].field)


def _all(make: Expander, target: Any, var: str, var2: str | None, args: list[Expr]) -> Expr:
    condition = make.call("@not_strictly_false", make.accu())
    step = make.call("_&&_", make.accu(), args[0])
    return make.fold(var, target, make.literal(True), condition, step, var2=var2)


def _exists(make: Expander, target: Any, var: str, var2: str | None, args: list[Expr]) -> Expr:
    condition = make.call("@not_strictly_false", make.call("!_", make.accu()))
    step = make.call("_||_", make.accu(), args[0])
    return make.fold(var, target, make.literal(False), condition, step, var2=var2)


def _exists_one(make: Expander, target: Any, var: str, var2: str | None, args: list[Expr]) -> Expr:
    step = make.call("_?_:_", args[0], make.call("_+_", make.accu(), make.literal(1)), make.accu())
    result = make.call("_==_", make.accu(), make.literal(1))
    return make.fold(var, target, make.literal(0), make.literal(True), step, result, var2=var2)


def _map(make: Expander, target: Any, var: str, var2: str | None, args: list[Expr]) -> Expr:
    step = make.call("_+_", make.accu(), make.list_of(args[-1]))
    step = _when(make, args, step)
    return make.fold(var, target, make.list_of(), make.literal(True), step, var2=var2)


def _filter(make: Expander, target: Any, var: str, var2: str | None, args: list[Expr]) -> Expr:
    step = make.call("_+_", make.accu(), make.list_of(make.ident(var)))
    step = make.call("_?_:_", args[0], step, make.accu())
    return make.fold(var, target, make.list_of(), make.literal(True), step, var2=var2)


def _transform_map(make: Expander, target: Any, var: str, var2: str | None, args: list[Expr]) -> Expr:
    step = _when(make, args, make.call("cel.@mapInsert", make.accu(), make.ident(var), args[-1]))
    return make.fold(var, target, make.empty_map(), make.literal(True), step, var2=var2)


def _transform_entry(make: Expander, target: Any, var: str, var2: str | None, args: list[Expr]) -> Expr:
    step = _when(make, args, make.call("cel.@mapInsert", make.accu(), args[-1]))
    return make.fold(var, target, make.empty_map(), make.literal(True), step, var2=var2)


def _when(make: Expander, args: list[Expr], step: Expr) -> Expr:
    return make.call("_?_:_", args[0], step, make.accu()) if len(args) == 2 else step


_Body = Callable[[Expander, Any, str, str | None, list[Expr]], Expr]


def _one(body: _Body, message: str) -> Expansion:
    return lambda make, target, args: body(make, target, variable(args[0], message), None, args[1:])


def _two(body: _Body) -> Expansion:
    return lambda make, target, args: body(make, target, *variables(args), args[2:])


_SIMPLE, _IDENTIFIER = "argument must be a simple name", "argument is not an identifier"

STANDARD = (
    Macro("has", 1, _has, method=False),
    Macro("all", 2, _one(_all, _SIMPLE)),
    Macro("exists", 2, _one(_exists, _SIMPLE)),
    Macro("exists_one", 2, _one(_exists_one, _SIMPLE)),
    Macro("existsOne", 2, _one(_exists_one, _SIMPLE)),
    Macro("map", 2, _one(_map, _IDENTIFIER)),
    Macro("map", 3, _one(_map, _IDENTIFIER)),
    Macro("filter", 2, _one(_filter, _IDENTIFIER)),
)

TWO_VARIABLES = (
    Macro("all", 3, _two(_all)),
    Macro("exists", 3, _two(_exists)),
    Macro("existsOne", 3, _two(_exists_one)),
    Macro("exists_one", 3, _two(_exists_one)),
    Macro("transformList", 3, _two(_map)),
    Macro("transformList", 4, _two(_map)),
    Macro("transformMap", 3, _two(_transform_map)),
    Macro("transformMap", 4, _two(_transform_map)),
    Macro("transformMapEntry", 3, _two(_transform_entry)),
    Macro("transformMapEntry", 4, _two(_transform_entry)),
)
