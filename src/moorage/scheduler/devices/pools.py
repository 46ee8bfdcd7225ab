"""Pools: the devices that the newest slices of a driver describe, with their taints and where they can be used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from moorage.api.node import NodeSelector, Taint
from moorage.api.resource import CounterSet, Device, DeviceTaintRule, ResourceSlice
from moorage.match.deferral import NotReady
from moorage.match.devices import DeviceExpression, describe
from moorage.match.verdict import Verdict
from moorage.quantity import Quantity

INCOMPLETE, INVALID = "being updated", "invalid"
MOST_SELECTORS = 512
"""How many different expressions the claims of a pod and their classes can have: fewer than are kept compiled."""
_VERDICTS = 2_000_000
"""How many verdicts are kept about all devices; about each at least those that one pod needs."""
_encode = msgspec.json.Encoder(order="sorted").encode


class DeviceId(NamedTuple):
    """The full name of a device."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


class PoolId(NamedTuple):
    """The full name of a pool."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return "/".join(self)


class DevicePlace(NamedTuple):
    """From where a device can be used: one node, the nodes that a selector matches, or, with neither, all nodes."""

    node: str = ""
    selector: NodeSelector | None = None


class Traits:
    """What expressions read of a device. Devices that agree on it share it, so that each is asked once."""

    __slots__ = ("__weakref__", "_described", "_verdicts")

    def __init__(self, driver: str, device: Device) -> None:
        self._described = describe(driver, device)
        self._verdicts: dict[bytes, Verdict] = {}

    def verdict(self, expression: DeviceExpression) -> Verdict:
        """What an expression says of these devices."""
        verdict = self._verdicts.get(expression.digest)
        if verdict is None:
            if len(self._verdicts) >= max(MOST_SELECTORS, _VERDICTS // len(_known_traits)):
                self._verdicts.clear()
            try:
                verdict = self._verdicts[expression.digest] = expression.verdict(self._described)
            except NotReady:
                raise NotReady(lambda: self.verdict(expression)) from None
        return verdict


_known_traits: WeakValueDictionary[bytes, Traits] = WeakValueDictionary()


def _traits(driver: str, device: Device) -> Traits:
    key = _encode((driver, device.attributes, device.capacity, device.allow_multiple_allocations))
    traits = _known_traits.get(key)
    if traits is None:
        traits = _known_traits[key] = Traits(driver, device)
    return traits


CounterAmounts = dict[tuple[str, str], int]
"""Amounts, in billionths, by the name of a counter set and of a counter in it."""
_NO_COUNTERS: CounterAmounts = {}


class Offer:
    """One device that can be had."""

    __slots__ = ("_traits", "counters", "device", "id", "place", "taints")

    def __init__(self, pool: PoolId, device: Device, place: DevicePlace | None, taints: tuple[Taint, ...]) -> None:
        self.id = DeviceId(*pool, device.name)
        self.device = device
        self.place = place
        self.taints = taints
        used = device.consumes_counters
        self.counters = _amounts((each.counter_set, each.counters) for each in used) if used else _NO_COUNTERS
        self._traits: Traits | None = None

    @property
    def traits(self) -> Traits:
        """What expressions read of it, made when it is first needed."""
        if self._traits is None:
            self._traits = _traits(self.id.driver, self.device)
        return self._traits

    def attribute(self, name: str) -> tuple[str, Any] | None:
        """The type and value of an attribute, by its full name; the driver's own may leave out its domain."""
        attribute = self.device.attributes.get(name)
        domain, slash, rest = name.partition("/")
        if attribute is None and slash and domain == self.id.driver:
            attribute = self.device.attributes.get(rest)
        if attribute is None:
            return None
        typed = (
            ("string", attribute.string),
            ("int", attribute.int_),
            ("bool", attribute.bool_),
            ("version", attribute.version),
        )
        return next(((kind, value) for kind, value in typed if value is not None), None)


Offers = tuple[Offer, ...]


