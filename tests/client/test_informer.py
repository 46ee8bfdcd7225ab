"""Informers know what is there and hear of every change."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from moorage.api import kinds
from moorage.api.pod import Pod
from moorage.client import Informers
from tests.plane import api_server, create, eventually, pod

_POD = kinds.row("v1", "Pod")


async def test_an_informer_follows_additions_changes_and_deletions(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        client = server.client("test")
        await create(client, pod("before"))
        informers = Informers(client)
        pods = informers.of(Pod)
        pods.index("app", lambda each: [each.metadata.labels.get("app", "")])
        heard: list[tuple[str | None, str | None]] = []
        pods.on_change(lambda old, new: heard.append((old and old.metadata.name, new and new.metadata.name)))
        await informers.start()
        assert [each.metadata.name for each in pods] == ["before"]

        await create(client, pod("after", labels={"app": "web"}))

        async def there() -> bool:
            return pods.get("default", "after") is not None

        await eventually(there)
        assert [each.metadata.name for each in pods.by("app", "web")] == ["after"]
        await client.patch(_POD, "default", "after", {"metadata": {"labels": {"app": "db"}}})

        async def moved() -> bool:
            return not list(pods.by("app", "web")) and bool(list(pods.by("app", "db")))

        await eventually(moved)
        await client.delete(_POD, "default", "after", grace=0)

        async def gone() -> bool:
            return len(pods) == 1

        await eventually(gone)
        assert heard == [(None, "before"), (None, "after"), ("after", "after"), ("after", None)]
        await informers.stop()


async def test_a_change_between_list_and_watch_is_not_missed(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        client = server.client("test")
        listing = await client.list(_POD)
        await create(client, pod("between"))
        async for batch in client.watch(_POD, after=listing.revision):
            assert [(change.type, msgspec.json.decode(change.object)["metadata"]["name"]) for change in batch] == [
                ("ADDED", "between")
            ]
            break
        await asyncio.sleep(0)
