"""What CSI drivers write: their own objects, those of their nodes, capacities and attachments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.names import label_key_errors
from moorage.registry import namesyntax, schema
from moorage.registry.checks import (
    IMMUTABLE,
    Errors,
    label_selector,
    nonnegative,
    nonnegative_amount,
    syntax,
    unchanged,
)
from moorage.registry.defaulting import absent, fill
from moorage.registry.merging import ATOMIC, UNPATCHED_SET, keyed, shape, struct
from moorage.registry.pod.defaults import default_volume_source
from moorage.registry.pod.merging import VOLUME_SPEC
from moorage.registry.pod.volumesources import driver_errors, token_seconds_errors
from moorage.registry.printing import cells
from moorage.registry.printing.cells import NONE, UNSET, PrintedRow
from moorage.registry.printing.columns import AGE, CREATED, NAME, boolean, column, integer
from moorage.registry.storage.volumes import volume_spec_errors
from moorage.registry.strategy import SPEC, Strategy
from moorage.validation.field import duplicate, forbidden, invalid, not_supported, required

_MAX_NODE_ID = 256
_FS_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")


def _default_driver(obj: Data, _: str) -> None:
    spec = obj.setdefault("spec", {})
    absent(
        spec, attachRequired=True, podInfoOnMount=False, storageCapacity=False, requiresRepublish=False,
        fsGroupPolicy="ReadWriteOnceWithFSType", seLinuxMount=False,
    )  # fmt: skip
    fill(spec, (("volumeLifecycleModes", ["Persistent"]),))


def _default_attachment(obj: Data, _: str) -> None:
    default_volume_source(obj.get("spec", {}).get("source", {}).get("inlineVolumeSpec", {}))


def _driver_errors(new: Data, old: Data | None) -> Errors:
    """Validate a CSIDriver, or an update of one."""
    spec = new.get("spec", {})
    policy = spec.get("fsGroupPolicy")
    if policy is not None and policy not in _FS_GROUP_POLICIES:
        yield not_supported("spec.fsGroupPolicy", policy, _FS_GROUP_POLICIES)
    for mode in spec.get("volumeLifecycleModes", ()):
        if mode not in ("Persistent", "Ephemeral"):
            yield not_supported("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))
    yield from _token_errors("spec.tokenRequests", spec.get("tokenRequests", ()))
    seconds = spec.get("nodeAllocatableUpdatePeriodSeconds", 10)
    if seconds < 10:
        detail = "must be greater than or equal to 10 seconds"
        yield invalid("spec.nodeAllocatableUpdatePeriodSeconds", seconds, detail)
    if "serviceAccountTokenInSecrets" in spec and not spec.get("tokenRequests"):
        detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield invalid("spec.serviceAccountTokenInSecrets", spec["serviceAccountTokenInSecrets"], detail)
    if old is not None:
        before = old.get("spec", {})
        yield from unchanged("spec.attachedRequired", spec.get("attachRequired"), before.get("attachRequired"))
        path = "spec.volumeLifecycleModes"
        yield from unchanged(path, spec.get("volumeLifecycleModes"), before.get("volumeLifecycleModes"))


def _token_errors(path: str, requests: Sequence[Data]) -> Errors:
    seen: set[str] = set()
    for index, request in enumerate(requests):
        audience = request.get("audience", "")
        if audience in seen:
            yield duplicate(f"{path}[{index}].audience", audience)
        elif "expirationSeconds" in request:
            yield from token_seconds_errors(f"{path}[{index}].expirationSeconds", request["expirationSeconds"])
        seen.add(audience)


def _node_errors(new: Data, old: Data | None) -> Errors:
    """Validate a CSINode, or an update of one."""
    drivers = new.get("spec", {}).get("drivers", [])
    seen = set()
    for index, driver in enumerate(drivers):
        path, name = f"spec.drivers[{index}]", driver.get("name", "")
        yield from driver_errors(f"{path}.name", name)
        yield from _node_driver_errors(path, driver)
        if name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)
    for before in old.get("spec", {}).get("drivers", ()) if old is not None else ():
        for driver in drivers:
            if driver.get("name") == before.get("name") and _without_count(driver) != _without_count(before):
                yield invalid("spec.drivers", driver, IMMUTABLE)


def _without_count(driver: Data) -> Data:
    return {name: value for name, value in driver.items() if value and name != "allocatable"}


def _node_driver_errors(path: str, driver: Data) -> Errors:
    node = driver.get("nodeID", "")
    if not node:
        yield required(f"{path}.nodeID")
    if len(node) > _MAX_NODE_ID:
        yield invalid(f"{path}.nodeID", node, f"must be {_MAX_NODE_ID} characters or less")
    yield from nonnegative(f"{path}.allocatable", driver.get("allocatable", {}), "count")
    keys = driver.get("topologyKeys", [])
    for index, key in enumerate(keys):
        if not key:
            yield required(path)
        if key in keys[:index]:
            yield duplicate(path, key)
        yield from syntax(path, key, label_key_errors(key))


def _attachment_errors(new: Data, old: Data | None) -> Errors:
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
    elif "inlineVolumeSpec" in source:
        yield from volume_spec_errors("spec.source.inlineVolumeSpec", source["inlineVolumeSpec"], is_inline=True)
    node = spec.get("nodeName", "")
    yield from syntax("spec.nodeName", node, namesyntax.subdomain(node))
    if (volume := source.get("persistentVolumeName")) is not None:
        yield from syntax("spec.source.persistentVolumeName", volume, namesyntax.subdomain(volume))
    if old is not None and not schema.same(VOLUME_ATTACHMENT.kind, new, old, "spec"):
        yield invalid("spec", spec, IMMUTABLE)


def _capacity_errors(new: Data, old: Data | None) -> Errors:
    """Validate a CSIStorageCapacity, or an update of one."""
    if old is not None:
        for name in ("nodeTopology", "storageClassName"):
            yield from unchanged(name, new.get(name), old.get(name))
    yield from label_selector("nodeTopology", new.get("nodeTopology"))
    name = new.get("storageClassName", "")
    yield from syntax("storageClassName", name, namesyntax.subdomain(name))
    if "capacity" in new:
        yield from nonnegative_amount("capacity", new["capacity"])


def _token_audiences(row: PrintedRow) -> str:
    """The audiences of a driver's token requests."""
    requests = row.spec.get("tokenRequests")
    return UNSET if requests is None else cells.joined(request.get("audience", "") for request in requests)


