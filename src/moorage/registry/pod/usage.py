"""What a pod uses of a quota, and the scopes that it is in."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

from moorage.api.pod import Pod, PodAffinityTerm, PodSpec
from moorage.api.quota import ScopedResourceSelectorRequirement
from moorage.quantity import Quantity
from moorage.registry.pod.resources import is_extended, is_native
from moorage.registry.pod.totals import LIMITS, REQUESTS, pod_level, quantities, total
from moorage.registry.usage import ONE, Quantities, Usage, add, requires

_PODS = "pods"
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_REQUESTS, _LIMITS, _HUGE = "requests.", "limits.", "hugepages-"
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
_NAMES = frozenset((_PODS, *(prefix + name for prefix in ("", _REQUESTS, _LIMITS) for name in _COMPUTE)))
_REQUIRED = frozenset(prefix + name for prefix in ("", _REQUESTS, _LIMITS) for name in ("cpu", "memory"))
"""Every container must say how much of these it needs, when a quota limits them."""


def _amounts(pod: Pod, now: datetime) -> Quantities:
    """What a pod uses until it has finished, or should long be gone."""
    if pod.status.phase in ("Succeeded", "Failed") or _is_overdue(pod, now):
        return {}
    spec, overhead = pod.spec, quantities(pod.spec.overhead)
    requests = total(spec, REQUESTS) | _pod_level(spec, REQUESTS)
    add(requests, overhead)
    limits = total(spec, LIMITS) | _pod_level(spec, LIMITS)
    add(limits, {name: amount for name, amount in overhead.items() if name in limits and limits[name].nano})
    return {_PODS: ONE, **_compute(requests, limits)}


def _pod_level(spec: PodSpec, part: str) -> Quantities:
    amounts = pod_level(spec, part)
    return {name: amount for name, amount in amounts.items() if name in _COMPUTE[:2] or name.startswith(_HUGE)}


def _is_overdue(pod: Pod, now: datetime) -> bool:
    deleted, grace = pod.metadata.deletion_timestamp, pod.metadata.deletion_grace_period_seconds
    return deleted is not None and grace is not None and now > deleted + timedelta(seconds=grace)


def _compute(requests: Quantities, limits: Quantities) -> Quantities:
    """The resources of a pod or container under the names that quotas have for them."""
    used: dict[str, Quantity] = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(_HUGE):
            used[name] = used[_REQUESTS + name] = amount
        elif is_extended(name) or name.startswith(_DEVICE_CLASS):
            used[_REQUESTS + name] = amount
    used.update((_LIMITS + name, limits[name]) for name in _COMPUTE if name in limits)
    return used


def _is_name(name: str) -> bool:
    if name in _NAMES or name.startswith((_HUGE, _REQUESTS + _HUGE, _REQUESTS + _DEVICE_CLASS)):
        return True
    return name.startswith(_REQUESTS) and not is_native(name)


def _missing(pod: Pod, limited: Collection[str]) -> str:
    if pod.spec.resources is not None and (pod.spec.resources.requests or pod.spec.resources.limits):
        return ""
    lacking: dict[str, set[str]] = {}
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        resources = container.resources
        said = _compute(quantities(resources.requests), quantities(resources.limits))
        for name in limited:
            if name in _REQUIRED and name not in said:
                lacking.setdefault(name, set()).add(container.name)
    parts = (f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking))
    return f"must specify {'; '.join(parts)}" if lacking else ""


def _matches(pod: Pod, selector: ScopedResourceSelectorRequirement) -> bool:
    match selector.scope_name:
        case "Terminating":
            return _is_terminating(pod)
        case "NotTerminating":
            return not _is_terminating(pod)
        case "BestEffort":
            return pod.status.qos_class == "BestEffort"
        case "NotBestEffort":
            return pod.status.qos_class != "BestEffort"
        case "PriorityClass":
            return requires(selector, [pod.spec.priority_class_name] if pod.spec.priority_class_name else [])
        case "CrossNamespacePodAffinity":
            return any(term.namespaces or term.namespace_selector is not None for term in _affinity_terms(pod))
    return False


def _is_terminating(pod: Pod) -> bool:
    deadline = pod.spec.active_deadline_seconds
    return deadline is not None and deadline >= 0


def _affinity_terms(pod: Pod) -> Iterator[PodAffinityTerm]:
    affinity = pod.spec.affinity
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ():
        if side is not None:
            yield from side.required_during_scheduling_ignored_during_execution
            preferred = side.preferred_during_scheduling_ignored_during_execution
            yield from (weighted.pod_affinity_term for weighted in preferred)


POD_USAGE = Usage(amounts=_amounts, names=_is_name, matches=_matches, missing=_missing, updates=("", "resize"))
