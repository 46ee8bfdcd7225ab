"""The free volumes of a class, and which is the smallest suitable one on each row of the table."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moorage.api import labels
from moorage.api.claims import mode_of, request_of, size_of
from moorage.api.volume import PersistentVolume, PersistentVolumeClaim
from moorage.quantity import Quantity
from moorage.scheduler.table.nodes import Index, Mask, NodeTable
from moorage.scheduler.table.reach import Reach, Reaches

Choice = NDArray[np.int64]
"""For each row of the table the number of a volume, NONE where there is none."""
NONE = np.iinfo(np.int64).max


class _Traits(NamedTuple):
    """What a claim must agree with."""

    mode: str
    attributes: str
    access: frozenset[str]


class Layout:
    """Volumes with numbers in the order of their size, and the rows that each can be reached from."""

    def __init__(
        self,
        table: NodeTable,
        version: int,
        volumes: list[PersistentVolume],
        sizes: list[Quantity],
        reaches: list[Reach],
    ) -> None:
        self._table = table
        self.version = version
        self.volumes = volumes
        self._sizes = sizes
        self._numbers = {volume.metadata.name: number for number, volume in enumerate(volumes)}
        self._free = np.ones(len(volumes), np.bool_)
        traits: dict[_Traits, int] = {}
        self._codes = np.array([traits.setdefault(_traits(volume), len(traits)) for volume in volumes], np.intp)
        self._traits = list(traits)
        few = [reach.few(version) for reach in reaches]
        near = [(number, rows) for number, rows in enumerate(few) if rows is not None]
        self._near_rows = np.concatenate([np.zeros(0, np.intp), *(rows for _, rows in near)])
        self._near = np.repeat([number for number, _ in near], [len(rows) for _, rows in near]).astype(np.int64)
        self._wide = [(number, reach) for number, reach in enumerate(reaches) if few[number] is None]

    def take(self, name: str) -> None:
        """A volume is no longer free."""
        self._free[self._numbers[name]] = False

    def choose(
        self, claim: PersistentVolumeClaim, rows: Index, busy: Collection[str], earlier: Sequence[Choice]
    ) -> Choice:
        """The smallest volume that a claim may have on each of these rows, except busy ones and earlier choices."""
        will_do = self._will_do(claim, busy)
        choice: Choice = np.full(self._table.size, NONE, np.int64)
        near = will_do[self._near]
        for other in earlier:
            near &= other[self._near_rows] != self._near
        np.minimum.at(choice, self._near_rows[near], self._near[near])
        asked: Counter[Reach] = Counter()
        for number, reach in self._wide:
            if not will_do[number] or asked[reach] > len(earlier):
                continue
            asked[reach] += 1
            worse = rows[choice[rows] > number]
            if not len(worse):
                break
            for other in earlier:
                worse = worse[other[worse] != number]
            choice[worse[reach.mask(worse)]] = number
        return choice

    def _will_do(self, claim: PersistentVolumeClaim, busy: Collection[str]) -> Mask:
        wanted = _traits(claim)
        agrees = np.array([_agree(wanted, offered) for offered in self._traits], np.bool_)
        mask: Mask = self._free & agrees[self._codes]
        mask[: bisect_left(self._sizes, request_of(claim))] = False
        mask[[self._numbers[name] for name in busy if name in self._numbers]] = False
        if claim.spec.selector is not None:
            picks = labels.from_struct(claim.spec.selector)
            for number in mask.nonzero()[0]:
                mask[number] = picks.matches(self.volumes[number].metadata.labels)
        return mask


class VolumeSupply:
    """The free volumes of one class."""

    def __init__(self, table: NodeTable, reaches: Reaches) -> None:
        self._table, self._reaches = table, reaches
        self._order: list[tuple[Quantity, str]] = []
        self._volumes: dict[str, PersistentVolume] = {}
        self._reach: dict[str, Reach] = {}
        self._layout: Layout | None = None

    def put(self, volume: PersistentVolume) -> None:
        """Add a free volume."""
        self._volumes[volume.metadata.name] = volume
        self._reach[volume.metadata.name] = self._reaches.of_volume(volume)
        insort(self._order, (size_of(volume), volume.metadata.name))
        self._layout = None

    def take(self, name: str) -> None:
        """Remove a volume that is claimed or gone."""
        del self._reach[name]
        size = size_of(self._volumes.pop(name))
        del self._order[bisect_left(self._order, (size, name))]
        if self._layout is not None:
            self._layout.take(name)

    def layout(self) -> Layout:
        """All of them over the table as it is now."""
        version = self._reaches.rows.version
        if self._layout is None or self._layout.version != version:
            volumes = [self._volumes[name] for _, name in self._order]
            sizes = [size for size, _ in self._order]
            reaches = [self._reach[name] for _, name in self._order]
            self._layout = Layout(self._table, version, volumes, sizes, reaches)
        return self._layout


class Supplies:
    """The supply of each class, kept as volumes come, change and go."""

    def __init__(self, table: NodeTable, reaches: Reaches) -> None:
        self._table, self._reaches = table, reaches
        self._classes: dict[str, VolumeSupply] = {}
        self._places: dict[str, VolumeSupply] = {}

    def of(self, storage_class: str) -> VolumeSupply:
        """The volumes of a class."""
        supply = self._classes.get(storage_class)
        if supply is None:
            supply = self._classes[storage_class] = VolumeSupply(self._table, self._reaches)
        return supply

    def volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        """A volume is there, is another than it was, or is gone."""
        item = new or old
        assert item is not None
        before = self._places.pop(item.metadata.name, None)
        if before is not None:
            before.take(item.metadata.name)
        if new is not None and _is_free(new):
            supply = self._places[new.metadata.name] = self.of(new.spec.storage_class_name)
            supply.put(new)


def fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume that was given to a claim is of any use to it."""
    offered, wanted = _traits(volume), _traits(claim)
    return (
        size_of(volume) >= request_of(claim)
        and (offered.mode, offered.attributes) == (wanted.mode, wanted.attributes)
        and volume.metadata.deletion_timestamp is None
    )


def _traits(item: PersistentVolume | PersistentVolumeClaim) -> _Traits:
    spec = item.spec
    return _Traits(mode_of(item), spec.volume_attributes_class_name or "", frozenset(spec.access_modes))


def _agree(wanted: _Traits, offered: _Traits) -> bool:
    return (wanted.mode, wanted.attributes) == (offered.mode, offered.attributes) and wanted.access <= offered.access


def _is_free(volume: PersistentVolume) -> bool:
    return (
        volume.spec.claim_ref is None
        and volume.status.phase == "Available"
        and volume.metadata.deletion_timestamp is None
    )
