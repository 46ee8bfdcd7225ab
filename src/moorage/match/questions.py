"""The three questions of the matcher, for typed objects and for plain dicts as YAML gives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from moorage.api import kinds
from moorage.api.decode import convert, from_manifest
from moorage.api.meaning import meant, reach_of
from moorage.api.meta import Object
from moorage.api.node import Node, NodeSelector, Taint
from moorage.api.pod import PodSpec, Toleration
from moorage.api.volume import PersistentVolume
from moorage.features import ALL_ON, Gates
from moorage.match.reasons import Complaint, unsatisfied
from moorage.match.selector import Selector, Term, compile_pod_selector, compile_selector
from moorage.match.tolerations import NO_EXECUTE, NO_SCHEDULE, Tolerations
from moorage.match.verdict import MATCH, Verdict

Manifest = Mapping[str, Any]
"""An object, or a part of one, as YAML or JSON has it. An object says its apiVersion and kind."""

Tolerating = Object | Manifest | Toleration | Iterable[Toleration | Manifest]
"""A pod, anything with a pod template, a toleration, or several."""

Tainted = Node | Manifest | Taint | Iterable[Taint | Manifest]
"""A node, a taint, or several."""

Selecting = Object | Manifest | NodeSelector
"""A pod, anything with a pod template, a PersistentVolume, or a node selector."""


def tolerates(pod: Tolerating, node: Tainted, gates: Gates = ALL_ON) -> Verdict:
    """Whether every taint is tolerated that would keep the pod away or evict it; a single taint counts in any case.

    The verdict is an error when the answer depends on something that cannot be evaluated. DecodeError (a ValueError)
    when a dict holds what such an object cannot hold.
    """
    tolerations = Tolerations(_tolerations(pod), gates)
    return _all(tolerations.verdict(taint) for taint in _repelling(node))


def selects(pod: Selecting, node: Node | Manifest, gates: Gates = ALL_ON) -> Verdict:
    """Whether a node has the labels and the name that a pod demands, or a volume, or a node selector."""
    selector, target = _selector(pod, gates), _node(node)
    return selector.verdict(target.metadata.labels, target.metadata.name)


def explain(pod: Object | Manifest, node: Node | Manifest, gates: Gates = ALL_ON) -> list[str]:
    """Why a pod cannot run on a node, as sentences: taints first, then labels; none when neither keeps it away."""
    target = _node(node)
    tolerations = Tolerations(_tolerations(pod), gates)
    complaint = Complaint(tolerations, gates)
    reasons = [
        f"taint {taint}: {lack.text}"
        for taint in _repelling(target)
        if not tolerations.verdict(taint)
        for lack in complaint(taint)
    ]
    return [*reasons, *_unmet(_selector(pod, gates), target)]


def _all(verdicts: Iterable[Verdict]) -> Verdict:
    """A match when all are; a plain no among them decides, whatever could not be evaluated."""
    answer = MATCH
    for verdict in verdicts:
        if not verdict.matched and not verdict.error:
            return verdict
        if answer.matched:
            answer = verdict
    return answer


def _unmet(selector: Selector, node: Node) -> Iterator[str]:
    labels, name = node.metadata.labels, node.metadata.name
    for condition in selector.always:
        verdict = condition.verdict(labels, name)
        if not verdict.matched:
            yield unsatisfied(condition, labels, verdict).text
    terms = selector.terms
    if terms is not None and not any(term.verdict(labels, name).matched for term in terms):
        yield from (_unmet_term(term, node) for term in terms)
        if not terms:
            yield "a node selector without terms selects no node"


def _unmet_term(term: Term, node: Node) -> str:
    labels, name = node.metadata.labels, node.metadata.name
    if term.errors:
        return "; ".join(term.errors)
    for condition in term.conditions:
        verdict = condition.verdict(labels, name)
        if not verdict.matched:
            return unsatisfied(condition, labels, verdict).text
    return "a node selector term without conditions selects no node"


def _tolerations(pod: Tolerating) -> Iterable[Toleration]:
    if isinstance(pod, Toleration):
        return (pod,)
    if isinstance(pod, Mapping) and "kind" not in pod:
        return (convert(dict(pod), Toleration),)
    if isinstance(pod, Object | Mapping):
        return _pod_spec(_object(pod)).tolerations
    return [item if isinstance(item, Toleration) else convert(dict(item), Toleration) for item in pod]


def _repelling(node: Tainted) -> Iterable[Taint]:
    if isinstance(node, Taint):
        return (node,)
    if isinstance(node, Mapping) and "kind" not in node:
        return (convert(dict(node), Taint),)
    if isinstance(node, Node | Mapping):
        taints: Iterable[Taint] = _node(node).spec.taints
    else:
        taints = [item if isinstance(item, Taint) else convert(dict(item), Taint) for item in node]
    return [taint for taint in taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE)]


def _selector(pod: Selecting, gates: Gates) -> Selector:
    if isinstance(pod, Mapping) and "kind" not in pod:
        pod = convert(dict(pod), NodeSelector)
    if isinstance(pod, NodeSelector):
        return compile_selector(pod, gates)
    holder = _object(pod)
    if isinstance(holder, PersistentVolume):
        return compile_selector(reach_of(holder), gates)
    return compile_pod_selector(_pod_spec(holder), gates)


def _pod_spec(holder: Object) -> PodSpec:
    kind = kinds.of(holder)
    spec, metadata = kind.pod_spec_of(holder), kind.pod_metadata_of(holder)
    if spec is None or metadata is None:
        raise TypeError(f"a {holder.kind or type(holder).__name__} is no pod and has no pod template")
    return meant(spec, metadata.annotations)


def _node(node: Node | Manifest) -> Node:
    target = _object(node)
    if not isinstance(target, Node):
        raise TypeError(f"a {target.kind or type(target).__name__} is no node")
    return target


def _object(data: Object | Manifest) -> Object:
    if isinstance(data, Object):
        return data
    return from_manifest(dict(data)) or convert(dict(data), Object)
