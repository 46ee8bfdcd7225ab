from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from moorage.api.meta import Data
from moorage.client import Client
from moorage.client.clock import ManualClock
from moorage.componentmetrics import git_version
from moorage.controllers.hollow import HollowNodes, ensure_nodes
from tests.controllers.small_cluster import becomes, change, cluster, gone, remove
from tests.controllers.waiting import eventually, read, read_all
from tests.plane import create, node, pod

LEASES = {"api_version": "coordination.k8s.io/v1", "namespace": "kube-node-lease"}


def bare(name: str, **annotations: str) -> Data:
    prefixed = {f"moorage.dev/{key}": value for key, value in annotations.items()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": prefixed}}


def conditions(data: Data) -> dict[str, str]:
    return {each["type"]: each["status"] for each in data.get("status", {}).get("conditions") or ()}


def is_ready(data: Data) -> bool:
    return conditions(data).get("Ready") == "True"


async def test_up_makes_the_nodes_that_are_asked_for_and_leaves_those_that_exist(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, node("node-2", {"mine": "yes"}, cpu="2"))
        await ensure_nodes(client, 3)
        await ensure_nodes(client, 3)
        assert [each["metadata"]["name"] for each in await read_all(client, "Node")] == ["node-1", "node-2", "node-3"]

        ready = await becomes(client, "Node", "node-1", is_ready)
        assert ready["status"]["capacity"] == ready["status"]["allocatable"]
        assert ready["status"]["capacity"]["cpu"] == "16"
        assert ready["status"]["capacity"]["pods"] == "110"
        labels = ready["metadata"]["labels"]
        assert labels["kubernetes.io/hostname"] == "node-1"
        assert labels["topology.kubernetes.io/zone"] == "local-a"
        assert conditions(ready) == {
            "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True",
        }  # fmt: skip
        assert ready["status"]["nodeInfo"]["kubeletVersion"] == git_version()
        assert {each["type"] for each in ready["status"]["addresses"]} == {"InternalIP", "Hostname"}

        own = await becomes(client, "Node", "node-2", lambda data: "nodeInfo" in data["status"])
        assert own["status"]["capacity"]["cpu"] == "2"
        assert own["metadata"]["labels"]["mine"] == "yes"


async def test_any_node_that_is_applied_comes_alive_and_keeps_what_it_says(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        manifest = bare("gpu-1")
        manifest["status"] = {"capacity": {"nvidia.com/gpu": "8", "cpu": "64"}, "allocatable": {"cpu": "60"}}
        await create(client, manifest)
        ready = await becomes(client, "Node", "gpu-1", is_ready)
        assert ready["status"]["capacity"]["cpu"] == "64"
        assert ready["status"]["allocatable"]["cpu"] == "60"
        assert ready["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert ready["status"]["allocatable"]["memory"] == "64Gi"
        assert ready["metadata"]["labels"]["kubernetes.io/os"] == "linux"
        lease = await becomes(client, "Lease", "gpu-1", lambda _: True, **LEASES)
        assert lease["spec"]["holderIdentity"] == "gpu-1"
        assert lease["metadata"]["ownerReferences"][0]["uid"] == ready["metadata"]["uid"]


async def test_each_node_has_an_address_of_its_own(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await ensure_nodes(client, 40)

        async def addresses() -> set[str]:
            nodes = await read_all(client, "Node")
            assert all("addresses" in each.get("status", {}) for each in nodes)
            return {each["status"]["addresses"][0]["address"] for each in nodes}

        assert len(await eventually(addresses)) == 40


async def test_leases_are_renewed_before_a_node_counts_as_lost(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    async with cluster(tmp_path, HollowNodes, clock=clock) as client:
        await ensure_nodes(client, 3)

        async def oldest() -> datetime | None:
            leases = await read_all(client, "Lease", "kube-node-lease", LEASES["api_version"])
            if len(leases) < 3:
                return None
            return min(datetime.fromisoformat(each["spec"]["renewTime"]) for each in leases)

        assert await eventually(oldest) == datetime(2026, 1, 1, tzinfo=UTC)

        async def renewed() -> bool:
            clock.advance(1)
            renewal = await oldest()
            assert renewal is not None
            assert clock.now() - renewal < timedelta(seconds=40)
            return renewal > datetime(2026, 1, 1, tzinfo=UTC)

        await eventually(renewed)


async def test_a_node_with_a_real_kubelet_is_left_alone(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, bare("real", hollow="false"))
        await create(client, pod("theirs", nodeName="real"))
        await create(client, bare("hollow"))
        await create(client, pod("ours", nodeName="hollow"))
        await becomes(client, "Pod", "ours", lambda data: data["status"]["phase"] == "Running")
        assert conditions(await read(client, "Node", "real")) == {}
        assert (await read(client, "Pod", "theirs"))["status"]["phase"] == "Pending"
        leases = await read_all(client, "Lease", "kube-node-lease", LEASES["api_version"])
        assert [each["metadata"]["name"] for each in leases] == ["hollow"]


async def freeze(client: Client, name: str, value: str | None) -> None:
    await change(client, "Node", name, {"metadata": {"annotations": {"moorage.dev/frozen": value}}})


async def test_a_frozen_node_falls_silent_and_wakes_up_again(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    async with cluster(tmp_path, HollowNodes, clock=clock) as client:
        await ensure_nodes(client, 2)
        for name in ("node-1", "node-2"):
            await becomes(client, "Node", name, is_ready)
        await freeze(client, "node-1", "true")
        await create(client, pod("waits", nodeName="node-1"))
        await create(client, pod("runs", nodeName="node-2"))
        await becomes(client, "Pod", "runs", lambda data: data["status"]["phase"] == "Running")

        async def other_is_renewed() -> bool:
            clock.advance(10)
            lease = await read(client, "Lease", "node-2", **LEASES)
            return bool(lease["spec"]["renewTime"] > "2026-01-01T00:01")

        await eventually(other_is_renewed)
        assert (await read(client, "Lease", "node-1", **LEASES))["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"
        assert (await read(client, "Pod", "waits"))["status"]["phase"] == "Pending"

        lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        await change(client, "Node", "node-1", {"status": {"conditions": [lost]}}, subresource="status")
        await freeze(client, "node-1", None)
        await becomes(client, "Node", "node-1", is_ready)
        await becomes(client, "Pod", "waits", lambda data: data["status"]["phase"] == "Running")
        lease = await read(client, "Lease", "node-1", **LEASES)
        assert lease["spec"]["renewTime"] > "2026-01-01T00:01"


async def test_pressure_set_by_hand_stays_and_what_others_say_is_kept(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await ensure_nodes(client, 1)
        ready = await becomes(client, "Node", "node-1", is_ready)
        others = [each for each in ready["status"]["conditions"] if each["type"] not in ("MemoryPressure", "Ready")]
        others.append({"type": "MemoryPressure", "status": "True"})
        others.append({"type": "KernelDeadlock", "status": "False"})
        others.append({"type": "Ready", "status": "Unknown"})
        await change(client, "Node", "node-1", {"status": {"conditions": others}}, subresource="status")
        healed = await becomes(client, "Node", "node-1", is_ready)
        assert conditions(healed)["MemoryPressure"] == "True"
        assert conditions(healed)["KernelDeadlock"] == "False"


async def test_what_is_taken_out_of_the_capacity_is_no_longer_offered(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await ensure_nodes(client, 1)
        await becomes(client, "Node", "node-1", is_ready)
        for amount in ("4", None, "5"):
            patch = {"status": {"capacity": {"example.com/dongle": amount}}}
            await change(client, "Node", "node-1", patch, subresource="status")
            changed = await becomes(client, "Node", "node-1", offers(amount))
            assert changed["status"]["capacity"].get("example.com/dongle") == amount
            assert changed["status"]["allocatable"]["cpu"] == "16"


def offers(amount: str | None) -> Callable[[Data], bool]:
    return lambda data: data["status"]["allocatable"].get("example.com/dongle") == amount


async def test_a_node_of_the_same_name_is_another_node(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await ensure_nodes(client, 1)
        await becomes(client, "Node", "node-1", is_ready)
        await remove(client, "Node", "node-1")
        await gone(client, "Node", "node-1")
        await ensure_nodes(client, 1)
        ready = await becomes(client, "Node", "node-1", is_ready)

        async def owned() -> bool:
            lease = await read(client, "Lease", "node-1", **LEASES)
            return bool(lease["metadata"]["ownerReferences"][0]["uid"] == ready["metadata"]["uid"])

        await eventually(owned)


async def test_a_node_that_is_up_is_not_written_again(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await ensure_nodes(client, 1)
        await becomes(client, "Node", "node-1", is_ready)
        await change(client, "Node", "node-1", {"metadata": {"labels": {"a": "b"}}})
        before = await read(client, "Node", "node-1")
        await create(client, pod("after", nodeName="node-1"))
        await becomes(client, "Pod", "after", lambda data: data["status"]["phase"] == "Running")
        assert await read(client, "Node", "node-1") == before


async def test_a_node_says_when_it_becomes_ready_or_not_and_when_it_is_cordoned(tmp_path: Path) -> None:
    async with cluster(tmp_path, HollowNodes) as client:
        await create(client, bare("node-1"))
        made = await becomes(client, "Node", "node-1", is_ready)
        others = [each for each in made["status"]["conditions"] if each["type"] != "Ready"]
        for status in ("False", "True"):
            ready = {"type": "Ready", "status": status}
            await change(client, "Node", "node-1", {"status": {"conditions": [*others, ready]}}, subresource="status")
        for unschedulable in (True, None):
            await change(client, "Node", "node-1", {"spec": {"unschedulable": unschedulable}})

        async def events_are_right() -> bool:
            events = [each for each in await read_all(client, "Event") if each["involvedObject"]["kind"] == "Node"]
            return {each["message"]: each["count"] for each in events} == {
                "Node node-1 status is now: NodeReady": 2,
                "Node node-1 status is now: NodeNotReady": 1,
                "Node node-1 status is now: NodeNotSchedulable": 1,
                "Node node-1 status is now: NodeSchedulable": 1,
            }

        await eventually(events_are_right)
        source = {"component": "kubelet", "host": "node-1"}
        assert all(each["source"] == source for each in await read_all(client, "Event"))
