"""PersistentVolumeClaims with their volumes and classes: the annotations that components share, and what is bound."""

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
    """Whether the claim is created for the pod and deleted with it."""


def claims_of(pod: Pod) -> Iterator[ClaimUse]:
    """The claims that a pod uses."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield ClaimUse(volume.name, volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            yield ClaimUse(volume.name, f"{pod.metadata.name}-{volume.name}", ephemeral=True)


def not_made_for(pod: Pod, claim: Object) -> str:
    """Why a claim is not the one of a pod's ephemeral volume, empty when it is."""
    if any(owner.controller and owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references):
        return ""
    own, other = claim.metadata, pod.metadata
    return f"PVC {own.namespace}/{own.name} was not created for pod {other.namespace}/{other.name} (pod is not owner)"


def class_of(claim: PersistentVolumeClaim) -> str:
    """The storage class of a claim, empty when it has none."""
    return claim.spec.storage_class_name or ""


def mode_of(item: PersistentVolume | PersistentVolumeClaim) -> str:
    """Whether a volume is a file system or a block device."""
    return item.spec.volume_mode or "Filesystem"


def size_of(volume: PersistentVolume) -> Quantity:
    """The capacity of a volume."""
    return Quantity.of(volume.spec.capacity.get("storage", 0))


def request_of(claim: PersistentVolumeClaim) -> Quantity:
    """The storage that a claim requests."""
    return Quantity.of(claim.spec.resources.requests.get("storage", 0))


def waits_for_consumer(storage_class: StorageClass | None) -> bool:
    """Whether claims of a class are bound only when a pod that uses them is scheduled."""
    return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim is bound to its volume, and the binding is complete."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume's claimRef names a claim, with the uid of that claim or none."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        and reference.uid in ("", claim.metadata.uid)
    )
