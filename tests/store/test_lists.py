"""What both stores promise about lists: in the order of keys, below a prefix, as of one revision."""

from __future__ import annotations

import asyncio

import pytest

from moorage.store.protocol import Compacted, Item, Page, Store, StoreUnavailable
from tests.store.backends import Backend, opened, value

pytestmark = pytest.mark.asyncio

NAMES = (
    "b",
    "b-c/x",
    "b.c/x",
    "b/",
    "b/a",
    "b/b",
    "b/ba",
    "b0",
    "bb/c",
    "c",
    "é",
    "\uffff",
    "\U0001f6a2",
    "\U0010ffff",
)


async def fill(store: Store, root: str, count: int) -> list[Item]:
    creates = (store.create(f"{root}{index:04}", value(index)) for index in range(count))
    return sorted(await asyncio.gather(*creates))


async def pages(store: Store, prefix: str, limit: int) -> list[Page]:
    """Walk a list as clients do: the later pages at the revision of the first."""
    collected = [await store.list(prefix, limit=limit)]
    while collected[-1].remaining:
        last = collected[-1]
        collected.append(await store.list(prefix, revision=last.revision, limit=limit, after=last.items[-1].key))
    return collected


def names(page: Page, root: str) -> list[str]:
    return [item.key.removeprefix(root) for item in page.items]


async def test_a_list_is_in_the_order_of_keys(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        for name in reversed(NAMES):
            await store.create(root + name, value(name))
        page = await store.list(root)
        assert names(page, root) == sorted(NAMES) == sorted(NAMES, key=str.encode)
        assert (page.revision, page.remaining) == (await store.revision(), 0)


@pytest.mark.parametrize("prefix", ["", "b", "b/", "b/b", "b-", "bb", "x", "\U0001f6a2", "\U0010ffff", "b/ba/"])
async def test_a_prefix_is_a_prefix_of_characters(backend: Backend, root: str, prefix: str) -> None:
    async with opened(backend) as store:
        for name in NAMES:
            await store.create(root + name, value(name))
        expected = sorted(name for name in NAMES if name.startswith(prefix))
        assert names(await store.list(root + prefix), root) == expected
        for after in ("", "a", *NAMES, "z"):
            page = await store.list(root + prefix, after=root + after, limit=2)
            rest = [name for name in expected if name > after]
            assert (names(page, root), page.remaining) == (rest[:2], len(rest[2:]))


async def test_without_a_prefix_everything_is_listed(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        mine = [await store.create(root + name, value(name)) for name in sorted(NAMES)]
        everything = await store.list("")
        assert [item for item in everything.items if item.key.startswith(root)] == mine


async def test_what_is_not_there_is_an_empty_list(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        assert await store.list(root) == Page([], await store.revision(), 0)


@pytest.mark.parametrize("limit", [1, 7, 24, 25, 26])
async def test_collectedadd_up_to_the_list(backend: Backend, root: str, limit: int) -> None:
    async with opened(backend) as store:
        items = await fill(store, root, 25)
        parts = await pages(store, root, limit)
        assert [item for page in parts for item in page.items] == items
        assert [page.remaining for page in parts] == [max(0, 25 - limit * (index + 1)) for index in range(len(parts))]
        assert {page.revision for page in parts} == {await store.revision()}


async def test_a_list_longer_than_etcd_should_send_at_once(
    backend: Backend, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moorage.store.etcd.PAGE_ITEMS", 10)
    async with opened(backend) as store:
        items = await fill(store, root, 45)
        assert await store.list(root) == Page(items, await store.revision(), 0)
        assert await store.list(root, limit=25) == Page(items[:25], await store.revision(), 20)
        assert await store.list(root, limit=30, after=items[9].key) == Page(items[10:40], await store.revision(), 5)


async def test_an_older_revision_is_listed_as_it_was(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        known = [await store.list(root)]
        first = await fill(store, root, 6)
        known.append(await store.list(root))
        await store.update(first[1].key, value("new"), first[1].revision)
        known.append(await store.list(root))
        await store.delete(first[0].key, first[0].revision)
        known.append(await store.list(root))
        await store.create(first[0].key, value("again"))
        await store.create(f"{root}0002a", value("between"))
        last = await store.delete(first[5].key, first[5].revision)
        known.append(await store.list(root))
        assert known[-1].revision == last.revision
        for page in known:
            assert await store.list(root, revision=page.revision) == page
            for limit in (1, 2, 5, 9):
                part = await store.list(root, revision=page.revision, limit=limit)
                assert part == Page(page.items[:limit], page.revision, max(0, len(page.items) - limit))
                part = await store.list(root, revision=page.revision, limit=limit, after=f"{root}0001")
                rest = [item for item in page.items if item.key > f"{root}0001"]
                assert part == Page(rest[:limit], page.revision, max(0, len(rest) - limit))


async def test_collectedagree_while_others_write(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        items = await fill(store, root, 60)
        before = await store.revision()

        async def disturb(item: Item) -> None:
            changed = await store.update(item.key, value("disturbed"), item.revision)
            await store.create(item.key + "-more", value("more"))
            await store.delete(item.key, changed.revision)

        walk = asyncio.create_task(pages(store, root, 5))
        await asyncio.sleep(0)
        await asyncio.gather(*(disturb(item) for item in items))
        parts = await walk
        (revision,) = {page.revision for page in parts}
        whole = await store.list(root, revision=revision)
        assert [item for page in parts for item in page.items] == whole.items
        assert revision >= before
        assert (await store.list(root, revision=before)).items == items


async def test_a_revision_that_is_still_to_come_cannot_be_listed(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        with pytest.raises(StoreUnavailable, match="still to come"):
            await store.list(root, revision=await store.revision() + 1)
        with pytest.raises(StoreUnavailable, match="still to come"):
            await store.compact(await store.revision() + 1)


async def test_compaction_forgets_what_was_before_and_keeps_what_is(backend: Backend, root: str) -> None:
    async with opened(backend) as store:
        items = await fill(store, root, 3)
        first = await store.update(items[0].key, value("new"), items[0].revision)
        second = await store.update(items[0].key, value("newer"), first.revision)
        page = await store.list(root)
        await store.compact(first.revision)
        await store.compact(first.revision - 1)
        assert (await store.list(root, revision=first.revision)).items == [first, *items[1:]]
        assert await store.list(root) == page
        with pytest.raises(Compacted):
            await store.list(root, revision=first.revision - 1)
        await store.compact(second.revision)
        assert await store.list(root, revision=second.revision) == page
        with pytest.raises(Compacted):
            await store.list(root, revision=first.revision)
