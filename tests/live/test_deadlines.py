"""Controllers that are killed in the middle of a grace period: the pod leaves when it would have left anyway."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import Live, eventually
from tests.live.processes import Component, apart

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
EVICT_AT = "moorage.dev/evict-at"
GRACE, LEFT = 8, 3
"""Seconds that the pod tolerates, and those that are left when the controllers come back."""


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[tuple[Live, Component]]:
    live, components = apart(tmp_path / "data")
    server, controllers = components["apiserver"], components["controllers"]
    try:
        server.start()
        controllers.start()
        yield live, controllers
    finally:
        controllers.stop()
        server.stop()


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_controllers_that_are_killed_keep_the_deadline(parts: tuple[Live, Component]) -> None:
    live, controllers = parts
    taint = {"key": "sla", "value": "900", "effect": "NoExecute"}
    assert live.http("POST", NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})[0] == 201
    tolerations = [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
        {"key": "sla", "operator": "Lt", "value": "951", "effect": "NoExecute", "tolerationSeconds": GRACE},
    ]
    spec = {"nodeName": "a", "tolerations": tolerations, "containers": [{"name": "main", "image": "registry/app"}]}
    metadata = {"name": "web", "finalizers": ["example.com/wait"]}
    assert live.http("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})[0] == 201
    patch = {"spec": {"taints": [taint]}}
    assert live.http("PATCH", f"{NODES}/a", patch, media_type="application/merge-patch+json")[0] == 200

    def pod() -> dict[str, Any]:
        data: dict[str, Any] = live.http("GET", f"{PODS}/web")[1]
        return data

    deadline = moment(eventually(lambda: pod()["metadata"].get("annotations", {}).get(EVICT_AT)))
    controllers.kill()
    eventually(lambda: (deadline - datetime.now(UTC)).total_seconds() < LEFT)
    started = datetime.now(UTC)
    controllers.start()
    eventually(lambda: "deletionTimestamp" in pod()["metadata"])
    condition = next(each for each in pod()["status"]["conditions"] if each["type"] == "DisruptionTarget")
    evicted = moment(condition["lastTransitionTime"])
    assert evicted >= deadline.replace(microsecond=0)
    assert (evicted - started).total_seconds() < GRACE
    assert live.http("GET", f"{NODES}/a")[1]["spec"]["taints"][0].keys() == taint.keys()
