"""The log of changes and its watchers, without a store around them."""

from __future__ import annotations

import asyncio
import random

import pytest

from moorage.store.history import EVENT_BYTES, IN_A_ROUND, LOOKED_AT, SHARED_BYTES, History
from moorage.store.protocol import Change, Compacted, Item, WatchEvent
from tests.seeds import seed

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


@pytest.mark.parametrize("wake", ["change", "report", "own report"])
async def test_what_happens_elsewhere_while_a_watcher_waits_is_not_missing_later(wake: str) -> None:
    history = History(0, max_events=100)
    watcher = history.watch("/a/", 0)
    reading = asyncio.ensure_future(anext(watcher))
    await asyncio.sleep(0)
    for revision in range(1, 1001):
        history.append([added("/b/1", revision)], revision)
    expected = [added("/a/1", 1001)] if wake == "change" else []
    if wake == "change":
        history.append(expected, 1001)
    elif wake == "report":
        history.report()
    else:
        watcher.report()
    assert history.start > 0
    assert await reading == expected
    assert watcher.seen == history.revision


@pytest.mark.seeded
async def test_a_change_wakes_those_who_watch_the_beginning_of_its_key_and_nobody_else() -> None:
    chance = random.Random(seed(1))
    for _ in range(200):
        keys = ["/" + "/".join(chance.choices("ab", k=chance.randint(1, 4))) for _ in range(chance.randint(1, 3))]
        prefixes = ["", "/", *{"/" + "".join(chance.choices("ab/", k=chance.randint(1, 6))) for _ in range(8)}]
        history = History(0)
        reading = {prefix: asyncio.ensure_future(anext(history.watch(prefix, 0))) for prefix in prefixes}
        await asyncio.sleep(0)
        history.append([added(key, 1) for key in keys], 1)
        for _ in range(3):
            await asyncio.sleep(0)
        woken = {prefix for prefix, read in reading.items() if read.done()}
        assert woken == {prefix for prefix in prefixes if any(key.startswith(prefix) for key in keys)}
        for read in reading.values():
            read.cancel()


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


async def test_changes_elsewhere_are_looked_at_in_pieces_and_others_run_meanwhile() -> None:
    history = History(0)
    for revision in range(1, 90_001):
        history.append([added("/elsewhere", revision)], revision)
    history.append([added("/here/1", 90_001)], 90_001)
    batch = history.after("/here/", 0)
    assert (batch, batch.revision) == ([], LOOKED_AT)

    rounds = 0
    watchers = [history.watch("/here/", number) for number in range(10)]
    reading = asyncio.gather(*map(anext, watchers))
    while not reading.done():
        await asyncio.sleep(0)
        rounds += 1
    assert [[event.revision for event in batch] for batch in await reading] == [[90_001]] * 10
    assert rounds >= 10 * 90_000 / IN_A_ROUND


async def test_a_revision_is_looked_at_as_a_whole() -> None:
    history = History(0)
    for revision in range(1, 501):
        history.append([added(f"/here/{at}", revision) for at in range(3)], revision)
    seen, batches = 0, []
    while seen < 500:
        batch = history.after("/elsewhere/", seen)
        assert not batch
        batches.append(seen := batch.revision)
    assert batches == [334, 500]


async def test_what_was_undone_is_found_in_pieces_with_what_changes_meanwhile() -> None:
    history = History(0)
    for revision in range(1, 50_001):
        history.append([added(f"/here/{revision}", revision)], revision)
    looking = asyncio.ensure_future(history.undone("/here/", 10))
    rounds = 0
    while not looking.done():
        await asyncio.sleep(0)
        rounds += 1
        if rounds == 1:
            history.append([added("/here/new", 50_001)], 50_001)
    assert rounds >= 2
    assert await looking == {f"/here/{each}": None for each in (*range(11, 50_001), "new")}


async def test_batches_are_shared_by_those_who_ask_the_same_while_they_are_not_too_large_together() -> None:
    history = History(0)
    history.append([added(f"/here/{revision}", revision, 1 << 20) for revision in range(1, 41)], 40)
    first = history.after("/here/", 0)
    assert history.after("/here/", 0) is first
    batches = [history.after("/here/", revision) for revision in range(40)]
    again = [history.after("/here/", revision) for revision in range(40)]
    assert batches == again
    assert sum(old is new for old, new in zip(batches, again, strict=True)) <= SHARED_BYTES >> 20
    history.append([added("/here/x", 41)], 41)
    assert history.after("/here/", 40) is history.after("/here/", 40)
