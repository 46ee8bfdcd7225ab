"""What a path names, and what can be done with it."""

from __future__ import annotations

import pytest

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
        ("/api/v1/namespaces/default/resourcequotas/a/status", "resourcequotas of v1"),
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
