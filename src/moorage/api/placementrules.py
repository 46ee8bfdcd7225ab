"""The tolerations and node selector terms of an object, each with the path of its field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moorage.api import kinds
from moorage.api.meta import Object
from moorage.api.node import NodeSelector, NodeSelectorTerm
from moorage.api.pod import PodSpec, RuntimeClass, Toleration
from moorage.api.resource import (
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from moorage.api.volume import PersistentVolume

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

TolerationFields = Iterator[tuple[str, tuple[Toleration, ...]]]
TermFields = Iterator[tuple[str, NodeSelectorTerm]]


def tolerations_of(item: Object) -> TolerationFields:
    """Every list of tolerations: of a pod, of a pod template, of a runtime class, of device requests."""
    kind = kinds.of(item)
    if spec := kind.pod_spec_of(item):
        yield f"{kind.pod_spec}.tolerations", spec.tolerations
    elif isinstance(item, RuntimeClass) and item.scheduling is not None:
        yield "scheduling.tolerations", item.scheduling.tolerations
    elif isinstance(item, ResourceClaim):
        yield from request_tolerations("spec.devices.requests", item.spec.devices.requests)
        results = item.status.allocation.devices.results if item.status.allocation else ()
        for index, result in enumerate(results):
            yield f"status.allocation.devices.results[{index}].tolerations", result.tolerations
    elif isinstance(item, ResourceClaimTemplate):
        yield from request_tolerations("spec.spec.devices.requests", item.spec.spec.devices.requests)


def request_tolerations(path: str, requests: Iterable[DeviceRequest]) -> TolerationFields:
    """The tolerations of device requests."""
    for index, request in enumerate(requests):
        if request.exactly:
            yield f"{path}[{index}].exactly.tolerations", request.exactly.tolerations
        for number, sub_request in enumerate(request.first_available):
            yield f"{path}[{index}].firstAvailable[{number}].tolerations", sub_request.tolerations


def ways_of(requests: Iterable[DeviceRequest]) -> Iterator[tuple[str, ExactDeviceRequest | DeviceSubRequest]]:
    """The ways to satisfy each request, as allocations name them: `gpu`, or `gpu/large` for one of several ways."""
    for request in requests:
        if request.exactly:
            yield request.name, request.exactly
        yield from ((f"{request.name}/{way.name}", way) for way in request.first_available)


def terms_of(item: Object) -> TermFields:
    """Every term of a node selector: required and preferred ones of pods, those of volumes and device inventories."""
    kind = kinds.of(item)
    if spec := kind.pod_spec_of(item):
        yield from _pod_terms(kind.pod_spec, spec)
    elif isinstance(item, PersistentVolume) and item.spec.node_affinity:
        yield from _selector_terms("spec.nodeAffinity.required", item.spec.node_affinity.required)
    elif isinstance(item, ResourceSlice):
        yield from _selector_terms("spec.nodeSelector", item.spec.node_selector)
        for index, device in enumerate(item.spec.devices):
            yield from _selector_terms(f"spec.devices[{index}].nodeSelector", device.node_selector)


def _pod_terms(path: str, spec: PodSpec) -> TermFields:
    affinity = spec.affinity and spec.affinity.node_affinity
    if affinity:
        here = f"{path}.affinity.nodeAffinity"
        yield from _selector_terms(f"{here}.{REQUIRED}", affinity.required_during_scheduling_ignored_during_execution)
        for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
            yield f"{here}.{PREFERRED}[{index}].preference", preferred.preference


def _selector_terms(path: str, selector: NodeSelector | None) -> TermFields:
    for index, term in enumerate(selector.node_selector_terms if selector else ()):
        yield f"{path}.nodeSelectorTerms[{index}]", term
