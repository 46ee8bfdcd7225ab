"""The columns in which each kind is printed, as in Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from moorage.api.kinds import Kind
from moorage.registry.printing import cells
from moorage.registry.printing.ages import UNKNOWN
from moorage.registry.printing.cells import (
    NONE,
    UNSET,
    Getter,
    PrintedRow,
    ago,
    at,
    items,
    number,
    ratio,
    selector,
    size,
    value,
)


@dataclass(frozen=True, slots=True)
class PrintColumn:
    """A column: its name, and the cell that it shows of an object."""

    name: str
    cell: Getter
    description: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    """0 is always shown, 1 in wide output."""

    def definition(self) -> dict[str, Any]:
        """The column as a Table describes it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


Columns = tuple[PrintColumn, ...]
_text = PrintColumn
_wide = partial(PrintColumn, priority=1)
_integer = partial(PrintColumn, type="integer")
_boolean = partial(PrintColumn, type="boolean")

_NAME_TEXT, _AGE_TEXT = "What tells the object from others of its kind and namespace.", "How long ago it was created."
_NAME = _text("Name", cells.name, _NAME_TEXT, format="name")
_AGE = _text("Age", cells.age, _AGE_TEXT)
_PLAIN: Columns = (_NAME, _AGE)
_CREATED: Columns = (_NAME, _text("Created At", cells.created_at, "When it was created.", type="date"))


def _template(containers: str) -> Columns:
    return (
        _wide("Containers", items(containers, "name"), "The names of the containers."),
        _wide("Images", items(containers, "image"), "The images of the containers."),
    )


def _workload(selected_by: str = "spec.selector", containers: str = "spec.template.spec.containers") -> Columns:
    return (*_template(containers), _wide("Selector", selector(selected_by), "Which pods belong to it."))


_labels_of_pods = at("template.metadata.labels")
_REPLICAS: Columns = (
    _NAME,
    _integer("Desired", value("spec.replicas", 1), "How many pods it should have."),
    _integer("Current", number("status.replicas"), "How many pods it has."),
    _integer("Ready", number("status.readyReplicas"), "How many of its pods are ready."),
    _AGE,
)
_EVENT: Columns = (
    _text("Last Seen", cells.event_last_seen, "How long ago it was reported last."),
    _text("Type", at("type"), "Normal or Warning."),
    _text("Reason", at("reason"), "Why, in one word."),
    _text("Object", cells.event_object, "What it is about."),
    _wide("Subobject", cells.event_subobject, "Which part of the object it is about."),
    _wide("Source", cells.event_source, "Who reports it."),
    _text("Message", cells.event_message, "What happened."),
    _wide("First Seen", cells.event_first_seen, "How long ago it was reported first."),
    _wide("Count", cells.event_count, "How often it was reported."),
    _wide("Name", cells.name, _NAME_TEXT, format="name"),
)

_BINDING: Columns = (
    _NAME,
    _text("Role", cells.role, "The role that is given."),
    _AGE,
    _wide("Users", cells.subjects("User"), "The users who have it."),
    _wide("Groups", cells.subjects("Group"), "The groups whose members have it."),
    _wide("ServiceAccounts", cells.subjects("ServiceAccount", "{namespace}/{name}"), "The accounts that have it."),
)

