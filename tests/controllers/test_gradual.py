"""Long work on a change gives way: some of it is done at once, the rest in later turns of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from moorage.controllers.frame.gradual import AT_ONCE, Gradual


def counting(done: list[str], name: str, count: int, cost: int = AT_ONCE // 10) -> Iterator[int]:
    for _ in range(count):
        done.append(name)
        yield cost


async def test_little_is_done_at_once() -> None:
    gradual, done = Gradual(), list[str]()
    gradual.add("a", lambda: counting(done, "a", 3))
    assert done == ["a"] * 3
    assert gradual.is_idle


async def test_much_is_done_in_turns_in_the_order_in_which_it_came() -> None:
    gradual, done, turns = Gradual(), list[str](), list[int]()
    for name in "ab":
        gradual.add(name, partial(counting, done, name, 25))
    assert len(done) == 10
    while not gradual.is_idle:
        before = len(done)
        await asyncio.sleep(0)
        turns.append(len(done) - before)
    assert done == ["a"] * 25 + ["b"] * 25
    assert max(turns) <= 10


async def test_what_waits_is_not_added_twice() -> None:
    gradual, done = Gradual(), list[str]()
    for name in "abbab":
        gradual.add(name, partial(counting, done, name, 15))
    while not gradual.is_idle:
        await asyncio.sleep(0)
    # The first has begun when it comes again, and may have passed what has changed since.
    assert done == ["a"] * 15 + ["b"] * 15 + ["a"] * 15


async def test_a_failure_ends_only_its_own_work(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> Iterator[int]:
        yield AT_ONCE
        raise ValueError("spoilt")

    gradual, done = Gradual(), list[str]()
    gradual.add("a", failing)
    gradual.add("b", lambda: counting(done, "b", 15))
    while not gradual.is_idle:
        await asyncio.sleep(0)
    assert done == ["b"] * 15
    assert "spoilt" in caplog.text
