"""The pods of a selector are found among those that share a label with it, not among all."""

from __future__ import annotations

import random
from typing import cast

import pytest

from moorage.api import kinds, labels
from moorage.api.decode import convert
from moorage.api.labels import LabelMatcher, Labels
from moorage.api.pod import Pod
from moorage.client import Client, Informer
from moorage.controllers.frame.podsbylabel import PodsByLabel, PodsOfLabel, anchor

CLIENT = cast(Client, None)
"""No server is asked: the pods are put into the informer."""
VALUES = "abc"
SELECTORS = ("app=a", "app in (b),tier=c", "tier!=a", "app in (a,b)", "app=c,!tier", "", "tier", "absent=a")


def pod(name: str, namespace: str, revision: int, **given: str) -> Pod:
    metadata = {"name": name, "namespace": namespace, "uid": name, "labels": given, "resourceVersion": str(revision)}
    return convert({"metadata": metadata}, Pod)


def test_found_are_exactly_the_pods_that_match_whatever_changes() -> None:
    chance = random.Random(7)
    informer: Informer[Pod] = Informer(CLIENT, kinds.row("v1", "Pod"))
    found = PodsByLabel(informer)
    informer.on_change(found.change)
    for revision in range(1, 600):
        name, namespace = f"p{chance.randrange(30)}", chance.choice("xy")
        given = {key: chance.choice(VALUES) for key in ("app", "tier") if chance.random() < 0.8}
        new = pod(name, namespace, revision, **given)
        if chance.random() < 0.2:
            informer.remove(new)
        else:
            informer.put(new)
        selector = labels.parse(chance.choice(SELECTORS))
        expected = [
            each for each in informer
            if each.metadata.namespace == namespace and selector.matches(each.metadata.labels)
        ]  # fmt: skip
        assert sorted(found.matching(namespace, selector), key=id) == sorted(expected, key=id)


def test_a_selector_is_asked_only_about_pods_that_may_match() -> None:
    informer: Informer[Pod] = Informer(CLIENT, kinds.row("v1", "Pod"))
    found = PodsByLabel(informer)
    informer.on_change(found.change)
    for number in range(100):
        informer.put(pod(f"p{number}", "x", number + 1, app=str(number % 50)))
    selector, asked = LabelMatcher(labels.parse("app=7").requirements), list[object]()
    matches = selector.matches

    def counted(given: Labels) -> bool:
        asked.append(given)
        return matches(given)

    selector.matches = counted
    assert [each.metadata.name for each in found.matching("x", selector)] == ["p7", "p57"]
    assert len(asked) == 2


def test_labels_that_were_asked_for_once_cost_later_pods_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    informer: Informer[Pod] = Informer(CLIENT, kinds.row("v1", "Pod"))
    found = PodsByLabel(informer)
    informer.on_change(found.change)
    for number in range(1000):
        assert found.matching("x", labels.parse(f"k{number}=a")) == []
    looked: list[Pod] = []
    change = PodsOfLabel.change

    def counted(self: PodsOfLabel, pod: Pod, *, exists: bool) -> None:
        looked.append(pod)
        change(self, pod, exists=exists)

    monkeypatch.setattr(PodsOfLabel, "change", counted)
    informer.put(pod("p", "x", 1, k7="a", k999="a"))
    assert len(looked) <= 32
    informer.put(pod("p", "y", 2, k7="a"))
    assert len(looked) <= 32
    for number in (7, 999, 7):
        assert [each.metadata.name for each in found.matching("x", labels.parse(f"k{number}=a"))] == ["p"]


def test_the_anchor_of_a_selector_is_a_label_with_one_value() -> None:
    assert [anchor(labels.parse(text)) for text in SELECTORS] == [
        ("app", "a"), ("app", "b"), None, None, ("app", "c"), None, None, ("absent", "a"),
    ]  # fmt: skip
