"""Networks in CIDR notation: `cidr`, `isCIDR` and what a network contains."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from moorage.bounded import remember_short
from moorage.cel.cost.sizes import TRAVERSAL, add, add_sizes, scale, scaled
from moorage.cel.errors import EvalError
from moorage.cel.ext import costs
from moorage.cel.ext.declare import Costing, function, method, plain
from moorage.cel.ext.ip import IP_TYPE, Address, AddressError, address, is_mapped
from moorage.cel.ext.ip import parse as parse_ip
from moorage.cel.library import CallCost, Cost, Library, Operand, Size
from moorage.cel.types import BOOL, INT, STRING, opaque
from moorage.cel.values import register
from moorage.gotext import quote

CIDR_TYPE = opaque("net.CIDR")

_BITS = re.compile(r"0|[1-9][0-9]*")


@dataclass(frozen=True, slots=True)
class CIDR:
    """An address and the number of its leading bits that make the network. The other bits may be anything."""

    address: Address
    bits: int

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"

    def masked(self) -> CIDR:
        """The same network with the other bits zero."""
        host = self.address.max_prefixlen - self.bits
        return CIDR(type(self.address)(int(self.address) >> host << host), self.bits)

    def contains(self, other: Address) -> bool:
        """Whether the address is in the network."""
        if self.address.version != other.version:
            return False
        return (int(self.address) ^ int(other)) >> (self.address.max_prefixlen - self.bits) == 0

    def contains_all(self, other: CIDR) -> bool:
        """Whether every address of the other network is in this one."""
        return self.bits <= other.bits and self.contains(other.address)


@remember_short(4096)
def parse(text: str) -> CIDR:
    """A network as Kubernetes accepts it: without a zone, and not of IPv4 addresses in IPv6 form."""
    try:
        return _parse(text)
    except ValueError as error:
        raise EvalError(f"network address parse error during conversion from string: {error}") from None


def _parse(text: str) -> CIDR:
    number, slash, digits = text.rpartition("/")
    if not slash:
        raise _wrong(text, "no '/'")
    try:
        network, zone = address(number)
    except AddressError as error:
        raise _wrong(text, str(error)) from None
    if zone:
        raise _wrong(text, "IPv6 zones cannot be present in a prefix")
    if not _BITS.fullmatch(digits) or len(digits) > 18:
        raise _wrong(text, f"bad bits after slash: {quote(digits)}")
    if int(digits) > network.max_prefixlen:
        raise _wrong(text, "prefix length out of range")
    if is_mapped(network):
        raise ValueError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return CIDR(network, int(digits))


def _wrong(text: str, problem: str) -> ValueError:
    # Kubernetes says the first half twice: once where it parses, once where it converts.
    return ValueError(
        f"network address parse error during conversion from string: netip.ParsePrefix({quote(text)}): {problem}"
    )


def _is_cidr(text: str) -> bool:
    try:
        parse(text)
    except EvalError:
        return False
    return True


# The bytes of two addresses are compared: 4 or 16 each.
_ADDRESS = Size(4, 16)
_COMPARISON = scale(add_sizes(_ADDRESS, _ADDRESS), TRAVERSAL)
_MASKING = add(scale(_ADDRESS, TRAVERSAL), costs.ONE)


def _contains_cost(base: Cost, masking: bool, of_text: bool) -> Costing:
    def estimate(operands: list[Operand]) -> CallCost:
        return CallCost(add(base, scale(operands[1].size, TRAVERSAL)) if of_text else base)

    def measure(args: tuple[Any, ...], _: Any) -> int:
        size = -(-args[0].bits // 8)
        cost = scaled(2 * size, TRAVERSAL)
        if masking:
            cost += scaled(size, TRAVERSAL) + 1
        return cost + (scaled(len(args[1]), TRAVERSAL) if of_text else 0)

    return Costing(estimate, measure)


register(CIDR, CIDR_TYPE)

_PARSING = costs.traversal()
_TEXT = costs.sized(lambda _: Size(4, 43))
_CIDR_COST = add(_COMPARISON, _MASKING)

LIBRARY = Library(
    "kubernetes.net.cidr",
    (
        function("cidr", plain("string_to_cidr", (STRING,), CIDR_TYPE, parse, _PARSING)),
        function("isCIDR", plain("is_cidr", (STRING,), BOOL, _is_cidr, _PARSING)),
        function(
            "containsIP",
            method(
                "cidr_contains_ip_string",
                (CIDR_TYPE, STRING),
                BOOL,
                lambda network, text: network.contains(parse_ip(text)),
                _contains_cost(_COMPARISON, masking=False, of_text=True),
            ),
            method(
                "cidr_contains_ip_ip",
                (CIDR_TYPE, IP_TYPE),
                BOOL,
                CIDR.contains,
                _contains_cost(_COMPARISON, masking=False, of_text=False),
            ),
        ),
        function(
            "containsCIDR",
            method(
                "cidr_contains_cidr_string",
                (CIDR_TYPE, STRING),
                BOOL,
                lambda network, text: network.contains_all(parse(text)),
                _contains_cost(_CIDR_COST, masking=True, of_text=True),
            ),
            method(
                "cidr_contains_cidr",
                (CIDR_TYPE, CIDR_TYPE),
                BOOL,
                CIDR.contains_all,
                _contains_cost(_CIDR_COST, masking=True, of_text=False),
            ),
        ),
        function("ip", method("cidr_ip", (CIDR_TYPE,), IP_TYPE, lambda network: network.address)),
        function("prefixLength", method("cidr_prefix_length", (CIDR_TYPE,), INT, lambda network: network.bits)),
        function("masked", method("cidr_masked", (CIDR_TYPE,), CIDR_TYPE, CIDR.masked)),
        function("string", plain("cidr_to_string", (CIDR_TYPE,), STRING, str, _TEXT)),
    ),
    types={"net.CIDR": CIDR_TYPE},
)
