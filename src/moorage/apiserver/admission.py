"""What is done to an object on its way into the store: filled in, checked against others, judged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.api.decode import DecodeError, convert
from moorage.api.kinds import Kind
from moorage.api.meta import Object
from moorage.api.places import tolerations_of
from moorage.api.pod import Affinity, NodeAffinity, Pod, PodSpec, Toleration
from moorage.apiserver.aside import aside
from moorage.apiserver.failures import bad_request, forbidden, invalid, not_found
from moorage.apiserver.metadata import metadata_errors
from moorage.apiserver.objectrules import object_errors, object_status_errors
from moorage.apiserver.objects import Data, decoded, key, prefix
from moorage.apiserver.podrules import pod_errors, pod_status_errors, pod_update_errors, pod_warnings
from moorage.features import Gates
from moorage.match.tolerations import GATE_OF_OPERATOR, NUMERIC
from moorage.names import canonical_int64
from moorage.semver import VersionError, parse_tolerant
from moorage.store.protocol import Store
from moorage.validation import admission_errors
from moorage.validation.advice import context_of, warnings
from moorage.validation.field import FieldError

_NAMESPACE, _POD = kinds.row("v1", "Namespace"), kinds.row("v1", "Pod")
_PRIORITY_CLASS = kinds.row("scheduling.k8s.io/v1", "PriorityClass")
_STORAGE_CLASS = kinds.row("storage.k8s.io/v1", "StorageClass")

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
_DEFAULT_SECONDS = 300
_FEW = 100
"""How many taints or tolerations are looked at closely."""
_SHORT = 4096
"""How many bytes a specification has, at most, whose verdict is worth keeping."""
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


@dataclass(slots=True)
class Admission:
    """The rules of one API server: its gates, and the other objects that some rules look at."""

    store: Store
    gates: Gates

    async def fill(self, kind: Kind, new: Data, old: Data | None, subresource: str = "") -> None:
        """Fill in what others decide: default tolerations, priorities, the taint of a new node."""
        if kind is _POD and not subresource:
            await self._prepare_pod(new, old)
        if old is None:
            await self._check_namespace(kind, new)
            if kind.kind == "Node":
                _taint_not_ready(new)
            elif kind.kind == "PersistentVolumeClaim":
                await self._default_storage_class(new)

    async def judge(
        self, kind: Kind, new: Data, old: Data | None, subresource: str = "", *, size: int = 0
    ) -> list[str]:
        """Refuse an object of so many bytes with everything that is wrong with it, or give the words of warning."""
        told = await aside(size, self._told, kind, new, old, subresource)
        return told + [each async for each in self._taint_warnings(new, old)]

    def _told(self, kind: Kind, new: Data, old: Data | None, subresource: str) -> list[str]:
        typed, before = _typed(kind, new), None if old is None else _typed(kind, old)
        errors = list(metadata_errors(kind, new, old))
        told: list[str] = []
        if subresource == "status" and old is not None:
            errors += pod_status_errors(new, old) if kind is _POD else object_status_errors(kind, new, old)
        elif not subresource:
            found, told = self._judged(typed, before)
            errors += found
            errors += object_errors(kind, new, old)
            if kind is _POD:
                refused, more = _judged_new_pod(new) if old is None else (pod_update_errors(new, old), [])
                errors += refused
                told = [*told, *more]
        if errors:
            raise invalid(kind, new["metadata"].get("name", ""), errors)
        return told

    def _judged(self, item: Object, old: Object | None) -> tuple[list[FieldError], list[str]]:
        """Errors and warnings of what placement reads. Pods of one template are judged once."""
        if old is None and isinstance(item, Pod):
            affinity = item.spec.affinity and item.spec.affinity.node_affinity
            if len(item.spec.tolerations) <= _FEW:
                errors, told = _judged_pod(item.spec.tolerations, affinity, self.gates)
                return list(errors), list(told)
        return admission_errors(item, self.gates, old), _advice(item, self.gates)

    async def _check_namespace(self, kind: Kind, new: Data) -> None:
        if not kind.namespaced:
            return
        namespace = new["metadata"]["namespace"]
        found = await self.store.get(key(_NAMESPACE, "", namespace))
        if found is None:
            raise not_found(_NAMESPACE, namespace)
        if decoded(found)["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(kind, new["metadata"].get("name", ""), why)

    async def _prepare_pod(self, new: Data, old: Data | None) -> None:
        spec = new.setdefault("spec", {})
        before = old["spec"] if old else {}
        spec.setdefault("serviceAccountName", before.get("serviceAccountName", "default"))
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
        tolerations = spec.setdefault("tolerations", [])
        for taint_key in (NOT_READY, UNREACHABLE):
            if isinstance(tolerations, list) and not any(_tolerates(each, taint_key) for each in tolerations):
                tolerations.append(
                    {
                        "key": taint_key,
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": _DEFAULT_SECONDS,
                    }
                )
        if old is None:
            await self._resolve_priority(new, spec)
        for name in ("priority", "preemptionPolicy", "priorityClassName", "nodeName"):
            if before.get(name) is not None:
                spec.setdefault(name, before[name])

    async def _resolve_priority(self, new: Data, spec: Data) -> None:
        name = spec.get("priorityClassName") or ""
        priority, policy = 0, "PreemptLowerPriority"
        pod_name = new["metadata"].get("name", "")
        if name in _SYSTEM_PRIORITIES:
            priority = _SYSTEM_PRIORITIES[name]
        elif name:
            found = await self.store.get(key(_PRIORITY_CLASS, "", str(name)))
            if found is None:
                raise forbidden(_POD, pod_name, f"no PriorityClass with name {name} was found")
            chosen = decoded(found)
            priority, policy = chosen.get("value", 0), chosen.get("preemptionPolicy") or policy
        else:
            async for chosen in self._all(_PRIORITY_CLASS):
                if chosen.get("globalDefault"):
                    spec["priorityClassName"] = chosen["metadata"]["name"]
                    priority, policy = chosen.get("value", 0), chosen.get("preemptionPolicy") or policy
        if spec.get("priority") not in (None, priority):
            why = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {priority} from the given PriorityClass name"
            )
            raise forbidden(_POD, pod_name, why)
        spec["priority"] = priority
        spec.setdefault("preemptionPolicy", policy)

    async def _default_storage_class(self, new: Data) -> None:
        if new["spec"].get("storageClassName") is not None:
            return
        async for chosen in self._all(_STORAGE_CLASS):
            annotations = chosen["metadata"].get("annotations") or {}
            if annotations.get(_DEFAULT_CLASS) == "true":
                new["spec"]["storageClassName"] = chosen["metadata"]["name"]

    async def _taint_warnings(self, new: Data, old: Data | None) -> AsyncIterator[str]:
        """Say which taints of a node some pod compares as a number or version that they are not."""
        if new.get("kind") != "Node":
            return
        before = ((old or {}).get("spec") or {}).get("taints")
        taints = (new.get("spec") or {}).get("taints") or []
        for index, taint in enumerate(taints[:_FEW] if taints != before else []):
            value = taint.get("value", "")
            if canonical_int64(value) is not None and _is_version(value):
                continue
            operator = await self._comparison_of(taint["key"])
            is_number = operator in NUMERIC
            if operator and (canonical_int64(value) is None if is_number else not _is_version(value)):
                what = "a decimal integer" if is_number else "a semantic version"
                where = f"spec.taints[{index}].value"
                yield f'{where}: "{value}" is not {what}, and pods compare {taint["key"]} with {operator}'

    async def _comparison_of(self, taint_key: str) -> str:
        needle = f'"{taint_key}"'.encode()
        for item in (await self.store.list(prefix(_POD))).items:
            if needle not in item.value:
                continue
            for toleration in decoded(item)["spec"].get("tolerations") or ():
                if toleration.get("key") == taint_key and toleration.get("operator") in GATE_OF_OPERATOR:
                    return str(toleration["operator"])
        return ""

    async def _all(self, kind: Kind) -> AsyncIterator[Data]:
        for item in (await self.store.list(prefix(kind))).items:
            yield decoded(item)


@lru_cache(maxsize=4096)
def _judged_pod(
    tolerations: tuple[Toleration, ...], affinity: NodeAffinity | None, gates: Gates
) -> tuple[tuple[FieldError, ...], tuple[str, ...]]:
    pod = Pod(spec=PodSpec(tolerations=tolerations, affinity=Affinity(affinity) if affinity else None))
    return tuple(admission_errors(pod, gates)), tuple(_advice(pod, gates))


def _judged_new_pod(pod: Data) -> tuple[list[FieldError], list[str]]:
    """Errors and warnings of a new pod. Pods of one template are judged once, unless more than that matters."""
    spec = msgspec.json.encode(pod["spec"])
    if len(spec) > _SHORT or b'"ephemeral"' in spec or pod["metadata"].get("annotations"):
        return pod_errors(pod), pod_warnings(pod)
    errors, told = _judged_spec(spec)
    return list(errors), [*pod_warnings({"metadata": pod["metadata"]}), *told]


@lru_cache(maxsize=4096)
def _judged_spec(spec: bytes) -> tuple[tuple[FieldError, ...], tuple[str, ...]]:
    """What is to be said of a specification whatever the pod is called, as long as its name is that of a host."""
    pod = {"metadata": {"name": "any"}, "spec": msgspec.json.decode(spec)}
    return tuple(pod_errors(pod)), tuple(pod_warnings(pod))


def _advice(item: Object, gates: Gates) -> list[str]:
    """What is legal and probably wrong. Each toleration is compared with each other: of many that would take long."""
    if any(len(tolerations) > _FEW for _, tolerations in tolerations_of(item)):
        return []
    return warnings(item, context_of((), gates))


def _typed(kind: Kind, data: Data) -> Object:
    try:
        return convert(data, kind.struct)
    except DecodeError as error:
        raise bad_request(
            f'{kind.kind} in version "{kind.api_version}" cannot be handled as a {kind.kind}: {error}'
        ) from None


def _tolerates(toleration: Any, taint_key: str) -> bool:
    if not isinstance(toleration, dict):
        return True
    return toleration.get("key", "") in ("", taint_key) and toleration.get("effect", "") in ("", "NoExecute")


def _taint_not_ready(node: Data) -> None:
    spec = node.setdefault("spec", {})
    taints = spec.get("taints") or []
    if isinstance(taints, list) and not any(isinstance(each, dict) and each.get("key") == NOT_READY for each in taints):
        spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]


def _is_version(text: str) -> bool:
    try:
        parse_tolerant(text)
    except VersionError:
        return False
    return True
