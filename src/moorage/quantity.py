"""Resource quantities such as `100m`, `1.5Gi` and `1e3`: exact numbers that Kubernetes reads and prints."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from functools import lru_cache

from moorage.gotext import SPACE


class Format(Enum):
    """The family of suffixes that a quantity was written with and is printed with."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class QuantityError(ValueError):
    """The text is not a quantity; the message says which part of it is wrong."""


_NANO = 10**9
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_MAX_DIGITS = 1000
_MAX_CACHED = 64

_DECIMAL_SUFFIXES = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_SUFFIX = ("", *_BINARY_SUFFIXES)

# Possessive, or a megabyte of digits before a wrong character would be tried in every split.
_PARTS = re.compile(r"([+-]?+)(0*+)([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[-+]?+[0-9]*+)")
_EXPONENT = re.compile(r"[eE]([-+]?+)(?=[0-9])0*+([0-9]*+)")

_WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_NUMBER = "unable to parse numeric part of quantity"
_WRONG_SUFFIX = "unable to parse quantity's suffix"
_TOO_LONG = f"quantities of more than {_MAX_DIGITS} digits are not supported"


@dataclass(frozen=True, slots=True, order=True, repr=False)
class Quantity:
    """A number of billionths. Order, equality and hash are those of the number, however it was written."""

    nano: int
    format: Format = field(default=Format.DECIMAL_SI, compare=False)
    # Kubernetes holds a short number as an int64 times 10**scale and any other as a big decimal. Only the former may
    # count as an integer, and the power of ten decides how a float is rounded, so both are observable from CEL.
    scale: int = field(default=-9, compare=False)
    is_int64: bool = field(default=False, compare=False)
    text: str = field(default="", compare=False)

    @staticmethod
    def parse(text: str) -> Quantity:
        """Read a quantity as Kubernetes does: rounded up to a billionth, and capped at 2**63-1 with a binary suffix."""
        return _parse_cached(text) if len(text) <= _MAX_CACHED else _parse(text)

    @staticmethod
    def of(value: str | int | float) -> Quantity:
        """Read a quantity from a JSON value: a string, spaces around it allowed, or a number."""
        if isinstance(value, str):
            return Quantity.parse(value.strip(SPACE))
        if isinstance(value, bool):
            raise QuantityError(_WRONG_FORMAT)
        if isinstance(value, float):
            return Quantity.parse(_json_number(value))
        return Quantity.integer(value)

    @staticmethod
    def integer(value: int, format: Format = Format.DECIMAL_SI) -> Quantity:  # noqa: A002
        """The quantity of a whole number, to be printed in the given format."""
        if abs(value) >= 10**_MAX_DIGITS:
            raise QuantityError(_TOO_LONG)
        return Quantity(value * _NANO, format, 0, _INT64_MIN <= value <= _INT64_MAX)

    def value(self) -> int:
        """The number, rounded away from zero to a whole one."""
        return _away_from_zero(self.nano, _NANO)

    def milli_value(self) -> int:
        """The number of thousandths, rounded away from zero to a whole one."""
        return _away_from_zero(self.nano, 10**6)

    def as_int64(self) -> int | None:
        """The number if Kubernetes holds it as a whole int64, else None: `1Pi` and `1000m` are not, `1T` is."""
        if not self.is_int64 or self.scale < 0:
            return None
        number = self.nano // _NANO
        return number if _INT64_MIN <= number <= _INT64_MAX else None

    def is_integer(self) -> bool:
        """Whether `as_integer` gives a number."""
        return self.as_int64() is not None

    def as_integer(self) -> int:
        """The number as an int64, or a QuantityError if it is too large or has a fraction."""
        number = self.as_int64()
        if number is None:
            raise QuantityError("cannot convert value to integer")
        return number

    def as_approximate_float(self) -> float:
        """The nearest float or one beside it, infinite if the number is out of a float's range."""
        if self.nano == 0:
            return 0.0
        unscaled = self.nano // 10 ** (self.scale + 9)
        try:
            base = float(unscaled)
        except OverflowError:
            base = math.inf if unscaled > 0 else -math.inf
        return base * _power_of_ten(self.scale)

    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.nano > 0) - (self.nano < 0)

    def compare(self, other: Quantity) -> int:
        """-1, 0 or 1 as this quantity is less than, equal to or greater than the other."""
        return (self.nano > other.nano) - (self.nano < other.nano)

    def __add__(self, other: Quantity) -> Quantity:
        return self._plus(other, other.nano)

    def __sub__(self, other: Quantity) -> Quantity:
        return self._plus(other, -other.nano)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format, self.scale, self.is_int64)

    def _plus(self, other: Quantity, nano: int) -> Quantity:
        """The sum with `nano`, which has the shape of `other`; zero has no shape of its own."""
        total, format_ = self.nano + nano, self.format if self.nano else other.format
        is_int64, scale = self.is_int64 and other.is_int64, min(self.scale, other.scale)
        if is_int64 and nano == 0:
            scale = self.scale
        elif is_int64 and self.nano == 0:
            scale = other.scale
        elif is_int64:
            unit = 10 ** (scale + 9)
            is_int64 = all(_INT64_MIN <= part // unit <= _INT64_MAX for part in (self.nano, nano, total))
        return Quantity(total, format_, scale, is_int64)

    def __str__(self) -> str:
        return self.text or _canonical(self.nano, self.format)

    def __repr__(self) -> str:
        return f"Quantity.parse({str(self)!r})"


def _parse(text: str) -> Quantity:
    parts = _PARTS.fullmatch(text)
    if parts is None or not text:
        raise QuantityError(_WRONG_FORMAT)
    sign, zeros, whole, fraction, suffix = parts.groups(default="")
    digits = (whole or "0") + fraction
    format_, exponent = _suffix(suffix)
    if format_ is Format.BINARY_SI:
        power, factor = 0, 2**exponent
        short = not fraction and len(digits) + exponent * 3 // 10 <= 14
    else:
        power, factor = exponent, 1
        short = len(digits) <= 18 and power - len(fraction) >= -9
    scale = power - len(fraction)
    if not (short or zeros or whole or fraction):
        raise QuantityError(_WRONG_NUMBER)
    if not digits.strip("0"):
        return Quantity(0, format_, max(scale, -9), short)
    if len(digits) + max(power, 0) > _MAX_DIGITS:
        raise QuantityError(_TOO_LONG)
    nano = _nano(int(digits) * factor, scale)
    if short:
        kept = text if _is_kept(digits, format_, scale) else ""
        return Quantity(-nano if sign == "-" else nano, format_, scale, True, kept)
    if format_ is Format.BINARY_SI:
        if nano < _NANO:
            format_ = Format.DECIMAL_SI
        nano = min(nano, _INT64_MAX * _NANO)
    return Quantity(-nano if sign == "-" else nano, format_)


_parse_cached = lru_cache(maxsize=65536)(_parse)


def _suffix(suffix: str) -> tuple[Format, int]:
    """The format that a suffix belongs to, and its exponent: of two for a binary suffix, else of ten."""
    if suffix in _DECIMAL_SUFFIXES:
        return Format.DECIMAL_SI, _DECIMAL_SUFFIXES[suffix]
    if suffix in _BINARY_SUFFIXES:
        return Format.BINARY_SI, _BINARY_SUFFIXES[suffix]
    exponent = _EXPONENT.fullmatch(suffix)
    # The length test comes first: int() of a very long number is slow and refused beyond 4,300 digits.
    if exponent is None or len(exponent[2]) > 19:
        raise QuantityError(_WRONG_SUFFIX)
    number = int(exponent[1] + (exponent[2] or "0"))
    if not _INT64_MIN <= number <= _INT64_MAX:
        raise QuantityError(_WRONG_SUFFIX)
    return Format.DECIMAL_EXPONENT, number


def _nano(number: int, scale: int) -> int:
    """How many billionths `number` times 10**`scale` is, rounded up."""
    # Beyond the minimum the answer is 1, and the power of a hostile exponent would take for ever.
    shift: int = 10 ** min(abs(scale + 9), 2 * _MAX_DIGITS)
    return number * shift if scale >= -9 else -(-number // shift)


def _is_kept(digits: str, format_: Format, scale: int) -> bool:
    """Whether Kubernetes takes the text for canonical and prints it unchanged, so `+1` and `1.500` as well."""
    if format_ is Format.BINARY_SI:
        return int(digits) % 8 != 0
    return scale % 3 == 0 and digits[0] != "0" and not digits.endswith("000")


def _canonical(nano: int, format_: Format) -> str:
    """A whole number and the largest suffix that leaves it whole."""
    if nano == 0:
        return "0"
    if format_ is Format.BINARY_SI and abs(nano) >= 1024 * _NANO and nano % _NANO == 0:
        number, steps = nano // _NANO, 0
        while steps < 6 and number % 1024 == 0:
            number, steps = number // 1024, steps + 1
        return f"{number}{_BINARY_SUFFIX[steps]}"
    exponent = -9
    # Kubernetes prints no suffix at all past the last one, 1000E as 1; here the last one stays.
    while nano % 1000 == 0 and (exponent < 18 or format_ is Format.DECIMAL_EXPONENT):
        nano, exponent = nano // 1000, exponent + 3
    if format_ is Format.DECIMAL_EXPONENT:
        return f"{nano}e{exponent}" if exponent else str(nano)
    return f"{nano}{_DECIMAL_SUFFIX[exponent]}"


def _away_from_zero(number: int, unit: int) -> int:
    return -(-number // unit) if number > 0 else number // unit


def _power_of_ten(exponent: int) -> float:
    """10**`exponent` rounded as Go's table of powers rounds it, at most one place off the nearest float."""
    if exponent > 308:
        return math.inf
    large, small = divmod(abs(exponent), 32)
    if exponent < 0:
        return float(f"1e-{32 * large}") / float(f"1e{small}")
    return float(f"1e{32 * large}") * float(f"1e{small}")


def _json_number(value: float) -> str:
    """A float as Go writes it into JSON, which is what Kubernetes reads when a manifest says `cpu: 0.1`."""
    if not math.isfinite(value):
        raise QuantityError(_WRONG_FORMAT)
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return f"{Decimal(repr(value)):f}".removesuffix(".0")
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent):+d}"
