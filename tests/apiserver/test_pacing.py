"""Long lists give way to others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import count

import pytest

from moorage.api import labels
from moorage.api.labels import MAX_REQUIREMENTS, SelectorError
from moorage.apiserver.base.offload import FLOW
from moorage.apiserver.base.pacing import SLICE, Round, Turns, in_slices, made
from tests.apiserver.asked import Asked
from tests.plane import PATIENCE


async def test_others_run_while_a_long_list_is_worked_through() -> None:
    turns, done = count(), asyncio.Event()

    async def others() -> None:
        while not done.is_set():
            next(turns)
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    moments = count(step=SLICE * 1.5)
    assert [item async for item in in_slices(range(1_000), lambda: next(moments))] == list(range(1_000))
    assert next(turns) > 50
    done.set()
    await task


async def test_however_many_begin_at_once_one_goes_on_in_each_round_and_users_take_turns() -> None:
    worked: list[str] = []
    rounds: list[int] = []

    async def work(user: str, most: int) -> None:
        FLOW.set(user)
        moments = count(step=SLICE * 1.5)
        async for number in in_slices(range(most), lambda: next(moments)):
            worked.append(f"{user} {number}")  # noqa: PERF401 - others look at it meanwhile

    tasks = [asyncio.create_task(work(user, most)) for user, most in [("greedy", 50)] * 20 + [("modest", 10)]]
    await asyncio.sleep(0)
    assert len(worked) == len(tasks)  # each has begun
    while not tasks[-1].done():
        before = len(worked)
        await asyncio.sleep(0)
        rounds.append(len(worked) - before)
    assert max(rounds) <= 2
    assert sum("modest" in each for each in worked) == 10
    assert sum("greedy" in each for each in worked) <= 20 + 12
    await asyncio.gather(*tasks)


async def test_a_user_who_gives_up_keeps_nobody_waiting() -> None:
    turns = Turns()
    waiting = [asyncio.create_task(turns.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait_for(asyncio.gather(*waiting[1:]), PATIENCE)
    assert waiting[0].cancelled()


async def test_of_many_pieces_as_many_are_done_in_a_round_as_fit_and_users_take_turns() -> None:
    moments = count(step=SLICE / 4)
    shared, worked = Round(lambda: next(moments)), list[str]()

    async def work(user: str, most: int) -> None:
        FLOW.set(user)
        for _ in range(most):
            await shared.do(lambda: worked.append(user))

    tasks = [asyncio.create_task(work(user, most)) for user, most in [("greedy", 5)] * 100 + [("modest", 5)]]
    rounds = []
    while not tasks[-1].done():
        before = len(worked)
        await asyncio.sleep(0)
        rounds.append(len(worked) - before)
    assert max(rounds) <= 5
    assert worked.count("greedy") <= 50
    await asyncio.gather(*tasks)
    assert worked.count("greedy") == 500


async def test_a_piece_that_fails_tells_who_waits_for_it_and_one_that_nobody_waits_for_is_not_done() -> None:
    moments = count(step=SLICE)
    shared, worked = Round(lambda: next(moments)), list[int]()

    def fail() -> None:
        tasks[2].cancel()
        raise LookupError

    pieces = (lambda: worked.append(0), fail, lambda: worked.append(2), lambda: worked.append(3))
    tasks = [asyncio.create_task(shared.do(piece)) for piece in pieces]
    with pytest.raises(LookupError):
        await tasks[1]
    await tasks[3]
    assert worked == [0, 3]


async def test_what_is_sent_counts_as_work() -> None:
    shared, sent, rounds = Round(lambda: 0.0), 0, 0

    async def send() -> None:
        nonlocal sent
        sent += len(await shared.do(lambda: b"x" * (1 << 20), len))

    sending = asyncio.gather(*(send() for _ in range(100)))
    while not sending.done():
        before = sent
        await asyncio.sleep(0)
        rounds += 1
        assert sent - before <= 6 << 20
    assert rounds >= 100 / 6


async def test_others_run_while_parts_are_made() -> None:
    turns = count()

    async def others() -> None:
        while True:
            next(turns)
            await asyncio.sleep(0)

    def slow() -> Iterator[bytes]:
        for number in range(20):
            end = time.monotonic() + SLICE
            while time.monotonic() < end:
                pass
            yield b"%d" % number

    task = asyncio.create_task(others())
    assert [part async for part in made(slow())] == [b"%d" % number for number in range(20)]
    assert next(turns) >= 19
    task.cancel()


@pytest.mark.parametrize("part", ["!a{}", "a{}=b", "a{} in (b,c)"])
def test_a_selector_has_a_bounded_number_of_requirements(part: str) -> None:
    most = [part.format(number) for number in range(MAX_REQUIREMENTS)]
    assert len(labels.parse(",".join(most)).requirements) == MAX_REQUIREMENTS
    with pytest.raises(SelectorError, match="more than 200 requirements; ask for fewer, or name values in a set"):
        labels.parse(",".join([*most, "z"]))
    values = ",".join(f"v{number}" for number in range(5_000))
    assert len(labels.parse(f"a in ({values})").requirements) == 1


async def test_too_many_requirements_are_refused_with_a_sentence(ask: Asked) -> None:
    for kind, part in (("labelSelector", "!a{}"), ("fieldSelector", "metadata.name!=a{}")):
        query = ",".join(part.format(number) for number in range(MAX_REQUIREMENTS + 1))
        status, told = await ask.told("GET", f"/api/v1/configmaps?{kind}={query}")
        assert status == 400
        assert told["message"] == (
            "unable to parse selector: more than 200 requirements; ask for fewer, or name values in a set"
        )
