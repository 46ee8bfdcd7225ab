"""What is owned goes with its owner, before it, or not at all."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from moorage.api.meta import Data
from moorage.client import Client
from moorage.controllers.cluster.garbage import GarbageCollector
from tests.controllers.small_cluster import becomes, change, cluster, controllers, gone, remove
from tests.controllers.waiting import eventually, read, read_all
from tests.plane import api_server, create


async def make(client: Client, name: str, *owners: Data, kind: str = "ConfigMap", **metadata: Any) -> Data:
    references = [
        {
            "apiVersion": "v1",
            "kind": owner.get("kind", "ConfigMap"),
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for owner in owners
    ]
    metadata = {"name": name, "ownerReferences": references, **metadata}
    return await create(client, {"apiVersion": "v1", "kind": kind, "metadata": metadata})


async def test_what_is_owned_goes_after_its_owner_all_the_way_down(tmp_path: Path) -> None:
    async with cluster(tmp_path, GarbageCollector) as client:
        top = await make(client, "top")
        middle = await make(client, "middle", top)
        await make(client, "bottom", middle, kind="Secret")
        await make(client, "other")
        await remove(client, "ConfigMap", "top")
        await gone(client, "ConfigMap", "middle")
        await gone(client, "Secret", "bottom")
        assert await read(client, "ConfigMap", "other")


async def test_an_owner_of_the_same_name_but_another_uid_is_none(tmp_path: Path) -> None:
    async with cluster(tmp_path, GarbageCollector) as client:
        await make(client, "owner")
        impostor = {"kind": "ConfigMap", "metadata": {"name": "owner", "uid": "00000000-0000-0000-0000-000000000000"}}
        await make(client, "owned", impostor)
        await gone(client, "ConfigMap", "owned")
        assert await read(client, "ConfigMap", "owner")


async def test_what_has_another_owner_stays_and_forgets_the_one_that_is_gone(tmp_path: Path) -> None:
    async with cluster(tmp_path, GarbageCollector) as client:
        first, second = await make(client, "first"), await make(client, "second")
        await make(client, "owned", first, second)
        await remove(client, "ConfigMap", "first")

        def has_one(data: Data) -> bool:
            return [each["name"] for each in data["metadata"]["ownerReferences"]] == ["second"]

        await becomes(client, "ConfigMap", "owned", has_one)


async def test_an_object_with_a_thousand_owners_does_not_keep_others_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn, looked = 0, Counter[int]()
    original = GarbageCollector._is_there  # noqa: SLF001

    async def is_there(self: GarbageCollector, *asked: Any) -> bool:
        looked[turn] += 1
        return await original(self, *asked)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(GarbageCollector, "_is_there", is_there)
    counting = asyncio.create_task(count_turns())
    async with cluster(tmp_path, GarbageCollector) as client:
        owners = [{"metadata": {"name": f"owner-{number}", "uid": f"uid-{number}"}} for number in range(1000)]
        await make(client, "owned", *owners)
        await gone(client, "ConfigMap", "owned")
    counting.cancel()
    assert (sum(looked.values()), max(looked.values()) <= 32) == (1000, True)


async def test_in_the_foreground_the_owner_goes_last(tmp_path: Path) -> None:
    async with cluster(tmp_path, GarbageCollector) as client:
        owner = await make(client, "owner")
        await make(client, "owned", owner, finalizers=["example.com/hold"])
        await remove(client, "ConfigMap", "owner", propagation="Foreground")
        await becomes(client, "ConfigMap", "owned", lambda data: data["metadata"].get("deletionTimestamp"))
        assert (await read(client, "ConfigMap", "owner"))["metadata"]["finalizers"] == ["foregroundDeletion"]
        await change(client, "ConfigMap", "owned", {"metadata": {"finalizers": None}})
        await gone(client, "ConfigMap", "owner")
        await gone(client, "ConfigMap", "owned")


async def test_in_the_foreground_a_chain_ends_from_the_bottom(tmp_path: Path) -> None:
    async with cluster(tmp_path, GarbageCollector) as client:
        top = await make(client, "top")
        middle = await make(client, "middle", top)
        await make(client, "bottom", middle, finalizers=["example.com/hold"])
        await remove(client, "ConfigMap", "top", propagation="Foreground")
        await becomes(client, "ConfigMap", "bottom", lambda data: data["metadata"].get("deletionTimestamp"))
        assert "foregroundDeletion" in (await read(client, "ConfigMap", "middle"))["metadata"]["finalizers"]
        assert "foregroundDeletion" in (await read(client, "ConfigMap", "top"))["metadata"]["finalizers"]
        await change(client, "ConfigMap", "bottom", {"metadata": {"finalizers": None}})
        await gone(client, "ConfigMap", "top")


async def test_owners_in_a_circle_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async with cluster(tmp_path, GarbageCollector) as client:
        one = await make(client, "one")
        two = await make(client, "two", one)
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "two", "uid": two["metadata"]["uid"]}
        await change(
            client, "ConfigMap", "one", {"metadata": {"ownerReferences": [reference | {"blockOwnerDeletion": True}]}}
        )
        await remove(client, "ConfigMap", "one", propagation="Foreground")
        await gone(client, "ConfigMap", "one")
        await gone(client, "ConfigMap", "two")


async def test_orphans_stay_without_an_owner(tmp_path: Path) -> None:
    async with cluster(tmp_path, GarbageCollector) as client:
        owner = await make(client, "owner")
        await make(client, "owned", owner)
        await remove(client, "ConfigMap", "owner", propagation="Orphan")
        await gone(client, "ConfigMap", "owner")
        assert not (await read(client, "ConfigMap", "owned"))["metadata"].get("ownerReferences")


async def test_an_owner_in_another_namespace_does_not_count(tmp_path: Path) -> None:
    async with cluster(tmp_path, GarbageCollector) as client:
        await create(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}})
        owner = await make(client, "owner", namespace="far")
        await make(client, "owned", owner)
        await gone(client, "ConfigMap", "owned")
        events = await eventually(lambda: read_all(client, "Event"))
        assert events[0]["reason"] == "OwnerRefInvalidNamespace"


async def test_what_belongs_to_a_kind_that_is_not_known_stays(tmp_path: Path) -> None:
    async with cluster(tmp_path, GarbageCollector) as client:
        unknown = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "it", "uid": "1"}
        await create(client, configmap("owned", unknown))
        absent = {"apiVersion": "v1", "kind": "Secret", "name": "it", "uid": "2"}
        await create(client, configmap("lost", absent))
        await gone(client, "ConfigMap", "lost")
        assert await read(client, "ConfigMap", "owned")


def configmap(name: str, *owners: Data) -> Data:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [*owners]}}


async def test_owners_that_went_while_nobody_looked_are_noticed_at_the_start(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        client = server.client("test")
        owner = await make(client, "owner")
        await asyncio.gather(*(make(client, f"owned-{number}", owner) for number in range(50)))
        await remove(client, "ConfigMap", "owner")
        async with controllers(client, GarbageCollector):

            async def none_left() -> bool:
                return not await read_all(client, "ConfigMap")

            await eventually(none_left)
