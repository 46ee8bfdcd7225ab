"""CEL's standard library: operators, conversions, sizes, strings, and the parts of dates and durations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.cel import types, values
from moorage.cel.errors import EvalError
from moorage.cel.library import Function, Library, Overload
from moorage.cel.stdlib.conversions import CONVERSIONS
from moorage.cel.stdlib.operators import OPERATORS
from moorage.cel.stdlib.patterns import PatternError, pattern
from moorage.cel.syntax.macros import STANDARD, TWO_VARIABLES
from moorage.cel.types import BOOL, BYTES, DURATION, INT, STRING, TIMESTAMP, Type
from moorage.cel.values import Duration, Timestamp

_A, _B = types.param("A"), types.param("B")
_LIST, _MAP = types.list_of(_A), types.map_of(_A, _B)


def matches(text: str, expression: str) -> bool:
    """Whether a regular expression matches anywhere in the text."""
    return _search(_compiled(expression), text)


def _compiled(expression: str) -> Any:
    try:
        return pattern(expression)
    except PatternError as error:
        raise EvalError(str(error)) from None


def _search(compiled: Any, text: str) -> bool:
    try:
        return compiled.search(text) is not None
    except UnicodeError:
        raise EvalError("invalid UTF-8 in string") from None


def _bind_matches(constants: dict[int, Any]) -> Callable[[str], bool] | None:
    if set(constants) != {1}:
        return None
    compiled = _compiled(constants[1])
    return lambda text: _search(compiled, text)


def _sizes() -> Function:
    kinds = {"string": STRING, "bytes": BYTES, "list": _LIST, "map": _MAP}
    functions = (Overload(f"size_{name}", (kind,), INT, len) for name, kind in kinds.items())
    methods = (Overload(f"{name}_size", (kind,), INT, len, method=True) for name, kind in kinds.items())
    return Function("size", (*functions, *methods))


def _truncated(nanos: int, unit: int) -> int:
    return -(-nanos // unit) if nanos < 0 else nanos // unit


_Part = Callable[[Any], int]
_CALENDAR: dict[str, tuple[str, _Part]] = {
    "getFullYear": ("year", lambda at: at.year),
    "getMonth": ("month", lambda at: at.month - 1),
    "getDayOfYear": ("day_of_year", lambda at: at.timetuple().tm_yday - 1),
    "getDayOfMonth": ("day_of_month", lambda at: at.day - 1),
    "getDate": ("day_of_month_1_based", lambda at: at.day),
    "getDayOfWeek": ("day_of_week", lambda at: at.isoweekday() % 7),
    "getHours": ("hours", lambda at: at.hour),
    "getMinutes": ("minutes", lambda at: at.minute),
    "getSeconds": ("seconds", lambda at: at.second),
    "getMilliseconds": ("milliseconds", lambda at: at.microsecond // 1000),
}
_UNITS = {
    "getHours": ("hours", 3600 * 10**9),
    "getMinutes": ("minutes", 60 * 10**9),
    "getSeconds": ("seconds", 10**9),
    "getMilliseconds": ("milliseconds", 10**6),
}


def _time_part(name: str) -> Function:
    suffix, part = _CALENDAR[name]
    zoned = f"timestamp_to_{suffix}" + ("_tz" if suffix == "seconds" else "_with_tz")

    def in_utc(value: Timestamp) -> int:
        return part(value.at())

    def in_zone(value: Timestamp, zone: str) -> int:
        return part(value.at(zone))

    overloads = [
        Overload(f"timestamp_to_{suffix}", (TIMESTAMP,), INT, in_utc, method=True),
        Overload(zoned, (TIMESTAMP, STRING), INT, in_zone, method=True),
    ]
    if name in _UNITS:
        plural, unit = _UNITS[name]

        def of_duration(value: Duration) -> int:
            return _truncated(value.nanos, unit)

        overloads.append(Overload(f"duration_to_{plural}", (DURATION,), INT, of_duration, method=True))
    return Function(name, tuple(overloads))


def _text_test(name: str, overload: str, impl: Callable[[str, str], bool]) -> Function:
    return Function(name, (Overload(overload, (STRING, STRING), BOOL, impl, method=True),))


_TYPE_NAMES: dict[str, Type] = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "google.protobuf.Duration": types.DURATION,
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "int": types.INT,
    "list": values.LIST,
    "map": values.MAP,
    "null_type": types.NULL,
    "string": types.STRING,
    "type": types.TYPE,
    "uint": types.UINT,
}

STDLIB = Library(
    "stdlib",
    functions=(
        *OPERATORS,
        *CONVERSIONS,
        _sizes(),
        _text_test("contains", "contains_string", lambda text, part: part in text),
        _text_test("endsWith", "ends_with_string", str.endswith),
        _text_test("startsWith", "starts_with_string", str.startswith),
        Function(
            "matches",
            (
                Overload("matches", (STRING, STRING), BOOL, matches, bind=_bind_matches),
                Overload("matches_string", (STRING, STRING), BOOL, matches, method=True, bind=_bind_matches),
            ),
        ),
        *map(_time_part, _CALENDAR),
    ),
    macros=STANDARD,
    types=_TYPE_NAMES,
)


def _insert(mapping: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    held = values.to_key(key)
    if held in mapping:
        raise EvalError(f"insert failed: key {key} already exists")
    return {**mapping, held: value}


def _insert_all(mapping: dict[Any, Any], entries: dict[Any, Any]) -> dict[Any, Any]:
    for key in entries:
        if key in mapping:
            raise EvalError(f"insert failed: key {values.from_key(key)} already exists")
    return {**mapping, **entries}


TWO_VARIABLE_COMPREHENSIONS = Library(
    "two-variable comprehensions",
    functions=(
        Function(
            "cel.@mapInsert",
            (
                Overload("@mapInsert_map_key_value", (_MAP, _A, _B), _MAP, _insert),
                Overload("@mapInsert_map_map", (_MAP, _MAP), _MAP, _insert_all),
            ),
        ),
    ),
    macros=TWO_VARIABLES,
)
