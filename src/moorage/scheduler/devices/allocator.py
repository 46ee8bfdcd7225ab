"""The search for devices: the first of all ways to satisfy all claims, in the order of preference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from moorage.match.deferral import pause, spend
from moorage.scheduler.devices.plan import MOST_DEVICES, ClaimPlan, Fault, Plan, Want
from moorage.scheduler.devices.pools import CounterAmounts, DeviceId, Offer, PoolId, View

_MOST_STEPS = 50_000
"""After so many devices tried a search is given up."""
_TRY_COST = 200
"""What it counts as to try a device: a search that takes more than two milliseconds is seldom the last one."""
_QUICK = 10_000
"""How many times a device may be compared with an expression without being counted."""


class DevicePick(NamedTuple):
    """A device for a request."""

    want: Want
    offer: Offer


Picks = list[list[DevicePick]]
"""The devices of each claim."""


class _Position(NamedTuple):
    """How far a search has come: the request that is next, and of one that is begun how much is missing."""

    claim: int
    request: int
    want: Want | None = None
    start: int = 0
    missing: int = 0


def pick_first(plan: Plan, views: Sequence[View], taken: Mapping[DeviceId, int]) -> Picks | None:
    """The first devices that will do, when a plan is so simple that any will; nothing when there are not enough."""
    only = plan.only
    assert only is not None
    picks = [DevicePick(only, offer) for offer in islice(usable(0, only, views, taken), only.count)]
    return [picks] if len(picks) == only.count else None


def is_simple(plan: Plan, views: Sequence[View]) -> bool:
    """Whether devices need only be counted, and are few."""
    if plan.only is None or any(view.pool.counters for view in views):
        return False
    return plan.only.comparisons * sum([len(view.offers) for view in views]) < _QUICK


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


def changes_of(views: Iterable[View]) -> int:
    """How often devices of these views were taken or given back."""
    return sum([view.changes for view in views])


class Search:
    """Tries one device after the other, and goes back when there is no way on.

    It can be interrupted where it spends and pauses, and goes on when it is run again.
    """

    def __init__(self, plan: Plan, views: Sequence[View], taken: Mapping[DeviceId, int]) -> None:
        self._plan = plan
        self._views = views
        self._taken = taken
        self.changes = changes_of(views)
        """How often the devices had changed when it began."""
        self._offers = [offer for view in views if not view.problem for offer in view.offers]
        self._all: dict[Want, list[Offer]] = {}
        self._usable: dict[Want, list[Offer]] = {}
        """The devices that a request could have if it were the only one."""
        self._is_clear = True
        """Whether every device can be judged: else even one that is of no use must be looked at, to say so."""
        self._is_done = False
        self._found: Picks | None = None
        self._fault: Fault | None = None
        self._begin()

    def _begin(self) -> None:
        self._picks: Picks = [[] for _ in self._plan.claims]
        self._users: dict[DeviceId, list[int]] = {}
        """The claims that the devices picked so far are for."""
        self._values: list[list[list[Any]]] = [[[] for _ in claim.rules] for claim in self._plan.claims]
        """The attributes of the devices picked so far, by claim and rule."""
        self._left: dict[PoolId, CounterAmounts] = {}
        self._steps = 0
        self._open: list[Iterator[_Position]] = [iter((_Position(0, 0),))]
        """The decisions so far, each with what can be tried in its place."""

    def run(self) -> Picks | None:
        """Devices for each claim, or None when there are not enough. Raises Fault, NotReady."""
        if not self._is_done:
            try:
                self._look()
            except Fault as fault:
                self._fault = fault
            self._is_done = True
            self._usable, self._all, self._open = {}, {}, []
        if self._fault is not None:
            raise self._fault.with_traceback(None)
        return self._found

    def work(self) -> None:
        """Go on where time is not short; `run` has the result afterwards."""
        with suppress(Fault):
            self.run()

    def _look(self) -> None:
        """Go on until nothing is left to be decided, or nothing to be tried."""
        claims = self._plan.claims
        missing = [
            want.comparisons for claim in claims for ways in claim.requests for want in ways if not self._knows(want)
        ]
        spend(len(self._offers) * sum(missing), self.work)
        for claim in claims:
            self._check_size(claim)
        if self._is_clear and self._is_hopeless():
            self._open.clear()
        while self._open:
            steps = self._steps
            try:
                position = next(self._open[-1], None)
            except BaseException:
                self._begin()
                raise
            if position is None:
                self._open.pop()
            elif position.claim == len(claims):
                self._found = self._picks
                return
            else:
                self._open.append(self._ways_on(position))
            if self._steps > _MOST_STEPS:
                raise Fault("timed out trying to allocate devices")
            spend((self._steps - steps) * _TRY_COST, self.work)
            pause()

    def _knows(self, want: Want) -> bool:
        return want in self._usable or want in self._all

    def _check_size(self, claim: ClaimPlan) -> None:
        least = 0
        for ways in claim.requests:
            for want in ways:
                if want.all and want not in self._all:
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
        if want.all:
            return 0
        if want not in self._usable:
            self._usable[want] = list(usable(claim, want, self._views, self._taken))
            pause()
        return len(self._usable[want]) - want.count

    def _ways_on(self, position: _Position) -> Iterator[_Position]:
        """Decide what comes next, in all ways in turn."""
        claim, request, begun, start, missing = position
        requests = self._plan.claims[claim].requests
        if begun is not None:
            yield from self._pick(claim, request, begun, start, missing)
        elif request == len(requests):
            yield _Position(claim + 1, 0)
        else:
            for want in requests[request]:
                count = len(self._all[want]) if want.all else want.count
                if len(self._picks[claim]) + count <= MOST_DEVICES:
                    take_all = want.all and self._take_all(claim, request, want)
                    yield from take_all or self._pick(claim, request, want, 0, count)

    def _take_all(self, claim: int, request: int, want: Want) -> Iterator[_Position]:
        offers = self._all[want]
        done = 0
        for offer in offers:
            if not self._is_free(claim, want, offer) or not self._take(claim, want, offer, must=True):
                break
            done += 1
        if offers and done == len(offers):
            yield _Position(claim, request + 1)
        for offer in reversed(offers[:done]):
            self._drop(claim, want, offer)

    def _pick(self, claim: int, request: int, want: Want, start: int, count: int) -> Iterator[_Position]:
        """One more device for a request, each after the one before: their order does not matter."""
        if not count:
            yield _Position(claim, request + 1)
            return
        offers, spare, cost = (
            (self._usable[want], count - 1, 1) if self._is_clear else (self._offers, 0, want.comparisons)
        )
        for at in range(start, len(offers) - spare):
            offer = offers[at]
            self._steps += cost
            if not self._is_free(claim, want, offer) or not (self._is_clear or want.selects(claim, offer)):
                continue
            if self._take(claim, want, offer):
                yield _Position(claim, request, want, at + 1, count - 1)
                self._drop(claim, want, offer)

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
