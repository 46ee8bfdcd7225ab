"""docs/operate.md: its commands can be typed, and each failure that it tells of looks as it says when it is caused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.api import kinds
from moorage.client import Client
from moorage.client.clock import FastClock
from moorage.controlplane import ControlPlane, Settings
from moorage.features import ALL_ON, NONE_ON
from tests.live.conftest import ROOT, Live
from tests.plane import PATIENCE, create, eventually, read_all

Data = dict[str, Any]
PAGE = (ROOT / "docs" / "operate.md").read_text()
NODE, POD = kinds.row("v1", "Node"), kinds.row("v1", "Pod")
FAMILY = {"key": "readiness.example.com/*", "operator": "Exists"}
TAINT = {"key": "readiness.example.com/cni", "effect": "NoExecute"}
WEB: Data = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"tolerations": [FAMILY], "containers": [{"name": "main", "image": "pause:3.10"}]},
        },
    },
}  # fmt: skip


def said(words: str) -> str:
    """Words that stand on the page."""
    assert words in PAGE
    return words


def test_every_command_can_be_typed(tmp_path: Path) -> None:
    live = Live(tmp_path / ".moorage")
    live.start()
    try:
        live.kubectl("apply", "-f", "docs/operate.yaml")
        live.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(WEB))
        environment = {
            **os.environ, "KUBECONFIG": str(live.kubeconfig), "HOME": str(tmp_path),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }  # fmt: skip
        commands = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
        assert len(commands) > 15
        for command in commands:
            run = subprocess.run(
                ["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE,
                check=False,
            )  # fmt: skip
            has_findings = command.startswith(("moorage why", "moorage rollback"))
            assert run.returncode == has_findings, f"{command}\n{run.stdout}{run.stderr}"
            assert run.stdout or "No resources found" in run.stderr, command
    finally:
        live.stop()


@asynccontextmanager
async def plane(directory: Path, **off: bool) -> AsyncIterator[tuple[Client, ControlPlane]]:
    """A control plane in which a gate is on everywhere except where it is said to be off."""
    names = ("apiserver", "scheduler", "controllers", "kubelet")
    gates: Data = {f"{name}_gates": NONE_ON if off.get(name) else ALL_ON for name in names}
    clock = FastClock()
    running = await ControlPlane.start(Settings(directory, port=0, nodes=1, clock=clock, **gates))
    try:
        await clock.run_fast(2)  # until the node comes to life
        yield running.server.client("test"), running
    finally:
        await running.stop()


async def placed(directory: Path) -> None:
    """A Deployment whose pod runs because of a wildcard key."""
    async with plane(directory) as (client, _):
        await client.patch(NODE, "", "node-1", {"spec": {"taints": [TAINT]}})
        await create(client, WEB)

        async def runs() -> bool:
            return [each["status"].get("phase") for each in await read_all(client, "Pod")] == ["Running"]

        await eventually(runs)


async def event(client: Client, reason: str) -> str:
    """The message of an event, as soon as there is one."""

    async def found() -> str:
        told = [each["message"] for each in await read_all(client, "Event") if each["reason"] == reason]
        return str(told[0]) if told else ""

    return str(await eventually(found))


async def metric(running: ControlPlane, sample: str) -> float:
    text = (await running.server.transport("test").request("GET", "/metrics")).body.decode()
    values = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(sample)]
    return sum(map(float, values))


async def test_a_gate_that_the_kubelets_lack(tmp_path: Path) -> None:
    await placed(tmp_path)
    async with plane(tmp_path, kubelet=True) as (client, running):
        for each in await read_all(client, "Pod"):
            await client.delete(POD, "default", each["metadata"]["name"], grace=0)

        async def rejected() -> bool:
            failed = [each["status"] for each in await read_all(client, "Pod") if each["status"]["phase"] == "Failed"]
            return len(failed) > 3 and {each["reason"] for each in failed} == {"TaintToleration"}

        await eventually(rejected)
        said("Pods in phase `Failed` with reason `TaintToleration`")
        assert await metric(running, 'kubelet_admission_rejections_total{reason="TaintToleration"}') > 3


async def test_a_gate_that_the_controllers_lack(tmp_path: Path) -> None:
    await placed(tmp_path)
    async with plane(tmp_path, controllers=True) as (client, running):
        told = await event(client, "TaintManagerEviction")
        assert "needs the feature gate WildcardTolerationKeys, which is off" in told
        said("`needs the feature gate …, which is off` | the controllers lack a gate")

        async def again() -> bool:
            return await metric(running, "taint_eviction_controller_pod_deletions_total") > 3

        await eventually(again)


async def test_a_gate_that_the_api_server_lacks(tmp_path: Path) -> None:
    await placed(tmp_path)
    async with plane(tmp_path, apiserver=True) as (client, running):
        for each in await read_all(client, "Pod"):
            await client.delete(POD, "default", each["metadata"]["name"], grace=0)
        assert "spec.tolerations[0].key: Invalid value" in await event(client, "FailedCreate")
        said("a key with `*` that\nis `Invalid`")
        assert await metric(running, "moorage_controllers_failed_creates_total") > 0


async def test_a_value_that_cannot_be_compared_evicts(tmp_path: Path) -> None:
    async with plane(tmp_path) as (client, running):
        tolerations = [{"key": "example.com/sla", "operator": "Gt", "value": "950"}]
        spec = {"nodeName": "node-1", "tolerations": tolerations, "containers": [{"name": "a", "image": "pause:3.10"}]}
        await create(client, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
        sla = {"key": "example.com/sla", "value": "high", "effect": "NoExecute"}
        await client.patch(NODE, "", "node-1", {"spec": {"taints": [sla]}})
        assert said('"high" is not a decimal integer') in await event(client, "TaintManagerEviction")
        error = 'taint_eviction_controller_toleration_errors_total{error="failed to parse taint value as int64"}'
        assert await metric(running, error) > 0


@pytest.mark.parametrize("words", ["is not a decimal integer", "no such key", "which is off"])
def test_the_words_of_reasons_can_be_looked_up(words: str) -> None:
    assert words in PAGE.split("## Symptoms")[1]
