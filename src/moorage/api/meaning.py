"""What an object means: its own fields together with the rules in its annotations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from moorage.api import kinds
from moorage.api.meta import Object
from moorage.api.node import NodeSelector, NodeSelectorTerm
from moorage.api.placementrules import ways_of
from moorage.api.pod import Affinity, NodeAffinity, PodSpec, Toleration
from moorage.api.resource import (
    DeviceClaim,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
)
from moorage.api.rules import (
    COVER,
    DEVICE_TOLERATIONS,
    NODE_AFFINITY,
    Annotations,
    DeviceRules,
    Rules,
    RulesError,
    TolerationList,
    device_rules,
    rules_of,
    volume_rules,
)
from moorage.api.volume import PersistentVolume, VolumeNodeAffinity

MAX_TERMS = 1024
"""How many terms the node affinity of an object and that of its rules may have together, multiplied."""
_NOWHERE, _EMPTY = NodeSelector(), NodeSelectorTerm()
_NO_NODE = NodeAffinity(_NOWHERE)

DeviceWay = TypeVar("DeviceWay", ExactDeviceRequest, DeviceSubRequest)


class Meaning(NamedTuple):
    """What a pod with rules means."""

    spec: PodSpec
    """Its specification as if its rules were written into it, and its cover were not."""
    rules: Rules
    problem: str = ""
    """Why it must not be placed; empty when what is known here does not forbid it."""


def meaning(spec: PodSpec, annotations: Annotations) -> Meaning | None:
    """What the specification of a pod with these annotations means; None when it has no rules: just what it says."""
    rules = rules_of(annotations)
    return None if rules is None else _meaning(spec, rules)


def meant(spec: PodSpec, annotations: Annotations) -> PodSpec:
    """The specification of a pod as it is meant."""
    known = meaning(spec, annotations)
    return spec if known is None else known.spec


def without_cover(tolerations: TolerationList, rules: Rules) -> TolerationList:
    """Native tolerations but for those that only cover rules. When it is not known which, all that could."""
    if rules.cover == ():
        return tolerations
    places = cover_places(tolerations, rules)
    return tuple(each for index, each in enumerate(tolerations) if index not in places)


def cover_places(tolerations: TolerationList, rules: Rules) -> set[int]:
    """Which native tolerations are the recorded cover: it stands first, so of equal ones the first are.

    Their seconds may have been changed since, as those of any toleration.
    """
    if rules.cover is None:
        return {at for at, each in enumerate(tolerations) if each.operator == "Exists"}
    places = _found(rules.cover, tolerations, set())
    if len(places) == len(rules.cover):
        return places
    changed = (Counter(rules.cover) - Counter(tolerations[at] for at in places)).elements()
    return places | _found(map(_lasting, changed), tuple(map(_lasting, tolerations)), places)


def recorded_cover(tolerations: TolerationList, rules: Rules) -> TolerationList:
    """Those of some native tolerations that are the recorded cover; none when the record cannot be read."""
    places = () if rules.cover is None else sorted(cover_places(tolerations, rules))
    return tuple(tolerations[at] for at in places)


def _found(wanted: Iterable[Toleration], tolerations: TolerationList, taken: set[int]) -> set[int]:
    """The first places, of those that are not taken, at which some tolerations stand."""
    left, places = Counter(wanted), set()
    for index, each in enumerate(tolerations):
        if index not in taken and left[each] > 0:
            left[each] -= 1
            places.add(index)
    return places


def _lasting(toleration: Toleration) -> Toleration:
    return toleration if toleration.toleration_seconds is None else replace(toleration, toleration_seconds=None)


def reach_of(volume: PersistentVolume) -> NodeSelector | None:
    """The nodes from which a volume can be reached; None is from all. Rules that cannot be read reach none."""
    affinity = volume.spec.node_affinity
    native = affinity.required if affinity is not None else None
    try:
        rules = volume_rules(volume.metadata.annotations)
        return native if rules is None else _both(native, rules.required or _NOWHERE)
    except RulesError:
        return _NOWHERE


def asked_of(claim: ResourceClaim) -> DeviceClaim:
    """What a claim asks for, the tolerations in its annotations included. Raises RulesError."""
    return _asked(claim.spec.devices, claim.metadata.annotations)


def meant_object(item: Object) -> Object:
    """An object as if its rules were written into its fields: a pod or a template of pods, a volume, a claim.

    Rules of a claim that cannot be read say nothing.
    """
    kind = kinds.of(item)
    spec, metadata = kind.pod_spec_of(item), kind.pod_metadata_of(item)
    if spec is not None and metadata is not None:
        known = meaning(spec, metadata.annotations)
        return item if known is None else kind.with_pod_spec(item, known.spec)
    if isinstance(item, PersistentVolume) and NODE_AFFINITY in item.metadata.annotations:
        return replace(item, spec=replace(item.spec, node_affinity=VolumeNodeAffinity(reach_of(item))))
    try:
        if isinstance(item, ResourceClaim) and _is_ruled(item):
            return _meant_claim(item)
        if isinstance(item, ResourceClaimTemplate) and DEVICE_TOLERATIONS in item.spec.metadata.annotations:
            devices = _asked(item.spec.spec.devices, item.spec.metadata.annotations)
            return replace(item, spec=replace(item.spec, spec=replace(item.spec.spec, devices=devices)))
    except RulesError:
        pass
    return item


def tolerations_of_result(
    claim: ResourceClaim, result: DeviceRequestAllocationResult, *, rules_count: bool = True
) -> TolerationList:
    """What a claim tolerates of a device that it was given.

    Of a claim with rules, or with the cover of rules that are gone, what it asks for counts: in the result is more.
    `rules_count` is whether its namespace allows rules.
    """
    if not _is_ruled(claim):
        return result.tolerations
    try:
        devices = asked_of(claim) if rules_count else claim.spec.devices
    except RulesError:
        devices = claim.spec.devices
    ways = (way.tolerations for name, way in ways_of(devices.requests) if name == result.request)
    return next(ways, result.tolerations)


def _is_ruled(claim: ResourceClaim) -> bool:
    return DEVICE_TOLERATIONS in claim.metadata.annotations or COVER in claim.metadata.annotations


def _asked(devices: DeviceClaim, annotations: Annotations) -> DeviceClaim:
    rules = device_rules(annotations)
    if rules is None:
        return devices
    return replace(devices, requests=tuple(_ruled_request(each, rules) for each in devices.requests))


def _meant_claim(claim: ResourceClaim) -> ResourceClaim:
    meant_claim = replace(claim, spec=replace(claim.spec, devices=asked_of(claim)))
    allocation = claim.status.allocation
    if allocation is None:
        return meant_claim
    results = tuple(
        replace(each, tolerations=tolerations_of_result(claim, each)) for each in allocation.devices.results
    )
    given = replace(allocation, devices=replace(allocation.devices, results=results))
    return replace(meant_claim, status=replace(claim.status, allocation=given))


def _meaning(spec: PodSpec, rules: Rules) -> Meaning:
    problems = [str(RulesError(*problem)) for problem in rules.problems]
    affinity = spec.affinity
    if rules.affinity is not None:
        native = (affinity and affinity.node_affinity) or NodeAffinity()
        try:
            combined = _combined(native, rules.affinity)
        except RulesError as error:
            problems.append(str(error))
            combined = _NO_NODE
        affinity = replace(affinity or Affinity(), node_affinity=combined)
    elif any(annotation == NODE_AFFINITY for annotation, _ in rules.problems):
        affinity = replace(affinity or Affinity(), node_affinity=_NO_NODE)
    tolerations = (*rules.tolerations, *without_cover(spec.tolerations, rules))
    return Meaning(replace(spec, tolerations=tolerations, affinity=affinity), rules, "; ".join(problems))


def _combined(native: NodeAffinity, rules: NodeAffinity) -> NodeAffinity:
    return NodeAffinity(
        _both(
            native.required_during_scheduling_ignored_during_execution,
            rules.required_during_scheduling_ignored_during_execution,
        ),
        (
            *native.preferred_during_scheduling_ignored_during_execution,
            *rules.preferred_during_scheduling_ignored_during_execution,
        ),
    )


def _both(one: NodeSelector | None, other: NodeSelector | None) -> NodeSelector | None:
    """A selector of the nodes that two selectors pick. Raises RulesError when it would have too many terms."""
    if one is None or other is None:
        return one if other is None else other
    # An empty term picks no node, and must not get conditions that would make it pick some.
    left, right = ([each for each in side.node_selector_terms if each != _EMPTY] for side in (one, other))
    if len(left) * len(right) > MAX_TERMS:
        product = f"{len(left)} terms of the object itself times {len(right)}"
        raise RulesError(NODE_AFFINITY, f"{product} are more than {MAX_TERMS}")
    return NodeSelector(tuple(_all_of(a, b) for a in left for b in right))


def _all_of(one: NodeSelectorTerm, other: NodeSelectorTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        one.match_expressions + other.match_expressions,
        one.match_fields + other.match_fields,
        one.match_cel_expressions + other.match_cel_expressions,
    )


def _ruled_request(request: DeviceRequest, rules: DeviceRules) -> DeviceRequest:
    if request.exactly is not None:
        return replace(request, exactly=_ruled(request.exactly, request.name, rules))
    ways = (_ruled(way, f"{request.name}/{way.name}", rules) for way in request.first_available)
    return replace(request, first_available=tuple(ways))


def _ruled(way: DeviceWay, name: str, rules: DeviceRules) -> DeviceWay:
    own = rules.get(name, ()) if isinstance(rules, dict) else rules
    return replace(way, tolerations=own + way.tolerations) if own else way
