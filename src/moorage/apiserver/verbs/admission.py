"""Admission: an object on its way into the store is filled in, checked against other objects and validated."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from moorage.api import kinds
from moorage.api.decode import DecodeError, convert
from moorage.api.kinds import Kind
from moorage.api.meta import Data, Object
from moorage.api.placementrules import tolerations_of
from moorage.api.pod import Affinity, NodeAffinity, Pod, PodSpec, RuntimeClass, Toleration
from moorage.api.wellknown import SYSTEM_PRIORITIES, TAINT_NOT_READY, TAINT_UNREACHABLE
from moorage.apiserver.base.objects import decoded, key, prefix
from moorage.apiserver.base.offload import offload
from moorage.apiserver.http.failures import bad_request, forbidden, invalid, not_found
from moorage.apiserver.verbs.claimgrowth import check_growth
from moorage.bounded import Bounded
from moorage.features import Gates
from moorage.match.operators import COMPARISONS
from moorage.registry import runtimeclasses
from moorage.registry.metadata import metadata_errors
from moorage.registry.pod.pods import pod_errors, pod_status_errors, pod_update_errors, pod_warnings
from moorage.registry.pod.subresources import pod_part_errors
from moorage.registry.rules import object_errors, object_status_errors
from moorage.store.protocol import Item, Store
from moorage.validation import admission_errors
from moorage.validation.advice import warnings
from moorage.validation.field import FieldError
from moorage.validation.rules import context_of

_NAMESPACE, _POD = kinds.row("v1", "Namespace"), kinds.row("v1", "Pod")
_PRIORITY_CLASS = kinds.row("scheduling.k8s.io/v1", "PriorityClass")
_RUNTIME_CLASS = kinds.row("node.k8s.io/v1", "RuntimeClass")
_STORAGE_CLASS = kinds.row("storage.k8s.io/v1", "StorageClass")

_DEFAULT_SECONDS = 300
_MAX_TAINT_KEYS = 1000
_MAX_ADVISED = 100
"""How many taints or tolerations of one object get advice: each is compared with each other."""
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


@dataclass(slots=True)
class Admission:
    """The rules of one API server: its gates, and the other objects that some rules look at."""

    store: Store
    gates: Gates
    _compared: Bounded[str, tuple[int, str]] = field(default_factory=lambda: Bounded(_MAX_TAINT_KEYS))
    """By taint key: the revision up to which no pod compares it, and the key of a pod that does."""

    async def fill(self, kind: Kind, new: Data, old: Data | None, subresource: str = "") -> None:
        """Fill in what depends on other objects: tolerations, priorities, runtime classes, the taint of a new node."""
        if kind is _POD and not subresource:
            await self._prepare_pod(new, old)
        if old is None:
            if kind.namespaced:
                await self.check_namespace(kind, new["metadata"]["namespace"], new["metadata"].get("name", ""))
            if kind.kind == "Node":
                _taint_not_ready(new)
            elif kind.kind == "PersistentVolumeClaim":
                await self._default_storage_class(new)
        elif kind.kind == "PersistentVolumeClaim" and not subresource:
            await check_growth(self.store, new, old)

    async def judge(
        self, kind: Kind, new: Data, old: Data | None, subresource: str = "", *, size: int = 0
    ) -> list[str]:
        """The warnings about an object of `size` bytes; Refused (422) with all its errors when it has any."""
        # A pod may hold expressions, and to compile those takes longer than anything else of the same size.
        weight = 4 * size if kind.pod_spec else size
        warned = await offload(weight, self._validated, kind, new, old, subresource)
        return warned + [warning async for warning in self.taint_warnings(new, old)]

    def _validated(self, kind: Kind, new: Data, old: Data | None, subresource: str) -> list[str]:
        typed, before = _typed(kind, new), None if old is None else _typed(kind, old)
        errors = list(metadata_errors(kind, new, old))
        warned: list[str] = []
        if subresource == "status" and old is not None:
            errors += pod_status_errors(new, old) if kind is _POD else object_status_errors(kind, new, old)
        elif subresource and kind is _POD and old is not None:
            errors += pod_part_errors(new, old, subresource)
        elif not subresource:
            placement_errors, warned = self._judged(typed, before)
            errors += placement_errors
            errors += object_errors(kind, new, old)
            if kind is _POD:
                errors += pod_errors(new) if old is None else pod_update_errors(new, old)
                warned += pod_warnings(new) if old is None else []
        if errors:
            raise invalid(kind, new["metadata"].get("name", ""), errors)
        return warned

    def _judged(self, item: Object, old: Object | None) -> tuple[list[FieldError], list[str]]:
        """Errors and warnings about the fields that decide placement. Pods of one template are judged once."""
        if old is None and isinstance(item, Pod):
            affinity = item.spec.affinity and item.spec.affinity.node_affinity
            if len(item.spec.tolerations) <= _MAX_ADVISED:
                errors, warned = _judged_pod(item.spec.tolerations, affinity, self.gates)
                return list(errors), list(warned)
        return admission_errors(item, self.gates, old), _advice(item, self.gates)

    async def check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        """Refuse a new object whose namespace does not exist or is being deleted."""
        item = await self.store.get(key(_NAMESPACE, "", namespace))
        if item is None:
            raise not_found(_NAMESPACE, namespace)
        if decoded(item)["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(kind, name, why)

    async def priority_classes(self) -> list[Item]:
        """All PriorityClasses, on which the priority of a new pod depends."""
        return (await self.store.list(prefix(_PRIORITY_CLASS))).items

    async def _prepare_pod(self, new: Data, old: Data | None) -> None:
        spec = new.setdefault("spec", {})
        before = old["spec"] if old else {}
        spec.setdefault("serviceAccountName", before.get("serviceAccountName", "default"))
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
        _add_default_tolerations(spec.setdefault("tolerations", []))
        if old is None:
            await self._resolve_priority(new, spec)
            await self._resolve_runtime_class(new, spec)
        for name in ("priority", "preemptionPolicy", "priorityClassName", "nodeName"):
            if before.get(name) is not None:
                spec.setdefault(name, before[name])

    async def _resolve_priority(self, new: Data, spec: Data) -> None:
        name = spec.get("priorityClassName") or ""
        priority, policy = 0, "PreemptLowerPriority"
        pod_name = new["metadata"].get("name", "")
        if name in SYSTEM_PRIORITIES:
            priority = SYSTEM_PRIORITIES[name]
        elif name:
            item = await self.store.get(key(_PRIORITY_CLASS, "", str(name)))
            if item is None:
                raise forbidden(_POD, pod_name, f"no PriorityClass with name {name} was found")
            priority_class = decoded(item)
            priority, policy = priority_class.get("value", 0), priority_class.get("preemptionPolicy") or policy
        else:
            for priority_class in map(decoded, await self.priority_classes()):
                if priority_class.get("globalDefault"):
                    spec["priorityClassName"] = priority_class["metadata"]["name"]
                    priority, policy = priority_class.get("value", 0), priority_class.get("preemptionPolicy") or policy
        if spec.get("priority") not in (None, priority):
            why = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {priority} from the given PriorityClass name"
            )
            raise forbidden(_POD, pod_name, why)
        spec["priority"] = priority
        spec.setdefault("preemptionPolicy", policy)

    async def _resolve_runtime_class(self, new: Data, spec: Data) -> None:
        name, pod_name = spec.get("runtimeClassName"), new["metadata"].get("name", "")
        runtime_class = None
        if name is not None:
            item = await self.store.get(key(_RUNTIME_CLASS, "", str(name)))
            if item is None:
                raise forbidden(_POD, pod_name, f'pod rejected: RuntimeClass "{name}" not found')
            runtime_class = decoded(item)
            try:
                runtimeclasses.give(new, convert(new, Pod), runtime_class, convert(runtime_class, RuntimeClass))
            except DecodeError as error:
                raise bad_request(str(error)) from None
            except runtimeclasses.MismatchError as error:
                raise forbidden(_POD, pod_name, str(error)) from None
        if spec.get("overhead") is not None and (runtime_class is None or runtime_class.get("overhead") is None):
            why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            raise forbidden(_POD, pod_name, why)

    async def _default_storage_class(self, new: Data) -> None:
        if new["spec"].get("storageClassName") is not None:
            return
        for storage_class in map(decoded, (await self.store.list(prefix(_STORAGE_CLASS))).items):
            annotations = storage_class["metadata"].get("annotations") or {}
            if annotations.get(_DEFAULT_CLASS) == "true":
                new["spec"]["storageClassName"] = storage_class["metadata"]["name"]

    async def taint_warnings(self, new: Data, old: Data | None) -> AsyncIterator[str]:
        """Warn of taints whose values are not the numbers or versions as which some pod compares them."""
        if new.get("kind") != "Node":
            return
        before = ((old or {}).get("spec") or {}).get("taints")
        taints = (new.get("spec") or {}).get("taints") or []
        for index, taint in enumerate(taints[:_MAX_ADVISED] if taints != before else []):
            value = taint.get("value", "")
            if all(compared.values.value(value) is not None for compared in COMPARISONS.values()):
                continue
            operator = await self._comparison_of(taint["key"])
            compared = COMPARISONS.get(operator)
            if compared is not None and compared.values.value(value) is None:
                where = f"spec.taints[{index}].value"
                what = compared.values.what
                yield f'{where}: "{value}" is not {what}, and pods compare {taint["key"]} with {operator}'

    async def _comparison_of(self, taint_key: str) -> str:
        """The operator with which some pod compares a taint key. Only pods that changed since last time are read."""
        seen, where = self._compared.get(taint_key) or (0, "")
        if where and (item := await self.store.get(where)) and (operator := compared_by(item, taint_key)):
            return operator
        page = await self.store.list(prefix(_POD))
        comparisons = ((item.key, compared_by(item, taint_key)) for item in page.items if item.revision > seen)
        where, operator = next((comparison for comparison in comparisons if comparison[1]), ("", ""))
        self._compared.put(taint_key, (seen, where) if where else (page.revision, ""))
        return operator


@lru_cache(maxsize=4096)
def _judged_pod(
    tolerations: tuple[Toleration, ...], affinity: NodeAffinity | None, gates: Gates
) -> tuple[tuple[FieldError, ...], tuple[str, ...]]:
    pod = Pod(spec=PodSpec(tolerations=tolerations, affinity=Affinity(affinity) if affinity else None))
    return tuple(admission_errors(pod, gates)), tuple(_advice(pod, gates))


def compared_by(pod: Item, taint_key: str) -> str:
    """The operator with which a pod compares the values of a taint key as numbers or versions."""
    if f'"{taint_key}"'.encode() in pod.value:
        for toleration in decoded(pod)["spec"].get("tolerations") or ():
            if toleration.get("key") == taint_key and toleration.get("operator") in COMPARISONS:
                return str(toleration["operator"])
    return ""


def _advice(item: Object, gates: Gates) -> list[str]:
    """Warnings about what is valid and probably wrong; none for objects with very many tolerations."""
    if any(len(tolerations) > _MAX_ADVISED for _, tolerations in tolerations_of(item)):
        return []
    return warnings(item, context_of((), gates))


def _typed(kind: Kind, data: Data) -> Object:
    try:
        return convert(data, kind.struct)
    except DecodeError as error:
        raise bad_request(
            f'{kind.kind} in version "{kind.api_version}" cannot be handled as a {kind.kind}: {error}'
        ) from None


def _add_default_tolerations(tolerations: Any) -> None:
    """Let a pod stay on a node that is not ready or unreachable for a while, unless it says for how long."""
    if not isinstance(tolerations, list):
        return
    for taint_key in (TAINT_NOT_READY, TAINT_UNREACHABLE):
        if not any(_tolerates(toleration, taint_key) for toleration in tolerations):
            added = {"key": taint_key, "operator": "Exists", "effect": "NoExecute"}
            tolerations.append({**added, "tolerationSeconds": _DEFAULT_SECONDS})


def _tolerates(toleration: Any, taint_key: str) -> bool:
    if not isinstance(toleration, dict):
        return True
    if toleration.get("expression"):
        # It stands before the toleration that is added, and the first match decides.
        return False
    return toleration.get("key", "") in ("", taint_key) and toleration.get("effect", "") in ("", "NoExecute")


def _taint_not_ready(node: Data) -> None:
    spec = node.setdefault("spec", {})
    taints = spec.get("taints") or []
    if isinstance(taints, list) and not any(
        isinstance(taint, dict) and taint.get("key") == TAINT_NOT_READY for taint in taints
    ):
        spec["taints"] = [*taints, {"key": TAINT_NOT_READY, "effect": "NoSchedule"}]
