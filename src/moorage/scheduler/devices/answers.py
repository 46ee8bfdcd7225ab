"""Whether there are devices for some claims: asked once for all nodes that can use the same, and kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage.api.node import Node
from moorage.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from moorage.scheduler.devices.allocator import Pick, allocate, preference
from moorage.scheduler.devices.inventory import Inventory, Supply
from moorage.scheduler.devices.ledger import Ledger
from moorage.scheduler.devices.plan import Fault, Plan, Want
from moorage.scheduler.devices.pools import INVALID, Offer, PoolId
from moorage.scheduler.framework import Handle
from moorage.scheduler.table import Rows, Scores
from moorage.scheduler.waiting import Waiting

FITS, NOT_ENOUGH, INVALID_POOLS, FAULTY = range(4)
"""What can be said of the devices that nodes can use."""
_KEPT = 64
_Relevant = tuple[tuple[Offer, ...], tuple[tuple[PoolId, str], ...]]
"""The devices that can make a difference, and the pools that cannot be used."""
_encode = msgspec.json.Encoder(order="sorted").encode


class Answers:
    """What is known about the devices for one plan, by the number of a supply."""

    def __init__(self, plan: Plan, inventory: Inventory, ledger: Ledger) -> None:
        self.plan = plan
        self._inventory = inventory
        self._ledger = ledger
        self._begin()

    def _begin(self) -> None:
        self._epoch = self._inventory.epoch
        self._revisions: NDArray[np.int64] = np.full(0, -1, np.int64)
        self._contents: NDArray[np.int64] = np.full(0, -1, np.int64)
        self._groups: NDArray[np.int64] = np.zeros(0, np.int64)
        """Supplies that differ only in devices that nobody asks for have the same group."""
        self._numbers: dict[_Relevant, int] = {}
        self._codes: NDArray[np.int8] = np.zeros(0, np.int8)
        self._scores: Scores = np.zeros(0, np.int64)
        self.faults: dict[int, Fault] = {}
        """What is wrong, by the number of a supply; what is no longer wrong may still be here."""

    def codes(self, rows: Rows) -> NDArray[np.int8]:
        """What can be said of these rows."""
        supplies = self._asked(rows)
        return self._codes[supplies]

    def scores(self, rows: Rows) -> Scores:
        """How good the devices are that these rows would get."""
        supplies = self._asked(rows)
        return self._scores[supplies]

    def picks(self, row: int) -> list[list[Pick]] | None:
        """The devices that a pod in a row would get. Raises Fault."""
        inventory = self._inventory
        return allocate(self.plan, inventory.supplies[inventory.of_row[row]], self._ledger.taken)

    def _asked(self, rows: Rows) -> NDArray[np.int32]:
        inventory = self._inventory
        if self._epoch != inventory.epoch or len(self._numbers) > 2 * len(inventory.supplies) + _KEPT:
            self._begin()
        missing = len(inventory.revisions) - len(self._codes)
        if missing:
            unknown = np.full(missing, -1, np.int64)
            self._revisions = np.concatenate([self._revisions, unknown])
            self._contents = np.concatenate([self._contents, unknown])
            self._groups = np.concatenate([self._groups, unknown])
            self._scores = np.concatenate([self._scores, unknown])
            self._codes = np.concatenate([self._codes, np.zeros(missing, np.int8)])
        supplies: NDArray[np.int32] = inventory.of_row[rows]
        stale = supplies[self._revisions[supplies] != inventory.revisions[supplies]]
        if len(stale):
            self._renew(set(stale.tolist()))
        return supplies

    def _renew(self, stale: set[int]) -> None:
        """Ask again about some supplies, about those of one group once."""
        inventory = self._inventory
        asked: dict[int, int] = {}
        for number in stale:
            if self._contents[number] != inventory.contents[number]:
                relevant = self._relevant(inventory.supplies[number])
                self._groups[number] = self._numbers.setdefault(relevant, len(self._numbers))
                self._contents[number] = inventory.contents[number]
            like = asked.setdefault(int(self._groups[number]), number)
            if like == number:
                self._answer(number)
            else:
                self._codes[number], self._scores[number] = self._codes[like], self._scores[like]
                if like in self.faults:
                    self.faults[number] = self.faults[like]
            self._revisions[number] = inventory.revisions[number]

    def _relevant(self, supply: Supply) -> _Relevant:
        wants = [(claim.number, want) for claim in self.plan.claims for ways in claim.requests for want in ways]
        offers = tuple(offer for offer in supply.offers if any(_may_select(want, at, offer) for at, want in wants))
        return offers, tuple((view.pool.id, view.problem) for view in supply.views if view.problem)

    def _answer(self, number: int) -> None:
        supply = self._inventory.supplies[number]
        try:
            picks = allocate(self.plan, supply, self._ledger.taken)
        except Fault as fault:
            self.faults[number] = fault
            self._codes[number] = FAULTY
            return
        if picks is None:
            is_invalid = any(view.problem == INVALID for view in supply.views)
            self._codes[number] = INVALID_POOLS if is_invalid else NOT_ENOUGH
            return
        self._codes[number] = FITS
        self._scores[number] = preference(picks) if self.plan.has_choices else 0


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
        self.inventory = Inventory(handle.table, informers, handle.gates)
        self.ledger = Ledger(informers.of(ResourceClaim), self.inventory.touch)
        self.classes = informers.of(DeviceClass)
        self._known: OrderedDict[tuple[bytes, ...], Answers] = OrderedDict()
        self.waiting = Waiting(handle, plugin)
        """For changes of claims, by namespace and name."""
        informers.of(ResourceClaim).on_change(self._claim_changed)
        self.classes.on_change(self._class_changed)
        informers.of(ResourceSlice).on_change(self._slice_changed)
        informers.of(DeviceTaintRule).on_change(self._rule_changed)
        informers.of(Node).on_change(self._node_changed)

    def answers(self, claims: Sequence[ResourceClaim]) -> Answers:
        """What is known about devices for claims that have none. Raises Fault."""
        key = tuple(_encode(claim.spec.devices) for claim in claims)
        known = self._known.get(key)
        if known is None:
            plan = Plan(
                [claim.spec.devices for claim in claims], lambda name: self.classes.get("", name),
                self._handle.gates, self._handle.unclear,
            )  # fmt: skip
            known = self._known[key] = Answers(plan, self.inventory, self.ledger)
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return known

    def wake(self) -> None:
        """Pods that waited for devices may find some now."""
        self._handle.wake(self._plugin, None, None)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        either = new or old
        assert either is not None
        if old is not None and old.status.allocation and (new is None or new.status.allocation is None):
            self._handle.wake(self._plugin, old, new)
        elif old is None or new is None or old.status != new.status:
            self.waiting.told(old, new, (either.metadata.namespace, either.metadata.name))

    def _class_changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._known.clear()
            if new is not None:
                self._handle.wake(self._plugin, old, new)

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._handle.wake(self._plugin, old, new)

    def _rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        """A rule that is added keeps devices from pods; it helps nobody."""
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
