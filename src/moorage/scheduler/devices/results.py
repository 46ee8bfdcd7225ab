"""What is written into a claim: its devices, how to set them up, and the nodes from which they can be used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec.structs import replace

from moorage.api.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.api.resource import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    OpaqueDeviceConfiguration,
    ResourceClaim,
)
from moorage.api.rules import DEVICE_TOLERATIONS
from moorage.match.nativecover import native_device_tolerations
from moorage.match.selector import NAME_FIELD
from moorage.scheduler.devices.allocator import DevicePick
from moorage.scheduler.devices.plan import ClaimPlan, Fault, Want

_FROM_CLASS, _FROM_CLAIM = "FromClass", "FromClaim"


class _Configuration(Protocol):
    @property
    def opaque(self) -> OpaqueDeviceConfiguration | None: ...


def result_of(plan: ClaimPlan, picks: list[DevicePick], node: str) -> AllocationResult:
    """The allocation of one claim for a pod that goes to a node."""
    results = tuple(
        DeviceRequestAllocationResult(
            pick.want.name, *pick.offer.id, admin_access=pick.want.admin or None,
            tolerations=pick.want.tolerations.tolerations,
        )
        for pick in picks
    )  # fmt: skip
    config = tuple(_config(plan, picks))
    return AllocationResult(DeviceAllocationResult(results, config), _selector(plan, picks, node))


def with_cover(claim: ResourceClaim, allocation: AllocationResult) -> AllocationResult:
    """An allocation as it is written into its claim: rules in annotations are covered by native tolerations."""
    if DEVICE_TOLERATIONS not in claim.metadata.annotations:
        return allocation
    results = tuple(
        replace(each, tolerations=native_device_tolerations(each.tolerations)) for each in allocation.devices.results
    )
    return replace(allocation, devices=replace(allocation.devices, results=results))


def _config(plan: ClaimPlan, picks: list[DevicePick]) -> Iterator[DeviceAllocationConfiguration]:
    """What classes say, each once with the requests it is for, then what the claim says about what was chosen."""
    chosen: dict[str, Want] = {}
    for pick in picks:
        chosen.setdefault(pick.want.request, pick.want)
    by_class: dict[str, list[Want]] = {}
    for want in chosen.values():
        by_class.setdefault(want.class_.metadata.name, []).append(want)
    for wants in by_class.values():
        requests = tuple(want.name for want in wants)
        for configuration in wants[0].class_.spec.config:
            yield _applied(_FROM_CLASS, configuration, requests, chosen.values())
    for configured in plan.devices.config:
        names = configured.requests
        if not names or any(want.request in names or want.name in names for want in chosen.values()):
            yield _applied(_FROM_CLAIM, configured, names, chosen.values())


def _applied(
    source: str, configuration: _Configuration, requests: tuple[str, ...], chosen: Iterable[Want]
) -> DeviceAllocationConfiguration:
    """No requests mean all of them."""
    is_for_all = all(want.request in requests or want.name in requests for want in chosen)
    return DeviceAllocationConfiguration(source, () if is_for_all else requests, configuration.opaque)


def _selector(plan: ClaimPlan, picks: list[DevicePick], node: str) -> NodeSelector | None:
    """The nodes from which all devices can be used; None when that is everywhere."""
    parts: list[NodeSelectorTerm] = []
    for pick in picks:
        place = pick.offer.place
        assert place is not None  # devices that can be used nowhere are not offered
        if place.node or pick.offer.device.binds_to_node:
            here = NodeSelectorRequirement(NAME_FIELD, "In", (node,))
            return NodeSelector((NodeSelectorTerm(match_fields=(here,)),))
        if place.selector is not None:
            terms = place.selector.node_selector_terms
            if len(terms) > 1:
                text = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
                raise Fault(f": create NodeSelector: {text}", plan.number)
            parts += terms
    merged = NodeSelectorTerm(
        tuple(dict.fromkeys(each for term in parts for each in term.match_expressions)),
        tuple(dict.fromkeys(each for term in parts for each in term.match_fields)),
        tuple(dict.fromkeys(each for term in parts for each in term.match_cel_expressions)),
    )
    return None if merged == NodeSelectorTerm() else NodeSelector((merged,))
