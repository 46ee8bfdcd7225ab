"""The disruption budgets of pods, which preemption asks for: found once for all pods with the same labels."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence

from moorage.api.labels import Labels, anchor, picks, size_of
from moorage.api.pod import Pod, PodDisruptionBudget
from moorage.bounded import Bounded
from moorage.client import Informer
from moorage.client.informer import Key

_REMEMBERED, _REMEMBERED_BYTES, _LABEL_BYTES = 65_536, 32 << 20, 200
_AT_ONCE = 10_000
"""How many conditions are compared before others have their turn."""
_ANCHOR = "anchor"
_Alike = tuple[str, frozenset[tuple[str, str]]]
"""A namespace, and labels."""


class PodBudgets:
    """The disruption budgets of a cluster."""

    def __init__(self, budgets: Informer[PodDisruptionBudget]) -> None:
        self._budgets = budgets
        self._known: Bounded[_Alike, Sequence[Key]] = Bounded(_REMEMBERED, _REMEMBERED_BYTES)
        budgets.index(_ANCHOR, lambda budget: [_place(budget.metadata.namespace, anchor(budget.spec.selector))])
        budgets.on_change(self._changed)

    def __len__(self) -> int:
        return len(self._budgets)

    def of(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The budgets of a pod that its removal would count against."""
        name, namespace, labels = pod.metadata.name, pod.metadata.namespace, pod.metadata.labels
        if not labels or not len(self._budgets):
            return []
        steps = self._find(namespace, labels)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found = (self._budgets.get(*key) for key in end.value)
                break
        return [budget for budget in found if budget is not None and name not in budget.status.disrupted_pods]

    def learn(self, pods: Iterable[Pod]) -> Iterator[None]:
        """Find the budgets of pods, so that `of` knows them: in steps, because there may be many of both."""
        if not len(self._budgets):
            return
        compared = 0
        for pod in pods:
            for size in self._find(pod.metadata.namespace, pod.metadata.labels):
                compared += size
                if compared > _AT_ONCE:
                    compared = 0
                    yield

    def _find(self, namespace: str, labels: Labels) -> Generator[int, None, Sequence[Key]]:
        """The budgets of pods with some labels. Each step says how many conditions were compared."""
        alike = namespace, frozenset(labels.items())
        known = self._known.get(alike)
        if known is not None:
            return known
        found: list[Key] = []
        for place in (_place(namespace, None), *(_place(namespace, label) for label in labels.items())):
            for budget in list(self._budgets.by(_ANCHOR, place)):
                selector = budget.spec.selector
                if size_of(selector) and picks(selector, labels):
                    found.append((namespace, budget.metadata.name))
                yield 1 + size_of(selector)
        self._known.put(alike, found, _LABEL_BYTES * (len(labels) + len(found) + 2))
        return found

    def _changed(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        if old is None or new is None or old.spec.selector != new.spec.selector:
            self._known.clear()


def _place(namespace: str, label: tuple[str, str] | None) -> str:
    return f"{namespace}/{label[0]}={label[1]}" if label else f"{namespace}/"
