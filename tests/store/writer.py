"""Processes that write until they are killed, and say what was acknowledged and what they saw.

They are forked by one that has imported everything, so that none has to start from nothing.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from moorage.store.etcd import EtcdStore
from moorage.store.protocol import Item, Store, WatchEvent
from moorage.store.sqlite import SqliteStore
from tests.store.backends import value

TASKS = 16


def operations(prefix: str) -> Iterator[tuple[str, str, bytes]]:
    """What one task does, always the same: create, update, and every other time delete."""
    for number in count():
        key = f"{prefix}-{number:06}"
        yield "create", key, value(f"{number} new")
        yield "update", key, value(f"{number} changed")
        if number % 2:
            yield "delete", key, b""


async def apply(store: Store, verb: str, key: str, value: bytes, revision: int) -> Item:
    """Do one operation."""
    match verb:
        case "create":
            return await store.create(key, value)
        case "update":
            return await store.update(key, value, revision)
        case _:
            return await store.delete(key, revision)


async def write(store: Store, task: int, prefix: str) -> None:
    """Work through a task, and say how far it has come."""
    revision = 0
    for done, operation in enumerate(operations(prefix), 1):
        revision = (await apply(store, *operation, revision)).revision
        say("done", task, done, revision)


async def follow(store: Store, root: str, after: int) -> None:
    """Say what a watcher sees."""
    async with store.watch(root, after) as batches:
        async for batch in batches:
            for event in batch:
                say("saw", event.change.value, event.revision, event.item.key, _before(event))


def _before(event: WatchEvent) -> int:
    return event.previous.revision if event.previous else 0


def say(*words: object) -> None:
    """One line that is written whole or not at all."""
    os.write(1, " ".join(map(str, words)).encode() + b"\n")


async def main(where: str, root: str, after: int, turn: str) -> None:
    """Write with several tasks below `root`, and watch from a revision on."""
    store: Store
    if where.startswith("etcd://"):
        store = await EtcdStore.open(where.removeprefix("etcd://").split(","))
    else:
        store = await SqliteStore.open(Path(where))
    watching = asyncio.create_task(follow(store, root, after))
    await asyncio.gather(watching, *(write(store, task, f"{root}{turn}-{task:02}") for task in range(TASKS)))


def fork_writers() -> None:
    """Fork a writer for each line of arguments, say its process id, and that it has ended once it was killed."""
    for line in sys.stdin:
        writer = os.fork()
        if not writer:
            where, root, after, turn = line.split()
            try:
                asyncio.run(main(where, root, int(after), turn))
            finally:
                os._exit(1)
        say("pid", writer)
        os.waitpid(writer, 0)
        say("ended")


if __name__ == "__main__":
    fork_writers()
