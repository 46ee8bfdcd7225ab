"""The syntax of names of devices, their attributes, pools and requests, and lists that they are unique in."""

from __future__ import annotations

import re
from collections.abc import Sequence

from moorage.registry import namesyntax
from moorage.registry.checks import Errors, repeated, syntax
from moorage.registry.pod.volumesources import driver_errors
from moorage.validation.field import invalid, required, too_long

_MAX_POOL = 253
_MAX_ID = 32
# Kubernetes allows no hyphens; the proposals' own examples have them.
_IDENTIFIER = re.compile(r"[A-Za-z_][-A-Za-z0-9_]*")
_BAD_IDENTIFIER = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
_BAD_REFERENCE = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"


def unique_labels(path: str, names: Sequence[str]) -> Errors:
    """Validate the names of devices or requests, which are DNS labels."""
    for index, name in enumerate(names):
        yield from syntax(f"{path}[{index}].name", name, namesyntax.label(name))
    yield from repeated(path, names)


def pool_errors(path: str, name: str) -> Errors:
    """Validate the name of a pool: DNS subdomains between slashes."""
    if not name:
        yield required(path)
        return
    if len(name) > _MAX_POOL:
        yield too_long(path, _MAX_POOL)
    for part in name.split("/"):
        yield from syntax(path, part, namesyntax.subdomain(part))


def qualified_errors(path: str, name: str) -> Errors:
    """Validate the name of an attribute or a capacity: an identifier, after a domain and a slash or alone."""
    domain, slash, inner = name.rpartition("/")
    if "/" in domain:
        return
    if slash and not domain:
        yield invalid(path, "", "the domain must not be empty")
    elif slash:
        yield from driver_errors(path, domain)
    if slash and not inner:
        yield invalid(path, "", "the name must not be empty")
        return
    if len(inner) > _MAX_ID:
        yield too_long(path, _MAX_ID)
    if not _IDENTIFIER.fullmatch(inner):
        yield invalid(path, inner, _BAD_IDENTIFIER)


def fully_qualified_errors(path: str, name: str) -> Errors:
    """Validate the name of an attribute with its domain."""
    yield from qualified_errors(path, name)
    if "/" not in name:
        yield invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash")


def reference_errors(path: str, references: Sequence[str], requests: set[str]) -> Errors:
    """Validate names of requests, or of a request and one of its ways."""
    for index, name in enumerate(references):
        here = f"{path}[{index}]"
        parts = name.split("/")
        if len(parts) <= 2:
            for part in parts:
                yield from syntax(here, part, namesyntax.label(part))
        if name not in requests:
            yield invalid(here, name, _BAD_REFERENCE)
    yield from repeated(path, references)
