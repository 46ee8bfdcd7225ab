"""Validation of claims, classes and inventories of devices, beyond their taints and tolerations."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.registry import namesyntax, schema
from moorage.registry.checks import IMMUTABLE, Errors, syntax, unchanged
from moorage.registry.pod.volumesources import driver_errors
from moorage.validation.field import duplicate, invalid, not_supported, required, too_long, too_many

_CLAIM = kinds.row("resource.k8s.io/v1", "ResourceClaim")
_TEMPLATE = kinds.row("resource.k8s.io/v1", "ResourceClaimTemplate")
_MODES = ("All", "ExactCount")
_MAX_REQUESTS = 32
_MAX_WAYS = 8
_MAX_SELECTORS = 32
_MAX_EXPRESSION = 10 * 1024
_MAX_DEVICES = 128
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


def resource_claim_errors(new: Data, old: Data | None) -> Errors:
    """Validate a ResourceClaim, or an update of one."""
    if old is not None:
        yield from _frozen(_CLAIM, new, old)
    else:
        yield from _claim_errors("spec.devices", new.get("spec", {}).get("devices", {}))


def resource_claim_template_errors(new: Data, old: Data | None) -> Errors:
    """Validate a ResourceClaimTemplate, or an update of one."""
    if old is not None:
        yield from _frozen(_TEMPLATE, new, old)
    else:
        yield from _claim_errors("spec.spec.devices", new.get("spec", {}).get("spec", {}).get("devices", {}))


def _frozen(kind: Kind, new: Data, old: Data) -> Errors:
    if not schema.same(kind, new, old, "spec"):
        yield invalid("spec", new.get("spec"), IMMUTABLE)


def device_class_errors(new: Data, _: Data | None) -> Errors:
    """Validate a DeviceClass."""
    yield from _selector_errors("spec.selectors", new.get("spec", {}).get("selectors", ()))


def resource_slice_errors(new: Data, old: Data | None) -> Errors:
    """Validate a ResourceSlice, or an update of one."""
    spec = new.get("spec", {})
    yield from driver_errors("spec.driver", spec.get("driver", ""))
    pool = spec.get("pool", {}).get("name", "")
    if not pool:
        yield required("spec.pool.name")
    places = [name for name in _PLACES if spec.get(name)]
    if not places:
        detail = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
        yield required("spec", detail)
    elif len(places) > 1:
        listed = ", ".join(f"`{name}`" for name in places)
        yield invalid(
            "spec",
            f"{{{listed}}}",
            "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple "
            "fields are set",
        )
    devices = spec.get("devices", ())
    if len(devices) > _MAX_DEVICES:
        yield too_many("spec.devices", len(devices), _MAX_DEVICES)
    yield from _unique_labels("spec.devices", [device.get("name", "") for device in devices])
    if old is not None:
        before = old.get("spec", {})
        yield from unchanged("spec.driver", spec.get("driver"), before.get("driver"))
        yield from unchanged("spec.pool.name", pool, before.get("pool", {}).get("name", ""))
        yield from unchanged("spec.nodeName", spec.get("nodeName"), before.get("nodeName"))


def _unique_labels(path: str, names: list[str]) -> Errors:
    seen: set[str] = set()
    for index, name in enumerate(names):
        here = f"{path}[{index}].name"
        if not name:
            yield required(here)
        else:
            yield from syntax(here, name, namesyntax.label(name))
        if name and name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)


def _claim_errors(path: str, devices: Data) -> Errors:
    requests = devices.get("requests", [])
    if len(requests) > _MAX_REQUESTS:
        yield too_many(f"{path}.requests", len(requests), _MAX_REQUESTS)
    yield from _unique_labels(f"{path}.requests", [request.get("name", "") for request in requests])
    for index, request in enumerate(requests):
        here = f"{path}.requests[{index}]"
        exactly, ways = request.get("exactly"), request.get("firstAvailable", [])
        if exactly is None and not ways:
            yield required(here, _ONE_OF)
        elif exactly is not None and ways:
            yield invalid(here, None, f"{_ONE_OF}, but multiple fields are set")
        elif exactly is not None:
            yield from _request_errors(f"{here}.exactly", exactly)
        else:
            yield from _way_errors(f"{here}.firstAvailable", ways)
    names = _request_names(requests)
    for index, constraint in enumerate(devices.get("constraints", ())):
        for at, name in enumerate(constraint.get("requests", ())):
            if name not in names:
                detail = "must be the name of a request in the claim or the name of a request and a subrequest"
                yield invalid(f"{path}.constraints[{index}].requests[{at}]", name, f"{detail} separated by '/'")


def _request_names(requests: list[Data]) -> set[str]:
    names = set()
    for request in requests:
        name = request.get("name", "")
        names.add(name)
        names.update(f"{name}/{way.get('name', '')}" for way in request.get("firstAvailable", ()))
    return names


def _way_errors(path: str, ways: list[Data]) -> Errors:
    if len(ways) > _MAX_WAYS:
        yield too_many(path, len(ways), _MAX_WAYS)
    yield from _unique_labels(path, [way.get("name", "") for way in ways])
    for index, way in enumerate(ways):
        yield from _request_errors(f"{path}[{index}]", way)


def _request_errors(path: str, request: Data) -> Errors:
    name = request.get("deviceClassName", "")
    if not name:
        yield required(f"{path}.deviceClassName")
    else:
        yield from syntax(f"{path}.deviceClassName", name, namesyntax.subdomain(name))
    yield from _selector_errors(f"{path}.selectors", request.get("selectors", ()))
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode not in _MODES:
        yield not_supported(f"{path}.allocationMode", mode, _MODES)
    elif mode == "All":
        if count:
            yield invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif count <= 0:
        yield invalid(f"{path}.count", count, "must be greater than zero")


def _selector_errors(path: str, selectors: list[Data]) -> Errors:
    if len(selectors) > _MAX_SELECTORS:
        yield too_many(path, len(selectors), _MAX_SELECTORS)
    for index, selector in enumerate(selectors):
        expression = selector.get("cel", {}).get("expression", "")
        if "cel" not in selector:
            yield required(f"{path}[{index}].cel")
        elif not expression:
            yield required(f"{path}[{index}].cel.expression")
        elif len(expression.encode("utf-8", "surrogatepass")) > _MAX_EXPRESSION:
            yield too_long(f"{path}[{index}].cel.expression", _MAX_EXPRESSION)
