"""Pods by their labels: the pods of a selector without asking it about every pod of a namespace."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.api.labels import LabelMatcher
from moorage.api.pod import Pod
from moorage.bounded import Bounded
from moorage.client import Informer

LabelPair = tuple[str, str]
"""A label: key and value."""

_NAMESPACE = "namespace"
_NAMESPACES, _LABELS = 1024, 32
"""How many namespaces, and labels in each, pods are kept by: a change of a pod costs each label."""


def anchor(selector: LabelMatcher) -> LabelPair | None:
    """A label that all objects have which a selector matches; None when it names none."""
    equal = (each for each in selector.requirements if each.operator in ("=", "==", "in") and len(each.values) == 1)
    return next(((each.key, each.values[0]) for each in equal), None)


class PodsByLabel:
    """Finds pods by the values of those labels that selectors have asked for last; other labels cost nothing."""

    def __init__(self, pods: Informer[Pod]) -> None:
        self._pods = pods
        self._by: Bounded[str, Bounded[str, PodsOfLabel]] = Bounded(_NAMESPACES)
        """By namespace and by the name of a label."""
        pods.index(_NAMESPACE, lambda pod: [pod.metadata.namespace])

    def change(self, old: Pod | None, new: Pod | None) -> None:
        """A pod has changed."""
        # The last state of a pod that is gone may have other labels than those with which it was seen.
        pod = new or old
        assert pod is not None
        if (there := self._by.get(pod.metadata.namespace)) is not None:
            for found in there.values():
                found.change(pod, exists=new is not None)

    def matching(self, namespace: str, selector: LabelMatcher) -> list[Pod]:
        """The pods of a namespace that a selector matches."""
        label = anchor(selector)
        candidates = self._pods.by(_NAMESPACE, namespace) if label is None else self._with(namespace, label)
        return [pod for pod in candidates if selector.matches(pod.metadata.labels)]

    def _with(self, namespace: str, label: LabelPair) -> Iterable[Pod]:
        name, value = label
        there = self._by.get(namespace)
        if there is None:
            there = Bounded(_LABELS)
            self._by.put(namespace, there)
        found = there.get(name)
        if found is None:
            found = PodsOfLabel(name)
            there.put(name, found)
            for pod in self._pods.by(_NAMESPACE, namespace):
                found.change(pod, exists=True)
        return found.pods.get(value, {}).values()


class PodsOfLabel:
    """The pods of a namespace by the value of one label."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.pods: dict[str, dict[str, Pod]] = {}
        self._values: dict[str, str] = {}

    def change(self, pod: Pod, *, exists: bool) -> None:
        """A pod of the namespace has changed, or is gone."""
        name = pod.metadata.name
        before = self._values.pop(name, None)
        if before is not None:
            there = self.pods[before]
            del there[name]
            if not there:
                del self.pods[before]
        if exists and (value := pod.metadata.labels.get(self._name)) is not None:
            self.pods.setdefault(value, {})[name] = pod
            self._values[name] = value
