"""The standard operators: arithmetic that refuses to overflow, comparison, equality, membership and index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.cel import types, values
from moorage.cel.errors import EvalError
from moorage.cel.library import Function, Overload
from moorage.cel.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT, Type
from moorage.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, UInt

_A, _B = types.param("A"), types.param("B")
_LIST, _MAP = types.list_of(_A), types.map_of(_A, _B)


def int_range(value: int) -> int:
    """The value when it is an int64."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvalError("integer overflow")


def uint_range(value: int) -> UInt:
    """The value as a uint when it is a uint64."""
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise EvalError("unsigned integer overflow")


def divide_int(a: int, b: int) -> int:
    """Division that rounds towards zero."""
    if b == 0:
        raise EvalError("division by zero")
    quotient = abs(a) // abs(b)
    return int_range(quotient if (a < 0) == (b < 0) else -quotient)


def modulo_int(a: int, b: int) -> int:
    """The remainder of that division: it has the sign of the dividend."""
    if b == 0:
        raise EvalError("modulus by zero")
    if a == INT_MIN and b == -1:
        raise EvalError("integer overflow")
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


def _divide_uint(a: int, b: int) -> UInt:
    if b == 0:
        raise EvalError("division by zero")
    return UInt(int(a) // int(b))


def _modulo_uint(a: int, b: int) -> UInt:
    if b == 0:
        raise EvalError("modulus by zero")
    return UInt(int(a) % int(b))


def divide_double(a: float, b: float) -> float:
    """Division as IEEE 754 has it: by zero it gives an infinity or NaN."""
    if b != 0:
        return a / b
    if a == 0 or a != a:
        return float("nan")
    negative = (str(a)[0] == "-") != (str(b)[0] == "-")
    return float("-inf") if negative else float("inf")


def multiply_double(a: float, b: float) -> float:
    """Multiplication of doubles."""
    return a * b


def index_list(elements: Any, index: Any) -> Any:
    """The element at an index, which may be any number that is whole."""
    position = whole(index)
    if position is None:
        kind = values.type_name(values.type_of_value(index))
        raise EvalError(f"unsupported index value: {index}" if kind == "double" else f"unsupported index type: {kind}")
    if not 0 <= position < len(elements):
        raise EvalError(f"index out of bounds: {position}")
    return elements[position]


def whole(value: Any) -> int | None:
    """A number that is whole as an int, None for everything else."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def index_map(mapping: dict[Any, Any], key: Any) -> Any:
    """The value of a key."""
    try:
        return mapping[values.to_key(key)]
    except KeyError:
        raise no_such_key(key) from None


def no_such_key(key: Any) -> EvalError:
    """The error of a key that a map does not have, or a field that an object does not have."""
    shown = str(key).lower() if isinstance(key, bool) else int(key) if isinstance(key, UInt) else key
    return EvalError(f"no such key: {shown}")


def in_list(value: Any, elements: list[Any]) -> bool:
    """Whether an equal element is in the list."""
    equal = values.equal
    return any(equal(value, element) for element in elements)


def in_map(key: Any, mapping: dict[Any, Any]) -> bool:
    """Whether the map has the key. What cannot be a key is in no map."""
    try:
        return values.to_key(key) in mapping
    except EvalError:
        return False


def add_list(a: Any, b: Any) -> list[Any]:
    """Both lists, one behind the other."""
    return [*a, *b]


def not_equal(a: Any, b: Any) -> bool:
    """The opposite of equal."""
    return not values.equal(a, b)


def _lazy(*_: Any) -> Any:
    raise EvalError("no such overload")


_ORDERED = {
    "bool": BOOL, "int64": INT, "uint64": UINT, "double": DOUBLE, "string": STRING, "bytes": BYTES,
    "timestamp": TIMESTAMP, "duration": DURATION,
}  # fmt: skip
_NUMERIC = ("int64", "uint64", "double")


def _comparison(name: str, prefix: str, test: Callable[[int], bool]) -> Function:
    def impl(a: Any, b: Any) -> bool:
        return test(values.compare(a, b))

    overloads: list[Overload] = []
    for kind, type_ in _ORDERED.items():
        overloads.append(Overload(f"{prefix}_{kind}", (type_, type_), BOOL, impl))
        overloads += (
            Overload(f"{prefix}_{kind}_{other}", (type_, _ORDERED[other]), BOOL, impl, cross_type=True)
            for other in _NUMERIC
            if kind in _NUMERIC and other != kind
        )
    return Function(name, tuple(overloads))


def _binary(name: str, *signatures: tuple[str, Type, Type, Type, Callable[[Any, Any], Any]]) -> Function:
    return Function(name, tuple(Overload(id_, (a, b), result, impl) for id_, a, b, result, impl in signatures))


OPERATORS = (
    Function("_?_:_", (Overload("conditional", (BOOL, _A, _A), _A, _lazy),)),
    Function("_&&_", (Overload("logical_and", (BOOL, BOOL), BOOL, _lazy),)),
    Function("_||_", (Overload("logical_or", (BOOL, BOOL), BOOL, _lazy),)),
    Function("!_", (Overload("logical_not", (BOOL,), BOOL, lambda value: not value),)),
    Function("@not_strictly_false", (Overload("not_strictly_false", (BOOL,), BOOL, lambda value: value is not False),)),
    Function("_==_", (Overload("equals", (_A, _A), BOOL, values.equal),)),
    Function("_!=_", (Overload("not_equals", (_A, _A), BOOL, not_equal),)),
    _binary(
        "_+_",
        ("add_bytes", BYTES, BYTES, BYTES, lambda a, b: a + b),
        ("add_double", DOUBLE, DOUBLE, DOUBLE, lambda a, b: a + b),
        ("add_duration_duration", DURATION, DURATION, DURATION, lambda a, b: Duration(a.nanos + b.nanos)),
        ("add_duration_timestamp", DURATION, TIMESTAMP, TIMESTAMP, lambda a, b: Timestamp(a.nanos + b.nanos)),
        ("add_timestamp_duration", TIMESTAMP, DURATION, TIMESTAMP, lambda a, b: Timestamp(a.nanos + b.nanos)),
        ("add_int64", INT, INT, INT, lambda a, b: int_range(a + b)),
        ("add_list", _LIST, _LIST, _LIST, add_list),
        ("add_string", STRING, STRING, STRING, lambda a, b: a + b),
        ("add_uint64", UINT, UINT, UINT, lambda a, b: uint_range(a + b)),
    ),
    _binary(
        "_-_",
        ("subtract_double", DOUBLE, DOUBLE, DOUBLE, lambda a, b: a - b),
        ("subtract_duration_duration", DURATION, DURATION, DURATION, lambda a, b: Duration(a.nanos - b.nanos)),
        ("subtract_int64", INT, INT, INT, lambda a, b: int_range(a - b)),
        ("subtract_timestamp_duration", TIMESTAMP, DURATION, TIMESTAMP, lambda a, b: Timestamp(a.nanos - b.nanos)),
        ("subtract_timestamp_timestamp", TIMESTAMP, TIMESTAMP, DURATION, lambda a, b: Duration(a.nanos - b.nanos)),
        ("subtract_uint64", UINT, UINT, UINT, lambda a, b: uint_range(a - b)),
    ),
    _binary(
        "_*_",
        ("multiply_double", DOUBLE, DOUBLE, DOUBLE, multiply_double),
        ("multiply_int64", INT, INT, INT, lambda a, b: int_range(a * b)),
        ("multiply_uint64", UINT, UINT, UINT, lambda a, b: uint_range(a * b)),
    ),
    _binary(
        "_/_",
        ("divide_double", DOUBLE, DOUBLE, DOUBLE, divide_double),
        ("divide_int64", INT, INT, INT, divide_int),
        ("divide_uint64", UINT, UINT, UINT, _divide_uint),
    ),
    _binary(
        "_%_",
        ("modulo_int64", INT, INT, INT, modulo_int),
        ("modulo_uint64", UINT, UINT, UINT, _modulo_uint),
    ),
    Function(
        "-_",
        (
            Overload("negate_double", (DOUBLE,), DOUBLE, lambda value: -value),
            Overload("negate_int64", (INT,), INT, lambda value: int_range(-value)),
        ),
    ),
    _comparison("_<_", "less", lambda order: order < 0),
    _comparison("_<=_", "less_equals", lambda order: order <= 0),
    _comparison("_>_", "greater", lambda order: order > 0),
    _comparison("_>=_", "greater_equals", lambda order: order >= 0),
    _binary("_[_]", ("index_list", _LIST, INT, _A, index_list), ("index_map", _MAP, _A, _B, index_map)),
    _binary("@in", ("in_list", _A, _LIST, BOOL, in_list), ("in_map", _A, _MAP, BOOL, in_map)),
)
