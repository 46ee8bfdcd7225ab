"""`kubectl auth can-i` and its relatives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moorage.apiserver.access import reviews
from moorage.apiserver.access.defaultroles import DEFAULTS
from moorage.apiserver.access.rbac import Rbac
from moorage.apiserver.base.users import User
from moorage.apiserver.http.messages import Refused, Request
from tests.apiserver.access.test_authorization import ANN, ROOT, binding, user
from tests.apiserver.edge import told
from tests.plane import api_server

Data = dict[str, Any]
RBAC = Rbac([*DEFAULTS, binding("b", "view", user("ann"), namespace="default")])
PODS = {"verb": "list", "resource": "pods", "namespace": "default"}


def refusal(ask: Callable[[], object]) -> Data:
    with pytest.raises(Refused) as caught:
        ask()
    return told(caught.value.response)


def test_may_i() -> None:
    def may_i(who: User, **spec: Any) -> Data:
        return reviews.self_subject_access_review(RBAC, who, {"spec": spec})

    reason = 'RBAC: allowed by RoleBinding "b/default" of ClusterRole "view" to User "ann"'
    assert may_i(ANN, resourceAttributes=PODS) == {"allowed": True, "reason": reason}
    assert may_i(ANN, resourceAttributes={**PODS, "verb": "create"}) == {"allowed": False}
    assert may_i(ANN, resourceAttributes={**PODS, "namespace": ""}) == {"allowed": False}
    assert may_i(ANN, resourceAttributes={**PODS, "subresource": "log", "name": "x"})["allowed"]
    assert may_i(ANN, nonResourceAttributes={"verb": "get", "path": "/version"})["allowed"]
    assert may_i(ANN, nonResourceAttributes={"verb": "get", "path": "/metrics"}) == {"allowed": False}
    assert may_i(ROOT, resourceAttributes={"verb": "*", "group": "*", "resource": "*"}) == {"allowed": True}
    assert may_i(ANN, user="root", groups=["system:masters"], resourceAttributes={"verb": "*"}) == {"allowed": False}


def test_may_they() -> None:
    def may_they(**spec: Any) -> Data:
        return reviews.subject_access_review(RBAC, {"spec": spec})

    assert may_they(user="ann", resourceAttributes=PODS)["allowed"]
    assert not may_they(user="bob", resourceAttributes=PODS)["allowed"]
    assert may_they(groups=["system:masters"], resourceAttributes=PODS) == {"allowed": True}
    assert may_they(user="x", groups=["system:authenticated"], nonResourceAttributes={"verb": "get", "path": "/api"})[
        "allowed"
    ]


def test_may_they_here() -> None:
    def may_they(namespace: str, **spec: Any) -> Data:
        return reviews.local_subject_access_review(RBAC, namespace, {"spec": spec})

    assert may_they("default", user="ann", resourceAttributes=PODS)["allowed"]
    failure = refusal(lambda: may_they("other", user="ann", resourceAttributes=PODS))
    assert failure["details"]["causes"][0]["field"] == "spec.resourceAttributes.namespace"
    failure = refusal(lambda: may_they("default", user="ann", nonResourceAttributes={"verb": "get", "path": "/"}))
    assert "disallowed on this kind of request" in failure["message"]


@pytest.mark.parametrize(
    "spec", [{}, {"resourceAttributes": PODS, "nonResourceAttributes": {"path": "/", "verb": "get"}}]
)
def test_a_review_has_one_question(spec: Data) -> None:
    failure = refusal(lambda: reviews.self_subject_access_review(RBAC, ANN, {"spec": spec}))
    assert (failure["code"], failure["reason"]) == (422, "Invalid")
    assert failure["message"].startswith(
        'SelfSubjectAccessReview.authorization.k8s.io "" is invalid: spec: Invalid value: '
    )
    assert failure["message"].endswith("exactly one of nonResourceAttributes or resourceAttributes must be specified")
    failure = refusal(lambda: reviews.subject_access_review(RBAC, {"spec": spec}))
    assert [cause["field"] for cause in failure["details"]["causes"]] == ["spec", "spec.user"]


@pytest.mark.parametrize(
    "review", [{"spec": 1}, {"spec": {"resourceAttributes": []}}, {"spec": {"groups": "x"}}, {"metadata": []}]
)
def test_a_review_that_cannot_be_understood_is_a_bad_request(review: Data) -> None:
    assert refusal(lambda: reviews.self_subject_access_review(RBAC, ANN, review))["code"] == 400
    assert refusal(lambda: reviews.subject_access_review(RBAC, review))["code"] == 400


def test_what_may_i() -> None:
    answer = reviews.self_subject_rules_review(RBAC, ANN, {"spec": {"namespace": "default"}})
    assert answer["incomplete"] is False
    assert any("pods" in rule["resources"] and "list" in rule["verbs"] for rule in answer["resourceRules"])
    assert any("/version" in rule["nonResourceURLs"] for rule in answer["nonResourceRules"])
    elsewhere = reviews.self_subject_rules_review(RBAC, ANN, {"spec": {"namespace": "other"}})
    assert not any("pods" in rule["resources"] for rule in elsewhere["resourceRules"])
    broken = Rbac([binding("b", "missing", user("ann"))])
    answer = reviews.self_subject_rules_review(broken, ANN, {"spec": {"namespace": "default"}})
    assert answer["evaluationError"] == 'clusterrole.rbac.authorization.k8s.io "missing" not found'


@pytest.mark.parametrize("review", [{}, {"spec": {"namespace": ""}}, {"spec": {"namespace": 1}}])
def test_what_may_i_needs_a_namespace(review: Data) -> None:
    assert refusal(lambda: reviews.self_subject_rules_review(RBAC, ANN, review))["code"] == 400


def test_who_am_i() -> None:
    who = User("ann", ("dev",), "1", {"key": ("value",)})
    assert reviews.user_info(who) == {"username": "ann", "uid": "1", "groups": ("dev",), "extra": {"key": ("value",)}}
    assert reviews.user_info(User("ann")) == {"username": "ann"}


async def test_there_is_no_table_of_a_review(tmp_path: Path) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = b'{"spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}'
    async with api_server(tmp_path) as server:
        for accept, code in (("application/json", 201), ("application/json;as=Table;v=v1;g=meta.k8s.io", 406)):
            request = Request.of("POST", path, [("Accept", accept)], body)
            answer = await server.transport("tests").respond(request)
            assert answer.status == code
