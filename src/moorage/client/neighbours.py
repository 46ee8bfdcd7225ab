"""Who else works on a cluster: whether another control plane has it already."""

from __future__ import annotations

import msgspec

from moorage.api import kinds
from moorage.api.meta import Wire
from moorage.client import errors
from moorage.client.client import Client
from moorage.componentmetrics import is_moorage

_LEASE = kinds.row("coordination.k8s.io/v1", "Lease")
_NAMESPACE = "kube-system"


class _Version(Wire):
    git_version: str


class _HeldSpec(Wire):
    holder_identity: str | None = None


class _Held(Wire):
    spec: _HeldSpec | None = None


async def other_control_plane(client: Client, lease: str) -> str:
    """Why a component of Kubernetes, known by its lease, is to be expected beside ours; empty when it is not.

    A lease says so even if it has expired: its holder may be stopped for a moment only.
    """
    answer = await client.transport.request("GET", "/version")
    if answer.status == 403:
        return "the API server does not tell its version"
    if answer.status >= 300:
        raise errors.of(answer.status, answer.body, answer.retry_after)
    try:
        version = msgspec.json.decode(answer.body, type=_Version).git_version
    except (msgspec.DecodeError, UnicodeError):
        version = "of a version that cannot be read"
    if not is_moorage(version):
        return f"the API server is Kubernetes {version}"
    try:
        held = msgspec.json.decode(await client.get(_LEASE, _NAMESPACE, lease), type=_Held)
    except (errors.Missing, errors.Forbidden):
        return ""
    holder = held.spec.holder_identity if held.spec else ""
    return f"the lease {_NAMESPACE}/{lease} is held by {holder}" if holder else ""
