"""Follows a cluster from outside, and judges everything that a pod or a claim is given when it becomes known."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Object
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.resource import DeviceRequestAllocationResult, ResourceClaim
from moorage.api.volume import PersistentVolume, PersistentVolumeClaim
from moorage.client import Client
from moorage.features import ALL_ON
from tests.scheduler.devices.claimreference import ClaimReference, DeviceName, Offer, held, ways_of, will_serve
from tests.scheduler.devices.devicekit import V1
from tests.scheduler.reference import Reference

KINDS = tuple(
    kinds.row(*each)
    for each in (
        ("v1", "Node"), ("v1", "Pod"), ("v1", "PersistentVolumeClaim"), ("v1", "PersistentVolume"),
        ("storage.k8s.io/v1", "StorageClass"), (V1, "ResourceClaim"), (V1, "ResourceSlice"), (V1, "DeviceTaintRule"),
    )
)  # fmt: skip
_LATE = 5.0
"""How many seconds a decision may be older than what it led to."""
_SOON = 2.0
"""How many seconds later than others a kind of objects may be seen."""


class PlacementChecker:
    """Judges by what there is, or was a moment ago."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.truth = ClaimReference(ALL_ON)
        self._nodes: dict[str, deque[tuple[float, Node]]] = {}
        """The states that each node had lately, and until when."""
        self._offers: deque[tuple[float, dict[DeviceName, Offer]]] = deque(maxlen=256)
        """The devices that there were lately, and until when."""
        self._doubts: list[tuple[float, Callable[[], str]]] = []
        """What did not seem right, and until when it may still turn out to be."""
        self.bound: dict[str, str] = {}
        self.allocations = self.volumes_given = 0

    async def run(self) -> None:
        """Follow everything until cancelled; what is wrong is raised."""
        async with asyncio.TaskGroup() as tasks:
            for kind in KINDS:
                tasks.create_task(self._follow(kind))
            tasks.create_task(self._resolve())

    async def _follow(self, kind: Kind) -> None:
        async for batch in self._client.watch(kind, after="0"):
            for change in batch:
                if change.type != "BOOKMARK":
                    item = msgspec.json.decode(change.object, type=kind.struct)
                    self._seen(item, is_gone=change.type == "DELETED")
        raise AssertionError(f"nothing more is told of {kind.plural}")

    def _seen(self, item: Object, *, is_gone: bool) -> None:
        if kinds.of(item).kind in ("ResourceSlice", "DeviceTaintRule"):
            self._offers.append((time.monotonic(), self._offered()))
        match item:
            case Node():
                self._remember(item)
            case Pod() if not is_gone:
                self._pod(item)
            case PersistentVolume() if not is_gone:
                self._volume(item)
            case PersistentVolumeClaim() if not is_gone:
                self._claim(item)
            case ResourceClaim() if not is_gone:
                self._device_claim(item)
        if is_gone:
            self.truth.lose(item)
        else:
            self.truth.see(item)

    def _judge(self, question: Callable[[], str]) -> None:
        if question():
            self._doubts.append((time.monotonic() + _SOON, question))

    async def _resolve(self) -> None:
        while True:
            await asyncio.sleep(0.02)
            self._doubts = [(end, question) for end, question in self._doubts if self._is_open(end, question)]

    def _is_open(self, end: float, question: Callable[[], str]) -> bool:
        problem = question()
        assert not problem or time.monotonic() < end, problem
        return bool(problem)

    def _remember(self, node: Node) -> None:
        old = self.truth.nodes.get(node.metadata.name)
        if old is not None:
            self._nodes.setdefault(node.metadata.name, deque(maxlen=64)).append((time.monotonic(), old))

    def _pod(self, pod: Pod) -> None:
        uid, name = pod.metadata.uid, pod.spec.node_name
        if name and uid not in self.bound:
            others = replace(self.truth, pods=dict(self.truth.pods))
            self._judge(partial(self._misplaced, pod, name, others, time.monotonic() - _LATE))
        if name:
            assert self.bound.setdefault(uid, name) == name, f"{pod.metadata.name} is bound twice"

    def _misplaced(self, pod: Pod, name: str, before: ClaimReference, since: float) -> str:
        """Why a pod must not be on its node as that is or lately was; of a pod that is gone nobody says anything."""
        uid = pod.metadata.uid
        if uid in self.bound and uid not in self.truth.pods:
            return ""
        states = [state for until, state in self._nodes.get(name, ()) if until > since]
        if now := self.truth.nodes.get(name):
            states.append(now)
        problems = [Reference.refusal(before, pod, state) or self.truth.wronged(pod, state) for state in states]
        return "" if "" in problems else f"{pod.metadata.name} must not be on {name}: {problems}"

    def _volume(self, volume: PersistentVolume) -> None:
        old, new = self.truth.volumes.get(volume.metadata.name), volume.spec.claim_ref
        if old is None or old.metadata.uid != volume.metadata.uid or old.spec.claim_ref is None or new is None:
            self.volumes_given += new is not None
            return
        assert old.spec.claim_ref.uid in ("", new.uid), f"{volume.metadata.name} is taken from a claim"

    def _claim(self, claim: PersistentVolumeClaim) -> None:
        if claim.status.phase == "Bound":
            self._judge(partial(self._shared, claim.spec.volume_name))

    def _shared(self, volume: str) -> str:
        holders = [
            each.metadata.name
            for each in self.truth.claims.values()
            if each.spec.volume_name == volume and each.status.phase == "Bound"
        ]
        return f"{volume} is bound to {holders}" if len(holders) > 1 else ""

    def _device_claim(self, claim: ResourceClaim) -> None:
        old = self.truth.device_claims.get((claim.metadata.namespace, claim.metadata.name))
        same = old is not None and old.metadata.uid == claim.metadata.uid
        if old is not None and same and held(old):
            assert held(claim) in ([], held(old)), f"{claim.metadata.name} got other devices"
            return
        if claim.status.allocation is None:
            return
        self.allocations += 1
        taken = self.truth.holders()
        for name in held(claim):
            assert not taken.get(name), f"{name} is given away twice"
        for result in claim.status.allocation.devices.results:
            self._judge(partial(self._unfit, claim, result, time.monotonic() - _LATE))

    def _offered(self) -> dict[DeviceName, Offer]:
        return {each.name: each for each in self.truth.offers()}

    def _unfit(self, claim: ResourceClaim, result: DeviceRequestAllocationResult, since: float) -> str:
        """Why a claim should not have been given a device."""
        name = DeviceName(result.driver, result.pool, result.device)
        request, _, chosen = result.request.partition("/")
        ways = [way for each in claim.spec.devices.requests if each.name == request for way in ways_of(each)]
        ways = [way for way in ways if not chosen or getattr(way, "name", "") == chosen]
        states = [*(offers for until, offers in self._offers if until > since), self._offered()]
        if any(name in offers and will_serve(way, offers[name], ALL_ON) for offers in states for way in ways):
            return ""
        return f"{claim.metadata.name} must not have {name} for {result.request}"
