"""Text as Go prints it: Kubernetes' messages quote values this way, and ours must read the same."""

from __future__ import annotations

import re

_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip

SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""What Go's strings.TrimSpace removes; str.strip() would also remove the separators U+001C to U+001F."""

# Possessive, so that a text which is no duration is found out in one pass.
_NUMBER, _UNIT = r"[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++", "ns|us|µs|μs|ms|s|m|h"
_DURATION = re.compile(rf"[-+]?+(?:0|(?:(?:{_NUMBER})(?:{_UNIT}))++)")
_DURATION_PART = re.compile(rf"({_NUMBER})({_UNIT})")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(duration: str) -> float | None:
    """The seconds of a duration such as `1h30m` or `-1.5s`; None when the text is none."""
    if not _DURATION.fullmatch(duration):
        return None
    total = sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(duration))
    return -total if duration.startswith("-") else total


def quote(text: str) -> str:
    """`text` in double quotes with Go's escapes (`%q`); `surrogateescape` stands for bytes that are not UTF-8."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    point = ord(char)
    if point < 0x80 or 0xDC80 <= point <= 0xDCFF:
        return f"\\x{point & 0xFF:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
