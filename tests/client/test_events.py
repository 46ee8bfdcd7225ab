"""Events are said once, counted when they happen again, and never in anybody's way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.client import Client, Exists, Unavailable, errors
from moorage.client.clock import Clock, ManualClock
from moorage.client.events import NORMAL, WARNING, Recorder
from moorage.client.priority import urgent
from moorage.client.transport import Answer
from tests.client.conftest import Connect
from tests.client.nowait import NoWait
from tests.plane import Data, api_server, create, eventually, node, pod, read_all

_START = datetime(2026, 1, 1, tzinfo=UTC)


def _pod(name: str = "web", uid: str = "1") -> Pod:
    return msgspec.convert({"metadata": {"name": name, "namespace": "default", "uid": uid}}, Pod)


@asynccontextmanager
async def _running(client: Client, clock: Clock | None = None, **options: float) -> AsyncIterator[Recorder]:
    recorder = Recorder(client, "test", clock, **options)
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Ledger:
    """The least of an API server: events that are created and patched, and failures on demand."""

    def __init__(self) -> None:
        self.events: dict[str, Data] = {}
        self.writes: Counter[str] = Counter()
        self.failing: list[Exception] = []
        self.at_once = self.most = 0
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()
        self.lose_answers = 0

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        self.at_once += 1
        self.asked.set()
        self.most = max(self.most, self.at_once)
        try:
            await self.go.wait()
            await asyncio.sleep(0)
            self.writes[method] += 1
            if self.failing:
                raise self.failing.pop(0)
            return self._answer(method, target.rpartition("/")[2], msgspec.json.decode(body))
        finally:
            self.at_once -= 1

    def _answer(self, method: str, name: str, data: Data) -> Answer:
        if method == "POST":
            if data["metadata"]["name"] in self.events:
                raise Exists(409, "AlreadyExists", "there")
            self.events[data["metadata"]["name"]] = data
            if self.lose_answers:
                self.lose_answers -= 1
                raise Unavailable(503, "", "lost")
        elif name in self.events:
            self.events[name].update(data)
        else:
            return Answer(404, b"{}")
        return Answer(200, b"{}")

    def stream(self, target: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError

    async def close(self) -> None:
        return None

    def counts(self) -> dict[str, int]:
        """How often each message was told."""
        return {event["message"]: event["count"] for event in self.events.values()}

    async def has(self, expected: dict[str, int]) -> None:
        """Wait until the events are these."""

        async def same() -> bool:
            return self.counts() == expected

        await eventually(same)


async def test_an_event_is_there_for_everybody_to_read(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server:
        client = connect(server)
        about = msgspec.convert(await create(client, pod("web")), Pod)
        async with _running(client, ManualClock(_START)) as recorder:
            recorder.event(about, WARNING, "FailedScheduling", "0/3 nodes are available", "Scheduling")

            async def there() -> list[Data]:
                return await read_all(client, "Event", "default")

            (event,) = await eventually(there)
        assert event["involvedObject"] == {
            "apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "web", "uid": about.metadata.uid,
            "resourceVersion": about.metadata.resource_version,
        }  # fmt: skip
        assert (event["type"], event["reason"], event["message"]) == (
            "Warning", "FailedScheduling", "0/3 nodes are available",
        )  # fmt: skip
        assert (event["count"], event["firstTimestamp"], event["source"]) == (
            1, "2026-01-01T00:00:00Z", {"component": "test"},
        )  # fmt: skip


async def test_an_event_of_a_node_is_in_the_default_namespace(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        client = server.client("test")
        about = msgspec.convert(await create(client, node("n")), Node)
        async with _running(client) as recorder:
            recorder.event(about, NORMAL, "NodeReady", "ready")

            async def there() -> bool:
                return any(event["reason"] == "NodeReady" for event in await read_all(client, "Event", "default"))

            await eventually(there)


async def test_the_same_event_again_counts_up(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server:
        client, clock = connect(server), ManualClock(_START)
        async with _running(client, clock) as recorder:
            for count in (1, 2, 3):
                recorder.event(_pod(), NORMAL, "Pulled", "image")

                async def counted(count: int = count) -> bool:
                    return [event["count"] for event in await read_all(client, "Event", "default")] == [count]

                await eventually(counted)
                clock.advance(60)
        (event,) = await read_all(client, "Event", "default")
        assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:02:00Z")


async def test_what_differs_in_anything_is_another_event() -> None:
    ledger = Ledger()
    async with _running(Client(ledger)) as recorder:
        recorder.event(_pod("a"), NORMAL, "R", "one")
        recorder.event(_pod("a"), NORMAL, "R", "two")
        recorder.event(_pod("a"), NORMAL, "S", "three")
        recorder.event(_pod("a"), WARNING, "S", "four")
        recorder.event(_pod("a", "another"), NORMAL, "R", "five")
        await ledger.has({"one": 1, "two": 1, "three": 1, "four": 1, "five": 1})


async def test_many_of_the_same_at_once_are_few_writes() -> None:
    ledger = Ledger()
    async with _running(Client(ledger)) as recorder:
        for _ in range(1000):
            recorder.event(_pod(), NORMAL, "R", "again")
        await ledger.has({"again": 1000})
    assert sum(ledger.writes.values()) <= 2


async def test_many_messages_about_the_same_are_combined() -> None:
    ledger, clock = Ledger(), ManualClock(_START)
    async with _running(Client(ledger), clock) as recorder:
        for number in range(30):
            recorder.event(_pod(), WARNING, "FailedCreate", f"Error creating: pod-{number}")
            clock.advance(1)
        expected = {f"Error creating: pod-{number}": 1 for number in range(9)}
        await ledger.has({**expected, "(combined from similar events): Error creating: pod-29": 21})
        clock.advance(601)
        recorder.event(_pod(), WARNING, "FailedCreate", "Error creating: later")
        await ledger.has({
            **expected, "(combined from similar events): Error creating: pod-29": 21, "Error creating: later": 1,
        })  # fmt: skip


async def test_an_event_that_has_expired_is_made_again() -> None:
    ledger = Ledger()
    async with _running(Client(ledger)) as recorder:
        recorder.event(_pod(), NORMAL, "R", "m")
        await ledger.has({"m": 1})
        ledger.events.clear()
        recorder.event(_pod(), NORMAL, "R", "m")
        await ledger.has({"m": 2})


async def test_an_event_whose_answer_was_lost_is_not_made_twice() -> None:
    ledger = Ledger()
    ledger.lose_answers = 1
    async with _running(Client(ledger)) as recorder:
        recorder.event(_pod(), NORMAL, "R", "m")
        recorder.event(_pod(), NORMAL, "R", "m")
        await ledger.has({"m": 2})
    assert len(ledger.events) == 1


async def test_a_server_that_is_away_for_a_moment_gets_the_event_later() -> None:
    ledger = Ledger()
    ledger.failing = [Unavailable(503, "", "away"), errors.of(429, b"{}"), errors.of(429, b"{}", 60)]
    async with _running(Client(ledger), clock := NoWait()) as recorder:
        recorder.event(_pod(), NORMAL, "R", "m")
        await ledger.has({"m": 1})
        assert recorder.dropped == 0
    first, second, third = clock.waits
    assert 0.125 <= first <= 0.375
    assert 0.25 <= second <= 0.75
    assert third >= 30


async def test_an_event_that_nobody_can_take_is_given_up() -> None:
    ledger = Ledger()
    ledger.failing = [Unavailable(503, "", "away")] * 7 + [errors.of(403, b'{"message":"ending"}')]
    async with _running(Client(ledger), NoWait()) as recorder:
        recorder.event(_pod(), NORMAL, "R", "lost")

        async def given_up() -> bool:
            return recorder.dropped == 1

        await eventually(given_up)
        recorder.event(_pod(), NORMAL, "R", "forbidden")
        recorder.event(_pod("b"), NORMAL, "R", "fine")
        await ledger.has({"fine": 1})


async def test_a_flood_blocks_nobody_and_is_bounded() -> None:
    ledger = Ledger()
    ledger.go.clear()
    async with _running(Client(ledger)) as recorder:
        for number in range(25_000):
            recorder.event(_pod(f"p{number}"), NORMAL, "R", "m")
        assert recorder.dropped == 5_000
        await ledger.asked.wait()
        await asyncio.sleep(0)
        assert ledger.at_once == 4


async def test_a_few_are_sent_at_the_same_time_but_each_event_in_its_order() -> None:
    ledger = Ledger()
    async with _running(Client(ledger)) as recorder:
        for number in range(400):
            recorder.event(_pod(f"p{number % 40}"), NORMAL, "R", f"m{number % 40}")
            if number % 40 == 39:
                await asyncio.sleep(0)
        await ledger.has({f"m{number}": 10 for number in range(40)})
    assert 1 < ledger.most <= 4


async def test_events_wait_while_others_work() -> None:
    """While a request waits for its answer, events that were recorded before are not sent."""
    ledger = Ledger()
    async with _running(Client(ledger), patience=60.0) as recorder:
        with urgent():
            for number in range(100):
                recorder.event(_pod(f"p{number}"), NORMAL, "R", f"m{number}")
            for _ in range(1000):
                await asyncio.sleep(0)
            assert not ledger.asked.is_set()
        await ledger.has({f"m{number}": 1 for number in range(100)})


async def test_events_do_not_wait_for_ever() -> None:
    ledger = Ledger()
    async with _running(Client(ledger), patience=0.01) as recorder:
        with urgent():
            recorder.event(_pod(), NORMAL, "R", "m")
            await ledger.has({"m": 1})


async def test_long_messages_and_names_are_cut() -> None:
    ledger = Ledger()
    async with _running(Client(ledger)) as recorder:
        recorder.event(_pod("n" * 253), NORMAL, "R", "m" * 2000)
        await ledger.has({"m" * 1023 + "…": 1})
    (name,) = ledger.events
    assert len(name) == 253


async def test_one_recorder_speaks_for_many_and_of_parts() -> None:
    ledger, clock = Ledger(), ManualClock(_START)
    async with _running(Client(ledger), clock) as recorder:
        kubelet = recorder.named("kubelet", "n1")
        kubelet.event(_pod(), NORMAL, "Started", "m", part="spec.containers{a}", at=datetime(2025, 1, 1, tzinfo=UTC))
        kubelet.event(_pod(), NORMAL, "Started", "m", part="spec.containers{b}")
        recorder.event(_pod(), NORMAL, "Started", "m")

        async def all_there() -> bool:
            return len(ledger.events) == 3

        await eventually(all_there)
    first, second, third = (ledger.events[name] for name in sorted(ledger.events))
    assert (first["source"], first["reportingInstance"]) == ({"component": "kubelet", "host": "n1"}, "n1")
    assert first["involvedObject"]["fieldPath"] == "spec.containers{a}"
    assert (first["firstTimestamp"], second["firstTimestamp"]) == ("2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z")
    assert (third["source"], "fieldPath" in third["involvedObject"]) == ({"component": "test"}, False)
