"""Pods."""

from __future__ import annotations

from typing import Any

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry import selectable
from moorage.registry.merging import shape
from moorage.registry.pod.admission import PRIORITY_CLASSES, RUNTIME_CLASSES, admit_pod
from moorage.registry.pod.defaults import default_pod
from moorage.registry.pod.limits import POD_LIMITS, give_defaults, limit_pod
from moorage.registry.pod.merging import POD_SPEC, POD_STATUS
from moorage.registry.pod.pods import pod_errors, pod_status_errors, pod_warnings
from moorage.registry.pod.printing import COLUMNS, row_conditions
from moorage.registry.pod.qos import qos_class
from moorage.registry.pod.subresources import ephemeral_errors, resize_errors, resized, with_ephemeral_containers
from moorage.registry.pod.usage import POD_USAGE
from moorage.registry.state import State
from moorage.registry.strategy import SPEC, Part, Strategy

_GATED = "Scheduling is blocked due to non-empty scheduling gates"
_AFFINITY_LISTS = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def _create(obj: Data, now: str) -> None:
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


def _limit_new(new: Data, old: Data | None, state: State) -> None:
    """Resources of a pod change only by a resize."""
    if old is None:
        limit_pod(new, None, state)


def _update_status(new: Data, old: Data, _: str) -> None:
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


def _address(item: Data) -> str:
    status = item.get("status")
    addresses = status.get("podIPs") if isinstance(status, dict) else None
    if not isinstance(addresses, list) or not addresses or not isinstance(addresses[0], dict):
        return ""
    return selectable.text(addresses[0].get("ip"), "")


POD = Strategy(
    kind=kinds.row("v1", "Pod"),
    prefix_checked=("create",),
    defaults=default_pod,
    create=_create,
    update_status=_update_status,
    parts={
        "ephemeralcontainers": Part(with_ephemeral_containers, ephemeral_errors),
        "resize": Part(resized, resize_errors, admit=give_defaults, limits=limit_pod),
    },
    depends_on=(PRIORITY_CLASSES, RUNTIME_CLASSES, POD_LIMITS),
    admit=admit_pod,
    limits=_limit_new,
    usage=POD_USAGE,
    own_fields=("ephemeral", "matchLabelKeys", "mismatchLabelKeys"),
    errors=pod_errors,
    status_errors=pod_status_errors,
    warnings=pod_warnings,
    status_keeps=("deletionTimestamp", "ownerReferences"),
    first_generation=1,
    counted=SPEC,
    fields={
        **selectable.NAMES,
        "spec.nodeName": selectable.at("spec.nodeName"),
        "spec.host": selectable.at("spec.nodeName"),
        "spec.restartPolicy": selectable.at("spec.restartPolicy"),
        "spec.schedulerName": selectable.at("spec.schedulerName"),
        "spec.serviceAccountName": selectable.at("spec.serviceAccountName"),
        "spec.hostNetwork": selectable.at("spec.hostNetwork", "false"),
        "status.phase": selectable.at("status.phase"),
        "status.podIP": _address,
        "status.podIPs": lambda _: "",
        "status.nominatedNodeName": selectable.at("status.nominatedNodeName"),
    },
    merge=shape(spec=POD_SPEC, status=POD_STATUS),
    columns=COLUMNS,
    row_conditions=row_conditions,
)
