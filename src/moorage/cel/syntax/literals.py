"""The values of number, string and bytes literals."""

from __future__ import annotations

import re

from moorage.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt

_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED = re.compile(r"\\(?:([0-3][0-7][0-7])|[xX](..)|u(....)|U(........)|(.))", re.DOTALL)


def number(kind: str, sign: str, text: str) -> int | float | None:
    """The value of a token of the kind `int`, `uint` or `float`; None when it is out of range."""
    if kind == "float":
        value = float(sign + text)
        return None if value in (float("inf"), float("-inf")) else value
    digits = text.rstrip("uU") if kind == "uint" else text
    base = 16 if digits.startswith("0x") else 10
    digits = digits.removeprefix("0x").lstrip("0") or "0"
    # The length test comes first: int() of a very long decimal number is slow and refused beyond 4,300 digits.
    whole = int(sign + digits, base) if len(digits) <= 20 else UINT_MAX + 1
    if kind == "uint":
        return UInt(whole) if whole <= UINT_MAX else None
    return whole if INT_MIN <= whole <= INT_MAX else None


def unquote(literal: str) -> str | bytes:
    """The value of a string or bytes literal; ValueError when an escape names no character."""
    binary = literal[0] in "bB"
    start = int(binary)
    raw = literal[start] in "rR"
    start += raw
    width = 3 if literal[start : start + 3] in ('"""', "'''") and len(literal) >= start + 6 else 1
    body = literal[start + width : -width]
    if "\r" in body:
        body = body.replace("\r\n", "\n").replace("\r", "\n")
    if raw or "\\" not in body:
        return body.encode() if binary else body
    if not binary:
        return _ESCAPED.sub(_character, body)
    parts = _ESCAPED.split(body)
    pieces = [parts[0].encode()]
    for octal, hexadecimal, short, long, char, rest in zip(*(parts[index::6] for index in range(1, 7)), strict=True):
        if short or long:
            raise ValueError("unable to unescape string")
        code = int(octal, 8) if octal else int(hexadecimal, 16) if hexadecimal else ord(_ESCAPES.get(char, char))
        pieces += (bytes((code,)), rest.encode())
    return b"".join(pieces)


def _character(match: re.Match[str]) -> str:
    octal, hexadecimal, short, long, char = match.groups()
    if char:
        return _ESCAPES.get(char, char)
    code = int(octal, 8) if octal else int(hexadecimal or short or long, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError("invalid unicode code point")
    return chr(code)
