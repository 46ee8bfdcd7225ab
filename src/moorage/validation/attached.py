"""What rules in annotations are refused for: what admission says to the fields that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meaning import meaning, without_cover
from moorage.api.meta import Object, ObjectMeta
from moorage.api.placementrules import ways_of
from moorage.api.pod import Affinity, Pod, PodSchedulingGate, PodSpec
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
    POD_RULES,
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
from moorage.api.workload import DaemonSet
from moorage.features import ALL_ON
from moorage.match.nativecover import native_daemon_cover
from moorage.validation import admission_errors
from moorage.validation.field import OMITTED, FieldError, invalid
from moorage.validation.rules import Breaches
from moorage.validation.update import pod_update_errors

_METADATA = "metadata.annotations"
_RULES = (*POD_RULES, DEVICE_TOLERATIONS)
_READ_ON: dict[type[Object], tuple[str, ...]] = {
    PersistentVolume: (NODE_AFFINITY,),
    ResourceClaim: (DEVICE_TOLERATIONS,),
}
_ALIKE = 0.85
"""How alike two names are of which one is probably meant for the other, from 0 to 1."""


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


def unread_rules(item: Object) -> Breaches:
    """Annotations with rules that nobody reads where they stand, and those that are named almost as such a one."""
    for path, metadata, read in _places(item):
        for name in metadata.annotations:
            if name in _RULES and name not in read:
                yield f"{path}.annotations[{name}]", "nobody reads this annotation here"
            elif name not in _RULES and (meant := get_close_matches(name, _RULES, 1, _ALIKE)):
                yield f"{path}.annotations[{name}]", f"nobody reads this annotation: {meant[0]} is the name of one"


def _places(item: Object) -> Iterator[tuple[str, ObjectMeta, tuple[str, ...]]]:
    """Where an object can have annotations, and which of those with rules are read there."""
    kind = kinds.of(item)
    in_pod = kind.pod_metadata_of(item)
    if in_pod is not None:
        yield kind.pod_metadata, in_pod, POD_RULES
    if isinstance(item, ResourceClaimTemplate):
        yield "spec.metadata", item.spec.metadata, (DEVICE_TOLERATIONS,)
    if in_pod is not item.metadata:
        yield "metadata", item.metadata, _READ_ON.get(type(item), ())


def attached_update_errors(item: Object, old: Object) -> list[FieldError]:
    """What an update may not do to the rules of an object: what it may not do to the fields that they stand for."""
    if isinstance(item, Pod) and isinstance(old, Pod):
        gates = old.spec.scheduling_gates
        new, before = (_as_pod(rules_of(each.metadata.annotations) or Rules(), gates).spec for each in (item, old))
        return [replace(each, field=_in_annotation(each.field)) for each in pod_update_errors("spec", new, before)]
    name = NODE_AFFINITY if isinstance(item, PersistentVolume) else DEVICE_TOLERATIONS
    before_text, text = old.metadata.annotations.get(name), item.metadata.annotations.get(name)
    may_be_set = isinstance(item, PersistentVolume) and before_text is None
    if not isinstance(item, (PersistentVolume, ResourceClaim)) or text == before_text or may_be_set:
        return []
    return [invalid(_place(name), text or "", "field is immutable")]


@lru_cache(maxsize=256)
def rule_errors(rules: Rules) -> tuple[FieldError, ...]:
    """What is wrong with the rules of a pod, all gates on: a gate that is off in a component is no fault of a rule."""
    unreadable = (_unreadable(RulesError(*problem)) for problem in rules.problems)
    errors = admission_errors(_as_pod(rules), ALL_ON)
    return (*unreadable, *(replace(error, field=_in_annotation(error.field)) for error in errors))


def attached_advice(item: Object, advise: Callable[[Object], Breaches]) -> Breaches:
    """What is legal and probably wrong with the rules of an object or of its pod template, where they stand."""
    kind = kinds.of(item)
    metadata = kind.pod_metadata_of(item)
    rules = rules_of(metadata.annotations) if metadata else None
    if rules is not None:
        for path, message in advise(_as_pod(rules)):
            yield _in_annotation(path).replace("metadata", kind.pod_metadata, 1), message


def is_uncovered_daemon(item: Object) -> bool:
    """Whether the stock controller of DaemonSets would not see that the rules of one tolerate a node's taints."""
    if not isinstance(item, DaemonSet):
        return False
    rules = rules_of(item.spec.template.metadata.annotations)
    return rules is not None and rules.cover == () and bool(native_daemon_cover(rules.tolerations))


def judged_tolerations(spec: PodSpec, annotations: Annotations) -> TolerationList:
    """The tolerations by which a pod that runs may stay. Rules that are refused do not count."""
    rules = rules_of(annotations)
    return spec.tolerations if rules is None else valid_tolerations(rules) + without_cover(spec.tolerations, rules)


def valid_tolerations(rules: Rules) -> TolerationList:
    """The tolerations among the rules of a pod; none when one of them is refused."""
    place = _place(TOLERATIONS)
    is_refused = any(error.field == _METADATA or error.field.startswith(place) for error in rule_errors(rules))
    return () if is_refused else rules.tolerations


def unreadable_rules(kind: Kind, error: RulesError) -> list[FieldError]:
    """What is wrong with an annotation of the pods of a kind that cannot be read."""
    return _under(kind.pod_metadata, [_unreadable(error)])


def claim_errors(annotations: Annotations, devices: DeviceClaim) -> Iterator[FieldError]:
    """What is wrong with the rules of a claim."""
    try:
        rules = device_rules(annotations)
    except RulesError as error:
        yield _unreadable(error)
        return
    if rules is None:
        return
    if not isinstance(rules, dict):
        rules = {"": rules}
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


def _as_pod(rules: Rules, gates: tuple[PodSchedulingGate, ...] = ()) -> Pod:
    affinity = Affinity(rules.affinity) if rules.affinity else None
    return Pod(spec=PodSpec(tolerations=rules.tolerations, affinity=affinity, scheduling_gates=gates))


def _in_annotation(field: str) -> str:
    """Where a field of a pod stands that is made of rules."""
    for native, annotation in (("spec.tolerations", TOLERATIONS), ("spec.affinity.nodeAffinity", NODE_AFFINITY)):
        if field.startswith(native):
            return _place(annotation) + field.removeprefix(native)
    return _METADATA


def _unreadable(error: RulesError) -> FieldError:
    return invalid(_place(error.annotation), OMITTED, error.problem)


def _place(annotation: str) -> str:
    return f"{_METADATA}[{annotation}]"


def _under(path: str, errors: Iterable[FieldError]) -> list[FieldError]:
    return [replace(error, field=error.field.replace("metadata", path, 1)) for error in errors]
