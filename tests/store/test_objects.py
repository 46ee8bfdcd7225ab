"""What both stores promise about objects: one revision a change, and nobody overwrites what he has not read."""

from __future__ import annotations

import asyncio
import random

import pytest

from moorage.store.protocol import Item, KeyExists, KeyMissing, RevisionConflict, Store, StoreError, StoreUnavailable
from tests.store.backends import Backend, opened, value

pytestmark = pytest.mark.asyncio


async def test_what_is_created_is_read_back_as_it_was_given(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        item = await store.create(root + "a", value("one"))
        assert item == Item(root + "a", value("one"), await store.revision())
        assert await store.get(root + "a") == item
        assert await store.get(root + "b") is None


@pytest.mark.parametrize(
    "given", [b"", b"\0\xff" * 10, random.Random(1).randbytes(1024 * 1024)], ids=["empty", "binary", "a megabyte"]
)
async def test_any_bytes_are_a_value(backend: Backend, root: str, given: bytes) -> None:
    async with opened(backend) as store:
        await store.create(root + "a", given)
        found = await store.get(root + "a")
        assert found
        assert found.value == given


async def test_the_body_of_an_item_carries_its_revision(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        item = await store.create(root + "a", value("one"))
        assert item.body == b'{"metadata":{"resourceVersion":"%d"},"text":"one"}' % item.revision


async def test_an_object_is_created_once(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        first = await store.create(root + "a", value("one"))
        with pytest.raises(KeyExists):
            await store.create(root + "a", value("two"))
        assert await store.get(root + "a") == first


async def test_an_update_names_the_revision_it_replaces(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        first = await store.create(root + "a", value("one"))
        second = await store.update(root + "a", value("two"), first.revision)
        assert second == Item(root + "a", value("two"), first.revision + 1)
        with pytest.raises(RevisionConflict) as refused:
            await store.update(root + "a", value("three"), first.revision)
        assert refused.value.current == second
        assert await store.get(root + "a") == second


async def test_a_deletion_returns_the_object_with_the_revision_of_the_deletion(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        first = await store.create(root + "a", value("one"))
        second = await store.update(root + "a", value("two"), first.revision)
        with pytest.raises(RevisionConflict) as refused:
            await store.delete(root + "a", first.revision)
        assert refused.value.current == second
        assert await store.delete(root + "a", second.revision) == second._replace(revision=second.revision + 1)
        assert await store.get(root + "a") is None


@pytest.mark.parametrize("revision", [0, 1, 10**12])
async def test_what_is_not_there_is_neither_updated_nor_deleted(backend: Backend, root: str, revision: int) -> None:
    async with opened(backend) as store:
        with pytest.raises(KeyMissing):
            await store.update(root + "a", value("one"), revision)
        with pytest.raises(KeyMissing):
            await store.delete(root + "a", revision)
        assert await store.get(root + "a") is None


async def test_no_revision_is_no_licence_to_overwrite(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        await store.create(root + "a", value("one"))
        with pytest.raises(RevisionConflict):
            await store.update(root + "a", value("two"), 0)
        with pytest.raises(RevisionConflict):
            await store.delete(root + "a", 0)


async def test_every_change_costs_one_revision_and_a_refusal_none(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        start = await store.revision()
        first = await store.create(root + "a", value("one"))
        for refused in (
            store.create(root + "a", b""),
            store.update(root + "a", b"", start),
            store.delete(root + "b", start),
        ):
            with pytest.raises(StoreError):
                await refused
        second = await store.update(root + "a", value("two"), first.revision)
        gone = await store.delete(root + "a", second.revision)
        again = await store.create(root + "a", value("one"))
        revisions = [first.revision, second.revision, gone.revision, again.revision]
        assert revisions == list(range(start + 1, start + 5))
        assert await store.revision() == start + 4


async def test_what_was_written_is_there_after_a_restart(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        items = [await store.create(f"{root}{name}", value(name)) for name in "abc"]
        gone = await store.delete(items[2].key, items[2].revision)
    async with opened(backend) as store:
        assert await store.revision() == gone.revision
        page = await store.list(root)
        assert (page.items, page.revision, page.remaining) == (items[:2], gone.revision, 0)
        assert (await store.create(root + "d", value("d"))).revision == gone.revision + 1


async def clients(backend: Backend) -> list[Store]:
    """Several clients: as many stores as the backend takes, and each of them more than once."""
    stores = [await backend.open() for _ in range(backend.clients)]
    return [stores[index % len(stores)] for index in range(12)]


async def test_of_those_who_create_at_once_one_wins(backend: Backend, root: str) -> None:
    stores = await clients(backend)
    results = await asyncio.gather(
        *(store.create(root + "a", value(index)) for index, store in enumerate(stores)), return_exceptions=True
    )
    won = [result for result in results if isinstance(result, Item)]
    assert [type(result) for result in results].count(KeyExists) == len(stores) - 1
    assert won == [await stores[0].get(root + "a")]
    await asyncio.gather(*(store.close() for store in set(stores)))


async def test_of_those_who_update_at_once_one_wins_and_the_others_see_what_won(backend: Backend, root: str) -> None:
    stores = await clients(backend)
    first = await stores[0].create(root + "a", value("first"))
    results = await asyncio.gather(
        *(store.update(root + "a", value(index), first.revision) for index, store in enumerate(stores)),
        return_exceptions=True,
    )
    (won,) = (result for result in results if isinstance(result, Item))
    conflicts = [result for result in results if isinstance(result, RevisionConflict)]
    assert len(conflicts) == len(stores) - 1
    assert all(conflict.current == won for conflict in conflicts)
    await asyncio.gather(*(store.close() for store in set(stores)))


async def test_no_increment_of_a_shared_counter_is_lost(backend: Backend, root: str) -> None:
    stores = await clients(backend)
    current = await stores[0].create(root + "count", b"0")

    async def increment(store: Store, current: Item, times: int) -> None:
        while times:
            try:
                current = await store.update(current.key, b"%d" % (int(current.value) + 1), current.revision)
                times -= 1
            except RevisionConflict as conflict:
                current = conflict.current

    await asyncio.gather(*(increment(store, current, 5) for store in stores))
    total = await stores[0].get(current.key)
    assert total
    assert int(total.value) == 5 * len(stores)
    assert total.revision == current.revision + 5 * len(stores)
    await asyncio.gather(*(store.close() for store in set(stores)))


async def test_an_object_can_be_created_anew_as_soon_as_its_deletion_was_asked_for(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        first = await store.create(root + "a", value("first"))
        deletion = asyncio.create_task(store.delete(root + "a", first.revision))
        await asyncio.sleep(0)
        while isinstance(again := await attempt(store, root + "a"), KeyExists):
            await asyncio.sleep(0)
        assert isinstance(again, Item)
        assert (await deletion).revision == again.revision - 1


async def attempt(store: Store, key: str) -> Item | KeyExists:
    try:
        return await store.create(key, value("again"))
    except KeyExists as exists:
        return exists


async def test_a_caller_who_gives_up_leaves_the_key_usable(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        caller = asyncio.create_task(store.create(root + "a", value("one")))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])
        current = await store.get(root + "a")
        assert caller.cancelled()
        try:
            current = await store.create(root + "a", value("two"))
        except KeyExists:
            current = await store.get(root + "a")
        assert current
        assert (await store.update(root + "a", value("three"), current.revision)).revision > current.revision


async def test_a_key_that_cannot_be_written_fails_alone(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        results = await asyncio.gather(
            store.create(root + "a", b"1"), store.create(root + "\ud800", b"2"), return_exceptions=True
        )
        assert isinstance(results[0], Item)
        assert isinstance(results[1], UnicodeEncodeError)


async def test_a_closed_store_says_so(backend: Backend, root: str) -> None:
    store = await backend.open()
    item = await store.create(root + "a", value("one"))
    await store.close()
    await store.close()
    for refused in (store.create(root + "b", b""), store.update(root + "a", b"", item.revision)):
        with pytest.raises(StoreUnavailable, match="closed"):
            await refused


async def test_writes_under_way_are_finished_before_the_store_closes(backend: Backend, root: str) -> None:
    store = await backend.open()
    writes = [asyncio.create_task(store.create(f"{root}{index}", b"x")) for index in range(50)]
    await asyncio.sleep(0)
    await store.close()
    done = await asyncio.gather(*writes, return_exceptions=True)
    kept = {item for item in done if isinstance(item, Item)}
    assert kept
    async with opened(backend) as again:
        assert kept <= set((await again.list(root)).items)


async def test_an_object_and_what_goes_along_are_written_together(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        quota = await store.create(root + "quota", value("0"))
        pod = await store.create(root + "pod", value("pod"), along=[quota._replace(value=value("1"))])
        charged = await store.get(root + "quota")
        assert charged is not None
        assert charged.value == value("1")
        assert quota.revision < pod.revision <= charged.revision
        changed = await store.update(
            root + "pod", value("larger"), pod.revision, along=[charged._replace(value=value("2"))]
        )
        assert await store.get(root + "pod") == changed


async def test_nothing_is_written_when_what_goes_along_has_changed(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        old = await store.create(root + "quota", value("0"))
        now = await store.update(root + "quota", value("1"), old.revision)
        with pytest.raises(RevisionConflict) as refused:
            await store.create(root + "pod", value("pod"), along=[old])
        assert refused.value.current == now
        assert await store.get(root + "pod") is None
        await store.delete(root + "quota", now.revision)
        with pytest.raises(KeyMissing):
            await store.create(root + "pod", value("pod"), along=[now])
        assert await store.get(root + "pod") is None


async def test_what_goes_along_stays_when_the_object_is_refused(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        quota = await store.create(root + "quota", value("0"))
        pod = await store.create(root + "pod", value("pod"))
        with pytest.raises(KeyExists):
            await store.create(root + "pod", value("pod"), along=[quota._replace(value=value("1"))])
        with pytest.raises(RevisionConflict) as refused:
            await store.update(root + "pod", b"", pod.revision + 1, along=[quota._replace(value=value("1"))])
        assert refused.value.current == pod
        assert await store.get(root + "quota") == quota


async def test_those_who_count_along_count_each_other(backend: Backend, root: str) -> None:
    """Many writers that each add one to a counter, some on the same two counters in another order, lose none."""
    async with opened(backend) as store:
        names = [root + "counter-a", root + "counter-b"]
        for name in names:
            await store.create(name, b"0")

        async def add(number: int) -> None:
            while True:
                found = [item for name in names if (item := await store.get(name)) is not None]
                raised = [item._replace(value=b"%d" % (int(item.value) + 1)) for item in found]
                try:
                    await store.create(f"{root}object-{number}", b"", along=raised[:: 1 if number % 2 else -1])
                except RevisionConflict:
                    continue
                return

        await asyncio.gather(*(add(number) for number in range(12)))
        assert [item.value for item in (await store.list(root + "counter-")).items] == [b"12", b"12"]


async def test_several_places_are_read_together(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        names = ("a/1", "a/12", "b/1", "c")
        items = [await store.create(root + name, value(name)) for name in names]
        found = await store.read_each([root + place for place in ("b/", "a/", "none/", "none", "c", "a/1")])
        assert [list(each) for each in found] == [[items[2]], items[:2], [], [], [items[3]], [items[0]]]
        assert list(await store.read_each([])) == []


async def test_what_is_read_together_follows_every_change(backend: Backend, root: str) -> None:
    """What was read before is not read again while nothing of its kind has changed; whatever has changed is seen."""
    group = f"/registry/{root.strip('/').replace('/', '-')}"
    places = [f"{group}{place}" for place in ("/", "/jobs/", "/jobs/a/", "/jobs/b/", "/nodes/", "/none/")]
    randomly, kept = random.Random(7), dict[str, Item]()
    async with opened(backend) as store:
        for number in range(60):
            key = f"{group}/{randomly.choice(('jobs/a/', 'jobs/b/', 'nodes/'))}{randomly.randrange(3)}"
            if key not in kept:
                kept[key] = await store.create(key, value(number))
            elif randomly.random() < 0.5:
                kept[key] = await store.update(key, value(number), kept[key].revision)
            else:
                await store.delete(key, kept.pop(key).revision)
            for place, found in zip(places, await store.read_each(places), strict=True):
                assert list(found) == [kept[each] for each in sorted(kept) if each.startswith(place)]
