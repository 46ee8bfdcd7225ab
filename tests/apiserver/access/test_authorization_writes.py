"""Nobody gives away more than they hold."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.access import rulecover
from moorage.apiserver.access.defaultroles import DEFAULTS
from moorage.apiserver.access.escalation import escalation
from moorage.apiserver.access.rbac import Attributes, Rbac
from moorage.apiserver.access.roles import RoleRule
from moorage.apiserver.access.rulecover import uncovered
from moorage.apiserver.base.users import User
from tests.apiserver.access.test_authorization import AGGREGATE, GROUP, ROOT, binding, group, role, rule, user
from tests.apiserver.edge import told

Data = dict[str, Any]
ANN = User("ann", ("dev", "system:authenticated"))


def rbac(*rules: Data) -> Rbac:
    """Ann has these rules everywhere."""
    return Rbac([*DEFAULTS, role("anns", *rules), binding("anns", "anns", user("ann"))])


def refused(evaluator: Rbac, data: Data, who: User = ANN, old: Data | None = None) -> Data | None:
    response = escalation(evaluator, who, data["kind"], data["metadata"].get("namespace", ""), data, old)
    return None if response is None else told(response)


def test_who_holds_something_may_give_it() -> None:
    evaluator = rbac(rule("get list", "pods"))
    assert refused(evaluator, role("new", rule("get", "pods"))) is None
    assert refused(evaluator, role("new", rule("get", "pods", names="web"), namespace="default")) is None
    assert refused(evaluator, binding("new", "anns", group("dev"))) is None


def test_who_does_not_hold_something_may_not_give_it() -> None:
    failure = refused(
        rbac(rule("get", "pods")), role("new", rule("get list watch", "pods secrets"), rule("get", urls="/metrics"))
    )
    assert failure is not None
    assert failure["code"] == 403
    assert failure["details"] == {"name": "new", "group": GROUP, "kind": "clusterroles"}
    assert failure["message"] == (
        f'clusterroles.{GROUP} "new" is forbidden: user "ann" (groups=["dev" "system:authenticated"]) is attempting to '
        "grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}\n'
        '{NonResourceURLs:["/metrics"], Verbs:["get"]}'
    )


def test_what_is_held_in_a_namespace_may_be_given_there_only() -> None:
    evaluator = Rbac([*DEFAULTS, binding("b", "admin", user("ann"), namespace="default")])
    assert refused(evaluator, role("new", rule("create", "pods"), namespace="default")) is None
    assert refused(evaluator, binding("new", "edit", group("dev"), namespace="default")) is None
    assert refused(evaluator, role("new", rule("create", "pods"), namespace="other")) is not None
    assert refused(evaluator, binding("new", "edit", group("dev"), namespace="other")) is not None
    assert refused(evaluator, binding("new", "edit", group("dev"))) is not None
    assert refused(evaluator, binding("new", "cluster-admin", group("dev"), namespace="default")) is not None


def test_who_may_escalate_or_bind_need_not_hold() -> None:
    escalator = rbac(rule("escalate", "roles", GROUP))
    assert refused(escalator, role("new", rule("*", "*", "*"), namespace="default")) is None
    assert refused(escalator, role("new", rule("*", "*", "*"))) is not None
    binder = rbac(rule("bind", "clusterroles", GROUP, names="view"))
    assert refused(binder, binding("new", "view", group("dev"))) is None
    assert refused(binder, binding("new", "edit", group("dev"))) is not None


def test_masters_may_give_everything() -> None:
    assert refused(rbac(), role("new", rule("*", "*", "*")), ROOT) is None
    assert refused(rbac(), binding("new", "missing", user("x")), ROOT) is None


def test_a_binding_to_a_missing_role_is_not_found() -> None:
    failure = refused(rbac(), binding("new", "missing", user("x")))
    assert failure is not None
    assert (failure["code"], failure["message"]) == (404, f'clusterroles.{GROUP} "missing" not found')


def test_to_gather_roles_takes_all_rights() -> None:
    gathering = role("new", aggregationRule=AGGREGATE)
    for data, old in ((gathering, None), (role("new"), gathering)):
        failure = refused(rbac(rule("get list create update", "*", "*")), data, old=old)
        assert failure is not None
        assert failure["message"].endswith("must have cluster-admin privileges to use the aggregationRule")
        assert refused(rbac(rule("*", "*", "*"), rule("*", urls="*")), data, old=old) is None


def test_the_garbage_collector_may_change_owners_and_finalizers() -> None:
    old = role("new", rule("*", "*", "*"))
    new = {**old, "metadata": {**old["metadata"], "finalizers": ["x"], "resourceVersion": "2", "managedFields": []}}
    assert refused(rbac(), new, old=old) is None
    assert refused(rbac(), {**new, "rules": [rule("*", "*", "*"), rule("get", "pods")]}, old=old) is not None
    renamed = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert refused(rbac(), renamed, old=old) is not None


@pytest.mark.parametrize(
    "broken",
    [
        {"kind": "Role", "metadata": {"name": "x"}, "rules": "*"},
        {"kind": "ClusterRole", "metadata": {"name": "x"}, "aggregationRule": 1},
        {"kind": "RoleBinding", "metadata": {"name": "x"}, "roleRef": "admin"},
        {"kind": "ClusterRoleBinding", "metadata": {"name": 1}},
    ],
)
def test_what_cannot_be_understood_is_a_bad_request(broken: Data) -> None:
    failure = refused(rbac(), broken)
    assert failure is not None
    assert failure["code"] == 400


def test_other_kinds_are_not_looked_at() -> None:
    assert refused(rbac(), {"kind": "Pod", "metadata": {"name": "x"}}) is None


FEW = st.sampled_from


def some(values: list[str], least: int = 1) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(FEW(values), min_size=least, max_size=2).map(tuple)


RULES = st.builds(
    RoleRule,
    some(["get", "list", "*"]),
    some(["", "apps", "*"]),
    some(["pods", "pods/status", "*/status", "*"]),
    some(["", "a", "b"], 0),
    some(["/x", "/x/*", "/*", "*"], 0),
)
ASKED = [
    Attributes(verb, resource, group_name, part, "", name)
    for verb in ("get", "list", "watch")
    for resource in ("pods", "nodes")
    for group_name in ("", "apps", "batch")
    for part in ("", "status", "scale")
    for name in ("", "a", "b", "c")
] + [Attributes(verb, path=path) for verb in ("get", "put") for path in ("/x", "/x/y", "/z")]


def allows(rules: list[RoleRule], asked: Attributes) -> bool:
    def one(each: RoleRule) -> bool:
        if not asked.resource:
            return each.allows_path(asked.path)
        named = not each.names or asked.name in each.names
        return named and each.allows_resource(asked.group, asked.resource, asked.subresource)

    return any(each.allows_verb(asked.verb) and one(each) for each in rules)


@given(st.lists(RULES, max_size=4), st.lists(RULES, max_size=2))
def test_what_is_covered_allows_nothing_new(held: list[RoleRule], wanted: list[RoleRule]) -> None:
    if not any(uncovered(held, wanted)):
        assert all(allows(held, asked) for asked in ASKED if allows(wanted, asked))


@given(st.lists(RULES, max_size=3), st.lists(RULES, max_size=2))
def test_all_that_is_not_covered_is_named(held: list[RoleRule], wanted: list[RoleRule]) -> None:
    parts = [
        RoleRule((verb,), (group_name,), (resource,), (name,) if name is not None else ())
        for each in wanted
        for verb, group_name, resource in product(each.verbs, each.groups, each.resources)
        for name in each.names or (None,)
    ] + [RoleRule((verb,), urls=(url,)) for each in wanted for verb, url in product(each.verbs, each.urls)]
    missing = {part for part in parts if any(uncovered(held, [part]))}
    named = list(uncovered(held, wanted))
    assert {part._replace(verbs=(verb,)) for part in named for verb in part.verbs} == missing


WORDS = [f"word-{number}" for number in range(1_000)]


def many(count: int, **more: list[str]) -> Data:
    words = WORDS[:count]
    return {"verbs": words, "apiGroups": words, "resources": words, "resourceNames": words, **more}


@pytest.mark.parametrize("count", [30, 1_000])
def test_rights_that_multiply_are_not_multiplied_out(count: int) -> None:
    """10¹² combinations: their author is told the first thousand of them."""
    evaluator = Rbac([*DEFAULTS, binding("b", "admin", user("ann"), namespace="default")])
    failure = refused(evaluator, role("new", many(count), namespace="default"))
    assert failure is not None
    assert failure["code"] == 403
    assert failure["message"].endswith("\nand more")
    assert len(failure["message"]) < 200_000


def test_who_holds_everything_by_name_may_give_a_bounded_number_of_it() -> None:
    parts = ("verbs", "apiGroups", "resources")
    own = [many(100, **{part: [word]}) for part in parts for word in WORDS[:100]]
    assert refused(rbac(*own), role("new", many(10))) is None
    failure = refused(rbac(*own), role("new", many(100)))
    assert failure is not None
    assert (failure["code"], failure["message"]) == (
        403,
        f'clusterroles.{GROUP} "new" is forbidden: its rules combine too many verbs, groups, resources and names to be '
        "compared: give them in several roles",
    )


def test_what_is_held_is_compared_a_few_hundred_times(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = Rbac([*DEFAULTS, binding("b", "admin", user("ann"), namespace="default")])
    monkeypatch.setattr(rulecover, "MOST_COMPARED", 2_000)
    assert refused(evaluator, binding("new", "admin", group("dev"), namespace="default")) is None


@given(st.lists(RULES, max_size=3))
def test_everybody_holds_what_they_hold(held: list[RoleRule]) -> None:
    assert not any(uncovered(held, held))
