"""Admission: what an object is refused for, all of it at once, in Kubernetes' words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from moorage.api import kinds
from moorage.api.meta import Object
from moorage.api.node import Node
from moorage.api.placementrules import request_tolerations
from moorage.api.pod import NodeAffinity, Pod, PodSpec, RuntimeClass
from moorage.api.resource import (
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
    ResourceSlice,
)
from moorage.api.volume import PersistentVolume
from moorage.features import Gate, Gates
from moorage.validation.expressions import ExpressionBudget, expressions_of
from moorage.validation.field import FieldError, required
from moorage.validation.gates import gates_needed
from moorage.validation.selector import node_affinity_errors, selector_errors
from moorage.validation.tolerations import (
    device_taint_errors,
    device_taint_list_errors,
    device_toleration_errors,
    taint_errors,
    toleration_errors,
)
from moorage.validation.update import pod_update_errors, volume_update_errors


def admission_errors(item: Object, gates: Gates, old: Object | None = None) -> list[FieldError]:
    """What the API server refuses a new object for, or an update of `old`.

    What the old object already uses stays allowed when its gate is off.
    """
    gates = gates.including(gates_needed(old)) if old else gates
    budget = _budget(item, gates, old)
    return _once(chain(_errors(item, gates, old, budget), budget.errors()))


def _budget(item: Object, gates: Gates, old: Object | None) -> ExpressionBudget:
    path = kinds.of(item).pod_spec or ("scheduling" if isinstance(item, RuntimeClass) else "spec")
    sources = expressions_of(item) if gates.enabled(Gate.CEL) else []
    if sources and old is not None and sources == expressions_of(old):
        sources = []
    return ExpressionBudget(path, sources)


def _errors(item: Object, gates: Gates, old: Object | None, budget: ExpressionBudget) -> Iterator[FieldError]:
    match item:
        case Pod():
            yield from _affinity_errors("spec", item.spec, gates, budget)
            yield from toleration_errors("spec.tolerations", item.spec.tolerations, gates, budget)
            if isinstance(old, Pod):
                yield from pod_update_errors("spec", item.spec, old.spec)
        case Node():
            yield from taint_errors("spec.taints", item.spec.taints)
        case RuntimeClass(scheduling=scheduling) if scheduling is not None:
            yield from toleration_errors("scheduling.tolerations", scheduling.tolerations, gates, budget)
        case PersistentVolume():
            yield from _volume(item, gates, old, budget)
        case ResourceSlice():
            yield from _slice(item, gates, budget)
        case ResourceClaim():
            yield from _claim("spec.devices.requests", item, gates, budget)
        case ResourceClaimTemplate():
            yield from _claim("spec.spec.devices.requests", item.spec, gates, budget)
        case DeviceTaintRule():
            yield from device_taint_errors("spec.taint", item.spec.taint)
        case _:
            yield from _template(item, gates, budget)


def _template(item: Object, gates: Gates, budget: ExpressionBudget) -> Iterator[FieldError]:
    kind = kinds.of(item)
    if spec := kind.pod_spec_of(item):
        yield from _affinity_errors(kind.pod_spec, spec, gates, budget)
        yield from toleration_errors(f"{kind.pod_spec}.tolerations", spec.tolerations, gates, budget)


def _affinity_errors(path: str, spec: PodSpec, gates: Gates, budget: ExpressionBudget) -> Iterator[FieldError]:
    if affinity := _node_affinity(spec):
        yield from node_affinity_errors(f"{path}.affinity.nodeAffinity", affinity, gates, budget)


def _node_affinity(spec: PodSpec) -> NodeAffinity | None:
    return spec.affinity.node_affinity if spec.affinity else None


def _volume(
    volume: PersistentVolume, gates: Gates, old: Object | None, budget: ExpressionBudget
) -> Iterator[FieldError]:
    path, affinity = "spec.nodeAffinity", volume.spec.node_affinity
    if affinity and affinity.required:
        yield from selector_errors(f"{path}.required", affinity.required, gates, budget)
    elif affinity:
        yield required(f"{path}.required", "must specify required node constraints")
    if isinstance(old, PersistentVolume):
        yield from volume_update_errors(path, affinity, old.spec.node_affinity)


def _slice(item: ResourceSlice, gates: Gates, budget: ExpressionBudget) -> Iterator[FieldError]:
    if item.spec.node_selector:
        yield from selector_errors("spec.nodeSelector", item.spec.node_selector, gates, budget)
    for index, device in enumerate(item.spec.devices):
        path = f"spec.devices[{index}]"
        if device.node_selector:
            yield from selector_errors(f"{path}.nodeSelector", device.node_selector, gates, budget)
        yield from device_taint_list_errors(f"{path}.taints", device.taints)


def _claim(
    path: str, holder: ResourceClaim | ResourceClaimTemplateSpec, gates: Gates, budget: ExpressionBudget
) -> Iterator[FieldError]:
    for place, tolerations in request_tolerations(path, holder.spec.devices.requests):
        yield from device_toleration_errors(place, tolerations, gates, budget)


def _once(errors: Iterator[FieldError]) -> list[FieldError]:
    """Each message once: several costly expressions give one error for the specification."""
    return list({str(error): error for error in errors}.values())
