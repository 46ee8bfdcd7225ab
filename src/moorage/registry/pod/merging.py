"""How the fields of pods, their templates and volumes merge."""

from __future__ import annotations

from dataclasses import replace

from moorage.registry.merging import ATOMIC, HEALTH, METADATA, UNPATCHED_SET, keyed, patched, pointer, struct, unpatched

RESOURCES = pointer(claims=unpatched(keyed("name")))
_VALUE_FROM = pointer(
    configMapKeyRef=ATOMIC, fieldRef=ATOMIC, fileKeyRef=ATOMIC, resourceFieldRef=ATOMIC, secretKeyRef=ATOMIC
)

_CONTAINERS = keyed(
    "name",
    item=pointer(
        env=keyed("name", item=pointer(valueFrom=_VALUE_FROM)),
        ports=keyed("containerPort", "protocol", containerPort=0, protocol="TCP"),
        resources=replace(RESOURCES, by_value=True),
        volumeDevices=keyed("devicePath"),
        volumeMounts=keyed("mountPath", item=pointer(bindMountOptions=UNPATCHED_SET)),
    ),
)

_SECRET_REF = pointer(secretRef=ATOMIC)
_SECRET_SOURCES = dict.fromkeys(("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"), _SECRET_REF)
CLAIM_SPEC = struct(dataSource=ATOMIC, resources=struct(), selector=ATOMIC)
_VOLUME = pointer(
    **_SECRET_SOURCES,
    csi=pointer(nodePublishSecretRef=ATOMIC),
    ephemeral=pointer(volumeClaimTemplate=pointer(metadata=METADATA, spec=CLAIM_SPEC)),
)

VOLUME_SPEC = struct(
    **_SECRET_SOURCES,
    csi=pointer(
        controllerExpandSecretRef=ATOMIC,
        controllerPublishSecretRef=ATOMIC,
        nodeExpandSecretRef=ATOMIC,
        nodePublishSecretRef=ATOMIC,
        nodeStageSecretRef=ATOMIC,
    ),
    nodeAffinity=pointer(required=ATOMIC),
)

POD_SPEC = struct(
    affinity=pointer(nodeAffinity=pointer(requiredDuringSchedulingIgnoredDuringExecution=ATOMIC)),
    containers=replace(_CONTAINERS, by_value=True),
    ephemeralContainers=_CONTAINERS,
    evictionResponders=keyed("name"),
    hostAliases=keyed("ip"),
    imagePullSecrets=keyed("name"),
    initContainers=_CONTAINERS,
    nodeSelector=ATOMIC,
    resourceClaims=keyed("name"),
    resources=RESOURCES,
    schedulingGates=keyed("name"),
    topologySpreadConstraints=keyed("topologyKey", "whenUnsatisfiable", item=pointer(labelSelector=ATOMIC)),
    volumes=keyed("name", item=_VOLUME),
)

POD_STATUS = struct(
    conditions=keyed("type"),
    hostIPs=patched("ip"),
    nodeAllocatableResourceClaimStatuses=keyed(
        "resourceClaimName",
        item=pointer(containers=UNPATCHED_SET, mapping=keyed("name"), overhead=keyed("name")),
    ),
    podIPs=keyed("ip"),
    resourceClaimStatuses=keyed("name"),
    resources=RESOURCES,
    volumeHealth=unpatched(keyed("name", item=pointer(healthConditions=HEALTH))),
)

TEMPLATE_SHAPE = struct(metadata=METADATA, spec=POD_SPEC)
