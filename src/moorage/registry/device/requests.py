"""Requests for devices, which claims and their templates hold."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.api.meta import Data
from moorage.registry import namesyntax
from moorage.registry.checks import Errors, syntax
from moorage.registry.defaulting import fill
from moorage.registry.device.classes import configuration_errors, device_selector_errors, selector_budget
from moorage.registry.device.names import fully_qualified_errors, reference_errors, unique_labels
from moorage.validation.expressions import ExpressionBudget
from moorage.validation.field import invalid, not_supported, required, too_many

_MODES = ("All", "ExactCount")

_MAX_REQUESTS = 32
_MAX_CONSTRAINTS = 32
_ONE_ATTRIBUTE = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'

_MAX_WAYS = 8

_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"


def default_requests(spec: Data) -> None:
    """Set the defaults of the requests of a claim."""
    for request in spec.get("devices", {}).get("requests", ()):
        ways = [request["exactly"]] if "exactly" in request else []
        for way in [*ways, *request.get("firstAvailable", ())]:
            fill(way, (("allocationMode", "ExactCount"),))
            if way["allocationMode"] == "ExactCount":
                fill(way, (("count", 1),))
            default_tolerations(way)


def default_tolerations(holder: Data) -> None:
    """Set the defaults of tolerations of device taints."""
    for toleration in holder.get("tolerations", ()):
        # An expression replaces key, operator and value.
        if not toleration.get("expression"):
            fill(toleration, (("operator", "Equal"),))


def devices_errors(path: str, devices: Data, *, is_new: bool = True) -> Errors:
    """Validate the requests and constraints of a claim; what all selectors cost together only in a new one."""
    requests = devices.get("requests", [])
    budget = selector_budget(path.rpartition(".")[0], _selectors(requests) if is_new else ())
    if len(requests) > _MAX_REQUESTS:
        yield too_many(f"{path}.requests", len(requests), _MAX_REQUESTS)
    yield from unique_labels(f"{path}.requests", [request.get("name", "") for request in requests])
    for index, request in enumerate(requests):
        here = f"{path}.requests[{index}]"
        exactly, ways = request.get("exactly"), request.get("firstAvailable", [])
        if exactly is None and not ways:
            yield required(here, _ONE_OF)
        elif exactly is not None and ways:
            yield invalid(here, None, f"{_ONE_OF}, but multiple fields are set")
        elif exactly is not None:
            yield from _request_errors(f"{here}.exactly", exactly, budget)
        else:
            yield from _way_errors(f"{here}.firstAvailable", ways, budget)
    yield from budget.errors()
    yield from _relation_errors(path, devices)


def _selectors(requests: list[Data]) -> Iterator[Data]:
    for request in requests:
        for way in [request.get("exactly") or {}, *request.get("firstAvailable", ())]:
            yield from way.get("selectors", ())


def _relation_errors(path: str, devices: Data) -> Errors:
    """Validate what is said about several requests: constraints, and parameters for drivers."""
    requests = devices.get("requests", [])
    names = _request_names(requests)
    constraints = devices.get("constraints", ())
    if len(constraints) > _MAX_CONSTRAINTS:
        yield too_many(f"{path}.constraints", len(constraints), _MAX_CONSTRAINTS)
    else:
        for index, constraint in enumerate(constraints):
            yield from _constraint_errors(f"{path}.constraints[{index}]", constraint, names)
    for index, each in enumerate(devices.get("config", ())):
        yield from reference_errors(f"{path}.config[{index}].requests", each.get("requests", ()), names)
    yield from configuration_errors(f"{path}.config", devices.get("config", []))


def _constraint_errors(path: str, constraint: Data, names: set[str]) -> Errors:
    yield from reference_errors(f"{path}.requests", constraint.get("requests", ()), names)
    for name in ("matchAttribute", "distinctAttribute"):
        if name in constraint:
            yield from fully_qualified_errors(f"{path}.{name}", constraint[name])
            return
    yield required(path, _ONE_ATTRIBUTE)


def _request_names(requests: list[Data]) -> set[str]:
    names = set()
    for request in requests:
        name = request.get("name", "")
        names.add(name)
        names.update(f"{name}/{way.get('name', '')}" for way in request.get("firstAvailable", ()))
    return names


def _way_errors(path: str, ways: list[Data], budget: ExpressionBudget) -> Errors:
    if len(ways) > _MAX_WAYS:
        yield too_many(path, len(ways), _MAX_WAYS)
    yield from unique_labels(path, [way.get("name", "") for way in ways])
    for index, way in enumerate(ways):
        yield from _request_errors(f"{path}[{index}]", way, budget)


def _request_errors(path: str, request: Data, budget: ExpressionBudget) -> Errors:
    name = request.get("deviceClassName", "")
    if not name:
        yield required(f"{path}.deviceClassName")
    else:
        yield from syntax(f"{path}.deviceClassName", name, namesyntax.subdomain(name))
    yield from device_selector_errors(f"{path}.selectors", request.get("selectors", ()), budget)
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode not in _MODES:
        yield not_supported(f"{path}.allocationMode", mode, _MODES)
    elif mode == "All":
        if count:
            yield invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif count <= 0:
        yield invalid(f"{path}.count", count, "must be greater than zero")
