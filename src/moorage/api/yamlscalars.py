"""Plain YAML scalars as Kubernetes reads them: YAML 1.1 as its Go library has it, then JSON."""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct

from moorage.bounded import remember_short

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_WORD_STARTS = frozenset("yYnNtTfFoO~")
_NUMBER_STARTS = frozenset("0123456789+-.")
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]{0,19}))")
_BASES = {2: 16, 3: 2, 4: 8, 5: 10}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")

_TAG = "tag:yaml.org,2002:"
_TYPES: dict[str, tuple[type, ...]] = {
    _TAG + "bool": (bool,),
    _TAG + "int": (int,),
    _TAG + "float": (float, int),
    _TAG + "null": (type(None),),
}


class ScalarError(ValueError):
    """The scalar does not fit its tag, or JSON has no such value."""


def resolve(text: str) -> Scalar:
    """What an unquoted scalar means. There are no timestamps and no base 60: those stay text."""
    if not text:
        return None
    if text[0] in _WORD_STARTS:
        return _WORDS.get(text, text)
    if text[0] in _NUMBER_STARTS:
        return _number(text)
    return text


@remember_short(4096)
def _number(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    digits = text if text[0] == "." else text.replace("_", "")
    if match := _INTEGER.fullmatch(digits):
        assert match.lastindex is not None  # one of the bases matched
        number = int(match[match.lastindex], _BASES[match.lastindex])
        if match[1] == "-" and number <= 2**63:
            return -number
        if number < 2**63 or (number < 2**64 and not match[1]):
            return number
    if _FLOAT.fullmatch(digits) and math.isfinite(approximate := float(digits)):
        return approximate
    return text


def tagged(tag: str, text: str) -> Scalar:
    """What a scalar with an explicit tag means; an unknown tag leaves it text."""
    if tag == _TAG + "binary":
        try:
            return base64.b64decode("".join(text.split()), validate=True).decode("utf-8", "replace")
        except binascii.Error:
            raise ScalarError("!!binary value contains invalid base64 data") from None
    types = _TYPES.get(tag)
    if types is None:
        return text
    value = resolve(text)
    # By type(), because True is an int to isinstance.
    if type(value) not in types:
        raise ScalarError(f"{text!r} does not fit its tag !!{tag.removeprefix(_TAG)}")
    return value


def json_number(value: float) -> int | float:
    """The number that is left of a float once it went through JSON, where 1.0 is 1."""
    if not math.isfinite(value):
        raise ScalarError("a number must be finite: JSON has no .inf and no .nan")
    return int(value) if value.is_integer() and -(2**63) <= value < 2**63 else value


def key_text(key: Scalar) -> str:
    """A key that is no string, as the JSON key it becomes."""
    if key is None:
        raise ScalarError("a key is null")
    if isinstance(key, bool):
        return "true" if key else "false"
    return _float32_text(key) if isinstance(key, float) else str(key)


def _float32_text(value: float) -> str:
    """The shortest text that reads back as the same 32-bit float; from a million on with an exponent."""
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return ".inf" if value > 0 else "-.inf"
    texts = (f"{single:.{places}e}" for places in range(9))
    shortest = next(text for text in texts if struct.pack("<f", float(text)) == struct.pack("<f", single))
    mantissa, _, exponent = shortest.partition("e")
    if -4 <= int(exponent) < 6:
        places = max(len(mantissa.lstrip("-").replace(".", "")) - 1 - int(exponent), 0)
        return f"{float(shortest):.{places}f}"
    return f"{mantissa}e{exponent}"
