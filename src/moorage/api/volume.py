"""Volumes, claims on them and the classes they come from."""

from __future__ import annotations

import msgspec

from moorage.api.meta import Int32, LabelSelector, Object, ObjectReference, QuantityText, ResourceList, Wire
from moorage.api.node import NodeSelector


class VolumeResourceRequirements(Wire):
    """How much storage a claim asks for."""

    requests: ResourceList = {}
    limits: ResourceList = {}


class PersistentVolumeClaimSpec(Wire):
    """What a claim asks for."""

    access_modes: tuple[str, ...] = ()
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    volume_name: str = ""


class ModifyVolumeStatus(Wire):
    """The change of a volume to another class of attributes."""

    target_volume_attributes_class_name: str = ""


class PersistentVolumeClaimStatus(Wire):
    """Whether a claim has its volume."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = {}
    allocated_resources: ResourceList = {}
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None


class PersistentVolumeClaim(Object):
    """A request for storage."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class VolumeNodeAffinity(Wire):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class CSIPersistentVolumeSource(Wire):
    """A volume that a driver reaches."""

    driver: str = ""
    volume_handle: str = ""


class GCEPersistentDiskVolumeSource(Wire):
    """A disk of Google's cloud, by name."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Wire):
    """A disk of Amazon's cloud, by its number."""

    volume_id: str = ""


class AzureDiskVolumeSource(Wire):
    """A disk of Microsoft's cloud, by its address."""

    disk_uri: str = msgspec.field(default="", name="diskURI")


class CinderPersistentVolumeSource(Wire):
    """A disk of OpenStack, by its number."""

    volume_id: str = ""


class PortworxVolumeSource(Wire):
    """A volume of Portworx, by its number."""

    volume_id: str = ""


class PersistentVolumeSpec(Wire):
    """What a volume is."""

    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    csi: CSIPersistentVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    cinder: CinderPersistentVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    node_affinity: VolumeNodeAffinity | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None


class PersistentVolumeStatus(Wire):
    """Whether a volume is taken."""

    phase: str = ""
    reason: str = ""
    message: str = ""


class PersistentVolume(Object):
    """A piece of storage."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorLabelRequirement(Wire):
    """A node label and the values it may have."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Wire):
    """Label requirements that must all hold."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Object):
    """How volumes of a class are provisioned and bound."""

    provisioner: str = ""
    parameters: dict[str, str] = {}
    reclaim_policy: str | None = None
    volume_binding_mode: str | None = None
    allow_volume_expansion: bool | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Wire):
    """How many volumes of a driver a node can have."""

    count: Int32 | None = None


class CSINodeDriver(Wire):
    """A driver that is installed on a node."""

    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Wire):
    """The drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Object):
    """What the drivers on a node report; it has the node's name."""

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Wire):
    """What a driver can do."""

    storage_capacity: bool | None = None


class CSIDriver(Object):
    """A driver; it has the name that volumes and classes call it by."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Object):
    """How much room a class has for new volumes, for some nodes."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: QuantityText | None = None
    maximum_volume_size: QuantityText | None = None


class VolumeAttachmentSource(Wire):
    """The volume that is attached."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Wire):
    """A volume, a node, and who attaches the one to the other."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(Object):
    """A volume that is to be attached to a node."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
