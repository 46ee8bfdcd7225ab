"""`moorage rollback` as people run it: of manifests, of a pipe, of a live cluster."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from moorage.features import ALL_ON
from tests.cli.commands import EXAMPLES, moorage
from tests.plane import api_server, create, node, pod

GATE = "WildcardTolerationKeys"
FAMILY = {"key": "readiness.k8s.io/*", "operator": "Exists"}
READINESS = {"key": "readiness.k8s.io/cni", "effect": "NoExecute"}


def test_findings_come_in_order_with_what_to_type_and_exit_code_1() -> None:
    answer = moorage("rollback", GATE, "-f", str(EXAMPLES / "keys-1-readiness"))
    assert answer.returncode == 1
    assert "1. Change the workloads whose pods the API server would refuse" in answer.stdout
    assert "$ kubectl edit daemonset cni-agent" in answer.stdout
    assert answer.stdout.index("in the scheduler") < answer.stdout.index("then in the API server")


def test_a_gate_that_nothing_uses_can_be_turned_off() -> None:
    answer = moorage("rollback", GATE.lower(), "-f", str(EXAMPLES / "versions-1-kubelet"))
    assert (answer.returncode, answer.stdout) == (0, f"Turning off {GATE} changes nothing for what is there.\n")


def test_json_is_for_programs() -> None:
    text = (EXAMPLES / "keys-2-vendor" / "manifests.yaml").read_text()
    answer = moorage("rollback", GATE, "-f", "-", "-o", "json", stdin=text)
    data = json.loads(answer.stdout)
    assert answer.returncode == 1
    assert data["gate"] == GATE
    assert [(each["step"], each["object"]) for each in data["findings"]] == [
        ("templates", "DaemonSet default/gpu-monitor")
    ]
    assert len(data["procedure"]) == 3
    assert data["effects"].keys() >= {"evicted", "pending", "refused"}


def test_an_object_that_cannot_be_read_is_named_and_left_out(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {tolerations: {}}\n")
    answer = moorage("rollback", GATE, "-f", str(file))
    assert answer.returncode == 0
    assert f"note: left out: {file}:4: document 1: spec.tolerations: expected a list, got a map" in answer.stderr


async def test_a_live_cluster_is_asked_through_its_kubeconfig(tmp_path: Path) -> None:
    async with api_server(tmp_path, ALL_ON) as server:
        client = server.client("test")
        await create(client, node("n1", taints=[READINESS]))
        running = pod("agent", tolerations=[FAMILY], nodeName="n1")
        await create(client, running, phase="Running")
        await create(client, pod("waiting", tolerations=[FAMILY]))
        answer = await asyncio.to_thread(moorage, "rollback", GATE, "-o", "json", KUBECONFIG=str(server.kubeconfig))
    data = json.loads(answer.stdout)
    assert [(each["step"], each["object"]) for each in data["findings"]] == [
        ("evicted", "Pod default/agent"),
        ("pending", "Pod default/waiting"),
    ]
    assert data["findings"][0]["reason"].startswith("node n1 has the taint readiness.k8s.io/cni:NoExecute")


def test_patches_are_written_as_commands() -> None:
    answer = moorage("rollback", GATE, "-f", str(EXAMPLES / "keys-1-readiness"), "--patch")
    assert answer.returncode == 1
    assert answer.stdout.startswith("kubectl patch daemonset cni-agent --type json -p '[{")
    assert answer.stdout.count("\n") == 1
