"""DeviceTaintRules."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry import namesyntax
from moorage.registry.checks import Errors, syntax
from moorage.registry.device.names import pool_errors
from moorage.registry.device.slices import stamp
from moorage.registry.merging import CONDITIONS, shape, struct
from moorage.registry.pod.volumesources import driver_errors
from moorage.registry.printing import cells
from moorage.registry.printing.columns import AGE, NAME, column
from moorage.registry.strategy import RESET_METADATA, SPEC, Strategy


def _defaults(obj: Data, now: str) -> None:
    stamp(obj.setdefault("spec", {}).setdefault("taint", {}), now)


def _update(new: Data, old: Data, now: str) -> None:
    taint = new.get("spec", {}).get("taint", {})
    before = old.get("spec", {}).get("taint", {})
    if now and taint.get("effect") != before.get("effect") and taint.get("timeAdded") == before.get("timeAdded"):
        taint["timeAdded"] = now


def _errors(new: Data, _: Data | None) -> Errors:
    """Validate a DeviceTaintRule, beyond its taint."""
    path, selector = "spec.deviceSelector", new.get("spec", {}).get("deviceSelector", {})
    if "driver" in selector:
        yield from driver_errors(f"{path}.driver", selector["driver"])
    if "pool" in selector:
        yield from pool_errors(f"{path}.pool", selector["pool"])
    if "device" in selector:
        yield from syntax(f"{path}.device", selector["device"], namesyntax.label(selector["device"]))


DEVICE_TAINT_RULE = Strategy(
    kind=kinds.row("resource.k8s.io/v1", "DeviceTaintRule"),
    prefix_checked=("create",),
    defaults=_defaults,
    update=_update,
    errors=_errors,
    status_keeps=RESET_METADATA,
    status_owns_metadata=False,
    first_generation=1,
    counted=SPEC,
    merge=shape(spec=struct(taint=struct()), status=CONDITIONS),
    columns=(
        NAME,
        column("Key", cells.at("spec.taint.key"), "The key of the taint."),
        column("Value", cells.at("spec.taint.value"), "The value of the taint."),
        column("Effect", cells.at("spec.taint.effect"), "What the taint does."),
        column("TimeAdded", cells.ago("spec.taint.timeAdded", ""), "How long ago the taint was added."),
        AGE,
    ),
)
