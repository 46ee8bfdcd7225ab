"""A syntax tree as CEL text again, to show a person a part of what they wrote."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from moorage.cel.ast import Call, Comprehension, Expr, Ident, ListLiteral, Literal, MapLiteral, Message, Select
from moorage.cel.values import Duration, Optional, Timestamp, UInt, double_text

_BINARY = {
    "_||_": ("||", 1), "_&&_": ("&&", 2), "_<_": ("<", 3), "_<=_": ("<=", 3), "_>_": (">", 3), "_>=_": (">=", 3),
    "_==_": ("==", 3), "_!=_": ("!=", 3), "@in": ("in", 3), "_+_": ("+", 4), "_-_": ("-", 4), "_*_": ("*", 5),
    "_/_": ("/", 5), "_%_": ("%", 5),
}  # fmt: skip
_CONDITIONAL, _UNARY, _PRIMARY = 0, 6, 7
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def unparse(expr: Expr, within: int = _CONDITIONAL) -> str:
    """The text of a node, in brackets where it stands beside operators that bind more tightly."""
    text, precedence = _TEXTS[type(expr)](expr)
    return f"({text})" if precedence < within else text


def literal(value: Any) -> str:
    """A value as CEL writes it."""
    shown = _VALUES.get(type(value))
    return shown(value) if shown else str(value)


def _double(value: float) -> str:
    text = double_text(value)
    return f"{text}.0" if text.lstrip("-").isdigit() else text


def _sequence(value: Iterable[Any]) -> str:
    return f"[{', '.join(map(literal, value))}]"


def _mapping(value: dict[Any, Any]) -> str:
    return f"{{{', '.join(f'{literal(key)}: {literal(held)}' for key, held in value.items())}}}"


def quoted(text: str) -> str:
    """A string literal in single quotes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in escaped) + "'"


_VALUES: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "null",
    bool: lambda value: str(value).lower(),
    UInt: lambda value: f"{int(value)}u",
    float: _double,
    str: quoted,
    bytes: lambda value: "b" + quoted(value.decode("latin-1")),
    list: _sequence,
    tuple: _sequence,
    dict: _mapping,
    Duration: lambda value: f"duration({quoted(str(value))})",
    Timestamp: lambda value: f"timestamp({quoted(str(value))})",
    Optional: lambda value: f"optional.of({literal(value.value)})" if value.present else "optional.none()",
}


def _call(expr: Call) -> tuple[str, int]:
    function, args = expr.function, expr.args
    if function in _BINARY:
        sign, precedence = _BINARY[function]
        return f"{unparse(args[0], precedence)} {sign} {unparse(args[1], precedence + 1)}", precedence
    if function == "_?_:_":
        test, then, otherwise = args
        return f"{unparse(test, 1)} ? {unparse(then, 1)} : {unparse(otherwise)}", _CONDITIONAL
    if function in ("!_", "-_"):
        return function[0] + unparse(args[0], _UNARY), _UNARY
    if function in ("_[_]", "_[?_]"):
        return f"{unparse(args[0], _PRIMARY)}[{'?' if '?' in function else ''}{unparse(args[1])}]", _PRIMARY
    if function == "_?._" and isinstance(args[1], Literal):
        return f"{unparse(args[0], _PRIMARY)}.?{args[1].value}", _PRIMARY
    receiver = f"{unparse(expr.target, _PRIMARY)}." if expr.target is not None else ""
    return f"{receiver}{function}({', '.join(map(unparse, args))})", _PRIMARY


def _select(expr: Select) -> tuple[str, int]:
    field = expr.field if _NAME.fullmatch(expr.field) else f"`{expr.field}`"
    text = f"{unparse(expr.operand, _PRIMARY)}.{field}"
    return (f"has({text})" if expr.test_only else text), _PRIMARY


def _list(expr: ListLiteral) -> tuple[str, int]:
    items = (
        f"{'?' if index in expr.optional else ''}{unparse(element)}" for index, element in enumerate(expr.elements)
    )
    return f"[{', '.join(items)}]", _PRIMARY


def _entries(expr: MapLiteral | Message) -> str:
    entries = (
        f"{'?' if entry.optional else ''}{entry.key if isinstance(entry.key, str) else unparse(entry.key)}: "
        f"{unparse(entry.value)}"
        for entry in expr.entries
    )
    return f"{{{', '.join(entries)}}}"


def _comprehension(expr: Comprehension) -> tuple[str, int]:
    return _call(expr.macro) if expr.macro is not None else ("a loop", _PRIMARY)


_TEXTS: dict[type, Callable[[Any], tuple[str, int]]] = {
    Literal: lambda expr: (literal(expr.value), _PRIMARY),
    Ident: lambda expr: (expr.name, _PRIMARY),
    Select: _select,
    Call: _call,
    ListLiteral: _list,
    MapLiteral: lambda expr: (_entries(expr), _PRIMARY),
    Message: lambda expr: (expr.name + _entries(expr), _PRIMARY),
    Comprehension: _comprehension,
}
