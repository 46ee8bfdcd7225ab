"""Leases."""

from __future__ import annotations

from typing import Any

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry.checks import Errors, nonnegative
from moorage.registry.printing import cells
from moorage.registry.printing.columns import AGE, NAME, column
from moorage.registry.strategy import Strategy
from moorage.validation.field import invalid


def _errors(new: Data, _: Data | None) -> Errors:
    spec = new.get("spec", {})
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from nonnegative("spec", spec, "leaseTransitions")


def _drop_disabled(new: Data, *_: Any) -> None:
    """Drop what only coordinated leader election uses, as Kubernetes does while that feature is off."""
    for name in ("strategy", "preferredHolder"):
        new.get("spec", {}).pop(name, None)


LEASE = Strategy(
    kind=kinds.row("coordination.k8s.io/v1", "Lease"),
    prefix_checked=("create",),
    bare_finalizers=("create", "update"),
    create=_drop_disabled,
    update=_drop_disabled,
    errors=_errors,
    conditional=True,
    columns=(NAME, column("Holder", cells.at("spec.holderIdentity"), "Who has it."), AGE),
)
