"""Manifests between the native form and the one that a stock API server takes: rules in annotations. Both ways."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.api.decode import convert
from moorage.api.meaning import cover_places, meant, reach_of
from moorage.api.meta import Data
from moorage.api.node import NodeSelectorTerm
from moorage.api.placementrules import PREFERRED, REQUIRED
from moorage.api.pod import PodSpec, Toleration
from moorage.api.rules import (
    COVER,
    DEVICE_TOLERATIONS,
    MAX_BYTES,
    NODE_AFFINITY,
    TOLERATIONS,
    RulesError,
    device_rules,
    parsed,
    rules_of,
    text_of,
    volume_rules,
)
from moorage.api.volume import PersistentVolume
from moorage.api.yamlwriting import write
from moorage.match.nativecover import is_native, native_daemon_cover
from moorage.match.operators import selector_comparison

SCHEDULER_NAME = "moorage.dev/scheduler-name"
"""The annotation with the schedulerName that a manifest had before it was converted; empty when it had none."""
_DAEMON_SET = "DaemonSet"


def all_to_annotations(objects: Iterable[Data], scheduler: str) -> list[Data]:
    """Objects with the rules that no stock API server takes moved into annotations.

    Pods with rules get a scheduler that knows them, and so do pods whose volumes or claims among these have rules.
    """
    converted = [_attach(each) for each in objects]
    volumes = {_name(each) for each in converted if NODE_AFFINITY in own_annotations(each)}
    claims = {_name(each) for each in converted if (each.get("spec") or {}).get("volumeName") in volumes}
    devices = {_name(each) for each in converted for claim in _claims(each) if _annotated(claim, DEVICE_TOLERATIONS)}
    for data in converted:
        for holder in pods_of(data):
            if rules_of(own_annotations(holder)) or _uses(holder["spec"], claims, devices):
                set_scheduler(holder, scheduler)
    return converted


def _attach(manifest: Data) -> Data:
    data = deepcopy(manifest)
    for holder in pods_of(data):
        attach_pod(holder, is_daemon=data.get("kind") == _DAEMON_SET)
    for volume in _of(data, "PersistentVolume"):
        affinity = (volume.get("spec") or {}).get("nodeAffinity")
        if affinity and not _selects_natively(affinity.get("required")):
            _annotate(volume, NODE_AFFINITY, volume["spec"].pop("nodeAffinity"))
    for claim in _claims(data):
        _attach_claim(claim)
    return data


def to_native(manifest: Data) -> Data:
    """An object with the rules in its annotations written into the fields that they stand for. Raises RulesError."""
    data = deepcopy(manifest)
    for holder in pods_of(data):
        _detach_pod(holder)
    for volume in _of(data, "PersistentVolume"):
        _detach_volume(volume)
    for claim in _claims(data):
        _detach_claim(claim)
    return data


def _of(data: Data, kind: str) -> Iterator[Data]:
    if data.get("kind") == kind and kinds.find(str(data.get("apiVersion")), kind):
        yield data


def pods_of(data: Data) -> Iterator[Data]:
    """The pod of an object, or its template: what holds the metadata and the specification of pods."""
    kind = kinds.find(str(data.get("apiVersion")), str(data.get("kind")))
    holder: Any = data
    for step in kind.pod_spec.split(".")[:-1] if kind else ():
        holder = holder.get(step) if isinstance(holder, dict) else None
    if kind and kind.pod_spec and isinstance(holder, dict) and isinstance(holder.get("spec"), dict):
        yield holder


def _claims(data: Data) -> Iterator[Data]:
    """What holds the metadata and the specification of claims."""
    yield from _of(data, "ResourceClaim")
    for template in _of(data, "ResourceClaimTemplate"):
        if isinstance(template.get("spec"), dict):
            yield template["spec"]


def _uses(spec: Data, claims: set[str], devices: set[str]) -> bool:
    """Whether a pod uses one of some volume claims or device claims (or templates of these)."""
    used = ((volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in spec.get("volumes") or ())
    held = (name for each in spec.get("resourceClaims") or () for name in each.values())
    return any(name in claims for name in used) or any(name in devices for name in held)


def set_scheduler(holder: Data, scheduler: str) -> None:
    """Give what holds the specification of pods a scheduler, unless it names one, and record what it had."""
    name = holder["spec"].get("schedulerName") or ""
    if name in ("", "default-scheduler"):
        _annotations(holder)[SCHEDULER_NAME] = name
        holder["spec"]["schedulerName"] = scheduler


def attach_pod(holder: Data, *, is_daemon: bool) -> None:
    """Move rules into the annotations of what holds the specification of pods. Raises RulesError."""
    spec, before = holder["spec"], _annotated(holder, TOLERATIONS)
    moved = _take_tolerations(spec)
    if moved:
        if not isinstance(before, list):
            raise RulesError(TOLERATIONS, "holds no list")
        _annotate(holder, TOLERATIONS, [*before, *moved])
    if affinity := _take_affinity(spec):
        if NODE_AFFINITY in own_annotations(holder):
            raise RulesError(NODE_AFFINITY, "spec.affinity.nodeAffinity has rules too: write all of them in one place")
        _annotate(holder, NODE_AFFINITY, affinity)
    if is_daemon and (cover := native_daemon_cover(convert(moved, tuple[Toleration, ...]))):
        _annotations(holder)[COVER] = text_of(cover)
        spec["tolerations"] = [*msgspec.to_builtins(cover), *spec.get("tolerations", ())]


def _detach_pod(holder: Data) -> None:
    spec, annotations = holder["spec"], own_annotations(holder)
    rules = rules_of(annotations)
    if rules is not None:
        if rules.problems:
            raise RulesError(*rules.problems[0])
        native = spec.pop("tolerations", ())
        cover = cover_places(convert(native, tuple[Toleration, ...]), rules)
        own = [each for index, each in enumerate(native) if index not in cover]
        if tolerations := [*_annotated(holder, TOLERATIONS), *own]:
            spec["tolerations"] = tolerations
        _detach_affinity(holder)
    if SCHEDULER_NAME in annotations:
        spec.pop("schedulerName", None)
        if name := annotations[SCHEDULER_NAME]:
            spec["schedulerName"] = name
    _forget(holder, TOLERATIONS, NODE_AFFINITY, COVER, SCHEDULER_NAME)


def _detach_affinity(holder: Data) -> None:
    spec, rules = holder["spec"], _annotated(holder, NODE_AFFINITY)
    if not rules:
        return
    affinity = spec.setdefault("affinity", {})
    native = affinity.setdefault("nodeAffinity", {})
    if native.get(REQUIRED) and rules.get(REQUIRED):
        combined = meant(convert(spec, PodSpec), own_annotations(holder)).affinity
        assert combined is not None  # there is a native one
        both = msgspec.to_builtins(combined.node_affinity)
        rules = {**rules, REQUIRED: both[REQUIRED]}
    if preferred := [*native.get(PREFERRED, ()), *rules.get(PREFERRED, ())]:
        rules = {**rules, PREFERRED: preferred}
    affinity["nodeAffinity"] = {**native, **rules}


def _detach_volume(volume: Data) -> None:
    if volume_rules(own_annotations(volume)):
        rules = _annotated(volume, NODE_AFFINITY)
        if volume["spec"].get("nodeAffinity"):
            rules = {"required": msgspec.to_builtins(reach_of(convert(volume, PersistentVolume)))}
        volume["spec"]["nodeAffinity"] = rules
        _forget(volume, NODE_AFFINITY)


def _attach_claim(claim: Data) -> None:
    ways = dict(_ways(claim))
    moved = {name: taken for name, way in ways.items() if (taken := _take_tolerations(way))}
    if moved:
        before = _by_way(claim)
        both = {name: [*before.get(name, ()), *moved.get(name, ())] for name in ways}
        rules = {name: tolerations for name, tolerations in both.items() if tolerations}
        _annotate(claim, DEVICE_TOLERATIONS, next(iter(rules.values())) if len(ways) == 1 else rules)


def _detach_claim(claim: Data) -> None:
    device_rules(own_annotations(claim))
    for name, tolerations in _by_way(claim).items():
        way = dict(_ways(claim)).get(name)
        if way is not None and tolerations:
            way["tolerations"] = [*tolerations, *way.get("tolerations", ())]
    _forget(claim, DEVICE_TOLERATIONS)


def _by_way(claim: Data) -> dict[str, list[Data]]:
    rules = _annotated(claim, DEVICE_TOLERATIONS)
    return rules if isinstance(rules, dict) else {name: rules for name, _ in _ways(claim)}


def _ways(claim: Data) -> Iterator[tuple[str, Data]]:
    """The ways to satisfy the requests of a claim, by name, in any version of the API."""
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        name = request.get("name", "")
        if request.get("firstAvailable"):
            yield from ((f"{name}/{way.get('name', '')}", way) for way in request["firstAvailable"])
        else:
            exactly = request.get("exactly")
            yield name, request if exactly is None else exactly


def _take_tolerations(holder: Data) -> list[Data]:
    """Remove what is not native, with all that stands before it: the first toleration that matches decides."""
    listed = holder.get("tolerations") or []
    foreign = [index for index, each in enumerate(listed, 1) if not is_native(convert(each, Toleration))]
    moved, left = (listed[: foreign[-1]], listed[foreign[-1] :]) if foreign else ([], listed)
    if moved:
        holder["tolerations"] = left
        if not left:
            del holder["tolerations"]
    return moved


def _take_affinity(spec: Data) -> Data:
    """Remove required terms when one of them is not native, and likewise preferred ones."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    preferred = [(each or {}).get("preference") for each in affinity.get(PREFERRED) or ()]
    taken = {}
    if not _selects_natively(affinity.get(REQUIRED)):
        taken[REQUIRED] = affinity.pop(REQUIRED)
    if not all(map(_is_native_term, preferred)):
        taken[PREFERRED] = affinity.pop(PREFERRED)
    if taken and not affinity:
        del spec["affinity"]["nodeAffinity"]
        if not spec["affinity"]:
            del spec["affinity"]
    return taken


