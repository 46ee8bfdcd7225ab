"""The rules for volumes and devices once more, node by node: slow, plain, and what answers are held against."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

from moorage.api.claims import (
    NO_PROVISIONER,
    SELECTED_NODE,
    claims_of,
    class_of,
    is_bound,
    is_for,
    not_made_for,
    request_of,
    size_of,
    waits_for_consumer,
)
from moorage.api.meta import Object
from moorage.api.node import Node, NodeSelector, Taint
from moorage.api.pod import Pod, Toleration
from moorage.api.resource import (
    Device,
    DeviceRequest,
    DeviceSubRequest,
    DeviceTaintRule,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from moorage.api.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.client.informer import Key
from moorage.features import Gates
from moorage.match.selector import compile_selector
from moorage.match.tolerations import Tolerations
from tests.scheduler.reference import Reference, Refusal

BIG, SMALL = (f'device.attributes["gpu.example.com"].model == "{model}"' for model in ("big", "small"))
SELECTORS: dict[str, Callable[[Device], bool]] = {
    BIG: lambda device: device.attributes["model"].string == "big",
    SMALL: lambda device: device.attributes["model"].string == "small",
}
"""The expressions that claims use, and what they mean."""
OVER = ("Succeeded", "Failed")


class DeviceName(NamedTuple):
    """The full name of a device."""

    driver: str
    pool: str
    device: str


class Offer(NamedTuple):
    """A device that can be had, as far as its taints allow."""

    name: DeviceName
    device: Device
    taints: tuple[Taint, ...]
    origin: ResourceSlice


@dataclass
class ClaimReference(Reference):
    """Nodes and pods, and all that claims are about."""

    claims: dict[Key, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: dict[str, PersistentVolume] = field(default_factory=dict)
    classes: dict[str, StorageClass] = field(default_factory=dict)
    device_claims: dict[Key, ResourceClaim] = field(default_factory=dict)
    slices: dict[str, ResourceSlice] = field(default_factory=dict)
    rules: dict[str, DeviceTaintRule] = field(default_factory=dict)

    def refusal(self, pod: Pod, node: Node) -> Refusal | None:
        """Who refuses a node first, and why."""
        refusal = super().refusal(pod, node)
        if refusal is not None:
            return refusal
        if reason := self._no_volumes(pod, node):
            return Refusal("VolumeBinding", (reason,), False)
        if reason := self._no_devices(pod, node):
            return Refusal("DynamicResources", (reason,), False)
        return None

    def see(self, item: Object) -> None:
        """An object is there, or is another than it was; pods count while they are on a node."""
        if isinstance(item, Pod):
            self.pods.pop(item.metadata.uid, None)
            if item.spec.node_name and item.status.phase not in OVER:
                self.pods[item.metadata.uid] = item.spec.node_name, item
        else:
            self._shelf(item)[_key(item)] = item

    def lose(self, item: Object) -> None:
        """An object is gone."""
        if isinstance(item, Pod):
            self.pods.pop(item.metadata.uid, None)
        else:
            self._shelf(item).pop(_key(item), None)

    def _shelf(self, item: Object) -> dict[Any, Any]:
        shelves: dict[type[Object], dict[Any, Any]] = {
            Node: self.nodes, PersistentVolumeClaim: self.claims, PersistentVolume: self.volumes,
            StorageClass: self.classes, ResourceClaim: self.device_claims, ResourceSlice: self.slices,
            DeviceTaintRule: self.rules,
        }  # fmt: skip
        return shelves[type(item)]

    def wronged(self, pod: Pod, node: Node) -> str:
        """What a pod on a node has not got of what its claims ask for, empty when it has everything."""
        for use in claims_of(pod):
            claim = self.claims.get((pod.metadata.namespace, use.claim))
            if claim is None:
                continue  # who deletes a claim just before its pod is bound has deleted it
            if not is_bound(claim):
                return f"{use.claim} is not bound"
            volume = self.volumes.get(claim.spec.volume_name)
            if volume is not None and not self.reaches(volume, node):
                return f"{volume.metadata.name} cannot be reached"
            key = key_of(claim)
            if "ReadWriteOncePod" in claim.spec.access_modes and self._is_used(key, but=pod.metadata.uid):
                return f"{use.claim} is used by another"
        for name in device_claims_of(pod):
            held_by = self.device_claims.get((pod.metadata.namespace, name))
            if held_by is None or held_by.status.allocation is None:
                return f"{name} has no devices"
            if all(user.uid != pod.metadata.uid for user in held_by.status.reserved_for):
                return f"{name} is not reserved for the pod"
            if not self.matches(held_by.status.allocation.node_selector, node):
                return f"{name} has devices elsewhere"
        return ""

    def _no_volumes(self, pod: Pod, node: Node) -> str:
        waiting: dict[Key, PersistentVolumeClaim] = {}
        for use in claims_of(pod):
            key = pod.metadata.namespace, use.claim
            claim = self.claims.get(key)
            if claim is None or claim.metadata.deletion_timestamp is not None or claim.status.phase == "Lost":
                return "a claim is missing, leaving or lost"
            if use.ephemeral and not_made_for(pod, claim):
                return "a claim of another pod has the name of this one's"
            if "ReadWriteOncePod" in claim.spec.access_modes and self._is_used(key):
                return "another pod has the claim for itself"
            if is_bound(claim):
                volume = self.volumes.get(claim.spec.volume_name)
                if volume is None or not self.reaches(volume, node):
                    return "a volume cannot be reached"
            elif claim.spec.volume_name or not waits_for_consumer(self.classes.get(class_of(claim))):
                return "a claim is not bound"
            else:
                waiting[key] = claim
        return self._no_volumes_for(list(waiting.values()), node)

    def _no_volumes_for(self, claims: list[PersistentVolumeClaim], node: Node) -> str:
        """Why claims that wait for their pod would get no volume on a node."""
        chosen: set[str] = set()
        for claim in sorted(claims, key=request_of):
            selected = claim.metadata.annotations.get(SELECTED_NODE)
            if selected:
                if selected != node.metadata.name:
                    return "a volume is being made for another node"
                continue
            pre_bound = [each for each in self.volumes.values() if is_for(each, claim) and self._suits(each, claim)]
            if pre_bound:
                if not self.reaches(pre_bound[0], node):
                    return "a volume that is pre-bound cannot be reached"
                continue
            found = [each for each in self.free(claim) if each.metadata.name not in chosen and self.reaches(each, node)]
            if found:
                chosen.add(min(found, key=lambda each: (size_of(each), each.metadata.name)).metadata.name)
            elif self.classes[class_of(claim)].provisioner == NO_PROVISIONER:
                return "there is no volume for a claim"
        return ""

    def free(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """The volumes that nobody has and a claim could have."""
        return [
            each
            for each in self.volumes.values()
            if each.spec.claim_ref is None and each.status.phase == "Available" and self._suits(each, claim)
        ]

    def _suits(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
        return (
            volume.spec.storage_class_name == class_of(claim)
            and size_of(volume) >= request_of(claim)
            and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
            and volume.metadata.deletion_timestamp is None
        )

    def reaches(self, volume: PersistentVolume, node: Node) -> bool:
        """Whether a volume can be reached from a node."""
        affinity = volume.spec.node_affinity
        return affinity is None or self.matches(affinity.required, node)

    def matches(self, selector: NodeSelector | None, node: Node) -> bool:
        """Whether a selector picks a node; none picks all."""
        if selector is None:
            return True
        return compile_selector(selector, self.gates).verdict(node.metadata.labels, node.metadata.name).matched

    def _is_used(self, key: Key, but: str = "") -> bool:
        """Whether a pod on a node uses a claim."""
        users = (each for uid, (_, each) in self.pods.items() if uid != but)
        return any((each.metadata.namespace, use.claim) == key for each in users for use in claims_of(each))

    def _no_devices(self, pod: Pod, node: Node) -> str:
        lacking, misplaced = [], []
        for name in device_claims_of(pod):
            claim = self.device_claims.get((pod.metadata.namespace, name)) if name else None
            if claim is None or claim.metadata.deletion_timestamp is not None:
                return "a claim is missing or leaving"
            allocation = claim.status.allocation
            if allocation is None:
                lacking.append(claim)
            elif not self.matches(allocation.node_selector, node):
                if any(user.uid != pod.metadata.uid for user in claim.status.reserved_for):
                    return "devices are elsewhere"
                misplaced.append(claim)
        # Devices in the wrong place are given back only where all others are to be had.
        if self._lack_devices(lacking, set(), node):
            return "there are not enough devices"
        given_back = {claim.metadata.uid for claim in misplaced}
        return "devices are elsewhere" if self._lack_devices(lacking + misplaced, given_back, node) else ""

    def _lack_devices(self, claims: list[ResourceClaim], given_back: set[str], node: Node) -> bool:
        """Whether claims cannot have their devices on a node, once some others have given back theirs."""
        taken = self.holders()
        here = [
            each
            for each in self.offers()
            if taken.get(each.name, set()) <= given_back and self._is_usable(each.origin, node)
        ]
        requests = [request for claim in claims for request in claim.spec.devices.requests]
        return not self._satisfied(requests, here)

    def holders(self) -> dict[DeviceName, set[str]]:
        """The claims, by uid, that have each device."""
        found: dict[DeviceName, set[str]] = {}
        for claim in self.device_claims.values():
            for name in held(claim):
                found.setdefault(name, set()).add(claim.metadata.uid)
        return found

    def offers(self) -> list[Offer]:
        """All devices of the newest generation of each pool that is complete."""
        pools: dict[tuple[str, str], list[ResourceSlice]] = {}
        for each in self.slices.values():
            pools.setdefault((each.spec.driver, each.spec.pool.name), []).append(each)
        found: list[Offer] = []
        for (driver, pool), slices in pools.items():
            newest = max(each.spec.pool.generation for each in slices)
            current = [each for each in slices if each.spec.pool.generation == newest]
            if len(current) == current[0].spec.pool.resource_slice_count:
                found += [
                    Offer(name, device, (*device.taints, *self._rule_taints(name)), each)
                    for each in current
                    for device in each.spec.devices
                    for name in [DeviceName(driver, pool, device.name)]
                ]
        return found

    def _rule_taints(self, name: DeviceName) -> Iterator[Taint]:
        """The taints that rules put on a device."""
        for rule in self.rules.values():
            if (selector := rule.spec.device_selector) is not None:
                wanted = DeviceName(selector.driver or "", selector.pool or "", selector.device or "")
                if all(want in ("", is_) for want, is_ in zip(wanted, name, strict=True)):
                    yield rule.spec.taint

    def _is_usable(self, origin: ResourceSlice, node: Node) -> bool:
        if origin.spec.node_name:
            return origin.spec.node_name == node.metadata.name
        return bool(origin.spec.all_nodes) or (
            origin.spec.node_selector is not None and self.matches(origin.spec.node_selector, node)
        )

    def _satisfied(self, requests: Sequence[DeviceRequest], here: Sequence[Offer]) -> bool:
        """Whether all requests can have their devices, in whatever way."""
        if not requests:
            return True
        first, *others = requests
        for way in ways_of(first):
            will_do = [each for each in here if will_serve(way, each, self.gates)]
            for chosen in combinations(will_do, max(1, way.count)):
                names = {each.name for each in chosen}
                if self._satisfied(others, [each for each in here if each.name not in names]):
                    return True
        return False


Way = ExactDeviceRequest | DeviceSubRequest


def ways_of(request: DeviceRequest) -> tuple[Way, ...]:
    """The ways to satisfy a request."""
    return (request.exactly,) if request.exactly is not None else request.first_available


def will_serve(way: Way, offer: Offer, gates: Gates) -> bool:
    """Whether a device is what a request asks for, and its taints are tolerated."""
    chosen = [each.cel.expression for each in way.selectors if each.cel is not None]
    return all(SELECTORS[each](offer.device) for each in chosen) and tolerated(way.tolerations, offer.taints, gates)


def tolerated(tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...], gates: Gates) -> bool:
    """Whether a device may be given away in spite of its taints."""
    judge = Tolerations(tolerations, gates)
    return all(judge.verdict(taint).matched for taint in taints if taint.effect in ("NoSchedule", "NoExecute"))


def held(claim: ResourceClaim) -> list[DeviceName]:
    """The devices that a claim has."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return [DeviceName(each.driver, each.pool, each.device) for each in results]


def device_claims_of(pod: Pod) -> Iterator[str]:
    """The names of the device claims of a pod, empty for those that are still to be made."""
    made = {each.name: each.resource_claim_name or "" for each in pod.status.resource_claim_statuses}
    for use in pod.spec.resource_claims:
        yield use.resource_claim_name or made.get(use.name, "")


def key_of(item: Object) -> Key:
    """Namespace and name."""
    return item.metadata.namespace, item.metadata.name


def _key(item: Object) -> Key | str:
    return key_of(item) if item.metadata.namespace else item.metadata.name
