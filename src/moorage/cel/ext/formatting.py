"""What `format` does: templates with `%` clauses, in the dialects of the strings library before and from version 4."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from moorage.cel.ast import Expr, ListLiteral, MapLiteral
from moorage.cel.errors import EvalError
from moorage.cel.types import Type, TypeKind
from moorage.cel.values import (
    Duration,
    Timestamp,
    UInt,
    double_text,
    keys,
    string_of_double,
    to_key,
    type_name,
    type_of_value,
)
from moorage.gotext import quote

_PRECISION = 6
_PRECISION_MAX = 100
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

_NUMBERS = (TypeKind.INT, TypeKind.UINT, TypeKind.DOUBLE)
_TEXTS = (
    TypeKind.LIST,
    TypeKind.MAP,
    TypeKind.INT,
    TypeKind.UINT,
    TypeKind.DOUBLE,
    TypeKind.BOOL,
    TypeKind.STRING,
    TypeKind.TIMESTAMP,
    TypeKind.BYTES,
    TypeKind.DURATION,
    TypeKind.TYPE,
    TypeKind.NULL,
)


class Clause(NamedTuple):
    """What a `%` and a letter stand for: the types it takes, what is said about others, and how it renders a value."""

    kinds: tuple[TypeKind, ...]
    complaint: str
    render: Callable[[Any, int], str]


Dialect = dict[str, Clause]


def formatted(dialect: Dialect, template: str, args: Sequence[Any]) -> str:
    """The template with its clauses replaced by the arguments."""

    def render(letter: str, precision: int, index: int) -> str:
        clause, value = dialect[letter], args[index]
        try:
            if type_of_value(value).kind not in clause.kinds:
                raise _wrong_type(clause, type_of_value(value))
            return clause.render(value, precision)
        except EvalError as error:
            raise EvalError(f"error during formatting: {error}") from None

    return "".join(_pieces(dialect, template, len(args), render))


def problem(
    dialect: Dialect, template: str, args: list[Expr], types: dict[int, Type]
) -> tuple[Expr | None, str] | None:
    """What is wrong with a constant template for arguments of these types, and with which argument if with one."""
    wrong: list[Expr] = []
    used = 0

    def check(letter: str, _: int, index: int) -> str:
        nonlocal used
        used += 1
        clause = dialect[letter]
        node = _unfit(clause, args[index], types, deep=letter == "s")
        if node is not None:
            wrong.append(node)
            raise EvalError(f"error during formatting: {_wrong_type(clause, types[node.id])}")
        return ""

    try:
        for _ in _pieces(dialect, template, len(args), check):
            pass
    except EvalError as error:
        return (wrong[0] if wrong else None), str(error)
    if used < len(args):
        return None, f"too many arguments supplied to string.format (expected {used}, got {len(args)})"
    return None


def _pieces(dialect: Dialect, template: str, count: int, render: Callable[[str, int, int], str]) -> Sequence[str]:
    """The parts of the result: text as it is, and what `render` makes of a letter, a precision and an index."""
    pieces, index = [], 0
    text, percent, rest = template.partition("%")
    while percent:
        pieces.append(text)
        if rest.startswith("%"):
            pieces.append("%")
            rest = rest[1:]
        else:
            if index >= count:
                raise EvalError(f"index {index} out of range")
            letter, precision, rest = _clause(dialect, rest)
            pieces.append(render(letter, precision, index))
            index += 1
        text, percent, rest = rest.partition("%")
    return [*pieces, text]


def _clause(dialect: Dialect, text: str) -> tuple[str, int, str]:
    """The letter and precision that the text behind a `%` begins with, and the rest of the text."""
    if not text:
        raise EvalError("unexpected end of string")
    precision = _PRECISION
    if text.startswith("."):
        bare = text[1:].lstrip("0123456789")
        precision, text = _precision(text[1 : len(text) - len(bare)], bare), bare
    if text[0] not in dialect:
        raise EvalError(f'could not parse formatting clause: unrecognized formatting clause "{text[0]}"')
    return text[0], precision, text[1:]


def _precision(digits: str, rest: str) -> int:
    if not rest:
        reason = "could not find end of precision specifier"
    elif not digits:
        reason = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
    elif len(digits) > 9 or int(digits) > _PRECISION_MAX:
        reason = f"precision {digits} exceeds maximum allowed precision {_PRECISION_MAX}"
    else:
        return int(digits)
    raise EvalError(f"could not parse formatting clause: error while parsing precision: {reason}")


def _unfit(clause: Clause, node: Expr, types: dict[int, Type], deep: bool) -> Expr | None:
    """The node whose type the clause does not take: the argument or, for text, something inside a literal."""
    kind = types[node.id].kind
    if kind is not TypeKind.DYN and kind not in clause.kinds:
        return node
    inner: list[Expr] = []
    if deep and isinstance(node, ListLiteral):
        inner = node.elements
    elif deep and isinstance(node, MapLiteral):
        inner = [part for entry in node.entries for part in (entry.key, entry.value)]
    return next((wrong for part in inner if (wrong := _unfit(clause, part, types, deep)) is not None), None)


def _wrong_type(clause: Clause, actual: Type) -> EvalError:
    return EvalError(f"{clause.complaint}, was given {type_name(actual)}")


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvalError("invalid UTF-8 in bytes, cannot convert to string") from None


def _quoted_double(value: float) -> str:
    return f"{value:.6f}" if math.isfinite(value) else quote(string_of_double(value))


_TO_TEXT: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "null",
    bool: lambda value: "true" if value else "false",
    int: str,
    UInt: lambda value: str(int(value)),
    float: string_of_double,
    str: lambda value: value,
    bytes: _text_of_bytes,
    Timestamp: str,
    Duration: str,
    Type: type_name,
}
# Inside a list or a map a value is written so that CEL could read it back.
_TO_LITERAL: dict[type, Callable[[Any], str]] = {
    **_TO_TEXT,
    float: _quoted_double,
    str: quote,
    bytes: lambda value: "b" + quote(_text_of_bytes(value)),
    Timestamp: repr,
    Duration: repr,
}
_TO_PLAIN: dict[type, Callable[[Any], str]] = {
    **_TO_TEXT,
    float: lambda value: double_text(value) if math.isfinite(value) else _infinite(value),
    bytes: lambda value: value.decode("utf-8", "replace"),
}


def _first_text(value: Any, _: int) -> str:
    return _literal(value) if isinstance(value, list | tuple | dict) else _TO_TEXT[type(value)](value)


def _literal(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        entries = sorted((_literal_key(key), _literal(value[to_key(key)])) for key in keys(value))
        return "{" + ", ".join(f"{key}:{item}" for key, item in entries) + "}"
    if type(value) not in _TO_LITERAL:
        raise EvalError(f"no formatting function for {type_name(type_of_value(value))}")
    return _TO_LITERAL[type(value)](value)


def _literal_key(key: Any) -> str:
    if isinstance(key, float):
        raise EvalError("no formatting function for map key of type double")
    return _literal(key)


def _plain_text(value: Any, _: int = 0) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_plain_text, value))}]"
    if isinstance(value, dict):
        entries = sorted((_plain_text(key), _plain_text(value[to_key(key)])) for key in keys(value))
        return "{" + ", ".join(f"{key}: {item}" for key, item in entries) + "}"
    if type(value) not in _TO_PLAIN:
        raise _wrong_type(_PLAIN_TEXT, type_of_value(value))
    return _TO_PLAIN[type(value)](value)


def _infinite(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _localized_infinite(value: float) -> str:
    return "NaN" if value != value else "∞" if value > 0 else "-∞"


def _double(clause: str, value: Any) -> float:
    if isinstance(value, str):
        if value not in _NOT_FINITE:
            raise EvalError(f"{clause} clause can only be used on doubles, was given string")
        return _NOT_FINITE[value]
    return float(value)


def _localized_fixed(value: Any, precision: int) -> str:
    """As an English reader expects it: `1,234.500000`."""
    number = _double("fixed-point", value)
    # Zero has no sign there.
    return f"{number or 0.0:,.{precision}f}" if math.isfinite(number) else _localized_infinite(number)


def _localized_scientific(value: Any, precision: int) -> str:
    """As an English reader expects it: `1.234500 × 10⁰³`. Upstream takes the precision for a width."""
    number = _double("scientific", value)
    if not math.isfinite(number):
        return _localized_infinite(number).rjust(precision)
    mantissa, _, exponent = f"{number or 0.0:.6e}".partition("e")
    return f"{mantissa}\u202f×\u202f10{exponent.lstrip('+').translate(_SUPERSCRIPT)}".rjust(precision)


def _plain_fixed(value: Any, precision: int) -> str:
    number = float(value)
    return f"{number:.{precision}f}" if math.isfinite(number) else _infinite(number)


def _plain_scientific(value: Any, precision: int) -> str:
    number = float(value)
    return f"{number:.{precision}e}" if math.isfinite(number) else _infinite(number)


def _hexadecimal(value: Any, _: int) -> str:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").hex()
    return value.hex() if isinstance(value, bytes) else f"{value:x}"


_TEXT_COMPLAINT = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps"
)
_PLAIN_TEXT = Clause(_TEXTS, _TEXT_COMPLAINT, _plain_text)
_INTEGERS, _BITS = (TypeKind.INT, TypeKind.UINT), (TypeKind.INT, TypeKind.UINT, TypeKind.BOOL)
_BYTES = (TypeKind.INT, TypeKind.UINT, TypeKind.STRING, TypeKind.BYTES)
_DOUBLES = (TypeKind.DOUBLE, TypeKind.STRING)


def _dialect(text: Clause, decimal: Clause, fixed: Clause, scientific: Clause, integers: Sequence[str]) -> Dialect:
    binary, hexadecimal, octal = integers
    return {
        "s": text,
        "d": decimal,
        "f": fixed,
        "e": scientific,
        "b": Clause(_BITS, binary, lambda value, _: f"{int(value):b}"),
        "x": Clause(_BYTES, hexadecimal, _hexadecimal),
        "X": Clause(_BYTES, hexadecimal, lambda value, _: _hexadecimal(value, 0).upper()),
        "o": Clause(_INTEGERS, octal, lambda value, _: f"{int(value):o}"),
    }


LOCALIZED = _dialect(
    Clause(_TEXTS, _TEXT_COMPLAINT, _first_text),
    Clause(_INTEGERS, "decimal clause can only be used on integers", lambda value, _: str(int(value))),
    Clause(_DOUBLES, "fixed-point clause can only be used on doubles", _localized_fixed),
    Clause(_DOUBLES, "scientific clause can only be used on doubles", _localized_scientific),
    (
        "only integers and bools can be formatted as binary",
        "only integers, byte buffers, and strings can be formatted as hex",
        "octal clause can only be used on integers",
    ),
)
"""Up to version 3: numbers as English readers write them, lists and maps as CEL literals."""

PLAIN = _dialect(
    _PLAIN_TEXT,
    Clause(_NUMBERS, "decimal clause can only be used on ints, uints, and doubles", _plain_text),
    Clause(_NUMBERS, "fixed-point clause can only be used on ints, uints, and doubles", _plain_fixed),
    Clause(_NUMBERS, "scientific clause can only be used on ints, uints, and doubles", _plain_scientific),
    (
        "only ints, uints, and bools can be formatted as binary",
        "only ints, uints, bytes, and strings can be formatted as hex",
        "octal clause can only be used on ints and uints",
    ),
)
"""From version 4, as the CEL specification has it: no locale, no quotes."""
