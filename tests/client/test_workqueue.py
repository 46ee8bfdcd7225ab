"""A work queue gives each key to one worker at a time, and forgets none."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.client.backoff import Backoff
from moorage.client.clock import Clock, ManualClock
from moorage.client.workqueue import WorkQueue, work

_START = datetime(2026, 1, 1, tzinfo=UTC)
_KEYS = st.sampled_from("abc")
_DELAYS = st.sampled_from([0.0, 0.5, 1.0, 5.0])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), _KEYS),
        st.tuples(st.just("later"), _KEYS, _DELAYS),
        st.tuples(st.just("retry"), _KEYS),
        st.tuples(st.just("forget"), _KEYS),
        st.tuples(st.just("take")),
        st.tuples(st.just("done")),
        st.tuples(st.just("pass"), st.sampled_from([0.4, 1.0, 3.0])),
    ),
    max_size=60,
)


class Model:
    """What a queue should hold, in the plainest words."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waiting: list[str] = []
        self.working: list[str] = []
        self.again: set[str] = set()
        self.later: dict[str, tuple[float, int]] = {}
        self.failures: dict[str, int] = {}
        self.number = 0

    def add(self, key: str) -> None:
        if key in self.working:
            self.again.add(key)
        elif key not in self.waiting:
            self.waiting.append(key)

    def add_after(self, key: str, seconds: float) -> None:
        self.number += 1
        if not seconds:
            self.add(key)
        elif key not in self.later or self.now + seconds < self.later[key][0]:
            self.later[key] = self.now + seconds, self.number

    def done(self, key: str) -> None:
        self.working.remove(key)
        if key in self.again:
            self.again.remove(key)
            self.waiting.append(key)

    def passes(self, seconds: float) -> None:
        self.now += seconds
        for key, (when, _) in sorted(self.later.items(), key=lambda each: each[1]):
            if when <= self.now + 1e-6:
                del self.later[key]
                self.add(key)


@given(_STEPS)
def test_a_queue_behaves_like_its_model(steps: list[tuple[str, ...]]) -> None:
    async def play() -> None:
        clock, model = ManualClock(_START), Model()
        queue: WorkQueue[str] = WorkQueue(clock, Backoff(0.5, 2.0))
        for step, *about in steps:
            match step, about:
                case "add", [key]:
                    queue.add(key)
                    model.add(key)
                case "later", [key, seconds]:
                    queue.add_after(key, float(seconds))
                    model.add_after(key, float(seconds))
                case "retry", [key]:
                    failures = model.failures.get(key, 0)
                    model.failures[key] = failures + 1
                    model.add_after(key, min(0.5 * 2**failures, 2.0))
                    assert queue.retry(key) == min(0.5 * 2**failures, 2.0)
                case "forget", [key]:
                    queue.forget(key)
                    model.failures.pop(key, None)
                case "take", _ if model.waiting:
                    key = model.waiting.pop(0)
                    model.working.append(key)
                    assert await queue.take() == key
                case "done", _ if model.working:
                    queue.done(model.working[0])
                    model.done(model.working[0])
                case "pass", [seconds]:
                    clock.advance(float(seconds))
                    model.passes(float(seconds))
            assert len(queue) == len(model.waiting)
            assert queue.is_idle == (not model.waiting and not model.working)
            assert all(queue.failures(key) == model.failures.get(key, 0) for key in "abc")

    asyncio.run(play())


async def test_a_key_that_is_added_while_it_is_worked_on_is_worked_on_again_afterwards() -> None:
    queue: WorkQueue[str] = WorkQueue(Clock())
    at_once, most, times = 0, 0, 0
    finished = asyncio.Event()

    async def reconcile(key: str) -> None:
        nonlocal at_once, most, times
        at_once += 1
        most = max(most, at_once)
        if times == 0:
            queue.add(key)
        await asyncio.sleep(0)
        at_once -= 1
        times += 1
        if times == 2:
            finished.set()

    workers = [asyncio.create_task(work(queue, reconcile, lambda *_: None)) for _ in range(3)]
    queue.add("key")
    await asyncio.wait_for(finished.wait(), 5)
    assert most == 1
    await _end(workers)


async def test_a_key_that_fails_is_tried_later_and_later_until_it_is_well() -> None:
    clock = ManualClock(_START)
    queue: WorkQueue[str] = WorkQueue(clock, Backoff(1.0, 3.0))
    tried: list[float] = []
    failed: list[str] = []

    async def reconcile(key: str) -> None:
        tried.append(clock.monotonic())
        if len(tried) < 5:
            raise ValueError(f"not yet, {key}")

    worker = asyncio.create_task(work(queue, reconcile, lambda key, error: failed.append(str(error))))
    queue.add("key")
    for _ in range(30):
        for _ in range(5):
            await asyncio.sleep(0)
        clock.advance(0.5)
    assert tried == [0.0, 1.0, 3.0, 6.0, 9.0]
    assert failed == ["not yet, key"] * 4
    assert queue.failures("key") == 0
    await _end([worker])


async def test_who_is_cancelled_while_waiting_takes_no_key_along() -> None:
    queue: WorkQueue[str] = WorkQueue(Clock())
    first, second = asyncio.create_task(queue.take()), asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.add("key")
    first.cancel()
    assert await asyncio.wait_for(second, 5) == "key"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_closed_queue_forgets_what_was_for_later() -> None:
    clock = ManualClock(_START)
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add_after("key", 1)
    queue.close()
    clock.advance(2)
    assert len(queue) == 0


@pytest.mark.parametrize("seconds", [0.0, -1.0])
async def test_a_key_for_now_or_for_the_past_is_worked_on_at_once(seconds: float) -> None:
    clock = ManualClock(_START)
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add_after("after", seconds)
    queue.add_at("at", _START + timedelta(seconds=seconds))
    assert len(queue) == 2


async def test_cancelling_drops_what_is_for_later_and_not_what_is_for_now() -> None:
    clock = ManualClock(_START)
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add("key")
    queue.add_at("key", _START + timedelta(seconds=5))
    queue.cancel("key")
    assert await queue.take() == "key"
    queue.retry("key")
    queue.done("key")
    clock.advance(0.01)
    assert await queue.take() == "key"
    queue.done("key")
    clock.advance(60)
    assert queue.is_idle


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
