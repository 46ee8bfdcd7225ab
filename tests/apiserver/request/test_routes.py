"""What a path names, and what can be done with it."""

from __future__ import annotations

import pytest

from moorage.api.kinds import BINDING
from moorage.apiserver.describe.discovery import SUBRESOURCES, all_kinds, verbs_of
from moorage.apiserver.http.messages import Request
from moorage.apiserver.request.routes import find
from moorage.apiserver.verbs.handlers import HANDLERS
from tests.apiserver.asked import Asked


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/namespaces/default/configmaps/a"),
        ("POST", "/api/v1/nodes/a"),
        ("PUT", "/api/v1/nodes"),
        ("DELETE", "/api/v1/namespaces"),
        ("GET", "/api/v1/namespaces/default/bindings"),
        ("POST", "/apis/apps/v1/namespaces/default/deployments/a/scale"),
    ],
)
async def test_what_makes_no_sense_there_is_not_allowed(ask: Asked, method: str, path: str) -> None:
    sent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    code, told = await ask.told(method, path, sent)
    assert (code, told["reason"]) == (405, "MethodNotAllowed")


async def test_namespaces_are_not_deleted_together(ask: Asked) -> None:
    await ask("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
    await ask("DELETE", "/api/v1/namespaces")
    _, found = await ask.told("GET", "/api/v1/namespaces/a")
    assert found["status"]["phase"] == "Active"


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            "horizontalpodautoscalers of autoscaling/v2",
        ),
        ("/api/v1/namespaces/default/endpoints/a/status", "endpoints of v1"),
        ("/apis/policy/v1beta1/poddisruptionbudgets", "poddisruptionbudgets of policy/v1beta1"),
        ("/apis/apps/v1/deployments/a/b/c", ""),
        ("/apis/autoscaling/v2", ""),
        ("/nowhere/at/all", ""),
    ],
)
async def test_what_is_not_served_is_named(ask: Asked, path: str, missing: str) -> None:
    code, told = await ask.told("GET", path)
    words = f": there are no {missing} here" if missing else ""
    assert (code, told["message"]) == (404, f"the server could not find the requested resource{words}")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/apis/authorization.k8s.io/v9/selfsubjectaccessreviews"),
        ("POST", "/apis/authentication.k8s.io/v1/subjectaccessreviews"),
        ("POST", "/apis/authorization.k8s.io/v1/x/y/selfsubjectaccessreviews"),
        ("POST", "/apis/authorization.k8s.io/v1/localsubjectaccessreviews"),
        ("POST", "/apis/authorization.k8s.io/v1/namespaces/default/subjectaccessreviews"),
        ("GET", "/version/x"),
        ("GET", "/metrics/x"),
    ],
)
async def test_reviews_and_documents_are_where_discovery_says_and_nowhere_else(
    ask: Asked, method: str, path: str
) -> None:
    code, status = await ask.told(method, path, {} if method == "POST" else None)
    assert (code, status["reason"]) == (404, "NotFound")


def test_everything_that_discovery_names_has_a_handler() -> None:
    reviews = {kind.plural for kind in all_kinds() if kind.plural.endswith("reviews")}
    for kind in all_kinds():
        endpoint = kind.plural if kind.plural in reviews else "binding" if kind is BINDING else ""
        assert not [verb for verb in verbs_of(kind) if (verb, endpoint) not in HANDLERS]
        for name in kind.subresources:
            assert not [verb for verb in SUBRESOURCES[name].verbs if (verb, name) not in HANDLERS]


@pytest.mark.parametrize(
    ("method", "target", "verb", "resource", "endpoint", "path"),
    [
        ("GET", "/api/v1/namespaces/a/pods", "list", "pods", "", ""),
        ("HEAD", "/api/v1/namespaces/a/pods/b", "get", "pods", "", ""),
        ("GET", "/api/v1/watch/namespaces/a/pods", "watch", "pods", "", ""),
        ("PUT", "/api/v1/namespaces/a/pods/b/status", "update", "pods", "status", ""),
        ("POST", "/api/v1/namespaces/a/pods/b/binding", "create", "pods", "binding", ""),
        ("POST", "/api/v1/namespaces/a/bindings", "create", "bindings", "binding", ""),
        (
            "POST", "/apis/authentication.k8s.io/v1/tokenreviews",
            "create", "tokenreviews", "tokenreviews", "/apis/authentication.k8s.io/v1/tokenreviews",
        ),
        ("GET", "/healthz/etcd?verbose", "get", "", "/healthz", "/healthz/etcd"),
        ("HEAD", "/", "head", "", "/", "/"),
        ("OPTIONS", "/apis/apps/v1", "options", "", "/apis", "/apis/apps/v1"),
        ("GET", "/nowhere", "get", "", "/nowhere", "/nowhere"),
    ],
)  # fmt: skip
def test_every_request_has_a_route(
    method: str, target: str, verb: str, resource: str, endpoint: str, path: str
) -> None:
    route = find(Request.of(method, target))
    assert (route.verb, route.kind.plural, route.endpoint, route.path) == (verb, resource, endpoint, path)


def test_a_review_in_a_namespace_is_authorized_there() -> None:
    reviews = "/apis/authorization.k8s.io/v1/namespaces/team/localsubjectaccessreviews"
    assert find(Request.of("POST", reviews)).namespace == "team"
