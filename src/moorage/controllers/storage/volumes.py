"""Which volume suits a claim, and which pods use which claims."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.api import labels
from moorage.api.claims import claims_of, class_of, is_for, mode_of, request_of, size_of
from moorage.api.pod import Pod
from moorage.api.volume import PersistentVolume, PersistentVolumeClaim
from moorage.client import Informer
from moorage.quantity import Quantity

PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
IS_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
USERS = "claims"
"""The index of pods by namespace and name of the claims they use."""


def index_by_claim(pods: Informer[Pod]) -> None:
    """Keep pods by the claims they use."""
    pods.index(USERS, lambda pod: _claim_keys(pod) if pod.spec.volumes else ())


def _claim_keys(pod: Pod) -> list[str]:
    return [f"{pod.metadata.namespace}/{use.claim}" for use in claims_of(pod)]


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
    """The volume that is pre-bound to a claim, or the smallest free one that suits it."""
    request = request_of(claim)
    selector = labels.EVERYTHING if claim.spec.selector is None else labels.from_struct(claim.spec.selector)
    best: PersistentVolume | None = None
    best_size: Quantity | None = None
    for volume in volumes:
        size = size_of(volume)
        if (
            size < request
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


def _has_access_modes(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)
