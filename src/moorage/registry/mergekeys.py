"""How the fields of each kind merge: lists with keys, sets, and atomic maps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class MergeShape:
    """How the value of one field merges; for a list with keys, `fields` are those of its items.

    A field without a shape is plain: a map merges key by key, a list is atomic.
    """

    fields: Mapping[str, MergeShape] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    """The list map keys of server-side apply, in alphabetical order."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """The defaults of absent keys; an absent key without a default is left out of the item's name."""
    is_set: bool = False
    atomic: bool = False
    """A map that one manager owns as a whole."""
    by_value: bool = False
    """In Go not a pointer and thus always there, so nobody owns the field itself, only the fields in it."""
    merge_key: str = ""
    """The merge key of a strategic merge patch."""
    merges: bool = False
    """A strategic merge patch merges this list instead of replacing it."""
    replaces: bool = False
    """A strategic merge patch replaces this map instead of merging into it."""
    associative: bool = False
    """Managers own the items of this list separately."""


PLAIN = MergeShape()
_ATOMIC = MergeShape(atomic=True)
_SET = MergeShape(is_set=True, merges=True, associative=True)
_UNPATCHED_SET = replace(_SET, merges=False)


def _pointer(**fields: MergeShape) -> MergeShape:
    return MergeShape(fields)


def _struct(**fields: MergeShape) -> MergeShape:
    return MergeShape(fields, by_value=True)


def _keyed(*keys: str, item: MergeShape = PLAIN, **defaults: Any) -> MergeShape:
    """A list with keys, of which the first is also the merge key."""
    filled = {key: defaults.get(key, "") for key in keys if defaults.get(key, "") is not None}
    return MergeShape(item.fields, tuple(sorted(keys)), filled, merge_key=keys[0], merges=True, associative=True)


def _unpatched(shape: MergeShape) -> MergeShape:
    return replace(shape, merge_key="", merges=False)


def _patched(merge_key: str) -> MergeShape:
    """A list with a merge key that is atomic in server-side apply."""
    return MergeShape(merge_key=merge_key, merges=True)


_METADATA = _struct(ownerReferences=_keyed("uid"), finalizers=_SET)
_CONDITIONS = _struct(conditions=_keyed("type"))
_HEALTH = _keyed("status", "reason")

_RESOURCES = _pointer(claims=_unpatched(_keyed("name")))
_VALUE_FROM = _pointer(
    configMapKeyRef=_ATOMIC, fieldRef=_ATOMIC, fileKeyRef=_ATOMIC, resourceFieldRef=_ATOMIC, secretKeyRef=_ATOMIC
)
_CONTAINERS = _keyed(
    "name",
    item=_pointer(
        env=_keyed("name", item=_pointer(valueFrom=_VALUE_FROM)),
        ports=_keyed("containerPort", "protocol", containerPort=0, protocol="TCP"),
        resources=replace(_RESOURCES, by_value=True),
        volumeDevices=_keyed("devicePath"),
        volumeMounts=_keyed("mountPath", item=_pointer(bindMountOptions=_UNPATCHED_SET)),
    ),
)

_SECRET_REF = _pointer(secretRef=_ATOMIC)
_SECRET_SOURCES = dict.fromkeys(("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"), _SECRET_REF)
_CLAIM_SPEC = _struct(dataSource=_ATOMIC, resources=_struct(), selector=_ATOMIC)
_VOLUME = _pointer(
    **_SECRET_SOURCES,
    csi=_pointer(nodePublishSecretRef=_ATOMIC),
    ephemeral=_pointer(volumeClaimTemplate=_pointer(metadata=_METADATA, spec=_CLAIM_SPEC)),
)
_VOLUME_SPEC = _struct(
    **_SECRET_SOURCES,
    csi=_pointer(
        controllerExpandSecretRef=_ATOMIC,
        controllerPublishSecretRef=_ATOMIC,
        nodeExpandSecretRef=_ATOMIC,
        nodePublishSecretRef=_ATOMIC,
        nodeStageSecretRef=_ATOMIC,
    ),
    nodeAffinity=_pointer(required=_ATOMIC),
)

_POD_SPEC = _struct(
    affinity=_pointer(nodeAffinity=_pointer(requiredDuringSchedulingIgnoredDuringExecution=_ATOMIC)),
    containers=replace(_CONTAINERS, by_value=True),
    ephemeralContainers=_CONTAINERS,
    evictionResponders=_keyed("name"),
    hostAliases=_keyed("ip"),
    imagePullSecrets=_keyed("name"),
    initContainers=_CONTAINERS,
    nodeSelector=_ATOMIC,
    resourceClaims=_keyed("name"),
    resources=_RESOURCES,
    schedulingGates=_keyed("name"),
    topologySpreadConstraints=_keyed("topologyKey", "whenUnsatisfiable", item=_pointer(labelSelector=_ATOMIC)),
    volumes=_keyed("name", item=_VOLUME),
)
_POD_STATUS = _struct(
    conditions=_keyed("type"),
    hostIPs=_patched("ip"),
    nodeAllocatableResourceClaimStatuses=_keyed(
        "resourceClaimName",
        item=_pointer(containers=_UNPATCHED_SET, mapping=_keyed("name"), overhead=_keyed("name")),
    ),
    podIPs=_keyed("ip"),
    resourceClaimStatuses=_keyed("name"),
    resources=_RESOURCES,
    volumeHealth=_unpatched(_keyed("name", item=_pointer(healthConditions=_HEALTH))),
)
_TEMPLATE = _struct(metadata=_METADATA, spec=_POD_SPEC)
_JOB_SPEC = _struct(
    scheduling=_pointer(resourceClaims=_keyed("name")), selector=_ATOMIC, template=_TEMPLATE
)  # fmt: skip
_DEVICES_SPEC = _struct(devices=_struct())
_UNPATCHED_CONDITIONS = _pointer(conditions=_unpatched(_keyed("type")))


