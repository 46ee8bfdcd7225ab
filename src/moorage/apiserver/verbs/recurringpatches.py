"""Patches of pods, nodes, leases and claims by the thousand: stored by a recipe when others like them came."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import msgspec
from msgspec.structs import astuple

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.apiserver.base.objects import exactly, key
from moorage.apiserver.base.recipes import (
    CopiedFields,
    arrangement,
    is_address,
    is_container_id,
    is_hex,
    is_host,
    is_label,
    is_micro_time,
    is_name,
    is_time,
    is_uid,
)
from moorage.apiserver.base.renewals import renewed
from moorage.apiserver.http.messages import JSON, Request, Response
from moorage.apiserver.patch.managed import manager_name
from moorage.apiserver.request.routes import Route
from moorage.apiserver.verbs import answers
from moorage.apiserver.verbs.backend import Backend
from moorage.apiserver.verbs.quotas import StoredWrite, store_charged
from moorage.store.protocol import Item, KeyMissing, RevisionConflict

_LONGEST = 16 << 10
"""How large an object may be that is stored by a recipe."""
_MANAGED, _NODE_NAME, _DELETED = b',"managedFields":', b',"nodeName":"', b'"deletionTimestamp":"'
_ADDED = b'"v1" "status" "coordination.k8s.io/v1"'
"""What managed fields say that need not be in the object or in the patch."""


class PatchedPart(NamedTuple):
    """The part of an object that such patches change."""

    name: str
    fields: CopiedFields
    only: bytes = b""
    """The only patch that is stored by a recipe; empty when any is."""


_NODE, _LEASE = kinds.row("v1", "Node"), kinds.row("coordination.k8s.io/v1", "Lease")
_NODE_FIELDS = CopiedFields(
    {
        **dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime", "timeAdded", "time"), is_time),
        **dict.fromkeys(("systemUUID", "bootID"), is_uid),
        "machineID": is_hex,
        "address": is_host,  # or an IPv4 address, which has the syntax of a name
    }
)
_PARTS: dict[tuple[Kind, str], PatchedPart] = {
    (kinds.row("v1", "Pod"), "status"): PatchedPart(
        "status",
        CopiedFields(
            {
                **dict.fromkeys(("startTime", "lastTransitionTime", "startedAt", "time"), is_time),
                **dict.fromkeys(("hostIP", "podIP", "ip"), is_address),
                "containerID": is_container_id,
                "resourceClaimName": is_name,
                "uid": is_uid,
            }
        ),
    ),
    (kinds.row("resource.k8s.io/v1", "ResourceClaim"), "status"): PatchedPart(
        "status",
        CopiedFields(
            {
                **dict.fromkeys(("allocationTimestamp", "lastTransitionTime", "time"), is_time),
                # The request of a result is the name of one in the specification.
                **dict.fromkeys(("name", "request", "pool"), is_name),
                "device": is_label,
                "uid": is_uid,
            },
            {b'key":"metadata.name","operator":"In","values":["': is_name},
        ),
    ),
    (_NODE, "status"): PatchedPart("status", _NODE_FIELDS),
    # Of a taint that is added, people may have to be warned.
    (_NODE, ""): PatchedPart("spec", _NODE_FIELDS, b'{"taints":null}'),
    (_LEASE, ""): PatchedPart(
        "spec", CopiedFields({"holderIdentity": is_name, "renewTime": is_micro_time, "time": is_time, "uid": is_uid})
    ),
}


class _Target(msgspec.Struct, rename="camel"):
    """Which object, or which version of it, a patch is meant for."""

    resource_version: str = ""
    uid: str = ""


class _Patch(msgspec.Struct):
    metadata: _Target
    spec: msgspec.Raw = msgspec.Raw()
    status: msgspec.Raw = msgspec.Raw()


_Parts = dict[str, msgspec.Raw]
_patch = msgspec.json.Decoder(_Patch).decode
_target = msgspec.json.Decoder(_Target).decode
_parts = msgspec.json.Decoder(_Parts).decode


class RecurringPatch(NamedTuple):
    """A patch of one part of an object, and what its outcome depends on."""

    part: PatchedPart
    item: Item
    parts: _Parts
    head: bytes
    """The metadata before the managed fields, which does not change."""
    sort: Hashable
    rest: list[bytes]
    values: list[bytes]
    """The time of the write first."""

    async def replay(self, backend: Backend, route: Route, request: Request) -> Response | None:
        """The response, when there is a recipe; None when the object must be patched like any other."""
        recipes = backend.recipes.get(self.sort)
        if recipes is None:
            return None
        managed, patched = (recipe.text(self.values) for recipe in recipes)
        metadata = b"%b%b%b}" % (self.head, _MANAGED, managed)
        changed = {**self.parts, "metadata": msgspec.Raw(metadata), self.part.name: msgspec.Raw(patched)}
        new = self.item._replace(value=exactly(msgspec.json.encode(changed)))
        write = StoredWrite(route.kind, route.namespace, route.subresource, new, self.item)
        try:
            stored = await store_charged(backend, write)
        except (RevisionConflict, KeyMissing):
            return None
        return await answers.stored(route, request, stored, (), 200)

    async def learn(self, backend: Backend, response: Response) -> None:
        """Learn from what became of an object that was patched like any other, without a warning."""
        stored = await backend.store.get(self.item.key)
        if stored is None or stored.body != response.body or stored.value == self.item.value:
            return
        # The time of the write is known only when no second has ended meanwhile.
        if response.headers != JSON or backend.timestamp().encode() != self.values[0]:
            return
        parts = _parts(stored.value)
        head, _, managed = bytes(parts["metadata"]).rpartition(_MANAGED)
        if head == self.head and [*parts] == [*{**self.parts, self.part.name: b""}]:
            patched = bytes(parts[self.part.name])
            backend.recipes.learn(self.sort, (managed[:-1], patched), self.rest, self.values)


async def renewal(backend: Backend, route: Route, request: Request) -> Response | None:
    """The response to a merge patch with which the only writer of a lease sets another time, and nothing else."""
    if route.kind is not _LEASE or route.subresource or "dryRun" in request.query or backend.admission.plugins:
        return None
    item = await backend.store.get(key(_LEASE, route.namespace, route.name))
    if item is None:
        return None
    manager = manager_name(request.parameter("fieldManager"), request.headers.get("user-agent"))
    value = renewed(item, request.body, manager.encode(), backend.timestamp().encode())
    if value is None:
        return None
    write = StoredWrite(_LEASE, route.namespace, "", item._replace(value=value), item)
    try:
        stored = await store_charged(backend, write)
    except (RevisionConflict, KeyMissing):
        return None
    return await answers.stored(route, request, stored, (), 200)


async def recurring_patch(backend: Backend, route: Route, request: Request) -> RecurringPatch | None:
    """The merge patch in a request, when it has only the part and the resourceVersion or uid, and the object stays."""
    part = _PARTS.get((route.kind, route.subresource))
    if part is None or len(request.body) > _LONGEST or "dryRun" in request.query or backend.admission.plugins:
        return None
    try:
        sent = _patch(request.body)
    except (msgspec.DecodeError, UnicodeError):
        return None  # the error is found when the patch is read as any other
    (version, uid), text = astuple(sent.metadata), bytes(getattr(sent, part.name))
    target = b'"resourceVersion":"%b"' % version.encode() if version else b'"uid":"%b"' % uid.encode()
    # When these are equal there is nothing else in the patch, and nothing twice.
    if request.body != b'{"metadata":{%b},"%b":%b}' % (target, part.name.encode(), text):
        return None
    if part.only not in (b"", text):
        return None
    item = await backend.store.get(key(route.kind, route.namespace, route.name))
    if item is None or len(item.value) > _LONGEST or version not in ("", str(item.revision)):
        return None
    return _of(part, item, text, backend.timestamp(), request, uid)


def _of(part: PatchedPart, item: Item, patch: bytes, moment: str, request: Request, uid: str) -> RecurringPatch | None:
    parts = _parts(item.value)
    head, _, managed = bytes(parts["metadata"]).rpartition(_MANAGED)
    if not head or _DELETED in head or (uid and _target(parts["metadata"]).uid != uid):
        return None
    values, ordered, rest = [moment.encode()], [moment.encode()], []
    others = [_common(bytes(raw)) for name, raw in parts.items() if name not in ("metadata", part.name)]
    split_again = part.fields.split_again
    stored = map(split_again, (managed[:-1], bytes(parts.get(part.name, b"")), b",".join(others)))
    for split in (part.fields.split(patch), *stored):
        if split is None:
            return None
        values += split.values
        ordered += split.ordered
        rest.append(split.rest)
    manager = manager_name(request.parameter("fieldManager"), request.headers.get("user-agent"))
    sort = (part.name, *rest, manager, request.parameter("fieldValidation"), arrangement(values, ordered))
    around = [piece for pieces in rest for piece in pieces]
    return RecurringPatch(part, item, parts, head, sort, [*around, b'"%b"' % manager.encode(), _ADDED], values)


def _common(raw: bytes) -> bytes:
    """A part that does not change, without the node of a pod that was bound to it."""
    before, _, node = raw.rpartition(_NODE_NAME)
    return before if before and node.find(b'"') == len(node) - 2 else raw
