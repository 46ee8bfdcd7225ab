"""Renewals of leases by whoever holds them, the most frequent write: the stored text with two times replaced."""

from __future__ import annotations

import re

from moorage.api import kinds
from moorage.apiserver.base.objects import key
from moorage.apiserver.base.recipes import is_micro_time
from moorage.apiserver.http.messages import Request, Response
from moorage.apiserver.patch.managed import manager_name
from moorage.apiserver.request.routes import Route
from moorage.apiserver.verbs import answers
from moorage.apiserver.verbs.backend import Backend
from moorage.apiserver.verbs.quotas import StoredWrite, store_charged
from moorage.store.protocol import Item, KeyMissing, RevisionConflict

_LEASE = kinds.row("coordination.k8s.io/v1", "Lease")
_MANAGED, _DELETED = b',"managedFields":', b'"deletionTimestamp":"'
_OWNER = (
    rb'"f:metadata":\{"f:ownerReferences":\{"\.":\{\},"k:\{\\"uid\\":\\"[-0-9a-f]{36}\\"\}":'
    rb'\{"\.":\{\},"f:apiVersion":\{\},"f:kind":\{\},"f:name":\{\},"f:uid":\{\}\}\}\},'
)
_held = re.compile(
    rb',"managedFields":\[\{"manager":"(?P<manager>[ !#-\[\]-~]+)","operation":"Update",'
    rb'"apiVersion":"coordination\.k8s\.io/v1","time":"(?P<written>[^"]+)","fieldsType":"FieldsV1",'
    rb'"fieldsV1":\{(?:%b)?"f:spec":\{"f:holderIdentity":\{\},"f:leaseDurationSeconds":\{\},"f:renewTime":\{\}\}\}\}\]\},'
    rb'"apiVersion":"coordination\.k8s\.io/v1","kind":"Lease",'
    rb'"spec":(?P<spec>\{"holderIdentity":"[^"\\]+","leaseDurationSeconds":\d+,"renewTime":")(?P<renewed>[^"]+)"\}\}'
    % _OWNER
).fullmatch
"""The end of a lease that one manager has written and nobody else, from its managed fields on."""


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


def renewed(item: Item, patch: bytes, manager: bytes, moment: bytes) -> bytes | None:
    """A stored lease after a patch; None when the patch does more than to renew it."""
    value = item.value
    start = value.rfind(_MANAGED)
    held = _held(value, max(start, 0))
    if held is None or held["manager"] != manager or _DELETED in value[:start]:
        return None
    before = b'{"metadata":{"resourceVersion":"%d"},"spec":%b' % (item.revision, held["spec"])
    time = patch[len(before) : -3]
    if patch != b'%b%b"}}' % (before, time) or time == held["renewed"] or not is_micro_time(time):
        return None
    written, last = held.span("written"), held.span("renewed")
    return b"".join((value[: written[0]], moment, value[written[1] : last[0]], time, b'"}}'))
