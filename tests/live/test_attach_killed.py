"""Attach mode as a process of its own beside a stock API server, ended with SIGKILL in the middle of its work."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import Live, eventually
from tests.live.processes import Component, apart
from tests.seeds import seed

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
RULES, EVICT_AT = "moorage.dev/tolerations", "moorage.dev/evict-at"
ABOVE = '[{key: sla, operator: Gt, value: "950", effect: NoExecute}]'
FOR_A_TIME = '[{key: sla, operator: Lt, value: "950", effect: NoExecute, tolerationSeconds: 8}]'
COUNT, KILLS = 40, 4


@pytest.fixture
def attached(tmp_path: Path) -> Iterator[tuple[Live, Component]]:
    """A stock cluster with hollow nodes, whose own evictor is that of attach mode, and attach mode."""
    live, components = apart(tmp_path / "data", gates="AllAlpha=false")
    server = components["apiserver"]
    options = ("--kubeconfig", str(live.kubeconfig), "--no-leader-elect")
    kubelets = Component("controllers", *options, "--hollow-nodes", "--controllers=node-lifecycle")
    attach = Component("attach", "run", *options)
    parts = (server, kubelets, attach)
    try:
        for part in parts:
            part.start()
        yield live, attach
    finally:
        for part in reversed(parts):
            part.stop()


def node(live: Live, name: str, sla: str) -> None:
    taints = [{"key": "sla", "value": sla, "effect": "NoExecute"}]
    made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints}}
    assert live.http("POST", NODES, made)[0] == 201


def pod(live: Live, name: str, rules: str) -> None:
    metadata = {"name": name, "annotations": {RULES: rules}}
    spec = {"schedulerName": "moorage", "containers": [{"name": "main", "image": "registry/app"}]}
    assert live.http("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})[0] == 201


def pods(live: Live) -> dict[str, Any]:
    return {each["metadata"]["name"]: each for each in live.http("GET", PODS)[1]["items"]}


@pytest.mark.seeded
def test_pods_end_where_their_rules_let_them_though_attach_mode_is_killed(attached: tuple[Live, Component]) -> None:
    live, attach = attached
    chance = random.Random(seed(16))
    node(live, "good", "990")
    node(live, "bad", "900")
    for at in sorted(chance.sample(range(COUNT), KILLS)):
        for number in range(len(pods(live)), at + 1):
            pod(live, f"web-{number}", ABOVE)
        attach.kill()
        attach.begin()
    for number in range(len(pods(live)), COUNT):
        pod(live, f"web-{number}", ABOVE)

    def all_run() -> bool:
        return all(each["status"].get("phase") == "Running" for each in pods(live).values())

    eventually(all_run)
    assert {each["spec"]["nodeName"] for each in pods(live).values()} == {"good"}
    taints = {"spec": {"taints": [{"key": "sla", "value": "940", "effect": "NoExecute"}]}}
    assert live.http("PATCH", f"{NODES}/good", taints, media_type="application/merge-patch+json")[0] == 200
    attach.kill()
    attach.begin()
    eventually(lambda: not pods(live))


def test_a_grace_period_is_what_it_was_though_the_evictor_is_killed_in_it(attached: tuple[Live, Component]) -> None:
    live, attach = attached
    node(live, "bad", "900")
    pod(live, "limited", FOR_A_TIME)

    def due() -> str:
        text: str = pods(live)["limited"]["metadata"]["annotations"].get(EVICT_AT, "")
        return text

    deadline = eventually(due)
    attach.kill()
    assert due() == deadline
    attach.start()
    eventually(lambda: pods(live).get("limited", {}).get("metadata", {}).get("deletionTimestamp") or not pods(live))
    left = pods(live).get("limited")
    assert left is None or left["metadata"]["annotations"][EVICT_AT] == deadline
