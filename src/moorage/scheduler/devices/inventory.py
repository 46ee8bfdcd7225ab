"""Which devices can be used from which node: nodes that can use the same are one, and are asked about once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from moorage.api.node import Node
from moorage.api.resource import DeviceTaintRule, ResourceSlice
from moorage.client import Informers
from moorage.features import Gates
from moorage.scheduler.devices.pools import INVALID, DeviceId, Offer, Place, Pool, PoolId, applies
from moorage.scheduler.reach import Reach
from moorage.scheduler.table import ALL, Index, NodeTable

_BY_POOL = "by pool"
_SPARE = 1024
EVERYWHERE = Place()


class View:
    """What can be used of a pool from some nodes."""

    __slots__ = ("offers", "pool", "problem")

    def __init__(self, pool: Pool, places: frozenset[Place]) -> None:
        self.pool = pool
        self.offers = [offer for offer in pool.offers if offer.place in places]
        names = {offer.id for offer in self.offers}
        self.problem = pool.problem or ("" if len(names) == len(self.offers) else INVALID)


class Supply:
    """What can be used from some nodes, which all can use the same."""

    def __init__(self, pools: dict[PoolId, Pool], at: dict[Place, set[PoolId]], places: frozenset[Place]) -> None:
        self._pools, self._at = pools, at
        self.places = places

    @cached_property
    def views(self) -> list[View]:
        """The pools in the order in which devices are given away."""
        names = sorted({name for place in self.places for name in self._at.get(place, ())})
        return [View(self._pools[name], self.places) for name in names]

    @cached_property
    def offers(self) -> list[Offer]:
        """The devices of the pools that can be used now."""
        return [offer for view in self.views if not view.problem for offer in view.offers]

    def forget(self) -> None:
        """What can be used has changed."""
        self.__dict__.pop("views", None)
        self.__dict__.pop("offers", None)


class Inventory:
    """All devices, kept up to date from slices and taint rules, and the supply of each row of the node table."""

    def __init__(self, table: NodeTable, informers: Informers, gates: Gates) -> None:
        self._table = table
        self._gates = gates
        self._slices = informers.of(ResourceSlice)
        self._rules = informers.of(DeviceTaintRule)
        self._slices.index(_BY_POOL, lambda item: [str(_pool_of(item))])
        self._slices.on_change(self._slice_changed)
        self._rules.on_change(self._rule_changed)
        self.pools: dict[PoolId, Pool] = {}
        self._at: dict[Place, set[PoolId]] = {}
        """The pools that have devices at a place."""
        self._stale: set[PoolId] = set()
        self._stale_nodes: set[str] = set()
        self._reaches: dict[Place, Reach] = {}
        self._offers: dict[DeviceId, list[Offer]] = {}
        self.epoch = 0
        """Changes when the numbers of supplies mean something else."""
        self._begin()

    def _begin(self) -> None:
        """Forget the supplies: those of nodes that are gone are never used again."""
        self.supplies: list[Supply] = []
        self.revisions: NDArray[np.int64] = np.zeros(64, np.int64)
        """How often what can be had from a supply has changed."""
        self.contents: NDArray[np.int64] = np.zeros(64, np.int64)
        """How often the devices themselves have."""
        self.of_row: NDArray[np.int32] = np.zeros(self._table.size, np.int32)
        """The number of each row's supply; 0 is where there is nothing."""
        self._numbers: dict[frozenset[Place], int] = {}
        self._by_place: dict[Place, list[int]] = {}
        self._nodes: list[Node | None] = [None] * self._table.size
        self._position = -1
        self._number(frozenset())

    def touch(self, device: DeviceId) -> None:
        """A device was taken or given back."""
        for offer in self._offers.get(device, ()):
            pool = self.pools[PoolId(device.driver, device.pool)]
            self._mark(pool.places if pool.counters else [offer.place] if offer.place is not None else ())

    def sync(self) -> None:
        """Take in what has changed."""
        if self._stale:
            self._renew_pools()
        if len(self.supplies) > 2 * self._table.count + _SPARE:
            self.epoch += 1
            self._begin()
        self._renew_rows()

    # -- pools --------------------------------------------------------------------------------------------------

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._stale.update(_pool_of(each) for each in (old, new) if each is not None)

    def _rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        rules = [each for each in (old, new) if each is not None]
        self._stale.update(name for name in self.pools if any(applies(rule, name) for rule in rules))

    def _renew_pools(self) -> None:
        selectors = {place for place in self._at if not place.node}
        rules = sorted(self._rules, key=lambda each: each.metadata.name)
        for name in self._stale:
            self._drop(name)
            slices = list(self._slices.by(_BY_POOL, str(name)))
            if slices:
                self._put(Pool(name, slices, rules))
        self._stale.clear()
        if selectors != {place for place in self._at if not place.node}:
            self._reaches = {
                place: self._reaches.get(place) or Reach(self._table, place.selector, self._gates)
                for place in self._at
                if place.selector is not None
            }
            self._position = -1

    def _put(self, pool: Pool) -> None:
        self.pools[pool.id] = pool
        for place in pool.places:
            self._at.setdefault(place, set()).add(pool.id)
        for offer in pool.offers:
            self._offers.setdefault(offer.id, []).append(offer)
        self._forget(pool.places)

    def _drop(self, name: PoolId) -> None:
        pool = self.pools.pop(name, None)
        if pool is None:
            return
        for place in pool.places:
            self._at[place].discard(name)
            if not self._at[place]:
                del self._at[place]
        for offer in pool.offers:
            self._offers.pop(offer.id, None)
        self._forget(pool.places)

    def _forget(self, places: Iterable[Place]) -> None:
        """Other devices can be used at some places."""
        self._mark(places)
        for place in places:
            for number in self._by_place.get(place, ()):
                self.contents[number] += 1
                self.supplies[number].forget()
            if place.node:
                self._stale_nodes.add(place.node)

    def _mark(self, places: Iterable[Place]) -> None:
        """What can be used at some places has changed."""
        for place in places:
            numbers = self._by_place.get(place)
            if numbers:
                self.revisions[numbers] += 1

    # -- rows ---------------------------------------------------------------------------------------------------

    def _renew_rows(self) -> None:
        table = self._table
        changed = table.changed_since(self._position) if self._position >= 0 else None
        self._position = table.position
        if len(self.of_row) < table.size:
            self.of_row = np.concatenate([self.of_row, np.zeros(table.size - len(self.of_row), np.int32)])
            self._nodes += [None] * (table.size - len(self._nodes))
        if changed is None:
            rows = np.arange(table.size)
        else:
            near = {table.rows[name] for name in self._stale_nodes if name in table.rows}
            moved = {row for row in changed if not _same(self._nodes[row], table.nodes[row])}
            rows = np.array(sorted(near | moved), np.intp)
        self._stale_nodes.clear()
        if len(rows):
            self._find_supplies(rows)

    def _find_supplies(self, rows: Index) -> None:
        table = self._table
        everywhere = frozenset((EVERYWHERE,)) if EVERYWHERE in self._at else frozenset()
        selected = self._selected(rows)
        for at, row in enumerate(rows.tolist()):
            node = self._nodes[row] = table.nodes[row]
            if node is None:
                self.of_row[row] = 0
                continue
            places = everywhere | selected[at] if selected else everywhere
            here = Place(node.metadata.name)
            if here in self._at:
                places |= {here}
            self.of_row[row] = self._number(places)

    def _selected(self, rows: Index) -> list[frozenset[Place]]:
        """The places with a selector that picks each row; nothing when there are no such places."""
        if not self._reaches:
            return []
        chosen: slice | Index = ALL if len(rows) == self._table.size else rows
        picked = np.array([each.mask(chosen) for each in self._reaches.values()])
        packed = np.ascontiguousarray(np.packbits(picked, axis=0).T)
        places = list(self._reaches)
        known: dict[bytes, frozenset[Place]] = {}
        found = []
        for at, bits in enumerate(packed):
            key = bits.tobytes()
            if key not in known:
                known[key] = frozenset(places[which] for which in picked[:, at].nonzero()[0])
            found.append(known[key])
        return found

    def _number(self, places: frozenset[Place]) -> int:
        number = self._numbers.get(places)
        if number is None:
            number = self._numbers[places] = len(self.supplies)
            self.supplies.append(Supply(self.pools, self._at, places))
            if number >= len(self.revisions):
                more = np.zeros(len(self.revisions), np.int64)
                self.revisions = np.concatenate([self.revisions, more])
                self.contents = np.concatenate([self.contents, more])
            for place in places:
                self._by_place.setdefault(place, []).append(number)
        return number


def _pool_of(item: ResourceSlice) -> PoolId:
    return PoolId(item.spec.driver, item.spec.pool.name)


def _same(old: Node | None, new: Node | None) -> bool:
    """Whether the same devices can be used from a node as before."""
    if old is None or new is None or old is new:
        return old is new
    return old.metadata.name == new.metadata.name and old.metadata.labels == new.metadata.labels
