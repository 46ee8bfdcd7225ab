"""Pods are placed, or wait and say why, and are tried again when something that matters changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moorage.api import kinds
from moorage.client import Client, Unavailable
from moorage.client.clock import FastClock
from moorage.features import ALL_ON, NONE_ON
from moorage.scheduler.plugins.defaultbinder import DefaultBinder
from tests.plane import create, eventually
from tests.scheduler.stage import NODE, POD, stage

GPU = {"key": "gpu", "value": "true", "effect": "NoSchedule"}


async def test_a_pod_goes_to_the_node_with_most_room(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("small", cpu="1")
        await here.node("large", cpu="64", memory="256Gi")
        await here.pod("web", requests={"cpu": "500m", "memory": "1Gi"})
        assert await here.node_of("web") == "large"

        async def told() -> bool:
            return any(each["reason"] == "Scheduled" for each in await here.events("web"))

        assert await eventually(told)


async def test_a_pod_that_fits_nowhere_says_why_in_its_status_and_in_one_event(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("tainted", taints=[GPU])
        await here.node("full", cpu="1")
        await here.node("cordoned")
        await here.client.patch(NODE, "", "cordoned", {"spec": {"unschedulable": True}})
        await here.pod("big", requests={"cpu": "2"})
        why = await here.unschedulable("big", "unschedulable")
        assert why == (
            "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), "
            "1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: "
            "3 Preemption is not helpful for scheduling. Why: taint gpu=true: no toleration for this key on 1 node."
        )

        async def told() -> bool:
            return any(
                each["message"] == why and each["reason"] == "FailedScheduling" for each in await here.events("big")
            )

        assert await eventually(told)


async def test_what_is_said_of_a_pod_that_still_fits_nowhere_follows_its_nodes(tmp_path: Path) -> None:
    clock = FastClock()
    async with stage(tmp_path, clock=clock) as here:
        await here.node("only", taints=[GPU], cpu="1")
        await here.pod("big", requests={"cpu": "2"})
        await here.unschedulable("big", "untolerated taint(s)")
        await here.taint("only")

        async def is_seen() -> bool:
            return bool(here.scheduler.waking.outdated)

        await eventually(is_seen)
        await clock.run_fast(45)
        assert "1 Insufficient cpu" in await here.unschedulable("big", "Insufficient")


async def test_removing_the_taint_places_the_pod_at_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("only", taints=[GPU])
        await here.pod("web")
        await here.unschedulable("web", "untolerated taint(s)")
        await here.taint("only")
        assert await here.node_of("web") == "only"


async def test_a_change_that_cannot_help_a_pod_does_not_wake_it(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("only", taints=[GPU])
        await here.pod("web")
        await here.unschedulable("web")
        entry = next(iter(here.scheduler.queue.pods.values()))
        attempts = entry.attempts
        await here.client.patch(NODE, "", "only", {"metadata": {"labels": {"colour": "blue"}}})
        await here.node("another", taints=[GPU])
        await here.pod("other", tolerations=[{"key": "gpu", "operator": "Exists"}])
        await here.node_of("other")
        assert entry.attempts == attempts
        assert entry.place == "unschedulable"


async def test_a_pod_that_leaves_makes_room_for_one_that_waits(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("only", cpu="1")
        await here.pod("first", requests={"cpu": "800m"})
        await here.node_of("first")
        await here.pod("second", requests={"cpu": "800m"})
        await here.unschedulable("second", "Insufficient cpu")
        await here.delete("first")
        assert await here.node_of("second") == "only"


async def test_a_toleration_that_is_added_is_enough(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("only", taints=[GPU])
        await here.pod("web")
        await here.unschedulable("web")
        tolerations = (await here.get("web"))["spec"]["tolerations"]
        patch = {"spec": {"tolerations": [*tolerations, {"key": "gpu", "operator": "Exists"}]}}
        await here.client.patch(POD, "default", "web", patch)
        assert await here.node_of("web") == "only"


async def test_a_gated_pod_waits_for_its_gates(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("only")
        await here.pod("held", schedulingGates=[{"name": "example.com/quota"}])
        await here.pod("free")
        await here.node_of("free")
        assert here.scheduler.queue.counts()["gated"] == 1
        await here.client.patch(POD, "default", "held", {"spec": {"schedulingGates": None}})
        assert await here.node_of("held") == "only"


async def test_pods_of_other_schedulers_are_left_alone_but_counted(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("only", cpu="1")
        other = await here.pod("other", schedulerName="mine", requests={"cpu": "800m"})
        await here.client.bind("default", "other", other["metadata"]["uid"], "only")
        await here.pod("web", requests={"cpu": "800m"})
        assert "Insufficient cpu" in await here.unschedulable("web")


async def test_a_pod_of_higher_priority_takes_the_place_of_a_lower_one(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        metadata = {"name": "high"}
        await create(
            here.client,
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": 1000},
        )
        await here.node("only", cpu="1")
        await here.pod("low", requests={"cpu": "800m"})
        await here.node_of("low")
        await here.pod("urgent", requests={"cpu": "800m"}, priorityClassName="high")

        async def leaving() -> bool:
            found = await here.get("low")
            conditions = {each["type"]: each.get("reason") for each in found["status"]["conditions"]}
            return (
                conditions.get("DisruptionTarget") == "PreemptionByScheduler"
                and "deletionTimestamp" in found["metadata"]
            )

        assert await eventually(leaving)
        assert (await here.get("urgent"))["status"]["nominatedNodeName"] == "only"
        await here.delete("low")
        assert await here.node_of("urgent") == "only"


async def test_a_nomination_keeps_others_from_taking_the_room(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await create(
            here.client,
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high"},
                "value": 1000,
            },
        )
        await here.node("only", cpu="1")
        await here.pod("low", requests={"cpu": "800m"})
        await here.node_of("low")
        await here.pod("urgent", requests={"cpu": "800m"}, priorityClassName="high")

        async def nominated() -> bool:
            return bool((await here.get("urgent"))["status"].get("nominatedNodeName") == "only")

        assert await eventually(nominated)
        await here.pod("sneaky", requests={"cpu": "250m"})
        await here.unschedulable("sneaky", "Insufficient cpu")
        await here.delete("low")
        assert await here.node_of("urgent") == "only"
        await here.pod("modest", requests={"cpu": "100m"})
        assert await here.node_of("modest") == "only"
        await here.pod("greedy", requests={"cpu": "200m"})
        await here.unschedulable("greedy", "Insufficient cpu")


async def test_a_binding_whose_answer_is_lost_is_not_made_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage(tmp_path) as here:
        await here.node("only")
        asked: list[str] = []
        whole = Client.bind

        async def lossy(client: Client, namespace: str, name: str, uid: str, node: str) -> None:
            asked.append(name)
            await whole(client, namespace, name, uid, node)
            if len(asked) == 1:
                raise Unavailable(503, "", "the answer was lost")

        monkeypatch.setattr(Client, "bind", lossy)
        await here.pod("web")
        assert await here.node_of("web") == "only"
        await here.pod("next")
        assert await here.node_of("next") == "only"
        assert asked == ["web", "next"]
        assert here.scheduler.table.requested[3].sum() == 2


async def test_a_binding_that_fails_gives_the_room_back_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage(tmp_path) as here:
        await here.node("only", cpu="1")
        whole = DefaultBinder.bind
        failed: list[str] = []

        async def sometimes(self: DefaultBinder, cycle: object, node: str) -> None:
            if not failed:
                failed.append(node)
                await self.handle.client.get(kinds.row("v1", "ConfigMap"), "default", "not-there")
            await whole(self, cycle, node)  # type: ignore[arg-type]

        monkeypatch.setattr(DefaultBinder, "bind", sometimes)
        await here.pod("web", requests={"cpu": "900m"})
        assert await here.node_of("web") == "only"
        assert failed == ["only"]


async def test_two_schedulers_never_bind_a_pod_twice(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        for number in range(5):
            await here.node(f"node-{number}", cpu="4")
        from moorage.scheduler.config import Configuration
        from moorage.scheduler.scheduler import Scheduler

        second = Scheduler(here.server.client("second"), ALL_ON, Configuration(), seed=1)
        task = asyncio.create_task(second.run())
        await asyncio.gather(*(here.pod(f"pod-{number}", requests={"cpu": "500m"}) for number in range(30)))
        for number in range(30):
            await here.node_of(f"pod-{number}")

        async def settled() -> bool:
            tables = [each.table for each in (here.scheduler, second)]
            return all(table.requested[3].sum() == 30 and table.requested[0].sum() == 15_000 for table in tables)

        assert await eventually(settled)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_scheduler_that_starts_anew_counts_what_is_there(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.node("only", cpu="1")
        await here.pod("first", requests={"cpu": "800m"})
        await here.node_of("first")
        await here.restart()
        await here.pod("second", requests={"cpu": "800m"})
        assert "Insufficient cpu" in await here.unschedulable("second")


async def test_a_pod_with_a_gated_toleration_waits_while_the_gate_is_off(tmp_path: Path) -> None:
    async with stage(tmp_path, NONE_ON) as here:
        await here.node("good", taints=[{"key": "sla", "value": "990", "effect": "NoSchedule"}])
        await here.pod("web", tolerations=[{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}])
        assert (
            "`Gt` needs the feature gate TaintTolerationComparisonOperators, which is off"
            in await here.unschedulable("web")
        )
        await here.restart(ALL_ON)
        assert await here.node_of("web") == "good"
