"""A process that is killed at any moment loses nothing that it acknowledged, and its watchers miss nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

import pytest

from moorage.store.etcd import EtcdStore
from moorage.store.protocol import Change, Compacted, Item, Page, Store, StoreUnavailable, WatchEvent
from tests.store.backends import Backend, Etcd, Sqlite, opened, replayed, take, value
from tests.store.cluster import Cluster
from tests.store.writer import TASKS, operations

pytestmark = pytest.mark.asyncio

ROUNDS = 50
ROOT = Path(__file__).parents[2]


@dataclass
class Report:
    """What a process said before it was killed."""

    done: dict[int, list[int]] = field(default_factory=lambda: {task: [] for task in range(TASKS)})
    """The revisions of the acknowledged operations of each task."""
    seen: list[tuple[str, int, str, int]] = field(default_factory=list)
    """Change, revision, key and revision before, as its watcher saw them."""

    def add(self, line: str) -> None:
        what, *words = line.split()
        if what == "done":
            task, count, at = map(int, words)
            self.done[task].append(at)
            assert len(self.done[task]) == count
        else:
            change, revision, key, before = words
            self.seen.append((change, int(revision), key, int(before)))


class Writers:
    """Starts one writer after another."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.store.writer"]
        self._parent = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def killed(self, where: str, root: str, after: int, turn: int, lines: int) -> Report:
        """Let a writer run until it has said so many lines, and kill it."""
        requests, answers = self._parent.stdin, self._parent.stdout
        assert requests
        assert answers
        print(where, root, after, f"{turn:02}", file=requests, flush=True)
        report = Report()
        count, process = 0, 0
        for line in answers:
            if line == "ended\n":
                return report
            if line.startswith("pid "):
                process = int(line.split()[1])
            else:
                report.add(line)
                count += 1
            if process and count >= lines:
                os.kill(process, signal.SIGKILL)
                lines = sys.maxsize
        raise AssertionError("the parent of the writers has ended")

    def close(self) -> None:
        """End the parent."""
        with self._parent:
            self._parent.kill()


@pytest.fixture
def writers() -> Iterator[Writers]:
    """A source of writers, each of them a process of its own."""
    source = Writers()
    yield source
    source.close()


def after_operations(prefix: str, revisions: list[int]) -> dict[str, Item]:
    """What a task leaves when so many of its operations were done."""
    state: dict[str, Item] = {}
    for (verb, key, text), revision in zip(operations(prefix), revisions, strict=False):
        if verb == "delete":
            del state[key]
        else:
            state[key] = Item(key, text, revision)
    return state


def check_acknowledged(report: Report, prefix: str, items: dict[str, Item]) -> None:
    """All that was acknowledged is there, and of each task at most the next operation besides."""
    for task, revisions in report.done.items():
        mine = f"{prefix}{task:02}-"
        there = {key: item for key, item in items.items() if key.startswith(mine)}
        if there == after_operations(mine[:-1], revisions):
            continue
        verb, key, _ = next(islice(operations(mine[:-1]), len(revisions), None))
        revision = there[key].revision if verb != "delete" else 0
        assert there == after_operations(mine[:-1], [*revisions, revision])
        assert revision not in revisions


def watched(report: Report, start: Page) -> tuple[dict[str, int], int]:
    """The keys with their revisions that the watcher knew, and the revision up to which it knew them."""
    state, last = {item.key: item.revision for item in start.items}, start.revision
    for change, revision, key, before in report.seen:
        assert revision > last
        assert state.pop(key, 0) == before
        last = revision
        if change != "DELETED":
            state[key] = revision
    return state, last


