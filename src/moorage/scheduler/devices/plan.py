"""What claims request, prepared once for all claims with the same spec."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from moorage.api.node import Taint
from moorage.api.resource import (
    DeviceClaim,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from moorage.features import Gates
from moorage.match.devices import DeviceExpression
from moorage.match.tolerations import Tolerations
from moorage.scheduler.devices.pools import MOST_SELECTORS, Offer

MOST_DEVICES = 32
"""How many devices one claim can have."""
MOST_WAYS = 8
"""How many ways to satisfy a request can be given."""
_SELECTORS_BYTES = 1 << 20

OnParseError = Callable[[Tolerations, Taint], None]
Classes = Callable[[str], DeviceClass | None]
_TAINT_SETS_MAX = 4096
_expression = lru_cache(maxsize=MOST_SELECTORS)(DeviceExpression)


class Fault(Exception):
    """A claim, class or device is such that the allocation cannot be decided."""

    def __init__(self, text: str, claim: int | None = None) -> None:
        super().__init__(text)
        self._claim = claim

    def sentence(self, claims: Sequence[ResourceClaim]) -> str:
        """What is wrong, with the name of the claim that it is wrong with."""
        if self._claim is None:
            return str(self)
        metadata = claims[self._claim].metadata
        return f"claim {metadata.namespace}/{metadata.name}{self}"


class SelectorTest(NamedTuple):
    """One selector of a class or of a request."""

    expression: DeviceExpression
    number: int
    class_name: str = ""
    """The class that it is of, empty when the claim itself has it."""

    def fault(self, claim: int, offer: Offer, error: str) -> Fault:
        """That the selector cannot be evaluated."""
        problem = self.expression.problem
        where = f": selector #{self.number}" if problem else f": selector #{self.number} on device {offer.id}"
        text = f"{where}: CEL {'compile' if problem else 'runtime'} error: {problem or error}"
        return Fault(f"class {self.class_name}{text}") if self.class_name else Fault(text, claim)


class Want:
    """One way to satisfy a request."""

    __slots__ = ("_parse_error", "_tolerated", "admin", "all", "class_", "comparisons", "count", "name", "rank",
                 "request", "sources", "tests", "tolerations", "unclear")  # fmt: skip

    def __init__(
        self, request: DeviceRequest, way: ExactDeviceRequest | DeviceSubRequest, class_: DeviceClass, gates: Gates,
        on_error: OnParseError, rank: int = 0,
    ) -> None:  # fmt: skip
        self.request = request.name
        self.name = f"{request.name}/{way.name}" if isinstance(way, DeviceSubRequest) else request.name
        self.class_ = class_
        self.all = way.allocation_mode == "All"
        self.count = way.count
        self.admin = isinstance(way, ExactDeviceRequest) and bool(way.admin_access)
        self.rank = rank
        """How much this way is preferred to others; 0 when there are no others."""
        self.tolerations = Tolerations(way.tolerations, gates)
        self.tests = (*_tests(class_.spec.selectors, class_.metadata.name), *_tests(way.selectors))
        self.sources = tuple(test.expression.source for test in self.tests)
        """The expressions that select a device."""
        self.comparisons = 1 + len(self.sources)
        """About how many comparisons it takes to see whether a device is selected."""
        self._tolerated: dict[tuple[Taint, ...], bool] = {(): True}
        self.unclear: set[tuple[Taint, ...]] = set()
        """The taints that were not tolerated because one could not be compared."""
        self._parse_error = on_error

    def selects(self, claim: int, offer: Offer) -> bool:
        """Whether a device is of the sort that is asked for. Raises Fault."""
        if offer.device.binding_conditions:
            return False
        for test in self.tests:
            verdict = offer.traits.verdict(test.expression)
            if verdict.error:
                raise test.fault(claim, offer, verdict.error)
            if not verdict.matched:
                return False
        return True

    def tolerates(self, taints: tuple[Taint, ...]) -> bool:
        """Whether nothing on a device keeps it from being given to this request."""
        tolerated = self._tolerated.get(taints)
        if tolerated is None:
            if len(self._tolerated) > _TAINT_SETS_MAX:
                self._tolerated = {(): True}
                self.unclear.clear()
            taint = self.tolerations.first_untolerated(taints)
            if taint is not None:
                self._parse_error(self.tolerations, taint)
                if self.tolerations.verdict(taint).error:
                    self.unclear.add(taints)
            tolerated = self._tolerated[taints] = taint is None
        return tolerated


def _tests(selectors: Sequence[DeviceSelector], class_name: str = "") -> Iterator[SelectorTest]:
    for number, each in enumerate(selectors):
        yield SelectorTest(_expression(each.cel.expression if each.cel else ""), number, class_name)


class AttributeConstraint(NamedTuple):
    """What the devices of some requests must have in common, or must not have in common."""

    requests: frozenset[str]
    attribute: str
    distinct: bool

    def concerns(self, want: Want) -> bool:
        """Whether devices for a request count."""
        return not self.requests or want.request in self.requests or want.name in self.requests


class ClaimPlan:
    """What one claim asks for."""

    def __init__(
        self, number: int, devices: DeviceClaim, classes: Classes, gates: Gates, on_error: OnParseError
    ) -> None:
        self.number = number
        self.devices = devices
        self.requests = tuple(tuple(_wants(number, request, classes, gates, on_error)) for request in devices.requests)
        """The ways to satisfy each request, the best first."""
        self.rules = tuple(_constraint(number, at, each) for at, each in enumerate(devices.constraints))


class Plan:
    """What the claims of a pod that have no devices yet ask for."""

    def __init__(self, devices: Sequence[DeviceClaim], classes: Classes, gates: Gates, on_error: OnParseError) -> None:
        """Raises Fault for a request that is not supported."""
        sources = {each.cel.expression for claim in devices for each in _selectors(claim, classes) if each.cel}
        if len(sources) > MOST_SELECTORS or sum(map(len, sources)) > _SELECTORS_BYTES:
            limit = f"more than {MOST_SELECTORS} different selectors, or more than {_SELECTORS_BYTES >> 20} MiB of them"
            raise Fault(f"the claims of the pod have {limit}")
        self.claims = tuple(ClaimPlan(at, each, classes, gates, on_error) for at, each in enumerate(devices))
        self.has_choices = any(want.rank for claim in self.claims for ways in claim.requests for want in ways)
        """Whether some ways to satisfy a request are better than others."""
        ways = [way for claim in self.claims for each in claim.requests for way in each]
        is_simple = len(ways) == 1 and not ways[0].all and not self.claims[0].rules
        self.only = ways[0] if is_simple and ways[0].count <= MOST_DEVICES else None
        """All that is asked for, when it is so little that devices need only be counted."""


def _selectors(devices: DeviceClaim, classes: Classes) -> Iterator[DeviceSelector]:
    names = set()
    for request in devices.requests:
        for way in request.first_available or ((request.exactly,) if request.exactly is not None else ()):
            yield from way.selectors
            names.add(way.device_class_name)
    for name in names:
        class_ = classes(name)
        yield from class_.spec.selectors if class_ is not None else ()


def _wants(
    claim: int, request: DeviceRequest, classes: Classes, gates: Gates, on_error: OnParseError
) -> Iterator[Want]:
    exactly = request.exactly
    ways: Sequence[ExactDeviceRequest | DeviceSubRequest] = request.first_available if exactly is None else (exactly,)
    for at, way in enumerate(ways):
        name = getattr(way, "name", "") or request.name
        if way.capacity is not None:
            raise Fault(f", request {name}: has capacity requests, but the DRAConsumableCapacity feature is disabled",
                        claim)  # fmt: skip
        if way.allocation_mode not in ("ExactCount", "All"):
            raise Fault(f", request {name}: unsupported count mode {way.allocation_mode}", claim)
        for number, selector in enumerate(way.selectors):
            if selector.cel is None:
                text = f", request {name}, selector #{number}: CEL expression empty (unsupported selector type?)"
                raise Fault(text, claim)
        class_ = classes(way.device_class_name)
        if class_ is None:
            raise Fault(f", request {name}: could not retrieve device class {way.device_class_name}", claim)
        yield Want(request, way, class_, gates, on_error, 0 if exactly else MOST_WAYS - at)


def _constraint(claim: int, at: int, constraint: DeviceConstraint) -> AttributeConstraint:
    attribute = constraint.match_attribute or constraint.distinct_attribute
    if not attribute:
        raise Fault(f", constraint #{at}: empty constraint (unsupported constraint type?)", claim)
    return AttributeConstraint(frozenset(constraint.requests), attribute, constraint.match_attribute is None)
