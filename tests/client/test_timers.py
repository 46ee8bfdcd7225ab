"""Timers call each key once, at the earliest time that was set, whatever the wall clock does."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from moorage.client.clock import ManualClock
from moorage.client.timers import Timers

START = datetime(2026, 1, 1, tzinfo=UTC)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from("abc"), st.integers(0, 9)),
        st.tuples(st.just("cancel"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("pass"), st.just(""), st.integers(0, 5)),
    ),
    max_size=40,
)


@given(STEPS)
def test_each_key_is_called_once_at_the_earliest_time_that_was_set(steps: list[tuple[str, str, int]]) -> None:
    clock, called = ManualClock(START), []
    timers: Timers[str] = Timers(clock, lambda key: called.append((clock.monotonic(), key)))
    now, times, expected = 0, dict[str, int](), []
    for step, key, seconds in steps:
        if step == "set":
            timers.set(key, seconds)
            times[key] = min(times.get(key, 1000), now + seconds)
        elif step == "cancel":
            timers.cancel(key)
            times.pop(key, None)
        else:
            clock.advance(seconds)
            now += seconds
            due = [(time, key) for key, time in times.items() if time <= now]
            expected += due
            for _, one in due:
                del times[one]
        assert sorted(called) == sorted(expected)
        assert len(timers) == len(times)


def test_a_closed_set_of_timers_calls_nobody_and_the_longest_time_is_taken() -> None:
    clock, called = ManualClock(START), list[str]()
    timers: Timers[str] = Timers(clock, called.append)
    timers.set("never", 2**63)
    timers.set("soon", 1)
    timers.close()
    clock.advance(10_000)
    assert called == []


def test_a_clock_that_is_set_back_delays_nothing() -> None:
    clock, called = ManualClock(START), list[str]()
    timers: Timers[str] = Timers(clock, called.append)
    timers.set("soon", 5)
    clock.jump(-3600)
    clock.advance(5)
    assert called == ["soon"]


def test_a_time_that_no_float_hits_exactly_is_not_missed() -> None:
    clock, called = ManualClock(START), list[str]()
    timers: Timers[str] = Timers(clock, called.append)
    clock.advance(0.2)
    timers.set("third", 0.1)
    clock.advance(0.1)
    assert called == ["third"]
