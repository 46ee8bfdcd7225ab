"""A small object of every kind that is served."""

from __future__ import annotations

from typing import Any

from moorage.api.kinds import KINDS, Kind

Data = dict[str, Any]

_LABELS = {"app": "it"}
_SELECTOR = {"matchLabels": _LABELS}
_CONTAINERS = {"containers": [{"name": "app", "image": "myapp"}]}
_TEMPLATE = {"metadata": {"labels": _LABELS}, "spec": _CONTAINERS}
_JOB = {"template": {"spec": {**_CONTAINERS, "restartPolicy": "Never"}}}
_STORAGE = {"storage": "1Gi"}
_RULE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
_REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
_ABOUT = {"kind": "Pod", "namespace": "default", "name": "it"}
_TAINT = {"key": "broken", "value": "yes", "effect": "NoSchedule"}


def _role_of(kind: str) -> Data:
    return {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "view"}}


_FIELDS: dict[str, Data] = {
    "Pod": {"spec": _CONTAINERS},
    "PersistentVolume": {
        "spec": {"capacity": _STORAGE, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
    },
    "PersistentVolumeClaim": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": _STORAGE}}},
    "Service": {"spec": {"ports": [{"port": 80}], "selector": _LABELS}},
    "PodTemplate": {"template": _TEMPLATE},
    "ReplicationController": {"spec": {"selector": _LABELS, "template": _TEMPLATE}},
    "Deployment": {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}},
    "ReplicaSet": {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}},
    "StatefulSet": {"spec": {"selector": _SELECTOR, "template": _TEMPLATE, "serviceName": "it"}},
    "DaemonSet": {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}},
    "ControllerRevision": {"revision": 1, "data": {}},
    "Job": {"spec": _JOB},
    "CronJob": {"spec": {"schedule": "@daily", "jobTemplate": {"spec": _JOB}}},
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": _SELECTOR}},
    "RuntimeClass": {"handler": "runc"},
    "PriorityClass": {"value": 10},
    "StorageClass": {"provisioner": "example.com/disk"},
    "CSINode": {"spec": {"drivers": []}},
    "CSIDriver": {"spec": {}},
    "VolumeAttachment": {
        "spec": {"attacher": "example.com", "nodeName": "it", "source": {"persistentVolumeName": "it"}}
    },
    "CSIStorageCapacity": {"storageClassName": "it"},
    "RoleBinding": _role_of("ClusterRole"),
    "ClusterRoleBinding": _role_of("ClusterRole"),
    "Role": {"rules": [_RULE]},
    "ClusterRole": {"rules": [_RULE]},
    "ResourceSlice": {
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "it",
            "pool": {"name": "it", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        }
    },
    "ResourceClaim": {"spec": _REQUESTS},
    "ResourceClaimTemplate": {"spec": {"spec": _REQUESTS}},
    "DeviceClass": {"spec": {}},
    "DeviceTaintRule": {"spec": {"taint": _TAINT}},
}
_EVENTS: dict[str, Data] = {
    "": {"involvedObject": _ABOUT},
    "events.k8s.io": {
        "regarding": _ABOUT,
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/it",
        "reportingInstance": "it",
        "action": "Testing",
        "reason": "Tested",
        "type": "Normal",
    },
}


def manifest(kind: Kind, name: str, namespace: str = "default") -> Data:
    """An object that may be created as it is."""
    fields = _EVENTS[kind.group] if kind.kind == "Event" else _FIELDS.get(kind.kind, {})
    metadata = {"name": name} | ({"namespace": namespace} if kind.namespaced else {})
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}


def collection(kind: Kind, namespace: str = "default") -> str:
    """The path under which all objects of a kind are."""
    base = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    return f"{base}/namespaces/{namespace}/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"


assert {kind.kind for kind in KINDS} >= _FIELDS.keys()
