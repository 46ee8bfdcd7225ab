"""What the SQLite store promises about its file and its commits."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from moorage.store.database import APPLICATION, SCHEMA, Database, Row
from moorage.store.disk import TIDY_DELETIONS
from moorage.store.protocol import CannotOpen, Compacted, Item, KeyExists, KeyMissing, StoreUnavailable
from moorage.store.sqlite import SqliteStore
from tests.store.backends import Sqlite, opened, take, value

pytestmark = pytest.mark.asyncio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "moorage.db"


class Gate:
    """Holds commits until it is opened, and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.batches: list[int] = []
        self.fail: sqlite3.Error | None = None
        commit = Database.commit

        def held(database: Database, rows: Sequence[Row]) -> None:
            self.batches.append(len(rows))
            assert self.open.wait(20)
            failure, self.fail = self.fail, None
            if failure:
                raise failure
            commit(database, rows)

        monkeypatch.setattr(Database, "commit", held)


async def test_nobody_hears_of_a_change_before_it_is_on_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    async with opened(Sqlite(path)) as store, store.watch("/", await store.revision()) as batches:
        start = await store.revision()
        watching = asyncio.ensure_future(anext(batches))
        creating = asyncio.create_task(store.create("/a", value("one")))
        again = asyncio.create_task(store.create("/a", value("two")))
        updating = asyncio.create_task(store.update("/a", value("two"), 1))
        other = asyncio.create_task(store.create("/b", value("b")))
        while not gate.batches:
            await asyncio.sleep(0)
        assert await store.get("/a") is None
        assert (await store.list("/")).items == []
        assert await store.revision() == start
        assert not any(task.done() for task in (watching, creating, again, updating, other))
        gate.open.set()
        item = await creating
        assert await store.get("/a") == item
        with pytest.raises(KeyExists):
            await again
        with pytest.raises(Exception, match="revision"):
            await updating
        assert (await watching)[0].item == item
        await other


async def test_what_gathers_during_a_commit_is_one_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    async with opened(Sqlite(path)) as store:
        first = asyncio.create_task(store.create("/first", b""))
        while not gate.batches:
            await asyncio.sleep(0)
        rest = [asyncio.create_task(store.create(f"/{index}", b"")) for index in range(100)]
        await asyncio.sleep(0)
        gate.open.set()
        items = await asyncio.gather(first, *rest)
        assert gate.batches == [1, 100]
        assert [item.revision for item in items] == list(range(items[0].revision, items[0].revision + 101))


async def test_a_commit_that_fails_has_not_happened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    gate.open.set()
    async with opened(Sqlite(path)) as store, store.watch("/", await store.revision()) as batches:
        kept = await store.create("/kept", value("kept"))
        gate.fail = sqlite3.OperationalError("disk I/O error")
        gate.open.clear()
        gate.batches.clear()
        lost = [asyncio.create_task(store.update("/kept", b"", kept.revision))]
        while not gate.batches:
            await asyncio.sleep(0)
        behind = asyncio.create_task(store.update("/kept", value("after"), kept.revision))
        other = asyncio.create_task(store.create("/other", b""))
        gate.open.set()
        with pytest.raises(StoreUnavailable, match="disk I/O error"):
            await lost[0]
        # Who waited for the write that failed finds the object as it was.
        after = await behind
        assert {after.revision, (await other).revision} == {kept.revision + 1, kept.revision + 2}
        events = await take(batches, 3)
        assert [event.revision for event in events] == [kept.revision + step for step in range(3)]
        state = (await store.list("/")).items
    async with opened(Sqlite(path)) as store:
        assert (await store.list("/")).items == state