def _kind(**fields: MergeShape) -> MergeShape:
    return MergeShape({"metadata": _METADATA, "spec": _struct(), "status": _struct(), **fields})


OBJECT = _kind()
"""The shape of kinds that have no merge keys of their own."""

_SHAPES = {
    ("", "Namespace"): _kind(status=_CONDITIONS),
    ("", "Node"): _kind(
        spec=_struct(podCIDRs=_SET, podPreemptionPolicy=_pointer(disableResizePreemption=_UNPATCHED_SET)),
        status=_struct(
            addresses=_keyed("type"),
            conditions=_keyed("type"),
            daemonEndpoints=_struct(kubeletEndpoint=_struct()),
            nodeInfo=_struct(),
        ),
    ),
    ("", "Pod"): _kind(spec=_POD_SPEC, status=_POD_STATUS),
    ("", "PersistentVolume"): _kind(spec=_VOLUME_SPEC),
    ("", "PersistentVolumeClaim"): _kind(
        spec=_CLAIM_SPEC,
        status=_struct(conditions=_keyed("type"), healthStatus=_pointer(healthConditions=_HEALTH)),
    ),
    ("", "ServiceAccount"): _kind(secrets=_keyed("name", name=None)),
    ("", "Service"): _kind(
        spec=_struct(ports=_keyed("port", "protocol", port=0, protocol="TCP"), selector=_ATOMIC),
        status=_struct(conditions=_keyed("type"), loadBalancer=_struct()),
    ),
    ("", "Event"): _kind(involvedObject=replace(_ATOMIC, by_value=True), related=_ATOMIC, source=_struct()),
    ("", "PodTemplate"): _kind(template=_TEMPLATE),
    ("", "ReplicationController"): _kind(
        spec=_struct(selector=_ATOMIC, template=_pointer(metadata=_METADATA, spec=_POD_SPEC)), status=_CONDITIONS
    ),
    ("apps", "Deployment"): _kind(
        spec=_struct(selector=_ATOMIC, strategy=_struct(), template=_TEMPLATE), status=_CONDITIONS
    ),
    ("apps", "ReplicaSet"): _kind(spec=_struct(selector=_ATOMIC, template=_TEMPLATE), status=_CONDITIONS),
    ("apps", "StatefulSet"): _kind(
        spec=_struct(selector=_ATOMIC, template=_TEMPLATE, updateStrategy=_struct()), status=_CONDITIONS
    ),
    ("apps", "DaemonSet"): _kind(
        spec=_struct(selector=_ATOMIC, template=_TEMPLATE, updateStrategy=_struct()), status=_CONDITIONS
    ),
    ("batch", "Job"): _kind(
        spec=_JOB_SPEC,
        status=_struct(
            conditions=_patched("type"),
            uncountedTerminatedPods=_pointer(failed=_UNPATCHED_SET, succeeded=_UNPATCHED_SET),
        ),
    ),
    ("batch", "CronJob"): _kind(spec=_struct(jobTemplate=_struct(metadata=_METADATA, spec=_JOB_SPEC))),
    ("node.k8s.io", "RuntimeClass"): _kind(scheduling=_pointer(nodeSelector=_ATOMIC)),
    ("policy", "PodDisruptionBudget"): _kind(
        spec=_struct(selector=replace(_ATOMIC, replaces=True)), status=_CONDITIONS
    ),
    ("storage.k8s.io", "CSINode"): _kind(
        spec=_struct(drivers=replace(_keyed("name"), by_value=True)), status=_struct(storageHealth=_keyed("name"))
    ),
    ("storage.k8s.io", "CSIDriver"): _kind(spec=_struct(volumeLifecycleModes=_UNPATCHED_SET)),
    ("storage.k8s.io", "VolumeAttachment"): _kind(
        spec=_struct(source=_struct(inlineVolumeSpec=replace(_VOLUME_SPEC, by_value=False)))
    ),
    ("storage.k8s.io", "CSIStorageCapacity"): _kind(nodeTopology=_ATOMIC),
    ("events.k8s.io", "Event"): _kind(
        deprecatedSource=_struct(), regarding=replace(_ATOMIC, by_value=True), related=_ATOMIC
    ),
    ("rbac.authorization.k8s.io", "RoleBinding"): _kind(roleRef=replace(_ATOMIC, by_value=True)),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _kind(roleRef=replace(_ATOMIC, by_value=True)),
    ("resource.k8s.io", "ResourceSlice"): _kind(
        spec=_struct(nodeSelector=_ATOMIC, pool=_struct(), skipNodeOperations=_UNPATCHED_SET)
    ),
    ("resource.k8s.io", "ResourceClaim"): _kind(
        spec=_DEVICES_SPEC,
        status=_struct(
            allocation=_pointer(devices=_struct(), nodeSelector=_ATOMIC),
            devices=_unpatched(_keyed("driver", "device", "pool", "shareID", shareID=None, item=_UNPATCHED_CONDITIONS)),
            reservedFor=_keyed("uid"),
        ),
    ),
    ("resource.k8s.io", "ResourceClaimTemplate"): _kind(spec=_struct(metadata=_METADATA, spec=_DEVICES_SPEC)),
    ("resource.k8s.io", "DeviceTaintRule"): _kind(spec=_struct(taint=_struct()), status=_CONDITIONS),
}


def shape_of(group: str, kind: str) -> MergeShape:
    """How objects of a kind merge."""
    return _SHAPES.get((group, kind), OBJECT)
