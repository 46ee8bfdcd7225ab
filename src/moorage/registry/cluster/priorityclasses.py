"""PriorityClasses."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.api.wellknown import HIGHEST_USER_PRIORITY, SYSTEM_PRIORITIES
from moorage.registry.checks import Errors, one_of, unchanged
from moorage.registry.printing import cells
from moorage.registry.printing.columns import AGE, NAME, boolean, column, integer
from moorage.registry.strategy import Strategy
from moorage.validation.field import forbidden


def _defaults(obj: Data, _: str) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _errors(new: Data, old: Data | None) -> Errors:
    name, value = new.get("metadata", {}).get("name", ""), new.get("value", 0)
    if old is not None:
        if value != old.get("value", 0):
            yield forbidden("value", "may not be changed in an update.")
        yield from unchanged("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))
        return
    if name.startswith("system-"):
        if problem := _system_class_problem(name, value, is_default=bool(new.get("globalDefault"))):
            detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
            yield forbidden("metadata.name", detail)
    elif value > HIGHEST_USER_PRIORITY:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")
    yield from one_of("preemptionPolicy", new.get("preemptionPolicy"), ("PreemptLowerPriority", "Never"))


def _system_class_problem(name: str, value: int, *, is_default: bool) -> str:
    if name not in SYSTEM_PRIORITIES:
        return f"{name} is not a known system priority class"
    if value != SYSTEM_PRIORITIES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


PRIORITY_CLASS = Strategy(
    kind=kinds.row("scheduling.k8s.io/v1", "PriorityClass"),
    prefix_checked=("create",),
    defaults=_defaults,
    errors=_errors,
    first_generation=1,
    columns=(
        NAME,
        integer("Value", cells.number("value"), "The priority of its pods; the higher goes first."),
        boolean("Global-Default", cells.at("globalDefault", False), "Whether pods without a class have this one."),
        AGE,
        column("PreemptionPolicy", cells.at("preemptionPolicy"), "Whether its pods may push out others."),
    ),
)
