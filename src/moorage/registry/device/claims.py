"""ResourceClaims and their templates."""

from __future__ import annotations

from datetime import datetime

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.api.resource import ResourceClaim
from moorage.quantity import Quantity
from moorage.registry import schema
from moorage.registry.checks import IMMUTABLE, Errors
from moorage.registry.device.requests import default_requests, default_tolerations, devices_errors
from moorage.registry.merging import ATOMIC, METADATA, keyed, pointer, shape, struct, unpatched
from moorage.registry.metadata import template_metadata_errors
from moorage.registry.printing import cells
from moorage.registry.printing.cells import PrintedRow
from moorage.registry.printing.columns import AGE, NAME, column
from moorage.registry.strategy import RESET_METADATA, Strategy
from moorage.registry.usage import Quantities, Usage, add
from moorage.validation.field import invalid


def _default_claim(obj: Data, _: str) -> None:
    default_requests(obj.get("spec", {}))
    for result in obj.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()):
        default_tolerations(result)


def _default_template(obj: Data, _: str) -> None:
    default_requests(obj.get("spec", {}).get("spec", {}))


def _claim_errors(new: Data, old: Data | None) -> Errors:
    """Validate a ResourceClaim, or an update of one."""
    if old is not None:
        yield from _frozen(RESOURCE_CLAIM.kind, new, old)
    else:
        yield from devices_errors("spec.devices", new.get("spec", {}).get("devices", {}))


def _template_errors(new: Data, old: Data | None) -> Errors:
    """Validate a ResourceClaimTemplate, or an update of one."""
    spec = new.get("spec", {})
    yield from template_metadata_errors("spec.metadata", spec.get("metadata", {}))
    yield from devices_errors("spec.spec.devices", spec.get("spec", {}).get("devices", {}), is_new=old is None)
    if old is not None:
        yield from _frozen(RESOURCE_CLAIM_TEMPLATE.kind, new, old)


def _frozen(kind: Kind, new: Data, old: Data) -> Errors:
    if not schema.same(kind, new, old, "spec"):
        yield invalid("spec", new.get("spec"), IMMUTABLE)


def _claim_state(row: PrintedRow) -> str:
    """Whether a device claim has its devices and is used."""
    deleted, allocated = row.metadata.get("deletionTimestamp"), row.status.get("allocation") is not None
    states = {
        "deleted": deleted,
        "pending": not allocated and not deleted,
        "allocated": allocated,
        "reserved": allocated and row.status.get("reservedFor"),
    }
    return cells.joined(state for state, holds in states.items() if holds)


_DEVICES_SPEC = struct(devices=struct())

_UNPATCHED_CONDITIONS = pointer(conditions=unpatched(keyed("type")))


_OF_CLASS = ".deviceclass.resource.k8s.io/devices"
_MOST_DEVICES = 32
"""How many devices a claim can have, and so all of a class may be."""


def _amounts(claim: ResourceClaim, _: datetime) -> Quantities:
    """What a claim uses of a quota: the devices of each class, at most."""
    used: Quantities = {}
    for request in claim.spec.devices.requests:
        ways = request.first_available or ((request.exactly,) if request.exactly is not None else ())
        most: dict[str, int] = {}
        for way in ways:
            count = {"ExactCount": way.count, "All": _MOST_DEVICES}.get(way.allocation_mode, 0)
            most[way.device_class_name] = max(count, most.get(way.device_class_name, 0))
        add(used, {f"{name}{_OF_CLASS}": Quantity.integer(count) for name, count in most.items()})
    return used


RESOURCE_CLAIM = Strategy(
    kind=kinds.row("resource.k8s.io/v1", "ResourceClaim"),
    usage=Usage(amounts=_amounts, names=lambda name: name.endswith(_OF_CLASS), updates=("",)),
    defaults=_default_claim,
    errors=_claim_errors,
    is_frozen=True,
    status_keeps=RESET_METADATA,
    status_owns_metadata=False,
    merge=shape(
        spec=_DEVICES_SPEC,
        status=struct(
            allocation=pointer(devices=struct(), nodeSelector=ATOMIC),
            devices=unpatched(keyed("driver", "device", "pool", "shareID", shareID=None, item=_UNPATCHED_CONDITIONS)),
            reservedFor=keyed("uid"),
        ),
    ),
    columns=(
        NAME,
        column("State", _claim_state, "Whether it has its devices, and whether they are used."),
        AGE,
    ),
)


RESOURCE_CLAIM_TEMPLATE = Strategy(
    kind=kinds.row("resource.k8s.io/v1", "ResourceClaimTemplate"),
    defaults=_default_template,
    errors=_template_errors,
    merge=shape(spec=struct(metadata=METADATA, spec=_DEVICES_SPEC)),
)
