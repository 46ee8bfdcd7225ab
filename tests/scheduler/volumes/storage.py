"""Claims, volumes and classes, as short as tests need them."""

from __future__ import annotations

from typing import Any

from moorage.api.claims import BIND_COMPLETED, WAIT_FOR_FIRST_CONSUMER
from moorage.api.decode import convert
from moorage.api.pod import Pod
from moorage.api.volume import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from tests.scheduler.plugin_on_table import Data, pod

WAIT, NOW = "wait", "now"
"""Classes whose claims wait for their pod, and whose do not."""
GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def affinity(*terms: Data) -> Data:
    """A volume's node affinity."""
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}}


def on(key: str, *values: str, operator: str = "In") -> Data:
    """A term with one requirement."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def volume_data(name: str, storage_class: str = WAIT, size: str = "5Gi", **spec: Any) -> Data:
    """A volume as it is written."""
    given = {
        "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/data"}, **spec,
    }  # fmt: skip
    labels = given.pop("labels", {})
    return {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "labels": labels}, "spec": given,
    }  # fmt: skip


def volume(
    name: str, storage_class: str = WAIT, size: str = "5Gi", *, phase: str = "Available", meta: Data | None = None,
    **spec: Any,
) -> PersistentVolume:  # fmt: skip
    """A volume as informers give it."""
    data = volume_data(name, storage_class, size, **spec)
    data["metadata"] |= {"uid": f"uid-{name}", **(meta or {})}
    return convert(data | {"status": {"phase": phase}}, PersistentVolume)


def claim_data(name: str, storage_class: str | None = WAIT, size: str = "1Gi", **spec: Any) -> Data:
    """A claim as it is written."""
    given = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    if storage_class is not None:
        given["storageClassName"] = storage_class
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": given}


def claim(
    name: str, storage_class: str | None = WAIT, size: str = "1Gi", *, bound: str = "", phase: str = "",
    meta: Data | None = None, **spec: Any,
) -> PersistentVolumeClaim:  # fmt: skip
    """A claim as informers give it, with or without its volume."""
    if bound:
        spec["volumeName"] = bound
    data = claim_data(name, storage_class, size, **spec)
    data["metadata"] |= {"namespace": "default", "uid": f"uid-{name}", **(meta or {})}
    if bound:
        data["metadata"]["annotations"] = {BIND_COMPLETED: "yes"}
    return convert(data | {"status": {"phase": phase or ("Bound" if bound else "Pending")}}, PersistentVolumeClaim)


def class_data(name: str = WAIT, mode: str = WAIT_FOR_FIRST_CONSUMER, provisioner: str = "", **more: Any) -> Data:
    """A class as it is written."""
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return {
        **head, "provisioner": provisioner or "kubernetes.io/no-provisioner", "volumeBindingMode": mode, **more,
    }  # fmt: skip


def storage_class(
    name: str = WAIT, mode: str = WAIT_FOR_FIRST_CONSUMER, provisioner: str = "", **more: Any
) -> StorageClass:
    """A class as informers give it."""
    return convert(class_data(name, mode, provisioner, **more), StorageClass)


def csi_node(name: str, **limits: int | None) -> CSINode:
    """How many volumes of each driver a node can have."""
    drivers = [
        {"name": driver, "nodeID": name} | ({} if limit is None else {"allocatable": {"count": limit}})
        for driver, limit in limits.items()
    ]
    return convert({"metadata": {"name": name}, "spec": {"drivers": drivers}}, CSINode)


def uses(*claims: str) -> list[Data]:
    """The volumes of a pod that has these claims."""
    return [{"name": f"v{number}", "persistentVolumeClaim": {"claimName": each}} for number, each in enumerate(claims)]


def ephemeral(name: str, storage_class: str = WAIT) -> Data:
    """A volume of a pod whose claim is made for it."""
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": claim_data("", storage_class)["spec"]}}}


def owned(given: Pod) -> Data:
    """What the metadata of a claim says that was made for a pod."""
    reference = {"apiVersion": "v1", "kind": "Pod", "name": given.metadata.name, "uid": given.metadata.uid}
    return {"ownerReferences": [reference | {"controller": True}]}


def pod_with(*claims: str, **more: Any) -> Pod:
    """A pod with these claims."""
    return pod(volumes=uses(*claims), **more)
