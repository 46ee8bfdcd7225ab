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
        self._found: dict[str, dict[LabelPair, dict[Key, Pod]]] = {}
        """The pods that have a label, by its key, then by namespace and value."""
        pods.index(_NAMESPACE, lambda pod: [pod.metadata.namespace])

    def change(self, old: Pod | None, new: Pod | None) -> None:
        """A pod has changed."""
        for name, found in self._found.items():
            if old is not None:
                place = _place(old, name)
                there = found.get(place, {})
                there.pop(_key(old), None)
                if not there:
                    found.pop(place, None)
            if new is not None and name in new.metadata.labels:
                found.setdefault(_place(new, name), {})[_key(new)] = new

    def matching(self, namespace: str, selector: LabelMatcher) -> list[Pod]:
        """The pods of a namespace that a selector matches."""
        label = anchor(selector)
        candidates: Iterable[Pod] = self._pods.by(_NAMESPACE, namespace)
        if label is not None:
            candidates = self._by(label[0]).get((namespace, label[1]), {}).values()
        return [pod for pod in candidates if selector.matches(pod.metadata.labels)]

    def _by(self, name: str) -> dict[LabelPair, dict[Key, Pod]]:
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = {}
            for pod in self._pods:
                if name in pod.metadata.labels:
                    found.setdefault(_place(pod, name), {})[_key(pod)] = pod
        return found


def _place(pod: Pod, name: str) -> LabelPair:
    return pod.metadata.namespace, pod.metadata.labels.get(name, "")


def _key(pod: Pod) -> Key:
    return pod.metadata.namespace, pod.metadata.name
