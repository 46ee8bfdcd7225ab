"""What the API server sees to by itself."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from moorage.api import kinds
from moorage.apiserver.periodic import PeriodicTasks
from moorage.client import Missing
from moorage.client.clock import ManualClock
from moorage.store.protocol import StoreUnavailable
from tests.plane import api_server, eventually, read

START = datetime(2026, 1, 1, tzinfo=UTC)
SERVICE = kinds.row("v1", "Service")


async def test_the_servers_own_service_comes_back(tmp_path: Path) -> None:
    clock = ManualClock(START)
    async with api_server(tmp_path, clock=clock) as server:
        client = server.client("tests")
        old = await read(client, "Service", "kubernetes")
        await client.delete(SERVICE, "default", "kubernetes")

        async def is_back() -> bool:
            clock.advance(1)
            try:
                new = await read(client, "Service", "kubernetes")
            except Missing:
                return False
            assert new["metadata"]["uid"] != old["metadata"]["uid"]
            return bool(new["spec"] == old["spec"])

        await eventually(is_back)


async def test_trouble_with_the_store_ends_no_periodic_task() -> None:
    clock, done = ManualClock(START), 0

    async def do() -> None:
        nonlocal done
        done += 1
        raise StoreUnavailable("not now")

    async def is_done_again() -> bool:
        clock.advance(10)
        return done > 2

    tasks = PeriodicTasks(clock)
    tasks.start("testing", do, 10)
    await eventually(is_done_again)
    await tasks.stop()
