"""PersistentVolumes."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry import namesyntax, schema
from moorage.registry.checks import Errors, differences, positive_amount, syntax, unchanged
from moorage.registry.defaulting import absent, fill, round_up
from moorage.registry.merging import shape
from moorage.registry.pod.claimspec import VOLUME_MODES, access_mode_errors
from moorage.registry.pod.defaults import default_volume_source
from moorage.registry.pod.merging import VOLUME_SPEC
from moorage.registry.pod.volumesources import only_source, volume_source_errors
from moorage.registry.printing import cells
from moorage.registry.printing.cells import UNSET, PrintedRow
from moorage.registry.printing.columns import AGE, NAME, column, wide
from moorage.registry.storage.claims import access_modes, storage_class, storage_text
from moorage.registry.strategy import Strategy
from moorage.validation.field import ErrorType, FieldError, forbidden, not_supported, required

_SPEC_FIELDS = frozenset((
    "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
    "storageClassName", "volumeAttributesClassName", "volumeMode",
))  # fmt: skip
"""The fields of a PersistentVolume's spec that are not its source."""

_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")


def _defaults(obj: Data, _: str) -> None:
    spec = obj.setdefault("spec", {})
    absent(spec, volumeMode="Filesystem")
    fill(spec, (("persistentVolumeReclaimPolicy", "Retain"),))
    fill(obj.setdefault("status", {}), (("phase", "Pending"),))
    default_volume_source(spec)
    round_up(spec.get("capacity", {}))


def _create(obj: Data, now: str) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}


def _update_status(new: Data, old: Data, now: str) -> None:
    field = "lastPhaseTransitionTime"
    if new.get("phase") == old.get("phase"):
        if field not in new and field in old:
            new[field] = old[field]
    elif now and new.get(field) in (None, old.get(field)):
        new[field] = now


def _errors(new: Data, old: Data | None) -> Errors:
    """Validate a PersistentVolume, or an update of one."""
    spec = new.get("spec", {})
    yield from volume_spec_errors("spec", spec)
    if old is not None:
        yield from _update_errors(spec, old.get("spec", {}))


def volume_spec_errors(path: str, spec: Data, *, is_inline: bool = False) -> Errors:
    """Validate the spec of a PersistentVolume, which a VolumeAttachment can hold inline."""
    if is_inline:
        yield from _inline_errors(path, spec)
    modes = spec.get("accessModes", [])
    if not modes:
        yield required(f"{path}.accessModes")
    yield from access_mode_errors(f"{path}.accessModes", modes)
    if not is_inline:
        yield from _capacity_errors(path, spec)
    yield from volume_source_errors(path, spec)
    if "nodeAffinity" not in spec and only_source(spec) == "local" and not is_inline:
        yield required(f"{path}.nodeAffinity", "Local volume requires node affinity")
    recycles = spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    if recycles and spec.get("hostPath", {}).get("path", "").strip("/") == "" and "hostPath" in spec:
        yield forbidden(f"{path}.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")
    if not is_inline:
        yield from _class_errors(path, spec)


def _capacity_errors(path: str, spec: Data) -> Errors:
    capacity = spec.get("capacity", {})
    if not capacity:
        yield required(f"{path}.capacity")
    if capacity.keys() != {"storage"}:
        yield FieldError(ErrorType.NOT_SUPPORTED, f"{path}.capacity", capacity, 'supported values: "storage"')
    for name, amount in capacity.items():
        yield from positive_amount(f"{path}.capacity[{name}]", amount)
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy and policy not in _RECLAIM_POLICIES:
        yield not_supported(f"{path}.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES)


def _class_errors(path: str, spec: Data) -> Errors:
    if name := spec.get("storageClassName"):
        yield from syntax(f"{path}.storageClassName", name, namesyntax.subdomain(name))
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        yield not_supported(f"{path}.volumeMode", mode, VOLUME_MODES)
    yield from _attributes_class_errors(path, spec)


def _attributes_class_errors(path: str, spec: Data) -> Errors:
    name = spec.get("volumeAttributesClassName")
    if name is None:
        return
    if not name:
        yield required(f"{path}.volumeAttributesClassName", "an empty string is disallowed")
    else:
        yield from syntax(f"{path}.volumeAttributesClassName", name, namesyntax.subdomain(name))
    if "csi" not in spec:
        yield required(f"{path}.csi", "has to be specified when using volumeAttributesClassName")


def _inline_errors(path: str, spec: Data) -> Errors:
    unfit = "may not be specified in the context of inline volumes"
    for name in ("claimRef", "capacity", "nodeAffinity", "storageClassName"):
        if spec.get(name) or (name in spec and name in ("claimRef", "nodeAffinity")):
            yield forbidden(f"{path}.{name}", unfit)
    if "csi" not in spec:
        yield required(f"{path}.csi", "has to be specified in the context of inline volumes")
    if spec.get("persistentVolumeReclaimPolicy") not in (None, "", "Retain"):
        detail = "may only be Retain in the context of inline volumes"
        yield forbidden(f"{path}.persistentVolumeReclaimPolicy", detail)
    if spec.get("volumeMode") not in (None, "Filesystem"):
        detail = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        yield forbidden(f"{path}.volumeMode", detail)


def _update_errors(spec: Data, before: Data) -> Errors:
    source, old_source = ({name: part[name] for name in part.keys() - _SPEC_FIELDS} for part in (spec, before))
    if "csi" in source and "csi" in old_source and "controllerExpandSecretRef" not in old_source["csi"]:
        allowed = {name: value for name, value in source["csi"].items() if name != "controllerExpandSecretRef"}
        source["csi"] = allowed
    if not schema.same(VOLUME.kind, {"spec": source}, {"spec": old_source}, "spec"):
        lines = "\n".join(differences("spec", old_source, source))
        yield forbidden(
            "spec.persistentvolumesource", f"spec.persistentvolumesource is immutable after creation\n{lines}"
        )
    yield from unchanged("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))
    if before.get("volumeAttributesClassName") and not spec.get("volumeAttributesClassName"):
        yield forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden")


def _volume_capacity(row: PrintedRow) -> str:
    """How much a volume holds."""
    return storage_text(row.spec.get("capacity"))


def _volume_access_modes(row: PrintedRow) -> str:
    """How a volume can be mounted."""
    return access_modes(row.spec.get("accessModes"))


def _volume_claim(row: PrintedRow) -> str:
    """The claim that has a volume."""
    claim = row.spec.get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim is not None else ""


VOLUME = Strategy(
    kind=kinds.row("v1", "PersistentVolume"),
    defaults=_defaults,
    create=_create,
    update_status=_update_status,
    errors=_errors,
    merge=shape(spec=VOLUME_SPEC),
    columns=(
        NAME,
        column("Capacity", _volume_capacity, "How much it holds."),
        column("Access Modes", _volume_access_modes, "How it can be mounted."),
        column("Reclaim Policy", cells.at("spec.persistentVolumeReclaimPolicy"), "What becomes of it after its claim."),
        column("Status", cells.phase, "Whether it is taken."),
        column("Claim", _volume_claim, "The claim that has it."),
        column("StorageClass", storage_class, "The class it comes from."),
        column(
            "VolumeAttributesClass",
            cells.value("spec.volumeAttributesClassName", UNSET),
            "The class of its attributes.",
        ),
        column("Reason", cells.at("status.reason"), "Why it failed."),
        AGE,
        wide("VolumeMode", cells.value("spec.volumeMode", UNSET), "Whether it is a file system or a block device."),
    ),
)
