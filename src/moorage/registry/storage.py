"""Validation of PersistentVolumes, claims, StorageClasses and the objects of CSI drivers."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.names import label_key_errors
from moorage.quantity import Quantity
from moorage.registry import namesyntax, schema
from moorage.registry.checks import (
    IMMUTABLE,
    Errors,
    differences,
    label_selector,
    nonnegative_amount,
    positive_amount,
    syntax,
    unchanged,
)
from moorage.registry.pod.volumesources import driver_errors, source_errors
from moorage.validation.field import ErrorType, FieldError, forbidden, invalid, not_supported, required, too_long

_VOLUME, _CLAIM = kinds.row("v1", "PersistentVolume"), kinds.row("v1", "PersistentVolumeClaim")
_ATTACHMENT = kinds.row("storage.k8s.io/v1", "VolumeAttachment")
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_FS_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_SPEC_FIELDS = frozenset((
    "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
    "storageClassName", "volumeAttributesClassName", "volumeMode",
))  # fmt: skip
"""The fields of a PersistentVolume's spec that are not its source."""
_MAX_PARAMETERS = 512
_MAX_PARAMETER_BYTES = 256 * 1024
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_IMMUTABLE_CLAIM = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def _access_mode_errors(path: str, modes: list[str]) -> Errors:
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield not_supported(path, mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and any(mode != "ReadWriteOncePod" and mode in _ACCESS_MODES for mode in modes):
        yield forbidden(path, "may not use ReadWriteOncePod with other access modes")


def claim_spec_errors(path: str, spec: Data) -> Errors:
    """Validate the spec of a claim, also in templates of pods and StatefulSets."""
    modes = spec.get("accessModes", [])
    if not modes:
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    yield from label_selector(f"{path}.selector", spec.get("selector"))
    yield from _access_mode_errors(f"{path}.accessModes", modes)
    size = spec.get("resources", {}).get("requests", {}).get("storage")
    if size is None:
        yield required(f"{path}.resources[storage]")
    else:
        yield from positive_amount(f"{path}.resources[storage]", size)
    for field in ("storageClassName", "volumeAttributesClassName"):
        if name := spec.get(field):
            yield from syntax(f"{path}.{field}", name, namesyntax.subdomain(name))
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        yield not_supported(f"{path}.volumeMode", mode, _VOLUME_MODES)
    for field in ("dataSource", "dataSourceRef"):
        if source := spec.get(field):
            yield from _data_source_errors(f"{path}.{field}", source)


def _data_source_errors(path: str, source: Data) -> Errors:
    for name in ("name", "kind"):
        if not source.get(name):
            yield required(f"{path}.{name}")
    if not source.get("apiGroup") and source.get("kind") and source["kind"] != "PersistentVolumeClaim":
        yield invalid(path, source["kind"], "must be 'PersistentVolumeClaim' when referencing the default apiGroup")


def claim_errors(new: Data, old: Data | None) -> Errors:
    """Validate a PersistentVolumeClaim, or an update of one."""
    yield from claim_spec_errors("spec", new.get("spec", {}))
    if old is not None:
        yield from _claim_update_errors(new, old)


def _claim_update_errors(new: Data, old: Data) -> Errors:
    spec, before = dict(new.get("spec", {})), dict(old.get("spec", {}))
    size = spec.get("resources", {}).get("requests", {}).get("storage", "0")
    old_size = before.get("resources", {}).get("requests", {}).get("storage", "0")
    if not before.get("volumeName"):
        before["volumeName"] = spec.get("volumeName")
    annotations = old["metadata"].get("annotations", {})
    annotated = annotations.get(_BETA_CLASS)
    if before.get("storageClassName") is None and annotated in (None, spec.get("storageClassName")):
        before["storageClassName"] = spec.get("storageClassName")
    if new.get("status", {}).get("phase") == "Bound":
        spec["resources"] = _with_storage(spec.get("resources", {}), old_size)
        spec["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
    if not schema.same(_CLAIM, {"spec": spec}, {"spec": before}, "spec"):
        lines = "\n".join(differences("spec", before, spec))
        yield forbidden("spec", f"{_IMMUTABLE_CLAIM}\n{lines}")
    if Quantity.of(size) < Quantity.of(old_size):
        capacity = old.get("status", {}).get("capacity", {}).get("storage", "0")
        if Quantity.of(size) <= Quantity.of(capacity):
            yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    yield from unchanged("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))


def _with_storage(resources: Data, size: str) -> Data:
    return {**resources, "requests": {**resources.get("requests", {}), "storage": size}}


def volume_errors(new: Data, old: Data | None) -> Errors:
    """Validate a PersistentVolume, or an update of one."""
    spec = new.get("spec", {})
    modes, capacity = spec.get("accessModes", []), spec.get("capacity", {})
    if not modes:
        yield required("spec.accessModes")
    yield from _access_mode_errors("spec.accessModes", modes)
    if not capacity:
        yield required("spec.capacity")
    if capacity.keys() != {"storage"}:
        yield FieldError(ErrorType.NOT_SUPPORTED, "spec.capacity", capacity, 'supported values: "storage"')
    for name, amount in capacity.items():
        yield from positive_amount(f"spec.capacity[{name}]", amount)
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy and policy not in _RECLAIM_POLICIES:
        yield not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES)
    yield from _source_errors(spec)
    if name := spec.get("storageClassName"):
        yield from syntax("spec.storageClassName", name, namesyntax.subdomain(name))
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        yield not_supported("spec.volumeMode", mode, _VOLUME_MODES)
    if old is not None:
        yield from _volume_update_errors(spec, old.get("spec", {}))


def _source_errors(spec: Data) -> Errors:
    yield from source_errors("spec", spec)
    if "csi" in spec and not spec["csi"].get("volumeHandle"):
        yield required("spec.csi.volumeHandle")
    if "local" in spec and not spec.get("nodeAffinity"):
        yield required("spec.nodeAffinity", "Local volume requires node affinity")
    recycles = spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    if recycles and spec.get("hostPath", {}).get("path", "").strip("/") == "" and "hostPath" in spec:
        yield forbidden("spec.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")


def _volume_update_errors(spec: Data, before: Data) -> Errors:
    source, old_source = ({name: part[name] for name in part.keys() - _SPEC_FIELDS} for part in (spec, before))
    if "csi" in source and "csi" in old_source and "controllerExpandSecretRef" not in old_source["csi"]:
        allowed = {name: value for name, value in source["csi"].items() if name != "controllerExpandSecretRef"}
        source["csi"] = allowed
    if not schema.same(_VOLUME, {"spec": source}, {"spec": old_source}, "spec"):
        lines = "\n".join(differences("spec", old_source, source))
        yield forbidden(
            "spec.persistentvolumesource", f"spec.persistentvolumesource is immutable after creation\n{lines}"
        )
    yield from unchanged("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))
    if before.get("volumeAttributesClassName") and not spec.get("volumeAttributesClassName"):
        yield forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden")


def storage_class_errors(new: Data, old: Data | None) -> Errors:
    """Validate a StorageClass, or an update of one."""
    if old is not None:
        for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            yield from unchanged(name, new.get(name) or None, old.get(name) or None)
        return
    provisioner = new.get("provisioner", "")
    if not provisioner:
        yield required("provisioner")
    else:
        yield from syntax("provisioner", provisioner.lower(), label_key_errors(provisioner.lower()))
    parameters = new.get("parameters", {})
    if len(parameters) > _MAX_PARAMETERS:
        yield too_long("parameters", _MAX_PARAMETERS)
    elif sum(len(key) + len(value) for key, value in parameters.items()) > _MAX_PARAMETER_BYTES:
        yield too_long("parameters", _MAX_PARAMETER_BYTES)
    if "" in parameters:
        yield invalid("parameters", "", "field can not be empty.")
    policy, mode = new.get("reclaimPolicy"), new.get("volumeBindingMode")
    if policy and policy not in ("Delete", "Retain"):
        yield not_supported("reclaimPolicy", policy, ("Delete", "Retain"))
    if mode is None:
        yield required("volumeBindingMode")
    elif mode not in _BINDING_MODES:
        yield not_supported("volumeBindingMode", mode, _BINDING_MODES)


def csi_driver_errors(new: Data, old: Data | None) -> Errors:
    """Validate a CSIDriver, or an update of one."""
    spec = new.get("spec", {})
    policy = spec.get("fsGroupPolicy")
    if policy is not None and policy not in _FS_GROUP_POLICIES:
        yield not_supported("spec.fsGroupPolicy", policy, _FS_GROUP_POLICIES)
    for mode in spec.get("volumeLifecycleModes", ()):
        if mode not in ("Persistent", "Ephemeral"):
            yield not_supported("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))
    if old is not None:
        before = old.get("spec", {})
        yield from unchanged("spec.attachedRequired", spec.get("attachRequired"), before.get("attachRequired"))
        path = "spec.volumeLifecycleModes"
        yield from unchanged(path, spec.get("volumeLifecycleModes"), before.get("volumeLifecycleModes"))


def csi_node_errors(new: Data, _: Data | None) -> Errors:
    """Validate a CSINode."""
    seen = set()
    for index, driver in enumerate(new.get("spec", {}).get("drivers", ())):
        path = f"spec.drivers[{index}]"
        name = driver.get("name", "")
        yield from driver_errors(f"{path}.name", name)
        if name in seen:
            yield invalid(f"{path}.name", name, "must be unique")
        seen.add(name)
        if not driver.get("nodeID"):
            yield required(f"{path}.nodeID")


def attachment_errors(new: Data, old: Data | None) -> Errors:
    """Validate a VolumeAttachment, or an update of one."""
    spec = new.get("spec", {})
    yield from driver_errors("spec.attacher", spec.get("attacher", ""))
    source = spec.get("source", {})
    count = len(source.keys() & {"inlineVolumeSpec", "persistentVolumeName"})
    detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if count == 0:
        yield required("spec.source", detail)
    elif count == 2:
        yield forbidden("spec.source", detail)
    elif source.get("persistentVolumeName") == "":
        yield required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName")
    node = spec.get("nodeName", "")
    yield from syntax("spec.nodeName", node, namesyntax.subdomain(node))
    if old is not None and not schema.same(_ATTACHMENT, new, old, "spec"):
        yield invalid("spec", spec, IMMUTABLE)


def storage_capacity_errors(new: Data, old: Data | None) -> Errors:
    """Validate a CSIStorageCapacity, or an update of one."""
    if old is not None:
        for name in ("nodeTopology", "storageClassName"):
            yield from unchanged(name, new.get(name), old.get(name))
        return
    yield from label_selector("nodeTopology", new.get("nodeTopology"))
    name = new.get("storageClassName", "")
    yield from syntax("storageClassName", name, namesyntax.subdomain(name))
    if "capacity" in new:
        yield from nonnegative_amount("capacity", new["capacity"])
