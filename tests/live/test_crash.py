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
from tests.plane import PATIENCE
from tests.seeds import FUZZING, seed
from tests.store.cluster import WHY_SKIPPED, Cluster, binary

ROUNDS = 50 if FUZZING else 20
WRITES = (0, 1, 8, 40, 120)
"""After how many acknowledged writes the server is killed, each equally often."""
SEED = seed(4)
CONNECTIONS = 8
PATH = "/api/v1/namespaces/default/configmaps"
STARTING_SECONDS = 0.6

Data = dict[str, Any]
Operation = tuple[str, str, str]
"""Verb, name and text."""


class Known(NamedTuple):
    """The text and the revision of an object, as a client last saw it."""

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
    """The operations of one connection that the server acknowledged."""

    prefix: str
    revisions: list[int] = field(default_factory=list)
    """The revisions of its operations; 0 for a deletion, whose answer has none."""

    def state(self, *more: int) -> State:
        """The objects that these operations leave behind, followed by one more if its revision is given."""
        left: State = {}
        for (verb, name, text), revision in zip(operations(self.prefix), [*self.revisions, *more], strict=False):
            if verb == "DELETE":
                del left[name]
            else:
                left[name] = Known(text, revision)
        return left

    def check(self, state: State) -> None:
        """All that was acknowledged is there, and at most the next operation besides."""
        own = {name: known for name, known in state.items() if name.startswith(self.prefix)}
        if own == self.state():
            return
        verb, name, _ = next(islice(operations(self.prefix), len(self.revisions), None))
        revision = own[name].revision if verb != "DELETE" else 0
        assert own == self.state(revision)
        assert verb == "DELETE" or revision > max(self.revisions, default=0)


@dataclass
class Connected:
    """A client of the server, until the server is killed."""

    session: aiohttp.ClientSession
    url: str

    async def list(self) -> tuple[State, int]:
        async with self.session.get(self.url + PATH) as answer:
            content = await answer.json()
            assert answer.status == 200, content
            return dict(map(known, content["items"])), int(content["metadata"]["resourceVersion"])

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
            content = await answer.json()
            assert answer.status in (200, 201), content
            return int(content["metadata"].get("resourceVersion", 0))


@asynccontextmanager
async def connected(server: Live) -> AsyncIterator[Connected]:
    connector = aiohttp.TCPConnector(ssl=server.trust(), limit=0)
    headers = {"Authorization": f"Bearer {server.token}"}
    async with aiohttp.ClientSession(
        connector=connector, headers=headers, timeout=aiohttp.ClientTimeout(sock_read=PATIENCE)
    ) as session:
        yield Connected(session, server.url)


@dataclass
class Watcher:
    """A client that follows the objects across restarts of the server, as an informer does."""

    state: State = field(default_factory=dict)
    revision: int = 0
    listed_again: int = 0
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def follow(self, client: Connected) -> None:
        """Resume at the last revision, until the server is killed."""
        with suppress(aiohttp.ClientError, ConnectionError):
            if not self.revision:
                self.state, self.revision = await client.list()
            while not await self._watch(client):
                self.listed_again += 1
                await self._list_again(client)

    async def knows(self, state: State) -> None:
        """Wait until it has seen this state."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: self.state == state)

    async def _watch(self, client: Connected) -> bool:
        """Follow until the connection breaks. False when the revision was too old to resume from."""
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
        """Apply one event, which must fit the state before it."""
        assert now.revision > self.revision
        assert (name in self.state) is (change != "ADDED")
        self.revision = now.revision
        if change == "DELETED":
            del self.state[name]
        else:
            self.state[name] = now

    async def _list_again(self, client: Connected) -> None:
        """All that differs must have changed since the last revision: otherwise an event was wrong or is missing."""
        state, revision = await client.list()
        assert revision > self.revision
        differing = {name for name in self.state.keys() | state.keys() if self.state.get(name) != state.get(name)}
        assert all(state[name].revision > self.revision for name in differing & state.keys())
        assert len(differing) <= revision - self.revision
        self.state, self.revision = state, revision
        await self._notify()

    async def _notify(self) -> None:
        async with self._news:
            self._news.notify_all()


async def written_until_killed(client: Connected, server: Live, turn: int, enough: int) -> list[Acknowledged]:
    """Write through several connections, and kill the server when so many writes are acknowledged."""
    writers = [Acknowledged(f"{turn:02}-{number:02}") for number in range(CONNECTIONS)]
    left = enough

    def kill_when_enough() -> None:
        assert server.process
        if left <= 0:
            server.process.kill()

    async def write(writer: Acknowledged) -> None:
        nonlocal left
        revision = 0
        with suppress(aiohttp.ClientError, ConnectionError):
            for operation in operations(writer.prefix):
                revision = await client.write(operation, revision)
                writer.revisions.append(revision)
                left -= 1
                kill_when_enough()

    kill_when_enough()
    await asyncio.gather(*map(write, writers))
    await asyncio.to_thread(server.stop, signal.SIGKILL)
    return writers


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


@pytest.mark.seeded
async def test_a_server_that_is_killed_loses_nothing_that_it_acknowledged(server: Live) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    writes = list(WRITES) * (ROUNDS // len(WRITES))
    chance.shuffle(writes)
    watcher = Watcher()
    writers: list[Acknowledged] = []
    last = acknowledged = 0
    for turn, enough in enumerate([*writes, 0]):
        if turn % 5 == 0:
            kill_while_it_starts(server, chance.uniform(0, STARTING_SECONDS))
        await asyncio.to_thread(server.start)
        async with connected(server) as client, asyncio.TaskGroup() as group:
            state, revision = await client.list()
            assert revision >= max(last, watcher.revision, *(max(each.revisions, default=0) for each in writers), 0)
            last = revision
            for writer in writers:
                writer.check(state)
            group.create_task(watcher.follow(client))
            await watcher.knows(state)
            writers = await written_until_killed(client, server, turn, enough)
            acknowledged += sum(len(writer.revisions) for writer in writers)
    assert acknowledged >= sum(writes)
    # SQLite keeps the objects, not the history of changes: a watcher that was behind lists again. etcd keeps both.
    assert (watcher.listed_again > 0) is (server.store == "sqlite")
