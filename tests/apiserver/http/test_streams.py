"""Watches: chunks that go out as they come, to clients that read slowly, leave, or outlive the server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from moorage.apiserver.http.limits import Limits
from moorage.apiserver.http.listener import Server
from moorage.apiserver.http.messages import Request, Response
from tests.apiserver.edge import Client, code, connected, eventually, exchange, scenario, serving, trust

WATCH = b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n"


class Source:
    """A handler whose streams say what was put into a queue; b"" ends them."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[bytes] = asyncio.Queue()
        self.ended = asyncio.Event()
        self.begun = asyncio.Event()

    async def __call__(self, request: Request) -> Response:
        return Response(stream=self.stream())

    async def stream(self) -> AsyncIterator[bytes]:
        self.begun.set()
        try:
            while event := await self.events.get():
                yield event
        finally:
            self.ended.set()


class Flood:
    """A handler whose stream never waits, and counts what it was asked for."""

    def __init__(self, size: int = 64 << 10, count: int = 1 << 30) -> None:
        self.piece = bytes(size)
        self.count = count
        self.produced = 0
        self.ended = asyncio.Event()

    async def __call__(self, request: Request) -> Response:
        return Response(stream=self.stream())

    async def stream(self) -> AsyncIterator[bytes]:
        try:
            for _ in range(self.count):
                self.produced += len(self.piece)
                yield self.piece
        finally:
            self.ended.set()


@scenario
async def test_each_chunk_is_sent_at_once_and_the_connection_serves_on() -> None:
    source = Source()
    async with serving(source) as server, connected(server) as client:
        await client.send(WATCH)
        head = await client.head()
        assert code(head) == 200
        assert b"\r\nTransfer-Encoding: chunked\r\n" in head
        assert b"Content-Length" not in head
        assert (server.control.exempt, server.control.streams) == (0, 1)
        for event in (b"one\n", b"two\n"):
            source.events.put_nowait(event)
            assert await client.chunk() == event
        source.events.put_nowait(b"")
        assert await client.chunk() == b""
        await client.send(WATCH)
        source.events.put_nowait(b"three\n")
        assert code(await client.head()) == 200
        assert await client.chunk() == b"three\n"


@scenario
async def test_an_ordinary_client_reads_a_watch() -> None:
    source = Source()
    async with serving(source) as server:
        connector = aiohttp.TCPConnector(ssl=trust())
        async with (
            aiohttp.ClientSession(f"https://localhost:{server.port}", connector=connector) as session,
            session.get("/api/v1/pods?watch=1") as answer,
        ):
            source.events.put_nowait(b'{"type":"ADDED"}\n')
            assert await answer.content.readline() == b'{"type":"ADDED"}\n'
            source.events.put_nowait(b"")
            assert await answer.content.read() == b""


@scenario
async def test_an_empty_chunk_does_not_end_a_stream() -> None:
    async def handler(request: Request) -> Response:
        async def stream() -> AsyncIterator[bytes]:
            yield b""
            yield b"a"
            yield b""
            yield b"b"

        return Response(stream=stream())

    async with serving(handler) as server, connected(server) as client:
        await client.send(WATCH)
        await client.head()
        assert [await client.chunk() for _ in range(3)] == [b"a", b"b", b""]


@scenario
async def test_a_stream_to_an_old_client_ends_with_the_connection() -> None:
    async with serving(Flood(size=1000, count=3)) as server:
        head, _, body = (await exchange(server, b"GET / HTTP/1.0\r\n\r\n")).partition(b"\r\n\r\n")
        assert b"chunked" not in head
        assert body == bytes(3000)