async def check_watcher(store: Store, root: str, report: Report, start: Page, now: Page) -> None:
    """A watcher that comes back goes on where it was, or is told to list again; in between nothing is missing."""
    state, last = watched(report, start)
    assert last <= now.revision
    listed = {item.key: item.revision for item in now.items}
    async with store.watch(root, last) as batches:
        try:
            events = await take(batches, now.revision - last)
        except Compacted:
            assert last < now.revision
            differing = {key for key in state.keys() | listed.keys() if state.get(key) != listed.get(key)}
            assert all(listed.get(key, now.revision) > last for key in differing)
            assert len(differing) <= now.revision - last
            return
    for event in events:
        assert state.pop(event.item.key, 0) == (event.previous.revision if event.previous else 0)
        if event.change is not Change.DELETED:
            state[event.item.key] = event.revision
    assert state == listed


async def test_a_killed_process_loses_nothing(backend: Backend, root: str, writers: Writers) -> None:
    where = str(backend.path) if isinstance(backend, Sqlite) else ""
    if isinstance(backend, Etcd):
        where = "etcd://" + ",".join(backend.endpoints)
    moments = random.Random(4)
    async with opened(backend) as store:
        start = await store.list(root)
    acknowledged = 0
    for turn in range(ROUNDS):
        lines = moments.choice((0, 1, 20, 200, 400))
        report = await asyncio.to_thread(writers.killed, where, root, start.revision, turn, lines)
        acknowledged += sum(map(len, report.done.values()))
        async with opened(backend) as store:
            now = await store.list(root)
            assert now.revision >= max((revision for each in report.done.values() for revision in each), default=0)
            assert now.revision >= start.revision
            check_acknowledged(report, f"{root}{turn:02}-", {item.key: item for item in now.items})
            await check_watcher(store, root, report, start, now)
        start = now
    assert acknowledged > 20 * ROUNDS


async def test_members_that_end_take_nothing_with_them(three: Cluster, root: str) -> None:
    """Writers and a watcher go on while each member in turn is ended and started again.

    They are not killed: an etcd before 3.5.3 may itself forget what it acknowledged when it is killed under load.
    """
    writers = await EtcdStore.open(three.endpoints)
    watcher = await EtcdStore.open(three.endpoints[::-1])
    start = await writers.revision()
    acknowledged: dict[int, WatchEvent] = {}
    progress = asyncio.Condition()
    stop = False

    async def write(task: int) -> None:
        for number in count():
            if stop:
                return
            key = f"{root}{task}-{number}"
            # Without an answer nobody knows what became of an object: the task leaves it and goes on with the next.
            with contextlib.suppress(StoreUnavailable):
                first = await writers.create(key, value(number))
                acknowledged[first.revision] = WatchEvent(Change.ADDED, first, None)
                second = await writers.update(key, value("changed"), first.revision)
                acknowledged[second.revision] = WatchEvent(Change.MODIFIED, second, first)
                if number % 2:
                    gone = await writers.delete(key, second.revision)
                    acknowledged[gone.revision] = WatchEvent(Change.DELETED, gone, second)
            async with progress:
                progress.notify_all()

    async def more(count: int) -> None:
        target = len(acknowledged) + count
        async with progress:
            await asyncio.wait_for(progress.wait_for(lambda: len(acknowledged) >= target), 120)

    async with watcher.watch(root, start) as batches:
        tasks = [asyncio.create_task(write(task)) for task in range(8)]
        for member in three.members:
            await more(100)
            await asyncio.to_thread(member.stop)
            await more(100)
            member.start()
            await asyncio.to_thread(member.wait)
        await more(100)
        stop = True
        await asyncio.gather(*tasks)
        events: list[WatchEvent] = []
        while (events[-1].revision if events else start) < max(acknowledged):
            events += await asyncio.wait_for(anext(batches), 120)
    revisions = [event.revision for event in events]
    assert revisions == sorted(set(revisions))
    seen = {event.revision: event for event in events}
    assert {revision: seen.get(revision) for revision in acknowledged} == acknowledged
    assert sorted(replayed([], events).values()) == (await watcher.list(root, revision=events[-1].revision)).items
    await writers.close()
    await watcher.close()
