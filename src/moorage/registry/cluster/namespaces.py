"""Namespaces."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.names import label_key_errors
from moorage.registry import namesyntax, selectable
from moorage.registry.checks import Errors, syntax
from moorage.registry.defaulting import fill, keep
from moorage.registry.merging import CONDITIONS, shape
from moorage.registry.metadata import unqualified_finalizer
from moorage.registry.printing import cells
from moorage.registry.printing.columns import AGE, NAME, column
from moorage.registry.strategy import Strategy
from moorage.validation.field import invalid


def _defaults(obj: Data, _: str) -> None:
    fill(obj.setdefault("status", {}), (("phase", "Active"),))
    metadata = obj.setdefault("metadata", {})
    if name := metadata.get("name"):
        metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _create(obj: Data, _: str) -> None:
    obj["status"] = {"phase": "Active"}
    finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    _label(obj)


def _label(obj: Data) -> None:
    metadata = obj["metadata"]
    metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata.get("name", "")


def _update(new: Data, old: Data, _: str) -> None:
    keep(new.setdefault("spec", {}), old.get("spec", {}), ("finalizers",))
    _label(new)


def _errors(new: Data, _: Data | None) -> Errors:
    for finalizer in new.get("spec", {}).get("finalizers", ()):
        yield from syntax("spec.finalizers", finalizer, label_key_errors(finalizer))
        yield from unqualified_finalizer("spec.finalizers", finalizer)


def _status_errors(new: Data, _: Data) -> Errors:
    phase = new.get("status", {}).get("phase")
    is_leaving = bool(new.get("metadata", {}).get("deletionTimestamp"))
    if is_leaving and phase != "Terminating":
        yield invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")
    if not is_leaving and phase != "Active":
        yield invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")


NAMESPACE = Strategy(
    kind=kinds.row("v1", "Namespace"),
    names=namesyntax.label,
    defaults=_defaults,
    create=_create,
    update=_update,
    errors=_errors,
    status_errors=_status_errors,
    fields={**selectable.NAME, "status.phase": selectable.at("status.phase")},
    merge=shape(status=CONDITIONS),
    columns=(NAME, column("Status", cells.at("status.phase"), "Whether it is in use or ending."), AGE),
)
