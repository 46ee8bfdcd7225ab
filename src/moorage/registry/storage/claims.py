"""PersistentVolumeClaims."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.api.quota import ScopedResourceSelectorRequirement
from moorage.api.volume import PersistentVolumeClaim
from moorage.quantity import Quantity
from moorage.registry import schema
from moorage.registry.checks import Errors, differences, unchanged
from moorage.registry.defaulting import fill, round_up
from moorage.registry.merging import HEALTH, keyed, pointer, shape, struct
from moorage.registry.pod.claimspec import claim_spec_errors
from moorage.registry.pod.defaults import default_claim_spec
from moorage.registry.pod.limits import CLAIM_LIMITS, limit_claim
from moorage.registry.pod.merging import CLAIM_SPEC
from moorage.registry.printing import cells
from moorage.registry.printing.cells import UNSET, PrintedRow
from moorage.registry.printing.columns import AGE, NAME, column, wide
from moorage.registry.printing.podsummary import Printable
from moorage.registry.state import Denied, Dependency, State
from moorage.registry.strategy import Strategy
from moorage.registry.usage import ONE, Quantities, Usage, requires
from moorage.validation.field import forbidden

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_IMMUTABLE_CLAIM = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def _defaults(obj: Data, _: str) -> None:
    fill(obj.setdefault("status", {}), (("phase", "Pending"),))
    default_claim_spec(obj.setdefault("spec", {}))
    for part in obj["status"].keys() & {"capacity", "allocatedResources"}:
        round_up(obj["status"][part])


_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
"""What a dataSource may name; of others it is dropped, and dataSourceRef is for them."""


def _create(obj: Data, _: str) -> None:
    obj["status"] = {"phase": "Pending"}
    _settle_data_source(obj)


def _settle_data_source(obj: Data, *_: Any) -> None:
    """Keep dataSource and dataSourceRef of a claim consistent."""
    spec = obj.setdefault("spec", {})
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and (source.get("apiGroup", ""), source.get("kind")) not in _SOURCES:
        del spec["dataSource"]
        source = None
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {name: value for name, value in reference.items() if name != "namespace"}


def _errors(new: Data, old: Data | None) -> Errors:
    """Validate a PersistentVolumeClaim, or an update of one."""
    yield from claim_spec_errors("spec", new.get("spec", {}))
    if old is not None:
        yield from _update_errors(new, old)


def _update_errors(new: Data, old: Data) -> Errors:
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
    if not schema.same(CLAIM.kind, {"spec": spec}, {"spec": before}, "spec"):
        lines = "\n".join(differences("spec", before, spec))
        yield forbidden("spec", f"{_IMMUTABLE_CLAIM}\n{lines}")
    if Quantity.of(size) < Quantity.of(old_size):
        capacity = old.get("status", {}).get("capacity", {}).get("storage", "0")
        if Quantity.of(size) <= Quantity.of(capacity):
            yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    yield from unchanged("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))


def _with_storage(resources: Data, size: str) -> Data:
    return {**resources, "requests": {**resources.get("requests", {}), "storage": size}}


_ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def access_modes(modes: Iterable[str] | None) -> str:
    """Access modes in short."""
    return cells.joined(short for mode, short in _ACCESS_MODES.items() if mode in (modes or ()))


def storage_text(resources: Printable | None) -> str:
    """The amount of storage."""
    return str(Quantity.of((resources or {}).get("storage", 0)))


def storage_class(row: PrintedRow) -> str:
    """The storage class; an old annotation wins over the field."""
    class_: str | None = (row.metadata.get("annotations") or {}).get(_BETA_CLASS)
    return (row.spec.get("storageClassName") or "") if class_ is None else class_


def _claim_capacity(row: PrintedRow) -> str:
    """How much a claim was given, once it has a volume."""
    return storage_text(row.status.get("capacity")) if row.spec.get("volumeName") else ""


def _claim_access_modes(row: PrintedRow) -> str:
    """How a claim's volume can be mounted, once it has one."""
    return access_modes(row.status.get("accessModes")) if row.spec.get("volumeName") else ""


