"""What may change in an object that exists: tolerations are only added, node affinity only narrowed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from moorage.api.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.api.placementrules import REQUIRED
from moorage.api.pod import NodeAffinity, PodSpec, Toleration
from moorage.api.volume import VolumeNodeAffinity
from moorage.validation.field import FieldError, forbidden, invalid

_GA_LABELS = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
}


def pod_update_errors(path: str, new: PodSpec, old: PodSpec) -> Iterator[FieldError]:
    """What an update of a pod may not do to where the pod can run."""
    known = {_without_seconds(toleration) for toleration in new.tolerations}
    if any(_without_seconds(toleration) not in known for toleration in old.tolerations):
        yield forbidden(f"{path}.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    yield from _scheduling_gates(path, new, old)
    old_affinity, new_affinity = _node_affinity(old), _node_affinity(new)
    if old.scheduling_gates:
        if any(new.node_selector.get(key) != value for key, value in old.node_selector.items()):
            detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            yield invalid(f"{path}.nodeSelector", new.node_selector, detail)
        yield from _narrowing(f"{path}.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms", new_affinity, old_affinity)
    else:
        for name, before, after in (
            ("nodeSelector", old.node_selector, new.node_selector),
            ("affinity.nodeAffinity", old_affinity, new_affinity),
        ):
            if before != after:
                yield forbidden(f"{path}.{name}", "pod updates may not change this field")


def volume_update_errors(
    path: str, new: VolumeNodeAffinity | None, old: VolumeNodeAffinity | None
) -> Iterator[FieldError]:
    """The node affinity of a PersistentVolume may be set once."""
    if old is not None and new != old and _with_ga_labels(old, new) != new:
        yield invalid(path, new, "field is immutable, except for updating from beta label to GA")


def _without_seconds(toleration: Toleration) -> Toleration:
    return msgspec.structs.replace(toleration, toleration_seconds=None)


def _node_affinity(spec: PodSpec) -> NodeAffinity:
    return (spec.affinity and spec.affinity.node_affinity) or NodeAffinity()


def _scheduling_gates(path: str, new: PodSpec, old: PodSpec) -> Iterator[FieldError]:
    known = {gate.name for gate in old.scheduling_gates}
    for index, gate in enumerate(new.scheduling_gates):
        if gate.name not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.name}'"
            yield forbidden(f"{path}.schedulingGates[{index}].name", detail)


def _narrowing(path: str, new: NodeAffinity, old: NodeAffinity) -> Iterator[FieldError]:
    """A pod with scheduling gates may get conditions added to each of its terms, and nothing else."""
    old_terms = (old.required_during_scheduling_ignored_during_execution or NodeSelector()).node_selector_terms
    new_terms = (new.required_during_scheduling_ignored_during_execution or NodeSelector()).node_selector_terms
    if not old_terms:
        return
    if len(old_terms) != len(new_terms):
        yield invalid(path, new_terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for index, (before, after) in enumerate(zip(old_terms, new_terms, strict=True)):
        if not _only_adds(after, before):
            yield invalid(f"{path}[{index}]", after, "only additions are allowed (no mutations or deletions)")


def _only_adds(new: NodeSelectorTerm, old: NodeSelectorTerm) -> bool:
    if old == NodeSelectorTerm():
        return new == old  # an empty term matches no node: any condition would widen it
    parts = ((getattr(new, name), getattr(old, name)) for name in old.__struct_fields__)
    return all(after[: len(before)] == before for after, before in parts)


def _with_ga_labels(old: VolumeNodeAffinity, new: VolumeNodeAffinity | None) -> VolumeNodeAffinity:
    """The old affinity with each beta label respelled that the new one respells in the same place."""
    if old.required is None or new is None or new.required is None:
        return old
    new_terms = new.required.node_selector_terms
    terms = tuple(
        msgspec.structs.replace(term, match_expressions=_respelled(term, new_terms[index]))
        if index < len(new_terms)
        else term
        for index, term in enumerate(old.required.node_selector_terms)
    )
    return VolumeNodeAffinity(NodeSelector(terms))


def _respelled(old: NodeSelectorTerm, new: NodeSelectorTerm) -> tuple[NodeSelectorRequirement, ...]:
    keys = [requirement.key for requirement in new.match_expressions]
    return tuple(
        msgspec.structs.replace(requirement, key=_GA_LABELS[requirement.key])
        if _GA_LABELS.get(requirement.key) in keys[at : at + 1]
        else requirement
        for at, requirement in enumerate(old.match_expressions)
    )
