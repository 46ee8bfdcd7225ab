"""RBAC decisions are cached until a role or a binding changes, and only so many of them."""

from __future__ import annotations

import pytest

from moorage.apiserver.access.defaultroles import DEFAULTS
from moorage.apiserver.access.rbac import Attributes, Rbac
from moorage.apiserver.access.roles import RoleRule
from tests.apiserver.access.test_authorization import ANN, GET_POD, ROOT, binding, role, rule, user


class CountingRbac(Rbac):
    """Counts how often the rules of a role are looked up."""

    lookups = 0

    def rules(self, role_kind: str, namespace: str, name: str) -> tuple[RoleRule, ...] | None:
        self.lookups += 1
        return super().rules(role_kind, namespace, name)


def test_a_decision_is_made_once_and_again_when_a_binding_changes() -> None:
    rbac = CountingRbac([*DEFAULTS, *(binding(f"b{number}", "view", user(f"u{number}")) for number in range(100))])
    rbac.put("ClusterRoleBinding", binding("ann", "edit", user("ann")))
    for _ in range(100):
        assert rbac.decide(ROOT, GET_POD).allowed
    assert rbac.lookups == 0
    assert rbac.decide(ANN, GET_POD).allowed
    once = rbac.lookups
    for _ in range(100):
        assert rbac.decide(ANN, GET_POD).allowed
    assert rbac.lookups == once
    rbac.remove("ClusterRoleBinding", "", "ann")
    assert not rbac.decide(ANN, GET_POD).allowed


def test_cached_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moorage.apiserver.access.rbac.MOST_DECISIONS", 10)
    rbac = CountingRbac([role("r", rule("get", "pods")), binding("b", "r", user("ann"))])
    assert rbac.decide(ANN, GET_POD).allowed
    for number in range(11):
        assert not rbac.decide(ANN, Attributes("get", "nodes", namespace=f"n-{number}")).allowed
    lookups = rbac.lookups
    assert rbac.decide(ANN, GET_POD).allowed
    assert rbac.lookups > lookups
