"""Tenants cannot read each other's objects, nor give themselves more rights."""

from __future__ import annotations

import json

from tests.live.conftest import Live, eventually


def test_a_tenant_never_reads_the_names_of_another(live: Live) -> None:
    """Whatever a service account of one namespace asks for, no answer holds a name of the other's objects."""
    for tenant in ("red", "blue"):
        assert live.http("POST", "/api/v1/namespaces", {"metadata": {"name": tenant}})[0] == 201
        path = f"/api/v1/namespaces/{tenant}"
        assert live.http("POST", f"{path}/serviceaccounts", {"metadata": {"name": tenant}})[0] == 201
        assert live.http("POST", f"{path}/configmaps", {"metadata": {"name": f"{tenant}-secret-plan"}})[0] == 201
    token = live.http("POST", "/api/v1/namespaces/red/serviceaccounts/red/token", {"spec": {}})[1]["status"]["token"]
    asked = [
        "/api/v1/configmaps", "/api/v1/namespaces", "/api/v1/namespaces/blue", "/api/v1/namespaces/blue/configmaps",
        "/api/v1/namespaces/blue/configmaps?watch=1",
        "/api/v1/namespaces/red/../blue/configmaps", "/api/v1/namespaces/red%2F..%2Fblue/configmaps",
        "/api/v1/watch/namespaces/blue/configmaps", "/metrics", "/apis/apps/v1/deployments",
    ]  # fmt: skip
    for path in asked:
        code, answer = live.http("GET", path, token=token)
        assert code in (400, 403, 404), path
        assert "plan" not in json.dumps(answer), path
    guesses = ("blue-secret-plan", "blue-absent-plan")
    answers = [live.http("GET", f"/api/v1/namespaces/blue/configmaps/{name}", token=token) for name in guesses]
    existing, absent = (json.dumps(answer).replace(name, "") for answer, name in zip(answers, guesses, strict=True))
    assert existing == absent


def test_nobody_gives_themselves_more_than_they_have(live: Live) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    assert live.http("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "climber"}})[0] == 201
    own = {"verbs": ["get", "patch", "update"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]}
    assert live.http("POST", f"{rbac}/roles", {"metadata": {"name": "climber"}, "rules": [own]})[0] == 201
    binding = {
        "metadata": {"name": "climber"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "climber"},
        "subjects": [{"kind": "ServiceAccount", "name": "climber", "namespace": "default"}],
    }
    assert live.http("POST", f"{rbac}/rolebindings", binding)[0] == 201
    path = "/api/v1/namespaces/default/serviceaccounts/climber/token"
    token = live.http("POST", path, {"spec": {}})[1]["status"]["token"]
    eventually(lambda: live.http("GET", f"{rbac}/roles/climber", token=token)[0] == 200)
    role = live.http("GET", f"{rbac}/roles/climber", token=token)[1]
    everything = {"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}
    merge = "application/merge-patch+json"
    for method, body, media_type in (("PATCH", everything, merge), ("PUT", role | everything, "application/json")):
        code, answer = live.http(method, f"{rbac}/roles/climber", body, token=token, media_type=media_type)
        assert code == 403
        assert "is attempting to grant RBAC permissions not currently held" in answer["message"]
