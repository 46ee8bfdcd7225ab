"""A simulation of changes says what happens when they are really made, on a control plane with hollow nodes."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.api.decode import convert
from moorage.client import ApiError, Client, Missing
from moorage.client.clock import FastClock
from moorage.controlplane import ControlPlane, Settings
from moorage.features import ALL_ON
from moorage.tools.cluster import Cluster, ClusterObject
from moorage.tools.simulation.changes import (
    AddNodes,
    ClusterChange,
    CordonNodes,
    DeleteObject,
    DrainNodes,
    LabelNodes,
    RemoveNodes,
    ScaleWorkload,
    TaintNodes,
)
from moorage.tools.simulation.simulate import SimulationQuestion, simulate
from tests.plane import create, eventually, read, read_all
from tests.tools.simulation.random_cluster import RandomCluster

Data = dict[str, Any]
NODE, POD = kinds.row("v1", "Node"), kinds.row("v1", "Pod")
ROUNDS = int(os.environ.get("MOORAGE_SIMULATIONS", "3"))
"""How many random clusters are compared: more of them by hand."""
ENOUGH = 75
"""Seconds after which everything has happened: tolerations end, and pods of nodes that are gone are collected."""
NOT_LISTED = ("Event", "Lease", "Secret", "ConfigMap")


def test_a_plane_and_a_simulation_agree(tmp_path: Path) -> None:
    for seed in range(ROUNDS):
        asyncio.run(compare(seed, tmp_path / str(seed)))


async def compare(seed: int, directory: Path) -> None:
    """Make the same changes in a cluster and in a simulation of it, and compare who left and who is where."""
    made = RandomCluster(seed)
    changes = made.changes()
    directory.mkdir()
    clock = FastClock()
    settings = Settings(
        directory, port=0, nodes=0, clock=clock,
        apiserver_gates=ALL_ON, scheduler_gates=ALL_ON, controllers_gates=ALL_ON,
    )  # fmt: skip
    plane = await ControlPlane.start(settings)
    try:
        hands = Hands(plane.server.client("test"), clock)
        await hands.fill(made)
        before = await hands.cluster()
        pods = {pod["metadata"]["uid"]: pod for pod in await hands.pods()}
        for change in changes:
            await hands.make(change)
        await clock.run_fast(ENOUGH)
        await hands.settled()
        after = {pod["metadata"]["uid"]: pod for pod in await hands.pods()}
    finally:
        await plane.stop()
    question = SimulationQuestion(before, ALL_ON, changes)
    result = await asyncio.to_thread(simulate, question)
    told = f"seed {seed}: {[each.command for each in changes]}\n{result}"
    left = Counter(
        place(pod) for uid, pod in pods.items() if uid not in after or "deletionTimestamp" in after[uid]["metadata"]
    )
    gone = [*result.after.lost, *result.after.deleted]
    simulated = Counter((app(each.pod), each.node) for each in gone)
    simulated += Counter((app(each.pod), each.source) for each in result.after.moved)
    replaced = {each.replaces for each in result.after.pending if each.replaces}
    simulated += Counter(place(pod) for pod in pods.values() if full_name(pod) in replaced)
    free = {each.what.name for each in changes if isinstance(each, ScaleWorkload)}
    free |= {app(each.pod) for each in result.before.evicted}
    assert without(simulated, free) == without(left, free), told
    waiting = Counter(app(full_name(pod)) for pod in after.values() if not pod["spec"].get("nodeName"))
    pending = Counter(app(each.pod) for each in (*result.after.pending, *result.still_pending))
    assert pending == waiting, told
    assert result.pods == len(after), told


def full_name(pod: Data) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def app(name: str) -> str:
    """The workload of a pod, by its name."""
    return name.partition("/")[2].partition("-")[0]


def place(pod: Data) -> tuple[str, str]:
    return app(full_name(pod)), pod["spec"].get("nodeName", "")


def without(found: Counter[tuple[str, str]], free: set[str]) -> Counter[tuple[str, str]]:
    """Who left from where, but for some workloads.

    Of one that is scaled any pods may be chosen; and one whose pods come and go anyway is here or there by chance.
    """
    return Counter({place: count for place, count in found.items() if place[0] not in free})


class Hands:
    """Does what people do to a cluster, without any code of simulations."""

    def __init__(self, client: Client, clock: FastClock) -> None:
        self._client = client
        self._clock = clock

    async def fill(self, made: RandomCluster) -> None:
        for each in made.nodes:
            await create(self._client, each)
        await self._clock.run_fast(4)
        await eventually(self._are_ready)
        for each in (*made.budgets, *made.workloads):
            await create(self._client, each)
        await self._clock.run_fast(45)
        await self.settled()

    async def _are_ready(self) -> bool:
        await self._clock.run_fast(1)
        nodes = await read_all(self._client, "Node")
        return not any(taint["key"].endswith("not-ready") for node in nodes for taint in node["spec"].get("taints", ()))

    async def pods(self) -> list[Data]:
        return await read_all(self._client, "Pod")

    async def cluster(self) -> Cluster:
        """Everything as a server gives it."""
        found = Cluster(is_complete=True)
        for kind in kinds.KINDS:
            if kind.kind not in NOT_LISTED:
                for raw in (await self._client.list(kind)).items:
                    found.items.append(ClusterObject(convert(msgspec.json.decode(raw), kind.struct)))
        return found

    async def settled(self) -> None:
        """Wait until every pod runs, or waits for a reason, and that stays so."""
        seen: list[object] = []

        async def same() -> bool:
            await self._clock.run_fast(2)
            pods = await self.pods()
            seen.append(sorted((each["metadata"]["uid"], each["spec"].get("nodeName", "")) for each in pods))
            return all(map(is_settled, pods)) and len(seen) > 2 and seen[-1] == seen[-2] == seen[-3]

        await eventually(same)

    async def make(self, change: ClusterChange) -> None:
        match change:
            case TaintNodes(which, added, _):
                node = await read(self._client, "Node", which)
                taints = [
                    each for each in node["spec"].get("taints", ()) if (each["key"], each["effect"]) != added[0][::2]
                ]
                key, value, effect = added[0]
                taints.append({"key": key, "value": value, "effect": effect})
                await self._client.patch(NODE, "", which, {"spec": {"taints": taints}})
            case LabelNodes(which, key, value):
                await self._client.patch(NODE, "", which, {"metadata": {"labels": {key: value}}})
            case CordonNodes(which):
                await self._client.patch(NODE, "", which, {"spec": {"unschedulable": True}})
            case RemoveNodes(which):
                await self._client.delete(NODE, "", which)
            case ScaleWorkload(what, replicas):
                await self._client.patch(what.kind, what.namespace, what.name, {"spec": {"replicas": replicas}})
            case DeleteObject(what):
                await self._client.delete(what.kind, what.namespace, what.name, propagation="Background")
            case AddNodes(count, like):
                await self._add(count, like)
            case DrainNodes(which):
                await self._drain(which)
            case _:
                raise AssertionError(change)

    async def _add(self, count: int, like: str) -> None:
        model = await read(self._client, "Node", like)
        there = len(await read_all(self._client, "Node"))
        for number in range(there, there + count):
            name = f"{like}-more-{number}"
            labels = {**model["metadata"]["labels"], "kubernetes.io/hostname": name}
            taints = [
                each for each in model["spec"].get("taints", ()) if not each["key"].startswith("node.kubernetes.io/")
            ]
            room = {part: model["status"][part] for part in ("capacity", "allocatable")}
            metadata = {"name": name, "labels": labels}
            await self._client.create(NODE, {"metadata": metadata, "spec": {"taints": taints}, "status": room})
        await self._clock.run_fast(4)
        await eventually(self._are_ready)

    async def _drain(self, node: str) -> None:
        await self._client.patch(NODE, "", node, {"spec": {"unschedulable": True}})
        for _ in range(30):
            pods = [each for each in await self.pods() if each["spec"].get("nodeName") == node and not is_daemon(each)]
            if not pods:
                return
            for each in pods:
                metadata = each["metadata"]
                with suppress(ApiError, Missing):
                    await self._client.post(POD, metadata["namespace"], metadata["name"], "eviction", {
                        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": metadata["name"]},
                    })  # fmt: skip
            await self._clock.run_fast(5)


def is_daemon(pod: Data) -> bool:
    return any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences", ()))


def is_settled(pod: Data) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    if pod["spec"].get("nodeName"):
        return bool(pod["status"].get("phase") == "Running")
    return any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions", ()))
