"""Deadlines of evictions: a value that flaps does not move them, and neither does a restart."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from moorage.api.meta import Data
from moorage.api.node import Taint
from moorage.api.pod import Pod
from moorage.client import ApiError, Client
from moorage.controllers.nodes import deadlines
from moorage.controllers.nodes.deadlines import EVICT_AT
from moorage.controllers.nodes.devicetaints import DeviceTaintEviction
from moorage.controllers.nodes.tainteviction import TaintEviction
from moorage.match.deferral import NotReady
from tests import plane
from tests.controllers.nodes.evicting import (
    NODE,
    POD,
    clock_of_today,
    evicted,
    ready_node,
    recorded,
    resident,
    running,
    set_taints,
    stay,
    taint,
    toleration,
)
from tests.controllers.nodes.test_devicetaints import device_taint, holder, inventory, set_device_taints
from tests.controllers.waiting import read
from tests.plane import api_server, create, node

GOOD: Data = {"key": "sla", "operator": "Gt", "value": "950"}
GRACE: Data = {"key": "sla", "operator": "Lt", "value": "951", "effect": "NoExecute", "tolerationSeconds": 8}


def sla(value: str, added: datetime | None = None) -> Data:
    return taint(value, "sla", added)


async def written(client: Client, name: str) -> str | None:
    """The deadline that stands on a pod."""
    text: str | None = (await read(client, "Pod", name))["metadata"].get("annotations", {}).get(EVICT_AT)
    return text


async def write(client: Client, name: str, text: str | None) -> None:
    """Somebody writes another deadline on a pod."""
    await client.patch(POD, "default", name, {"metadata": {"annotations": {EVICT_AT: text}}})


def after(start: datetime, seconds: float) -> str:
    return f"{start + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


async def test_a_value_that_flaps_does_not_move_the_deadline(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "web", "a", GOOD, GRACE)
        await set_taints(client, "a", sla("900"))
        await stay(client, "web")
        clock.advance(4)
        await set_taints(client, "a", sla("901"))
        await stay(client, "web")
        clock.advance(3.9)
        await set_taints(client, "a", sla("902"))
        await stay(client, "web")
        clock.advance(0.1)
        await evicted(client, "web")
        why = "taint sla=902:NoExecute: 902 is not greater than 950 (`Gt 950`); tolerated for 8 seconds only"
        await recorded(client, "web", f"Marking for deletion Pod default/web: {why}")


async def test_a_good_value_in_between_gives_all_the_seconds_again(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "web", "a", GOOD, GRACE)
        await set_taints(client, "a", sla("900"))
        await stay(client, "web")
        clock.advance(7)
        await set_taints(client, "a", sla("990"))
        await stay(client, "web")
        assert await written(client, "web") is None
        await set_taints(client, "a", sla("900"))
        await stay(client, "web")
        clock.advance(7)
        await stay(client, "web")
        clock.advance(1)
        await evicted(client, "web")


async def test_a_taint_with_more_seconds_does_not_give_more_time(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        tolerated = [toleration(seconds, key=key) for key, seconds in (("not-ready", 8), ("unreachable", 300))]
        await resident(client, "web", "a", *tolerated)
        await set_taints(client, "a", taint(key="not-ready"))
        await stay(client, "web")
        clock.advance(4)
        await set_taints(client, "a", taint(key="unreachable"))
        await stay(client, "web")
        clock.advance(4)
        await evicted(client, "web")


async def test_the_taint_of_a_device_that_flaps_does_not_move_the_deadline(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, DeviceTaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await create(client, inventory({"name": "gpu-0"}))
        await holder(client, "web", "gpu-0", GRACE)
        start = clock.now()
        for value in ("900", "901"):
            await set_device_taints(client, **{"gpu-0": [device_taint(clock, value, "sla")]})
            await stay(client, "web")
            assert await written(client, "web") == after(start, 8)
            clock.advance(4)
        await evicted(client, "web")
        why = (
            f"device {inventory()['spec']['driver']}/pool/gpu-0: taint sla=901:NoExecute: tolerated for 8 seconds only"
        )
        await recorded(client, "web", f"Marking for deletion: {why}")


async def test_a_restart_does_not_move_the_deadline_of_a_taint_without_a_time(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server:
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "web", "a", toleration(20))
        start = clock.now()
        async with running(server, clock, TaintEviction):
            await set_taints(client, "a", taint())
            assert await written(client, "web") == after(start, 20)
        assert "timeAdded" not in (await plane.read(client, "Node", "a", ""))["spec"]["taints"][0]
        clock.advance(12)
        async with running(server, clock, TaintEviction):
            await stay(client, "web")
            clock.advance(7.9)
            await stay(client, "web")
            assert await written(client, "web") == after(start, 20)
            clock.advance(0.1)
            await evicted(client, "web")


async def test_a_deadline_that_passed_while_nobody_looked_is_kept_at_once(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server:
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "web", "a", toleration(20))
        async with running(server, clock, TaintEviction):
            await set_taints(client, "a", taint())
            await stay(client, "web")
        clock.advance(60)
        async with running(server, clock, TaintEviction):
            await evicted(client, "web")


async def test_a_restart_does_not_count_from_a_time_that_is_older_than_the_value(tmp_path: Path) -> None:
    clock = clock_of_today()
    long_ago = clock.now() - timedelta(days=7)
    async with api_server(tmp_path) as server:
        client = server.client("test")
        await create(client, node("a", taints=[sla("980", long_ago)]))
        await resident(client, "web", "a", GOOD, GRACE, toleration(300, key="other"))
        async with running(server, clock, TaintEviction):
            await stay(client, "web")
            clock.advance(1000)
            await set_taints(client, "a", sla("900", long_ago))
            await stay(client, "web")
        clock.advance(4)
        async with running(server, clock, TaintEviction):
            await stay(client, "web")
            await set_taints(client, "a", sla("900", long_ago), taint(key="other"))
            await stay(client, "web")
            clock.advance(3.9)
            await stay(client, "web")
            clock.advance(0.1)
            await evicted(client, "web")


async def test_a_taint_that_went_while_nobody_looked_cancels_the_eviction(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server:
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "web", "a", toleration(20))
        async with running(server, clock, TaintEviction, DeviceTaintEviction):
            await set_taints(client, "a", taint())
            await stay(client, "web")
        await set_taints(client, "a")
        clock.advance(12)
        async with running(server, clock, TaintEviction, DeviceTaintEviction):
            assert await written(client, "web") is None
            await set_taints(client, "a", taint())
            await stay(client, "web")
            clock.advance(19)
            await stay(client, "web")


async def test_a_deadline_stays_while_the_pod_takes_long_to_be_judged(tmp_path: Path) -> None:
    clock, judged = clock_of_today(), threading.Event()

    class Slow(TaintEviction):
        def _due(self, pod: Pod, taints: Mapping[Taint, datetime]) -> datetime | None:
            if not judged.is_set():
                raise NotReady(judged.wait)
            return super()._due(pod, taints)

    async with api_server(tmp_path) as server:
        client, start = server.client("test"), clock.now()
        await ready_node(client, "a")
        await resident(client, "web", "a", toleration(20))
        async with running(server, clock, TaintEviction):
            await set_taints(client, "a", taint())
            await stay(client, "web")
        clock.advance(12)
        try:
            async with running(server, clock, Slow):
                assert await written(client, "web") == after(start, 20)
                judged.set()
                await stay(client, "web")
                clock.advance(8)
                await evicted(client, "web")
        finally:
            judged.set()


async def test_who_is_evicted_at_once_gets_no_annotation(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "web", "a")
        await client.patch(POD, "default", "web", {"metadata": {"finalizers": ["example.com/wait"]}})
        await set_taints(client, "a", taint())
        await evicted(client, "web")
        assert await written(client, "web") is None


@pytest.mark.parametrize("text", ["soon", "2031-11-16T12:00:00", "2031-11-16T12:00:00Z", "2019-11-16T12:00:00Z", None])
async def test_nobody_else_can_give_a_pod_more_time_or_less(tmp_path: Path, text: str | None) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server:
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "web", "a", toleration(20))
        await write(client, "web", text)
        async with running(server, clock, TaintEviction):
            assert await written(client, "web") is None
            start = clock.now()
            await set_taints(client, "a", taint())
            assert await written(client, "web") == after(start, 20)
            await write(client, "web", text)
            assert await written(client, "web") == after(start, 20)
            await write(client, "web", text)
        async with running(server, clock, TaintEviction):
            assert await written(client, "web") == after(start, 20)
            clock.advance(19)
            await stay(client, "web")
            clock.advance(1)
            await evicted(client, "web")


async def test_a_clock_that_is_set_back_gives_no_more_than_the_seconds_once_more(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server:
        client = server.client("test")
        await ready_node(client, "a")
        await resident(client, "web", "a", toleration(20))
        clock.advance(7200)
        async with running(server, clock, TaintEviction):
            await set_taints(client, "a", taint())
            await stay(client, "web")
        clock.jump(-3600)
        async with running(server, clock, TaintEviction):
            await stay(client, "web")
            clock.advance(20)
            await evicted(client, "web")


async def test_an_annotation_that_cannot_be_written_is_warned_of_once_and_delays_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction) as controllers:
        client, patch = server.client("test"), controllers.context.client.patch

        async def refuses(kind: Any, namespace: str, name: str, change: Data, **more: Any) -> bytes:
            if "annotations" in change["metadata"]:
                raise ApiError(403, "Forbidden", "pods is forbidden")
            return await patch(kind, namespace, name, change, **more)

        monkeypatch.setattr(controllers.context.client, "patch", refuses)
        await ready_node(client, "a")
        for name in ("one", "two"):
            await resident(client, name, "a", toleration(20))
        await set_taints(client, "a", taint())
        await stay(client, "one", "two")
        clock.advance(20)
        await evicted(client, "one")
        await evicted(client, "two")
    warnings = [each for each in caplog.records if EVICT_AT in each.getMessage() and each.levelno == logging.WARNING]
    assert len(warnings) == 1


async def test_deadlines_of_many_pods_are_written_at_a_bounded_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "_BURST", 5)
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction):
        client = server.client("test")
        await ready_node(client, "a")
        for number in range(12):
            await resident(client, f"web-{number}", "a", toleration(300))
        await client.patch(NODE, "", "a", {"spec": {"taints": [taint()]}})

        async def count() -> int:
            return sum(
                EVICT_AT in each["metadata"].get("annotations", {}) for each in await plane.read_all(client, "Pod")
            )

        async def five() -> bool:
            return await count() == 5

        await plane.eventually(five)
        clock.advance(60)

        async def all_of_them() -> bool:
            clock.advance(1)
            return await count() == 12

        await plane.eventually(all_of_them)


async def test_two_controllers_that_evict_a_pod_share_its_annotation(tmp_path: Path) -> None:
    clock = clock_of_today()
    async with api_server(tmp_path) as server, running(server, clock, TaintEviction, DeviceTaintEviction):
        client, start = server.client("test"), clock.now()
        await ready_node(client, "a")
        await create(client, inventory({"name": "gpu-0"}))
        await holder(client, "web", "gpu-0", {**GRACE, "tolerationSeconds": 60})
        tolerations = [toleration(20)]
        await client.patch(POD, "default", "web", {"spec": {"tolerations": tolerations}})
        await set_device_taints(client, **{"gpu-0": [device_taint(clock, "900", "sla")]})
        assert await written(client, "web") == after(start, 60)
        await set_taints(client, "a", taint())
        assert await written(client, "web") == after(start, 20)
        await set_taints(client, "a")
        assert await written(client, "web") == after(start, 60)
        clock.advance(60)
        await evicted(client, "web")
