"""On virtual time nobody waits: the clock moves on when nothing is left to be done, and never while a thread works."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta

from moorage.apiserver.base.offload import LARGE, offload
from moorage.match.evaluations import EVALUATIONS
from moorage.pace import SLICES
from moorage.tools.simulation.virtualtime import VirtualClock, played

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = 86_400.0


def test_a_day_takes_no_time() -> None:
    async def story() -> list[tuple[float, str]]:
        clock, seen = VirtualClock(START), list[tuple[float, str]]()
        clock.call_later(DAY / 2, lambda: seen.append((clock.monotonic(), "noon")))
        clock.call_later(60, lambda: seen.append((clock.monotonic(), "cancelled"))).cancel()
        await asyncio.gather(clock.sleep(DAY), asyncio.sleep(DAY / 4))
        seen.append((clock.monotonic(), "midnight"))
        assert clock.now() == START + timedelta(days=1)
        return seen

    begun = time.process_time()
    assert played(story()) == [(DAY / 2, "noon"), (DAY, "midnight")]
    assert time.process_time() - begun < DAY / 1000


def test_no_time_passes_while_a_thread_works() -> None:
    async def story() -> list[float]:
        clock, release, times = VirtualClock(START), threading.Event(), list[float]()
        clock.call_later(DAY, lambda: times.append(clock.monotonic()))

        def work() -> None:
            assert release.wait(60)

        jobs = (asyncio.to_thread(work), EVALUATIONS.run(work), offload(LARGE, work))
        waiting = [asyncio.ensure_future(job) for job in jobs]
        threading.Timer(0.05, release.set).start()
        await asyncio.gather(*waiting)
        times.append(clock.monotonic())
        await clock.sleep(DAY)
        return times

    assert played(story()) == [0.0, DAY]


def test_only_timers_that_somebody_set_are_a_reason_to_go_on() -> None:
    async def story() -> list[float | None]:
        clock = VirtualClock(START)
        sleeping = asyncio.ensure_future(clock.sleep(10))
        found = [clock.next_timer()]
        timer = clock.call_later(60, lambda: None)
        found.append(clock.next_timer())
        timer.cancel()
        found.append(clock.next_timer())
        clock.call_later(5, lambda: None)
        await sleeping
        found += [clock.next_timer(), clock.rang]
        return found

    assert played(story()) == [None, 60.0, None, None, 10.0]


def test_how_long_work_takes_on_this_machine_is_not_seen() -> None:
    async def story() -> list[float]:
        clock = SLICES.get()
        times = [clock()]
        await asyncio.sleep(DAY)
        return [*times, clock()]

    assert played(story()) == [0, DAY]
    assert SLICES.get() is time.monotonic
