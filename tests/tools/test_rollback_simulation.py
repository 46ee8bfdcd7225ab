"""Rollback plays what turning a gate off would do, and writes patches that take its rules out of templates."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.api import kinds
from moorage.api.decode import convert
from moorage.client.client import JSON_PATCH
from moorage.features import ALL_ON, Gate
from moorage.tools.cluster import Cluster
from moorage.tools.rollback import Rollback, RollbackFinding, RollbackStep
from moorage.tools.rollbackpatches import patches
from moorage.tools.rollbacksimulation import SimulatedRollback
from moorage.validation.gates import gates_needed
from tests.plane import api_server, create
from tests.tools.simulation.asking import cluster_of, deployment, node, owned_by, pod, structs_of, taint
from tests.tools.test_rollback import CEL_TERM, PLAIN_TERM, SEMVER_TERM, TOLERATIONS, preferring, requiring

Data = dict[str, Any]
FAMILY = [{"key": "ready*", "operator": "Exists"}]
GATE = Gate.WILDCARD


def played(cluster: Cluster, gate: Gate = GATE) -> list[RollbackFinding]:
    return SimulatedRollback(Rollback(cluster, gate)).findings()[0]


def said(cluster: Cluster) -> list[tuple[RollbackStep, str, str]]:
    return [(each.step, each.item.key, each.reason.rpartition("; ")[2]) for each in played(cluster)]


def test_what_becomes_of_an_evicted_pod_is_said() -> None:
    replaced = pod("other", "a", owner=owned_by("Rollout", "x", "argoproj.io/v1"), tolerations=FAMILY)
    found = (node("a", taint("ready.x")), node("b"), pod("alone", "a", tolerations=FAMILY), replaced)
    for cluster in (cluster_of(*found), structs_of(*found)):
        assert said(cluster) == [
            (RollbackStep.EVICTED, "default/alone", "nothing replaces it"),
            (RollbackStep.EVICTED, "default/other", "nothing replaces it"),
        ]
        assert all(each.reason.startswith("node a has the taint ready.x") for each in played(cluster))


def test_a_pending_pod_that_finds_another_node_is_no_finding() -> None:
    cluster = cluster_of(node("a", taint("ready.x", "NoSchedule")), node("b"), pod("waits", tolerations=FAMILY))
    assert [each.step for each in Rollback(cluster, GATE).findings()] == [RollbackStep.PENDING]
    assert not played(cluster)


def test_a_pending_pod_that_is_stuck_is_found() -> None:
    cluster = cluster_of(node("a", taint("ready.x", "NoSchedule")), pod("waits", tolerations=FAMILY))
    assert [(each.step, each.item.key) for each in played(cluster)] == [(RollbackStep.PENDING, "default/waits")]


def test_of_a_pod_that_cannot_be_played_the_analysis_answers() -> None:
    bare = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare"},
        "spec": {"nodeName": "a", "tolerations": FAMILY},
    }
    cluster = cluster_of(node("a", taint("ready.x")), bare)
    assert [(each.step, each.item.key) for each in played(cluster)] == [(RollbackStep.EVICTED, "default/bare")]


@pytest.mark.parametrize("seconds", [60, 3600])
def test_a_pod_that_may_stay_for_a_while_is_found_however_long_that_is(seconds: int) -> None:
    tolerations = [*FAMILY, {"key": "ready.x", "operator": "Exists", "tolerationSeconds": seconds}]
    (found,) = played(cluster_of(node("a", taint("ready.x")), pod("stays", "a", tolerations=tolerations)))
    assert f"evicted after {seconds} seconds" in found.reason


def test_without_nodes_the_analysis_answers() -> None:
    cluster = cluster_of(deployment("web", 1, tolerations=FAMILY))
    assert [each.step for each in played(cluster)] == [RollbackStep.TEMPLATES]


RULES: list[tuple[Gate, Data, bool]] = [
    *(
        (gate, {"tolerations": [{"key": "x", "operator": "Exists"}, rule, rule]}, False)
        for gate, rule in TOLERATIONS.items()
    ),
    (Gate.CEL, {"affinity": requiring(CEL_TERM, PLAIN_TERM, CEL_TERM)}, False),
    (Gate.SEMVER, {"affinity": requiring(SEMVER_TERM)}, True),
    (Gate.CEL, {"affinity": preferring(CEL_TERM)}, False),
    (Gate.SEMVER, {"affinity": requiring(SEMVER_TERM, PLAIN_TERM), "tolerations": [TOLERATIONS[Gate.SEMVER]]}, False),
]


@pytest.mark.parametrize("kind", ["Deployment", "CronJob"])
async def test_patches_take_the_rules_of_a_gate_out_of_templates(kind: str, tmp_path: Path) -> None:
    async with api_server(tmp_path, ALL_ON) as server:
        client = server.client("test")
        for number, (gate, spec, widens) in enumerate(RULES):
            name = f"web-{number}"
            manifest = deployment(name, 1, **spec)
            if kind == "CronJob":
                manifest["spec"]["template"]["spec"]["restartPolicy"] = "Never"
                job = {"spec": {"template": manifest["spec"]["template"]}}
                manifest = {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": name}}
                manifest["spec"] = {"schedule": "0 0 * * *", "jobTemplate": job}
            row = kinds.row(manifest["apiVersion"], kind)
            stored = await create(client, manifest)
            (patch,) = patches(Rollback(structs_of(stored), gate).findings(), gate)
            assert patch.widens is widens
            words = shlex.split(patch.command)
            assert words[:-1] == ["kubectl", "patch", kind.lower(), name, "--type", "json", "-p"]
            answer = await client.patch(row, "default", name, json.loads(words[-1]), form=JSON_PATCH)
            after = msgspec.json.decode(answer)
            assert gate not in gates_needed(convert(after, row.struct))
            template = after["spec"]["jobTemplate"]["spec"] if kind == "CronJob" else after["spec"]
            kept = template["template"]["spec"]
            assert [each["key"] for each in kept.get("tolerations", ())] == ["x"] * (number < len(TOLERATIONS))
