"""The status of quotas: what may be used and what is, also after objects have gone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.client import Client, Forbidden
from moorage.client.clock import ManualClock
from moorage.controllers.cluster.resourcequotas import ResourceQuotas
from tests.controllers.small_cluster import becomes, change, cluster, controllers, remove
from tests.plane import api_server, create, pod, read_all

FULL = {"pods": "2", "requests.cpu": "1", "count/configmaps": "5", "services.nodeports": "5"}


def quota(name: str = "q", **spec: Any) -> Data:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": FULL, **spec}}


def small(name: str, **spec: Any) -> Data:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]
    return pod(name, containers=containers, **spec)


def config(name: str) -> Data:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def uses(client: Client, name: str = "q", **used: str) -> Data:
    """Wait until a quota has this much in use; of what is not named, nothing."""
    named = {each.replace("__", "/").replace("_", "."): amount for each, amount in used.items()}

    def same(data: Data) -> bool:
        status = data.get("status", {})
        hard = data["spec"]["hard"]
        return bool(status.get("hard") == hard and status.get("used") == dict.fromkeys(hard, "0") | named)

    return await becomes(client, "ResourceQuota", name, same)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with cluster(tmp_path, ResourceQuotas) as made:
        yield made


async def test_a_new_quota_counts_what_is_there(client: Client) -> None:
    await create(client, small("a"))
    await create(client, config("a"))
    await create(client, quota())
    await uses(client, pods="1", requests_cpu="100m", count__configmaps="1")


async def test_room_is_made_by_what_is_deleted(client: Client) -> None:
    await create(client, quota())
    await uses(client)
    for name in ("a", "b"):
        await create(client, small(name))
    await uses(client, pods="2", requests_cpu="200m")
    with pytest.raises(Forbidden, match="exceeded quota: q"):
        await create(client, small("c"))
    await remove(client, "Pod", "a")
    await uses(client, pods="1", requests_cpu="100m")
    await create(client, small("c"))
    await uses(client, pods="2", requests_cpu="200m")


async def test_a_pod_that_has_finished_no_longer_counts(client: Client) -> None:
    await create(client, quota())
    await uses(client)
    await create(client, small("a"))
    await uses(client, pods="1", requests_cpu="100m")
    await change(client, "Pod", "a", {"status": {"phase": "Succeeded"}}, subresource="status")
    await uses(client)


async def test_a_service_that_needs_fewer_ports_gives_them_back(client: Client) -> None:
    await create(client, quota())
    await uses(client)
    spec = {"type": "NodePort", "ports": [{"port": 80}]}
    await create(client, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec})
    await uses(client, services_nodeports="1")
    await change(client, "Service", "s", {"spec": {"type": "ClusterIP"}})
    await uses(client)


async def test_a_changed_quota_is_measured_again(client: Client) -> None:
    await create(client, config("a"))
    await create(client, quota())
    await uses(client, count__configmaps="1")
    await change(client, "ResourceQuota", "q", {"spec": {"hard": {"count/configmaps": None, "secrets": "1"}}})
    await uses(client)


async def test_a_quota_counts_only_its_scope(client: Client) -> None:
    scoped = {"hard": {"pods": "5"}, "scopes": ["Terminating"]}
    await create(client, quota("ending", **scoped))
    await create(client, quota("staying", hard={"pods": "5"}, scopes=["NotTerminating"]))
    await uses(client, "ending")
    await uses(client, "staying")
    await create(client, small("a"))
    await uses(client, "staying", pods="1")
    await change(client, "Pod", "a", {"spec": {"activeDeadlineSeconds": 9}})
    await uses(client, "ending", pods="1")
    await uses(client, "staying")


async def test_what_somebody_wrote_into_the_status_is_put_right_in_time(tmp_path: Path) -> None:
    clock = ManualClock(datetime.now(UTC))
    async with cluster(tmp_path, ResourceQuotas, clock=clock) as client:
        await create(client, quota())
        await uses(client)
        await change(client, "ResourceQuota", "q", {"status": {"used": {"pods": "2"}}}, subresource="status")
        clock.advance(400)
        await uses(client)


async def test_what_was_deleted_while_nobody_counted_is_noticed_at_the_start(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        client = server.client("test")
        async with controllers(server.client("first"), ResourceQuotas):
            await create(client, quota())
            await uses(client)
            await create(client, small("a"))
        await remove(client, "Pod", "a")
        async with controllers(server.client("second"), ResourceQuotas):
            await uses(client)


async def test_a_pod_that_was_charged_counts_before_its_watch_event_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Client.watch

    async def watched(client: Client, kind: kinds.Kind, *args: Any, **options: Any) -> AsyncIterator[Any]:
        if kind.kind == "Pod":
            await asyncio.Event().wait()
        async for batch in watch(client, kind, *args, **options):
            yield batch

    monkeypatch.setattr(Client, "watch", watched)
    async with cluster(tmp_path, ResourceQuotas) as client:
        await create(client, quota())
        await uses(client)
        await create(client, small("a"))
        await change(client, "ResourceQuota", "q", {"spec": {"hard": {"secrets": "1"}}})
        await uses(client, pods="1", requests_cpu="100m")


async def test_nobody_gets_past_a_quota_while_it_is_measured(client: Client) -> None:
    """Pods come and go at once, and the controller measures all the time: there are never more than two."""
    await create(client, quota())
    await uses(client)
    kind, chance = kinds.row("v1", "Pod"), random.Random(7)

    async def come_and_go(number: int) -> None:
        for turn in range(6):
            name = f"p{number}-{turn}"
            try:
                await create(client, small(name))
            except Forbidden:
                await asyncio.sleep(0)
                continue
            assert len(await read_all(client, "Pod", "default")) <= 2
            if chance.random() < 0.8:
                await client.delete(kind, "default", name)

    await asyncio.gather(*(come_and_go(number) for number in range(8)))
    left = await read_all(client, "Pod", "default")
    for each in left:
        await client.delete(kind, "default", each["metadata"]["name"])
    await uses(client)
    for name in ("x", "y"):
        await create(client, small(name))
    with pytest.raises(Forbidden):
        await create(client, small("z"))
