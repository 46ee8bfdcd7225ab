"""What no API server says, but a bad one or a proxy in its place may: it is bounded, and tried again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.api import kinds
from moorage.client import Client, Unavailable, connection, errors, https
from moorage.client.client import MAX_LINE
from moorage.client.clock import ManualClock
from moorage.client.leases import LeaseTerms, lead
from moorage.client.transport import Answer, Transport
from tests.client.scripted import Visit, scripted
from tests.plane import api_server, eventually

POD = kinds.row("v1", "Pod")
HTML = b"<!DOCTYPE html><html>Bad gateway</html>"


class Bad:
    """Gives some answers, or a stream, in place of a server's."""

    def __init__(
        self, answers: list[bytes], chunks: list[bytes] | None = None, server: Transport | None = None
    ) -> None:
        self.answers = answers
        self.chunks = chunks
        self.sent = self.passed_on = 0
        self._server = server

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        if self.answers or self._server is None:
            return Answer(200, self.answers.pop(0))
        self.passed_on += 1
        return await self._server.request(method, target, body, content_type)

    def stream(self, target: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._stream()

    @asynccontextmanager
    async def _stream(self) -> AsyncIterator[AsyncIterator[bytes]]:
        async def sent() -> AsyncIterator[bytes]:
            while self.chunks is None:
                self.sent += 1 << 20
                yield b"x" * (1 << 20)
            for chunk in self.chunks:
                yield chunk

        yield sent()

    async def close(self) -> None:
        pass


async def test_an_event_that_never_ends_is_given_up() -> None:
    server = Bad([])
    async with aclosing(Client(server).watch(POD, after="1")) as batches:
        with pytest.raises(Unavailable, match="an event of the watch is longer than 8 MiB"):
            await anext(batches)
    assert server.sent <= MAX_LINE + (1 << 20)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=20))
async def test_events_are_whole_however_they_are_cut(sizes: list[int]) -> None:
    text = b"".join(b'{"type":"ADDED","object":{"n":%d}}\n' % number for number in range(5))
    chunks, at = [], 0
    for size in sizes:
        chunks.append(text[at : at + size])
        at += size
    server = Bad([], [*chunks, text[at:]])
    async with aclosing(Client(server).watch(POD, after="1")) as batches:
        found = [bytes(event.object) async for batch in batches for event in batch]
    assert found == [b'{"n":%d}' % number for number in range(5)]


@pytest.mark.parametrize("body", [HTML, b"", b"[]", b'"x"', b" " * 200 + b"{}"])
async def test_an_answer_that_is_no_object_means_that_the_server_is_away(body: bytes) -> None:
    with pytest.raises(Unavailable, match="the answer cannot be read: it is no object"):
        await Client(Bad([body])).get(POD, "default", "x")


async def test_space_before_an_object_is_no_matter() -> None:
    assert await Client(Bad([b" \n{}"])).get(POD, "default", "x") == b" \n{}"


NO_LEASES = [
    HTML, b"{}", b'{"kind":"Status"}', b'{"kind":"Lease","metadata":{},"spec":1}', b'{"kind":"Lease"', b"{" * 9_000,
]  # fmt: skip


async def test_a_candidate_waits_until_it_reads_a_lease(tmp_path: Path) -> None:
    led, clock = asyncio.Event(), ManualClock(datetime(2026, 1, 1, tzinfo=UTC))

    async def work() -> None:
        led.set()

    async with api_server(tmp_path) as server:
        bad = Bad(list(NO_LEASES), server=server.transport("tests"))
        leading = asyncio.create_task(lead(Client(bad), LeaseTerms("x"), "a", clock, work))
        while not bad.passed_on:
            assert not leading.done()
            clock.advance(1)
            await asyncio.sleep(0)
        await led.wait()
        await leading


@pytest.mark.parametrize("given", [10.0**18, float("inf")])
def test_no_server_is_left_alone_for_ever(given: float) -> None:
    body = b'{"details":{"retryAfterSeconds":999999999999}}'
    assert errors.of(429, b"{}", given).retry_after == errors.of(429, body).retry_after == errors.LONGEST_DELAY


async def test_an_answer_without_an_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LARGEST", 1 << 20)

    async def endless(visit: Visit) -> None:
        head = "headers" in await visit.request()
        await visit.send("HTTP/1.1 200 OK\r\n" + ("" if head else "Transfer-Encoding: chunked\r\n\r\n"))
        with suppress(ConnectionError):
            while True:
                await visit.send("X: " + "x" * 60_000 + "\r\n" if head else "ffff\r\n" + "x" * 0xFFFF + "\r\n")

    async with scripted(tmp_path, endless) as server:
        with pytest.raises(Unavailable, match="the answer is longer than 1 MiB"):
            await server.transport.request("GET", "/body")
        with pytest.raises(Unavailable, match="the answer has more than 64 KiB of headers"):
            await server.transport.request("GET", "/headers")


async def test_the_memory_of_large_answers_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[None] = []
    monkeypatch.setattr(https, "give_back", lambda: given_back.append(None))
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))

    async def times() -> int:
        return len(given_back)

    async def twice() -> bool:
        return len(given_back) == 2

    large = "x" * (2 << 20)

    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.answer("small")
        for _ in range(2):
            await visit.request()
            await visit.answer(large)
        await visit.request()

    async def endless(visit: Visit) -> None:
        await visit.request()
        await visit.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await visit.send(f"{len(large):x}\r\n{large}\r\n")

    async with scripted(tmp_path, serve, clock) as server:
        await server.transport.request("GET", "/api")
        clock.advance(60)
        for _ in range(2):
            await server.transport.request("GET", "/api")
        assert not given_back
        clock.advance(5)
        assert await eventually(times) == 1
    async with scripted(tmp_path, endless, clock) as server:
        with pytest.raises(Unavailable, match="longer than 8 MiB"):
            async for _ in Client(server.transport).watch(POD, after="1"):
                pass
        clock.advance(5)
        assert await eventually(twice)
