"""The strategy of each kind: the initial status of a new object, and the fields that an update keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.registry import schema
from moorage.registry.pod.qos import qos_class
from moorage.registry.serviceupdates import update_service

GENERATIONS = frozenset((
    "Pod", "ReplicationController", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob",
    "PodDisruptionBudget", "DeviceClass", "DeviceTaintRule", "ResourceSlice", "PriorityClass", "PodTemplate",
))  # fmt: skip
"""Kinds whose objects have a generation."""
_SPEC_ONLY = GENERATIONS - {"PriorityClass"} | {"CSIDriver"}
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_GATED = "Scheduling is blocked due to non-empty scheduling gates"
_AFFINITY_LISTS = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def on_create(kind: Kind, obj: Data, now: str) -> None:
    """Set the initial status of a new object; a status that the client sent is dropped."""
    if "status" in kind.subresources and kind.kind != "Node":
        obj["status"] = {}
    if prepare := _ON_CREATE.get(kind.kind):
        prepare(obj, now)


def on_update(kind: Kind, new: Data, old: Data, subresource: str, now: str) -> None:
    """Keep the fields that this update must not change, and increase the generation when the spec changes."""
    if subresource == "status":
        _keep(new, old, (name for name in old.keys() | new.keys() if name not in ("metadata", "status")))
        for name in _STATUS_METADATA.get(kind.kind, ()):
            _keep(new["metadata"], old["metadata"], (name,))
        if prepare := _ON_STATUS.get(kind.kind):
            prepare(new.setdefault("status", {}), old.get("status", {}), now)
        return
    if "status" in kind.subresources:
        _keep(new, old, ("status",))
    if subresource in _PARTS:
        _keep(new["metadata"], old["metadata"], _RESET_METADATA)
        new["spec"] = _PARTS[subresource](new.get("spec", {}), old.get("spec", {}))
    elif not subresource and (update := _ON_UPDATE.get(kind.kind)):
        update(new, old, now)
    if kind.kind in _SPEC_ONLY and _is_changed(kind, new, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _is_changed(kind: Kind, new: Data, old: Data) -> bool:
    if not schema.same(kind, new, old, "template" if kind.kind == "PodTemplate" else "spec"):
        return True
    return kind.kind == "Deployment" and not schema.same(kind, new, old, "metadata", "annotations")


def _keep(new: Data, old: Data, names: Iterable[str]) -> None:
    for name in names:
        if name in old:
            new[name] = old[name]
        else:
            new.pop(name, None)


def _create_pod(obj: Data, now: str) -> None:
    spec = obj.setdefault("spec", {})
    status: Data = {"phase": "Pending", "qosClass": qos_class(spec)}
    obj["status"] = status
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": _GATED,
                "lastTransitionTime": now,
            }
        ]
    labels = obj.get("metadata", {}).get("labels", {})
    for constraint in spec.get("topologySpreadConstraints", ()):
        _select_alike(constraint, labels)
    affinity = spec.get("affinity")
    for side in ("podAffinity", "podAntiAffinity") if affinity else ():
        for name in _AFFINITY_LISTS:
            for term in affinity.get(side, {}).get(name, ()):
                _select_alike(term.get("podAffinityTerm", {}) if name == _AFFINITY_LISTS[1] else term, labels)


def _select_alike(term: Data, labels: dict[str, str]) -> None:
    """Turn `matchLabelKeys` into requirements on the values of the pod's own labels."""
    selector = term.get("labelSelector")
    if selector is None:
        return
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(field, ()):
            if key in labels:
                condition = {"key": key, "operator": operator, "values": [labels[key]]}
                selector.setdefault("matchExpressions", []).append(condition)


def _create_namespace(obj: Data, _: str) -> None:
    obj["status"] = {"phase": "Active"}
    finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    _label_namespace(obj)


def _label_namespace(obj: Data) -> None:
    metadata = obj["metadata"]
    metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata.get("name", "")


def _create_volume(obj: Data, now: str) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}


def _create_claim(obj: Data, _: str) -> None:
    obj["status"] = {"phase": "Pending"}
    _settle_data_source(obj)


def _create_daemon_set(obj: Data, _: str) -> None:
    obj["metadata"].setdefault("annotations", {}).setdefault(_TEMPLATE_GENERATION, "1")


def _create_service(obj: Data, _: str) -> None:
    obj["status"] = {"loadBalancer": {}}


