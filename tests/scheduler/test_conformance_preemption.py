"""Kubernetes' own end-to-end specs SchedulerPreemption, each named by its test, and some more of that sort."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moorage.api import kinds
from moorage.client import Forbidden, Invalid
from moorage.client.client import STRATEGIC
from moorage.features import ALL_ON
from moorage.scheduler.config import Configuration
from tests.plane import api_server, create, eventually, read, read_all
from tests.scheduler.cluster import FAKE, HOST, Cluster, cluster, matching, only, spread
from tests.scheduler.stage import POD

Data = dict[str, Any]


async def victims(here: Cluster, namespace: str = "default") -> list[str]:
    """Two pods on each of two nodes that leave room for no third; the first is of low priority, the others are not."""
    names: list[str] = []
    for node in ("node-1", "node-2"):
        await here.fake(node, 5)
        for number in range(2):
            name = f"pod-{node}-{number}"
            priority = "medium" if names else "low"
            await here.make(name, 2, priorityClassName=priority, affinity=only(node), namespace=namespace)
            names.append(name)
    for name in names:
        await here.runs(name, namespace)
    return names


async def test_preemption_basic(tmp_path: Path) -> None:
    async with cluster(tmp_path) as here:
        await here.priorities()
        first, *others = await victims(here)
        assert await here.run_pod("preemptor", 2, priorityClassName="high") == "node-1"
        assert await here.is_preempted(first)
        assert not [name for name in others if await here.is_preempted(name)]


async def test_preemption_of_a_lower_priority_pod_by_a_critical_pod(tmp_path: Path) -> None:
    async with cluster(tmp_path) as here:
        await here.priorities()
        first, *others = await victims(here)
        given = {"priorityClassName": "system-node-critical", "namespace": "kube-system"}
        await here.make("critical-pod", 2, **given)
        assert await here.runs("critical-pod", "kube-system") == "node-1"
        assert await here.is_preempted(first)
        assert not [name for name in others if await here.is_preempted(name)]


async def test_preemption_by_pods_of_various_priorities_while_victims_take_their_time(tmp_path: Path) -> None:
    async with cluster(tmp_path) as here:
        await here.priorities()
        lows = [f"low-{number}" for number in range(10)]
        for node in ("node-1", "node-2"):
            await here.fake(node, 5)
        for name in lows:
            await here.make(name, 1, priorityClassName="low", terminationGracePeriodSeconds=80)
        for name in lows:
            await here.runs(name)
        for number in range(10):
            await here.make(f"medium-{number}", 1, priorityClassName="medium")

        await here.all_are_preempted(lows)
        for number in range(6):
            await here.make(f"high-{number}", 1, priorityClassName="high")

        async def all_nominated() -> bool:
            return all(each["status"].get("nominatedNodeName") for each in await here.pods("high-"))

        assert await eventually(all_nominated)
        for name in lows:
            await here.delete(name)
        for number in range(6):
            await here.runs(f"high-{number}")
        assert await eventually(lambda: here.placed("medium-", 4))
        waiting = [each["metadata"]["name"] for each in await here.pods("medium-") if "nodeName" not in each["spec"]]
        for name in waiting:
            await here.unschedulable(name, "2 Insufficient")
        assert await here.placed("medium-", 4)


async def test_preemption_adds_the_disruption_condition_to_the_preempted_pod(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as here:
        await here.priorities()
        await here.fake("node-1", 1)
        await here.run_pod("victim", 1, priorityClassName="low", finalizers=["example.com/e2e"])
        await here.make("preemptor", 1, priorityClassName="high")

        async def leaving() -> bool:
            return await here.is_preempted("victim")

        assert await eventually(leaving)
        conditions = (await here.get("victim"))["status"]["conditions"]
        found = next(each for each in conditions if each["type"] == "DisruptionTarget")
        assert (found["status"], found["reason"]) == ("True", "PreemptionByScheduler")
        assert found["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
        await here.client.patch(POD, "default", "victim", {"metadata": {"finalizers": None}})
        assert await here.runs("preemptor") == "node-1"


async def test_preemption_for_topology_spread_removes_the_proper_pod(tmp_path: Path) -> None:
    async with cluster(tmp_path) as here:
        await here.priorities()
        for name in ("node-1", "node-2"):
            await here.label(name, pts=name)
            await here.fake(name, 10)
        labels = {"pts-preemption": ""}
        affinity = matching("pts", "node-1", "node-2")
        high = await here.run_pod("high", 9, labels=labels, priorityClassName="high", affinity=affinity)
        for number in range(3):
            await here.run_pod(f"low-{number}", 3, labels=labels, priorityClassName="low", affinity=affinity)
        constraints = spread("pts", "pts-preemption")
        medium = await here.run_pod(
            "medium", 3, labels=labels, priorityClassName="medium", affinity=affinity,
            topologySpreadConstraints=constraints,
        )  # fmt: skip
        assert medium != high
        assert not await here.is_preempted("high")
        assert len(await here.pods("low-")) == 1


async def test_preemption_of_the_pods_of_replica_sets_takes_no_more_than_it_must(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as here:
        await here.priorities(p1=1, p2=2, p3=3, p4=4)
        await here.fake("node-1", 1000)
        for prefix, amount in (("pod1", 200), ("pod2", 300), ("pod3", 450)):
            requests = {FAKE: str(amount)}
            resources = {"requests": requests, "limits": requests}
            priority = {"priorityClassName": prefix.replace("pod", "p"), "nodeSelector": {HOST: "node-1"}}
            await here.replicas(prefix, 1, {"name": prefix}, resources=resources, **priority)
        assert await eventually(lambda: here.placed("pod", 3))
        before = {each["metadata"]["uid"]: each for each in await here.pods()}
        assert await here.run_pod("pod4", 500, priorityClassName="p4", nodeSelector={HOST: "node-1"}) == "node-1"

        async def replaced() -> bool:
            after = await here.pods()
            new = sorted(each["metadata"]["name"][:4] for each in after if each["metadata"]["uid"] not in before)
            return new == ["pod1", "pod2", "pod4"]

        assert await eventually(replaced)
        for each in await here.pods():
            if each["metadata"]["name"][:4] in ("pod1", "pod2"):
                await here.unschedulable(each["metadata"]["name"], "Insufficient")
        assert await replaced()


async def test_preemption_spares_pods_whose_disruption_budget_would_break(tmp_path: Path) -> None:
    async with cluster(tmp_path) as here:
        await here.priorities()
        for name in ("node-1", "node-2"):
            await here.fake(name, 1)
        await here.run_pod("guarded", 1, labels={"app": "guarded"}, priorityClassName="low", affinity=only("node-1"))
        await here.run_pod("plain", 1, priorityClassName="medium", affinity=only("node-2"))
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "guard"}, "spec": spec}
        await create(here.client, budget)

        async def known() -> bool:
            found = await read(here.client, "PodDisruptionBudget", "guard", api_version="policy/v1")
            return bool(found.get("status", {}).get("currentHealthy") == 1)

        assert await eventually(known)
        assert await here.run_pod("urgent", 1, priorityClassName="high") == "node-2"
        assert not await here.is_preempted("guarded")
        assert await here.run_pod("more-urgent", 1, priorityClassName="high") == "node-1"


async def test_preemption_ends_the_nomination_of_a_pod_of_lower_priority(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as here:
        await here.priorities()
        await here.fake("node-1", 1)
        await here.run_pod("low", 1, priorityClassName="low", terminationGracePeriodSeconds=80)
        await here.make("medium", 1, priorityClassName="medium")

        async def nominated(name: str) -> bool:
            return bool((await here.get(name))["status"].get("nominatedNodeName"))

        assert await eventually(lambda: nominated("medium"))
        await here.make("high", 1, priorityClassName="high")
        assert await eventually(lambda: nominated("high"))

        async def withdrawn() -> bool:
            return not await nominated("medium")

        assert await eventually(withdrawn)
        await here.delete("low")
        assert await here.runs("high") == "node-1"
        assert "Insufficient" in await here.unschedulable("medium")
        assert not await nominated("medium")


async def test_preemption_removes_nobody_for_a_pod_whose_policy_is_never(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as here:
        await here.priorities()
        await here.fake("node-1", 1)
        await here.run_pod("low", 1, priorityClassName="low")
        await here.make("polite", 1, priorityClassName="high", preemptionPolicy="Never")
        assert "not eligible due to preemptionPolicy=Never." in await here.unschedulable("polite")
        assert not await here.is_preempted("low")
        await here.delete("low")
        assert await here.runs("polite") == "node-1"


async def test_preemption_priority_class_endpoints(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        here = Cluster(server, ALL_ON, Configuration())
        await here.priorities(p1=1, p2=2)
        row = kinds.row("scheduling.k8s.io/v1", "PriorityClass")
        names = {each["metadata"]["name"] for each in await read_all(here.client, "PriorityClass", "", row.api_version)}
        assert {"p1", "p2", "system-node-critical", "system-cluster-critical"} <= names
        await here.client.patch(row, "", "p1", {"description": "first"}, form=STRATEGIC)
        for change in ({"value": 3}, {"preemptionPolicy": "Never"}):
            with pytest.raises((Invalid, Forbidden)):
                await here.client.patch(row, "", "p1", change)
        found = await read(here.client, "PriorityClass", "p1", api_version=row.api_version)
        assert (found["value"], found["description"]) == (1, "first")
        await asyncio.gather(*(here.client.delete(row, "", name) for name in ("p1", "p2")))
