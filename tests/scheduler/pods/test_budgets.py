"""The disruption budgets of a pod are found once for all pods with its labels, and in steps when there are many."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import pytest

from moorage.api import kinds
from moorage.api.decode import convert
from moorage.api.labels import Labels, picks
from moorage.api.meta import Data, LabelSelector
from moorage.api.pod import Pod, PodDisruptionBudget
from moorage.client import Client, Informer
from moorage.scheduler.pods import budgets
from moorage.scheduler.pods.budgets import PodBudgets

SELECTORS: tuple[Data | None, ...] = (
    {"matchLabels": {"app": "web"}},
    {"matchLabels": {"app": "db"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
    {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
    {},
    None,
)


def pod(name: str, namespace: str = "x", **labels: str) -> Pod:
    return convert({"metadata": {"name": name, "namespace": namespace, "uid": name, "labels": labels}}, Pod)


class Budgets:
    """Budgets as an informer has them."""

    def __init__(self) -> None:
        kind = kinds.row("policy/v1", "PodDisruptionBudget")
        self.informer: Informer[PodDisruptionBudget] = Informer(cast(Client, None), kind)
        self.known = PodBudgets(self.informer)
        self.revision = 0

    def put(self, name: str, selector: Data | None, **disrupted: str) -> None:
        self.revision += 1
        metadata = {"name": name, "namespace": "x", "uid": name, "resourceVersion": str(self.revision)}
        status = {"disruptedPods": disrupted}
        self.informer.put(
            convert({"metadata": metadata, "spec": {"selector": selector}, "status": status}, PodDisruptionBudget)
        )

    def of(self, found: Pod) -> set[str]:
        return {each.metadata.name for each in self.known.of(found)}


def test_a_pod_has_the_budgets_that_select_it() -> None:
    given = Budgets()
    for number, selector in enumerate(SELECTORS):
        given.put(f"b{number}", selector)
    assert given.of(pod("p", app="web")) == {"b0", "b2", "b3", "b4"}
    assert given.of(pod("p", app="db", tier="1")) == {"b1", "b2"}
    assert given.of(pod("p", "y", app="web")) == given.of(pod("p")) == set()
    given.put("b1", {"matchLabels": {"app": "web"}})
    given.put("b4", SELECTORS[4], p="2026-01-01T00:00:00Z")
    assert given.of(pod("p", app="web")) == {"b0", "b1", "b2", "b3"}
    assert given.of(pod("q", app="web")) == {"b0", "b1", "b2", "b3", "b4"}


def test_many_budgets_are_compared_once_with_pods_that_are_alike_and_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    given, compared = Budgets(), list[Labels]()
    for number in range(1000):
        absent = [{"key": f"k-{number}-{each}", "operator": "DoesNotExist"} for each in range(100)]
        given.put(f"b{number}", {"matchExpressions": absent})

    def counted(selector: LabelSelector | None, labels: Labels) -> bool:
        compared.append(labels)
        return picks(selector, labels)

    monkeypatch.setattr(budgets, "picks", counted)
    steps = [0]
    alike = (pod(f"p{number}", app=str(number % 2)) for number in range(200))
    steps += [len(compared) for _ in given.known.learn(alike)]
    assert len(compared) == 2000
    assert max(after - before for before, after in pairwise(steps)) <= 100
    assert len(given.of(pod("p", app="1"))) == 1000
    assert len(compared) == 2000
