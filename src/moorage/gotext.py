"""Text as Go prints it: Kubernetes' messages quote values this way, and ours must read the same."""

from __future__ import annotations

_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip

SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""What Go's strings.TrimSpace removes; str.strip() would also remove the separators U+001C to U+001F."""


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
