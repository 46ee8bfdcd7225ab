"""Stencils: pods of one template are stored alike but for name, labels, UID and time, so the rest is made once."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import msgspec

from moorage.api.meta import Data
from moorage.apiserver.http.messages import Request
from moorage.apiserver.patch.managed import manager_name
from moorage.apiserver.request.bodies import media_type
from moorage.apiserver.request.repeatedkeys import has_as_many_keys
from moorage.apiserver.request.routes import Route
from moorage.apiserver.verbs.admission import Surroundings
from moorage.apiserver.verbs.comparedkeys import Sort, compared_by
from moorage.bounded import Bounded
from moorage.names import label_value_errors
from moorage.registry.metadata import generated_name
from moorage.registry.pod.strategy import POD
from moorage.store.protocol import Item

_LONGEST = 8192
"""The longest body, in bytes, of a pod that may be made from a stencil."""
_STENCILS, _SEEN = 256, 1024
_SIMPLE_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
"""Names that need no further validation."""
_OWN_FIELDS = (b"\\u", b'"managedFields"', *(f'"{name}"'.encode() for name in POD.own_fields))
"""Fields by which the rest of a pod depends on what is its own, or that say who owns it; names spelt with escapes."""
_START, _ANY = b'{"metadata":', b'{"name":"any"}'


class _Around(msgspec.Struct):
    """An object of which only the metadata is read."""

    metadata: msgspec.Raw


_around = msgspec.json.Decoder(_Around).decode
_metadata = msgspec.json.Decoder(Data).decode


class Outline(NamedTuple):
    """What requests for pods of one template have in common."""

    before: bytes
    """The body before its metadata."""
    metadata: bytes
    """The metadata without the name and the values of labels."""
    after: bytes
    context: Hashable
    """What else the pod depends on: its namespace, its field manager, and how strictly the body is validated."""


class NewPod(NamedTuple):
    """A pod that is to be created, and what it does not share with others of its template."""

    outline: Outline
    name: str
    generate_name: str
    """The prefix of a name that the server has generated; empty when the pod brought its name."""
    labels: Data | None


class Stencil(NamedTuple):
    """A stored pod without what is its own."""

    metadata: Data
    rest: list[bytes]
    """What follows the metadata, split at every place of the creation time."""
    warnings: Sequence[str]
    around: Surroundings
    """The other objects on which it depends; when they have changed it is no longer valid."""
    comparisons: Sequence[tuple[Sort, str, str]]
    """What it compares as numbers or versions, of which those are warned who write taints and labels."""

    def fill(self, new: NewPod, uid: str, time: str) -> bytes:
        """The stored form of a new pod."""
        metadata = {**self.metadata, "name": new.name, "uid": uid, "creationTimestamp": time}
        if new.labels is not None:
            metadata["labels"] = new.labels
        metadata["managedFields"] = [{**metadata["managedFields"], "time": time}]
        return b"%b%b%b" % (_START, msgspec.json.encode(metadata), time.encode().join(self.rest))


class Stencils:
    """The stencils of the templates that were used lately, each made from the second pod of its template."""

    def __init__(self) -> None:
        self._stencils: Bounded[Outline, Stencil] = Bounded(_STENCILS)
        self._seen: Bounded[int, bool] = Bounded(_SEEN)

    def __len__(self) -> int:
        """How many templates are remembered, as stencils or as having been used once."""
        return len(self._stencils) + len(self._seen)

    def get(self, outline: Outline, around: Surroundings) -> Stencil | None:
        """The stencil of an outline, if there is one and it is still valid."""
        stencil = self._stencils.get(outline)
        return stencil if stencil is not None and stencil.around == around else None

    def learn(self, outline: Outline, item: Item, warnings: Sequence[str], around: Surroundings) -> None:
        """Make a stencil of a new pod as it was stored, if its template has come before."""
        key = hash(outline)
        is_first = key not in self._seen
        self._seen.put(key, True)
        if is_first:
            return
        value = item.value
        stored = bytes(_around(value).metadata)
        metadata = _metadata(stored)
        time = metadata["creationTimestamp"].encode()
        body = outline.before + _ANY + outline.after
        # The metadata must be where it was cut out, and the time only where the server has put it.
        if bytes(_around(body).metadata) != _ANY or time in body:
            return
        (owned,) = metadata["managedFields"]
        owned["fieldsV1"] = msgspec.Raw(msgspec.json.encode(owned["fieldsV1"]))
        metadata["managedFields"] = owned
        rest = value[len(_START) + len(stored) :].split(time)
        self._stencils.put(outline, Stencil(metadata, rest, warnings, around, compared_by(item, POD.kind)))


def new_pod(route: Route, request: Request) -> NewPod | None:
    """The pod in a request; None when it cannot be made from a stencil."""
    body = request.body
    if len(body) > _LONGEST or "dryRun" in request.query or any(name in body for name in _OWN_FIELDS):
        return None
    if media_type(request) not in ("", "application/json"):
        return None
    try:
        raw = bytes(_around(body).metadata)
        metadata = _metadata(raw)
        name = metadata.get("name")
        prefix = "" if name else metadata["generateName"]
        name = name or generated_name(prefix)
        labels = metadata.get("labels")
        if not _SIMPLE_NAME.fullmatch(name) or not has_as_many_keys(raw, metadata):
            return None
        if labels is not None:
            if any(map(label_value_errors, labels.values())):
                return None
            metadata["labels"] = dict.fromkeys(labels)
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # the error is found when the body is read as any other
    if "name" in metadata:
        metadata["name"] = None
    before, _, after = body.partition(raw)
    manager = manager_name(request.parameter("fieldManager"), request.headers.get("user-agent"))
    context = (route.namespace, manager, request.parameter("fieldValidation"))
    return NewPod(Outline(before, msgspec.json.encode(metadata), after, context), name, prefix, labels)
