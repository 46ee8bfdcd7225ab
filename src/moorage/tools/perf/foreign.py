"""What Kubernetes' workloads may use that is not part of Moorage: refused with a sentence, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_GROUPS = "pod groups (gang scheduling)"
_EXTENDED = "devices as extended resources"
_CONSUMABLE = "devices with consumable capacity"

OPERATIONS = {"createPodGroups": _GROUPS}
KINDS = {"PodGroup": _GROUPS, "Workload": _GROUPS}
GATES = {"NodeDeclaredFeatures": "features that nodes declare"}
"""Gates of features that leave no trace in templates: a workload uses them by turning the gate on."""
ALWAYS_ON = frozenset({
    "DRAAdminAccess", "DRADeviceTaintRules", "DRADeviceTaints", "DRAPartitionableDevices", "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus", "DynamicResourceAllocation", "InPlacePodVerticalScaling",
    "NodeInclusionPolicyInPodTopologySpread", "SchedulerAsyncAPICalls", "SchedulerAsyncPreemption",
    "SchedulerQueueingHints",
})  # fmt: skip
"""Gates of Kubernetes for features that are always on in Moorage."""

_CLAIM_FIELDS = {"exactly.capacity": _CONSUMABLE, "firstAvailable.capacity": _CONSUMABLE}
_FIELDS = {
    "DeviceClass": {"spec.extendedResourceName": _EXTENDED},
    "ResourceSlice": {"spec.devices.allowMultipleAllocations": _CONSUMABLE},
    "ResourceClaim": {f"spec.devices.requests.{path}": what for path, what in _CLAIM_FIELDS.items()},
    "ResourceClaimTemplate": {f"spec.spec.devices.requests.{path}": what for path, what in _CLAIM_FIELDS.items()},
    "Pod": {"spec.schedulingGroup": _GROUPS, "spec.workloadRef": _GROUPS},
}
"""Fields by the kind of the object: a path leads through all items of a list."""
_CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/"


def sentence(what: str) -> str:
    """The sentence that refuses a feature."""
    return f"{what} are not part of Moorage"


def in_object(data: Mapping[str, Any]) -> str:
    """What an object asks for that is not part of Moorage, with its field; empty when there is no such thing."""
    kind = str(data.get("kind"))
    if kind in KINDS:
        return sentence(KINDS[kind])
    for path, what in _FIELDS.get(kind, {}).items():
        if any(_values(data, path.split("."))):
            return f"{path}: {sentence(what)}"
    for path in ("spec.containers.resources.requests", "spec.containers.resources.limits"):
        for resources in _values(data, path.split(".")) if kind == "Pod" else ():
            for name in resources if isinstance(resources, dict) else ():
                if name.startswith(_CLASS_RESOURCE):
                    return f"{path}: {name}: {sentence(_EXTENDED)}"
    return ""


def _values(data: Any, fields: list[str]) -> Iterator[Any]:
    """All values at the end of a path."""
    for item in data if isinstance(data, list) else (data,):
        if not fields:
            yield item
        elif isinstance(item, dict) and fields[0] in item:
            yield from _values(item[fields[0]], fields[1:])
