"""What belongs to one tenant is not told to another."""

from __future__ import annotations

import json

from tests.live.conftest import Live


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
    told = [live.http("GET", f"/api/v1/namespaces/blue/configmaps/{name}", token=token) for name in guesses]
    there, absent = (json.dumps(answer).replace(name, "") for answer, name in zip(told, guesses, strict=True))
    assert there == absent
