"""DaemonSets."""

from __future__ import annotations

from collections.abc import Mapping

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry.checks import Errors, amount_of, at_most_100_percent, int_or_percent, nonnegative
from moorage.registry.defaulting import absent
from moorage.registry.merging import ATOMIC, CONDITIONS, shape, struct
from moorage.registry.pod.merging import TEMPLATE_SHAPE
from moorage.registry.printing import cells
from moorage.registry.printing.cells import PrintedRow
from moorage.registry.printing.columns import AGE, NAME, column, integer
from moorage.registry.strategy import SPEC, Strategy
from moorage.registry.workload.templates import (
    default_rolling,
    default_template,
    same_selector,
    selector_errors,
    unsupported,
    workload_columns,
    workload_template_errors,
)
from moorage.validation.field import invalid, required

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _defaults(obj: Data, _: str) -> None:
    spec = obj.setdefault("spec", {})
    absent(spec, revisionHistoryLimit=10)
    default_template(obj, "spec.template.spec")
    default_rolling(spec.setdefault("updateStrategy", {}), {"maxUnavailable": 1, "maxSurge": 0})


def _create(obj: Data, _: str) -> None:
    obj["metadata"].setdefault("annotations", {}).setdefault(_TEMPLATE_GENERATION, "1")


def _update(new: Data, old: Data, _: str) -> None:
    count = old["metadata"].get("annotations", {}).get(_TEMPLATE_GENERATION, "1")
    before, after = old.get("spec", {}).get("template"), new.get("spec", {}).get("template")
    if before != after and count.isdecimal():
        count = str(int(count) + 1)
    new["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = count


def _errors(new: Data, old: Data | None) -> Errors:
    """Validate a DaemonSet, or an update of one."""
    spec = new.get("spec", {})
    yield from selector_errors(spec, "daemonset", is_required=False)
    yield from workload_template_errors(spec, "DaemonSet", needs_selector=False)
    yield from nonnegative("spec", spec, "minReadySeconds", "revisionHistoryLimit")
    yield from _strategy_errors(spec.get("updateStrategy", {}))
    yield from same_selector(DAEMON_SET.kind, new, old)


def _strategy_errors(strategy: Data) -> Errors:
    kind = strategy.get("type")
    if kind == "RollingUpdate":
        path, rolling = "spec.updateStrategy.rollingUpdate", strategy.get("rollingUpdate", {})
        unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        for name, value in (("maxUnavailable", unavailable), ("maxSurge", surge)):
            yield from int_or_percent(f"{path}.{name}", value)
            yield from at_most_100_percent(f"{path}.{name}", value)
        if amount_of(unavailable) and amount_of(surge):
            yield invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
        if not amount_of(unavailable) and not amount_of(surge):
            yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif kind != "OnDelete":
        yield unsupported("spec.updateStrategy", strategy, ("RollingUpdate", "OnDelete"))


def _daemon_nodes(row: PrintedRow) -> Mapping[str, str] | None:
    labels: Mapping[str, str] | None = ((row.spec.get("template") or {}).get("spec") or {}).get("nodeSelector")
    return labels


DAEMON_SET = Strategy(
    kind=kinds.row("apps/v1", "DaemonSet"),
    prefix_checked=("create",),
    defaults=_defaults,
    create=_create,
    update=_update,
    errors=_errors,
    first_generation=1,
    counted=SPEC,
    merge=shape(spec=struct(selector=ATOMIC, template=TEMPLATE_SHAPE, updateStrategy=struct()), status=CONDITIONS),
    columns=(
        NAME,
        integer("Desired", cells.number("status.desiredNumberScheduled"), "How many nodes should run its pod."),
        integer("Current", cells.number("status.currentNumberScheduled"), "How many of these nodes run its pod."),
        integer("Ready", cells.number("status.numberReady"), "How many of its pods are ready."),
        integer("Up-to-date", cells.number("status.updatedNumberScheduled"), "How many have the present template."),
        integer("Available", cells.number("status.numberAvailable"), "How many have been ready long enough."),
        column("Node Selector", lambda row: cells.label_text(_daemon_nodes(row)), "The labels of the nodes it is for."),
        AGE,
        *workload_columns(),
    ),
)
