"""Whether claims can be allocated on each node: computed once for all nodes that can use the same devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage.api.meaning import asked_of
from moorage.api.node import Node
from moorage.api.resource import DeviceClaim, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from moorage.api.rules import RulesError
from moorage.bounded import Bounded
from moorage.match.deferral import NotReady
from moorage.scheduler.devices.allocator import Picks, Search, changes_of, is_simple, pick_first, preference
from moorage.scheduler.devices.inventory import Inventory
from moorage.scheduler.devices.ledger import Ledger
from moorage.scheduler.devices.plan import Fault, Plan, Want
from moorage.scheduler.devices.pools import INVALID, Offer, View
from moorage.scheduler.framework import Handle
from moorage.scheduler.table.nodes import Index, Mask, Rows, Scores
from moorage.scheduler.table.reach import Reaches
from moorage.scheduler.waiting import Waiting

FITS, NOT_ENOUGH, INVALID_POOLS, FAULTY = range(4)
"""The result of an allocation for the nodes of a group."""
_PLANS_MAX = 64
_SPARE_GROUPS = 64
_SEARCHES_MAX = 128
_encode = msgspec.json.Encoder(order="sorted").encode


class PlanAnswers:
    """What is known about the devices for one plan.

    Nodes that differ only in devices that nobody asks for are one group, and are asked about once. What is known of a
    group holds until a device is taken or given back that is among those it can use.
    """

    def __init__(self, plan: Plan, inventory: Inventory, ledger: Ledger) -> None:
        self.plan = plan
        self._wants = [(claim.number, want) for claim in plan.claims for ways in claim.requests for want in ways]
        self._sorts = list({want.sources: (claim, want) for claim, want in self._wants}.values())
        """One request for each sort of devices that is asked for."""
        self._inventory = inventory
        self._ledger = ledger
        self._begin()

    def _begin(self) -> None:
        self._epoch, self._version = self._inventory.epoch, -1
        self._contents: NDArray[np.int64] = np.full(0, -1, np.int64)
        self._group_of: Index = np.zeros(0, np.intp)
        """The group of each supply."""
        self._group_at: Index = np.zeros(0, np.intp)
        """The group of each row."""
        self.groups: list[tuple[View, ...]] = []
        """What the nodes of a group can use that anybody asks for."""
        self._numbers: dict[tuple[View, ...], int] = {}
        self._using: dict[View, list[int]] = {}
        """The groups that can use a view."""
        self.asked_for: WeakKeyDictionary[View, bool] = WeakKeyDictionary()
        self._judged: WeakKeyDictionary[View, int] = WeakKeyDictionary()
        """How many devices of a view nobody asks for, as far as is known."""
        self._searches: Bounded[int, Search] = Bounded(_SEARCHES_MAX)
        """The searches for groups that took long, with their results."""
        self._stale: set[int] = set()
        self._codes: NDArray[np.int8] = np.zeros(64, np.int8)
        self._scores: Scores = np.zeros(64, np.int64)
        self._faults: dict[int, Fault] = {}
        """What is wrong with a group; what is no longer wrong may still be here."""

    def touch(self, view: View) -> None:
        """A device was taken or given back."""
        self._stale.update(self._using.get(view, ()))

    def codes(self, rows: Rows) -> NDArray[np.int8]:
        """The result for each of these rows: FITS, NOT_ENOUGH, INVALID_POOLS or FAULTY."""
        self._renew()
        return self._codes[self._group_at[rows]]

    def scores(self, rows: Rows) -> Scores:
        """How good the devices are that these rows would get."""
        self._renew()
        return self._scores[self._group_at[rows]]

    def fault(self, row: int) -> Fault:
        """What is wrong in a row that is faulty."""
        return self._faults[int(self._group_at[row])]

    def unclear(self, rows: Index) -> Mask:
        """In which of these rows a device may be lacking because a taint of it cannot be compared."""
        wants = [want for _, want in self._wants if want.unclear]
        found: set[int] = set()
        for number in np.flatnonzero(np.bincount(self._group_at[rows])).tolist() if wants else ():
            offers = (offer for view in self.groups[number] for offer in view.offers)
            if any(offer.taints in want.unclear for offer in offers for want in wants):
                found.add(number)
        return np.isin(self._group_at[rows], list(found))

    def views(self, row: int) -> tuple[View, ...]:
        """What a row can use that anybody asks for."""
        self._renew()
        return self.groups[int(self._group_at[row])]

    def grouped(self, rows: Index) -> Iterator[Index]:
        """Rows that can use the same devices, together."""
        self._renew()
        groups = self._group_at[rows]
        for number in dict.fromkeys(groups.tolist()):
            yield rows[groups == number]

    def picks(self, row: int) -> Picks | None:
        """The devices that a pod in a row would get. Raises Fault."""
        self._renew()
        return self._allocate(int(self._group_at[row]))

    def steps(self) -> Iterator[None]:
        """Ask again about what has changed, little by little: more may change in between."""
        inventory = self._inventory
        if self._epoch != inventory.epoch or len(self.groups) > 2 * len(inventory.supplies) + _SPARE_GROUPS:
            self._begin()
        if self._version != inventory.version:
            version = inventory.version
            for number in self._moved():
                contents, views = inventory.contents[number], inventory.supplies[number].views
                for view in views:
                    yield from self._judge(view)
                self._group_of[number], self._contents[number] = self._group(views), contents
                yield
            self._group_at = self._group_of[inventory.of_row]
            self._version = version
        while self._stale:
            number = next(iter(self._stale))
            self._codes[number] = self.answer(number)
            self._stale.discard(number)
            yield

    def _renew(self) -> None:
        for _ in self.steps():
            pass

    def _moved(self) -> list[int]:
        """The supplies whose devices are others than before."""
        inventory = self._inventory
        missing = len(inventory.contents) - len(self._contents)
        if missing:
            self._contents = np.concatenate([self._contents, np.full(missing, -1, np.int64)])
            self._group_of = np.concatenate([self._group_of, np.zeros(missing, np.intp)])
        asked = np.zeros(len(self._contents), np.bool_)
        asked[inventory.of_row] = True
        moved: list[int] = (asked & (self._contents != inventory.contents)).nonzero()[0].tolist()
        return moved

    def _group(self, usable: list[View]) -> int:
        views = tuple([view for view in usable if self.asked_for[view]])
        number = self._numbers.get(views)
        if number is None:
            number = self._numbers[views] = len(self.groups)
            self.groups.append(views)
            self._stale.add(number)
            for view in views:
                self._using.setdefault(view, []).append(number)
            if number == len(self._codes):
                self._codes = np.concatenate([self._codes, np.zeros_like(self._codes)])
                self._scores = np.concatenate([self._scores, np.zeros_like(self._scores)])
        return number

    def _judge(self, view: View) -> Iterator[None]:
        """Find out whether anybody asks for a device of a view, little by little."""
        if view in self.asked_for:
            return
        is_asked_for, offers = bool(view.problem), view.offers
        for at in () if is_asked_for else range(self._judged.get(view, 0), len(offers)):
            self._judged[view] = at
            if any(_may_select(want, claim, offers[at]) for claim, want in self._sorts):
                is_asked_for = True
                break
            yield
        self.asked_for[view] = is_asked_for

    def answer(self, number: int) -> int:
        """Allocate for the nodes of a group: the result, as `codes` gives it."""
        views = self.groups[number]
        try:
            picks = self._allocate(number)
        except Fault as fault:
            self._faults[number] = fault
            return FAULTY
        if picks is None:
            return INVALID_POOLS if any(view.problem == INVALID for view in views) else NOT_ENOUGH
        self._scores[number] = preference(picks) if self.plan.has_choices else 0
        return FITS

    def _allocate(self, number: int) -> Picks | None:
        """Devices for the nodes of a group. Raises Fault, NotReady."""
        views, taken = self.groups[number], self._ledger.taken
        if is_simple(self.plan, views):
            return pick_first(self.plan, views, taken)
        search = self._searches.get(number)
        if search is None or search.changes != changes_of(views):
            search = Search(self.plan, views, taken)
        try:
            return search.run()
        except NotReady:
            self._searches.put(number, search)
            raise


def _may_select(want: Want, claim: int, offer: Offer) -> bool:
    try:
        return want.selects(claim, offer)
    except Fault:
        return True


class Devices:
    """All that is known about devices, shared by the profiles of a scheduler: a device is given away once."""

    def __init__(self, handle: Handle, plugin: str) -> None:
        informers = handle.informers
        self._handle = handle
        self._plugin = plugin
        reaches = Reaches(handle.table, handle.gates, handle.label_error)
        self.inventory = Inventory(handle.table, informers, reaches, self._touched)
        self.ledger = Ledger(informers.of(ResourceClaim), self.inventory.touch)
        self.classes = informers.of(DeviceClass)
        self._known: Bounded[bytes, PlanAnswers] = Bounded(_PLANS_MAX)
        self.waiting = Waiting(handle, plugin)
        """For changes of claims, by namespace and name."""
        informers.of(ResourceClaim).on_change(self._claim_changed)
        self.classes.on_change(self._class_changed)
        informers.of(ResourceSlice).on_change(self._slice_changed)
        informers.of(DeviceTaintRule).on_change(self._rule_changed)
        informers.of(Node).on_change(self._node_changed)

    def answers(self, claims: Sequence[ResourceClaim]) -> PlanAnswers:
        """What is known about devices for claims that have none. Raises Fault."""
        asked = [_asked(claim, number) for number, claim in enumerate(claims)]
        text = blake2b(digest_size=16)
        for each in asked:
            text.update(_encode(each))
        key = text.digest()
        known = self._known.get(key)
        if known is None:
            plan = Plan(asked, lambda name: self.classes.get("", name), self._handle.gates, self._handle.parse_error)
            known = PlanAnswers(plan, self.inventory, self.ledger)
            self._known.put(key, known)
        return known

    def _touched(self, view: View) -> None:
        view.changes += 1
        for known in self._known.values():
            known.touch(view)

    def wake(self) -> None:
        """Pods that waited for devices may find some now."""
        self._handle.wake(self._plugin, None, None)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        either = new or old
        assert either is not None
        if old is not None and old.status.allocation and (new is None or new.status.allocation is None):
            self._handle.wake(self._plugin, old, new)
        elif old is None or new is None or old.status != new.status:
            self.waiting.changed(old, new, (either.metadata.namespace, either.metadata.name))

    def _class_changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._known.clear()
            if new is not None:
                self._handle.wake(self._plugin, old, new)

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._handle.wake(self._plugin, old, new)

    def _rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        """A rule that is added can only take devices away."""
        if old is not None and (new is None or old.spec != new.spec):
            self._handle.wake(self._plugin, old, new)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is not None and new is not None and old.metadata.labels != new.metadata.labels:
            self._handle.wake(self._plugin, old, new)


def devices(handle: Handle, plugin: str) -> Devices:
    """What all profiles of a scheduler know about devices, by the plugin that pods without devices wait for."""
    if plugin not in handle.shared:
        handle.shared[plugin] = Devices(handle, plugin)
    known: Devices = handle.shared[plugin]
    return known


def _asked(claim: ResourceClaim, number: int) -> DeviceClaim:
    try:
        return asked_of(claim)
    except RulesError as error:
        raise Fault(f": {error}", number) from None
