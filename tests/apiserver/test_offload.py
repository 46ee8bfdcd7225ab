"""Large bodies are read beside the event loop, and those of one user do not hold up those of others."""

from __future__ import annotations

import asyncio
import threading

import pytest

from moorage.apiserver.base.offload import FLOW, LARGE, MAX_VALUES, YAML_COST, offload
from moorage.apiserver.http.failures import bad_request
from moorage.apiserver.http.messages import Refused, Request
from moorage.apiserver.request.bodies import parsed
from tests.apiserver.asked import APPLY, MERGE, Asked
from tests.cycles import freed_at_once

TRIES = 5
"""More than there are threads, each of which may still hold what it did last."""


class Reading:
    """Work that takes until it is told to end, and notes who has begun."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.end = {user: threading.Semaphore(0) for user in ("ann", "bob")}

    def __call__(self, user: str) -> None:
        self.begun.append(user)
        self.end[user].acquire()

    async def of(self, user: str) -> None:
        FLOW.set(user)
        await offload(LARGE, self, user)

    async def until(self, count: int) -> None:
        while len(self.begun) < count:
            await asyncio.sleep(0.001)


async def test_work_that_fails_leaves_nothing_in_memory() -> None:
    def fail() -> None:
        raise bad_request("too large")

    with freed_at_once(Refused):
        for _ in range(TRIES):
            with pytest.raises(Refused):
                await offload(LARGE, fail)


@pytest.mark.parametrize(
    ("method", "path", "media_type"),
    [
        ("POST", "", "application/json"),
        ("PUT", "/a", "application/json"),
        ("PATCH", "/a", MERGE),
        ("PATCH", "/a", APPLY),
    ],
)
async def test_large_bodies_that_are_refused_leave_nothing_in_memory(
    ask: Asked, method: str, path: str, media_type: str
) -> None:
    config_maps = "/api/v1/namespaces/default/configmaps"
    large = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert (await ask.told("POST", config_maps, large))[0] == 201
    large["data"] = {f"k{number}": "" for number in range(MAX_VALUES)}
    with freed_at_once(Exception):
        for _ in range(TRIES):
            code, _ = await ask.told(method, f"{config_maps}{path}?fieldManager=me", large, media_type)
            assert code == 413


async def test_one_user_has_one_thread_and_others_take_turns() -> None:
    reading = Reading()
    tasks = [asyncio.create_task(reading.of(user)) for user in ["ann"] * 4 + ["bob"] * 2]
    await reading.until(2)
    assert sorted(reading.begun) == ["ann", "bob"]
    for user in ("ann", "bob"):
        reading.end[user].release()
    await reading.until(4)
    assert sorted(reading.begun[2:]) == ["ann", "bob"]
    for user in ("ann", "bob"):
        reading.end[user].release(3)
    await asyncio.gather(*tasks)


async def test_work_that_nobody_waits_for_any_more_keeps_its_thread() -> None:
    reading = Reading()
    first, second = (asyncio.create_task(reading.of("ann")) for _ in range(2))
    await reading.until(1)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    for _ in range(10):
        await asyncio.sleep(0)
    assert reading.begun == ["ann"]
    reading.end["ann"].release()
    await reading.until(2)
    reading.end["ann"].release()
    await second


def test_a_loop_that_ends_before_its_work_leaves_no_seat_taken() -> None:
    reading = Reading()

    async def leaves() -> None:
        task = asyncio.create_task(reading.of("ann"))
        await reading.until(1)
        task.cancel()

    async def finds_a_seat() -> None:
        task = asyncio.create_task(reading.of("ann"))
        reading.end["ann"].release(2)
        await task

    asyncio.run(leaves())
    asyncio.run(finds_a_seat())
    assert reading.begun == ["ann", "ann"]


@pytest.mark.parametrize(
    ("media_type", "size", "beside"),
    [("json", LARGE - 1, False), ("json", LARGE, True), ("yaml", LARGE // YAML_COST, True), ("yaml", 100, False)],
)
async def test_yaml_is_read_beside_the_loop_much_sooner_than_json(
    monkeypatch: pytest.MonkeyPatch, media_type: str, size: int, beside: bool
) -> None:
    threads: list[threading.Thread] = []

    def read(_: object) -> None:
        threads.append(threading.current_thread())
        raise bad_request("enough")

    monkeypatch.setattr("moorage.apiserver.request.bodies._read", read)
    with pytest.raises(Refused):
        await parsed(Request.of("POST", "/", [("Content-Type", f"application/{media_type}")], b" " * size))
    assert (threads[0] is not threading.main_thread()) is beside
