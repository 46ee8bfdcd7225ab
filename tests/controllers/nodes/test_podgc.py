"""Pods that nobody else would end are collected."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from moorage.api.wellknown import TAINT_OUT_OF_SERVICE
from moorage.client import Client
from moorage.controllers.nodes.podgc import PodGC
from tests.controllers.nodes.evicting import (
    NODE,
    POD,
    clock_of_today,
    condition,
    evicted,
    patch_status,
    ready_node,
    resident,
    running,
    set_taints,
    stay,
)
from tests.controllers.waiting import eventually, read, read_all
from tests.plane import api_server, create, pod


async def gone(client: Client, name: str) -> None:
    """Wait until a pod is no more."""

    async def missing() -> bool:
        return name not in {each["metadata"]["name"] for each in await read_all(client, "Pod")}

    await eventually(missing)


async def test_pods_of_a_node_that_vanished_are_collected_after_a_while(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, PodGC) as controllers:
        client = server.client("test")
        await ready_node(client, "a")
        await ready_node(client, "b")
        await resident(client, "orphan", "a", terminationGracePeriodSeconds=30)
        await resident(client, "other", "b")
        await client.delete(NODE, "", "a")
        nodes = controllers.context.informers.kind(NODE)

        async def vanished() -> bool:
            return nodes.get("", "a") is None

        await eventually(vanished)
        clock.advance(39)
        await stay(client, "orphan")
        clock.advance(2)
        await gone(client, "orphan")
        await stay(client, "other")
        count = controllers.context.registry.get_sample_value(
            "pod_gc_collector_force_delete_pods_total", {"namespace": "default", "reason": "orphaned"}
        )
        assert count == 1


async def test_a_node_that_came_back_is_given_its_whole_time_when_it_vanishes_again(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, PodGC) as controllers:
        client = server.client("test")
        nodes = controllers.context.informers.kind(NODE)

        async def is_there(there: bool) -> bool:
            return (nodes.get("", "a") is not None) is there

        await ready_node(client, "a")
        await resident(client, "orphan", "a")
        await client.delete(NODE, "", "a")
        await eventually(partial(is_there, False))
        clock.advance(30)
        await ready_node(client, "a")
        await eventually(partial(is_there, True))
        await client.delete(NODE, "", "a")
        await eventually(partial(is_there, False))
        clock.advance(30)
        await stay(client, "orphan")
        clock.advance(11)
        await gone(client, "orphan")


async def test_orphans_fail_with_a_word_about_why(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server:
        client = server.client("test")
        manifest = pod("orphan", nodeName="never-there")
        manifest["metadata"]["finalizers"] = ["example.com/wait"]
        await create(client, manifest)
        async with running(server, clock, PodGC):
            clock.advance(41)
            await evicted(client, "orphan")
            orphan = await read(client, "Pod", "orphan")
            assert orphan["status"]["phase"] == "Failed"
            assert condition(orphan, "DisruptionTarget")["message"] == "PodGC: node no longer exists"
            assert condition(orphan, "DisruptionTarget")["reason"] == "DeletionByPodGC"


async def test_a_node_that_comes_back_in_time_keeps_its_pods(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, PodGC):
        client = server.client("test")
        await resident(client, "early", "a")
        await resident(client, "orphan", "never-there")
        await ready_node(client, "a")
        clock.advance(41)
        await gone(client, "orphan")
        await stay(client, "early")


async def test_the_oldest_pods_that_ended_are_collected_beyond_the_threshold(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, partial(PodGC, ended_kept=3)):
        client = server.client("test")
        await ready_node(client, "a")
        for number in range(5):
            await resident(client, f"done-{number}", "a")
            reason = {"reason": "Evicted"} if number == 4 else {}
            await patch_status(client, "Pod", f"done-{number}", phase="Failed", **reason)
        await resident(client, "runs", "a")

        async def collected() -> bool:
            clock.advance(20)
            return len(await read_all(client, "Pod")) == 4

        await eventually(collected)
        names = {each["metadata"]["name"] for each in await read_all(client, "Pod")}
        assert "runs" in names
        assert "done-4" not in names


async def test_a_pod_that_ends_without_ever_having_had_a_node_is_marked_failed_once(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, PodGC):
        client = server.client("test")
        manifest = pod("pending")
        manifest["metadata"]["finalizers"] = ["example.com/wait"]
        await create(client, manifest)
        await client.delete(POD, "default", "pending")

        async def failed() -> bool:
            pending = await read(client, "Pod", "pending")
            return bool(pending["status"]["phase"] == "Failed")

        await eventually(failed)
        await client.patch(POD, "default", "pending", {"metadata": {"finalizers": None}})
        await gone(client, "pending")


async def test_pods_that_end_on_a_node_out_of_service_are_not_waited_for(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, PodGC):
        client = server.client("test")
        await ready_node(client, "a")
        for name in ("ending", "staying"):
            await resident(client, name, "a", terminationGracePeriodSeconds=30)
        await client.delete(POD, "default", "ending")
        await patch_status(client, "Node", "a", conditions=[{"type": "Ready", "status": "Unknown"}])
        await set_taints(client, "a", {"key": TAINT_OUT_OF_SERVICE, "effect": "NoExecute"})
        await gone(client, "ending")
        await stay(client, "staying")
