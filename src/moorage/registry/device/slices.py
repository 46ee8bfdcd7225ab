"""ResourceSlices: the devices that a driver offers."""

from __future__ import annotations

from datetime import UTC, datetime

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry import namesyntax, selectable
from moorage.registry.checks import Errors, syntax, unchanged
from moorage.registry.merging import ATOMIC, UNPATCHED_SET, shape, struct
from moorage.registry.pod.volumesources import driver_errors
from moorage.registry.printing import cells
from moorage.registry.printing.columns import AGE, NAME, column
from moorage.registry.strategy import SPEC, Strategy
from moorage.validation.field import duplicate, invalid, required, too_many

_MAX_DEVICES = 128
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


def _defaults(obj: Data, now: str) -> None:
    for device in obj.get("spec", {}).get("devices", ()):
        for taint in device.get("taints", ()):
            stamp(taint, now)


def stamp(taint: Data, now: str) -> None:
    """Set the time of a new device taint."""
    if "timeAdded" not in taint:
        taint["timeAdded"] = now or f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}Z"


def _errors(new: Data, old: Data | None) -> Errors:
    """Validate a ResourceSlice, or an update of one."""
    spec = new.get("spec", {})
    yield from driver_errors("spec.driver", spec.get("driver", ""))
    pool = spec.get("pool", {}).get("name", "")
    if not pool:
        yield required("spec.pool.name")
    places = [name for name in _PLACES if spec.get(name)]
    if not places:
        detail = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
        yield required("spec", detail)
    elif len(places) > 1:
        listed = ", ".join(f"`{name}`" for name in places)
        yield invalid(
            "spec",
            f"{{{listed}}}",
            "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple "
            "fields are set",
        )
    devices = spec.get("devices", ())
    if len(devices) > _MAX_DEVICES:
        yield too_many("spec.devices", len(devices), _MAX_DEVICES)
    yield from unique_labels("spec.devices", [device.get("name", "") for device in devices])
    if old is not None:
        before = old.get("spec", {})
        yield from unchanged("spec.driver", spec.get("driver"), before.get("driver"))
        yield from unchanged("spec.pool.name", pool, before.get("pool", {}).get("name", ""))
        yield from unchanged("spec.nodeName", spec.get("nodeName"), before.get("nodeName"))


def unique_labels(path: str, names: list[str]) -> Errors:
    """Validate the names of devices or requests."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        here = f"{path}[{index}].name"
        if not name:
            yield required(here)
        else:
            yield from syntax(here, name, namesyntax.label(name))
        if name and name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)


def _pool_name(item: Data) -> str:
    spec = item.get("spec")
    return selectable.at("pool.name")(spec) if isinstance(spec, dict) else ""


RESOURCE_SLICE = Strategy(
    kind=kinds.row("resource.k8s.io/v1", "ResourceSlice"),
    defaults=_defaults,
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