CSI_DRIVER = Strategy(
    kind=kinds.row("storage.k8s.io/v1", "CSIDriver"),
    prefix_checked=("create",),
    defaults=_default_driver,
    errors=_driver_errors,
    conditional=True,
    counted=SPEC,
    merge=shape(spec=struct(volumeLifecycleModes=UNPATCHED_SET)),
    columns=(
        NAME,
        boolean(
            "AttachRequired", cells.value("spec.attachRequired", True), "Whether volumes are attached to nodes first."
        ),
        boolean("PodInfoOnMount", cells.at("spec.podInfoOnMount", False), "Whether it is told about the pod."),
        boolean(
            "StorageCapacity", cells.at("spec.storageCapacity", False), "Whether it says how much storage is left."
        ),
        column("TokenRequests", _token_audiences, "For whom it asks tokens."),
        boolean("RequiresRepublish", cells.at("spec.requiresRepublish", False), "Whether mounts are renewed."),
        column(
            "Modes",
            lambda row: cells.joined(row.spec.get("volumeLifecycleModes") or (), otherwise=NONE),
            "Which sorts of volumes it has.",
        ),
        AGE,
    ),
)


CSI_NODE = Strategy(
    kind=kinds.row("storage.k8s.io/v1", "CSINode"),
    errors=_node_errors,
    conditional=True,
    status_owns_metadata=False,
    merge=shape(spec=struct(drivers=replace(keyed("name"), by_value=True)), status=struct(storageHealth=keyed("name"))),
    columns=(NAME, integer("Drivers", cells.size("spec.drivers"), "How many drivers it has."), AGE),
)


CSI_STORAGE_CAPACITY = Strategy(
    kind=kinds.row("storage.k8s.io/v1", "CSIStorageCapacity"),
    errors=_capacity_errors,
    conditional=True,
    merge=shape(nodeTopology=ATOMIC),
    columns=CREATED,
)


VOLUME_ATTACHMENT = Strategy(
    kind=kinds.row("storage.k8s.io/v1", "VolumeAttachment"),
    defaults=_default_attachment,
    errors=_attachment_errors,
    conditional=True,
    status_owns_metadata=False,
    merge=shape(spec=struct(source=struct(inlineVolumeSpec=replace(VOLUME_SPEC, by_value=False)))),
    columns=(
        NAME,
        column("Attacher", cells.at("spec.attacher"), "Who attaches it.", format="name"),
        column("PV", cells.at("spec.source.persistentVolumeName"), "The volume."),
        column("Node", cells.at("spec.nodeName"), "The node."),
        boolean("Attached", cells.at("status.attached", False), "Whether it is done."),
        AGE,
    ),
)
