"""A scheduler that is interrupted at the worst moment, on a real API server: nothing is done twice, nothing is lost."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from moorage.api.pod import Pod
from moorage.api.requests import amounts, pod_requests
from moorage.client import ApiError, Client
from moorage.scheduler.config import Configuration
from tests.plane import eventually
from tests.scheduler.invariants import fits_nowhere, pods
from tests.scheduler.placement_checker import PlacementChecker
from tests.scheduler.stage import NODE, POD, Stage, stage


async def test_a_scheduler_that_is_stopped_again_and_again_under_load_binds_each_pod_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        chance = random.Random(1)
        witness = PlacementChecker(here.server.client("witness"))
        watching = asyncio.create_task(witness.run())
        for number in range(10):
            await here.node(f"node-{number}", cpu="8", pods="30")
        names = [f"pod-{number}" for number in range(200)]

        async def make(name: str) -> None:
            await here.pod(name, requests={"cpu": "300m"})

        making = asyncio.gather(*(make(name) for name in names))
        for _ in range(12):
            enough = min(len(names), len(witness.bound) + chance.randrange(16))

            async def some_are_bound(enough: int = enough) -> bool:
                return len(witness.bound) >= enough

            await eventually(some_are_bound)
            await here.restart()
        await making

        async def all_bound() -> bool:
            return all(each.spec.node_name for each in await pods(here.client))

        assert await eventually(all_bound)
        await eventually(lambda: fits_nowhere(here))
        assert not watching.done() or watching.result() is None
        watching.cancel()
        assert len(witness.bound) == 200
        room = {name: amounts(each.status.allocatable)["cpu"] for name, each in witness.truth.nodes.items()}
        for where, each in witness.truth.pods.values():
            room[where] -= pod_requests(each.spec)["cpu"]
        assert min(room.values()) >= 0


async def test_a_node_that_vanishes_between_decision_and_binding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage(tmp_path) as here:
        await here.node("only", cpu="1")
        whole = Client.bind
        asked: list[str] = []

        async def slow(client: Client, namespace: str, name: str, uid: str, node: str) -> None:
            asked.append(node)
            if len(asked) == 1:
                await here.client.delete(NODE, "", "only")
                await eventually(lambda: gone(here))
            await whole(client, namespace, name, uid, node)

        async def gone(here: Stage) -> bool:
            return here.scheduler.table.count == 0

        monkeypatch.setattr(Client, "bind", slow)
        await here.pod("web", requests={"cpu": "900m"})

        async def asked_once() -> bool:
            return bool(asked) and here.scheduler.table.count == 0 and not here.scheduler.assumed

        assert await eventually(asked_once)
        await here.node("only", cpu="1")
        placed = (await here.get("web"))["spec"].get("nodeName")
        if not placed:
            assert await here.node_of("web") == "only"
        await eventually(lambda: fits_nowhere(here))
        await here.delete("web")
        await eventually(lambda: fits_nowhere(here))
        assert here.scheduler.table.requested.sum() == 0


async def test_a_pod_that_is_deleted_while_it_is_being_bound_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage(tmp_path) as here:
        await here.node("only", cpu="1")
        whole = Client.bind
        began, go = asyncio.Event(), asyncio.Event()

        async def slow(client: Client, namespace: str, name: str, uid: str, node: str) -> None:
            if name == "doomed":
                began.set()
                await go.wait()
            await whole(client, namespace, name, uid, node)

        monkeypatch.setattr(Client, "bind", slow)
        doomed = await here.pod("doomed", requests={"cpu": "900m"})
        await began.wait()
        await here.delete("doomed")
        again = await here.pod("doomed", requests={"cpu": "800m"})
        go.set()
        assert again["metadata"]["uid"] != doomed["metadata"]["uid"]
        assert await here.node_of("doomed") == "only"
        await eventually(lambda: fits_nowhere(here))
        assert here.scheduler.table.requested[0].sum() == 800


async def test_a_pod_that_changes_while_its_binding_fails_is_judged_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage(tmp_path, configuration=Configuration(first_backoff=0.01, last_backoff=0.01)) as here:
        await here.node("first")
        whole = Client.bind
        began, go = asyncio.Event(), asyncio.Event()

        async def fails_once(client: Client, namespace: str, name: str, uid: str, node: str) -> None:
            if not began.is_set():
                began.set()
                await go.wait()
                raise ApiError(400, "BadRequest", "not this time")
            await whole(client, namespace, name, uid, node)

        monkeypatch.setattr(Client, "bind", fails_once)
        await here.pod("web")
        await began.wait()
        await here.taint("first", {"key": "gpu", "effect": "NoSchedule"})
        tolerations = [*(await here.get("web"))["spec"]["tolerations"], {"key": "gpu", "operator": "Exists"}]
        await here.client.patch(POD, "default", "web", {"spec": {"tolerations": tolerations}})
        await eventually(lambda: seen(here))
        go.set()
        assert await here.node_of("web") == "first"


async def seen(here: Stage) -> bool:
    """Whether the scheduler has heard of the toleration."""
    found = here.scheduler.handle.informers.of(Pod).get("default", "web")
    return found is not None and any(each.key == "gpu" for each in found.spec.tolerations)
