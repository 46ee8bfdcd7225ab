"""What both stores promise about watches: every change once, in order, from any revision still known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from moorage.store.protocol import Batch, Change, Compacted, Item, Store, StoreUnavailable, WatchEvent
from tests.store.backends import Backend, opened, replayed, take, value

pytestmark = pytest.mark.asyncio


async def some_changes(store: Store, root: str) -> list[WatchEvent]:
    """Create two objects, update one twice, delete it, create it anew."""
    first = await store.create(root + "a", value("one"))
    other = await store.create(root + "b", value("other"))
    second = await store.update(root + "a", value("two"), first.revision)
    third = await store.update(root + "a", value("three"), second.revision)
    gone = await store.delete(root + "a", third.revision)
    again = await store.create(root + "a", value("again"))
    return [
        WatchEvent(Change.ADDED, first, None),
        WatchEvent(Change.ADDED, other, None),
        WatchEvent(Change.MODIFIED, second, first),
        WatchEvent(Change.MODIFIED, third, second),
        WatchEvent(Change.DELETED, gone, third),
        WatchEvent(Change.ADDED, again, None),
    ]


async def test_a_watch_tells_what_will_happen(backend: Backend, root: str) -> None:
    async with opened(backend) as store, store.watch(root, await store.revision()) as batches:
        changes = await some_changes(store, root)
        assert await take(batches, len(changes)) == changes


async def test_a_watch_tells_what_has_happened_since_a_revision(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        start = await store.revision()
        changes = await some_changes(store, root)
        for index, after in enumerate([start, *(change.revision for change in changes[:-1])]):
            async with store.watch(root, after) as batches:
                assert await take(batches, len(changes) - index) == changes[index:]


async def test_a_watch_goes_from_the_past_to_the_future_without_a_seam(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        start = await store.revision()
        writing = asyncio.create_task(write_many(store, root, 150))
        await store.create(root + "first", b"")
        async with store.watch(root, start) as batches:
            events = await take(batches, 151)
        await writing
        assert [event.revision for event in events] == list(range(start + 1, start + 152))


async def write_many(store: Store, root: str, count: int) -> list[Item]:
    return await asyncio.gather(*(store.create(f"{root}{index}", value(index)) for index in range(count)))


async def test_a_watch_keeps_to_its_prefix(backend: Backend, root: str) -> None:
    names = ("b", "b-c/x", "b/a", "b/b", "bc", "b0", "c")
    async with opened(backend) as store:
        start = await store.revision()
        async with (
            store.watch(root + "b", start) as wide,
            store.watch(root + "b/", start) as narrow,
            store.watch(root + "b/b", start) as single,
        ):
            items = [await store.create(root + name, value(name)) for name in names]
            assert [event.item for event in await take(wide, 6)] == items[:6]
            assert [event.item for event in await take(narrow, 2)] == items[2:4]
            assert [event.item for event in await take(single, 1)] == items[3:4]


async def test_a_watch_from_a_revision_still_to_come_waits_for_it(backend: Backend, root: str) -> None:
    async with opened(backend) as store, store.watch(root, await store.revision() + 2) as batches:
        items = [await store.create(f"{root}{name}", value(name)) for name in "abcd"]
        assert [event.item for event in await take(batches, 2)] == items[2:]


async def test_a_watcher_that_resumes_misses_and_repeats_nothing(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        seen = start = await store.revision()
        events: list[WatchEvent] = []
        writing = asyncio.create_task(write_many(store, root, 100))
        while len(events) < 100:
            async with store.watch(root, seen) as batches:
                batch = await anext(batches)
            events += batch
            assert seen <= batch.revision
            assert batch.revision >= max((event.revision for event in batch), default=0)
            seen = batch.revision
        assert [event.revision for event in events] == list(range(start + 1, start + 101))
        assert {event.item for event in events} == set(await writing)


async def test_a_watch_that_is_abandoned_in_the_middle_goes_on_later(backend: Backend, root: str) -> None:
    async with opened(backend) as store, store.watch(root, await store.revision()) as batches:
        for name in "abc":
            reading = asyncio.ensure_future(anext(batches))
            await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait([reading])
            item = await store.create(root + name, value(name))
            assert [event.item for event in await take(batches, 1)] == [item]


async def test_a_watch_says_when_nothing_happened(backend: Backend, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moorage.store.sqlite.PROGRESS_SECONDS", 0.05)
    async with opened(backend) as store, store.watch(root + "quiet/", await store.revision()) as batches:
        item = await store.create(root + "busy", value("busy"))
        batch = await anext(batches)
        while batch.revision < item.revision:
            assert batch == []
            batch = await anext(batches)
        assert batch == []
        assert batch.revision == item.revision


async def test_a_quiet_watch_does_not_grow_old(backend: Backend, root: str) -> None:
    async with opened(backend, max_events=10) as store:
        start = await store.revision()
        async with store.watch(root + "quiet/", start) as quiet, store.watch(root, start) as busy:
            reading = asyncio.ensure_future(take(quiet, 1))
            for index in range(30):
                await store.create(f"{root}{index}", b"")
                await take(busy, 1)
            item = await store.create(f"{root}quiet/a", b"")
            assert [event.item for event in await reading] == [item]


async def test_a_watcher_that_is_too_slow_is_told_to_list_again(backend: Backend, root: str) -> None:
    async with opened(backend, max_events=10) as store:
        start = await store.revision()
        async with store.watch(root, start) as slow, store.watch(root, start) as quick:
            for index in range(30):
                item = await store.create(f"{root}{index}", b"")
                assert [event.item for event in await take(quick, 1)] == [item]
            with pytest.raises(Compacted):
                await anext(slow)


async def test_large_objects_make_a_history_short(backend: Backend, root: str) -> None:
    async with opened(backend, max_bytes=10_000) as store:
        start = await store.revision()
        async with store.watch(root, start) as slow, store.watch(root, start) as quick:
            for index in range(12):
                await store.create(f"{root}{index}", b"x" * 1000)
                await take(quick, 1)
            with pytest.raises(Compacted):
                await anext(slow)


async def test_what_is_compacted_cannot_be_watched(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        start = await store.revision()
        changes = await some_changes(store, root)
        deletion = changes[4].revision
        await store.compact(deletion)
        for after in (start, deletion - 1):
            async with store.watch(root, after) as batches:
                with pytest.raises(Compacted):
                    await take(batches, 1)
        async with store.watch(root, deletion) as batches:
            assert await take(batches, 1) == changes[5:]


async def test_a_watcher_who_has_seen_everything_does_not_mind_a_compaction(backend: Backend, root: str) -> None:
    async with opened(backend) as store, store.watch(root, await store.revision()) as batches:
        changes = await some_changes(store, root)
        assert await take(batches, 6) == changes
        await store.compact(changes[-1].revision)
        item = await store.create(root + "c", b"")
        assert [event.item for event in await take(batches, 1)] == [item]


async def test_after_a_failed_watch_a_new_one_works(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        start = await store.revision()
        changes = await some_changes(store, root)
        await store.compact(changes[2].revision)
        async with store.watch(root, start) as batches:
            with pytest.raises(Compacted):
                await take(batches, 1)
            async with store.watch(root, changes[2].revision) as other:
                assert await take(other, 3) == changes[3:]


async def test_watchers_of_one_prefix_share_what_they_read(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        start = await store.revision()
        async with store.watch(root, start) as one, store.watch(root, start) as other:
            readers = [asyncio.ensure_future(first_change(watcher)) for watcher in (one, other)]
            await asyncio.sleep(0)
            await store.create(root + "a", value("one"))
            mine, theirs = await asyncio.gather(*readers)
            assert mine is theirs


async def first_change(batches: AsyncIterator[Batch]) -> Batch:
    while not (batch := await anext(batches)):
        pass
    return batch


async def test_every_watcher_replays_to_the_same_state(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        start = await store.revision()

        async def write(name: str) -> None:
            item = await store.create(root + name, value(0))
            for turn in range(4):
                item = await store.update(item.key, value(turn), item.revision)
            if name < "d":
                await store.delete(item.key, item.revision)

        async def follow(events: list[WatchEvent], total: int) -> None:
            async with store.watch(root, start) as batches:
                events += await take(batches, total)

        followed: list[list[WatchEvent]] = [[] for _ in range(20)]
        await asyncio.gather(*(follow(events, 6 * 5 + 3) for events in followed), *map(write, "abcdef"))
        assert all(events == followed[0] for events in followed)
        assert sorted(replayed([], followed[0]).values()) == (await store.list(root)).items


async def test_a_watch_ends_with_its_store(backend: Backend, root: str) -> None:
    store = await backend.open()
    async with store.watch(root, await store.revision()) as batches:
        reading = asyncio.ensure_future(take(batches, 1))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            await reading
    with pytest.raises(StoreUnavailable, match="closed"):
        async with store.watch(root, 1) as batches:
            await anext(batches)
