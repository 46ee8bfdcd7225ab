"""A full disk refuses writes, not deletions; nothing acknowledged is lost, and space that is there again is used."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.store.protocol import HEAD, CannotOpen, Item, Store, StoreFull
from moorage.store.reserve import SIZE
from tests.cycles import freed_at_once
from tests.store.backends import Sqlite, opened, value
from tests.store.smalldisk import fill, small_disk
from tests.store.test_damage import make_old

MEGABYTES = 24


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", MEGABYTES) as folder:
        yield folder


def large(number: int) -> bytes:
    return value(f"{number} " + "x" * 3000)


def marked(item: Item) -> bytes:
    """An object that is being deleted and waits for its finalizers."""
    return item.value.replace(HEAD, HEAD.replace(b"{", b'{"deletionTimestamp":"2026-01-01T00:00:00Z",', 1), 1)


async def filled(store: Store, disk: Path) -> list[Item]:
    """The objects of a store whose disk was filled by others while it was written."""
    items = list(await asyncio.gather(*(store.create(f"/{index:05}", large(index)) for index in range(200))))
    fill(disk)
    for index in range(10_000):
        try:
            items.append(await store.create(f"/more-{index:05}", large(index)))
        except StoreFull:
            return items
    raise AssertionError("the disk is never full")


async def test_a_full_disk_refuses_writes_and_says_what_to_do(disk: Path) -> None:
    path = disk / "moorage.db"
    async with opened(Sqlite(path)) as store:
        items = await filled(store, disk)
        with pytest.raises(StoreFull) as refused:
            await store.update(items[0].key, large(1), items[0].revision)
        assert str(refused.value) == (
            f"{path} cannot be written: its disk is full, so that objects can only be deleted: free 10 MiB there"
        )
        assert (await store.list("/")).items == sorted(items)
        assert (await store.list("/")).revision == items[-1].revision


async def test_writes_that_are_refused_leave_nothing_in_memory(disk: Path) -> None:
    async with opened(Sqlite(disk / "moorage.db")) as store:
        await filled(store, disk)
        with freed_at_once(StoreFull):
            for index in range(3):
                with pytest.raises(StoreFull):
                    await store.create(f"/refused-{index}", large(index))
            await store.delete("/00000", 2)  # the writer no longer works on what it has refused


async def test_on_a_full_disk_everything_can_be_deleted_while_others_take_what_is_freed(disk: Path) -> None:
    path = disk / "moorage.db"
    async with opened(Sqlite(path)) as store:
        items = await filled(store, disk)
        for start in range(0, len(items), 50):
            fill(disk)
            some = items[start : start + 50]
            waiting = await asyncio.gather(*(store.update(each.key, marked(each), each.revision) for each in some))
            await asyncio.gather(*(store.delete(each.key, each.revision) for each in waiting))
        assert (await store.list("/")).items == []
        revision = await store.revision()
    async with opened(Sqlite(path)) as store:
        assert (await store.list("/")).items == []
        assert await store.revision() == revision


async def test_deletions_that_come_with_other_writes_are_done(disk: Path) -> None:
    async with opened(Sqlite(disk / "moorage.db")) as store:
        items = await filled(store, disk)
        results = await asyncio.gather(
            *(store.delete(each.key, each.revision) for each in items[:40]),
            *(store.update(each.key, large(0), each.revision) for each in items[40:80]),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [Item] * 40 + [StoreFull] * 40


async def test_a_large_update_does_not_pass_as_a_deletion(disk: Path) -> None:
    async with opened(Sqlite(disk / "moorage.db")) as store:
        items = await filled(store, disk)
        with pytest.raises(StoreFull):
            await store.create("/new", marked(items[0]))
        with pytest.raises(StoreFull):
            await store.update(items[0].key, marked(items[0]) + b" " * 5000, items[0].revision)


async def test_writes_go_on_when_there_is_space_again(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = disk / "moorage.db"
    caplog.set_level(logging.INFO, "moorage.store")
    async with opened(Sqlite(path)) as store:
        items = await filled(store, disk)
        held = (disk / "moorage.db-reserve").stat().st_size
        for _ in range(3):
            with pytest.raises(StoreFull):
                await store.create("/again", large(0))
        assert (disk / "moorage.db-reserve").stat().st_size == held < SIZE
        (disk / "filler").unlink()
        items.append(await store.create("/again", large(0)))
        assert (disk / "moorage.db-reserve").stat().st_size == SIZE
    async with opened(Sqlite(path)) as store:
        assert (await store.list("/")).items == sorted(items)
    said = [record.getMessage().split('"')[1] for record in caplog.records]
    assert said == ["Database cannot be written", "Database can be written again"]


async def test_what_deletions_free_inside_the_database_is_written_again(disk: Path) -> None:
    async with opened(Sqlite(disk / "moorage.db")) as store:
        items = await asyncio.gather(*(store.create(f"/{index:05}", large(index) * 3) for index in range(1000)))
        fill(disk)
        await asyncio.gather(*(store.delete(item.key, item.revision) for item in items))
        fill(disk)
        writes = (store.create(f"/again-{index:05}", large(index)) for index in range(4000))
        again = await asyncio.gather(*writes, return_exceptions=True)
        written = [result for result in again if isinstance(result, Item)]
        assert len(written) > 100
        assert any(isinstance(result, StoreFull) for result in again)
        await asyncio.gather(*(store.delete(item.key, item.revision) for item in written))


async def test_a_store_opens_on_a_full_disk_with_all_that_was_acknowledged(disk: Path) -> None:
    path = disk / "moorage.db"
    async with opened(Sqlite(path)) as store:
        items = await filled(store, disk)
    fill(disk)
    async with opened(Sqlite(path)) as store:
        assert (await store.list("/")).items == sorted(items)
        with pytest.raises(StoreFull):
            await store.create("/new", large(0))


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from moorage.store.sqlite import SqliteStore
from tests.store.smalldisk import fill
from tests.store.test_full import filled

async def main():
    path = Path(sys.argv[1])
    store = await SqliteStore.open(path)
    for item in await filled(store, path.parent):
        print(item.key, item.revision)
    fill(path.parent)
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_a_store_that_was_killed_on_a_full_disk_opens_there_again(disk: Path) -> None:
    path = disk / "moorage.db"
    run = subprocess.run([sys.executable, "-c", KILLED, path], capture_output=True, text=True, check=False)
    assert run.returncode == -9, run.stderr
    async with opened(Sqlite(path)) as store:
        items = (await store.list("/")).items
        assert sorted(f"{item.key} {item.revision}" for item in items) == sorted(run.stdout.splitlines())
        with pytest.raises(StoreFull):
            await store.create("/new", large(0))
        for item in items:
            await store.delete(item.key, item.revision)
        assert (await store.list("/")).items == []


async def test_an_earlier_database_that_cannot_be_upgraded_is_left_as_it_is(disk: Path) -> None:
    items = make_old(disk / "moorage.db")
    fill(disk)
    with pytest.raises(CannotOpen, match=r"moorage\.db cannot be opened: its disk is full: free some space there"):
        await Sqlite(disk / "moorage.db").open()
    (disk / "filler").unlink()
    async with opened(Sqlite(disk / "moorage.db")) as store:
        assert (await store.list("/")).items == items


async def test_a_new_store_on_a_full_disk_is_refused_by_name(disk: Path) -> None:
    fill(disk)
    with pytest.raises(CannotOpen, match=r"moorage\.db cannot be opened: its disk is full: free some space there"):
        await Sqlite(disk / "moorage.db").open()