_COLUMNS: Mapping[tuple[str, str], Columns] = {
    ("", "Namespace"): (_NAME, _text("Status", at("status.phase"), "Whether it is in use or ending."), _AGE),
    ("", "Node"): (
        _NAME,
        _text("Status", cells.node_status, "Whether it is ready, and whether it takes new pods."),
        _text("Roles", cells.node_roles, "The roles that its labels give it."),
        _AGE,
        _text("Version", at("status.nodeInfo.kubeletVersion"), "The version of its kubelet."),
        _wide("Internal-IP", cells.node_address("InternalIP"), "Its address inside of the cluster."),
        _wide("External-IP", cells.node_address("ExternalIP"), "Its address for the outside."),
        _wide("OS-Image", at("status.nodeInfo.osImage", UNKNOWN), "Its operating system."),
        _wide("Kernel-Version", cells.kernel, "Its kernel and architecture."),
        _wide("Container-Runtime", at("status.nodeInfo.containerRuntimeVersion", UNKNOWN), "What runs its containers."),
    ),
    ("", "Pod"): (
        _NAME,
        _text("Ready", cells.pod_ready, "How many of its containers are ready."),
        _text("Status", cells.pod_status, "What its containers are at."),
        _text("Restarts", cells.pod_restarts, "How often its containers were restarted, and how long ago."),
        _AGE,
        _wide("IP", cells.pod_ip, "Its address."),
        _wide("Node", at("spec.nodeName", NONE), "Where it runs."),
        _wide("Nominated Node", at("status.nominatedNodeName", NONE), "Where room is being made for it."),
        _wide("Readiness Gates", cells.readiness_gates, "How many of its further conditions for being ready hold."),
    ),
    ("", "PersistentVolume"): (
        _NAME,
        _text("Capacity", cells.volume_capacity, "How much it holds."),
        _text("Access Modes", cells.volume_access_modes, "How it can be mounted."),
        _text("Reclaim Policy", at("spec.persistentVolumeReclaimPolicy"), "What becomes of it after its claim."),
        _text("Status", cells.phase, "Whether it is taken."),
        _text("Claim", cells.volume_claim, "The claim that has it."),
        _text("StorageClass", cells.storage_class, "The class it comes from."),
        _text("VolumeAttributesClass", value("spec.volumeAttributesClassName", UNSET), "The class of its attributes."),
        _text("Reason", at("status.reason"), "Why it failed."),
        _AGE,
        _wide("VolumeMode", value("spec.volumeMode", UNSET), "Whether it is a file system or a block device."),
    ),
    ("", "PersistentVolumeClaim"): (
        _NAME,
        _text("Status", cells.phase, "Whether it has a volume."),
        _text("Volume", at("spec.volumeName"), "The volume it has."),
        _text("Capacity", cells.claim_capacity, "How much the volume holds."),
        _text("Access Modes", cells.claim_access_modes, "How the volume can be mounted."),
        _text("StorageClass", cells.storage_class, "The class it asks for."),
        _text("VolumeAttributesClass", value("spec.volumeAttributesClassName", UNSET), "The class of its attributes."),
        _AGE,
        _wide("VolumeMode", value("spec.volumeMode", UNSET), "Whether it is a file system or a block device."),
    ),
    ("", "ConfigMap"): (_NAME, _text("Data", size("data", "binaryData"), "How many entries it has."), _AGE),
    ("", "Secret"): (
        _NAME,
        _text("Type", at("type"), "What it is for."),
        _text("Data", size("data"), "How many entries it has."),
        _AGE,
    ),
    ("", "Service"): (
        _NAME,
        _text("Type", at("spec.type", "ClusterIP"), "From where it is reached."),
        _text("Cluster-IP", cells.service_cluster_ip, "Its address inside of the cluster."),
        _text("External-IP", cells.service_external_ip, "Its addresses for the outside."),
        _text("Port(s)", cells.service_ports, "Its ports."),
        _AGE,
        _wide("Selector", lambda row: cells.label_text(row.spec.get("selector")), "The labels of the pods behind it."),
    ),
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    ("apps", "Deployment"): (
        _NAME,
        _text("Ready", ratio("status.readyReplicas", "spec.replicas"), "How many of its pods are ready."),
        _text("Up-to-date", number("status.updatedReplicas"), "How many of its pods have the present template."),
        _text("Available", number("status.availableReplicas"), "How many of its pods have been ready long enough."),
        _AGE,
        *_template("spec.template.spec.containers"),
        _wide("Selector", lambda row: cells.selector_text(row.spec.get("selector")), "Which pods belong to it."),
    ),
    ("", "PodTemplate"): (
        _NAME,
        _text("Containers", items("template.spec.containers", "name"), "The names of the containers."),
        _text("Images", items("template.spec.containers", "image"), "The images of the containers."),
        _text("Pod Labels", lambda row: cells.label_text(_labels_of_pods(row)), "The labels that its pods get."),
    ),
    ("", "ReplicationController"): (
        *_REPLICAS,
        *_template("spec.template.spec.containers"),
        _wide("Selector", lambda row: cells.label_text(row.spec.get("selector")), "Which pods belong to it."),
    ),
    ("apps", "ReplicaSet"): (*_REPLICAS, *_workload()),
    ("apps", "StatefulSet"): (
        _NAME,
        _text("Ready", ratio("status.readyReplicas", "spec.replicas"), "How many of its pods are ready."),
        _AGE,
        *_template("spec.template.spec.containers"),
    ),
    ("apps", "DaemonSet"): (
        _NAME,
        _integer("Desired", number("status.desiredNumberScheduled"), "How many nodes should run its pod."),
        _integer("Current", number("status.currentNumberScheduled"), "How many of these nodes run its pod."),
        _integer("Ready", number("status.numberReady"), "How many of its pods are ready."),
        _integer("Up-to-date", number("status.updatedNumberScheduled"), "How many have the present template."),
        _integer("Available", number("status.numberAvailable"), "How many have been ready long enough."),
        _text("Node Selector", lambda row: cells.label_text(_daemon_nodes(row)), "The labels of the nodes it is for."),
        _AGE,
        *_workload(),
    ),
    ("apps", "ControllerRevision"): (
        _NAME,
        _text("Controller", cells.controller, "The workload whose template it keeps."),
        _text("Revision", number("revision"), "Which state of the template it is."),
        _AGE,
    ),
    ("autoscaling", "Scale"): (
        _text("Name", cells.name, _NAME_TEXT),
        _integer("Desired", number("spec.replicas"), "How many pods there should be."),
        _integer("Available", number("status.replicas"), "How many pods there are."),
        _AGE,
    ),
    ("batch", "Job"): (
        _NAME,
        _text("Status", cells.job_status, "What it is at."),
        _text("Completions", cells.job_completions, "How many of its pods have finished."),
        _text("Duration", cells.job_duration, "How long it took, or takes so far."),
        _AGE,
        *_workload(),
    ),
    ("batch", "CronJob"): (
        _NAME,
        _text("Schedule", at("spec.schedule"), "When it makes a job."),
        _text("Timezone", value("spec.timeZone", NONE), "Whose clock the schedule means."),
        _boolean("Suspend", cells.truth("spec.suspend"), "Whether it pauses."),
        _integer("Active", size("status.active"), "How many of its jobs run."),
        _text("Last Schedule", ago("status.lastScheduleTime", NONE), "How long ago it made a job."),
        _AGE,
        *_workload("spec.jobTemplate.spec.selector", "spec.jobTemplate.spec.template.spec.containers"),
    ),
    ("node.k8s.io", "RuntimeClass"): (_NAME, _text("Handler", at("handler"), "What runs the containers."), _AGE),
    ("policy", "PodDisruptionBudget"): (
        _NAME,
        _text("Min Available", lambda row: _amount(row, "minAvailable"), "How many pods must be there."),
        _text("Max Unavailable", lambda row: _amount(row, "maxUnavailable"), "How many pods may be missing."),
        _integer("Allowed Disruptions", number("status.disruptionsAllowed"), "How many pods may be evicted now."),
        _AGE,
    ),
    ("scheduling.k8s.io", "PriorityClass"): (
        _NAME,
        _integer("Value", number("value"), "The priority of its pods; the higher goes first."),
        _boolean("Global-Default", at("globalDefault", False), "Whether pods without a class have this one."),
        _AGE,
        _text("PreemptionPolicy", at("preemptionPolicy"), "Whether its pods may push out others."),
    ),
    ("storage.k8s.io", "StorageClass"): (
        _text("Name", cells.class_name, _NAME_TEXT, format="name"),
        _text("Provisioner", at("provisioner"), "Who makes its volumes."),
        _text("ReclaimPolicy", at("reclaimPolicy", "Delete"), "What becomes of a volume after its claim."),
        _text("VolumeBindingMode", at("volumeBindingMode", "Immediate"), "When a claim gets its volume."),
        _text("AllowVolumeExpansion", at("allowVolumeExpansion", False), "Whether its volumes can grow."),
        _AGE,
    ),
    ("storage.k8s.io", "CSINode"): (_NAME, _integer("Drivers", size("spec.drivers"), "How many drivers it has."), _AGE),
    ("storage.k8s.io", "CSIDriver"): (
        _NAME,
        _boolean("AttachRequired", value("spec.attachRequired", True), "Whether volumes are attached to nodes first."),
        _boolean("PodInfoOnMount", at("spec.podInfoOnMount", False), "Whether it is told about the pod."),
        _boolean("StorageCapacity", at("spec.storageCapacity", False), "Whether it says how much storage is left."),
        _text("TokenRequests", cells.token_audiences, "For whom it asks tokens."),
        _boolean("RequiresRepublish", at("spec.requiresRepublish", False), "Whether mounts are renewed."),
        _text("Modes", lambda row: cells.joined(row.spec.get("volumeLifecycleModes") or (), otherwise=NONE),
               "Which sorts of volumes it has."),
        _AGE,
    ),
    ("storage.k8s.io", "CSIStorageCapacity"): _CREATED,
    ("storage.k8s.io", "VolumeAttachment"): (
        _NAME,
        _text("Attacher", at("spec.attacher"), "Who attaches it.", format="name"),
        _text("PV", at("spec.source.persistentVolumeName"), "The volume."),
        _text("Node", at("spec.nodeName"), "The node."),
        _boolean("Attached", at("status.attached", False), "Whether it is done."),
        _AGE,
    ),
    ("coordination.k8s.io", "Lease"): (_NAME, _text("Holder", at("spec.holderIdentity"), "Who has it."), _AGE),
    ("rbac.authorization.k8s.io", "Role"): _CREATED,
    ("rbac.authorization.k8s.io", "ClusterRole"): _CREATED,
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("resource.k8s.io", "ResourceClaim"): (
        _NAME,
        _text("State", cells.claim_state, "Whether it has its devices, and whether they are used."),
        _AGE,
    ),
    ("resource.k8s.io", "ResourceSlice"): (
        _NAME,
        _text("Node", at("spec.nodeName"), "The node that has the devices."),
        _text("Driver", at("spec.driver"), "The driver that offers the devices."),
        _text("Pool", at("spec.pool.name"), "The inventory that it is a part of."),
        _AGE,
    ),
    ("resource.k8s.io", "DeviceTaintRule"): (
        _NAME,
        _text("Key", at("spec.taint.key"), "The key of the taint."),
        _text("Value", at("spec.taint.value"), "The value of the taint."),
        _text("Effect", at("spec.taint.effect"), "What the taint does."),
        _text("TimeAdded", ago("spec.taint.timeAdded", ""), "How long ago the taint was added."),
        _AGE,
    ),
}  # fmt: skip


def _daemon_nodes(row: PrintedRow) -> Mapping[str, str] | None:
    labels: Mapping[str, str] | None = ((row.spec.get("template") or {}).get("spec") or {}).get("nodeSelector")
    return labels


def _amount(row: PrintedRow, field: str) -> str:
    amount = row.spec.get(field)
    return "N/A" if amount is None else str(amount)


def columns_of(kind: Kind) -> Columns:
    """The columns of a kind; name and age when it has none of its own."""
    return _COLUMNS.get((kind.group, kind.kind), _PLAIN)


_COMPLETED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def row_conditions(kind: Kind, row: PrintedRow) -> list[dict[str, str]]:
    """The conditions of a row of a Table: a pod that has ended is marked as completed."""
    phase = str(row.status.get("phase")) if kind.kind == "Pod" else ""
    if phase not in _COMPLETED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _COMPLETED[phase]}]
