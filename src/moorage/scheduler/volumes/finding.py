"""Finds volumes for the claims of a pod on all rows at once: free ones, or where new ones may be provisioned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from moorage.api.claims import NO_PROVISIONER, class_of, request_of
from moorage.api.volume import PersistentVolume, PersistentVolumeClaim
from moorage.scheduler.table.nodes import Index, Mask, NodeTable
from moorage.scheduler.volumes.claims import VolumeDecision, Volumes
from moorage.scheduler.volumes.supply import NONE, Choice, Layout


@dataclass(slots=True)
class PodVolumeClaims:
    """The claims of a pod that can be placed."""

    bound: list[PersistentVolumeClaim] = field(default_factory=list)
    """The claims that are bound."""
    waiting: list[PersistentVolumeClaim] = field(default_factory=list)
    """The claims that wait for their first consumer."""


class _Binding(NamedTuple):
    claim: PersistentVolumeClaim
    volumes: list[PersistentVolume]
    choice: Choice


class VolumeSearch:
    """What there is for the claims of a pod, row by row. The masks are as long as the rows."""

    def __init__(self, table: NodeTable, volumes: Volumes, claims: PodVolumeClaims, rows: Index) -> None:
        self._table, self._volumes, self._rows = table, volumes, rows
        self.out_of_reach = np.zeros(len(rows), np.bool_)
        """A volume that a claim has cannot be reached."""
        self.lost = np.zeros(len(rows), np.bool_)
        """A volume that a claim has is no more."""
        self.none_to_bind = np.zeros(len(rows), np.bool_)
        """There is no volume for a claim, nor may one be made."""
        self.too_small = np.zeros(len(rows), np.bool_)
        """One may be made, but there is no room for it."""
        self._bindings: list[_Binding] = []
        self._provisions: list[tuple[PersistentVolumeClaim, Mask]] = []
        """Claims, and for each row whether a volume would have to be made there."""
        self._check_bound(claims.bound)
        elsewhere = self._find(claims.waiting)
        for claim, needed in self._provisions:
            self._check_provision(claim, needed & ~elsewhere & ~self.none_to_bind & ~self.too_small)
        self.none_to_bind |= elsewhere

    @property
    def will_do(self) -> Mask:
        """The rows where every claim has its volume, or can have one."""
        return ~(self.out_of_reach | self.lost | self.none_to_bind | self.too_small)

    def decision(self, node: str) -> VolumeDecision:
        """What is to be done on the node of the first row."""
        row = self._rows[0]
        decision = VolumeDecision(node)
        for claim, volumes, choice in self._bindings:
            if choice[row] != NONE:
                decision.bindings.append((claim, volumes[choice[row]]))
        decision.provisions += [claim for claim, needed in self._provisions if needed[0]]
        return decision

    def _check_bound(self, claims: list[PersistentVolumeClaim]) -> None:
        for claim in claims:
            volume = self._volumes.volumes.get("", claim.spec.volume_name)
            if volume is None:
                self.lost = ~self.out_of_reach
                return
            self.out_of_reach |= ~self._volumes.reaches.of_volume(volume).mask(self._rows)

    def _find(self, claims: list[PersistentVolumeClaim]) -> Mask:
        """Choose volumes. Returns the rows that are out of the question: another node has been chosen already."""
        elsewhere = np.zeros(len(self._rows), np.bool_)
        to_find = []
        for claim in claims:
            if node := self._volumes.selected_node(claim):
                elsewhere |= self._rows != self._table.rows.get(node, -1)
                self._provisions.append((claim, np.ones(len(self._rows), np.bool_)))
            else:
                to_find.append(claim)
        for claim in sorted(to_find, key=request_of):
            volume = self._volumes.pre_bound(claim)
            if volume is not None:
                binding = _Binding(claim, [volume], self._reachable(volume))
                self.none_to_bind |= binding.choice[self._rows] == NONE
            else:
                layout = self._volumes.layout(claim)
                binding = _Binding(claim, layout.volumes, self._choose(claim, layout))
                self._provisions.append((claim, binding.choice[self._rows] == NONE))
            self._bindings.append(binding)
        return elsewhere

    def _reachable(self, volume: PersistentVolume) -> Choice:
        """The one volume that a claim may have, where it can be reached."""
        choice: Choice = np.full(self._table.size, NONE, np.int64)
        choice[self._rows[self._volumes.reaches.of_volume(volume).mask(self._rows)]] = 0
        return choice

    def _choose(self, claim: PersistentVolumeClaim, layout: Layout) -> Choice:
        """The best volume on each row that no other claim of the pod has got there."""
        earlier = [binding.choice for binding in self._bindings if binding.volumes is layout.volumes]
        return layout.choose(claim, self._rows, self._volumes.busy, earlier)

    def _check_provision(self, claim: PersistentVolumeClaim, needed: Mask) -> None:
        """Whether a volume may be made for a claim."""
        storage_class = self._volumes.classes.get("", class_of(claim))
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            self.none_to_bind |= needed
            return
        allowed = self._volumes.reaches.of_topologies(storage_class.allowed_topologies).mask(self._rows)
        self.none_to_bind |= needed & ~allowed
        pools = self._volumes.pools(storage_class, claim)
        if pools is not None:
            room = np.zeros(len(self._rows), np.bool_)
            for pool in pools:
                room |= pool.mask(self._rows)
            self.too_small |= needed & allowed & ~room
