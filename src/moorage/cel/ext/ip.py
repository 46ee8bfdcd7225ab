"""IP addresses: `ip`, `isIP` and questions about an address, parsed by the rules of Go's net/netip."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address

from moorage.bounded import remember_short
from moorage.cel.errors import EvalError
from moorage.cel.ext import costs
from moorage.cel.ext.declare import function, method, plain
from moorage.cel.library import Library, Size
from moorage.cel.types import BOOL, INT, STRING, opaque
from moorage.cel.values import register
from moorage.gotext import quote

IP_TYPE = opaque("net.IP")

Address = IPv4Address | IPv6Address

_FIRST_MARK = re.compile(r"[.:%]")
_HEX = re.compile(r"[0-9A-Fa-f]*")
_BROADCAST = IPv4Address("255.255.255.255")


class AddressError(ValueError):
    """The text is not an IP address; the message is net/netip's."""

    def __init__(self, text: str, problem: str, rest: str = "") -> None:
        place = f" (at {quote(rest)})" if rest else ""
        super().__init__(f"ParseAddr({quote(text)}): {problem}{place}")


def address(text: str) -> tuple[Address, str]:
    """An address and its zone, empty for most."""
    number, percent, zone = text.partition("%")
    if ":" not in number:
        number, percent, zone = text, "", ""
    try:
        parsed = IPv6Address(number) if ":" in number else IPv4Address(number)
    except ValueError:
        raise _explained(text, number) from None
    if percent and not zone:
        raise _explained(text, number)
    return parsed, zone


def _explained(text: str, number: str) -> AddressError:
    """Why Python refuses the text, in the words of net/netip."""
    mark = _FIRST_MARK.search(text)
    if mark is None:
        return AddressError(text, "unable to parse IP")
    if mark[0] == "%":
        return AddressError(text, "missing IPv6 address")
    if mark[0] == ".":
        return AddressError(text, *_wrong_v4(text))
    if text == f"{number}%":
        return AddressError(text, "zone must be a non-empty string")
    return AddressError(text, *_wrong_v6(number))


def _wrong_v4(text: str) -> tuple[str, ...]:
    """The first thing that is wrong, from left to right."""
    unexpected = re.search(r"[^0-9.]", text)
    fields, start = (text[: unexpected.start()] if unexpected else text).split("."), 0
    last = len(fields) - 1
    for index, digits in enumerate(fields):
        if index == 4 and text[start:]:
            return ("IPv4 address too long",)
        if not digits and not (unexpected and index == last):
            # The dot that has no digit before it, or the last one when none follows it.
            return "IPv4 field must have at least one digit", text[start if index < last else -1 :]
        if digits.startswith("0") and len(digits) > 1:
            return ("IPv4 field has octet with leading zero",)
        if len(digits) > 3 or int(digits or "0") > 255:
            return ("IPv4 field has value >255",)
        start += len(digits) + 1
    return ("unexpected character", text[unexpected.start() :]) if unexpected else ("IPv4 address too short",)


def _wrong_v6(number: str) -> tuple[str, ...]:
    ellipsis = number.startswith("::")
    rest = number[2:] if ellipsis else number
    for fields in range(8):
        digits = _HEX.match(rest)[0]  # type: ignore[index]  # it also matches nothing
        after = rest[len(digits) :]
        if len(digits) > 4:
            return "each group must have 4 or less digits", rest
        if not digits:
            return "each colon-separated field must have at least one digit", rest
        if after.startswith("."):
            return _wrong_embedded(rest, fields, ellipsis)
        if not after:
            return ("the :: must expand to at least one field of zeros" if ellipsis else "address string too short",)
        if problem := _wrong_separator(after, ellipsis):
            return problem
        ellipsis, rest = ellipsis or after.startswith("::"), after.removeprefix(":").removeprefix(":")
    if rest:
        return "trailing garbage after address", rest
    return ("the :: must expand to at least one field of zeros",)


def _wrong_separator(after: str, ellipsis: bool) -> tuple[str, ...]:
    if after[0] != ":":
        return "unexpected character, want colon", after
    if after == ":":
        return "colon must be followed by more characters", after
    return ("multiple :: in address", after[1:]) if ellipsis and after.startswith("::") else ()


def _wrong_embedded(rest: str, fields: int, ellipsis: bool) -> tuple[str, ...]:
    if not ellipsis and fields != 6:
        return "embedded IPv4 address must replace the final 2 fields of the address", rest
    if fields > 6:
        return "too many hex fields to fit an embedded IPv4 at the end of the address", rest
    return _wrong_v4(rest)


@remember_short(4096)
def parse(text: str) -> Address:
    """An address as Kubernetes accepts it: without a zone, and not an IPv4 address in IPv6 form."""
    try:
        number, zone = address(text)
    except AddressError as error:
        raise EvalError(f"IP Address {quote(text)} parse error during conversion from string: {error}") from None
    if zone:
        raise EvalError(f"IP address {quote(text)} with zone value is not allowed")
    if is_mapped(number):
        raise EvalError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return number


def is_mapped(number: Address) -> bool:
    """Whether this is an IPv4 address in IPv6 form, such as ::ffff:1.2.3.4."""
    return isinstance(number, IPv6Address) and number.ipv4_mapped is not None


def _is_ip(text: str) -> bool:
    try:
        parse(text)
    except EvalError:
        return False
    return True


def _is_link_local_multicast(number: Address) -> bool:
    if number.version == 4:
        return int(number) >> 8 == 0xE00000
    return int(number) >> 112 & 0xFF0F == 0xFF02


def _is_global_unicast(number: Address) -> bool:
    return number != _BROADCAST and not (
        number.is_unspecified or number.is_loopback or number.is_multicast or number.is_link_local
    )


register(IPv4Address, IP_TYPE)
register(IPv6Address, IP_TYPE)

_PARSING = costs.traversal()
_TEXT = costs.sized(lambda _: Size(2, 39))

LIBRARY = Library(
    "kubernetes.net.ip",
    (
        function("ip", plain("string_to_ip", (STRING,), IP_TYPE, parse, _PARSING)),
        function("isIP", plain("is_ip", (STRING,), BOOL, _is_ip, _PARSING)),
        function(
            "ip.isCanonical",
            plain("ip_is_canonical", (STRING,), BOOL, lambda text: str(parse(text)) == text, costs.traversal(0.2)),
        ),
        function("family", method("ip_family", (IP_TYPE,), INT, lambda number: number.version)),
        function("isUnspecified", method("ip_is_unspecified", (IP_TYPE,), BOOL, lambda number: number.is_unspecified)),
        function("isLoopback", method("ip_is_loopback", (IP_TYPE,), BOOL, lambda number: number.is_loopback)),
        function(
            "isLinkLocalMulticast", method("ip_is_link_local_multicast", (IP_TYPE,), BOOL, _is_link_local_multicast)
        ),
        function(
            "isLinkLocalUnicast",
            method("ip_is_link_local_unicast", (IP_TYPE,), BOOL, lambda number: number.is_link_local),
        ),
        function("isGlobalUnicast", method("ip_is_global_unicast", (IP_TYPE,), BOOL, _is_global_unicast)),
        function("string", plain("ip_to_string", (IP_TYPE,), STRING, str, _TEXT)),
    ),
    types={"net.IP": IP_TYPE},
)
