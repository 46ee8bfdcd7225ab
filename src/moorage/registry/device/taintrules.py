"""DeviceTaintRules."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry.device.slices import stamp
from moorage.registry.merging import CONDITIONS, shape, struct
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


DEVICE_TAINT_RULE = Strategy(
    kind=kinds.row("resource.k8s.io/v1", "DeviceTaintRule"),
    defaults=_defaults,
    update=_update,
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
