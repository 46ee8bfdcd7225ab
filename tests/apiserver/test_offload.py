"""Large bodies are read beside the event loop, and those of one user do not hold up those of others."""

from __future__ import annotations

import asyncio
import threading

import pytest

from moorage.apiserver.base.offload import FLOW, LARGE, YAML_COST, offload
from moorage.apiserver.http.failures import bad_request
from moorage.apiserver.http.messages import Refused, Request
from moorage.apiserver.request.bodies import parsed


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
