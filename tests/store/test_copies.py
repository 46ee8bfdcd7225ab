"""Copies are taken while a server writes, as of one moment; what is made of them continues where no client has been."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from moorage.store import copies
from moorage.store.database import Database, checksum_of
from moorage.store.disk import TIDY_BYTES
from moorage.store.protocol import CannotOpen, Compacted, Damaged, Item, Store, WatchEvent
from tests.store.backends import Sqlite, opened, replayed, value
from tests.store.smalldisk import fill, small_disk

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "moorage.db"


def back_up(database: Path, target: Path) -> copies.Summary:
    with copies.backed_up(database, target) as summary:
        return summary


COPY = """
import json, sys
from pathlib import Path
from moorage.store import copies

for target in sys.argv[2:]:
    with copies.backed_up(Path(sys.argv[1]), Path(target)) as summary:
        print(json.dumps(summary), flush=True)
"""


async def churn(store: Store, task: int) -> None:
    """Create, update and delete large objects without end."""
    for number in count():
        item = await store.create(f"/{task}-{number}", value("x" * 8000))
        item = await store.update(item.key, value("y" * 8000), item.revision)
        if number % 3:
            await store.delete(item.key, item.revision)


async def watched(store: Store, events: list[WatchEvent]) -> None:
    async with store.watch("/", 1) as batches:
        async for batch in batches:
            events += batch


async def test_a_copy_that_is_taken_under_load_is_the_state_at_one_revision(path: Path) -> None:
    targets = [path.with_name(f"copy-{number}") for number in range(4)]
    events: list[WatchEvent] = []
    async with opened(Sqlite(path), max_bytes=2**30) as store:
        tasks = [asyncio.create_task(churn(store, task)) for task in range(8)]
        tasks.append(asyncio.create_task(watched(store, events)))
        while not path.stat().st_size > TIDY_BYTES:  # there was a checkpoint
            await asyncio.sleep(0.01)
        before = await store.revision()
        # Another process copies: closing a file ends the locks that this one has on it.
        copying = await asyncio.create_subprocess_exec(
            sys.executable, "-c", COPY, path, *targets, cwd=ROOT, stdout=subprocess.PIPE
        )
        said, _ = await copying.communicate()
        assert copying.returncode == 0
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    summaries = [json.loads(line) for line in said.splitlines()]
    assert [revision for _, revision in summaries] == sorted(revision for _, revision in summaries)
    assert before <= summaries[0][1]
    for target, (objects, revision) in zip(targets, summaries, strict=True):
        database = Database(target)
        items, reached = database.read()
        database.close()
        assert (len(items), reached) == (objects, revision)
        assert items == replayed([], [event for event in events if event.revision <= revision])


async def test_while_it_is_copied_a_database_is_not_checkpointed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def write() -> None:
        size = TIDY_BYTES // 40
        items = await asyncio.gather(*(store.create(f"/{index}", b"x" * size) for index in range(50)))
        for item in items:
            await store.delete(item.key, item.revision)

    log = path.with_name("moorage.db-wal")
    async with opened(Sqlite(path)) as store:
        with path.with_name("moorage.db-revision").open() as mark:
            fcntl.flock(mark, fcntl.LOCK_SH)
            before, sizes = path.stat().st_size, []
            for _ in range(3):
                await write()
                sizes.append(log.stat().st_size)
            assert path.stat().st_size == before
            assert sizes == sorted({*sizes})
            monkeypatch.setattr("moorage.store.disk.MAX_LOG_BYTES", TIDY_BYTES)
            await write()
            assert path.stat().st_size > before
        size = log.stat().st_size
        for _ in range(3):
            await write()
        assert log.stat().st_size == size


async def test_a_restored_database_tells_clients_of_the_lost_one_to_list_again(path: Path) -> None:
    async with opened(Sqlite(path)) as store:
        items = [await store.create(f"/{index}", value(index)) for index in range(3)]
    copy = path.with_name("copy")
    back_up(path, copy)
    async with opened(Sqlite(path)) as store:
        later = await store.create("/later", value("later"))
    target = path.with_name("restored.db")
    with copies.restored(copy, target) as summary:
        assert not target.exists()
        with pytest.raises(Damaged, match=r"restored\.db is missing, but there was a cluster"):
            await Sqlite(target).open()
    for _ in range(2):
        async with opened(Sqlite(target)) as store:
            assert (await store.list("/")).items == items
            assert await store.revision() == summary.revision > later.revision
            async with store.watch("/", later.revision) as batches:
                with pytest.raises(Compacted):
                    await anext(batches)
    async with opened(Sqlite(target)) as store:
        assert (await store.create("/new", value("new"))).revision == summary.revision + 1


async def test_what_is_damaged_is_not_copied(path: Path) -> None:
    async with opened(Sqlite(path)) as store:
        await store.create("/a", value("precious"))
    path.write_bytes(path.read_bytes().replace(b"precious", b"precioux"))
    copy = path.with_name("copy")
    with pytest.raises(Damaged, match=rf"{path} is damaged \(the checksum of /a does not match\)"):
        back_up(path, copy)
    with pytest.raises(Damaged):
        copies.check(path)
    assert sorted(file.name for file in path.parent.iterdir() if "copy" in file.name) == []


async def test_a_copy_for_which_there_is_no_space_is_none(path: Path, tmp_path: Path) -> None:
    """However much is missing: for the database, or only for what is still in its log."""
    database = Database(path)
    values = [(number, f"/{number}", value("x" * 3000)) for number in range(2, 500)]
    database.commit([(revision, key, text, checksum_of(revision, text)) for revision, key, text in values])
    (tmp_path / "source").mkdir()
    for file in (path, path.with_name("moorage.db-wal")):
        shutil.copy(file, tmp_path / "source" / file.name)
    database.close()
    outcomes: list[object] = []
    with small_disk(tmp_path / "disk", 8) as disk:
        for free in range(0, 5_000_000, 250_000):
            fill(disk)
            os.truncate(disk / "filler", (disk / "filler").stat().st_size - free)
            try:
                summary = back_up(tmp_path / "source" / "moorage.db", disk / "copy")
            except CannotOpen as error:
                outcomes.append(str(error))
            else:
                outcomes.append(summary.objects)
                assert copies.check(disk / "copy") == summary
                (disk / "copy").unlink()
            assert [file.name for file in disk.iterdir()] == ["filler"]
    assert {*outcomes} == {f"{disk}/copy cannot be written: its disk is full: free some space there", len(values)}


async def test_a_check_notices_a_lost_log_and_changes_nothing(path: Path) -> None:
    items: list[Item] = []
    async with opened(Sqlite(path)) as store:
        items += [await store.create(f"/{index}", value(index)) for index in range(3)]
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    assert copies.check(path) == (3, items[-1].revision)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before
    path.with_name("moorage.db-revision").write_text(str(items[-1].revision + 1))
    with pytest.raises(Damaged, match="is missing or damaged"):
        copies.check(path)
