"""What create, update, patch and delete have in common."""

from __future__ import annotations

import random
import secrets

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.apiserver.access.escalation import escalation
from moorage.apiserver.access.roles import RBAC_GROUP
from moorage.apiserver.base.objects import encode
from moorage.apiserver.base.offload import offload
from moorage.apiserver.http.failures import bad_request, too_large
from moorage.apiserver.http.messages import Refused, Request, status
from moorage.apiserver.patch import managed
from moorage.apiserver.patch.errors import PatchError
from moorage.apiserver.request.routes import Route
from moorage.apiserver.verbs.backend import Backend
from moorage.apiserver.verbs.serviceaddresses import give_address
from moorage.apiserver.verbs.serviceports import give_ports
from moorage.registry.table import strategy_of

ATTEMPTS = 10
"""How often a change is tried again when somebody else was faster."""
_MAX_BYTES = 1_500_000
"""How large an object may become: the default limit of etcd."""
_SERVICE = kinds.row("v1", "Service")
_REASONS = {400: "BadRequest", 409: "Conflict", 422: "Invalid"}
_RANDOM = random.Random(secrets.randbits(128))
_VARIANT = {f"{digit:x}": f"{digit & 3 | 8:x}" for digit in range(16)}


def new_uid() -> str:
    """A random UUID. It is no secret, so it need not come from the kernel."""
    digits = f"{_RANDOM.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANT[digits[16]]}{digits[17:20]}-{digits[20:]}"


def is_dry(request: Request) -> bool:
    """Whether nothing is to be stored."""
    values = request.query.get("dryRun") if request.query else None
    for value in values or ():
        if value != "All":
            raise bad_request(f'dryRun: Unsupported value: "{value}": supported values: "All"')
    return bool(values)


def encoded(data: Data) -> bytes:
    """The bytes that are stored; Refused when they are too many."""
    value = encode(data)
    if len(value) > _MAX_BYTES:
        raise too_large(f"limit is {_MAX_BYTES}")
    return value


async def allocate(backend: Backend, kind: Kind, new: Data, old: Data | None, *, dry: bool, size: int = 0) -> None:
    """Fill in what the server generates or allocates: selectors of jobs, addresses and ports of services.

    No field manager owns these fields, so they are added after the managed fields were updated.
    """
    if old is None:
        strategy_of(kind).generate(new)
    # What is wrong with a service is told before what cannot be allocated.
    if kind is _SERVICE and not await offload(size, _has_errors, kind, new, old):
        if old is None or old["spec"].get("type") == "ExternalName":
            await give_address(backend.store, new, dry=dry)
        await give_ports(backend.store, new, dry=dry)


def _has_errors(kind: Kind, new: Data, old: Data | None) -> bool:
    return any(strategy_of(kind).errors(new, old))


def check_escalation(backend: Backend, route: Route, request: Request, new: Data, old: Data | None) -> None:
    """Refuse a role or binding that gives more than its author has."""
    if route.kind.group == RBAC_GROUP and request.user is not None:
        problem = escalation(backend.rbac, request.user, route.kind.kind, route.namespace, new, old)
        if problem is not None:
            raise Refused(problem)


def managed_write(route: Route, request: Request, moment: str) -> managed.ManagedWrite:
    """Who writes, when and in which version: what the managed fields of an object record."""
    manager = managed.manager_name(request.parameter("fieldManager"), request.headers.get("user-agent"))
    # Fields are recorded in the version that is stored.
    version = "v1" if route.kind.group == "events.k8s.io" else route.kind.api_version
    return managed.ManagedWrite(version, route.kind.kind, manager, moment, route.subresource)


def patch_refused(error: PatchError) -> Refused:
    """The answer to a patch that does not fit."""
    causes = [{"reason": cause.type, "message": cause.message, "field": cause.field} for cause in error.causes]
    reason = _REASONS.get(int(error.status), "")
    return Refused(status(int(error.status), reason, error.message, {"causes": causes}))


def unmet_precondition(expected: tuple[str | None, str | None], actual: tuple[str, str]) -> str:
    """The first of UID and resourceVersion that is not what a request expects, in words; empty when both are."""
    for name, precondition, value in zip(("UID", "ResourceVersion"), expected, actual, strict=True):
        if precondition and precondition != value:
            return f"Precondition failed: {name} in precondition: {precondition}, {name} in object meta: {value}"
    return ""
