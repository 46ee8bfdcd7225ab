"""Which devices can be used from which node; nodes that can use the same devices share a supply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from moorage.api.resource import DeviceTaintRule, ResourceSlice
from moorage.client import Informers
from moorage.scheduler.devices.pools import (
    DeviceId,
    DevicePlace,
    Offers,
    Pool,
    PoolId,
    View,
    applies,
    offers_of,
    pool_of,
)
from moorage.scheduler.table.nodes import ALL, Index, NodeTable
from moorage.scheduler.table.reach import Reach, Reaches, Relabelled

_BY_POOL = "by pool"
SPARE_SUPPLIES = 1024
_NOWHERE: frozenset[DevicePlace] = frozenset()


class DeviceSupply:
    """What can be used from some nodes, which all can use the same."""

    def __init__(
        self, pools: dict[PoolId, Pool], at: dict[DevicePlace, set[PoolId]], places: frozenset[DevicePlace]
    ) -> None:
        self._pools, self._at = pools, at
        self.places = places

    @cached_property
    def views(self) -> list[View]:
        """The pools in the order in which devices are given away."""
        names = {name for place in self.places for name in self._at.get(place, ())}
        pools = sorted((self._pools[name] for name in names), key=lambda pool: (pool.comes_last, pool.id))
        return [pool.view(self.places) for pool in pools]

    def forget(self) -> None:
        """What can be used has changed."""
        self.__dict__.pop("views", None)


class Inventory:
    """All devices, kept up to date from slices and taint rules, and the supply of each row of the node table."""

    def __init__(
        self, table: NodeTable, informers: Informers, reaches: Reaches, changed: Callable[[View], None]
    ) -> None:
        self._table = table
        self._selectors = reaches
        self._changed = changed
        self._slices = informers.of(ResourceSlice)
        self._rules = informers.of(DeviceTaintRule)
        self._slices.index(_BY_POOL, lambda item: [str(pool_of(item))])
        self._slices.on_change(self._slice_changed)
        self._rules.on_change(self._rule_changed)
        self._slices.on_batch(self._renew_all)
        self.pools: dict[PoolId, Pool] = {}
        self._at: dict[DevicePlace, set[PoolId]] = {}
        """The pools that have devices at a place."""
        self._wide: set[DevicePlace] = set()
        """The places that are not a single node."""
        self._offers: dict[str, Offers] = {}
        """The devices of each slice, by its name."""
        self._stale: set[PoolId] = set()
        self._stale_nodes: set[str] = set()
        self._reaches: dict[DevicePlace, Reach] = {}
        self.epoch = 0
        """Changes when the numbers of supplies mean something else."""
        self.version = 0
        """Changes when anything about devices does, except whether they are taken."""
        self.turnover = 0
        """How often a device was taken or given back."""
        self._begin()

    def _begin(self) -> None:
        """Drop all supplies, also those of nodes that are gone."""
        self.supplies: list[DeviceSupply] = []
        self.contents: NDArray[np.int64] = np.zeros(64, np.int64)
        """How often the devices of a supply have changed."""
        self.of_row: NDArray[np.int32] = np.zeros(self._table.size, np.int32)
        """The number of each row's supply; 0 is where there is nothing."""
        self._numbers: dict[frozenset[DevicePlace], int] = {}
        self._by_place: dict[DevicePlace, list[int]] = {}
        self._relabelled = Relabelled(self._table)
        self._number(frozenset())

    def touch(self, device: DeviceId) -> None:
        """A device was taken or given back."""
        self.turnover += 1
        pool = self.pools.get(PoolId(device.driver, device.pool))
        for view in pool.views_of(device) if pool is not None else ():
            self._changed(view)

    def steps(self) -> Iterator[None]:
        """Take in what has changed, little by little: more may change in between."""
        while self._stale:
            self._renew(self._stale.pop())
            yield
        if self._wide != self._reaches.keys():
            self._reaches = {place: self._selectors.of(place.selector) for place in self._wide}
            self._relabelled = Relabelled(self._table)
        if len(self.supplies) > 2 * self._table.count + SPARE_SUPPLIES:
            self.epoch += 1
            self._begin()
        self._renew_rows()

    def sync(self) -> None:
        """Take in what has changed."""
        for _ in self.steps():
            pass

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        for each in (old, new):
            if each is not None:
                self._stale.add(pool_of(each))
                self._offers.pop(each.metadata.name, None)
        # Now, and not when a pod asks: others have their turn while informers fill.
        if new is not None:
            with suppress(ValueError):
                self._offers_of(new)

    def _rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        rules = [each for each in (old, new) if each is not None]
        for item in self._slices:
            if any(applies(rule, pool_of(item)) for rule in rules):
                self._stale.add(pool_of(item))
                self._offers.pop(item.metadata.name, None)

    def _offers_of(self, item: ResourceSlice) -> Offers:
        offers = self._offers.get(item.metadata.name)
        if offers is None:
            rules = sorted(self._rules, key=lambda each: each.metadata.name)
            offers = self._offers[item.metadata.name] = offers_of(item, rules)
        return offers

    def _renew_all(self) -> None:
        while self._stale:
            self._renew(self._stale.pop())

    def _renew(self, name: PoolId) -> None:
        self.version += 1
        self._drop(name)
        slices = list(self._slices.by(_BY_POOL, str(name)))
        if slices:
            self._put(Pool(name, slices, self._offers_of))

    def _put(self, pool: Pool) -> None:
        self.pools[pool.id] = pool
        for place in pool.places:
            self._at.setdefault(place, set()).add(pool.id)
            if not place.node:
                self._wide.add(place)
        self._forget(pool.places)

    def _drop(self, name: PoolId) -> None:
        pool = self.pools.pop(name, None)
        if pool is None:
            return
        for place in pool.places:
            self._at[place].discard(name)
            if not self._at[place]:
                del self._at[place]
                self._wide.discard(place)
        self._forget(pool.places)

    def _forget(self, places: Iterable[DevicePlace]) -> None:
        """Other devices can be used at some places."""
        for place in places:
            for number in self._by_place.get(place, ()):
                self.contents[number] += 1
                self.supplies[number].forget()
            if place.node:
                self._stale_nodes.add(place.node)

    def _renew_rows(self) -> None:
        table = self._table
        if len(self.of_row) < table.size:
            self.of_row = np.concatenate([self.of_row, np.zeros(table.size - len(self.of_row), np.int32)])
        near = {table.rows[name] for name in self._stale_nodes if name in table.rows}
        self._stale_nodes.clear()
        rows = sorted(near.union(self._relabelled.rows()))
        if rows:
            self.version += 1
            self._find_supplies(np.array(rows, np.intp))

    def _find_supplies(self, rows: Index) -> None:
        table = self._table
        selected = self._selected(rows)
        for at, row in enumerate(rows.tolist()):
            node = table.nodes[row]
            if node is None:
                self.of_row[row] = 0
                continue
            here = DevicePlace(node.metadata.name)
            places = selected[at] if selected else _NOWHERE
            self.of_row[row] = self._number(places | {here} if here in self._at else places)

    def _selected(self, rows: Index) -> list[frozenset[DevicePlace]]:
        """The places of several nodes that each row is among; nothing when there are no such places."""
        if not self._reaches:
            return []
        chosen: slice | Index = ALL if len(rows) == self._table.size else rows
        picked = np.array([each.mask(chosen) for each in self._reaches.values()])
        packed = np.ascontiguousarray(np.packbits(picked, axis=0).T)
        places = list(self._reaches)
        known: dict[bytes, frozenset[DevicePlace]] = {}
        selected = []
        for at, bits in enumerate(packed):
            key = bits.tobytes()
            if key not in known:
                known[key] = frozenset(places[which] for which in picked[:, at].nonzero()[0])
            selected.append(known[key])
        return selected

    def _number(self, places: frozenset[DevicePlace]) -> int:
        number = self._numbers.get(places)
        if number is None:
            number = self._numbers[places] = len(self.supplies)
            self.supplies.append(DeviceSupply(self.pools, self._at, places))
            if number >= len(self.contents):
                self.contents = np.concatenate([self.contents, np.zeros_like(self.contents)])
            for place in places:
                self._by_place.setdefault(place, []).append(number)
        return number
