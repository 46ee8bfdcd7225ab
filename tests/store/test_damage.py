"""What was damaged or lost on disk is found when the store is opened, and said with a way out."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from moorage.store.database import APPLICATION, SCHEMA
from moorage.store.protocol import Damaged, Item
from tests.store.backends import Sqlite, opened, value

COUNT = 300


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "moorage.db"


def beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}-{ending}")


async def objects(path: Path) -> list[Item]:
    async with opened(Sqlite(path)) as store:
        return (await store.list("/")).items


async def written(path: Path, size: int = 500) -> list[Item]:
    """The objects of a store that was closed."""
    async with opened(Sqlite(path)) as store:
        await asyncio.gather(*(store.create(f"/{index:05}", value(f"{index} " + "x" * size)) for index in range(COUNT)))
        return (await store.list("/")).items


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from moorage.store.sqlite import SqliteStore
from tests.store.backends import value

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    for index in range(int(sys.argv[2])):
        item = await store.create(f"/{await store.revision():05}", value(index))
    print(item.revision, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def killed(path: Path, count: int = 30) -> int:
    """Write some objects in a process that is killed then; the last revision that was acknowledged."""
    run = subprocess.run([sys.executable, "-c", KILLED, path, str(count)], capture_output=True, text=True, check=False)
    assert run.returncode == -9, run.stderr
    return int(run.stdout)


@pytest.mark.parametrize("size", [500, 20_000], ids=["in the tree", "beside the tree"])
async def test_a_changed_byte_in_a_value_is_found(path: Path, size: int) -> None:
    items = await written(path, size)
    whole = path.read_bytes()
    victim = whole.index(b"x" * 100, len(whole) // 2)
    path.write_bytes(whole[:victim] + b"y" + whole[victim + 1 :])
    with pytest.raises(Damaged, match=r"is damaged \(the checksum of /\d+ does not match\): restore a copy of it with"):
        await objects(path)
    path.write_bytes(whole)
    assert await objects(path) == items


async def test_no_changed_byte_is_served(path: Path) -> None:
    """Wherever it is: either nothing that was written is different, or the file is refused."""
    items = await written(path)
    whole = path.read_bytes()
    chance = random.Random(13)
    refused = 0
    for _ in range(60):
        place = chance.randrange(100, len(whole))
        path.write_bytes(whole[:place] + bytes((whole[place] ^ 1 << chance.randrange(8),)) + whole[place + 1 :])
        try:
            assert await objects(path) == items
        except Damaged:
            refused += 1
    assert refused > 30


@pytest.mark.parametrize("loss", ["missing", "empty", "truncated", "changed"])
async def test_a_log_that_was_lost_with_acknowledged_writes_is_noticed(path: Path, loss: str) -> None:
    last = killed(path)
    log = beside(path, "wal")
    whole = log.read_bytes()
    if loss == "missing":
        log.unlink()
    else:
        half = len(whole) // 2
        changed = whole[:half] + bytes((whole[half] ^ 1,)) + whole[half + 1 :]
        log.write_bytes({"empty": b"", "truncated": whole[:half], "changed": changed}[loss])
    damaged = log.read_bytes() if log.exists() else b""
    for _ in range(2):
        with pytest.raises(Damaged) as refused:
            await objects(path)
        assert (log.read_bytes() if log.exists() else b"") == damaged
        sentence = rf"{path} ends at revision \d+, but revision {last} was written: {log} is missing or damaged: put it"
        assert re.match(sentence, str(refused.value))
    log.write_bytes(whole)
    assert len(await objects(path)) == 30


async def test_a_log_that_ends_anywhere_is_complete_or_refused(path: Path, tmp_path: Path) -> None:
    last = killed(path)
    shutil.copytree(tmp_path, tmp_path / "kept")
    size = beside(path, "wal").stat().st_size
    chance = random.Random(4)
    refused = 0
    for end in [*(chance.randrange(size) for _ in range(30)), size]:
        for file in (tmp_path / "kept").iterdir():
            shutil.copy(file, tmp_path / file.name)
        with beside(path, "wal").open("r+b") as log:
            log.truncate(end)
        try:
            async with opened(Sqlite(path)) as store:
                assert await store.revision() == last
        except Damaged:
            refused += 1
    assert refused == 30


async def test_without_its_mark_a_database_goes_on_with_what_there_is(path: Path) -> None:
    killed(path)
    beside(path, "wal").unlink()
    with pytest.raises(Damaged) as refused:
        await objects(path)
    way_out = re.search(r"or remove (\S+) to lose those changes", str(refused.value))
    assert way_out
    Path(way_out[1]).unlink()
    async with opened(Sqlite(path)) as store:
        item = await store.create("/new", value("new"))
    assert item in await objects(path)


async def test_a_closed_database_needs_no_log(path: Path) -> None:
    items = await written(path)
    beside(path, "wal").unlink(missing_ok=True)
    assert await objects(path) == items


async def test_an_older_copy_in_place_of_the_database_is_noticed(path: Path) -> None:
    items = await written(path)
    shutil.copy(path, beside(path, "old"))
    async with opened(Sqlite(path)) as store:
        await store.delete(items[0].key, items[0].revision)
    shutil.copy(beside(path, "old"), path)
    with pytest.raises(Damaged, match=rf"ends at revision {COUNT + 1}, but revision {COUNT + 2} was written"):
        await objects(path)


@pytest.mark.parametrize("word", ["empty", "missing"])
async def test_no_database_where_there_was_a_cluster_is_no_new_cluster(path: Path, word: str) -> None:
    await written(path)
    path.unlink()
    if word == "empty":
        path.touch()
    with pytest.raises(Damaged, match=rf"moorage\.db is {word}, but there was a cluster: put it back, restore a copy"):
        await objects(path)
    beside(path, "revision").unlink()
    assert await objects(path) == []


async def test_a_log_without_its_database_is_kept(path: Path) -> None:
    killed(path)
    for ending in ("revision", "reserve"):
        beside(path, ending).unlink()
    path.unlink()
    log = beside(path, "wal").read_bytes()
    with pytest.raises(
        Damaged, match=r"moorage\.db is missing, but there was a cluster: .* or remove \S+-wal to begin"
    ):
        await objects(path)
    assert beside(path, "wal").read_bytes() == log


async def test_all_is_named_that_must_go_before_a_new_cluster_begins(path: Path) -> None:
    killed(path)
    path.unlink()
    with pytest.raises(Damaged) as raised:
        await objects(path)
    for left in re.findall(r"\S+\.db-\S+", str(raised.value)):
        Path(left).unlink()
    assert await objects(path) == []


async def test_what_is_wrong_with_a_file_is_said_in_one_line(path: Path) -> None:
    await written(path)
    with path.open("r+b") as stream:
        stream.truncate(4 * 4096)
    with pytest.raises(Damaged) as raised:
        await objects(path)
    assert "\n" not in str(raised.value)


async def test_a_mark_that_cannot_be_read_says_nothing(path: Path) -> None:
    items = await written(path)
    beside(path, "revision").write_bytes(b"\xff\0")
    assert await objects(path) == items
    assert int(beside(path, "revision").read_text()) == COUNT + 1


def make_old(path: Path) -> list[Item]:
    """A database without checksums and mark, as earlier versions wrote it, with a log that was not checkpointed."""
    items = [Item(f"/{index:05}", value(index), index + 2) for index in range(COUNT)]
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in (
        "PRAGMA journal_mode = WAL",
        "CREATE TABLE object (revision INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, value BLOB)",
        "CREATE INDEX deleted ON object (revision) WHERE value IS NULL",
        f"PRAGMA application_id = {APPLICATION}",
        "PRAGMA user_version = 1",
    ):
        connection.execute(statement).fetchall()
    rows = [(item.revision, item.key, item.value) for item in items]
    connection.executemany("INSERT INTO object VALUES (?,?,?)", [*rows, (COUNT + 2, "/gone", None)])
    for file in (path, beside(path, "wal")):
        shutil.copy(file, beside(file, "live"))
    connection.close()
    beside(path, "live").replace(path)
    beside(beside(path, "wal"), "live").replace(beside(path, "wal"))
    return items


async def test_a_database_of_an_earlier_version_is_upgraded_in_place(path: Path) -> None:
    items = make_old(path)
    async with opened(Sqlite(path)) as store:
        assert (await store.list("/")).items == items
        assert await store.revision() == COUNT + 2
        items.append(await store.create("/new", value("new")))
    assert await objects(path) == items
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA,)
    assert connection.execute("SELECT count(*) FROM object WHERE checksum IS NULL").fetchone() == (0,)
    connection.close()
    whole = path.read_bytes()
    path.write_bytes(whole.replace(value(100), value("1O0")))
    with pytest.raises(Damaged, match="the checksum of /00100 does not match"):
        await objects(path)
