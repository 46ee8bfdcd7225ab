"""What other objects decide about a pod: its priority and its runtime class; and its tolerations of lost nodes."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.decode import convert
from moorage.api.meta import Data, ResourceList
from moorage.api.pod import Pod, RuntimeClass
from moorage.api.wellknown import SYSTEM_PRIORITIES, TAINT_NOT_READY, TAINT_UNREACHABLE
from moorage.quantity import Quantity
from moorage.registry.pod.limits import give_defaults
from moorage.registry.pod.tolerations import RESTRICTION, check_tolerations, give_tolerations, needed
from moorage.registry.state import Denied, Dependency, State

_PRIORITY_CLASS = kinds.row("scheduling.k8s.io/v1", "PriorityClass")
_RUNTIME_CLASS = kinds.row("node.k8s.io/v1", "RuntimeClass")
PRIORITY_CLASSES, RUNTIME_CLASSES = Dependency(_PRIORITY_CLASS), Dependency(_RUNTIME_CLASS)
_DEFAULT_SECONDS = 300
_PREEMPT = "PreemptLowerPriority"


def admit_pod(new: Data, old: Data | None, state: State) -> None:
    """Fill in the account, tolerations, priority and runtime class of a pod. Raises Denied."""
    spec = new.setdefault("spec", {})
    before = old["spec"] if old else {}
    spec.setdefault("serviceAccountName", before.get("serviceAccountName", "default"))
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    _add_default_tolerations(spec.setdefault("tolerations", []))
    if old is None:
        give_defaults(new, None, state)
        _resolve_priority(spec, state)
    if is_restricted := RESTRICTION in state.plugins:
        give_tolerations(new, old, state)
    if old is None:
        _resolve_runtime_class(new, spec, state)
    if is_restricted:
        check_tolerations(new, old, state)
    for name in ("priority", "preemptionPolicy", "priorityClassName", "nodeName"):
        if before.get(name) is not None:
            spec.setdefault(name, before[name])


def _add_default_tolerations(tolerations: list[Data]) -> None:
    """Let a pod stay on a node that is not ready or unreachable for a while, unless it says for how long."""
    for taint_key in (TAINT_NOT_READY, TAINT_UNREACHABLE):
        if not any(_tolerates(toleration, taint_key) for toleration in tolerations):
            added = {"key": taint_key, "operator": "Exists", "effect": "NoExecute"}
            tolerations.append({**added, "tolerationSeconds": _DEFAULT_SECONDS})


def _tolerates(toleration: Data, taint_key: str) -> bool:
    if toleration.get("expression"):
        # It stands before the toleration that is added, and the first match decides.
        return False
    return toleration.get("key", "") in ("", taint_key) and toleration.get("effect", "") in ("", "NoExecute")


def _resolve_priority(spec: Data, state: State) -> None:
    priority_class = _priority_class(spec, state)
    if priority_class is None:
        return
    priority = priority_class.get("value", 0)
    if spec.get("priority") not in (None, priority):
        raise Denied(
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name"
        )
    spec["priority"] = priority
    spec.setdefault("preemptionPolicy", priority_class.get("preemptionPolicy") or _PREEMPT)


def _priority_class(spec: Data, state: State) -> Data | None:
    """The class of a pod, which may be the global default; None when it is unknown."""
    name = spec.get("priorityClassName") or ""
    if name in SYSTEM_PRIORITIES:
        return {"value": SYSTEM_PRIORITIES[name]}
    if name:
        found = state.find(_PRIORITY_CLASS, name)
        if found is None and state.is_complete:
            raise Denied(f"no PriorityClass with name {name} was found")
        return found
    for priority_class in reversed(state.all(_PRIORITY_CLASS)):
        if priority_class.get("globalDefault"):
            spec["priorityClassName"] = priority_class["metadata"]["name"]
            return priority_class
    return {"value": 0}


def _resolve_runtime_class(new: Data, spec: Data, state: State) -> None:
    name = spec.get("runtimeClassName")
    runtime_class = None
    if name is not None:
        runtime_class = state.find(_RUNTIME_CLASS, name)
        if runtime_class is None:
            if not state.is_complete:
                return
            raise Denied(f'pod rejected: RuntimeClass "{name}" not found')
        _give_class(new, convert(new, Pod), runtime_class, convert(runtime_class, RuntimeClass))
    if spec.get("overhead") is not None and (runtime_class is None or runtime_class.get("overhead") is None):
        raise Denied("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")


def _give_class(pod: Data, typed: Pod, chosen: Data, of_class: RuntimeClass) -> None:
    """Set the overhead, the node selector and the tolerations of a new pod's RuntimeClass."""
    spec = pod["spec"]
    if of_class.overhead is not None:
        fixed = of_class.overhead.pod_fixed
        if typed.spec.overhead and not _same(typed.spec.overhead, fixed):
            raise Denied("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = dict(fixed)
    if of_class.scheduling is None:
        return
    selector = spec.get("nodeSelector") or {}
    for key, value in of_class.scheduling.node_selector.items():
        if selector.setdefault(key, value) != value:
            raise Denied(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
    if selector:
        spec["nodeSelector"] = selector
    texts = [*spec["tolerations"], *chosen["scheduling"].get("tolerations", ())]
    kept = needed((*typed.spec.tolerations, *of_class.scheduling.tolerations))
    spec["tolerations"] = [texts[index] for index in kept]


def _same(one: ResourceList, other: ResourceList) -> bool:
    return one.keys() == other.keys() and all(Quantity.of(one[name]) == Quantity.of(other[name]) for name in one)
