"""PodDisruptionBudgets."""

from __future__ import annotations

from dataclasses import replace

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry import namesyntax
from moorage.registry.checks import Errors, at_most_100_percent, int_or_percent, label_selector, nonnegative
from moorage.registry.merging import ATOMIC, CONDITIONS, shape, struct
from moorage.registry.printing import cells
from moorage.registry.printing.cells import PrintedRow
from moorage.registry.printing.columns import AGE, NAME, column, integer
from moorage.registry.strategy import SPEC, Strategy
from moorage.validation.field import invalid, not_supported


def _errors(new: Data, _: Data | None) -> Errors:
    spec = new.get("spec", {})
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for name in ("minAvailable", "maxUnavailable"):
        yield from int_or_percent(f"spec.{name}", spec.get(name))
        yield from at_most_100_percent(f"spec.{name}", spec.get(name))
    yield from label_selector("spec.selector", spec.get("selector"))
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        yield not_supported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))


def _status_errors(new: Data, _: Data) -> Errors:
    numbers = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    yield from nonnegative("status", new.get("status", {}), *numbers)


def _amount(row: PrintedRow, field: str) -> str:
    amount = row.spec.get(field)
    return "N/A" if amount is None else str(amount)


BUDGET = Strategy(
    kind=kinds.row("policy/v1", "PodDisruptionBudget"),
    names=namesyntax.path_segment,
    bare_finalizers=("create", "update"),
    errors=_errors,
    status_errors=_status_errors,
    conditional=True,
    first_generation=1,
    counted=SPEC,
    merge=shape(spec=struct(selector=replace(ATOMIC, replaces=True)), status=CONDITIONS),
    columns=(
        NAME,
        column("Min Available", lambda row: _amount(row, "minAvailable"), "How many pods must be there."),
        column("Max Unavailable", lambda row: _amount(row, "maxUnavailable"), "How many pods may be missing."),
        integer("Allowed Disruptions", cells.number("status.disruptionsAllowed"), "How many pods may be evicted now."),
        AGE,
    ),
)