def _plain_secrets(obj: Data, *_: Any) -> None:
    """Reduce the secrets of a ServiceAccount to their names."""
    if "secrets" in obj:
        obj["secrets"] = [{"name": secret["name"]} for secret in obj["secrets"] if secret.get("name")]


def _settle_data_source(obj: Data, *_: Any) -> None:
    """Keep dataSource and dataSourceRef of a claim consistent."""
    spec = obj.setdefault("spec", {})
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source and not reference:
        spec["dataSourceRef"] = dict(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = {name: value for name, value in reference.items() if name != "namespace"}


_ON_CREATE: dict[str, Callable[[Data, str], None]] = {
    "Pod": _create_pod,
    "Namespace": _create_namespace,
    "PersistentVolume": _create_volume,
    "PersistentVolumeClaim": _create_claim,
    "Service": _create_service,
    "ServiceAccount": _plain_secrets,
    "DaemonSet": _create_daemon_set,
}


def _update_namespace(new: Data, old: Data, _: str) -> None:
    _keep(new.setdefault("spec", {}), old.get("spec", {}), ("finalizers",))
    _label_namespace(new)


def _update_daemon_set(new: Data, old: Data, _: str) -> None:
    count = old["metadata"].get("annotations", {}).get(_TEMPLATE_GENERATION, "1")
    before, after = old.get("spec", {}).get("template"), new.get("spec", {}).get("template")
    if before != after and count.isdecimal():
        count = str(int(count) + 1)
    new["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = count


def _update_taint_rule(new: Data, old: Data, now: str) -> None:
    taint = new.get("spec", {}).get("taint", {})
    before = old.get("spec", {}).get("taint", {})
    if now and taint.get("effect") != before.get("effect") and taint.get("timeAdded") == before.get("timeAdded"):
        taint["timeAdded"] = now


_ON_UPDATE: dict[str, Callable[[Data, Data, str], None]] = {
    "Namespace": _update_namespace,
    "PersistentVolumeClaim": _settle_data_source,
    "Service": update_service,
    "ServiceAccount": _plain_secrets,
    "DaemonSet": _update_daemon_set,
    "DeviceTaintRule": _update_taint_rule,
}


def _pod_status(new: Data, old: Data, _: str) -> None:
    for name in ("qosClass", "observedGeneration"):
        if not new.get(name) and name in old:
            new[name] = old[name]
    generations: dict[str, list[Any]] = {}
    for condition in old.get("conditions", ()):
        generations.setdefault(condition.get("type", ""), []).append(condition.get("observedGeneration"))
    for condition in new.get("conditions", ()):
        before = generations.get(condition.get("type", ""))
        generation = before.pop(0) if before else None
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def _volume_status(new: Data, old: Data, now: str) -> None:
    field = "lastPhaseTransitionTime"
    if new.get("phase") == old.get("phase"):
        if field not in new and field in old:
            new[field] = old[field]
    elif now and new.get(field) in (None, old.get(field)):
        new[field] = now


_ON_STATUS: dict[str, Callable[[Data, Data, str], None]] = {
    "Pod": _pod_status,
    "PersistentVolume": _volume_status,
}

_RESET_METADATA = ("deletionTimestamp", "labels", "annotations", "finalizers", "ownerReferences")
_STATUS_METADATA = {
    "Pod": ("deletionTimestamp", "ownerReferences"),
    "Deployment": ("labels",),
    "ResourceClaim": _RESET_METADATA,
    "DeviceTaintRule": _RESET_METADATA,
}
"""Metadata that an update of the status cannot change."""


def _ephemeral_containers(new: Data, old: Data) -> Data:
    spec = dict(old)
    _keep(spec, new, ("ephemeralContainers",))
    return spec


def _resized(new: Data, old: Data) -> Data:
    """The old spec with the new resources."""
    spec = dict(old)
    _keep(spec, new, ("resources",))
    for field in ("containers", "initContainers"):
        before, after = old.get(field, []), new.get(field, [])
        if [container.get("name") for container in before] != [container.get("name") for container in after]:
            return new  # validation reports it
        merged = [dict(container) for container in before]
        for container, resized in zip(merged, after, strict=True):
            _keep(container, resized, ("resources", "resizePolicy"))
        if merged:
            spec[field] = merged
    return spec


_PARTS: dict[str, Callable[[Data, Data], Data]] = {
    "ephemeralcontainers": _ephemeral_containers,
    "resize": _resized,
}
