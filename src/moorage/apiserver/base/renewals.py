"""Renewals of leases by whoever holds them, the most frequent write: the stored text with two times replaced."""

from __future__ import annotations

import re

from moorage.apiserver.base.recipes import is_micro_time
from moorage.store.protocol import Item

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
