"""LimitRanges."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.decode import convert
from moorage.api.meta import Data
from moorage.api.quota import LimitRange, LimitRangeItem
from moorage.names import label_key_errors
from moorage.quantity import Quantity
from moorage.registry.checks import Errors, syntax
from moorage.registry.pod.limits import CLAIM, CONTAINER, MAX_MILLI, POD
from moorage.registry.pod.resources import can_overcommit, container_name_problems, name_problems
from moorage.registry.printing.columns import CREATED
from moorage.registry.strategy import Strategy
from moorage.validation.field import duplicate, forbidden, invalid, required

_LISTS = {
    "max": "max",
    "min": "min",
    "default": "default",
    "defaultRequest": "default_request",
    "maxLimitRequestRatio": "max_limit_request_ratio",
}
"""The lists of amounts by their names, in the order in which they are checked."""


def _defaults(obj: Data, _: str) -> None:
    """Let the default limit of containers be the maximum, and their default request that limit or the minimum."""
    for limit in obj.get("spec", {}).get("limits") or ():
        if limit.get("type") == CONTAINER:
            most, least = limit.get("max") or {}, limit.get("min") or {}
            default = {**most, **(limit.get("default") or {})}
            request = {**least, **default, **(limit.get("defaultRequest") or {})}
            limit.update(
                (name, amounts) for name, amounts in (("default", default), ("defaultRequest", request)) if amounts
            )


def _errors(new: Data, _: Data | None) -> Errors:
    seen: set[str] = set()
    for index, limit in enumerate(convert(new, LimitRange).spec.limits):
        path = f"spec.limits[{index}]"
        yield from _type_errors(f"{path}.type", limit.type)
        if limit.type in seen:
            yield duplicate(f"{path}.type", limit.type)
        seen.add(limit.type)
        yield from _name_errors(path, limit)
        if limit.type == CLAIM and "storage" not in {**limit.min, **limit.max}:
            detail = "either minimum or maximum storage value is required, but neither was provided"
            yield required(f"{path}.limits", detail)
        for name in sorted({name for amounts in _LISTS.values() for name in getattr(limit, amounts)}):
            yield from _amount_errors(path, limit, name)


def _type_errors(path: str, value: str) -> Errors:
    problems = list(label_key_errors(value))
    yield from syntax(path, value, problems)
    if not problems and "/" not in value and value not in (CONTAINER, POD, CLAIM):
        yield invalid(path, value, "must be a standard limit type or fully qualified")


def _name_errors(path: str, limit: LimitRangeItem) -> Errors:
    problems_of = container_name_problems if limit.type in (POD, CONTAINER) else name_problems
    for field, attribute in _LISTS.items():
        amounts = getattr(limit, attribute)
        if limit.type == POD and amounts and field.startswith("default"):
            yield forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
            continue
        for name in amounts:
            yield from syntax(f"{path}.{field}[{name}]", name, problems_of(name))


def _amount_errors(path: str, limit: LimitRangeItem, name: str) -> Errors:
    """Compare the amounts of one resource with each other."""

    def amount(field: str) -> Quantity | None:
        if limit.type == POD and field.startswith("default"):
            return None
        amounts = getattr(limit, _LISTS[field])
        return Quantity.of(amounts[name]) if name in amounts else None

    least, most = amount("min"), amount("max")
    default, request, ratio = amount("default"), amount("defaultRequest"), amount("maxLimitRequestRatio")
    for field, small, small_name, large, large_name, shown in (
        ("min", least, "min", most, "max", least),
        ("defaultRequest", least, "min", request, "default request", request),
        ("defaultRequest", request, "default request", most, "max", request),
        ("defaultRequest", request, "default request", default, "default limit", request),
        ("default", least, "min", default, "default", least),
        ("default", default, "default", most, "max", most),
    ):
        if small is not None and large is not None and small > large:
            detail = f"{small_name} value {small} is greater than {large_name} value {large}"
            yield invalid(f"{path}.{field}[{name}]", str(shown), detail)
    if ratio is not None:
        yield from _ratio_errors(f"{path}.maxLimitRequestRatio[{name}]", ratio, least, most)
    if default is not None and request is not None and default != request and not can_overcommit(name):
        detail = f"default value {default} must equal to defaultRequest value {request} in {name}"
        yield invalid(f"{path}.defaultRequest[{name}]", str(request), detail)


def _ratio_errors(path: str, ratio: Quantity, least: Quantity | None, most: Quantity | None) -> Errors:
    if ratio < Quantity.integer(1):
        yield invalid(path, str(ratio), f"ratio {ratio} is less than 1")
    if least is None or most is None:
        return
    amounts = (ratio, least, most)
    if all(amount.value() < MAX_MILLI for amount in amounts):
        allowed, low, high = ratio.milli_value() / 1000, least.milli_value(), most.milli_value()
    else:
        allowed, low, high = float(ratio.value()), least.value(), most.value()
    if low and allowed > high / low:
        yield invalid(path, str(ratio), f"ratio {ratio} is greater than max/min = {high / low:f}")


LIMIT_RANGE = Strategy(
    kind=kinds.row("v1", "LimitRange"),
    defaults=_defaults,
    errors=_errors,
    columns=CREATED,
)
