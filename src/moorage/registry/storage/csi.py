"""What CSI drivers write: their own objects, those of their nodes, capacities and attachments."""

from __future__ import annotations

from dataclasses import replace

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry import namesyntax, schema
from moorage.registry.checks import IMMUTABLE, Errors, label_selector, nonnegative_amount, syntax, unchanged
from moorage.registry.defaulting import absent, fill
from moorage.registry.merging import ATOMIC, UNPATCHED_SET, keyed, shape, struct
from moorage.registry.pod.defaults import default_volume_source
from moorage.registry.pod.merging import VOLUME_SPEC
from moorage.registry.pod.volumesources import driver_errors
from moorage.registry.printing import cells
from moorage.registry.printing.cells import NONE, UNSET, PrintedRow
from moorage.registry.printing.columns import AGE, CREATED, NAME, boolean, column, integer
from moorage.registry.strategy import SPEC, Strategy
from moorage.validation.field import forbidden, invalid, not_supported, required

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
    if old is not None:
        before = old.get("spec", {})
        yield from unchanged("spec.attachedRequired", spec.get("attachRequired"), before.get("attachRequired"))
        path = "spec.volumeLifecycleModes"
        yield from unchanged(path, spec.get("volumeLifecycleModes"), before.get("volumeLifecycleModes"))


def _node_errors(new: Data, _: Data | None) -> Errors:
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
    node = spec.get("nodeName", "")
    yield from syntax("spec.nodeName", node, namesyntax.subdomain(node))
    if old is not None and not schema.same(VOLUME_ATTACHMENT.kind, new, old, "spec"):
        yield invalid("spec", spec, IMMUTABLE)


def _capacity_errors(new: Data, old: Data | None) -> Errors:
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


def _token_audiences(row: PrintedRow) -> str:
    """The audiences of a driver's token requests."""
    requests = row.spec.get("tokenRequests")
    return UNSET if requests is None else cells.joined(request.get("audience", "") for request in requests)


CSI_DRIVER = Strategy(
    kind=kinds.row("storage.k8s.io/v1", "CSIDriver"),
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
