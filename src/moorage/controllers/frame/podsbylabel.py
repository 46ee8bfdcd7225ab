"""Pods by their labels: the pods of a selector without asking it about every pod of a namespace."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.api.labels import LabelMatcher
from moorage.api.pod import Pod
from moorage.client import Informer
from moorage.client.informer import Key

LabelPair = tuple[str, str]
"""A label: key and value."""

_NAMESPACE = "namespace"


def anchor(selector: LabelMatcher) -> LabelPair | None:
    """A label that all objects have which a selector matches; None when it names none."""
    equal = (each for each in selector.requirements if each.operator in ("=", "==", "in") and len(each.values) == 1)
    return next(((each.key, each.values[0]) for each in equal), None)


class PodsByLabel:
    """Finds pods by the values of those labels that selectors have asked for; other labels cost nothing."""

    def __init__(self, pods: Informer[Pod]) -> None:
        self._pods = pods
        self._by: dict[str, _ByValue] = {}
        pods.index(_NAMESPACE, lambda pod: [pod.metadata.namespace])

    def change(self, old: Pod | None, new: Pod | None) -> None:
        """A pod has changed."""
        for found in self._by.values():
            found.change(old, new)

    def matching(self, namespace: str, selector: LabelMatcher) -> list[Pod]:
        """The pods of a namespace that a selector matches."""
        label = anchor(selector)
        candidates = self._pods.by(_NAMESPACE, namespace) if label is None else self._with(namespace, label)
        return [pod for pod in candidates if selector.matches(pod.metadata.labels)]

    def _with(self, namespace: str, label: LabelPair) -> Iterable[Pod]:
        name, value = label
        found = self._by.get(name)
        if found is None:
            found = self._by[name] = _ByValue(name)
            for pod in self._pods:
                found.change(None, pod)
        return found.pods.get((namespace, value), {}).values()


class _ByValue:
    """Pods by namespace and by the value of one label."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.pods: dict[tuple[str, str], dict[Key, Pod]] = {}
        self._values: dict[Key, str] = {}

    def change(self, old: Pod | None, new: Pod | None) -> None:
        # The last state of a pod that is gone may have other labels than those with which it was seen.
        pod = new or old
        assert pod is not None
        key = pod.metadata.namespace, pod.metadata.name
        before = self._values.pop(key, None)
        if before is not None:
            there = self.pods[key[0], before]
            del there[key]
            if not there:
                del self.pods[key[0], before]
        if new is not None and (value := new.metadata.labels.get(self._name)) is not None:
            self.pods.setdefault((key[0], value), {})[key] = new
            self._values[key] = value
