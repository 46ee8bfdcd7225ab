"""Validation of the devices of a ResourceSlice: attributes, capacity, counters, and where each can be used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from moorage.api.meta import Data
from moorage.names import label_key_errors
from moorage.quantity import Quantity
from moorage.registry import namesyntax
from moorage.registry.checks import Errors, repeated, syntax
from moorage.registry.device.names import qualified_errors
from moorage.validation.field import forbidden, invalid, not_found, required, too_long, too_many

_MAX_ATTRIBUTES = 32
_MAX_VALUES = 48
_MAX_TEXT = 64
_MAX_COUNTERS = 32
_MAX_CONSUMED = 2
_MAX_BINDING_CONDITIONS = 4
_MAX_KEY = 96
_MAX_OPTIONS = 10
_KINDS = ("bool", "int", "string", "version", "bools", "ints", "strings", "versions")
_IDENTIFIER = r"(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER = re.compile(
    rf"(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){{2}}(?:-{_IDENTIFIER}(?:\.{_IDENTIFIER})*)?"
    r"(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_ONE_PLACE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NO_PLACE = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)


def device_errors(path: str, device: Data, *, has_own_place: bool) -> Errors:
    """Validate a device, beyond its name and its taints."""
    attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
    count = len(attributes) + len(capacity)
    if count > _MAX_ATTRIBUTES:
        detail = f"the total number of attributes and capacities must not exceed {_MAX_ATTRIBUTES}"
        yield invalid(path, count, detail)
    values = sum(max(1, sum(len(held.get(name, ())) for name in _KINDS[4:])) for held in attributes.values())
    if values > _MAX_VALUES:
        yield invalid(path, values, f"the total number of attribute values must not exceed {_MAX_VALUES}")
    for name, held in attributes.items():
        yield from qualified_errors(f"{path}.attributes", name)
        yield from _attribute(f"{path}.attributes[{_shortened(name)}]", held)
    for name, held in capacity.items():
        yield from qualified_errors(f"{path}.capacity", name)
        here = f"{path}.capacity[{_shortened(name)}].requestPolicy"
        if "requestPolicy" in held and not device.get("allowMultipleAllocations"):
            yield forbidden(here, "allowMultipleAllocations must be true")
        elif "requestPolicy" in held:
            yield from _policy(here, held.get("value", "0"), held["requestPolicy"])
    consumed = device.get("consumesCounters", ())
    yield from _consumptions(f"{path}.consumesCounters", consumed)
    yield from _place(path, device, has_own_place=has_own_place)
    yield from _bindings(path, device.get("bindingConditions", ()), device.get("bindingFailureConditions", ()))
    yield from _mappings(f"{path}.nodeAllocatableResourceMappings", device, capacity)


def _shortened(key: str) -> str:
    if len(key) <= _MAX_KEY:
        return key
    remaining = _MAX_KEY - 3
    return f"{key[: (remaining + 1) // 2]}...{key[len(key) - remaining // 2 :]}"


def _attribute(path: str, held: Data) -> Errors:
    kinds = [name for name in _KINDS if name in held]
    for name in kinds:
        here, value = f"{path}.{name}", held[name]
        if name in ("string", "version"):
            yield from _text(here, value, is_version=name == "version")
        elif isinstance(value, list) and not value:
            yield invalid(here, value, "must not be empty if specified")
        elif name in ("strings", "versions"):
            for index, each in enumerate(value):
                yield from _text(f"{here}[{index}]", each, is_version=name == "versions")
    if len(kinds) != 1:
        yield invalid(path, held if kinds else "", "exactly one value must be specified")


def _text(path: str, value: str, *, is_version: bool) -> Errors:
    if is_version and not _SEMVER.fullmatch(value):
        yield invalid(path, value, "must be a string compatible with semver.org spec 2.0.0")
    if len(value.encode("utf-8", "surrogatepass")) > _MAX_TEXT:
        yield too_long(path, _MAX_TEXT)


def _policy(path: str, whole: Any, policy: Data) -> Errors:
    values, span = policy.get("validValues", []), policy.get("validRange")
    if values and span is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        yield forbidden(path, detail)
    elif (values or span is not None) and "default" not in policy:
        name = "validValues" if values else "validRange"
        yield required(f"{path}.default", f"required when {name} is defined")
    elif values:
        yield from _options(f"{path}.validValues", policy["default"], whole, values)
    elif span is not None:
        yield from _span(f"{path}.validRange", policy["default"], whole, span)


def _options(path: str, default: Any, whole: Any, values: list[Any]) -> Errors:
    amounts = [Quantity.of(value).nano for value in values]
    for index in range(1, len(amounts)):
        if amounts[index - 1] > amounts[index]:
            yield invalid(f"{path}[{index}]", str(values[index]), "values must be sorted in ascending order")
    if len(values) > _MAX_OPTIONS:
        yield too_many(path, len(values), _MAX_OPTIONS)
    else:
        for index, amount in enumerate(amounts):
            if amount > Quantity.of(whole).nano:
                detail = f"option is larger than capacity value: {whole}"
                yield invalid(f"{path}[{index}]", str(values[index]), detail)
        yield from repeated(path, [str(-(-amount // 10**9)) for amount in amounts])
    if len(values) > _MAX_OPTIONS or Quantity.of(default).nano not in amounts:
        yield invalid(path, str(default), "default value is not valid according to the requestPolicy")


def _span(path: str, default: Any, whole: Any, span: Data) -> Errors:
    if "min" not in span:
        yield required(f"{path}.min", "required when validRange is defined")
        return
    least, most, step = span["min"], span.get("max"), span.get("step")
    lower, limit, chosen = Quantity.of(least).nano, Quantity.of(whole).nano, Quantity.of(default).nano
    if lower > limit:
        yield invalid(f"{path}.min", str(least), f"min is larger than capacity value: {whole}")
    if chosen < lower:
        yield invalid(f"{path}.min", str(default), f"default is less than min: {least}")
    if most is not None:
        upper = Quantity.of(most).nano
        if lower > upper:
            yield invalid(f"{path}.max", str(least), f"min is larger than max: {most}")
        if upper > limit:
            yield invalid(f"{path}.max", str(most), f"max is larger than capacity value: {whole}")
        if chosen > upper:
            yield invalid(f"{path}.max", str(default), f"default is more than max: {most}")
    if step is not None:
        yield from _steps(f"{path}.step", [default, *([] if most is None else [most])], whole, least, step)


def _steps(path: str, values: list[Any], whole: Any, least: Any, step: Any) -> Errors:
    if Quantity.of(least).nano + Quantity.of(step).nano > Quantity.of(whole).nano:
        yield invalid(path, str(step), f"one step {step} is larger than capacity value: {whole}")
    unit, lower = _whole(step), _whole(least)
    for value in values:
        if unit and (_whole(value) - lower) % unit:
            yield invalid(path, str(value), f"value is not a multiple of a given step ({step}) from ({least})")


def _whole(amount: Any) -> int:
    return -(-Quantity.of(amount).nano // 10**9)


def _consumptions(path: str, consumed: Sequence[Data]) -> Errors:
    if len(consumed) > _MAX_CONSUMED:
        yield too_many(path, len(consumed), _MAX_CONSUMED)
        return
    for index, each in enumerate(consumed):
        yield from counter_errors(f"{path}[{index}]", "counterSet", each)
    yield from repeated(path, [each.get("counterSet", "") for each in consumed])


def counter_errors(path: str, name_field: str, holder: Data) -> Errors:
    """Validate a set of counters, or what a device takes of one."""
    name, counters = holder.get(name_field, ""), holder.get("counters", {})
    if not name:
        yield required(f"{path}.{name_field}")
    else:
        yield from syntax(f"{path}.{name_field}", name, namesyntax.label(name))
    if not counters:
        yield required(f"{path}.counters")
    elif len(counters) > _MAX_COUNTERS:
        yield too_many(f"{path}.counters", len(counters), _MAX_COUNTERS)
    else:
        for key in counters:
            yield from syntax(f"{path}.counters", key, namesyntax.label(key))


def _place(path: str, device: Data, *, has_own_place: bool) -> Errors:
    named = [name for name in ("nodeName", "nodeSelector", "allNodes") if name in device]
    if not has_own_place:
        if named:
            yield invalid(path, None, _NO_PLACE)
        return
    if (node := device.get("nodeName")) is not None:
        yield from syntax(f"{path}.nodeName", node, namesyntax.subdomain(node) if node else ("must not be empty",))
    if device.get("allNodes") is False:
        yield invalid(f"{path}.allNodes", False, "must be either unset or set to true")
    places = [f"`{name}`" for name in named if name == "nodeSelector" or device[name]]
    if not places:
        yield required(path, _ONE_PLACE)
    elif len(places) > 1:
        yield invalid(path, f"{{{', '.join(places)}}}", _ONE_PLACE)


def _bindings(path: str, awaited: Sequence[str], failures: Sequence[str]) -> Errors:
    for name, conditions in (("bindingConditions", awaited), ("bindingFailureConditions", failures)):
        here = f"{path}.{name}"
        if len(conditions) > _MAX_BINDING_CONDITIONS:
            yield too_many(here, len(conditions), _MAX_BINDING_CONDITIONS)
        else:
            for index, each in enumerate(conditions):
                yield from syntax(f"{here}[{index}]", each, label_key_errors(each))
        yield from repeated(here, conditions)
    for index, each in enumerate(failures):
        if each in awaited:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            yield invalid(f"{path}.bindingFailureConditions[{index}]", each, detail)
    if failures and not awaited:
        detail = "bindingConditions are required to use bindingFailureConditions"
        yield invalid(f"{path}.bindingConditions", None, detail)
    if awaited and not failures:
        detail = "bindingFailureConditions are required to use bindingConditions"
        yield invalid(f"{path}.bindingFailureConditions", None, detail)


def _mappings(path: str, device: Data, capacity: Data) -> Errors:
    for name, mapping in device.get("nodeAllocatableResourceMappings", {}).items():
        here, key = f"{path}[{name}]", mapping.get("capacityKey")
        if "/" in name and "kubernetes.io/" not in name:
            yield invalid(here, name, "must be a node allocatable resource name")
        if "allocationMultiplier" in mapping and Quantity.of(mapping["allocationMultiplier"]).nano <= 0:
            yield invalid(f"{here}.allocationMultiplier", mapping["allocationMultiplier"], "must be positive")
        if key is None and "allocationMultiplier" not in mapping:
            yield invalid(here, "", "at least one of allocationMultiplier or capacityKey must be set")
        elif key == "":
            yield invalid(f"{here}.capacityKey", "", "capacityKey must not be an empty string")
        elif key is not None and key not in capacity:
            yield not_found(f"{here}.capacityKey", key)
