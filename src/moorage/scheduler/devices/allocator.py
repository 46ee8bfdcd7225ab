"""The search for devices: the first of all ways to satisfy all claims, in the order of preference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from moorage.scheduler.devices.plan import MOST_DEVICES, ClaimPlan, Fault, Plan, Want
from moorage.scheduler.devices.pools import CounterAmounts, DeviceId, Offer, PoolId, View

_MOST_STEPS = 50_000
"""After so many devices tried a search is given up: nothing else happens while it lasts."""


class DevicePick(NamedTuple):
    """A device for a request."""

    want: Want
    offer: Offer


def allocate(plan: Plan, views: Sequence[View], taken: Mapping[DeviceId, int]) -> list[list[DevicePick]] | None:
    """Devices for each claim, or None when there are not enough. Raises Fault."""
    only = plan.only
    if only is None or any(view.pool.counters for view in views):
        return Search(plan, views, taken).run()
    picks = [DevicePick(only, offer) for offer in islice(usable(0, only, views, taken), only.count)]
    return [picks] if len(picks) == only.count else None


def usable(claim: int, want: Want, views: Iterable[View], taken: Mapping[DeviceId, int]) -> Iterator[Offer]:
    """The devices that a request could have if it were the only one. Raises Fault."""
    for view in views:
        for offer in () if view.problem else view.offers:
            is_free = want.admin or offer.id not in taken
            if is_free and want.selects(claim, offer) and want.tolerates(offer.taints):
                yield offer


def preference(picks: list[list[DevicePick]]) -> int:
    """How good the ways are by which requests are satisfied: earlier ones count more."""
    return sum(rank for claim in picks for rank in {pick.want.request: pick.want.rank for pick in claim}.values())


class Search:
    """Tries one device after the other, and goes back when there is no way on."""

    def __init__(self, plan: Plan, views: Sequence[View], taken: Mapping[DeviceId, int]) -> None:
        self._plan = plan
        self._views = views
        self._taken = taken
        self._offers = [offer for view in views if not view.problem for offer in view.offers]
        self._picks: list[list[DevicePick]] = [[] for _ in plan.claims]
        self._users: dict[DeviceId, list[int]] = {}
        """The claims that the devices picked so far are for."""
        self._values: list[list[list[Any]]] = [[[] for _ in claim.rules] for claim in plan.claims]
        """The attributes of the devices picked so far, by claim and rule."""
        self._left: dict[PoolId, CounterAmounts] = {}
        self._all: dict[Want, list[Offer]] = {}
        self._steps = 0
        self._is_clear = True
        """Whether every device can be judged: else even one that is of no use must be looked at, to say so."""

    def run(self) -> list[list[DevicePick]] | None:
        """Devices for each claim, or None when there are not enough. Raises Fault."""
        for claim in self._plan.claims:
            self._check_size(claim)
        if self._is_hopeless() or not self._next(0, 0):
            return None
        return self._picks

    def _check_size(self, claim: ClaimPlan) -> None:
        least = 0
        for ways in claim.requests:
            for want in ways:
                if want.all:
                    self._all[want] = self._find_all(claim.number, want)
            least += min((len(self._all[want]) if want.all else want.count for want in ways), default=0)
        if least > MOST_DEVICES:
            raise Fault(f": number of requested devices {least} exceeds the claim limit of {MOST_DEVICES}",
                        claim.number)  # fmt: skip

    def _find_all(self, claim: int, want: Want) -> list[Offer]:
        offers = []
        for view in self._views:
            if view.problem:
                text = f"asks for all devices, but resource pool {view.pool.id} is currently {view.problem}"
                raise Fault(f", request {want.name.rpartition('/')[2]}: {text}", claim)
            offers += [offer for offer in view.offers if want.selects(claim, offer)]
        return offers

    def _is_hopeless(self) -> bool:
        """Whether some request cannot be satisfied even if it were the only one: spares a search that is in vain.

        Where devices cannot be judged the search must come to them, and fail.
        """
        try:
            return any(
                max(self._left_over(claim.number, want) for want in ways) < 0
                for claim in self._plan.claims
                for ways in claim.requests
            )
        except Fault:
            self._is_clear = False
            return False

    def _left_over(self, claim: int, want: Want) -> int:
        return 0 if want.all else len(list(usable(claim, want, self._views, self._taken))) - want.count

    def _next(self, claim: int, request: int) -> bool:
        """Go on with a request, then with those after it."""
        if claim == len(self._plan.claims):
            return True
        requests = self._plan.claims[claim].requests
        if request == len(requests):
            return self._next(claim + 1, 0)
        return any(self._satisfy(claim, request, want) for want in requests[request])

    def _satisfy(self, claim: int, request: int, want: Want) -> bool:
        count = len(self._all[want]) if want.all else want.count
        if len(self._picks[claim]) + count > MOST_DEVICES:
            return False
        return self._take_all(claim, request, want) if want.all else self._pick(claim, request, want, 0, count)

    def _take_all(self, claim: int, request: int, want: Want) -> bool:
        offers = self._all[want]
        done = 0
        for offer in offers:
            if not self._is_free(claim, want, offer) or not self._take(claim, want, offer, must=True):
                break
            done += 1
        if offers and done == len(offers) and self._next(claim, request + 1):
            return True
        for offer in reversed(offers[:done]):
            self._drop(claim, want, offer)
        return False

    def _pick(self, claim: int, request: int, want: Want, start: int, count: int) -> bool:
        """Some more devices for a request, each after the one before: their order does not matter."""
        if not count:
            return self._next(claim, request + 1)
        offers = self._offers
        for at in range(start, len(offers) - (count - 1 if self._is_clear else 0)):
            offer = offers[at]
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise Fault("timed out trying to allocate devices")
            if not self._is_free(claim, want, offer) or not want.selects(claim, offer):
                continue
            if self._take(claim, want, offer):
                if self._pick(claim, request, want, at + 1, count - 1):
                    return True
                self._drop(claim, want, offer)
        return False

    def _is_free(self, claim: int, want: Want, offer: Offer) -> bool:
        users = self._users.get(offer.id, ())
        if want.admin:
            return claim not in users
        return not users and offer.id not in self._taken

    def _take(self, claim: int, want: Want, offer: Offer, *, must: bool = False) -> bool:
        if not want.tolerates(offer.taints) or not self._has_counters(offer):
            return False
        rules = self._plan.claims[claim].rules
        added: list[tuple[int, Any]] = []
        for at, rule in enumerate(rules):
            if rule.concerns(want):
                value, others = offer.attribute(rule.attribute), self._values[claim][at]
                if value is None or (value in others if rule.distinct else others and value != others[0]):
                    if must:
                        text = f"cannot add device {offer.id} because a claim constraint would not be satisfied"
                        raise Fault(f", request {want.name.rpartition('/')[2]}: {text}", claim)
                    return False
                added.append((at, value))
        for at, value in added:
            self._values[claim][at].append(value)
        self._count(offer, 1)
        self._users.setdefault(offer.id, []).append(claim)
        self._picks[claim].append(DevicePick(want, offer))
        return True

    def _drop(self, claim: int, want: Want, offer: Offer) -> None:
        self._picks[claim].pop()
        self._users[offer.id].pop()
        self._count(offer, -1)
        for at, rule in enumerate(self._plan.claims[claim].rules):
            if rule.concerns(want):
                self._values[claim][at].pop()

    def _has_counters(self, offer: Offer) -> bool:
        if not offer.counters:
            return True
        left = self._counters(offer)
        return all(left[counter] >= amount for counter, amount in offer.counters.items())

    def _count(self, offer: Offer, sign: int) -> None:
        if offer.counters:
            left = self._counters(offer)
            for counter, amount in offer.counters.items():
                left[counter] -= sign * amount

    def _counters(self, offer: Offer) -> CounterAmounts:
        whole = PoolId(offer.id.driver, offer.id.pool)
        if whole not in self._left:
            pool = next(view.pool for view in self._views if view.pool.id == whole)
            self._left[whole] = pool.left(self._taken)
        return self._left[whole]
