"""Which volume suits a claim, and which claims a pod uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moorage.api import labels
from moorage.api.pod import Pod
from moorage.api.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.client import Informer
from moorage.quantity import Quantity

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
IS_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
USERS = "claims"
"""The index of pods by namespace and name of the claims they use."""


def claims_of(pod: Pod) -> Iterator[str]:
    """The names of the claims that a pod uses."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}"


def index_by_claim(pods: Informer[Pod]) -> None:
    """Keep pods by the claims they use."""
    pods.index(USERS, lambda pod: [f"{pod.metadata.namespace}/{name}" for name in claims_of(pod)])


def class_of(claim: PersistentVolumeClaim) -> str:
    """The storage class that a claim asks for, empty when it wants none."""
    return claim.spec.storage_class_name or ""


def waits_for_consumer(storage_class: StorageClass | None) -> bool:
    """Whether claims of a class are bound only when a pod that uses them is placed."""
    return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is promised to a claim, by name at least."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        and reference.uid in ("", claim.metadata.uid)
    )


def mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Why a claim that names a volume cannot have it, empty when it can."""
    if volume.metadata.deletion_timestamp is not None:
        return f'the volume is marked for deletion "{volume.metadata.name}"'
    if size_of(volume) < request_of(claim):
        return "requested PV is too small"
    if volume.spec.storage_class_name != class_of(claim):
        return "storageClassName does not match"
    if mode_of(volume) != mode_of(claim):
        return "incompatible volumeMode"
    if not _has_access_modes(volume, claim):
        return "incompatible accessMode"
    return ""


def best_match(volumes: Iterable[PersistentVolume], claim: PersistentVolumeClaim) -> PersistentVolume | None:
    """The volume that is promised to a claim, or the smallest free one that suits it."""
    wanted = request_of(claim)
    selector = labels.EVERYTHING if claim.spec.selector is None else labels.from_struct(claim.spec.selector)
    best: PersistentVolume | None = None
    best_size: Quantity | None = None
    for volume in volumes:
        size = size_of(volume)
        if (
            size < wanted
            or mode_of(volume) != mode_of(claim)
            or volume.metadata.deletion_timestamp is not None
            or not _has_access_modes(volume, claim)
        ):
            continue
        if volume.spec.claim_ref is not None:
            if is_for(volume, claim):
                return volume
            continue
        if (
            volume.status.phase == "Available"
            and volume.spec.storage_class_name == class_of(claim)
            and selector.matches(volume.metadata.labels)
            and (best_size is None or size < best_size)
        ):
            best, best_size = volume, size
    return best


def mode_of(item: PersistentVolume | PersistentVolumeClaim) -> str:
    """Whether a volume is a file system or a block device."""
    return item.spec.volume_mode or "Filesystem"


def size_of(volume: PersistentVolume) -> Quantity:
    """How big a volume is."""
    return Quantity.of(volume.spec.capacity.get("storage", 0))


def request_of(claim: PersistentVolumeClaim) -> Quantity:
    """How big a volume a claim wants."""
    return Quantity.of(claim.spec.resources.requests.get("storage", 0))


def _has_access_modes(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)
