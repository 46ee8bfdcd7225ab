"""The default roles speak of what is served, and of nothing else."""

from __future__ import annotations

import pytest

from moorage.api.kinds import KINDS
from moorage.apiserver.access.defaultroles import DEFAULTS
from moorage.apiserver.access.rbac import Attributes, Rbac
from moorage.apiserver.base.users import ANONYMOUS, User
from tests.apiserver.access.test_authorization import ANN, GET_POD, GROUP, binding, user

REVIEWS = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("", "bindings"),
}
SERVED = REVIEWS | {(kind.group, kind.plural) for kind in KINDS}
PARTS = {(kind.group, f"{kind.plural}/{part}") for kind in KINDS for part in (*kind.subresources, "finalizers")}
ROLES = [data for data in DEFAULTS if data["kind"] in ("Role", "ClusterRole")]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role["metadata"]["name"])
def test_roles_speak_of_what_is_served(role: dict[str, list[dict[str, list[str]]]]) -> None:
    spoken = {
        (group, resource)
        for rule in role["rules"]
        for group in rule.get("apiGroups", [])
        for resource in rule.get("resources", [])
        if "*" not in group + resource
    }
    assert spoken - SERVED - PARTS == set()


def test_every_binding_has_its_role_and_somebody() -> None:
    rbac = Rbac(DEFAULTS)
    bindings = [data for data in DEFAULTS if data["kind"].endswith("Binding")]
    assert bindings
    for data in bindings:
        ref = data["roleRef"]
        assert rbac.rules(ref["kind"], data["metadata"].get("namespace", ""), ref["name"])
        assert data["subjects"]


def test_defaults_are_marked_as_such_and_unique() -> None:
    places = {(data["kind"], data["metadata"].get("namespace"), data["metadata"]["name"]) for data in DEFAULTS}
    assert len(places) == len(DEFAULTS)
    for data in DEFAULTS:
        assert data["apiVersion"] == "rbac.authorization.k8s.io/v1"
        assert data["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"


def test_nobody_gets_secrets_by_default_but_editors_controllers_and_masters() -> None:
    holders = {
        role["metadata"]["name"]
        for role in ROLES
        for rule in role["rules"]
        if {"secrets", "*"} & set(rule.get("resources", [])) and {"get", "list", "watch", "*"} & set(rule["verbs"])
    }
    assert holders == {
        "cluster-admin",
        "system:aggregate-to-edit",
        "system:kube-controller-manager",
        "system:controller:generic-garbage-collector",
        "system:controller:namespace-controller",
        "system:controller:resourcequota-controller",
    }


SERVED_BY_DEFAULT = [
    (ANONYMOUS, Attributes("get", path="/healthz"), True),
    (ANONYMOUS, Attributes("get", path="/livez"), True),
    (ANONYMOUS, Attributes("get", path="/readyz"), True),
    (ANONYMOUS, Attributes("get", path="/version"), True),
    (ANONYMOUS, Attributes("get", path="/api"), False),
    (ANONYMOUS, Attributes("get", path="/metrics"), False),
    (ANONYMOUS, Attributes("get", path="/healthz/etcd"), False),
    (ANONYMOUS, Attributes("list", "namespaces"), False),
    (ANN, Attributes("get", path="/openapi/v3"), True),
    (ANN, Attributes("get", path="/apis/apps/v1"), True),
    (ANN, Attributes("get", path="/metrics"), False),
    (ANN, Attributes("create", "selfsubjectaccessreviews", "authorization.k8s.io"), True),
    (ANN, Attributes("create", "subjectaccessreviews", "authorization.k8s.io"), False),
    (ANN, GET_POD, False),
    (User("mon", ("system:monitoring",)), Attributes("get", path="/metrics"), True),
    (User("system:kube-scheduler"), Attributes("create", "pods", "", "binding", "default", "web"), True),
    (User("system:kube-scheduler"), Attributes("patch", "pods", "", "status", "default", "web"), True),
    (User("system:kube-scheduler"), Attributes("update", "persistentvolumeclaims", namespace="default"), True),
    (User("system:kube-scheduler"), Attributes("get", "secrets", namespace="default"), False),
    (
        User("system:kube-scheduler"),
        Attributes("update", "leases", "coordination.k8s.io", "", "kube-system", "x"),
        True,
    ),
    (User("system:kube-scheduler"), Attributes("update", "leases", "coordination.k8s.io", "", "default", "x"), False),
    (User("system:kube-controller-manager"), Attributes("create", "pods", namespace="default"), True),
    (User("system:kube-controller-manager"), Attributes("update", "replicasets", "apps", "status", "default"), True),
    (User("system:kube-controller-manager"), Attributes("create", "clusterroles", GROUP), False),
    (User("system:node:n", ("system:nodes",)), Attributes("update", "pods", "", "status", "default", "web"), True),
    (User("system:node:n", ("system:nodes",)), Attributes("get", "secrets", namespace="default", name="s"), False),
]


@pytest.mark.parametrize(("who", "asked", "allowed"), SERVED_BY_DEFAULT)
def test_what_the_default_roles_give(who: User, asked: Attributes, allowed: bool) -> None:
    assert Rbac(DEFAULTS).decide(who, asked).allowed is allowed


@pytest.mark.parametrize(
    ("role_name", "asked", "allowed"),
    [
        ("view", Attributes("list", "pods", namespace="d"), True),
        ("view", Attributes("list", "secrets", namespace="d"), False),
        ("view", Attributes("create", "pods", namespace="d"), False),
        ("view", Attributes("list", "resourceclaims", "resource.k8s.io", namespace="d"), True),
        ("edit", Attributes("list", "pods", namespace="d"), True),
        ("edit", Attributes("create", "pods", namespace="d"), True),
        ("edit", Attributes("create", "pods", "", "eviction", "d", "web"), True),
        ("edit", Attributes("get", "secrets", namespace="d"), True),
        ("edit", Attributes("update", "deployments", "apps", "scale", "d", "web"), True),
        ("edit", Attributes("update", "pods", "", "status", "d"), False),
        ("edit", Attributes("create", "roles", GROUP, namespace="d"), False),
        ("admin", Attributes("create", "pods", namespace="d"), True),
        ("admin", Attributes("create", "rolebindings", GROUP, namespace="d"), True),
        ("admin", Attributes("delete", "namespaces", namespace="d", name="d"), False),
        ("cluster-admin", Attributes("escalate", "roles", GROUP, namespace="d"), True),
    ],
)
def test_what_view_edit_and_admin_give_in_a_namespace(role_name: str, asked: Attributes, allowed: bool) -> None:
    rbac = Rbac([*DEFAULTS, binding("b", role_name, user("ann"), namespace="d")])
    assert rbac.decide(ANN, asked).allowed is allowed
    assert not rbac.decide(ANN, asked._replace(namespace="other")).allowed
