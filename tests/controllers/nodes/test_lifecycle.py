"""Node lifecycle: what nodes report and what they do not report any more becomes taints."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from moorage.api import kinds
from moorage.api.meta import ObjectMeta
from moorage.api.node import Node
from moorage.api.wellknown import LABEL_EXCLUDE_DISRUPTION, LABEL_ZONE
from moorage.client import Client
from moorage.client.client import STRATEGIC
from moorage.client.clock import ManualClock, timestamp
from moorage.controllers.nodes.heartbeats import Heartbeats
from moorage.controllers.nodes.lifecycle import NodeLifecycle
from moorage.controllers.nodes.tainteviction import TaintEviction
from moorage.controllers.nodes.zones import Zones
from tests.controllers.nodes.evicting import (
    NODE,
    clock_of_today,
    condition,
    evicted,
    patch_status,
    recorded,
    resident,
    running,
    set_taints,
    stay,
    taints_of,
)
from tests.controllers.waiting import eventually, read, read_all
from tests.plane import api_server, create, node

LEASE = kinds.row("coordination.k8s.io/v1", "Lease")


async def has_taints(client: Client, name: str, *taints: str) -> None:
    """Wait until a node has these taints and no others."""

    async def has() -> bool:
        assert taints_of(await read(client, "Node", name)) == set(taints)
        return True

    await eventually(has)


async def report(client: Client, clock: ManualClock, name: str, type_: str = "Ready", status: str = "True") -> None:
    """What a kubelet says."""
    now = timestamp(clock.now())
    reported = {"type": type_, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now}
    patch = {"status": {"conditions": [reported]}}
    await client.patch(NODE, "", name, patch, subresource="status", form=STRATEGIC)


async def renew(client: Client, clock: ManualClock, name: str, *, first: bool = False, seconds: int = 40) -> None:
    """A lease that a kubelet holds."""
    spec = {"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": timestamp(clock.now(), micro=True)}
    if first:
        await client.create(LEASE, {"metadata": {"name": name}, "spec": spec}, "kube-node-lease")
    else:
        await client.patch(LEASE, "kube-node-lease", name, {"spec": spec})


async def test_a_ready_node_loses_the_taint_that_new_nodes_have(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, NodeLifecycle):
        client = server.client("test")
        created = await create(client, node("a", taints=[{"key": "mine", "effect": "NoSchedule"}]))
        assert taints_of(created) == {"mine:NoSchedule", "not-ready:NoSchedule"}
        await has_taints(client, "a", "mine:NoSchedule")


async def test_a_node_that_has_not_said_anything_gets_no_pods(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, NodeLifecycle):
        client = server.client("test")
        manifest = node("a")
        del manifest["status"]
        await create(client, manifest)
        await create(client, node("b"))
        await has_taints(client, "b")
        await has_taints(client, "a", "not-ready:NoSchedule")
        await report(client, clock, "a")
        await has_taints(client, "a")
        assert "taints" not in (await read(client, "Node", "a"))["spec"]


@pytest.mark.parametrize(
    ("type_", "taint"),
    [
        ("MemoryPressure", "memory-pressure"), ("DiskPressure", "disk-pressure"), ("PIDPressure", "pid-pressure"),
        ("NetworkUnavailable", "network-unavailable"),
    ],
)  # fmt: skip
async def test_pressure_keeps_pods_away_while_it_lasts(tmp_path: Path, type_: str, taint: str) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, NodeLifecycle):
        client = server.client("test")
        await create(client, node("a"))
        await report(client, clock, "a", type_)
        await has_taints(client, "a", f"{taint}:NoSchedule")
        await report(client, clock, "a", type_, "False")
        await has_taints(client, "a")


async def test_cordon_is_a_taint_too(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, NodeLifecycle):
        client = server.client("test")
        await create(client, node("a"))
        await client.patch(NODE, "", "a", {"spec": {"unschedulable": True}})
        await has_taints(client, "a", "unschedulable:NoSchedule")
        await client.patch(NODE, "", "a", {"spec": {"unschedulable": None}})
        await has_taints(client, "a")


async def test_a_node_that_is_not_ready_is_emptied_and_taken_back_when_it_is(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, NodeLifecycle):
        client = server.client("test")
        for name in ("a", "b"):
            await create(client, node(name))
            await has_taints(client, name)
        await report(client, clock, "a", status="False")
        await has_taints(client, "a", "not-ready:NoSchedule")
        clock.advance(5)
        await has_taints(client, "a", "not-ready:NoSchedule", "not-ready:NoExecute")
        added = {each["effect"]: each["timeAdded"] for each in (await read(client, "Node", "a"))["spec"]["taints"]}
        assert added["NoExecute"] == timestamp(clock.now())
        await report(client, clock, "a", status="Unknown")
        await has_taints(client, "a", "unreachable:NoSchedule", "unreachable:NoExecute")
        await report(client, clock, "a")
        await has_taints(client, "a")


async def test_a_silent_node_becomes_unknown_and_its_pods_are_not_ready(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, NodeLifecycle):
        client = server.client("test")
        for name in ("a", "b"):
            await create(client, node(name))
            await renew(client, clock, name, first=True)
            await has_taints(client, name)
        await resident(client, "web", "a")
        await patch_status(client, "Pod", "web", phase="Running", conditions=[{"type": "Ready", "status": "True"}])
        clock.advance(30)
        await report(client, clock, "b", "DiskPressure")
        await renew(client, clock, "b")
        await has_taints(client, "b", "disk-pressure:NoSchedule")
        clock.advance(25)
        await has_taints(client, "a", "unreachable:NoSchedule")
        silent = await read(client, "Node", "a")
        assert condition(silent, "Ready")["status"] == "Unknown"
        assert condition(silent, "Ready")["reason"] == "NodeStatusUnknown"
        assert condition(silent, "Ready")["message"] == "Kubelet stopped posting node status."
        assert condition(silent, "DiskPressure")["reason"] == "NodeStatusNeverUpdated"
        await recorded(client, "a", "Node a status is now: NodeNotReady")
        await recorded(client, "web", "Node is not ready")
        assert condition(await read(client, "Pod", "web"), "Ready")["status"] == "False"
        clock.advance(6)
        await has_taints(client, "a", "unreachable:NoSchedule", "unreachable:NoExecute")
        await has_taints(client, "b", "disk-pressure:NoSchedule")
        await report(client, clock, "a")
        await has_taints(client, "a")


async def test_a_lease_alone_keeps_a_node_alive(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, NodeLifecycle) as controllers:
        client = server.client("test")
        await create(client, node("a"))
        await has_taints(client, "a")
        await renew(client, clock, "a", first=True)
        leases = controllers.context.informers.kind(LEASE)
        for _ in range(5):
            clock.advance(30)
            await renew(client, clock, "a")
            revision = (await read(client, "Lease", "a", "kube-node-lease", LEASE.api_version))["metadata"]
            await leases.caught_up(revision["resourceVersion"])
        assert condition(await read(client, "Node", "a"), "Ready")["status"] == "True"
        clock.advance(51)
        await has_taints(client, "a", "unreachable:NoSchedule")


async def test_a_node_is_not_lost_before_its_lease_has_run_out(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, NodeLifecycle) as controllers:
        client = server.client("test")
        await create(client, node("a"))
        await has_taints(client, "a")
        await renew(client, clock, "a", first=True, seconds=400)
        renewed = await read(client, "Lease", "a", "kube-node-lease", LEASE.api_version)
        await controllers.context.informers.kind(LEASE).caught_up(renewed["metadata"]["resourceVersion"])
        for seconds in (200, 200):
            clock.advance(seconds)
            await report(client, clock, "a", "DiskPressure")
            await has_taints(client, "a", "disk-pressure:NoSchedule")
            await report(client, clock, "a", "DiskPressure", "False")
            await has_taints(client, "a")
        clock.advance(12)
        await has_taints(client, "a", "unreachable:NoSchedule")


async def test_no_lease_keeps_a_silent_node_for_longer_than_an_hour(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, NodeLifecycle) as controllers:
        client = server.client("test")
        await create(client, node("a"))
        await has_taints(client, "a")
        await renew(client, clock, "a", first=True, seconds=2**31 - 1)
        renewed = await read(client, "Lease", "a", "kube-node-lease", LEASE.api_version)
        await controllers.context.informers.kind(LEASE).caught_up(renewed["metadata"]["resourceVersion"])
        clock.advance(3612)
        await has_taints(client, "a", "unreachable:NoSchedule")


async def test_a_node_made_by_hand_with_an_old_heartbeat_has_the_whole_grace_period(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server:
        client = server.client("test")
        await create(client, node("a"))
        await create(client, node("b"))
        async with running(server, clock, NodeLifecycle):
            await has_taints(client, "a")
            clock.advance(45)
            await report(client, clock, "b", "DiskPressure")
            await has_taints(client, "b", "disk-pressure:NoSchedule")
            await has_taints(client, "a")
            clock.advance(10)
            await has_taints(client, "a", "unreachable:NoSchedule")


async def test_when_no_node_is_ready_none_is_emptied(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, NodeLifecycle):
        client = server.client("test")
        for name in ("a", "b"):
            await create(client, node(name))
            await has_taints(client, name)
        await report(client, clock, "a", status="False")
        await has_taints(client, "a", "not-ready:NoSchedule")
        clock.advance(6)
        await has_taints(client, "a", "not-ready:NoSchedule", "not-ready:NoExecute")
        await report(client, clock, "b", status="False")
        await has_taints(client, "a", "not-ready:NoSchedule")
        clock.advance(20)
        await has_taints(client, "b", "not-ready:NoSchedule")


async def test_pods_leave_an_unreachable_node_when_their_300_seconds_are_over(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, NodeLifecycle, TaintEviction):
        client = server.client("test")
        for name in ("a", "b"):
            await create(client, node(name))
        await resident(client, "web", "a")
        clock.advance(40)
        await report(client, clock, "b", "DiskPressure")
        await report(client, clock, "b")
        await has_taints(client, "b", "disk-pressure:NoSchedule")
        clock.advance(20)
        await has_taints(client, "a", "unreachable:NoSchedule")
        await report(client, clock, "b")
        clock.advance(6)
        await has_taints(client, "a", "unreachable:NoSchedule", "unreachable:NoExecute")
        await resident(client, "impatient", "a", {"key": "nothing", "operator": "Exists"})
        await stay(client, "web")
        await set_taints(client, "b", {"key": "x", "effect": "NoExecute"})
        await resident(client, "other", "b")
        await evicted(client, "other")
        clock.advance(301)
        await evicted(client, "web")


def _nodes(number: int, zone: str = "z", **labels: str) -> list[Node]:
    return [
        Node(metadata=ObjectMeta(name=f"{zone}{index}", labels={LABEL_ZONE: zone, **labels})) for index in range(number)
    ]


class _Asked:
    """Zones, and the nodes that got leave."""

    def __init__(self) -> None:
        self.clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.allowed: list[str] = []
        self.turns: list[bool] = []
        self.zones = Zones(self.clock, CollectorRegistry(), self.allowed.append, self.turns.append)

    def see(self, ready: Iterable[Node] = (), failed: Iterable[Node] = ()) -> None:
        for each in ready:
            self.zones.see(each, ready=True)
        for each in failed:
            self.zones.see(each, ready=False)
            self.zones.ask(each)


def test_one_node_in_ten_seconds_is_emptied() -> None:
    asked, nodes = _Asked(), _nodes(10)
    asked.see(ready=nodes)
    asked.see(failed=nodes[:3])
    assert asked.allowed == []
    asked.clock.advance(5)
    assert asked.allowed == ["z0"]
    asked.clock.advance(9)
    assert asked.allowed == ["z0"]
    asked.clock.advance(1)
    assert asked.allowed == ["z0", "z1"]
    asked.zones.withdraw(nodes[2])
    asked.clock.advance(100)
    assert asked.allowed == ["z0", "z1"]


@pytest.mark.parametrize(("size", "allowed"), [(10, 0), (100, 2)])
def test_a_zone_that_fails_for_the_most_part_is_emptied_slowly_or_not_at_all(size: int, allowed: int) -> None:
    asked, nodes = _Asked(), _nodes(size)
    asked.see(ready=[*nodes, *_nodes(3, "other")])
    asked.see(failed=nodes[: size * 6 // 10])
    asked.clock.advance(105)
    assert len(asked.allowed) == allowed


def test_a_zone_without_any_ready_node_is_emptied_when_others_are_well() -> None:
    asked, nodes = _Asked(), _nodes(3)
    asked.see(ready=[*nodes, *_nodes(3, "other")])
    asked.see(failed=nodes)
    asked.clock.advance(30)
    assert asked.allowed == ["z0", "z1", "z2"]


def test_nobody_is_emptied_while_all_have_failed() -> None:
    asked, nodes = _Asked(), _nodes(3)
    asked.see(ready=nodes)
    asked.see(failed=nodes)
    asked.clock.advance(1000)
    assert (asked.allowed, asked.turns) == ([], [True])
    asked.zones.see(nodes[0], ready=True)
    assert asked.turns == [True, False]
    asked.see(failed=nodes[1:])
    assert asked.allowed == []
    asked.clock.advance(15)
    assert asked.allowed == ["z1", "z2"]


def test_nodes_that_are_excluded_do_not_count() -> None:
    asked = _Asked()
    asked.see(ready=_nodes(1))
    excluded: dict[str, Any] = {LABEL_EXCLUDE_DISRUPTION: ""}
    asked.see(failed=_nodes(20, "z", **excluded)[1:])
    asked.clock.advance(5)
    assert asked.allowed == ["z1"]


def test_silence_is_noticed_once_and_again_after_a_word() -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    silent: list[str] = []
    beats = Heartbeats(clock, silent.append)
    beats.beat("a", 50)
    beats.beat("b", 50)
    clock.advance(40)
    beats.again("a")
    clock.advance(20)
    assert silent == ["b"]
    assert beats.is_silent("b")
    assert not beats.is_silent("a")
    beats.again("b")
    clock.advance(100)
    assert silent == ["b", "a", "b"]
    beats.forget("a")
    assert not beats.is_silent("a")


def test_who_has_stood_still_accuses_nobody_of_silence() -> None:
    class Stopped(ManualClock):
        stood = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.stood

    clock = Stopped(datetime(2026, 1, 1, tzinfo=UTC))
    silent: list[str] = []
    beats = Heartbeats(clock, silent.append)
    beats.beat("a", 50)
    clock.stood = 100.0
    clock.advance(51)
    assert silent == []
    clock.advance(51)
    assert silent == ["a"]


async def test_nodes_that_come_and_go_are_told_of(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, NodeLifecycle):
        client = server.client("test")
        await create(client, node("a"))
        await has_taints(client, "a")
        await client.delete(NODE, "", "a")

        async def two_events() -> list[tuple[str, str, str]]:
            events = sorted(await read_all(client, "Event"), key=lambda each: str(each["metadata"]["name"]))
            parts = [(each["reason"], each["message"], each["source"]["component"]) for each in events]
            return parts if len(parts) == 2 else []

        assert await eventually(two_events) == [
            ("RegisteredNode", "Node a event: Registered Node a in Controller", "node-controller"),
            ("RemovingNode", "Node a event: Removing Node a from Controller", "node-controller"),
        ]
