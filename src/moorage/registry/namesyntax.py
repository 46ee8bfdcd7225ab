"""The syntax of names of objects, containers, ports, variables and keys, with the error texts of Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import AddressValueError, IPv6Address, ip_address

from moorage.bounded import remember_short
from moorage.names import subdomain_errors

Problems = tuple[str, ...]
Syntax = Callable[[str], Problems]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_RE = re.compile(r"[a-z0-9]++(?:-++[a-z0-9]++)*+")
_UNDERSCORED = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORED_RE = re.compile(r"_?[a-z0-9]++(?:[-_]++[a-z0-9]++)*+(?:\._?[a-z0-9]++(?:[-_]++[a-z0-9]++)*+)*+")
_BAD_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_BAD_UNDERSCORED = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    rf"'{_UNDERSCORED}(\.{_UNDERSCORED})*')"
)
_PORT_NAME = re.compile(r"[-a-z0-9]+")
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_BAD_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_PERCENT = re.compile(r"[0-9]+%", re.ASCII)
_BAD_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_LONGEST_PERCENT = len("999999999%")
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_BAD_HEADER = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)
_BAD_VARIABLE = "a valid environment variable name must consist only of printable ASCII characters other than '='"
BAD_PORT = "must be between 1 and 65535, inclusive"


@remember_short(16384)
def subdomain(name: str) -> Problems:
    """A DNS subdomain such as `web-1.example`, the name of most objects."""
    return tuple(problem.replace("bytes", "characters") for problem in subdomain_errors(name))


@remember_short(16384)
def label(name: str) -> Problems:
    """A DNS label such as `web-1`, the name of namespaces, services, containers and volumes."""
    problems = []
    if len(name) > 63:
        problems.append("must be no more than 63 characters")
    if not _LABEL_RE.fullmatch(name):
        problems.append("must not contain dots" if len(subdomain_errors(name)) == (len(name) > 253) else _BAD_LABEL)
    return tuple(problems)


def search_domain(name: str) -> Problems:
    """A DNS search domain, which may contain underscores."""
    problems = ["must be no more than 253 characters"] if len(name) > 253 else []
    if not _UNDERSCORED_RE.fullmatch(name):
        problems.append(_BAD_UNDERSCORED)
    return tuple(problems)


def path_segment(name: str) -> Problems:
    """Any name that is a path segment, for roles and bindings."""
    if name in (".", ".."):
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{odd}'" for odd in "/%" if odd in name)


def prefix(syntax: Syntax, name: str) -> Problems:
    """A generateName, which may end with a dash."""
    return syntax(name[:-2] + "a" if len(name) > 1 and name.endswith("-") and syntax is not path_segment else name)


def port_name(name: str) -> Problems:
    """The name of a port of a container."""
    problems = []
    if len(name) > 15:
        problems.append("must be no more than 15 characters")
    if not _PORT_NAME.fullmatch(name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= char <= "z" for char in name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return tuple(problems)


def variable(name: str) -> Problems:
    """The name of an environment variable."""
    return () if name.isascii() and name.isprintable() and "=" not in name else (_BAD_VARIABLE,)


def config_key(key: str) -> Problems:
    """A key of a ConfigMap or Secret, which may become a file name."""
    problems = []
    if len(key) > 253:
        problems.append("must be no more than 253 characters")
    if not _KEY.fullmatch(key):
        problems.append(_BAD_KEY)
    if key in (".", ".."):
        problems.append(f"must not be '{key}'")
    elif key.startswith(".."):
        problems.append("must not start with '..'")
    return tuple(problems)


def percent(text: str) -> Problems:
    """A percentage such as `25%`."""
    if not _PERCENT.fullmatch(text):
        return (_BAD_PERCENT,)
    return () if len(text.lstrip("0")) <= _LONGEST_PERCENT else ("must be no more than 999999999%",)


def header(name: str) -> Problems:
    """The name of an HTTP header."""
    return () if _HEADER.fullmatch(name) else (_BAD_HEADER,)


def address(text: str) -> Problems:
    """An IP address."""
    try:
        parsed = ip_address(text)
    except (ValueError, AddressValueError):
        return ("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",)
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return ("must not be an IPv4-mapped IPv6 address",)
    return ()
