"""Who may do what: tables of rules and requests, and a plain evaluator that must always agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.access.rbac import Attributes, Decision, Rbac, forbidden
from moorage.apiserver.base.users import User
from tests.apiserver.edge import told

Data = dict[str, Any]
ANN = User("ann", ("dev", "system:authenticated"))
BOT = User("system:serviceaccount:ci:bot", ("system:serviceaccounts", "system:serviceaccounts:ci"))
ROOT = User("root", ("system:masters",))
GROUP = "rbac.authorization.k8s.io"


def rule(verbs: str, resources: str = "", groups: str = "", names: str = "", urls: str = "") -> Data:
    written = {
        "verbs": verbs.split(),
        "apiGroups": ["" if group == "core" else group for group in (groups or "core").split()] if resources else [],
        "resources": resources.split(),
        "resourceNames": names.split(),
        "nonResourceURLs": urls.split(),
    }
    return {key: value for key, value in written.items() if value}


def role(name: str, *rules: Data, namespace: str = "", labels: Data | None = None, **more: Any) -> Data:
    metadata = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        **({"labels": labels} if labels else {}),
    }
    return {"kind": "Role" if namespace else "ClusterRole", "metadata": metadata, "rules": [*rules], **more}


def user(name: str) -> Data:
    return {"kind": "User", "apiGroup": GROUP, "name": name}


def group(name: str) -> Data:
    return {"kind": "Group", "apiGroup": GROUP, "name": name}


def account(name: str, namespace: str = "") -> Data:
    return {"kind": "ServiceAccount", "name": name, **({"namespace": namespace} if namespace else {})}


def binding(name: str, to: str, *subjects: Data, namespace: str = "") -> Data:
    kind, _, target = to.rpartition("/")
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": kind or "ClusterRole", "name": target},
        "subjects": [*subjects],
    }


def bound(*rules: Data) -> Rbac:
    """Ann has a cluster role with these rules."""
    return Rbac([role("r", *rules), binding("b", "r", user("ann"))])


GET_POD = Attributes("get", "pods", namespace="default", name="web")
MATCHES = [
    (rule("get", "pods"), GET_POD, True),
    (rule("*", "pods"), GET_POD, True),
    (rule("get", "*"), GET_POD, True),
    (rule("get", "pods", "*"), GET_POD, True),
    (rule("list", "pods"), GET_POD, False),
    (rule("get", "nodes"), GET_POD, False),
    (rule("get", "pods", "apps"), GET_POD, False),
    (rule("get", "pods", names="web"), GET_POD, True),
    (rule("get", "pods", names="db"), GET_POD, False),
    (rule("list", "pods", names="web"), Attributes("list", "pods", namespace="default"), False),
    (rule("get", "pods/status"), GET_POD, False),
    (rule("get", "pods"), GET_POD._replace(subresource="status"), False),
    (rule("get", "pods/status"), GET_POD._replace(subresource="status"), True),
    (rule("get", "pods/*"), GET_POD._replace(subresource="status"), False),
    (rule("get", "*"), GET_POD._replace(subresource="status"), True),
    (rule("get", "*/scale", "apps"), Attributes("get", "deployments", "apps", "scale", "default", "web"), True),
    (rule("get", "*/scale", "apps"), Attributes("get", "deployments", "apps", "", "default", "web"), False),
    (rule("get", "*/scale", "apps"), Attributes("get", "deployments", "apps", "status", "default", "web"), False),
    (rule("get", urls="/metrics"), Attributes("get", path="/metrics"), True),
    (rule("get", urls="/metrics"), Attributes("get", path="/metrics/slis"), False),
    (rule("get", urls="/healthz/*"), Attributes("get", path="/healthz/etcd"), True),
    (rule("get", urls="/healthz/*"), Attributes("get", path="/healthz"), False),
    (rule("get", urls="/healthz*"), Attributes("get", path="/healthzzz"), True),
    (rule("get", urls="*"), Attributes("get", path="/anything"), True),
    (rule("post", urls="*"), Attributes("get", path="/anything"), False),
    (rule("*", "*", "*"), Attributes("get", path="/anything"), False),
    (rule("*", urls="*"), GET_POD, False),
]


@pytest.mark.parametrize(("given_rule", "asked", "allowed"), MATCHES)
def test_a_rule_allows_what_it_says(given_rule: Data, asked: Attributes, allowed: bool) -> None:
    assert bound(given_rule).decide(ANN, asked).allowed is allowed


def test_a_role_binding_reaches_its_namespace_and_no_other() -> None:
    rbac = Rbac([role("r", rule("get", "pods")), binding("b", "r", user("ann"), namespace="default")])
    assert rbac.decide(ANN, GET_POD).allowed
    assert not rbac.decide(ANN, GET_POD._replace(namespace="other")).allowed
    assert not rbac.decide(ANN, GET_POD._replace(namespace="")).allowed


def test_a_role_is_found_in_the_namespace_of_its_binding_only() -> None:
    rbac = Rbac(
        [role("r", rule("get", "pods"), namespace="other"), binding("b", "Role/r", user("ann"), namespace="default")]
    )
    assert rbac.decide(ANN, GET_POD) == Decision(False, f'RBAC: role.{GROUP} "r" not found')
    rbac.put("Role", role("r", rule("get", "pods"), namespace="default"))
    assert rbac.decide(ANN, GET_POD).allowed


@pytest.mark.parametrize(
    ("subject", "who", "described"),
    [
        (user("ann"), ANN, 'User "ann"'),
        (group("dev"), ANN, 'Group "dev"'),
        (account("bot", "ci"), BOT, 'ServiceAccount "bot/ci"'),
        (group("system:serviceaccounts:ci"), BOT, 'Group "system:serviceaccounts:ci"'),
        (user("system:serviceaccount:ci:bot"), BOT, 'User "system:serviceaccount:ci:bot"'),
    ],
)
def test_subjects_are_users_groups_and_service_accounts(subject: Data, who: User, described: str) -> None:
    rbac = Rbac([role("r", rule("get", "pods")), binding("b", "r", user("zoe"), subject)])
    reason = f'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to {described}'
    assert rbac.decide(who, GET_POD) == Decision(True, reason)
    assert not rbac.decide(User("eve", ("ops",)), GET_POD).allowed


def test_a_service_account_without_a_namespace_is_one_of_the_bindings() -> None:
    reader = role("r", rule("get", "pods"))
    local = Rbac([reader, binding("b", "r", account("bot"), namespace="ci")])
    assert local.decide(BOT, GET_POD._replace(namespace="ci")).reason == (
        'RBAC: allowed by RoleBinding "b/ci" of ClusterRole "r" to ServiceAccount "bot/ci"'
    )
    assert not Rbac([reader, binding("b", "r", account("bot"))]).decide(BOT, GET_POD).allowed


def test_a_group_is_not_a_user_of_the_same_name() -> None:
    rbac = Rbac([role("r", rule("get", "pods")), binding("b", "r", group("ann"))])
    assert not rbac.decide(ANN, GET_POD).allowed


def test_masters_may_do_everything_without_any_role() -> None:
    assert Rbac().decide(ROOT, GET_POD) == Decision(True)
    assert Rbac().decide(ROOT, Attributes("get", path="/metrics")).allowed


def test_changes_take_effect_at_once() -> None:
    rbac = Rbac()
    states = []
    steps: list[tuple[str, Data]] = [
        ("put", role("r", rule("get", "pods"))),
        ("put", binding("b", "r", user("ann"))),
        ("put", role("r", rule("list", "pods"))),
        ("put", role("r", rule("get", "pods"))),
        ("put", binding("b", "r", user("zoe"))),
        ("put", binding("b", "r", user("zoe"), user("ann"))),
        ("remove", role("r")),
        ("put", role("r", rule("get", "pods"))),
        ("remove", binding("b", "r")),
    ]
    for step, data in steps:
        if step == "put":
            rbac.put(data["kind"], data)
        else:
            rbac.remove(data["kind"], "", data["metadata"]["name"])
        states.append(rbac.decide(ANN, GET_POD).allowed)
    assert states == [False, True, False, True, False, True, False, True, False]


def test_what_is_not_among_all_objects_of_a_kind_is_gone() -> None:
    pods = role("r", rule("get", "pods"))
    here, there = binding("b", "r", user("ann")), binding("b", "r", user("ann"), namespace="default")
    rbac = Rbac([pods, here, there])
    rbac.replace("ClusterRoleBinding", [])
    assert rbac.decide(ANN, GET_POD).allowed
    rbac.replace("RoleBinding", [binding("c", "r", user("zoe"), namespace="default")])
    assert not rbac.decide(ANN, GET_POD).allowed
    assert rbac.decide(User("zoe"), GET_POD).allowed
    rbac.replace("ClusterRole", [])
    assert not rbac.decide(User("zoe"), GET_POD).allowed
    rbac.replace("Role", [])
    assert not rbac.grants(User("zoe"), "default").rules


AGGREGATE = {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]}


def test_a_role_gathers_others_by_label_and_forgets_its_own_rules() -> None:
    rbac = Rbac(
        [
            role("all", rule("get", "secrets"), aggregationRule=AGGREGATE),
            role(
                "some",
                labels={"to": "all"},
                aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"to": "some"}}]},
            ),
            role("pods", rule("get", "pods"), labels={"to": "some"}),
            role("nodes", rule("get", "nodes"), labels={"to": "all"}),
            role("jobs", rule("get", "jobs", "batch"), labels={"to": "nothing"}),
            binding("b", "all", user("ann")),
        ]
    )
    asked = {name: Attributes("get", name) for name in ("pods", "nodes", "secrets")}
    assert {name: rbac.decide(ANN, each).allowed for name, each in asked.items()} == {
        "pods": True, "nodes": True, "secrets": False,
    }  # fmt: skip
    assert not rbac.decide(ANN, Attributes("get", "jobs", "batch")).allowed
    rbac.put("ClusterRole", role("pods", rule("get", "pods")))
    assert not rbac.decide(ANN, asked["pods"]).allowed


def test_roles_that_gather_each_other_come_to_an_end() -> None:
    rbac = Rbac(
        [
            role("a", labels={"x": "1"}, aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"x": "1"}}]}),
            role("b", labels={"x": "1"}, aggregationRule={"clusterRoleSelectors": [{}]}),
            role("c", rule("get", "pods")),
            binding("b", "a", user("ann")),
        ]
    )
    assert rbac.decide(ANN, GET_POD).allowed


@pytest.mark.parametrize(
    ("expression", "gathered"),
    [
        ({"key": "tier", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "tier", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "tier", "operator": "Exists"}, True),
        ({"key": "tier", "operator": "DoesNotExist"}, False),
        ({"key": "tier", "operator": "Resembles", "values": ["a"]}, False),
    ],
)
def test_roles_are_gathered_by_expressions_too(expression: Data, gathered: bool) -> None:
    rbac = Rbac(
        [
            role("all", aggregationRule={"clusterRoleSelectors": [{"matchExpressions": [expression]}]}),
            role("pods", rule("get", "pods"), labels={"tier": "a"}),
            binding("b", "all", user("ann")),
        ]
    )
    assert rbac.decide(ANN, GET_POD).allowed is gathered


@pytest.mark.parametrize(
    "broken",
    [
        {**role("r"), "rules": "*"},
        {**role("r"), "rules": [{"verbs": "*", "apiGroups": ["*"], "resources": ["*"]}]},
        {**role("r"), "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": [["*"]]}]},
        {**role("r"), "rules": [None]},
        {**role("r"), "aggregationRule": []},
        {**binding("b", "r"), "subjects": user("ann")},
        {**binding("b", "r"), "subjects": ["ann"]},
        {**binding("b", "r", user("ann")), "roleRef": "r"},
        {**binding("b", "r", user("ann")), "roleRef": None},
        {**binding("b", "r"), "subjects": [{"kind": "User", "name": None}]},
    ],
)
def test_what_cannot_be_understood_gives_no_rights(broken: Data) -> None:
    good = [role("r", rule("get", "pods")), binding("b", "r", user("ann"))]
    rbac = Rbac([*(each for each in good if each["kind"] != broken["kind"]), broken])
    assert not rbac.decide(ANN, GET_POD).allowed
    rbac.put(broken["kind"], next(each for each in good if each["kind"] == broken["kind"]))
    assert rbac.decide(ANN, GET_POD).allowed
    rbac.put(broken["kind"], broken)
    assert not rbac.decide(ANN, GET_POD).allowed


def test_nulls_are_empty() -> None:
    rbac = Rbac([{**role("r"), "rules": None}, {**binding("b", "r"), "subjects": None}])
    assert not rbac.decide(ANN, GET_POD).allowed
    rbac.put("ClusterRole", {**role("r"), "rules": [{**rule("get", "pods"), "resourceNames": None}]})
    rbac.put("ClusterRoleBinding", binding("b", "r", user("ann")))
    assert rbac.decide(ANN, GET_POD).allowed


def test_all_missing_roles_are_told() -> None:
    rbac = Rbac([binding("a", "x", user("ann")), binding("b", "y", group("dev"))])
    expected = f'RBAC: [clusterrole.{GROUP} "x" not found, clusterrole.{GROUP} "y" not found]'
    assert rbac.decide(ANN, GET_POD) == Decision(False, expected)


@pytest.mark.parametrize(
    ("asked", "message", "details"),
    [
        (
            Attributes("list", "pods", namespace="default"),
            'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default"',
            {"kind": "pods"},
        ),
        (
            Attributes("get", "deployments", "apps", "scale", "default", "web"),
            'deployments.apps "web" is forbidden: User "ann" cannot get resource "deployments/scale" '
            'in API group "apps" in the namespace "default"',
            {"name": "web", "group": "apps", "kind": "deployments"},
        ),
        (
            Attributes("list", "nodes"),
            'nodes is forbidden: User "ann" cannot list resource "nodes" in API group "" at the cluster scope',
            {"kind": "nodes"},
        ),
        (Attributes("get", path="/x"), 'forbidden: User "ann" cannot get path "/x"', {}),
    ],
)
def test_refusals_are_worded_as_in_kubernetes(asked: Attributes, message: str, details: Data) -> None:
    failure = told(forbidden(ANN, asked))
    assert (failure["code"], failure["reason"], failure["message"], failure["details"]) == (
        403,
        "Forbidden",
        message,
        details,
    )


def test_a_refusal_is_never_mistaken_for_html() -> None:
    failure = told(forbidden(User('<b>"x'), Attributes("get", path="/x"), "why"))
    assert failure["message"] == 'forbidden: User "&lt;b&gt;\\"x" cannot get path "/x": why'


def test_a_resource_is_never_taken_for_a_path_of_the_same_name() -> None:
    """One may ask about any resource, even one that is called like a path."""
    for questions in ((0, 1), (1, 0)):
        rbac = bound(rule("get", "*"))
        asked = (Attributes("get", "/metrics"), Attributes("get", path="/metrics"))
        answers = {number: rbac.decide(ANN, asked[number]).allowed for number in questions}
        assert answers == {0: True, 1: False}


FEW = st.sampled_from
VERBS, RESOURCES, GROUPS = ["get", "list", "*"], ["pods", "pods/status", "nodes", "*", "*/status"], ["", "apps", "*"]
NAMES, URLS, SPACES = ["a", "b"], ["/x", "/x/y", "/x/*", "*"], ["n", "m"]


def some(values: list[str], least: int = 1) -> st.SearchStrategy[list[str]]:
    return st.lists(FEW(values), min_size=least, max_size=2)


RULES = st.fixed_dictionaries(
    {"verbs": some(VERBS), "apiGroups": some(GROUPS), "resources": some(RESOURCES)},
    optional={"resourceNames": some(NAMES)},
) | st.fixed_dictionaries({"verbs": some(VERBS), "nonResourceURLs": some(URLS)})
SUBJECTS = (
    st.builds(user, FEW(["ann", "zoe"]))
    | st.builds(group, FEW(["dev", "ops"]))
    | st.builds(account, FEW(["bot"]), FEW(["", "n"]))
)


@st.composite
def objects(draw: st.DrawFn) -> Data:
    labels = draw(st.none() | st.just({"to": "all"}))
    name, namespace = draw(FEW(["p", "q", "r"])), draw(FEW(["", *SPACES]))
    if draw(st.booleans()):
        gathers = {"aggregationRule": AGGREGATE} if not namespace and draw(st.integers(0, 4)) == 0 else {}
        return role(name, *draw(st.lists(RULES, max_size=3)), namespace=namespace, labels=labels, **gathers)
    kind = draw(FEW(["Role", "ClusterRole"]))
    return binding(
        name, f"{kind}/{draw(FEW(['p', 'q', 'r']))}", *draw(st.lists(SUBJECTS, max_size=3)), namespace=namespace
    )


ABOUT_RESOURCES = st.tuples(
    FEW(VERBS[:2]),
    FEW(["pods", "nodes"]),
    FEW(GROUPS[:2]),
    FEW(["", "status"]),
    FEW(["", *SPACES]),
    FEW(["", *NAMES]),
)
ABOUT_PATHS = st.tuples(FEW(VERBS[:2]), FEW(["/x", "/x/y", "/z"]))
ASKED = ABOUT_RESOURCES.map(lambda each: Attributes(*each)) | ABOUT_PATHS.map(
    lambda each: Attributes(each[0], path=each[1])
)
USERS = st.builds(
    User, FEW(["ann", "zoe", "system:serviceaccount:n:bot"]), st.lists(FEW(["dev", "ops"]), max_size=2).map(tuple)
)


class Plain:
    """What the words of the documentation say, with no index and no memory."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Data] = {}

    def put(self, data: Data) -> None:
        self.objects[self.key(data)] = data

    @staticmethod
    def key(data: Data) -> tuple[str, str, str]:
        return data["kind"], data["metadata"].get("namespace", ""), data["metadata"]["name"]

    def allowed(self, who: User, asked: Attributes) -> bool:
        for data in self.objects.values():
            namespace = data["metadata"].get("namespace", "")
            if "roleRef" not in data or (namespace and namespace != asked.namespace):
                continue
            if not any(self.means(subject, who, namespace) for subject in data["subjects"]):
                continue
            if any(self.allows(each, asked) for each in self.rules(data["roleRef"], namespace)):
                return True
        return False

    def rules(self, ref: Data, namespace: str) -> Iterator[Data]:
        found = self.objects.get((ref["kind"], namespace if ref["kind"] == "Role" else "", ref["name"]))
        if found is None:
            return
        if "aggregationRule" not in found:
            yield from found["rules"]
            return
        for data in self.objects.values():
            if data["kind"] == "ClusterRole" and data["metadata"].get("labels") and "aggregationRule" not in data:
                yield from data["rules"]

    @staticmethod
    def means(subject: Data, who: User, namespace: str) -> bool:
        if subject["kind"] == "ServiceAccount":
            place = subject.get("namespace") or namespace
            return bool(place) and who.name == f"system:serviceaccount:{place}:{subject['name']}"
        return who.name == subject["name"] if subject["kind"] == "User" else subject["name"] in who.groups

    @staticmethod
    def allows(each: Data, asked: Attributes) -> bool:
        if not {"*", asked.verb} & set(each["verbs"]):
            return False
        if not asked.resource:
            paths = each.get("nonResourceURLs", [])
            return any(path in ("*", asked.path) or (path == "/x/*" and asked.path == "/x/y") for path in paths)
        wanted = {"*", f"{asked.resource}/{asked.subresource}", f"*/{asked.subresource}"}
        wanted = wanted if asked.subresource else {"*", asked.resource}
        names = each.get("resourceNames")
        return bool(
            {"*", asked.group} & set(each.get("apiGroups", []))
            and wanted & set(each.get("resources", []))
            and (not names or asked.name in names)
        )


STEPS = st.lists(st.tuples(st.integers(0, 5), objects(), USERS, ASKED), max_size=40)


@given(STEPS)
def test_the_index_agrees_with_a_plain_evaluator_after_every_change(
    steps: list[tuple[int, Data, User, Attributes]],
) -> None:
    rbac, plain = Rbac(), Plain()
    for choice, data, who, asked in steps:
        if choice == 0:
            rbac.remove(*Plain.key(data))
            plain.objects.pop(Plain.key(data), None)
        else:
            rbac.put(data["kind"], data)
            plain.put(data)
        assert rbac.decide(who, asked).allowed is plain.allowed(who, asked)
        assert rbac.decide(ANN, asked).allowed is plain.allowed(ANN, asked)
