"""The log of changes and its watchers, without a store around them."""

from __future__ import annotations

import asyncio

import pytest

from moorage.store.history import EVENT_BYTES, History
from moorage.store.protocol import Change, Compacted, Item, WatchEvent

pytestmark = pytest.mark.asyncio


def added(key: str, revision: int, size: int = 1) -> WatchEvent:
    return WatchEvent(Change.ADDED, Item(key, b"x" * size, revision), None)


async def test_what_comes_between_waking_and_reading_is_not_taken_for_seen() -> None:
    history = History(10)
    watcher = history.watch("/a/", 10)
    reading = asyncio.ensure_future(anext(watcher))
    await asyncio.sleep(0)
    history.append([added("/a/1", 11)], 11)
    history.append([added("/b/1", 12)], 12)
    history.append([added("/a/2", 13)], 13)
    assert await reading == [added("/a/1", 11), added("/a/2", 13)]


async def test_a_report_does_not_hide_a_change() -> None:
    history = History(10)
    watcher = history.watch("/a/", 10)
    reading = asyncio.ensure_future(anext(watcher))
    await asyncio.sleep(0)
    history.report()
    history.append([added("/a/1", 11)], 11)
    assert await reading == [added("/a/1", 11)]


async def test_small_changes_count_with_all_that_they_take() -> None:
    history = History(0, max_events=100_000, max_bytes=100 * EVENT_BYTES)
    for revision in range(1, 1001):
        history.append([added("/a", revision)], revision)
    assert len(history.after("/a", history.start)) < 100


async def test_the_log_keeps_the_latest_changes_only() -> None:
    history = History(0, max_events=100, max_bytes=100_000)
    for revision in range(1, 1001):
        history.append([added("/a", revision)], revision)
    assert 890 <= 1000 - len(history.after("/a", history.start)) == history.start <= 910
    with pytest.raises(Compacted, match=f"from revision {history.start} on"):
        history.after("/a", history.start - 1)
    history.append([added("/a", 1001, 99_500)], 1001)
    assert history.start == 1000


async def test_what_nobody_can_have_read_stays_however_large_it_is() -> None:
    history = History(0, max_events=2, max_bytes=10)
    history.append([added("/a", revision, 100) for revision in (1, 2, 3)], 3)
    assert [event.revision for event in history.after("/a", 0)] == [1, 2, 3]
    history.append([added("/a", 4)], 4)
    assert history.start == 3


async def test_a_watch_that_failed_fails_for_good_and_with_the_first_reason() -> None:
    history = History(0)
    history.fail(Compacted("first"))
    history.fail(Compacted("second"))
    for _ in range(2):
        with pytest.raises(Compacted, match="first"):
            await anext(history.watch("", 0))
