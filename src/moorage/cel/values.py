"""Values at run time that Python has no type for, and CEL's own equality, order and map keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from functools import total_ordering
from typing import Any
from zoneinfo import ZoneInfo

from moorage.bounded import remember_short
from moorage.cel import types
from moorage.cel.errors import EvalError
from moorage.cel.types import Type
from moorage.gotext import quote

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
UINT_MAX = 2**64 - 1

_SECOND = 10**9
_INFINITY = float("inf")
_UNITS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND,
}  # fmt: skip
_DURATION = re.compile(r"([+-]?)(0|(?:[0-9]*+(?:\.[0-9]*+)?[a-zµμ]++)++)")
_DURATION_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([a-zµμ]+)")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP_MIN = -62135596800 * _SECOND
_TIMESTAMP_MAX = 253402300800 * _SECOND - 1


class UInt(int):
    """An unsigned integer: the CEL type `uint`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


@total_ordering
class Duration:
    """A length of time in nanoseconds, within an int64."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        if not INT_MIN <= nanos <= INT_MAX:
            raise EvalError("duration overflow")
        self.nanos = nanos

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Read Go's form: `1h30m`, `-1.5s`, `0`."""
        match = _DURATION.fullmatch(text)
        if match is None:
            raise conversion_error(types.STRING, types.DURATION)
        total = 0
        for whole, fraction, unit in _DURATION_PART.findall(match[2]) if match[2] != "0" else ():
            if unit not in _UNITS or not (whole or fraction) or len(whole) > 19:
                raise conversion_error(types.STRING, types.DURATION)
            scale = _UNITS[unit]
            digits = fraction[:18]
            total += int(whole or "0") * scale
            # Go multiplies the fraction as a double; the last nanosecond depends on it.
            total += int(int(digits) * (scale / 10 ** len(digits))) if digits else 0
        if total > INT_MAX + (match[1] == "-"):
            raise conversion_error(types.STRING, types.DURATION)
        return cls(-total if match[1] == "-" else total)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanos == other.nanos

    def __lt__(self, other: Duration) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash((Duration, self.nanos))

    def __str__(self) -> str:
        # Go's Seconds() is whole + fraction in doubles, not one division.
        whole, rest = divmod(abs(self.nanos), _SECOND)
        return ("-" if self.nanos < 0 else "") + double_text(whole + rest / 1e9) + "s"

    def __repr__(self) -> str:
        return f'duration("{self}")'


@total_ordering
class Timestamp:
    """A point in time in nanoseconds since 1970, within the years 1 to 9999."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        if not _TIMESTAMP_MIN <= nanos <= _TIMESTAMP_MAX:
            raise EvalError("timestamp overflow")
        self.nanos = nanos

    @classmethod
    def parse(cls, text: str) -> Timestamp:
        """Read RFC 3339."""
        match = _TIMESTAMP.fullmatch(text)
        if match is None:
            raise conversion_error(types.STRING, types.TIMESTAMP)
        year, month, day, hour, minute, second = map(int, match.groups()[:6])
        offset = int(match[9] or 0) * 60 + int(match[10] or 0)
        if hour > 23 or minute > 59 or second > 59 or offset > 24 * 60 or int(match[10] or 0) > 59:
            raise conversion_error(types.STRING, types.TIMESTAMP)
        try:
            days = date(year, month, day).toordinal() - _EPOCH_DAY
        except ValueError:
            raise conversion_error(types.STRING, types.TIMESTAMP) from None
        minutes = (days * 24 + hour) * 60 + minute - (-offset if match[8] == "-" else offset)
        return cls((minutes * 60 + second) * _SECOND + int((match[7] or "0")[:9].ljust(9, "0")))

    def at(self, zone: str = "UTC") -> datetime:
        """The calendar time, to the microsecond, in a zone: a name such as `US/Central`, or an offset `-02:30`."""
        try:
            return (_EPOCH + timedelta(microseconds=self.nanos // 1000)).astimezone(_zone(zone))
        except OverflowError:
            raise EvalError("timestamp overflow") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __lt__(self, other: Timestamp) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash((Timestamp, self.nanos))

    def __str__(self) -> str:
        seconds, nanos = divmod(self.nanos, _SECOND)
        fraction = f".{nanos:09}".rstrip("0") if nanos else ""
        return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}".zfill(19) + fraction + "Z"

    def __repr__(self) -> str:
        return f'timestamp("{self}")'


@remember_short(1024)
def _zone(name: str) -> ZoneInfo | timezone:
    if name in ("", "UTC"):
        return UTC
    hours, colon, minutes = name.partition(":")
    if not colon:
        try:
            return ZoneInfo(name)
        except (ValueError, OSError, KeyError):
            raise EvalError(f"unknown time zone {name}") from None
    if not re.fullmatch(r"[+-]?[0-9]{1,2}", hours) or not re.fullmatch(r"[0-5]?[0-9]", minutes) or abs(int(hours)) > 23:
        raise EvalError(f"invalid time zone offset {quote(name)}")
    offset = int(hours) * 60 + (-int(minutes) if hours.startswith("-") else int(minutes))
    return timezone(timedelta(minutes=offset))


class Optional:
    """`optional.of(value)`, or `optional.none()` when not `present`."""

    __slots__ = ("_value", "present")

    def __init__(self, value: Any = None, *, present: bool = True) -> None:
        self._value = value
        self.present = present

    @property
    def value(self) -> Any:
        """What is inside; an error when there is nothing."""
        if not self.present:
            raise EvalError("optional.none() dereference")
        return self._value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Optional) or self.present != other.present:
            return False
        return equal(self._value, other._value)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"optional({self._value!r})" if self.present else "optional.none()"


NONE = Optional(present=False)


class BoolKey:
    """How a map holds a boolean key: Python's dict would take `True` for `1`."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "true" if self.value else "false"


