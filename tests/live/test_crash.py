"""A server that is killed under load, at any moment, loses nothing that it acknowledged, and watchers miss nothing."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from tests.live.conftest import Live
from tests.store.cluster import WHY_SKIPPED, Cluster, binary

ROUNDS = 50
SEED = 4
CONNECTIONS = 8
PATH = "/api/v1/namespaces/default/configmaps"
STARTING_SECONDS = 0.6

Data = dict[str, Any]
Operation = tuple[str, str, str]
"""Verb, name and text."""


class Known(NamedTuple):
    """What somebody knows of an object."""

    text: str
    revision: int


State = dict[str, Known]


def known(data: Data) -> tuple[str, Known]:
    metadata = data["metadata"]
    return metadata["name"], Known(data["data"]["text"], int(metadata["resourceVersion"]))


def operations(prefix: str) -> Iterator[Operation]:
    """What one connection does, always the same: create, replace, patch, and every other time delete."""
    for number in count():
        name = f"{prefix}-{number:04}"
        yield "POST", name, "new"
        yield "PUT", name, "replaced"
        yield "PATCH", name, "patched"
        if number % 2:
            yield "DELETE", name, ""


@dataclass
class Acknowledged:
    """What one connection was told that it is done."""

    prefix: str
    revisions: list[int] = field(default_factory=list)
    """The revisions of its operations; a deletion does not tell its own."""

    def state(self, *more: int) -> State:
        """What the connection must have left, and after the next operation if that had this revision."""
        left: State = {}
        for (verb, name, text), revision in zip(operations(self.prefix), [*self.revisions, *more], strict=False):
            if verb == "DELETE":
                del left[name]
            else:
                left[name] = Known(text, revision)
        return left

    def check(self, found: State) -> None:
        """All that was acknowledged is there, and at most the next operation besides."""
        there = {name: each for name, each in found.items() if name.startswith(self.prefix)}
        if there == self.state():
            return
        verb, name, _ = next(islice(operations(self.prefix), len(self.revisions), None))
        revision = there[name].revision if verb != "DELETE" else 0
        assert there == self.state(revision)
        assert verb == "DELETE" or revision > max(self.revisions, default=0)


@dataclass
class Connected:
    """A client of the server as long as that lives."""

    session: aiohttp.ClientSession
    url: str

    async def list(self) -> tuple[State, int]:
        async with self.session.get(self.url + PATH) as answer:
            listed = await answer.json()
            assert answer.status == 200, listed
            return dict(map(known, listed["items"])), int(listed["metadata"]["resourceVersion"])

    async def write(self, operation: Operation, revision: int) -> int:
        """The revision of what was acknowledged."""
        verb, name, text = operation
        metadata: Data = {"name": name} | ({"resourceVersion": str(revision)} if verb == "PUT" else {})
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}
        media_type = "application/merge-patch+json" if verb == "PATCH" else "application/json"
        path = PATH if verb == "POST" else f"{PATH}/{name}"
        sent = None if verb == "DELETE" else json.dumps(body)
        async with self.session.request(
            verb, self.url + path, data=sent, headers={"Content-Type": media_type}
        ) as answer:
            told = await answer.json()
            assert answer.status in (200, 201), told
            return int(told["metadata"].get("resourceVersion", 0))


@asynccontextmanager
async def connected(server: Live) -> AsyncIterator[Connected]:
    connector = aiohttp.TCPConnector(ssl=server.trust(), limit=0)
    headers = {"Authorization": f"Bearer {server.token}"}
    async with aiohttp.ClientSession(
        connector=connector, headers=headers, timeout=aiohttp.ClientTimeout(sock_read=30)
    ) as session:
        yield Connected(session, server.url)


@dataclass
class Watcher:
    """Somebody who follows the objects through all deaths of the server, as an informer does."""

    state: State = field(default_factory=dict)
    revision: int = 0
    listed_again: int = 0
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def follow(self, client: Connected) -> None:
        """Go on from where it was, until the server dies."""
        with suppress(aiohttp.ClientError, ConnectionError):
            if not self.revision:
                self.state, self.revision = await client.list()
            while not await self._watch(client):
                self.listed_again += 1
                await self._list_again(client)

    async def knows(self, state: State) -> None:
        """Wait until it knows what is there."""
        async with asyncio.timeout(20), self._news:
            await self._news.wait_for(lambda: self.state == state)

    async def _watch(self, client: Connected) -> bool:
        """Whether all changes came, until the connection broke; otherwise the revision was too old."""
        url = f"{client.url}{PATH}?watch=true&resourceVersion={self.revision}"
        async with client.session.get(url) as stream:
            assert stream.status == 200, await stream.text()
            async for line in stream.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    assert event["object"]["code"] == 410
                    return False
                self._take(event["type"], *known(event["object"]))
                await self._notify()
        return True

    def _take(self, change: str, name: str, now: Known) -> None:
        """One event, which must fit what was known before it."""
        assert now.revision > self.revision
        assert (name in self.state) is (change != "ADDED")
        self.revision = now.revision
        if change == "DELETED":
            del self.state[name]
        else:
            self.state[name] = now

    async def _list_again(self, client: Connected) -> None:
        """What differs must have happened after what was known: otherwise something was told that never was."""
        found, revision = await client.list()
        assert revision > self.revision
        differing = {name for name in self.state.keys() | found.keys() if self.state.get(name) != found.get(name)}
        assert all(found[name].revision > self.revision for name in differing & found.keys())
        assert len(differing) <= revision - self.revision
        self.state, self.revision = found, revision
        await self._notify()

    async def _notify(self) -> None:
        async with self._news:
            self._news.notify_all()


async def written_until_killed(client: Connected, server: Live, turn: int, enough: int) -> list[Acknowledged]:
    """Write through several connections, and kill the server when so many writes are acknowledged."""
    told = [Acknowledged(f"{turn:02}-{each:02}") for each in range(CONNECTIONS)]
    left = enough

    def kill_when_enough() -> None:
        assert server.process
        if left <= 0:
            server.process.kill()

    async def write(each: Acknowledged) -> None:
        nonlocal left
        revision = 0
        with suppress(aiohttp.ClientError, ConnectionError):
            for operation in operations(each.prefix):
                revision = await client.write(operation, revision)
                each.revisions.append(revision)
                left -= 1
                kill_when_enough()

    kill_when_enough()
    await asyncio.gather(*map(write, told))
    await asyncio.to_thread(server.stop, signal.SIGKILL)
    return told


def kill_while_it_starts(server: Live, seconds: float) -> None:
    with server.begin() as process:
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        process.kill()


@pytest.fixture(params=["sqlite", "etcd"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    if request.param == "etcd" and binary() is None:
        pytest.skip(WHY_SKIPPED)
    with ExitStack() as stack:
        killed = Live(tmp_path / "data", command="apiserver")
        if request.param == "etcd":
            cluster = stack.enter_context(Cluster(tmp_path / "etcd", 1))
            killed.store = "etcd://" + ",".join(cluster.endpoints)
        yield killed
        killed.stop(signal.SIGKILL)


async def test_a_server_that_is_killed_loses_nothing_that_it_acknowledged(server: Live) -> None:
    print(f"seed {SEED}")
    moments = random.Random(SEED)
    watcher = Watcher()
    told: list[Acknowledged] = []
    last = acknowledged = 0
    for turn in range(ROUNDS + 1):
        if turn % 10 == 0:
            kill_while_it_starts(server, moments.uniform(0, STARTING_SECONDS))
        await asyncio.to_thread(server.start)
        async with connected(server) as client, asyncio.TaskGroup() as group:
            found, revision = await client.list()
            assert revision >= max(last, watcher.revision, *(max(each.revisions, default=0) for each in told), 0)
            last = revision
            for each in told:
                each.check(found)
            group.create_task(watcher.follow(client))
            await watcher.knows(found)
            told = await written_until_killed(client, server, turn, moments.choice((0, 1, 8, 40, 120)))
            acknowledged += sum(len(each.revisions) for each in told)
    assert acknowledged > 20 * ROUNDS
    # A server with SQLite forgets with its death what has happened, not what is there; etcd remembers both.
    assert (watcher.listed_again > ROUNDS // 4) is (server.store == "sqlite")