_STORAGE_CLASS = kinds.row("storage.k8s.io/v1", "StorageClass")
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_FIXED = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


def _admit(new: Data, old: Data | None, state: State) -> None:
    """Give a new claim the default class; let a claim grow only when its class allows it."""
    if old is not None:
        _check_growth(new, old, state)
    elif new["spec"].get("storageClassName") is None:
        for storage_class in state.all(_STORAGE_CLASS):
            if (storage_class["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true":
                new["spec"]["storageClassName"] = storage_class["metadata"]["name"]


def _check_growth(new: Data, old: Data, state: State) -> None:
    before, after = _requested(old), _requested(new)
    if before == after or Quantity.parse(after) <= Quantity.parse(before):
        return
    if old.get("status", {}).get("phase") != "Bound":
        raise Denied("Only bound persistent volume claims can be expanded")
    name = new["spec"].get("storageClassName")
    storage_class = state.find(_STORAGE_CLASS, name) if name else None
    is_same = name == old["spec"].get("storageClassName")
    if storage_class is None or not is_same or not storage_class.get("allowVolumeExpansion"):
        raise Denied(_FIXED)


_CLASS_SUFFIX = ".storageclass.storage.k8s.io/"
_CLAIMS, _STORAGE = "persistentvolumeclaims", "requests.storage"


def _amounts(claim: PersistentVolumeClaim, _: datetime) -> Quantities:
    """What a claim uses of a quota: one claim and its storage, in all and of its class."""
    used = {_CLAIMS: ONE}
    if "storage" in claim.spec.resources.requests:
        asked = Quantity.of(claim.spec.resources.requests["storage"])
        allocated = Quantity.of(claim.status.allocated_resources.get("storage", 0))
        used[_STORAGE] = Quantity.integer(max(asked, allocated).value(), max(asked, allocated).format)
    class_ = claim.metadata.annotations.get(_BETA_CLASS, claim.spec.storage_class_name)
    return used | {f"{class_}{_CLASS_SUFFIX}{name}": amount for name, amount in used.items() if class_}


def _is_quota_name(name: str) -> bool:
    return name in (_CLAIMS, _STORAGE) or name.endswith((_CLASS_SUFFIX + _CLAIMS, _CLASS_SUFFIX + _STORAGE))


def _matches(claim: PersistentVolumeClaim, selector: ScopedResourceSelectorRequirement) -> bool:
    if selector.scope_name != "VolumeAttributesClass":
        return False
    status = claim.status
    target = status.modify_volume_status.target_volume_attributes_class_name if status.modify_volume_status else ""
    names = {claim.spec.volume_attributes_class_name, status.current_volume_attributes_class_name, target}
    return requires(selector, [name for name in names if name])


def _requested(claim: Data) -> str:
    return str(claim.get("spec", {}).get("resources", {}).get("requests", {}).get("storage", "0"))


CLAIM = Strategy(
    kind=kinds.row("v1", "PersistentVolumeClaim"),
    defaults=_defaults,
    create=_create,
    update=_settle_data_source,
    depends_on=(Dependency(_STORAGE_CLASS, updates=("",)), CLAIM_LIMITS),
    admit=_admit,
    limits=limit_claim,
    usage=Usage(amounts=_amounts, names=_is_quota_name, matches=_matches, updates=("", "status")),
    errors=_errors,
    merge=shape(
        spec=CLAIM_SPEC,
        status=struct(conditions=keyed("type"), healthStatus=pointer(healthConditions=HEALTH)),
    ),
    columns=(
        NAME,
        column("Status", cells.phase, "Whether it has a volume."),
        column("Volume", cells.at("spec.volumeName"), "The volume it has."),
        column("Capacity", _claim_capacity, "How much the volume holds."),
        column("Access Modes", _claim_access_modes, "How the volume can be mounted."),
        column("StorageClass", storage_class, "The class it asks for."),
        column(
            "VolumeAttributesClass",
            cells.value("spec.volumeAttributesClassName", UNSET),
            "The class of its attributes.",
        ),
        AGE,
        wide("VolumeMode", cells.value("spec.volumeMode", UNSET), "Whether it is a file system or a block device."),
    ),
)
