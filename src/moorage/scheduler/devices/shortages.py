"""Why a node cannot satisfy claims, in words: which device has which taint, or is not what which selector demands."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from moorage.api.node import Taint
from moorage.features import Gates
from moorage.match.deferral import NotReady, deferring
from moorage.match.reasons import EXPLAINED_COST, Complaint
from moorage.scheduler.devices.allocator import usable
from moorage.scheduler.devices.plan import Fault, Plan, SelectorTest, Want
from moorage.scheduler.devices.pools import DeviceId, Offer, View
from moorage.scheduler.explaining import REST, Words, briefly, kinds_of

LOOKS = 4096
"""How many devices are looked at for one pod."""
_OFFERS = 64
"""Of how many devices of a node it is told why one cannot be had."""
_UNTOLD = REST, "other devices"


class Obstacle(NamedTuple):
    """Why a device cannot be had. Those with a lower rank are told first."""

    rank: int
    kind: Hashable
    text: str


_IN_USE = Obstacle(1, "in use", "devices are in use by other claims")


class Shortages:
    """Tells of the claims of one pod what each node lacks; it looks at a bounded number of devices."""

    def __init__(self, plan: Plan, taken: Mapping[DeviceId, int], gates: Gates) -> None:
        self._plan = plan
        self._taken = taken
        self._gates = gates
        self._complained: dict[tuple[Want, tuple[Taint, ...]], Words | None] = {}
        """What is said of taints."""
        self._looks = LOOKS

    def __call__(self, views: Sequence[View]) -> Words:
        """What keeps the devices of a node from being given to the claims."""
        self._looks -= sum(len(view.offers) for view in views) + 1
        if self._looks < 0:
            return _UNTOLD
        try:
            with deferring():
                return self._first_lack(views)
        except (NotReady, Fault):
            return _UNTOLD

    def _first_lack(self, views: Sequence[View]) -> Words:
        for claim in self._plan.claims:
            for ways in claim.requests:
                if all(self._lacks(claim.number, way, views) for way in ways):
                    return self._told(claim.number, ways[0], views)
        return "together", "each request could have devices, but not all of them together"

    def _lacks(self, claim: int, want: Want, views: Sequence[View]) -> bool:
        if not want.all:
            found = usable(claim, want, views, self._taken)
            return sum(1 for _ in islice(found, want.count)) < want.count
        asked = [offer for view in views for offer in view.offers if want.selects(claim, offer)]
        return not asked or any(self._obstacle(want, offer) for offer in asked)

    def _told(self, claim: int, want: Want, views: Sequence[View]) -> Words:
        found: dict[Hashable, Obstacle] = {}
        for obstacle in self._obstacles(want, views):
            found.setdefault(obstacle.kind, obstacle)
        told = sorted(found.values(), key=lambda each: each.rank)
        many = f" for {want.count} devices" if want.count > 1 and not want.all else ""
        fewer = "fewer" if any(view.offers for view in views) else "no"
        reasons = ", ".join(each.text for each in told) or f"the node has {fewer} devices"
        return (claim, want.name, *(each.kind for each in told)), f"request {want.name}{many}: {reasons}"

    def _obstacles(self, want: Want, views: Sequence[View]) -> Iterable[Obstacle]:
        for view in views:
            if view.problem:
                yield Obstacle(2, view.problem, f"resource pool {view.pool.id} is {view.problem}")
        offers = (offer for view in views if not view.problem for offer in view.offers)
        for offer in islice(offers, _OFFERS):
            obstacle = self._obstacle(want, offer)
            if obstacle is not None:
                yield obstacle

    def _obstacle(self, want: Want, offer: Offer) -> Obstacle | None:
        if offer.device.binding_conditions:
            return Obstacle(3, "conditions", f"binding conditions are not supported ({_named(offer)})")
        for test in want.tests:
            if not offer.traits.verdict(test.expression).matched:
                return _unselected(test, offer)
        if complained := self._complaint(want, offer.taints):
            return Obstacle(0, complained[0], f"{complained[1]} ({_named(offer)})")
        return _IN_USE if offer.id in self._taken and not want.admin else None

    def _complaint(self, want: Want, taints: tuple[Taint, ...]) -> Words | None:
        key = want, taints
        if key not in self._complained:
            taint = want.tolerations.first_untolerated(taints)
            if taint is None:
                self._complained[key] = None
            else:
                lacks = Complaint(want.tolerations, self._gates, most=EXPLAINED_COST)(taint)
                value = f"={taint.value}" if taint.value else ""
                words = (taint.key, kinds_of(lacks)), f"taint {taint.key}{value}: {briefly(lacks)}"
                self._complained[key] = words
        return self._complained[key]


def _unselected(test: SelectorTest, offer: Offer) -> Obstacle:
    source, of_class = test.expression.source, f" of class {test.class_name}" if test.class_name else ""
    return Obstacle(3, source, f"`{source}`{of_class} does not select {_named(offer)}")


def _named(offer: Offer) -> str:
    """A device without its driver, which the class stands for: long names would leave no room for the reason."""
    return f"device {offer.id.pool}/{offer.id.device}"
