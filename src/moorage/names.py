"""The syntax of label keys, label values, object names and integers, with Kubernetes' words for what is wrong."""

from __future__ import annotations

import re

from moorage.bounded import remember_short
from moorage.gotext import quote

_LABEL = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_LABEL})?"
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_ALPHANUMERIC = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_LABEL_RE, _LABEL_VALUE_RE = re.compile(_LABEL), re.compile(_LABEL_VALUE)
# The possessive form of the same syntax: a long name must not make the engine try every way to split it.
_SUBDOMAIN_RE = re.compile(r"[a-z0-9]++(?:-++[a-z0-9]++)*+(?:\.[a-z0-9]++(?:-++[a-z0-9]++)*+)*+")

_LABEL_HINT = f"{_ALPHANUMERIC} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_LABEL}')"
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_CANONICAL_RE = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_INTEGER_RE = re.compile(r"[+-]?[0-9]+", re.ASCII)


def label_key_errors(key: str) -> list[str]:
    """What is wrong with a label key or taint key: an optional DNS prefix, a slash, a name."""
    parts = key.split("/")
    if len(parts) > 2:
        return [
            f"a valid label key {_LABEL_HINT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    errors = []
    if len(parts) == 2:
        problems = subdomain_errors(parts[0]) if parts[0] else ["must be non-empty"]
        errors = [f"prefix part {problem}" for problem in problems]
    name = parts[-1]
    if not name:
        errors.append("name part must be non-empty")
    elif _size(name) > 63:
        errors.append("name part must be no more than 63 bytes")
    if not _LABEL_RE.fullmatch(name):
        errors.append(f"name part {_LABEL_HINT}")
    return errors


@remember_short(65536)
def label_value_errors(value: str) -> tuple[str, ...]:
    """What is wrong with a label value or taint value."""
    errors = []
    if _size(value) > 63:
        errors.append("must be no more than 63 bytes")
    if not _LABEL_VALUE_RE.fullmatch(value):
        errors.append(
            f"a valid label must be an empty string or {_ALPHANUMERIC.removeprefix('must ')} (e.g. 'MyValue',  or "
            f"'my_value',  or '12345', regex used for validation is '{_LABEL_VALUE}')"
        )
    return tuple(errors)


def subdomain_errors(name: str) -> list[str]:
    """What is wrong with a DNS subdomain, which most object names are."""
    errors = []
    if _size(name) > 253:
        errors.append("must be no more than 253 bytes")
    if not _SUBDOMAIN_RE.fullmatch(name):
        errors.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
            f"'{_SUBDOMAIN}')"
        )
    return errors


def canonical_int64_errors(text: str) -> list[str]:
    """What keeps a text from being an integer as people write it (`0`, `950`, `-5`) that fits 64 bits."""
    errors = []
    if not text:
        errors.append("must be non-empty")
    elif not _CANONICAL_RE.fullmatch(text):
        errors.append("must be a valid decimal integer in canonical form")
    if not _INTEGER_RE.fullmatch(text):
        errors.append(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    elif _int64(text) is None:
        errors.append(f"strconv.ParseInt: parsing {quote(text)}: value out of range")
    return errors


def canonical_int64(text: str) -> int | None:
    """The integer that a text is in canonical form, None when it is not one."""
    return _int64(text) if _CANONICAL_RE.fullmatch(text) else None


def lenient_int64(text: str) -> int | None:
    """The integer that node affinity reads: `+5` and `007` count too."""
    return _int64(text) if _INTEGER_RE.fullmatch(text) else None


def _int64(text: str) -> int | None:
    # int() of a very long number is slow and refused beyond 4,300 digits; leading zeros do not count.
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > 19:
        return None
    number = int(digits or "0") * (-1 if text[0] == "-" else 1)
    return number if _INT64_MIN <= number <= _INT64_MAX else None


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
