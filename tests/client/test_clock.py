"""A clock that is moved by hand does what is due, in order."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.client.clock import Clock, FastClock, ManualClock, timestamp

_START = datetime(2026, 1, 1, tzinfo=UTC)


def test_what_is_due_happens_in_order_at_its_own_time() -> None:
    clock = ManualClock(_START)
    heard: list[tuple[str, float]] = []
    for name, seconds in (("late", 30.0), ("early", 10.0), ("also early", 10.0), ("never", 31.0)):
        clock.call_later(seconds, lambda name=name: heard.append((name, clock.monotonic())))  # type: ignore[misc]
    clock.advance(30)
    assert heard == [("early", 10), ("also early", 10), ("late", 30)]
    assert clock.now() == _START + timedelta(seconds=30)


def test_what_is_cancelled_does_not_happen() -> None:
    clock = ManualClock(_START)
    heard: list[int] = []
    timer = clock.call_later(5, lambda: heard.append(1))
    clock.call_later(1, timer.cancel)
    clock.advance(10)
    assert heard == []


def test_what_is_called_may_call_again_within_the_same_move() -> None:
    clock = ManualClock(_START)
    heard: list[float] = []

    def tick() -> None:
        heard.append(clock.monotonic())
        clock.call_later(2, tick)

    clock.call_later(2, tick)
    clock.advance(7)
    assert heard == [2, 4, 6]


async def test_a_sleeper_wakes_when_the_clock_has_moved_so_far() -> None:
    clock = ManualClock(_START)
    sleeper = asyncio.create_task(clock.sleep(5))
    await asyncio.sleep(0)
    clock.advance(4.9)
    await asyncio.sleep(0)
    assert not sleeper.done()
    clock.advance(0.2)
    await sleeper


async def test_no_sleep_at_all_needs_no_move() -> None:
    await ManualClock(_START).sleep(0)
    await Clock().sleep(0)


@given(
    st.lists(st.tuples(st.floats(0, 100), st.booleans()), max_size=30),
    st.lists(st.floats(0, 50), min_size=1, max_size=5),
)
def test_timers_go_off_once_when_due_and_never_when_cancelled(
    timers: list[tuple[float, bool]], moves: list[float]
) -> None:
    clock = ManualClock(_START)
    heard: list[int] = []
    for number, (seconds, cancelled) in enumerate(timers):
        timer = clock.call_later(seconds, lambda number=number: heard.append(number))  # type: ignore[misc]
        if cancelled:
            timer.cancel()
    for seconds in moves:
        clock.advance(seconds)
    delays = [timedelta(seconds=seconds) for seconds, _ in timers]
    due = [
        (delay or timedelta(microseconds=seconds > 0), number)
        for number, (delay, (seconds, cancelled)) in enumerate(zip(delays, timers, strict=True))
        if not cancelled
    ]
    due = [(delay, number) for delay, number in due if _START + delay <= clock.now()]
    assert heard == [number for _, number in sorted(due)]


def test_times_are_spelled_as_kubernetes_does() -> None:
    moment = datetime(2026, 5, 4, 3, 2, 1, 42, tzinfo=timezone(timedelta(hours=2)))
    assert timestamp(moment) == "2026-05-04T01:02:01Z"
    assert timestamp(moment, micro=True) == "2026-05-04T01:02:01.000042Z"


async def test_the_machines_clock_calls_back() -> None:
    done = asyncio.Event()
    before = Clock().monotonic()
    Clock().call_later(-1, done.set)
    await asyncio.wait_for(done.wait(), 5)
    assert Clock().monotonic() >= before
    assert Clock().now().utcoffset() == timedelta(0)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_what_is_due_at_once_waits_for_the_next_move(seconds: float) -> None:
    clock = ManualClock(_START)
    heard: list[int] = []
    clock.call_later(seconds, lambda: heard.append(1))
    assert heard == []
    clock.advance(0)
    assert heard == [1]


async def test_time_that_runs_fast_brings_what_is_due_in_order_and_no_more() -> None:
    clock = FastClock()
    heard: list[str] = []
    for name, seconds in (("late", 30.0), ("early", 10.0), ("never", 3600.0)):
        clock.call_later(seconds, lambda name=name: heard.append(name))  # type: ignore[misc]
    clock.call_later(20, lambda: heard.append("cancelled")).cancel()
    before = clock.now(), clock.monotonic()
    await clock.run_fast(30.5)
    assert heard == ["early", "late"]
    assert timedelta(seconds=30.5) <= clock.now() - before[0] < timedelta(seconds=60)
    assert 30.5 <= clock.monotonic() - before[1] < 60


async def test_what_happens_every_few_seconds_happens_as_often_while_time_runs_fast() -> None:
    clock = FastClock()
    beats: list[float] = []

    async def beat() -> None:
        while True:
            await clock.sleep(10)
            beats.append(clock.monotonic())

    beating = asyncio.create_task(beat())
    await asyncio.sleep(0)
    await clock.run_fast(70)
    beating.cancel()
    assert 6 <= len(beats) <= 7
    assert all(later - earlier >= 10 for earlier, later in pairwise(beats))


async def test_time_goes_on_by_itself_when_it_does_not_run_fast() -> None:
    clock = FastClock()
    await clock.run_fast(5)
    done = asyncio.Event()
    clock.call_later(0.01, done.set)
    await asyncio.wait_for(done.wait(), 5)
    await clock.sleep(0)


def test_a_callback_that_is_set_again_for_a_rounding_error_later_does_not_come_for_ever() -> None:
    clock = ManualClock(_START)
    heard: list[float] = []

    def late() -> None:
        heard.append(clock.monotonic())
        if len(heard) < 3:
            clock.call_later(1e-16, late)

    clock.call_later(1, late)
    clock.advance(1)
    assert heard == [1.0]
    clock.advance(1)
    assert heard == [1.0, 1.000001, 1.000002]
