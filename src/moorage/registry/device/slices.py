"""ResourceSlices: the devices that a driver offers."""

from __future__ import annotations

from datetime import UTC, datetime

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry import namesyntax, selectable
from moorage.registry.checks import NOT_POSITIVE, Errors, repeated, syntax, unchanged
from moorage.registry.device.inventory import counter_errors, device_errors
from moorage.registry.device.names import pool_errors, unique_labels
from moorage.registry.merging import ATOMIC, UNPATCHED_SET, shape, struct
from moorage.registry.pod.volumesources import driver_errors
from moorage.registry.printing import cells
from moorage.registry.printing.columns import AGE, NAME, column
from moorage.registry.strategy import SPEC, Strategy
from moorage.validation.field import invalid, required, too_many

_MAX_PLAIN_DEVICES = 128
_MAX_DEVICES = 64
"""How many devices a slice may hold when some use taints, counters or lists."""
_MAX_COUNTER_SETS = 8
_ONE_PLACE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"

_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


def _defaults(obj: Data, now: str) -> None:
    for device in obj.get("spec", {}).get("devices", ()):
        for taint in device.get("taints", ()):
            stamp(taint, now)


def stamp(taint: Data, now: str) -> None:
    """Set the time of a new device taint."""
    if "timeAdded" not in taint:
        taint["timeAdded"] = now or f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}Z"


def _drop_disabled(spec: Data) -> None:
    """Drop the fields of features that are alpha in Kubernetes, as it does while they are off."""
    for device in spec.get("devices", ()):
        device.pop("nodeAllocatableResourceMappings", None)
        for held in device.get("attributes", {}).values():
            for name in ("bools", "ints", "strings", "versions"):
                held.pop(name, None)


def _create(obj: Data, _: str) -> None:
    _drop_disabled(obj.get("spec", {}))


def _update(new: Data, _: Data, __: str) -> None:
    _drop_disabled(new.get("spec", {}))


def _errors(new: Data, old: Data | None) -> Errors:
    """Validate a ResourceSlice, or an update of one."""
    spec = new.get("spec", {})
    pool = spec.get("pool", {})
    yield from driver_errors("spec.driver", spec.get("driver", ""))
    yield from pool_errors("spec.pool.name", pool.get("name", ""))
    if pool.get("resourceSliceCount", 0) <= 0:
        yield invalid("spec.pool.resourceSliceCount", pool.get("resourceSliceCount", 0), NOT_POSITIVE)
    if pool.get("generation", 0) < 0:
        yield invalid("spec.pool.generation", pool["generation"], "must be greater than or equal to zero")
    if old is not None:
        before = old.get("spec", {})
        yield from unchanged("spec.driver", spec.get("driver"), before.get("driver"))
        yield from unchanged("spec.pool.name", pool.get("name", ""), before.get("pool", {}).get("name", ""))
        yield from unchanged("spec.nodeName", spec.get("nodeName"), before.get("nodeName"))
    yield from _place_errors(spec)
    if "sharedCounters" in spec and "devices" in spec:
        yield invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    yield from _devices_errors(spec)
    sets = spec.get("sharedCounters", ())
    if len(sets) > _MAX_COUNTER_SETS:
        yield too_many("spec.sharedCounters", len(sets), _MAX_COUNTER_SETS)
        return
    for index, each in enumerate(sets):
        yield from counter_errors(f"spec.sharedCounters[{index}]", "name", each)
    yield from repeated("spec.sharedCounters", [each.get("name", "") for each in sets])


def _place_errors(spec: Data) -> Errors:
    """Validate the nodes that can reach the devices."""
    if (node := spec.get("nodeName")) is not None:
        problems = namesyntax.subdomain(node) if node else ("must be either unset or set to a non-empty string",)
        yield from syntax("spec.nodeName", node, problems)
    terms = spec.get("nodeSelector", {}).get("nodeSelectorTerms", ())
    if "nodeSelector" in spec and len(terms) != 1:
        yield invalid("spec.nodeSelector.nodeSelectorTerms", terms, "must have exactly one node selector term")
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name) is False:
            yield invalid(f"spec.{name}", False, "must be either unset or set to true")
    places = [f"`{name}`" for name in _PLACES if spec.get(name) or (name == "nodeSelector" and name in spec)]
    if not places:
        yield required("spec", _ONE_PLACE)
    elif len(places) > 1:
        yield invalid("spec", f"{{{', '.join(places)}}}", f"{_ONE_PLACE}, but multiple fields are set")


def _devices_errors(spec: Data) -> Errors:
    devices = spec.get("devices", ())
    limit = _MAX_PLAIN_DEVICES if not any(map(_is_advanced, devices)) else _MAX_DEVICES
    if len(devices) > limit:
        yield too_many("spec.devices", len(devices), limit)
        return
    yield from unique_labels("spec.devices", [device.get("name", "") for device in devices])
    has_own_place = bool(spec.get("perDeviceNodeSelection"))
    for index, device in enumerate(devices):
        yield from device_errors(f"spec.devices[{index}]", device, has_own_place=has_own_place)


def _is_advanced(device: Data) -> bool:
    lists = ("bools", "ints", "strings", "versions")
    return bool(
        device.get("taints")
        or device.get("consumesCounters")
        or any(name in held for held in device.get("attributes", {}).values() for name in lists)
    )


def _pool_name(item: Data) -> str:
    spec = item.get("spec")
    return selectable.at("pool.name")(spec) if isinstance(spec, dict) else ""


RESOURCE_SLICE = Strategy(
    kind=kinds.row("resource.k8s.io/v1", "ResourceSlice"),
    prefix_checked=("create",),
    defaults=_defaults,
    create=_create,
    update=_update,
    errors=_errors,
    first_generation=1,
    counted=SPEC,
    field_refusal="field label not supported for {version}, Kind=ResourceSlice: {label}",
    fields={
        **selectable.NAME,
        "spec.nodeName": selectable.at("spec.nodeName"),
        "spec.driver": selectable.at("spec.driver"),
        "spec.pool.name": _pool_name,
    },
    merge=shape(spec=struct(nodeSelector=ATOMIC, pool=struct(), skipNodeOperations=UNPATCHED_SET)),
    columns=(
        NAME,
        column("Node", cells.at("spec.nodeName"), "The node that has the devices."),
        column("Driver", cells.at("spec.driver"), "The driver that offers the devices."),
        column("Pool", cells.at("spec.pool.name"), "The inventory that it is a part of."),
        AGE,
    ),
)
