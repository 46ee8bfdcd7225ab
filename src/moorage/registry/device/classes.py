"""DeviceClasses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.match.devices import DeviceExpression
from moorage.match.expressions import MAX_BYTES, MAX_COST
from moorage.names import label_key_errors
from moorage.registry.checks import Errors
from moorage.registry.pod.volumesources import driver_errors
from moorage.registry.strategy import SPEC, Strategy
from moorage.validation.expressions import ExpressionBudget
from moorage.validation.field import forbidden, invalid, required, too_long, too_many

_MAX_SELECTORS = 32
_MAX_CONFIGURATIONS = 32
_MAX_PARAMETERS = 10 * 1024


def _errors(new: Data, old: Data | None) -> Errors:
    """Validate a DeviceClass, in what an update changes."""
    spec, before = new.get("spec", {}), {} if old is None else old.get("spec", {})
    if old is None or spec.get("selectors") != before.get("selectors"):
        selectors = spec.get("selectors", ())
        budget = selector_budget("spec", selectors)
        yield from device_selector_errors("spec.selectors", selectors, budget)
        yield from budget.errors()
    if old is None or spec.get("config") != before.get("config"):
        yield from configuration_errors("spec.config", spec.get("config", ()))
    name = spec.get("extendedResourceName")
    if name is not None and not _is_extended(name):
        yield invalid("spec.extendedResourceName", name, "must be a valid extended resource name")


def _is_extended(name: str) -> bool:
    """Whether a resource is one of a vendor, not of Kubernetes."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not label_key_errors(f"requests.{name}")


def configuration_errors(path: str, configurations: list[Data]) -> Errors:
    """Validate parameters for drivers."""
    if len(configurations) > _MAX_CONFIGURATIONS:
        yield too_many(path, len(configurations), _MAX_CONFIGURATIONS)
        return
    for index, configuration in enumerate(configurations):
        here = f"{path}[{index}].opaque"
        opaque = configuration.get("opaque")
        if opaque is None:
            yield required(here)
        else:
            yield from driver_errors(f"{here}.driver", opaque.get("driver", ""))
            yield from _parameters_errors(f"{here}.parameters", opaque.get("parameters"))


def _parameters_errors(path: str, parameters: Any) -> Errors:
    if parameters is None:
        yield required(path)
    elif len(msgspec.json.encode(parameters)) > _MAX_PARAMETERS:
        yield too_long(path, _MAX_PARAMETERS)
    elif not isinstance(parameters, dict):
        yield invalid(path, "<value omitted>", "must be a valid JSON object")


def selector_budget(path: str, selectors: Iterable[Data]) -> ExpressionBudget:
    """What the expressions of an object that select devices may be and cost together, each counted once."""
    sources = {each.get("cel", {}).get("expression", "") for each in selectors}
    return ExpressionBudget(path, [(DeviceExpression, source) for source in sorted(sources)])


def device_selector_errors(path: str, selectors: list[Data], budget: ExpressionBudget) -> Errors:
    """Validate the expressions that select devices: they must be short, compile, and be cheap."""
    if len(selectors) > _MAX_SELECTORS:
        yield too_many(path, len(selectors), _MAX_SELECTORS)
        return
    if budget.has_too_many:
        return
    for index, selector in enumerate(selectors):
        here = f"{path}[{index}].cel"
        if "cel" not in selector:
            yield required(here)
            continue
        source = selector["cel"].get("expression", "")
        if len(source.encode("utf-8", "surrogatepass")) > MAX_BYTES:
            yield too_long(f"{here}.expression", MAX_BYTES)
            continue
        compiled = DeviceExpression(source)
        if compiled.problem:
            yield invalid(f"{here}.expression", source, f"compilation failed: {compiled.problem}")
        elif compiled.cost > MAX_COST:
            yield forbidden(f"{here}.expression", "too complex, exceeds cost limit")


DEVICE_CLASS = Strategy(
    kind=kinds.row("resource.k8s.io/v1", "DeviceClass"),
    prefix_checked=(),
    errors=_errors,
    first_generation=1,
    counted=SPEC,
)