_TRUE, _FALSE = BoolKey(True), BoolKey(False)


def to_key(value: Any) -> Any:
    """The dict key under which a map holds `value`. Numbers of all types are equal to each other, as in Python."""
    if value is True:
        return _TRUE
    if value is False:
        return _FALSE
    if isinstance(value, str | int | float):
        return value
    raise EvalError(f"unsupported key type: {type_name(type_of_value(value))}")


def from_key(key: Any) -> Any:
    """The value that a dict key stands for."""
    return key.value if type(key) is BoolKey else key


def keys(mapping: dict[Any, Any]) -> Iterator[Any]:
    """A map's keys as values."""
    return map(from_key, mapping)


def equal(a: Any, b: Any) -> bool:
    """CEL's equality: numbers compare across types, everything else of different types is unequal."""
    kind, other = type(a), type(b)
    if kind is not other:
        if kind in _NUMBERS and other in _NUMBERS:
            return float(a) == float(b) if kind is float or other is float else bool(a == b)
        return kind in _LISTS and other in _LISTS and _equal_lists(a, b)
    if kind in _LISTS:
        return _equal_lists(a, b)
    if kind is dict:
        return len(a) == len(b) and all(key in b and equal(value, b[key]) for key, value in a.items())
    if kind is Type:
        return bool(type_name(a) == type_name(b))
    return bool(a == b)


def _equal_lists(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(map(equal, a, b))


def compare(a: Any, b: Any) -> int:
    """-1, 0 or 1 for values that have an order; an error for others and for NaN."""
    kind, other = type(a), type(b)
    if kind in _NUMBERS and other in _NUMBERS:
        if kind is float or other is float:
            a, b = float(a), float(b)
            if a != a or b != b:
                raise EvalError("NaN values cannot be ordered")
    elif kind is not other or kind not in _ORDERED:
        raise EvalError("no such overload")
    return int(a > b) - int(a < b)


_NUMBERS = frozenset((int, UInt, float))
_LISTS = frozenset((list, tuple))
_ORDERED = frozenset((bool, str, bytes, Timestamp, Duration))

LIST, MAP, OPTIONAL = types.list_of(types.DYN), types.map_of(types.DYN, types.DYN), types.optional_of(types.DYN)

_RUNTIME_TYPES: dict[type, Type] = {
    type(None): types.NULL,
    bool: types.BOOL,
    int: types.INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    list: LIST,
    tuple: LIST,
    dict: MAP,
    Timestamp: types.TIMESTAMP,
    Duration: types.DURATION,
    Type: types.TYPE,
    Optional: OPTIONAL,
}


def register(python: type, cel: Type) -> None:
    """Say which CEL type the instances of a library's own class have."""
    _RUNTIME_TYPES[python] = cel


def type_of_value(value: Any) -> Type:
    """The type of a value as `type(value)` gives it: parameters are erased; a class nobody registered is dyn."""
    return _RUNTIME_TYPES.get(type(value), types.DYN)


def type_name(kind: Type) -> str:
    """A type's name as a value: `null_type` where the checker writes `null`."""
    return "null_type" if kind is types.NULL else kind.name


def is_zero(value: Any) -> bool:
    """Whether `optional.ofNonZeroValue` takes the value for nothing."""
    if isinstance(value, Timestamp):
        return value.nanos == _TIMESTAMP_MIN
    if isinstance(value, Duration):
        return value.nanos == 0
    if isinstance(value, Optional):
        return not value.present
    if value is None or isinstance(value, bool | int | float | str | bytes | list | tuple | dict):
        return not value
    return False


def conversion_error(source: Type, target: Type) -> EvalError:
    """The error of a conversion that the value does not allow."""
    return EvalError(f"type conversion error from '{source}' to '{target}'")


def double_text(value: float) -> str:
    """A double with the fewest digits and no exponent, as Go's `%f` of shortest precision prints it."""
    if value != value:
        return "NaN"
    if value in (_INFINITY, -_INFINITY):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, point = _digits(value)
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if point >= len(digits):
        return sign + digits.ljust(point, "0")
    return f"{sign}{digits[:point]}.{digits[point:]}"


def string_of_double(value: float) -> str:
    """A double as `string(value)` gives it: Go's `%g`, with an exponent below 1e-4 and from 1e6 on."""
    if value != value or value in (_INFINITY, -_INFINITY) or value == 0:
        return double_text(value)
    sign, digits, point = _digits(value)
    exponent = point - 1
    if -4 <= exponent < 6:
        return double_text(value)
    mantissa = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
    return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"


def _digits(value: float) -> tuple[str, str, int]:
    """Sign, shortest digits, and how many of them stand before the decimal point."""
    mantissa, _, exponent = repr(value).partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).rstrip("0") or "0"
    stripped = digits.lstrip("0") or "0"
    if stripped == "0":
        return sign, "0", 1
    return sign, stripped, len(whole) + int(exponent or 0) - (len(digits) - len(stripped))
