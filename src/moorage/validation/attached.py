"""What rules in annotations are refused for: what admission says to the fields that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from moorage.api import kinds
from moorage.api.meaning import meaning, without_cover
from moorage.api.meta import Object
from moorage.api.placementrules import ways_of
from moorage.api.pod import Affinity, Pod, PodSpec
from moorage.api.resource import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from moorage.api.rules import (
    DEVICE_TOLERATIONS,
    NODE_AFFINITY,
    TOLERATIONS,
    Annotations,
    Rules,
    RulesError,
    TolerationList,
    device_rules,
    rules_of,
    volume_rules,
)
from moorage.api.volume import PersistentVolume, PersistentVolumeSpec
from moorage.features import ALL_ON
from moorage.validation import admission_errors
from moorage.validation.field import OMITTED, FieldError, invalid

_METADATA = "metadata.annotations"


def attached_errors(item: Object) -> list[FieldError]:
    """Everything that is wrong with the rules in the annotations of an object, or of its pod template."""
    kind = kinds.of(item)
    if metadata := kind.pod_metadata_of(item):
        return _under(kind.pod_metadata, _pod_errors(kind.pod_spec_of(item) or PodSpec(), metadata.annotations))
    if isinstance(item, PersistentVolume):
        return list(_volume_errors(item))
    if isinstance(item, ResourceClaim):
        return list(claim_errors(item.metadata.annotations, item.spec.devices))
    if isinstance(item, ResourceClaimTemplate):
        errors = claim_errors(item.spec.metadata.annotations, item.spec.spec.devices)
        return _under("spec.metadata", errors)
    return []


@lru_cache(maxsize=1024)
def rule_errors(rules: Rules) -> tuple[FieldError, ...]:
    """What is wrong with the rules of a pod, all gates on: a gate that is off in a component is no fault of a rule."""
    affinity = Affinity(rules.affinity) if rules.affinity else None
    pod = Pod(spec=PodSpec(tolerations=rules.tolerations, affinity=affinity))
    unreadable = (_unreadable(RulesError(*problem)) for problem in rules.problems)
    return (*unreadable, *(_moved(error) for error in admission_errors(pod, ALL_ON)))


def judged_tolerations(spec: PodSpec, annotations: Annotations) -> TolerationList:
    """The tolerations by which a pod that runs may stay. Rules that are refused do not count."""
    rules = rules_of(annotations)
    if rules is None:
        return spec.tolerations
    native = without_cover(spec.tolerations, rules)
    place = _place(TOLERATIONS)
    if any(error.field == _METADATA or error.field.startswith(place) for error in rule_errors(rules)):
        return native
    return rules.tolerations + native


def claim_errors(annotations: Annotations, devices: DeviceClaim) -> Iterator[FieldError]:
    """What is wrong with the rules of a claim."""
    try:
        rules = device_rules(annotations)
    except RulesError as error:
        yield _unreadable(error)
        return
    if not isinstance(rules, dict):
        rules = {"": rules or ()}
    elif unknown := sorted(rules.keys() - dict(ways_of(devices.requests)).keys()):
        names = ", ".join(dict(ways_of(devices.requests)))
        yield invalid(_place(DEVICE_TOLERATIONS), unknown[0], f"the claim has no such request: there are {names}")
    for name, tolerations in rules.items():
        request = DeviceRequest(exactly=ExactDeviceRequest(tolerations=tolerations))
        claim = ResourceClaim(spec=ResourceClaimSpec(DeviceClaim((request,))))
        here = f"{_place(DEVICE_TOLERATIONS)}{name and '.' + name}"
        for found in admission_errors(claim, ALL_ON):
            yield replace(found, field=found.field.replace("spec.devices.requests[0].exactly.tolerations", here))


def _pod_errors(spec: PodSpec, annotations: Annotations) -> Iterator[FieldError]:
    known = meaning(spec, annotations)
    if known is not None:
        yield from rule_errors(known.rules)
        if known.problem and not known.rules.problems:
            yield invalid(_place(NODE_AFFINITY), "", known.problem)


def _volume_errors(volume: PersistentVolume) -> Iterator[FieldError]:
    try:
        affinity = volume_rules(volume.metadata.annotations)
    except RulesError as error:
        yield _unreadable(error)
        return
    if affinity is not None:
        alone = PersistentVolume(spec=PersistentVolumeSpec(node_affinity=affinity))
        for found in admission_errors(alone, ALL_ON):
            yield replace(found, field=found.field.replace("spec.nodeAffinity", _place(NODE_AFFINITY)))


def _moved(error: FieldError) -> FieldError:
    for field, annotation in (("spec.tolerations", TOLERATIONS), ("spec.affinity.nodeAffinity", NODE_AFFINITY)):
        if error.field.startswith(field):
            return replace(error, field=_place(annotation) + error.field.removeprefix(field))
    return replace(error, field=_METADATA) if error.field == "spec" else error


def _unreadable(error: RulesError) -> FieldError:
    return invalid(_place(error.annotation), OMITTED, error.problem)


def _place(annotation: str) -> str:
    return f"{_METADATA}[{annotation}]"


def _under(path: str, errors: Iterable[FieldError]) -> list[FieldError]:
    return [replace(error, field=error.field.replace("metadata", path, 1)) for error in errors]
