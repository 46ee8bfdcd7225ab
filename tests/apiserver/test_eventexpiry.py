"""Events do not pile up: each stays for an hour after it happened last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from moorage.api import kinds
from moorage.apiserver.run import start
from moorage.client import Client
from moorage.client.clock import ManualClock
from moorage.features import ALL_ON
from tests.plane import create, eventually, pod, read_all

EVENT = kinds.row("v1", "Event")
CLOCK = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(CLOCK)


@pytest.fixture
async def client(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Client]:
    server = await start(tmp_path, "sqlite", ALL_ON, "127.0.0.1", 0, clock=clock)
    yield server.client("tests")
    await server.stop(1)


async def tell(client: Client, name: str) -> None:
    about = {"kind": "Pod", "namespace": "default", "name": "web"}
    await client.create(EVENT, {"metadata": {"name": name}, "involvedObject": about, "reason": "Test"}, "default")


async def names(client: Client) -> set[str]:
    return {event["metadata"]["name"] for event in await read_all(client, "Event")}


async def pass_minutes(clock: ManualClock, minutes: int) -> None:
    for _ in range(minutes):
        clock.advance(60)
        for _ in range(5):
            await asyncio.sleep(0)  # the server has its turn


async def test_an_event_is_forgotten_after_an_hour(client: Client, clock: ManualClock) -> None:
    await create(client, pod("web"))
    await tell(client, "early")
    await tell(client, "repeated")
    await pass_minutes(clock, 30)
    await tell(client, "late")
    await client.patch(EVENT, "default", "repeated", {"count": 2})
    await pass_minutes(clock, 29)
    assert await names(client) == {"early", "repeated", "late"}
    await pass_minutes(clock, 3)

    async def is_forgotten() -> bool:
        return await names(client) == {"repeated", "late"}

    await eventually(is_forgotten)
    assert len(await read_all(client, "Pod")) == 1, "only events are forgotten"


async def test_many_at_once_are_removed(client: Client, clock: ManualClock) -> None:
    for number in range(200):
        await tell(client, f"event-{number}")
    await pass_minutes(clock, 62)

    async def is_empty() -> bool:
        return not await names(client)

    await eventually(is_empty)
