"""Expressions over `device`: what device classes and requests demand of a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from moorage.api.resource import Device, DeviceAttribute
from moorage.match.deferral import STEP_COST, pause, spend
from moorage.match.expressions import Expression
from moorage.match.verdict import Verdict
from moorage.quantity import Quantity
from moorage.semver import VersionError, parse

if TYPE_CHECKING:
    from moorage.cel.cache import ProgramCache


@cache
def _programs() -> ProgramCache:
    from moorage.cel.cache import ProgramCache
    from moorage.cel.environments import DEVICE_ENV

    return ProgramCache(DEVICE_ENV)


class AttributeDomains(dict[str, dict[str, Any]]):
    """Values by domain and name. A domain that a device says nothing about is an empty one, not an error."""

    def __missing__(self, domain: str) -> dict[str, Any]:
        return {}


class Described(NamedTuple):
    """A device as expressions see it."""

    driver: str
    attributes: AttributeDomains
    capacity: AttributeDomains
    allow_multiple_allocations: bool


class DeviceExpression(Expression):
    """The CEL expression of a device selector. It may be an attribute, of which the type is not known."""

    types = ("bool", "dyn")

    def __init__(self, source: str) -> None:
        super().__init__(source, _programs())

    def bounded(self, verdict: Callable[[Any], Verdict]) -> Callable[[Any], Verdict]:
        """The same where time is bounded. Verdicts are kept with the devices."""

        def evaluate(described: Any) -> Verdict:
            spend(STEP_COST * self.cost, lambda: verdict(described))
            answer = verdict(described)
            pause()
            return answer

        return evaluate

    def verdict(self, described: Described | str) -> Verdict:
        """Whether a device matches. A device that cannot be described is given as the reason, and is an error."""
        if isinstance(described, str):
            return Verdict(False, described, "device cannot be described")
        return self.evaluate(described)


def describe(driver: str, device: Device) -> Described | str:
    """A device as expressions see it, or why it cannot be: names without a domain are of the driver's own."""
    try:
        attributes = {name: _value(name, held) for name, held in device.attributes.items()}
        capacity = {name: Quantity.of(held.value) for name, held in device.capacity.items()}
    except ValueError as error:
        return str(error)
    return Described(
        driver, _domains(driver, attributes), _domains(driver, capacity), bool(device.allow_multiple_allocations)
    )


def _domains(driver: str, values: Mapping[str, Any]) -> AttributeDomains:
    domains = AttributeDomains()
    for name, value in values.items():
        domain, slash, rest = name.partition("/")
        domains.setdefault(domain if slash else driver, {})[rest if slash else name] = value
    return domains


def _value(name: str, attribute: DeviceAttribute) -> Any:
    if attribute.version is not None:
        try:
            return parse(attribute.version)
        except VersionError as error:
            raise ValueError(f"attribute {name}: parse semantic version: {error}") from None
    for value in (attribute.int_, attribute.bool_, attribute.string):
        if value is not None:
            return value
    raise ValueError(f"attribute {name}: unsupported attribute value")
