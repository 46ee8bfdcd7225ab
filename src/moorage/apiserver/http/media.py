"""Content negotiation: the Accept header of a client against the forms that are offered."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

JSON, YAML = "application/json", "application/yaml"


class Form(NamedTuple):
    """A form in which objects are answered: themselves, a Table, bare metadata, aggregated discovery."""

    group: str = ""
    version: str = ""
    kind: str = ""

    @property
    def api_version(self) -> str:
        """Group and version as objects spell them."""
        return f"{self.group}/{self.version}"

    @property
    def content_type(self) -> str:
        """The Content-Type: with parameters for aggregated discovery, plain JSON for all other forms."""
        return f"{JSON};g={self.group};v={self.version};as={self.kind}" if self.kind else JSON


PLAIN = Form()
TABLE = Form("meta.k8s.io", "v1", "Table")
PARTIAL = Form("meta.k8s.io", "v1", "PartialObjectMetadata")
PARTIAL_LIST = Form("meta.k8s.io", "v1", "PartialObjectMetadataList")
OLD_TABLE, OLD_PARTIAL, OLD_PARTIAL_LIST = (form._replace(version="v1beta1") for form in (TABLE, PARTIAL, PARTIAL_LIST))


class _Clause(NamedTuple):
    type: str
    subtype: str
    quality: float
    parameters: Mapping[str, str]


def negotiate(accept: str, offers: Collection[Form] = (PLAIN,)) -> Form | None:
    """The first form, in the client's order, that is on offer; None when nothing of what it accepts is."""
    if not accept:
        return PLAIN if PLAIN in offers else None
    for form in _wanted(accept[:_LONGEST]):
        if form in offers:
            return form
    return None


def choose(accept: str, types: Sequence[str]) -> str | None:
    """The first type, in the client's order, that is on offer; None when nothing of what it accepts is."""
    if not accept:
        return types[0]
    for clause in _ordered(accept):
        for offer in types:
            if clause.type in (offer.partition("/")[0], "*") and clause.subtype in (offer.partition("/")[2], "*"):
                return offer
    return None


def prefers_yaml(accept: str) -> bool:
    """Whether a client would rather have YAML than JSON."""
    return "yaml" in accept and choose(accept, (JSON, YAML)) == YAML


_LONGEST = 1024
"""How much of an Accept header is read."""


@lru_cache(maxsize=128)
def _wanted(accept: str) -> tuple[Form, ...]:
    """The forms that an Accept header lists, preferred first, whether in JSON or in YAML."""
    return tuple(
        Form(*(clause.parameters.get(name, "") for name in ("g", "v", "as")))
        for clause in _ordered(accept)
        if clause.type in ("application", "*") and clause.subtype in ("json", "yaml", "*")
    )


def _ordered(accept: str) -> list[_Clause]:
    clauses = [clause for clause in _clauses(accept) if clause.quality > 0]
    return sorted(clauses, key=lambda clause: (-clause.quality, clause.type == "*", clause.subtype == "*"))


def _clauses(accept: str) -> Iterator[_Clause]:
    for text in accept[:_LONGEST].split(","):
        media, *rest = (part.strip() for part in text.split(";"))
        type_, slash, subtype = media.lower().partition("/")
        if not slash and type_ != "*":
            continue
        pairs = (part.partition("=") for part in rest)
        parameters = {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}
        try:
            quality = float(parameters.get("q", "1"))
        except ValueError:
            quality = 1.0
        yield _Clause(type_, subtype if slash else "*", quality, parameters)