def _selects_natively(selector: Data | None) -> bool:
    return all(map(_is_native_term, (selector or {}).get("nodeSelectorTerms") or ()))


def _is_native_term(term: Data | None) -> bool:
    typed = convert(term or {}, NodeSelectorTerm)
    return not typed.match_cel_expressions and not any(
        selector_comparison(requirement.operator) for requirement in typed.match_expressions
    )


def _name(data: Data) -> str:
    return str((data.get("metadata") or {}).get("name", ""))


def own_annotations(holder: Data) -> Data:
    """The annotations, to be read."""
    return (holder.get("metadata") or {}).get("annotations") or {}


def _annotations(holder: Data) -> Data:
    """The annotations, to be changed."""
    metadata = holder.get("metadata") or {}
    holder["metadata"] = metadata
    metadata["annotations"] = metadata.get("annotations") or {}
    annotations: Data = metadata["annotations"]
    return annotations


def _annotated(holder: Data, annotation: str) -> Any:
    """What an annotation holds; an empty list when there is none."""
    text = own_annotations(holder).get(annotation)
    return [] if text is None else parsed(annotation, text)


def _annotate(holder: Data, annotation: str, value: Any) -> None:
    """Write rules. Raises RulesError when they are too long: YAML that is half as long as JSON takes long to write."""
    text = "" if len(msgspec.json.encode(value)) > 2 * MAX_BYTES else write([value])
    if not 0 < len(text) <= MAX_BYTES:
        raise RulesError(annotation, f"longer than {MAX_BYTES} characters")
    _annotations(holder)[annotation] = text


def _forget(holder: Data, *names: str) -> None:
    """Remove annotations, and what they leave empty."""
    metadata = holder.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    for name in names:
        annotations.pop(name, None)
    if not annotations:
        metadata.pop("annotations", None)
    if not metadata:
        holder.pop("metadata", None)
