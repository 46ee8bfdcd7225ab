"""The defaults that the API server sets in objects of every kind before validation."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.registry.pod.defaults import (
    default_claim_spec,
    default_pod,
    default_pod_spec,
    default_volume_source,
    fill,
    round_up,
)

_RBAC = "rbac.authorization.k8s.io"
_MAX_INT32 = 2**31 - 1

_ABSENT: dict[tuple[str, str], dict[str, Any]] = {
    ("", "ReplicationController"): {"replicas": 1},
    ("apps", "Deployment"): {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    ("apps", "ReplicaSet"): {"replicas": 1},
    ("apps", "StatefulSet"): {"replicas": 1, "revisionHistoryLimit": 10},
    ("apps", "DaemonSet"): {"revisionHistoryLimit": 10},
    ("batch", "Job"): {
        "parallelism": 1, "completionMode": "NonIndexed", "suspend": False, "manualSelector": False,
    },
    ("batch", "CronJob"): {"suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1},
    ("", "PersistentVolume"): {"volumeMode": "Filesystem"},
    ("storage.k8s.io", "CSIDriver"): {
        "attachRequired": True, "podInfoOnMount": False, "storageCapacity": False, "requiresRepublish": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType", "seLinuxMount": False,
    },
}  # fmt: skip
"""Defaults of the spec for fields that are absent; an empty or zero value is kept."""

_TOP_ABSENT: dict[tuple[str, str], dict[str, Any]] = {
    ("storage.k8s.io", "StorageClass"): {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    ("scheduling.k8s.io", "PriorityClass"): {"preemptionPolicy": "PreemptLowerPriority"},
}
"""The same for fields outside of a spec."""

_EMPTY: dict[tuple[str, str], tuple[tuple[str, Any], ...]] = {
    ("apps", "StatefulSet"): (("podManagementPolicy", "OrderedReady"),),
    ("batch", "CronJob"): (("concurrencyPolicy", "Allow"),),
    ("", "PersistentVolume"): (("persistentVolumeReclaimPolicy", "Retain"),),
    ("", "Service"): (("sessionAffinity", "None"), ("type", "ClusterIP")),
}
"""Defaults of the spec for fields that are absent or empty."""

_PHASES = {
    ("", "Namespace"): "Active",
    ("", "PersistentVolume"): "Pending",
    ("", "PersistentVolumeClaim"): "Pending",
}


def apply_defaults(kind: Kind, obj: Data, now: str = "") -> None:
    """Set the defaults of an object in place, after `schema.read` has checked the types of its fields."""
    key = (kind.group, kind.kind)
    if key == ("", "Pod"):
        default_pod(obj)
        return
    if defaults := _ABSENT.get(key):
        spec = obj.setdefault("spec", {})
        before = _BEFORE.get(key)
        if before is not None:
            before(spec)
        for name, value in defaults.items():
            spec.setdefault(name, value)
    if key in _EMPTY:
        fill(obj.setdefault("spec", {}), _EMPTY[key])
    for name, value in _TOP_ABSENT.get(key, {}).items():
        obj.setdefault(name, value)
    if key in _PHASES:
        fill(obj.setdefault("status", {}), (("phase", _PHASES[key]),))
    # Only this template may be absent here; validation then reports it as required.
    if kind.pod_spec and (kind.kind != "ReplicationController" or "template" in obj["spec"]):
        _default_template(obj, kind.pod_spec)
    if finish := _MORE.get(key):
        finish(obj, now)


def give_job_selector(job: Data, uid: str) -> None:
    """Label the pods of a new Job with its uid and name, and select them by these, unless manualSelector is set."""
    spec = job.setdefault("spec", {})
    if spec.get("manualSelector"):
        return
    template = spec.setdefault("template", {})
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    name = job["metadata"].get("name", "")
    for label, value in (
        ("job-name", name),
        ("batch.kubernetes.io/job-name", name),
        ("controller-uid", uid),
        ("batch.kubernetes.io/controller-uid", uid),
    ):
        labels.setdefault(label, value)
    chosen = spec.setdefault("selector", {}).setdefault("matchLabels", {})
    chosen.setdefault("batch.kubernetes.io/controller-uid", uid)


def _default_template(obj: Data, path: str) -> None:
    part = obj
    for name in path.split("."):
        part = part.setdefault(name, {})
    default_pod_spec(part)


def _before_job(spec: Data) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("backoffLimit", _MAX_INT32 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")


_BEFORE: dict[tuple[str, str], Callable[[Data], None]] = {("batch", "Job"): _before_job}


def _job(obj: Data, _: str) -> None:
    labels = obj["spec"]["template"].get("metadata", {}).get("labels")
    metadata = obj.setdefault("metadata", {})
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)
    _failure_policy(obj["spec"])


def _cron_job(obj: Data, _: str) -> None:
    _failure_policy(obj["spec"]["jobTemplate"]["spec"])


def _failure_policy(spec: Data) -> None:
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            fill(pattern, (("status", "True"),))


def _deployment(obj: Data, _: str) -> None:
    _rolling(obj["spec"].setdefault("strategy", {}), {"maxUnavailable": "25%", "maxSurge": "25%"})


def _daemon_set(obj: Data, _: str) -> None:
    _rolling(obj["spec"].setdefault("updateStrategy", {}), {"maxUnavailable": 1, "maxSurge": 0})


def _replication_controller(obj: Data, _: str) -> None:
    spec = obj["spec"]
    if labels := spec.get("template", {}).get("metadata", {}).get("labels"):
        fill(spec, (("selector", dict(labels)),))
        fill(obj.setdefault("metadata", {}), (("labels", dict(labels)),))


def _rolling(strategy: Data, defaults: Data) -> None:
    fill(strategy, (("type", "RollingUpdate"),))
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        for name, value in defaults.items():
            rolling.setdefault(name, value)


def _stateful_set(obj: Data, _: str) -> None:
    spec = obj["spec"]
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    fill(retention, (("whenDeleted", "Retain"), ("whenScaled", "Retain")))
    for claim in spec.get("volumeClaimTemplates", ()):
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        fill(claim.setdefault("status", {}), (("phase", "Pending"),))
        default_claim_spec(claim.setdefault("spec", {}))


def _service(obj: Data, _: str) -> None:
    spec = obj["spec"]
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        config.setdefault("timeoutSeconds", 10800)
    for port in spec.get("ports", ()):
        fill(port, (("protocol", "TCP"),))
        if port.get("port"):
            fill(port, (("targetPort", port["port"]),))
    kind = spec["type"]
    if kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and spec.get("externalIPs")):
        fill(spec, (("externalTrafficPolicy", "Cluster"),))
    if kind in ("LoadBalancer", "NodePort", "ClusterIP"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in obj.get("status", {}).get("loadBalancer", {}).get("ingress", ()):
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _namespace(obj: Data, _: str) -> None:
    metadata = obj.setdefault("metadata", {})
    if name := metadata.get("name"):
        metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _secret(obj: Data, _: str) -> None:
    fill(obj, (("type", "Opaque"),))
    plain = obj.pop("stringData", None)
    if plain:
        encoded = {name: b64encode(text.encode("utf-8", "surrogatepass")).decode() for name, text in plain.items()}
        obj["data"] = obj.get("data", {}) | encoded


def _node(obj: Data, _: str) -> None:
    status = obj.get("status", {})
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])
    for part in status.keys() & {"capacity", "allocatable"}:
        round_up(status[part])
    spec = obj.get("spec", {})
    first, ranges = spec.get("podCIDR"), spec.get("podCIDRs")
    if first and (not ranges or ranges[0] != first):
        spec["podCIDRs"] = [first]
    elif ranges and not first:
        spec["podCIDR"] = ranges[0]


def _volume(obj: Data, _: str) -> None:
    default_volume_source(obj["spec"])
    round_up(obj["spec"].get("capacity", {}))


def _claim(obj: Data, _: str) -> None:
    default_claim_spec(obj.setdefault("spec", {}))
    for part in obj["status"].keys() & {"capacity", "allocatedResources"}:
        round_up(obj["status"][part])


def _csi_driver(obj: Data, _: str) -> None:
    fill(obj["spec"], (("volumeLifecycleModes", ["Persistent"]),))


def _volume_attachment(obj: Data, _: str) -> None:
    default_volume_source(obj.get("spec", {}).get("source", {}).get("inlineVolumeSpec", {}))


def _role_binding(obj: Data, _: str) -> None:
    fill(obj.setdefault("roleRef", {}), (("apiGroup", _RBAC),))
    for subject in obj.get("subjects", ()):
        if subject.get("kind") in ("User", "Group"):
            fill(subject, (("apiGroup", _RBAC),))


def _resource_claim(obj: Data, _: str) -> None:
    _requests(obj.get("spec", {}))
    for result in obj.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()):
        _tolerations(result)


def _resource_claim_template(obj: Data, _: str) -> None:
    _requests(obj.get("spec", {}).get("spec", {}))


def _requests(spec: Data) -> None:
    for request in spec.get("devices", {}).get("requests", ()):
        ways = [request["exactly"]] if "exactly" in request else []
        for way in [*ways, *request.get("firstAvailable", ())]:
            fill(way, (("allocationMode", "ExactCount"),))
            if way["allocationMode"] == "ExactCount":
                fill(way, (("count", 1),))
            _tolerations(way)


def _tolerations(holder: Data) -> None:
    for toleration in holder.get("tolerations", ()):
        # An expression replaces key, operator and value.
        if not toleration.get("expression"):
            fill(toleration, (("operator", "Equal"),))


def _runtime_class(obj: Data, _: str) -> None:
    if fixed := (obj.get("overhead") or {}).get("podFixed"):
        round_up(fixed)


def _resource_slice(obj: Data, now: str) -> None:
    for device in obj.get("spec", {}).get("devices", ()):
        for taint in device.get("taints", ()):
            _stamp(taint, now)


def _device_taint_rule(obj: Data, now: str) -> None:
    _stamp(obj.setdefault("spec", {}).setdefault("taint", {}), now)


def _stamp(taint: Data, now: str) -> None:
    if "timeAdded" not in taint:
        taint["timeAdded"] = now or f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}Z"


_MORE: dict[tuple[str, str], Callable[[Data, str], None]] = {
    ("", "Namespace"): _namespace,
    ("", "Node"): _node,
    ("", "PersistentVolume"): _volume,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "ReplicationController"): _replication_controller,
    ("", "Secret"): _secret,
    ("", "Service"): _service,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "CronJob"): _cron_job,
    ("batch", "Job"): _job,
    ("node.k8s.io", "RuntimeClass"): _runtime_class,
    ("storage.k8s.io", "CSIDriver"): _csi_driver,
    ("storage.k8s.io", "VolumeAttachment"): _volume_attachment,
    (_RBAC, "ClusterRoleBinding"): _role_binding,
    (_RBAC, "RoleBinding"): _role_binding,
    ("resource.k8s.io", "DeviceTaintRule"): _device_taint_rule,
    ("resource.k8s.io", "ResourceClaim"): _resource_claim,
    ("resource.k8s.io", "ResourceClaimTemplate"): _resource_claim_template,
    ("resource.k8s.io", "ResourceSlice"): _resource_slice,
}
