"""Conversions between types, reading text as Go's strconv does."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from moorage.cel import types, values
from moorage.cel.errors import EvalError
from moorage.cel.library import Function, Overload
from moorage.cel.stdlib.operators import int_range, uint_range
from moorage.cel.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT, Type
from moorage.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, UInt, conversion_error

_INT = re.compile(r"[+-]?[0-9]+")
_UINT = re.compile(r"[0-9]+")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_HEX_DOUBLE = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]++(?:\.[0-9a-fA-F]*+)?|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++")
_NOT_FINITE = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)
_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_INFINITIES = (float("inf"), float("-inf"))


def int_of_string(text: str) -> int:
    """An int64 in decimal, with or without a sign."""
    # The length test keeps int() from very long numbers, which it is slow at and refuses beyond 4,300 digits.
    if _INT.fullmatch(text) and len(text.lstrip("+-").lstrip("0")) <= 19:
        number = int(text)
        if INT_MIN <= number <= INT_MAX:
            return number
    raise conversion_error(STRING, INT)


def _uint_of_string(text: str) -> UInt:
    if _UINT.fullmatch(text) and len(text.lstrip("0")) <= 20:
        number = int(text.lstrip("0") or "0")
        if number <= UINT_MAX:
            return UInt(number)
    raise conversion_error(STRING, UINT)


def double_of_string(text: str) -> float:
    """A double in decimal or hexadecimal, `inf`, or `nan`; not one too large for a double."""
    if _NOT_FINITE.fullmatch(text):
        return float(text)
    if _DOUBLE.fullmatch(text):
        number = float(text)
    elif _HEX_DOUBLE.fullmatch(text):
        number = _hexadecimal(text)
    else:
        raise conversion_error(STRING, DOUBLE)
    if number in _INFINITIES:
        raise conversion_error(STRING, DOUBLE)
    return number


def _hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        raise conversion_error(STRING, DOUBLE) from None


def _bool_of_string(text: str) -> bool:
    if text not in _BOOLS:
        raise conversion_error(STRING, BOOL)
    return _BOOLS[text]


def _int_of_double(value: float) -> int:
    if not -(2.0**63) < value < 2.0**63:
        raise EvalError("integer overflow")
    return int(value)


def _uint_of_double(value: float) -> UInt:
    if not 0 <= value < 2.0**64:
        raise EvalError("unsigned integer overflow")
    return UInt(int(value))


def _string_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvalError("invalid UTF-8 in bytes, cannot convert to string") from None


def bytes_of_string(text: str) -> bytes:
    """The UTF-8 encoding."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise conversion_error(STRING, BYTES) from None


def _identity(value: Any) -> Any:
    return value


def _conversion(name: str, result: Type, *signatures: tuple[str, Type, Callable[[Any], Any]]) -> Function:
    return Function(name, tuple(Overload(id_, (source,), result, impl) for id_, source, impl in signatures))


_A = types.param("A")

CONVERSIONS = (
    _conversion("bool", BOOL, ("bool_to_bool", BOOL, _identity), ("string_to_bool", STRING, _bool_of_string)),
    _conversion("bytes", BYTES, ("bytes_to_bytes", BYTES, _identity), ("string_to_bytes", STRING, bytes_of_string)),
    _conversion(
        "double",
        DOUBLE,
        ("double_to_double", DOUBLE, _identity),
        ("int64_to_double", INT, float),
        ("string_to_double", STRING, double_of_string),
        ("uint64_to_double", UINT, float),
    ),
    _conversion(
        "duration",
        DURATION,
        ("duration_to_duration", DURATION, _identity),
        ("string_to_duration", STRING, Duration.parse),
    ),
    _conversion("dyn", types.DYN, ("to_dyn", _A, _identity)),
    _conversion(
        "int",
        INT,
        ("int64_to_int64", INT, _identity),
        ("double_to_int64", DOUBLE, _int_of_double),
        ("duration_to_int64", DURATION, lambda value: value.nanos),
        ("string_to_int64", STRING, int_of_string),
        ("timestamp_to_int64", TIMESTAMP, lambda value: value.nanos // 10**9),
        ("uint64_to_int64", UINT, lambda value: int_range(int(value))),
    ),
    _conversion(
        "string",
        STRING,
        ("string_to_string", STRING, _identity),
        ("bool_to_string", BOOL, lambda value: "true" if value else "false"),
        ("bytes_to_string", BYTES, _string_of_bytes),
        ("double_to_string", DOUBLE, values.string_of_double),
        ("duration_to_string", DURATION, str),
        ("int64_to_string", INT, str),
        ("timestamp_to_string", TIMESTAMP, str),
        ("uint64_to_string", UINT, lambda value: str(int(value))),
    ),
    _conversion(
        "timestamp",
        TIMESTAMP,
        ("timestamp_to_timestamp", TIMESTAMP, _identity),
        ("int64_to_timestamp", INT, lambda value: Timestamp(value * 10**9)),
        ("string_to_timestamp", STRING, Timestamp.parse),
    ),
    _conversion(
        "uint",
        UINT,
        ("uint64_to_uint64", UINT, _identity),
        ("double_to_uint64", DOUBLE, _uint_of_double),
        ("int64_to_uint64", INT, uint_range),
        ("string_to_uint64", STRING, _uint_of_string),
    ),
    _conversion("type", types.type_of(_A), ("type", _A, values.type_of_value)),
)
