"""Which keys of a map an expression reads, so that it need not be evaluated again for maps that agree on them."""

from __future__ import annotations

from collections.abc import Mapping

from moorage.cel.ast import Call, Comprehension, Expr, Ident, ListLiteral, Literal, Select, children
from moorage.cel.check.checker import Checked

_LOOKUPS = frozenset(("_[_]", "_[?_]", "_?._"))

Constants = frozenset[str]
LoopVariables = Mapping[str, Constants | None]
"""Iteration variables: the strings that one runs over when they are written out, else None."""


def reads(checked: Checked, path: tuple[str, ...]) -> Constants | None:
    """The keys of the map at `path`, such as ("node", "labels"), that the result can depend on; None means any of them.

    The value of a key, its presence and any error from its absence count alike. Whatever is not plainly a look-up of
    constant keys counts as reading all: the map in a loop, in a comparison, in a variable of its own.
    """
    read: set[str] = set()
    pending: list[tuple[Expr, LoopVariables]] = [(checked.expr, {})]
    while pending:
        expr, loops = pending.pop()
        place = _place(checked, expr)
        if place is None:
            keys = _look_up(checked, expr, loops, path)
            if keys is None:
                pending += _below(expr, loops)
            else:
                read |= keys
        elif len(place) > len(path) and place[: len(path)] == path:
            read.add(place[len(path)])
        elif path[: len(place)] == place:
            return None
    return frozenset(read)


def unguarded(checked: Checked, path: tuple[str, ...]) -> Constants:
    """The constant keys whose absence from the map at `path` is an error: looked up, and tested nowhere."""
    needed: set[str] = set()
    tested: set[str] = set()
    pending = [checked.expr]
    while pending:
        expr = pending.pop()
        pending += children(expr)
        match expr:
            case Call(function="@in", args=[Literal(value=str(key)), operand]):
                kept_in = tested
            case Call(function="_[_]", args=[operand, Literal(value=str(key))]):
                kept_in = needed
            case Select(operand=operand, field=key, test_only=test_only):
                kept_in = tested if test_only else needed
            case _:
                continue
        if _place(checked, operand) == path:
            kept_in.add(key)
    return frozenset(needed - tested)


def among(checked: Checked, path: tuple[str, ...]) -> Constants | None:
    """The strings of which the value at `path` must be one for the expression to be true; None when any may do."""
    return _among(checked, checked.expr, path)


def _among(checked: Checked, expr: Expr, path: tuple[str, ...]) -> Constants | None:
    match expr:
        case Call(function="_&&_", args=[left, right]):
            one, other = _among(checked, left, path), _among(checked, right, path)
            return one & other if one is not None and other is not None else one if other is None else other
        case Call(function="_||_", args=[left, right]):
            one, other = _among(checked, left, path), _among(checked, right, path)
            return None if one is None or other is None else one | other
        case Call(function="_==_", args=[Literal(value=str(value)), operand] | [operand, Literal(value=str(value))]):
            return frozenset((value,)) if _place(checked, operand) == path else None
        case Call(function="@in", args=[operand, ListLiteral() as values]):
            return _constants(values) if _place(checked, operand) == path else None
        case Literal(value=False):
            return frozenset()
    return None


def _place(checked: Checked, expr: Expr) -> tuple[str, ...] | None:
    """The variable and the fields that a chain of selections names; None for any other expression."""
    fields: list[str] = []
    while expr.id not in checked.names:
        match expr:
            case Select(operand=operand, field=field):
                fields.append(field)
            case Call(function="_?._", args=[operand, Literal(value=str(field))]):
                fields.append(field)
            case _:
                return None
        expr = operand
    return (*checked.names[expr.id].split("."), *reversed(fields))


def _look_up(checked: Checked, expr: Expr, loops: LoopVariables, path: tuple[str, ...]) -> Constants | None:
    """The constant keys that an expression itself takes from the map; None when it does something else."""
    match expr:
        case Call(function=function, args=[operand, key]) if function in _LOOKUPS:
            pass
        case Call(function="@in", args=[key, operand]):
            pass
        case _:
            return None
    if _place(checked, operand) != path:
        return None
    match key:
        case Literal(value=str(value)):
            return frozenset((value,))
        case Ident(name=name) if key.id not in checked.names:
            return loops.get(name)
    return None


def _below(expr: Expr, loops: LoopVariables) -> list[tuple[Expr, LoopVariables]]:
    if not isinstance(expr, Comprehension):
        return [(child, loops) for child in children(expr)]
    result = {**loops, expr.accu: None}
    values = _constants(expr.range)
    loop = {**result, expr.var: values}
    if expr.var2 is not None:
        loop.update({expr.var: None, expr.var2: values})
    outer, inner = [expr.range, expr.init], [expr.condition, expr.step]
    return [*((child, loops) for child in outer), *((child, loop) for child in inner), (expr.result, result)]


def _constants(expr: Expr) -> Constants | None:
    """The elements of a list of written out strings."""
    if not isinstance(expr, ListLiteral):
        return None
    values = [element.value for element in expr.elements if isinstance(element, Literal)]
    if len(values) < len(expr.elements) or not all(isinstance(value, str) for value in values):
        return None
    return frozenset(values)
