"""Statuses of pods as kubelets patch them: stored by a recipe, when other pods got theirs in the same way before."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import msgspec

from moorage.api import kinds
from moorage.apiserver.base.objects import key
from moorage.apiserver.base.recipes import CopiedFields, arrangement, is_address, is_container_id, is_time
from moorage.apiserver.http.messages import Request, Response
from moorage.apiserver.patch.managed import manager_name
from moorage.apiserver.request.routes import Route
from moorage.apiserver.verbs import answers
from moorage.apiserver.verbs.backend import Backend
from moorage.apiserver.verbs.quotas import StoredWrite, store_charged
from moorage.client.clock import timestamp
from moorage.registry.table import strategy_of
from moorage.store.protocol import Item, KeyMissing, RevisionConflict

_POD = kinds.row("v1", "Pod")
_STRATEGY = strategy_of(_POD)
_LONGEST = 16 << 10
"""How large a pod may be whose status is stored by a recipe."""
_MANAGED, _NODE, _DELETED = b',"managedFields":', b',"nodeName":"', b'"deletionTimestamp":"'
_FIELDS = CopiedFields(
    {
        **dict.fromkeys(("startTime", "lastTransitionTime", "startedAt", "time"), is_time),
        **dict.fromkeys(("hostIP", "podIP", "ip"), is_address),
        "containerID": is_container_id,
    }
)


class _Version(msgspec.Struct, rename="camel"):
    resource_version: str


class _StatusPatch(msgspec.Struct):
    metadata: _Version
    status: msgspec.Raw


_Parts = dict[str, msgspec.Raw]
_patch = msgspec.json.Decoder(_StatusPatch).decode
_parts = msgspec.json.Decoder(_Parts).decode


class StatusWrite(NamedTuple):
    """A patch of the status of a pod, and what its outcome depends on."""

    item: Item
    parts: _Parts
    head: bytes
    """The metadata before the managed fields, which does not change."""
    sort: Hashable
    rest: list[bytes]
    values: list[bytes]

    async def replay(self, backend: Backend, route: Route, request: Request) -> Response | None:
        """The response, when there is a recipe; None when the status must be patched like any other."""
        recipes = backend.recipes.get(self.sort)
        if recipes is None:
            return None
        managed, status = (recipe.text(self.values) for recipe in recipes)
        metadata = b"%b%b%b}" % (self.head, _MANAGED, managed)
        changed = {**self.parts, "metadata": msgspec.Raw(metadata), "status": msgspec.Raw(status)}
        new = self.item._replace(value=msgspec.json.encode(changed))
        try:
            stored = await store_charged(backend, StoredWrite(_POD, route.namespace, "status", new, self.item))
        except (RevisionConflict, KeyMissing):
            return None
        return answers.stored(route, request, stored, (), 200)

    async def learn(self, backend: Backend, response: Response) -> None:
        """Learn from what the status became that was patched like any other."""
        stored = await backend.store.get(self.item.key)
        if stored is None or stored.body != response.body or stored.value == self.item.value:
            return
        parts = _parts(stored.value)
        head, _, managed = bytes(parts["metadata"]).rpartition(_MANAGED)
        if head == self.head and parts.keys() == self.parts.keys():
            backend.recipes.learn(self.sort, (managed[:-1], bytes(parts["status"])), self.rest, self.values)


async def status_write(backend: Backend, route: Route, request: Request) -> StatusWrite | None:
    """The merge patch in a request, when it has only a status and the resourceVersion, and the pod stays."""
    if route.kind is not _POD or route.subresource != "status" or len(request.body) > _LONGEST:
        return None
    if "dryRun" in request.query or backend.admission.plugins:
        return None
    item = await backend.store.get(key(_POD, route.namespace, route.name))
    try:
        sent = _patch(request.body)
    except (msgspec.DecodeError, UnicodeError):
        return None
    version, status = sent.metadata.resource_version, bytes(sent.status)
    if item is None or len(item.value) > _LONGEST or version != str(item.revision):
        return None
    # So there is nothing else in the patch, and nothing twice.
    if request.body != b'{"metadata":{"resourceVersion":"%b"},"status":%b}' % (version.encode(), status):
        return None
    return _of(item, status, timestamp(backend.now()), request)


def _of(item: Item, status: bytes, moment: str, request: Request) -> StatusWrite | None:
    parts = _parts(item.value)
    head, _, managed = bytes(parts["metadata"]).rpartition(_MANAGED)
    if not head or _DELETED in head or "status" not in parts:
        return None
    texts = [_FIELDS.split(text) for text in (managed[:-1], bytes(parts["status"]), status)]
    values, ordered, rest = [moment.encode()], [moment.encode()], []
    for text in texts:
        if text is None:
            return None
        values += text.values
        ordered += text.ordered
        rest.append(text.rest)
    spec, _, node = bytes(parts["spec"]).rpartition(_NODE)
    if not spec or node.find(b'"') != len(node) - 2:
        return None
    manager = manager_name(request.parameter("fieldManager"), request.headers.get("user-agent"))
    sort = (spec, *rest, manager, request.parameter("fieldValidation"), arrangement(values, ordered))
    around = [piece for pieces in rest for piece in pieces]
    return StatusWrite(item, parts, head, sort, [*around, b'"%b"' % manager.encode()], values)
