"""Affinity and anti-affinity terms of pods, parsed: which pods they match, and by which topology key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakKeyDictionary

from moorage.api.labels import NOTHING, LabelMatcher, Labels, SelectorError, from_struct
from moorage.api.pod import PodAffinity, PodAffinityTerm, PodSpec
from moorage.scheduler.table.shape import PodInfo, Shape

Label = tuple[str, str]
_UNKNOWN: Labels = {}


@dataclass(frozen=True, slots=True)
class Pick:
    """Pods of some namespaces whose labels a selector matches. Two that read the same are equal."""

    text: str
    namespaces: frozenset[str] = field(compare=False)
    namespace_selector: LabelMatcher = field(compare=False)
    """Picks namespaces beside those that are named."""
    selector: LabelMatcher = field(compare=False)
    anchor: Label | None = field(compare=False)
    """A label that every pod it picks has, if there is one: picks are found by it."""
    namespace: str = field(compare=False)
    """The namespace of every pod it picks, empty when there are several: picks are found by it too."""

    @staticmethod
    def of(namespaces: Iterable[str], selector: LabelMatcher, namespace_selector: LabelMatcher = NOTHING) -> Pick:
        """Pods of these namespaces, and of those that the second selector matches."""
        names = frozenset(namespaces)
        text = f"{','.join(sorted(names))};{_text(namespace_selector)};{_text(selector)}"
        only = next(iter(names)) if len(names) == 1 and namespace_selector is NOTHING else ""
        return Pick(text, names, namespace_selector, selector, _anchor(selector), only)

    def matches(self, namespace: str, labels: Labels, namespace_labels: Labels = _UNKNOWN) -> bool:
        """Whether a pod is picked."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


def _text(selector: LabelMatcher) -> str:
    return "nothing" if selector is NOTHING else f"({selector})"


def _anchor(selector: LabelMatcher) -> Label | None:
    for requirement in selector.requirements:
        if requirement.operator in ("=", "==", "in") and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None


class AffinityTerm(NamedTuple):
    """A parsed affinity term; the weight is of a preferred one, or 1."""

    pick: Pick
    topology_key: str
    weight: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class PodTerms:
    """The terms of a pod."""

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[AffinityTerm, ...] = ()
    """The preferred terms; the weight of anti-affinity is negative."""
    error: str = ""
    """What does not parse; terms of that kind are left out."""
    selects_namespaces: bool = False
    """Whether some term selects namespaces by their labels."""


NO_TERMS = PodTerms()


class TermsOfPods:
    """The terms of pods, read once for all pods of a shape and namespace."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Shape, dict[str, PodTerms]] = WeakKeyDictionary()

    def of(self, info: PodInfo) -> PodTerms:
        """The terms of a pod."""
        affinity = info.shape.spec.affinity
        if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
            return NO_TERMS
        known = self._known.setdefault(info.shape, {})
        namespace = info.key[0]
        terms = known.get(namespace)
        if terms is None:
            terms = known[namespace] = read_terms(info.shape.spec, namespace)
        return terms


def read_terms(spec: PodSpec, namespace: str) -> PodTerms:
    """The terms of pods with this specification in a namespace."""
    if spec.affinity is None:
        return NO_TERMS
    near = spec.affinity.pod_affinity or PodAffinity()
    far = spec.affinity.pod_anti_affinity or PodAffinity()
    lists = {
        "requiredAffinityTerms": [(1, each) for each in near.required_during_scheduling_ignored_during_execution],
        "requiredAntiAffinityTerms": [(1, each) for each in far.required_during_scheduling_ignored_during_execution],
        "preferredAffinityTerms": [
            (each.weight, each.pod_affinity_term) for each in near.preferred_during_scheduling_ignored_during_execution
        ],
        "preferredAntiAffinityTerms": [
            (-each.weight, each.pod_affinity_term) for each in far.preferred_during_scheduling_ignored_during_execution
        ],
    }
    parsed: dict[str, tuple[AffinityTerm, ...]] = {}
    errors = []
    for name, weighted_terms in lists.items():
        try:
            parsed[name] = tuple(_term(term, weight, namespace) for weight, term in weighted_terms)
        except SelectorError as error:
            errors.append(f"{name}: {error}")
    return PodTerms(
        parsed.get("requiredAffinityTerms", ()),
        parsed.get("requiredAntiAffinityTerms", ()),
        parsed.get("preferredAffinityTerms", ()) + parsed.get("preferredAntiAffinityTerms", ()),
        f"[{', '.join(errors)}]" if len(errors) > 1 else "".join(errors),
        any(term.pick.namespace_selector.requirements for terms in parsed.values() for term in terms),
    )


def _term(term: PodAffinityTerm, weight: int, namespace: str) -> AffinityTerm:
    """`matchLabelKeys` and `mismatchLabelKeys` are in the selector already: the API server puts them there."""
    own = not term.namespaces and term.namespace_selector is None
    namespaces = (namespace,) if own else term.namespaces
    pick = Pick.of(namespaces, from_struct(term.label_selector), from_struct(term.namespace_selector))
    return AffinityTerm(pick, term.topology_key, weight)
