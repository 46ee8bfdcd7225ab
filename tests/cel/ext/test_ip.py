from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cel.errors import EvalError
from moorage.cel.ext import cidr, ip
from moorage.cel.ext.cidr import CIDR
from moorage.cel.library import Cost
from moorage.cel.values import equal, type_of_value
from tests.cel.libraries import call, error, estimate, measure, up_to


def is_plain(address: ip.Address) -> bool:
    return not ip.is_mapped(address)


addresses = st.ip_addresses().filter(is_plain)


@st.composite
def networks(draw: st.DrawFn) -> CIDR:
    address = draw(addresses)
    return CIDR(address, draw(st.integers(0, address.max_prefixlen)))


PARSE = "IP Address {0} parse error during conversion from string: ParseAddr({0}): "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", PARSE + "unable to parse IP"),
        ("localhost", PARSE + "unable to parse IP"),
        ("%eth0", PARSE + "missing IPv6 address"),
        ("127.0.0.256", PARSE + "IPv4 field has value >255"),
        ("127.0.0", PARSE + "IPv4 address too short"),
        ("1.2.3.4.5", PARSE + "IPv4 address too long"),
        ("1.02.3.4", PARSE + "IPv4 field has octet with leading zero"),
        ("1..2.3", PARSE + 'IPv4 field must have at least one digit (at ".2.3")'),
        ("1.2.3.", PARSE + 'IPv4 field must have at least one digit (at ".")'),
        ("1.2.3.4.", PARSE + 'IPv4 field must have at least one digit (at ".")'),
        ("1.2.3.4..", PARSE + "IPv4 address too long"),
        ("..2=", PARSE + 'IPv4 field must have at least one digit (at "..2=")'),
        (".:0%", PARSE + 'IPv4 field must have at least one digit (at ".:0%")'),
        ("::f.", PARSE + 'unexpected character (at "f.")'),
        ("1.2.3.4%::", PARSE + 'unexpected character (at "%::")'),
        (":%", PARSE + "zone must be a non-empty string"),
        ("1.2.x.4", PARSE + 'unexpected character (at "x.4")'),
        ("1.2.3.4:80", PARSE + 'unexpected character (at ":80")'),
        ("٣.1.1.1", PARSE + 'unexpected character (at "٣.1.1.1")'),
        (":::1", PARSE + 'each colon-separated field must have at least one digit (at ":1")'),
        ("12345::", PARSE + 'each group must have 4 or less digits (at "12345::")'),
        ("1:2:3", PARSE + "address string too short"),
        ("1:2:3:4:5:6:7:8:9", PARSE + 'trailing garbage after address (at "9")'),
        ("1:2:3:4:5:6:7::8", PARSE + "the :: must expand to at least one field of zeros"),
        ("1:2:3:4:5:6:7:8::", PARSE + "the :: must expand to at least one field of zeros"),
        ("1::2::3", PARSE + 'multiple :: in address (at ":3")'),
        ("1:", PARSE + 'colon must be followed by more characters (at ":")'),
        ("1:2 ", PARSE + 'unexpected character, want colon (at " ")'),
        ("1:2:3.4.5.6", PARSE + 'embedded IPv4 address must replace the final 2 fields of the address (at "3.4.5.6")'),
        (
            "::1:2:3:4:5:6:7:1.2.3.4",
            PARSE + 'too many hex fields to fit an embedded IPv4 at the end of the address (at "1.2.3.4")',
        ),
        ("::1.2.3", PARSE + "IPv4 address too short"),
        ("fe80::1%", PARSE + "zone must be a non-empty string"),
        ("fe80::1%eth0", "IP address {0} with zone value is not allowed"),
        ("::ffff:1.2.3.4", "IPv4-mapped IPv6 address {0} is not allowed"),
    ],
)
def test_addresses_that_are_refused(text: str, message: str) -> None:
    assert error(ip.LIBRARY, "string_to_ip", text) == message.format(f'"{text}"')
    assert call(ip.LIBRARY, "is_ip", text) is False


@given(st.text(alphabet="0123456789abf:.%", max_size=24))
def test_every_refusal_has_a_reason(text: str) -> None:
    try:
        ip.parse(text)
    except EvalError as refusal:
        assert text in str(refusal)  # noqa: PT017


@given(addresses)
def test_an_address_survives_being_printed(address: Any) -> None:
    text = call(ip.LIBRARY, "ip_to_string", address)
    assert call(ip.LIBRARY, "string_to_ip", text) == address
    assert call(ip.LIBRARY, "ip_is_canonical", text) is True
    assert call(ip.LIBRARY, "ip_family", address) == (4 if "." in text else 6)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("127.0.0.1", True), ("2001:db8::abcd", True), ("2001:DB8::ABCD", False), ("2001:db8::0:0:0:abcd", False)],
)
def test_canonical_form(text: str, canonical: bool) -> None:
    assert call(ip.LIBRARY, "ip_is_canonical", text) is canonical


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("0.0.0.0", "unspecified"),
        ("::", "unspecified"),
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("224.0.0.1", "link_local_multicast"),
        ("224.0.1.1", ""),
        ("ff02::1", "link_local_multicast"),
        ("ff12::1", "link_local_multicast"),
        ("ff05::1", ""),
        ("169.254.169.254", "link_local_unicast"),
        ("fe80::1", "link_local_unicast"),
        ("fd80::1", "global_unicast"),
        ("192.168.0.1", "global_unicast"),
        ("255.255.255.255", ""),
        ("240.0.0.1", "global_unicast"),
        ("2001:db8::abcd", "global_unicast"),
        ("::1.2.3.4", "global_unicast"),
    ],
)
def test_kinds_of_addresses(text: str, kinds: str) -> None:
    names = ("unspecified", "loopback", "link_local_multicast", "link_local_unicast", "global_unicast")
    assert [name for name in names if call(ip.LIBRARY, f"ip_is_{name}", ip.parse(text))] == kinds.split()


