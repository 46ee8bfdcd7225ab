"""Leases."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry.checks import Errors, nonnegative
from moorage.registry.printing import cells
from moorage.registry.printing.columns import AGE, NAME, column
from moorage.registry.strategy import Strategy
from moorage.validation.field import forbidden, invalid


def _errors(new: Data, _: Data | None) -> Errors:
    spec = new.get("spec", {})
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from nonnegative("spec", spec, "leaseTransitions")
    if spec.get("preferredHolder") and not spec.get("strategy"):
        yield forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined")


LEASE = Strategy(
    kind=kinds.row("coordination.k8s.io/v1", "Lease"),
    bare_finalizers=True,
    errors=_errors,
    conditional=True,
    columns=(NAME, column("Holder", cells.at("spec.holderIdentity"), "Who has it."), AGE),
)