async def test_a_full_database_refuses_writes_until_there_is_room(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    databases: list[Database] = []

    def remembered(path: Path) -> Database:
        databases.append(Database(path))
        return databases[-1]

    monkeypatch.setattr("moorage.store.disk.Database", remembered)
    async with opened(Sqlite(path)) as store:
        connection = databases[0].connection
        kept = await store.create("/kept", b"x" * 1000)
        connection.execute("PRAGMA max_page_count = 20").fetchall()
        results = await asyncio.gather(
            *(store.create(f"/{index}", b"x" * 20_000) for index in range(20)), return_exceptions=True
        )
        done = [result for result in results if isinstance(result, Item)]
        refused = [result for result in results if isinstance(result, StoreUnavailable)]
        assert len(done) + len(refused) == 20
        assert refused
        assert "full" in str(refused[0])
        assert await store.get("/kept") == kept
        connection.execute("PRAGMA max_page_count = 100000").fetchall()
        later = await store.create("/later", b"x" * 20_000)
        assert later.revision == kept.revision + len(done) + 1
    async with opened(Sqlite(path)) as store:
        assert (await store.list("/")).items == sorted([kept, *done, later])


FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from moorage.store.protocol import StoreFull
from moorage.store.sqlite import SqliteStore

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    limit(300_000)
    failed = 0
    for index in range(200):
        try:
            item = await store.create(f"/{index:03}", b"x" * 3000)
            print("done", item.key, item.revision)
        except StoreFull:
            failed += 1
    limit(resource.RLIM_INFINITY)
    item = await store.create("/later", b"x" * 3000)
    print("done", item.key, item.revision)
    print("failed", failed, 0)
    await store.close()

asyncio.run(main())
"""


async def test_when_the_disk_is_full_nothing_acknowledged_is_lost(path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", FULL_DISK, path], capture_output=True, text=True, check=True)
    *done, failed = (line.split() for line in run.stdout.splitlines())
    assert int(failed[1]) > 0
    assert done[-1][1] == "/later"
    async with opened(Sqlite(path)) as store:
        page = await store.list("/")
        assert sorted((item.key, str(item.revision)) for item in page.items) == sorted(
            (key, revision) for _, key, revision in done
        )


async def test_a_second_store_on_the_same_file_is_refused(path: Path) -> None:
    async with opened(Sqlite(path)) as store:
        await store.create("/a", b"")
        with pytest.raises(CannotOpen, match=r"moorage\.db is in use by another process"):
            await SqliteStore.open(path)
        await store.create("/b", b"")
    async with opened(Sqlite(path)) as store:
        assert len((await store.list("/")).items) == 2


OPEN = """
import asyncio, sys
from pathlib import Path
from moorage.store.protocol import CannotOpen
from moorage.store.sqlite import SqliteStore

async def main():
    try:
        store = await SqliteStore.open(Path(sys.argv[1]))
    except CannotOpen as error:
        print(error)
        return
    print("open", flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


async def test_a_second_process_on_the_same_file_is_refused_until_the_first_is_dead(path: Path) -> None:
    command = [sys.executable, "-c", OPEN, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout
        assert first.stdout.readline() == "open\n"
        second = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "is in use by another process: stop that one" in second.stdout
        with pytest.raises(CannotOpen, match="in use"):
            await SqliteStore.open(path)
        first.kill()
    async with opened(Sqlite(path)) as store:
        await store.create("/a", b"")


async def test_a_file_that_is_no_database_is_left_alone(path: Path) -> None:
    path.write_text("shopping list\n" * 100)
    with pytest.raises(CannotOpen, match="is not a Moorage database: move it away"):
        await SqliteStore.open(path)
    assert path.read_text() == "shopping list\n" * 100


async def test_the_database_of_another_program_is_left_alone(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE object (key TEXT)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(CannotOpen, match="is not a Moorage database"):
        await SqliteStore.open(path)
    assert path.read_bytes() == before


async def test_the_database_of_a_newer_moorage_is_left_alone(path: Path) -> None:
    Database(path).close()
    other = sqlite3.connect(path)
    assert other.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
    other.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    other.close()
    with pytest.raises(CannotOpen, match=rf"written by a newer Moorage \(schema {SCHEMA + 1}\)"):
        await SqliteStore.open(path)


@pytest.mark.parametrize("part", ["index", "table", "tail"])
async def test_a_damaged_file_is_not_served(path: Path, part: str) -> None:
    async with opened(Sqlite(path)) as store:
        await asyncio.gather(*(store.create(f"/{index:05}", b"x" * 500) for index in range(400)))
    whole = path.read_bytes()
    pages = [whole[start : start + 4096] for start in range(0, len(whole), 4096)]
    if part == "tail":
        del pages[len(pages) // 2 :]
    else:
        kind = {"index": 0x0A, "table": 0x0D}[part]
        victim = next(number for number, page in enumerate(pages) if number > 3 and page[0] == kind)
        pages[victim] = b"\xff" * 4096
    path.write_bytes(b"".join(pages))
    with pytest.raises(CannotOpen, match=r"moorage\.db is damaged"):
        await SqliteStore.open(path)


async def test_a_place_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotOpen, match=r"nowhere/moorage\.db cannot be opened: No such file or directory"):
        await SqliteStore.open(tmp_path / "nowhere" / "moorage.db")
    with pytest.raises(CannotOpen, match="cannot be opened"):
        await SqliteStore.open(tmp_path)


async def test_only_the_owner_can_read_the_files(path: Path) -> None:
    async with opened(Sqlite(path)) as store:
        await store.create("/secret", b"")
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


async def test_a_commit_waits_for_the_disk(path: Path) -> None:
    database = Database(path)
    assert database.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert database.connection.execute("PRAGMA synchronous").fetchone() == (2,)
    database.close()


async def test_the_past_is_forgotten_at_a_restart_and_the_revision_is_not(path: Path) -> None:
    async with opened(Sqlite(path)) as store:
        first = await store.create("/a", value("one"))
        gone = await store.delete("/a", first.revision)
    for _ in range(2):
        async with opened(Sqlite(path)) as store:
            assert await store.revision() == gone.revision
            with pytest.raises(Compacted):
                await store.list("/", revision=first.revision)
            async with store.watch("/", first.revision) as batches:
                with pytest.raises(Compacted):
                    await anext(batches)
    async with opened(Sqlite(path)) as store, store.watch("/", gone.revision) as batches:
        item = await store.create("/b", value("two"))
        assert [event.item for event in await take(batches, 1)] == [item]
        with pytest.raises(KeyMissing):
            await store.delete("/a", first.revision)


async def test_of_a_new_database_everything_is_known(path: Path) -> None:
    async with opened(Sqlite(path)) as store, store.watch("/", 0) as batches:
        items = [await store.create(f"/{name}", value(name)) for name in "abc"]
        assert [event.item for event in await take(batches, 3)] == items
        assert (await store.list("/", revision=1)).items == []


async def test_a_busy_store_does_not_fill_the_disk(path: Path) -> None:
    log = path.with_name("moorage.db-wal")
    async with opened(Sqlite(path)) as store:

        async def churn(name: int) -> None:
            for _ in range(60):
                item = await store.create(f"/{name}", b"x" * 2000)
                item = await store.update(item.key, b"y" * 2000, item.revision)
                await store.delete(item.key, item.revision)

        await asyncio.gather(*(churn(name) for name in range(50)))
        revision = await store.revision()
        assert log.stat().st_size < 12_000_000
    reader = sqlite3.connect(path)
    rows = reader.execute("SELECT count(*), max(revision) FROM object").fetchone()
    reader.close()
    assert rows[0] < TIDY_DELETIONS + 50
    assert rows[1] == revision
    assert path.stat().st_size < 4_000_000
