"""A gate that eviction, daemon sets and kubelets lose and get back, whether or not the API server still has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moorage.client import Client, Invalid
from moorage.controllers.cluster.garbage import GarbageCollector
from moorage.controllers.hollow import HollowNodes
from moorage.controllers.nodes.devicetaints import DeviceTaintEviction
from moorage.controllers.nodes.tainteviction import TaintEviction
from moorage.controllers.run import Make, prepare
from moorage.controllers.storage.resourceclaims import PodClaims, ResourceClaims
from moorage.controllers.workloads.daemonset import DaemonSets
from moorage.features import ALL_ON, Gate, Gates
from moorage.scheduler.config import Configuration
from tests.plane import api_server, create, eventually, node, pod, read_all
from tests.scheduler.devices import devicekit as kit
from tests.scheduler.stage import NODE, Stage

Data = dict[str, Any]
CONTROLLERS: tuple[Make, ...] = (
    TaintEviction, DeviceTaintEviction, DaemonSets, PodClaims, ResourceClaims, GarbageCollector, HollowNodes,
)  # fmt: skip
KEY = "example.com/tier"
EVERYTHING = {"operator": "Exists"}


class Use(NamedTuple):
    """How pods need a gate, and whether they must go where it is off."""

    toleration: Data
    value: str
    goes: bool

    @property
    def taint(self) -> Data:
        return {"key": KEY, "value": self.value, "effect": "NoExecute"}


USES = {
    Gate.COMPARISON: Use({"key": KEY, "operator": "Gt", "value": "950"}, "990", goes=False),
    Gate.SEMVER: Use({"key": KEY, "operator": "SemverGt", "value": "1.30.0"}, "v1.31.0", goes=False),
    Gate.CEL: Use({"expression": f"taint.key == '{KEY}' && taint.value.startsWith('go')"}, "gold", goes=True),
    Gate.WILDCARD: Use({"key": "example.com/*", "operator": "Exists"}, "any", goes=True),
}


@asynccontextmanager
async def plane(directory: Path, api: Gates, controllers: Gates) -> AsyncIterator[Client]:
    """A whole control plane, on what others left; the scheduler has all gates."""
    async with api_server(directory, api) as server:
        here = Stage(server, ALL_ON, Configuration())
        working = prepare(server.client("controllers"), controllers, CONTROLLERS)
        await here.start()
        await working.start()
        try:
            yield here.client
        finally:
            await working.stop()
            await here.stop()


async def tainted_node(client: Client, name: str, taint: Data) -> None:
    await create(client, node(name))
    await client.patch(NODE, "", name, {"spec": {"taints": [taint]}})


def fleeting(name: str, *tolerations: Data, **spec: Any) -> Data:
    """A pod that is gone as soon as it is deleted."""
    return pod(name, labels={"app": name}, terminationGracePeriodSeconds=0, tolerations=list(tolerations), **spec)


def daemon_set(toleration: Data) -> Data:
    template = fleeting("daemon", toleration)
    metadata = {"labels": template["metadata"]["labels"]}
    spec = {
        "selector": {"matchLabels": metadata["labels"]},
        "template": {"metadata": metadata, "spec": template["spec"]},
    }
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "daemon"}, "spec": spec}


async def pods(client: Client, app: str) -> dict[str, Data]:
    """The pods of a workload by their nodes."""
    found = [each for each in await read_all(client, "Pod") if each["metadata"]["labels"].get("app") == app]
    return {each["spec"].get("nodeName", ""): each for each in found}


async def run_on(client: Client, app: str, *nodes: str) -> dict[str, str]:
    """Wait until the pods of a workload run on these nodes and no others. Returns their uids."""

    async def look() -> bool:
        found = await pods(client, app)
        assert {node: each["status"]["phase"] for node, each in found.items()} == dict.fromkeys(nodes, "Running")
        return True

    await eventually(look)
    return {node: each["metadata"]["uid"] for node, each in (await pods(client, app)).items()}


async def judged(client: Client) -> None:
    """Wait until somebody is evicted who tolerates nothing: by then the others have been judged too."""
    await create(client, fleeting("stranger", nodeName="home"))

    async def gone() -> bool:
        return not await pods(client, "stranger")

    await eventually(gone)


@pytest.mark.parametrize("in_api", [True, False], ids=["still in the API server", "nowhere"])
@pytest.mark.parametrize("gate", Gate, ids=lambda gate: gate.value)
async def test_controllers_without_a_gate(gate: Gate, in_api: bool, tmp_path: Path) -> None:
    use, off = USES[gate], Gates(frozenset(Gate) - {gate})
    old: dict[str, dict[str, str]] = {}

    async with plane(tmp_path, ALL_ON, ALL_ON) as client:
        await tainted_node(client, "home", use.taint)
        await create(client, kit.device_class())
        await create(client, kit.resource_slice("home", kit.device("gpu", use.taint)))
        await create(client, kit.claim("gpu", kit.request(tolerations=[use.toleration])))
        await create(client, fleeting("runner", use.toleration))
        await create(client, fleeting("holder", EVERYTHING, **kit.using("gpu")))
        await create(client, daemon_set(use.toleration))
        for app in ("runner", "holder", "daemon"):
            old[app] = await run_on(client, app, "home")

    async with plane(tmp_path, ALL_ON if in_api else off, off) as client:
        await judged(client)
        await tainted_node(client, "later", use.taint)
        for app, uids in old.items():
            left = {} if use.goes else uids
            assert await run_on(client, app, *left) == left
        if in_api:
            # Whoever sends it there, the kubelet does not let it in; where eviction is stricter it is gone by then.
            await create(client, fleeting("late", use.toleration, nodeName="home"))
            await eventually(lambda: _is_refused(client, "late", goes=use.goes))
        else:
            with pytest.raises(Invalid):
                await create(client, fleeting("late", use.toleration))

    async with plane(tmp_path, ALL_ON, ALL_ON) as client:
        fresh = await run_on(client, "daemon", "home", "later")
        if use.goes:
            await create(client, fleeting("runner", use.toleration, nodeSelector={"kubernetes.io/hostname": "home"}))
            await create(client, fleeting("holder", EVERYTHING, **kit.using("gpu")))
            await run_on(client, "runner", "home")
            await run_on(client, "holder", "home")
        else:
            assert fresh["home"] == old["daemon"]["home"]
            for app in ("runner", "holder"):
                assert await run_on(client, app, "home") == old[app]


async def _is_refused(client: Client, app: str, *, goes: bool) -> bool:
    found = (await pods(client, app)).get("home")
    if found is None:
        return goes
    return bool(found["status"].get("reason") == "TaintToleration")
