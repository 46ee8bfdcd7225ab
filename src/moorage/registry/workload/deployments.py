"""Deployments."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry.checks import Errors, amount_of, at_most_100_percent, int_or_percent, nonnegative
from moorage.registry.defaulting import absent
from moorage.registry.merging import ATOMIC, CONDITIONS, shape, struct
from moorage.registry.pod.merging import TEMPLATE_SHAPE
from moorage.registry.printing import cells
from moorage.registry.printing.columns import AGE, NAME, column, wide
from moorage.registry.strategy import Strategy
from moorage.registry.workload.templates import (
    default_rolling,
    default_template,
    same_selector,
    selector_errors,
    template_columns,
    unsupported,
    workload_template_errors,
)
from moorage.validation.field import forbidden, invalid


def _defaults(obj: Data, _: str) -> None:
    spec = obj.setdefault("spec", {})
    absent(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    default_template(obj, "spec.template.spec")
    default_rolling(spec.setdefault("strategy", {}), {"maxUnavailable": "25%", "maxSurge": "25%"})


def _errors(new: Data, old: Data | None) -> Errors:
    """Validate a Deployment, or an update of one."""
    spec = new.get("spec", {})
    yield from nonnegative("spec", spec, "replicas")
    yield from selector_errors(spec, "deployment", is_required=True)
    yield from workload_template_errors(spec, "ReplicaSet")
    yield from _strategy_errors(spec.get("strategy", {}))
    yield from nonnegative("spec", spec, "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    yield from same_selector(DEPLOYMENT.kind, new, old)


def _strategy_errors(strategy: Data) -> Errors:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    path = "spec.strategy"
    if kind == "Recreate":
        if rolling is not None:
            yield forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif kind == "RollingUpdate":
        yield from _rolling_errors(f"{path}.rollingUpdate", rolling or {})
    else:
        yield unsupported(path, strategy, ("Recreate", "RollingUpdate"))


def _rolling_errors(path: str, rolling: Data) -> Errors:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    yield from int_or_percent(f"{path}.maxUnavailable", unavailable)
    yield from int_or_percent(f"{path}.maxSurge", surge)
    if amount_of(unavailable) == 0 and amount_of(surge) == 0:
        yield invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    yield from at_most_100_percent(f"{path}.maxUnavailable", unavailable)


DEPLOYMENT = Strategy(
    kind=kinds.row("apps/v1", "Deployment"),
    prefix_checked=("create",),
    defaults=_defaults,
    errors=_errors,
    first_generation=1,
    counted=(("spec",), ("metadata", "annotations")),
    status_keeps=("labels",),
    merge=shape(spec=struct(selector=ATOMIC, strategy=struct(), template=TEMPLATE_SHAPE), status=CONDITIONS),
    columns=(
        NAME,
        column("Ready", cells.ratio("status.readyReplicas", "spec.replicas"), "How many of its pods are ready."),
        column("Up-to-date", cells.number("status.updatedReplicas"), "How many of its pods have the present template."),
        column(
            "Available", cells.number("status.availableReplicas"), "How many of its pods have been ready long enough."
        ),
        AGE,
        *template_columns("spec.template.spec.containers"),
        wide("Selector", lambda row: cells.selector_text(row.spec.get("selector")), "Which pods belong to it."),
    ),
)