@scenario
async def test_a_stream_is_not_read_for_a_head_request_but_closed() -> None:
    closed = asyncio.Event()

    class Never:
        def __aiter__(self) -> Never:
            return self

        async def __anext__(self) -> bytes:
            raise AssertionError

        async def aclose(self) -> None:
            closed.set()

    async def handler(request: Request) -> Response:
        return Response(stream=Never())

    async with serving(handler) as server, connected(server) as client:
        await client.send(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
        assert [code(await client.head()) for _ in range(2)] == [200, 200]
        await closed.wait()


@scenario
async def test_a_stream_outlives_the_time_limit_of_requests() -> None:
    source = Source()
    async with serving(source, Limits(request_time=0.02, idle_time=0.02)) as server, connected(server) as client:
        await client.send(WATCH)
        await client.head()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await source.ended.wait()
        source.events.put_nowait(b"late")
        assert await client.chunk() == b"late"


@scenario
async def test_a_client_that_leaves_ends_its_stream() -> None:
    source = Source()
    async with serving(source) as server:
        async with connected(server) as client:
            await client.send(WATCH)
            await source.begun.wait()
        await source.ended.wait()
        await eventually(lambda: not server.connections, lambda: asyncio.sleep(0))
        assert server.control.streams == 0


async def slow(server: Server) -> Client:
    """A client whose window is small, so that the machine's buffers hold little."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
    plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", server.port))
    return Client(*await asyncio.open_connection(sock=plain, ssl=trust(), server_hostname="localhost", limit=1 << 12))


@scenario
async def test_a_client_that_does_not_read_pauses_its_stream_and_is_cut_off_in_the_end() -> None:
    flood = Flood()
    async with serving(flood, Limits(stall_time=0.3)) as server:
        client = await slow(server)
        await client.send(WATCH)
        await flood.ended.wait()
        assert flood.produced < 16 << 20
        await eventually(lambda: not server.connections, lambda: asyncio.sleep(0))
        client.writer.transport.abort()


@scenario
async def test_a_client_that_reads_slowly_gets_everything_and_holds_little() -> None:
    flood = Flood(count=500)
    async with serving(flood) as server:
        client = await slow(server)
        await client.send(WATCH)
        await client.head()
        got = 0
        while piece := await client.chunk():
            got += len(piece)
            assert flood.produced - got < 16 << 20
        assert got == 500 * (64 << 10)
        client.writer.transport.abort()


@scenario
async def test_a_client_that_does_not_read_a_large_body_is_cut_off() -> None:
    parts = [bytes(1 << 20)] * 64

    async def handler(request: Request) -> Response:
        return Response(200, parts)

    async with serving(handler, Limits(stall_time=0.2)) as server:
        client = await slow(server)
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
        await client.head()
        await eventually(lambda: not server.connections, lambda: asyncio.sleep(0.01))
        assert server.control.exempt == 0
        client.writer.transport.abort()


@scenario
async def test_an_error_in_a_stream_leaves_it_visibly_unfinished(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(request: Request) -> Response:
        async def stream() -> AsyncIterator[bytes]:
            yield b"one"
            raise RuntimeError("broken")

        return Response(stream=stream())

    async with serving(handler) as server:
        assert not (await exchange(server, WATCH)).endswith(b"0\r\n\r\n")
        assert "broken" in caplog.text
        assert server.control.streams == 0


@scenario
async def test_stopping_ends_streams_cleanly_and_finishes_what_is_being_served() -> None:
    source = Source()
    release = asyncio.Event()
    entered = asyncio.Event()

    async def handler(request: Request) -> Response:
        if request.watching:
            return await source(request)
        entered.set()
        await release.wait()
        return Response(200, b"done")

    async with serving(handler) as server, connected(server) as watcher, connected(server) as asker:
        async with connected(server) as idler:
            await watcher.send(WATCH)
            await watcher.head()
            await asker.send(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n")
            await entered.wait()
            stopping = asyncio.ensure_future(server.stop(grace=5))
            assert await watcher.rest() == b"0\r\n\r\n"
            assert source.ended.is_set()
            assert await idler.rest() == b""
        with pytest.raises(ConnectionError):
            await exchange(server, WATCH)
        assert not stopping.done()
        release.set()
        answer = await asker.rest()
        assert b"\r\nConnection: close\r\n" in answer
        assert answer.endswith(b"done")
        await stopping


@scenario
async def test_what_does_not_end_within_the_grace_is_cut() -> None:
    cancelled = asyncio.Event()

    async def handler(request: Request) -> Response:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return Response()

    async with serving(handler) as server, connected(server) as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n")
        await eventually(lambda: server.control.exempt == 1, lambda: asyncio.sleep(0))
        await server.stop(grace=0.05)
        assert cancelled.is_set()
        assert await client.rest() == b""
        assert server.connections == 0


@scenario
async def test_a_client_that_sleeps_does_not_keep_the_server_from_stopping() -> None:
    async with serving(limits=Limits(linger_time=0.05)) as server:
        with trust().wrap_socket(socket.socket(), server_hostname="127.0.0.1") as sleeper:
            await asyncio.to_thread(sleeper.connect, ("127.0.0.1", server.port))
            await eventually(lambda: server.connections == 1, lambda: asyncio.sleep(0))
            async with asyncio.timeout(5):
                await server.stop(grace=60)


@scenario
async def test_hundreds_of_streams_end_when_the_server_stops() -> None:
    source = Source()
    async with serving(source) as server, contextlib.AsyncExitStack() as stack:
        tls = trust()
        clients = [await stack.enter_async_context(connected(server, tls)) for _ in range(200)]
        for client in clients:
            await client.send(WATCH)
            await client.head()
        stopping = asyncio.ensure_future(server.stop(grace=5))
        assert {await client.rest() for client in clients} == {b"0\r\n\r\n"}
        await stopping
        assert server.control.streams == 0