def test_addresses_have_the_type_net_ip() -> None:
    assert type_of_value(ip.parse("::1")).name == type_of_value(ip.parse("1.2.3.4")).name == "net.IP"
    assert not equal(ip.parse("::"), ip.parse("0.0.0.0"))


TWICE = "network address parse error during conversion from string: "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10.0.0.0", f"{TWICE * 2}netip.ParsePrefix({{0}}): no '/'"),
        ("10.0.0.0/33", f"{TWICE * 2}netip.ParsePrefix({{0}}): prefix length out of range"),
        ("::1/129", f"{TWICE * 2}netip.ParsePrefix({{0}}): prefix length out of range"),
        ("10.0.0.0/08", f'{TWICE * 2}netip.ParsePrefix({{0}}): bad bits after slash: "08"'),
        ("10.0.0.0/+8", f'{TWICE * 2}netip.ParsePrefix({{0}}): bad bits after slash: "+8"'),
        ("10.0.0.0/", f'{TWICE * 2}netip.ParsePrefix({{0}}): bad bits after slash: ""'),
        ("10.0.0/8", f'{TWICE * 2}netip.ParsePrefix({{0}}): ParseAddr("10.0.0"): IPv4 address too short'),
        ("fe80::1%en0/8", f"{TWICE * 2}netip.ParsePrefix({{0}}): IPv6 zones cannot be present in a prefix"),
        ("::ffff:1.2.3.4/24", f"{TWICE}IPv4-mapped IPv6 address {{0}} is not allowed"),
    ],
)
def test_networks_that_are_refused(text: str, message: str) -> None:
    assert error(cidr.LIBRARY, "string_to_cidr", text) == message.format(f'"{text}"')
    assert call(cidr.LIBRARY, "is_cidr", text) is False


@pytest.mark.parametrize(
    ("network", "other", "contained"),
    [
        ("192.168.0.0/16", "192.168.10.0/24", True),
        ("192.168.0.0/16", "192.168.0.0/16", True),
        ("192.168.0.0/24", "192.168.0.0/16", False),
        ("192.168.1.0/24", "192.168.2.0/24", False),
        ("0.0.0.0/0", "::/0", False),
        ("192.168.0.1/24", "192.168.0.200/30", True),
    ],
)
def test_containment(network: str, other: str, contained: bool) -> None:
    whole, part = cidr.parse(network), cidr.parse(other)
    assert call(cidr.LIBRARY, "cidr_contains_cidr", whole, part) is contained
    assert call(cidr.LIBRARY, "cidr_contains_cidr_string", whole, other) is contained


def test_a_bad_operand_of_a_containment_is_an_error() -> None:
    network = cidr.parse("10.0.0.0/8")
    assert "unable to parse IP" in error(cidr.LIBRARY, "cidr_contains_ip_string", network, "x")
    assert "no '/'" in error(cidr.LIBRARY, "cidr_contains_cidr_string", network, "x")


@given(networks())
def test_a_network_contains_itself_and_survives_being_printed(network: CIDR) -> None:
    assert network.contains(network.address)
    assert network.contains_all(network)
    assert network.masked().contains_all(network)
    assert network.contains_all(network.masked())
    assert network.masked().masked() == network.masked()
    assert cidr.parse(str(network)) == network


@given(networks(), addresses)
def test_containment_is_that_of_pythons_networks(network: CIDR, address: Any) -> None:
    theirs = ipaddress.ip_network(str(network), strict=False)
    assert call(cidr.LIBRARY, "cidr_contains_ip_ip", network, address) == (address in theirs)


@given(networks(), networks(), addresses)
def test_a_contained_network_holds_no_address_that_its_container_does_not(a: CIDR, b: CIDR, address: Any) -> None:
    if a.contains_all(b) and b.contains(address):
        assert a.contains(address)


def test_costs() -> None:
    text, network = up_to(63), up_to(16)
    assert estimate(ip.LIBRARY, "string_to_ip", text).cost == Cost(0, 7)
    assert estimate(ip.LIBRARY, "ip_is_canonical", text).cost == Cost(0, 13)
    assert estimate(cidr.LIBRARY, "cidr_contains_ip_string", network, text).cost == Cost(1, 11)
    assert estimate(cidr.LIBRARY, "cidr_contains_ip_ip", network, network).cost == Cost(1, 4)
    assert estimate(cidr.LIBRARY, "cidr_contains_cidr_string", network, text).cost == Cost(3, 14)
    assert estimate(cidr.LIBRARY, "cidr_contains_cidr", network, network).cost == Cost(3, 7)
    whole, part = cidr.parse("2001:db8::/64"), "2001:db8::/96"
    assert measure(cidr.LIBRARY, "cidr_contains_cidr_string", whole, part) == 2 + 2 + 2
    assert measure(cidr.LIBRARY, "cidr_contains_ip_string", cidr.parse("10.0.0.0/8"), "10.1.2.3") == 2
