"""What claims, volumes and classes say: the annotations by which components meet, and who is meant for whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from moorage.api.meta import Object
from moorage.api.pod import Pod
from moorage.api.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.quantity import Quantity

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class ClaimUse(NamedTuple):
    """A claim that a pod uses."""

    volume: str
    """The name of the pod's volume."""
    claim: str
    ephemeral: bool = False
    """Whether the claim is made for the pod and goes with it."""


def claims_of(pod: Pod) -> Iterator[ClaimUse]:
    """The claims that a pod uses."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield ClaimUse(volume.name, volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            yield ClaimUse(volume.name, f"{pod.metadata.name}-{volume.name}", ephemeral=True)


def not_made_for(pod: Pod, claim: Object) -> str:
    """Why a claim is not the one of a pod's ephemeral volume, empty when it is."""
    if any(each.controller and each.uid == pod.metadata.uid for each in claim.metadata.owner_references):
        return ""
    here, there = claim.metadata, pod.metadata
    return f"PVC {here.namespace}/{here.name} was not created for pod {there.namespace}/{there.name} (pod is not owner)"


def class_of(claim: PersistentVolumeClaim) -> str:
    """The storage class that a claim asks for, empty when it wants none."""
    return claim.spec.storage_class_name or ""


def mode_of(item: PersistentVolume | PersistentVolumeClaim) -> str:
    """Whether a volume is a file system or a block device."""
    return item.spec.volume_mode or "Filesystem"


def size_of(volume: PersistentVolume) -> Quantity:
    """How big a volume is."""
    return Quantity.of(volume.spec.capacity.get("storage", 0))


def request_of(claim: PersistentVolumeClaim) -> Quantity:
    """How big a volume a claim wants."""
    return Quantity.of(claim.spec.resources.requests.get("storage", 0))


def waits_for_consumer(storage_class: StorageClass | None) -> bool:
    """Whether claims of a class are bound only when a pod that uses them is placed."""
    return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim has its volume, and both know."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is promised to a claim, by name at least."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        and reference.uid in ("", claim.metadata.uid)
    )
