"""`moorage rollback` as people run it: of manifests, of a pipe, of a live cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from moorage.features import ALL_ON
from tests.plane import api_server, create, node, pod

GATE = "WildcardTolerationKeys"
EXAMPLES = Path(__file__).parents[2] / "examples"
FAMILY = {"key": "readiness.k8s.io/*", "operator": "Exists"}
READINESS = {"key": "readiness.k8s.io/cni", "effect": "NoExecute"}


def rollback(*args: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    return subprocess.run(
        [sys.executable, "-m", "moorage", "rollback", *args], input=stdin, capture_output=True, text=True, timeout=60,
        env={**clean, **env}, check=False,
    )  # fmt: skip


def test_findings_come_in_order_with_what_to_type_and_exit_code_1() -> None:
    answer = rollback(GATE, "-f", str(EXAMPLES / "keys-1-readiness"))
    assert answer.returncode == 1
    assert "1. Change the workloads whose pods the API server would refuse" in answer.stdout
    assert "$ kubectl edit daemonset cni-agent" in answer.stdout
    assert answer.stdout.index("in the scheduler") < answer.stdout.index("then in the API server")


def test_a_gate_that_nothing_uses_can_be_turned_off() -> None:
    answer = rollback(GATE.lower(), "-f", str(EXAMPLES / "versions-1-kubelet"))
    assert (answer.returncode, answer.stdout) == (0, f"Turning off {GATE} changes nothing for what is there.\n")


def test_json_is_for_programs() -> None:
    text = (EXAMPLES / "keys-2-vendor" / "manifests.yaml").read_text()
    answer = rollback(GATE, "-f", "-", "-o", "json", stdin=text)
    data = json.loads(answer.stdout)
    assert answer.returncode == 1
    assert data["gate"] == GATE
    assert [(each["step"], each["object"]) for each in data["findings"]] == [
        ("templates", "DaemonSet default/gpu-monitor")
    ]
    assert len(data["procedure"]) == 3


def test_an_object_that_cannot_be_read_is_named_and_left_out(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {tolerations: {}}\n")
    answer = rollback(GATE, "-f", str(file))
    assert answer.returncode == 0
    assert f"note: left out: {file}:4: document 1: spec.tolerations: expected a list, got a map" in answer.stderr


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ([GATE], "which cluster? give --kubeconfig FILE, or manifests with -f"),
        (["NoSuchGate", "-f", "x"], "'NoSuchGate' is no gate; the gates are TaintTolerationComp"),
        ([GATE, "-f", "no/such/file"], "no/such/file: No such file or directory"),
        ([GATE, "--kubeconfig", "no/such/file"], "no/such/file"),
    ],
)
def test_what_cannot_run_says_why_and_exits_with_2(args: list[str], sentence: str) -> None:
    answer = rollback(*args)
    assert answer.returncode == 2
    assert sentence in answer.stderr
    assert "Traceback" not in answer.stderr


async def test_a_live_cluster_is_asked_through_its_kubeconfig(tmp_path: Path) -> None:
    import asyncio

    async with api_server(tmp_path, ALL_ON) as server:
        client = server.client("test")
        await create(client, node("n1", taints=[READINESS]))
        running = pod("agent", tolerations=[FAMILY], nodeName="n1")
        await create(client, running, phase="Running")
        await create(client, pod("waiting", tolerations=[FAMILY]))
        answer = await asyncio.to_thread(rollback, GATE, "-o", "json", KUBECONFIG=str(server.kubeconfig))
    data = json.loads(answer.stdout)
    assert [(each["step"], each["object"]) for each in data["findings"]] == [
        ("evicted", "Pod default/agent"),
        ("pending", "Pod default/waiting"),
    ]
    assert data["findings"][0]["reason"].startswith("node n1 has the taint readiness.k8s.io/cni:NoExecute")