class Pool:
    """The devices of a pool as its newest generation has them, in the order in which they are given away."""

    def __init__(
        self, name: PoolId, slices: Collection[ResourceSlice], offers: Callable[[ResourceSlice], Offers]
    ) -> None:
        self.id = name
        newest = max(each.spec.pool.generation for each in slices)
        current = sorted(
            (each for each in slices if each.spec.pool.generation == newest), key=lambda each: each.metadata.name
        )
        self.problem = "" if len(current) == current[0].spec.pool.resource_slice_count else INCOMPLETE
        """Why no device of it can be had."""
        self.offers: Offers = ()
        self.counters: CounterAmounts = {}
        """What the devices share."""
        self.places = frozenset(place for each in current for place in _places(each) if place is not None)
        try:
            self.offers = tuple(offer for each in current for offer in offers(each))
            self.counters = _shared(current)
        except ValueError:
            self.problem = self.problem or INVALID
        if any(counter not in self.counters for offer in self.offers for counter in offer.counters):
            self.problem = self.problem or INVALID
        self.comes_last = any(offer.device.binding_conditions for offer in self.offers)
        """Whether others are to be used up first."""
        self.views: dict[frozenset[DevicePlace], View] = {}
        """What can be used of it, by the places of it that are within reach."""

    def view(self, places: frozenset[DevicePlace]) -> View:
        """What can be used from nodes that reach some places."""
        here = self.places & places
        view = self.views.get(here)
        if view is None:
            view = self.views[here] = View(self, here)
        return view

    def views_of(self, device: DeviceId) -> Iterator[View]:
        """Where it makes a difference that a device is taken or given back."""
        where = self.places if self.counters else self._places_of.get(device, frozenset())
        return (view for here, view in self.views.items() if not here.isdisjoint(where))

    @cached_property
    def _places_of(self) -> dict[DeviceId, set[DevicePlace | None]]:
        places: dict[DeviceId, set[DevicePlace | None]] = {}
        for offer in self.offers:
            places.setdefault(offer.id, set()).add(offer.place)
        return places

    def left(self, taken: Mapping[DeviceId, int]) -> CounterAmounts:
        """How much is left of what the devices share."""
        left = dict(self.counters)
        for offer in self.offers:
            if offer.counters and offer.id in taken:
                for counter, amount in offer.counters.items():
                    left[counter] -= amount
        return left


class View:
    """What can be used of a pool from some nodes, the same for all of them."""

    __slots__ = ("__weakref__", "changes", "offers", "pool", "problem")

    def __init__(self, pool: Pool, places: frozenset[DevicePlace]) -> None:
        self.pool = pool
        self.changes = 0
        """How often a device was taken or given back."""
        self.offers = [offer for offer in pool.offers if offer.place in places]
        names = {offer.id for offer in self.offers}
        self.problem = pool.problem or ("" if len(names) == len(self.offers) else INVALID)


def applies(rule: DeviceTaintRule, pool: PoolId) -> bool:
    """Whether a rule can be about devices of a pool; one without a selector is about none."""
    selector = rule.spec.device_selector
    if selector is None:
        return False
    return selector.driver in (None, pool.driver) and selector.pool in (None, pool.pool)


def offers_of(item: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> Offers:
    """The devices of a slice. Raises ValueError when a quantity cannot be parsed."""
    pool = pool_of(item)
    rules = [rule for rule in rules if applies(rule, pool)]
    offers = []
    for device, place in zip(item.spec.devices, _places(item), strict=False):
        added = [
            rule.spec.taint
            for rule in rules
            if rule.spec.device_selector and rule.spec.device_selector.device in (None, device.name)
        ]
        offers.append(Offer(pool, device, place, (*device.taints, *added) if added else device.taints))
    return tuple(offers)


def pool_of(item: ResourceSlice) -> PoolId:
    """The pool that a slice belongs to."""
    return PoolId(item.spec.driver, item.spec.pool.name)


def _places(item: ResourceSlice) -> tuple[DevicePlace | None, ...]:
    """From where each device of a slice can be used; at least one place, for slices without devices."""
    spec = item.spec
    if spec.per_device_node_selection:
        return tuple(_place(each.node_name, each.node_selector, all_nodes=each.all_nodes) for each in spec.devices)
    return (_place(spec.node_name, spec.node_selector, all_nodes=spec.all_nodes),) * max(1, len(spec.devices))


def _place(node: str | None, selector: NodeSelector | None, *, all_nodes: bool | None) -> DevicePlace | None:
    if node:
        return DevicePlace(node)
    if all_nodes:
        return DevicePlace()
    return DevicePlace("", selector) if selector is not None else None


def _shared(slices: Iterable[ResourceSlice]) -> CounterAmounts:
    sets: dict[str, CounterSet] = {}
    for each in slices:
        for counters in each.spec.shared_counters:
            if counters.name in sets:
                raise ValueError(f"duplicate counter set name {counters.name}")
            sets[counters.name] = counters
    return _amounts((each.name, each.counters) for each in sets.values())


def _amounts(sets: Iterable[tuple[str, Mapping[str, Any]]]) -> CounterAmounts:
    return {
        (name, counter): Quantity.of(amount.value).nano
        for name, counters in sets
        for counter, amount in counters.items()
    }
