"""New events, nodes, leases and claims, which come by the thousand: stored by a recipe when others like them came."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import msgspec

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.apiserver.base.recipes import (
    CopiedFields,
    SplitText,
    arrangement,
    is_hex,
    is_host,
    is_label,
    is_micro_time,
    is_name,
    is_number,
    is_prefix,
    is_sentence,
    is_time,
    is_uid,
)
from moorage.apiserver.http.messages import Request
from moorage.apiserver.request.bodies import media_type
from moorage.apiserver.request.routes import Route
from moorage.registry.metadata import generated_name
from moorage.registry.strategy import Strategy
from moorage.registry.table import strategy_of

_LONGEST = 4096
ADDED = '"v1" "status"'
"""What managed fields say that need not be in the object."""


def _is_hostname(value: bytes) -> bool:
    """Whether a value is a name that can be the value of a label, and that no amount can be written as."""
    return len(value) < 64 and (b"-" in value or b"." in value) and is_host(value) is not None


class _Metadata(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What the metadata of an object may have that is stored by a recipe."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: msgspec.Raw = msgspec.Raw()
    owner_references: msgspec.Raw = msgspec.Raw()
    finalizers: msgspec.Raw = msgspec.Raw()

    @property
    def is_named(self) -> bool:
        """Whether there is nothing of what claims alone may have."""
        return bool(self.name) and not (self.generate_name or self.annotations or self.finalizers)


class _Body(msgspec.Struct):
    metadata: _Metadata


class _Known(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    creation_timestamp: str


class _Stored(msgspec.Struct):
    metadata: _Known


_body = msgspec.json.Decoder(_Body).decode
_stored = msgspec.json.Decoder(_Stored).decode


class CreatedKind(NamedTuple):
    """A kind whose objects are stored by recipes."""

    strategy: Strategy
    fields: CopiedFields
    metadata: Callable[[_Metadata], bool]
    """Whether metadata is such as to be stored by a recipe."""
    without: bytes = b"\0"
    """A text that the body may not have."""


def _row(
    api_version: str, kind: str, fields: dict[str, Any], metadata: Callable[[_Metadata], bool], without: bytes = b"\0"
) -> tuple[Kind, CreatedKind]:
    row = kinds.row(api_version, kind)
    return row, CreatedKind(strategy_of(row), CopiedFields(fields), metadata, without)


_KINDS = dict(
    (
        _row(
            "v1",
            "Event",
            {
                **dict.fromkeys(("name", "host", "reportingInstance"), is_name),
                **dict.fromkeys(("firstTimestamp", "lastTimestamp"), is_time),
                "uid": is_uid,
                "resourceVersion": is_number,
                "message": is_sentence,
            },
            lambda metadata: metadata.is_named and not metadata.labels and not metadata.owner_references,
            b'"eventTime"',
        ),
        _row(
            "v1",
            "Node",
            {
                **dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), is_time),
                **dict.fromkeys(("systemUUID", "bootID"), is_uid),
                **dict.fromkeys(("name", "address", "kubernetes.io/hostname"), _is_hostname),
                "machineID": is_hex,
            },
            lambda metadata: metadata.is_named and not metadata.owner_references,
            b'"spec"',
        ),
        _row(
            "coordination.k8s.io/v1",
            "Lease",
            {**dict.fromkeys(("name", "holderIdentity"), is_name), "renewTime": is_micro_time, "uid": is_uid},
            lambda metadata: metadata.is_named and not metadata.labels,
        ),
        _row(
            "resource.k8s.io/v1",
            "ResourceClaim",
            {"name": is_label, "generateName": is_prefix, "uid": is_uid},
            lambda metadata: bool(metadata.name) != bool(metadata.generate_name),
            # Of what claims compare, whoever writes taints is to be warned.
            b"olerations",
        ),
    )
)


class NewText(NamedTuple):
    """An object that is to be created, and what its stored form depends on."""

    strategy: Strategy
    name: str
    is_generated: bool
    """Whether the server has made the name."""
    labels: dict[str, str]
    body: SplitText

    def values(self, uid: str, moment: str) -> list[bytes]:
        """All values that are copied into the stored form."""
        own = (uid, moment, self.name) if self.is_generated else (uid, moment)
        return [*map(str.encode, own), *self.body.values]

    def stored_values(self, stored: bytes) -> list[bytes]:
        """The same of an object that was stored."""
        known = _stored(stored).metadata
        return self._replace(name=known.name).values(known.uid, known.creation_timestamp)

    def sort(self, context: Hashable, values: Sequence[bytes]) -> Hashable:
        """What objects have in common that differ only in their values."""
        return self.strategy.kind.resource, context, self.body.rest, arrangement(values, self.body.ordered)


def new_text(route: Route, request: Request) -> NewText | None:
    """The new object in a request; None when it cannot be stored by a recipe."""
    known, body = _KINDS.get(route.kind), request.body
    if known is None or len(body) > _LONGEST or known.without in body or "dryRun" in request.query:
        return None
    if media_type(request) not in ("", "application/json"):
        return None
    try:
        metadata = _body(body).metadata
    except (msgspec.DecodeError, UnicodeError):
        return None  # the error is found when the body is read as any other
    split = known.fields.split(body) if known.metadata(metadata) else None
    if split is None:
        return None
    name = metadata.name or generated_name(metadata.generate_name)
    return NewText(known.strategy, name, not metadata.name, metadata.labels, split)
