"""Clients of every sort against a listening server: good, slow, rude and too many."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import logging
import random
import socket
import ssl
from collections.abc import AsyncIterator

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.apiserver.access.tokens import ADMIN
from moorage.apiserver.http.limits import Limits
from moorage.apiserver.http.listener import Server
from moorage.apiserver.http.messages import Reason, Refused, Request, Response, status
from tests.apiserver.edge import (
    CLOSE,
    GET,
    Client,
    code,
    connected,
    echo,
    eventually,
    exchange,
    made,
    scenario,
    serving,
    told,
    trust,
)

QUICK = Limits(header_time=0.05, body_time=0.05, idle_time=0.2, linger_time=0.05)
IMPATIENT = Limits(header_time=0.05, body_time=0.05)
GENEROUS = Limits(linger_time=0.2)


class Gate:
    """A handler that answers when it is told to."""

    def __init__(self) -> None:
        self.entered: asyncio.Queue[Request] = asyncio.Queue()
        self.left: asyncio.Queue[str] = asyncio.Queue()
        self.open = asyncio.Event()

    async def __call__(self, request: Request) -> Response:
        self.entered.put_nowait(request)
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.left.put_nowait("cancelled")
            raise
        self.left.put_nowait("finished")
        return Response(200, request.path.encode())


@scenario
async def test_an_ordinary_client_is_served() -> None:
    async with serving() as server:
        connector = aiohttp.TCPConnector(ssl=trust())
        async with aiohttp.ClientSession(f"https://localhost:{server.port}", connector=connector) as session:
            async with session.post("/a", data=b"hello") as answer:
                assert (answer.status, await answer.read()) == (200, b"hello")
                assert answer.headers["Content-Type"] == "application/json"
                assert answer.headers["Cache-Control"] == "no-cache, private"
                assert "Date" in answer.headers
            async with session.put("/a", data=_parts()) as answer:
                assert await answer.read() == b"onetwothree"
            async with session.head("/abc") as answer:
                assert (answer.headers["Content-Length"], await answer.read()) == ("4", b"")
            assert server.connections == 1


async def _parts() -> AsyncIterator[bytes]:
    for part in (b"one", b"two", b"three"):
        yield part


@scenario
async def test_tls_offers_http_1_1_and_nothing_older_than_1_2() -> None:
    async with serving() as server:
        modern = trust()
        modern.set_alpn_protocols(["h2", "http/1.1"])
        async with connected(server, modern) as client:
            tls = client.writer.get_extra_info("ssl_object")
            assert tls.selected_alpn_protocol() == "http/1.1"
            assert tls.version() == "TLSv1.3"


@scenario
async def test_without_tls_there_is_no_answer() -> None:
    async with serving() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(GET)
        with contextlib.suppress(ConnectionError):
            assert b"HTTP" not in await reader.read()
        writer.close()
        assert await exchange(server, CLOSE)


@scenario
async def test_pipelined_requests_are_answered_in_order() -> None:
    async with serving() as server, connected(server) as client:
        await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(2000)))
        for number in range(2000):
            assert await client.answer() == (200, b"/%d" % number)


@scenario
async def test_answers_keep_the_order_of_requests_though_later_ones_are_quicker() -> None:
    gate = Gate()

    async def handler(request: Request) -> Response:
        return await gate(request) if request.path == "/slow" else await echo(request)

    async with serving(handler) as server, connected(server) as client:
        await client.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\nGET /quick HTTP/1.1\r\nHost: x\r\n\r\nrubbish\r\n\r\n")
        await gate.entered.get()
        gate.open.set()
        assert [await client.answer() for _ in range(2)] == [(200, b"/slow"), (200, b"/quick")]
        assert (await client.answer())[0] == 400


@scenario
async def test_a_client_that_sends_on_and_on_without_reading_is_no_longer_read_from() -> None:
    gate = Gate()
    sent = 0
    async with serving(gate) as server, connected(server) as client:
        await client.send(GET)
        await gate.entered.get()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                while sent < 200 << 20:
                    await client.send(GET * 4000)
                    sent += len(GET) * 4000
        assert sent < 50 << 20
        gate.open.set()
        assert await client.answer() == (200, b"/")


@scenario
async def test_a_client_that_reads_in_the_end_gets_every_answer() -> None:
    gate = Gate()
    count = 20_000
    async with serving(gate) as server, connected(server) as client:
        await client.send(GET)
        await gate.entered.get()
        sending = asyncio.ensure_future(client.send(GET * (count - 1)))
        gate.open.set()
        for _ in range(count):
            assert await client.answer() == (200, b"/")
        await sending


@scenario
async def test_100_continue_is_said_once_and_in_its_turn() -> None:
    gate = Gate()
    async with serving(gate) as server, connected(server) as client:
        ask = b"PUT /b HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        await client.send(GET + ask)
        await gate.entered.get()
        gate.open.set()
        assert await client.answer() == (200, b"/")
        assert await client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"hello")
        assert await client.answer() == (200, b"/b")


@scenario
async def test_who_asks_before_sending_too_much_is_refused_without_sending() -> None:
    async with serving(limits=GENEROUS) as server, connected(server) as client:
        await client.send(b"PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n")
        assert (await client.answer())[0] == 413


@scenario
async def test_a_body_over_3_mib_is_refused_and_the_client_learns_it_though_it_still_sends() -> None:
    async with serving() as server:
        connector = aiohttp.TCPConnector(ssl=trust())
        async with aiohttp.ClientSession(f"https://localhost:{server.port}", connector=connector) as session:
            async with session.post("/", data=io.BytesIO(bytes(3 << 20))) as answer:
                assert (answer.status, len(await answer.read())) == (200, 3 << 20)
            async with session.post("/", data=io.BytesIO(bytes((3 << 20) + 1))) as answer:
                failure = told(await answer.read())
                assert (answer.status, failure["reason"], failure["code"]) == (413, "RequestEntityTooLarge", 413)
                assert failure["message"] == "Request entity too large: limit is 3145728"
                assert answer.headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * (100 << 10), 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /",
            400,
        ),
        (b"\x16\x03\x01 this is not HTTP\r\n\r\n", 400),
    ],
)
@scenario
async def test_refusals_close_the_connection(data: bytes, expected: int) -> None:
    async with serving(limits=GENEROUS) as server:
        head, _, body = (await exchange(server, data)).partition(b"\r\n\r\n")
        assert code(head) == expected
        assert b"\r\nConnection: close" in head
        assert told(body)["code"] == expected


@pytest.mark.parametrize(
    "beginning",
    [b"GET /", b"GET / HTTP/1.1\r\nHost: x\r\nA:", b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n\r\nab"],
)
@scenario
async def test_a_client_that_drips_is_told_408(beginning: bytes) -> None:
    async with serving(limits=IMPATIENT) as server, connected(server) as client:
        await client.send(beginning)
        answer = asyncio.ensure_future(client.rest())
        while not answer.done():
            await client.send(b"a")
            await asyncio.wait([answer], timeout=0.01)
        head, _, body = (await answer).partition(b"\r\n\r\n")
        assert code(head) == 408
        assert told(body)["reason"] == "Timeout"


@scenario
async def test_an_idle_client_is_let_go_without_a_word() -> None:
    async with serving(limits=Limits(idle_time=0.5)) as server:
        assert await exchange(server, b"") == b""
        assert (await exchange(server, GET)).count(b"HTTP/1.1") == 1
        assert await exchange(server, b"\r\n\r\n") == b""


@scenario
async def test_a_client_that_never_shakes_hands_is_dropped() -> None:
    async with serving(limits=Limits(handshake_time=0.05)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        await eventually(lambda: server.connections == 0, lambda: asyncio.sleep(0))


@scenario
async def test_a_handler_that_takes_too_long_is_cancelled_and_the_client_told_504() -> None:
    gate = Gate()
    async with serving(gate, Limits(request_time=0.05, linger_time=0.05)) as server:
        head, _, body = (await exchange(server, GET)).partition(b"\r\n\r\n")
        assert (code(head), told(body)["reason"]) == (504, "Timeout")
        assert told(body)["message"] == "Timeout: request did not complete within the allotted timeout"
        assert await gate.left.get() == "cancelled"
        assert server.control.exempt == 0


@scenario
async def test_a_handler_that_cannot_be_cancelled_holds_its_place_until_it_ends() -> None:
    release = asyncio.Event()

    async def stubborn(request: Request) -> Response:
        await asyncio.shield(asyncio.ensure_future(release.wait()))
        return Response()

    async def deaf(request: Request) -> Response:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        return Response()

    for handler in (stubborn, deaf):
        release.clear()
        async with serving(handler, Limits(request_time=0.05, linger_time=0.05)) as server:
            assert code(await exchange(server, GET)) == 504
            assert server.control.exempt == (1 if handler is deaf else 0)
            release.set()
            await eventually(lambda: server.control.exempt == 0, lambda: asyncio.sleep(0))


@scenario
async def test_an_error_in_a_handler_is_logged_and_its_words_stay_here(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(request: Request) -> Response:
        if request.path == "/refused":
            raise Refused(status(409, Reason.CONFLICT, "taken"))
        if request.path == "/cancelled":
            raise asyncio.CancelledError
        if request.path == "/unknown":
            return Response(799)
        raise RuntimeError("the secret is 42")

    async with serving(handler, GENEROUS) as server:
        with caplog.at_level(logging.ERROR):
            async with connected(server) as client:
                await client.send(GET + b"GET /refused HTTP/1.1\r\nHost: x\r\n\r\n")
                failed, body = await client.answer()
                assert (failed, told(body)["reason"]) == (500, "InternalError")
                assert b"42" not in body
                assert b"Traceback" not in body
                assert (await client.answer())[0] == 409
            for path in (b"/cancelled", b"/unknown"):
                assert code(await exchange(server, b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)) == 500
        assert "the secret is 42" in caplog.text
        assert server.control.exempt == 0


@scenario
async def test_a_client_that_leaves_ends_its_read_but_not_its_write() -> None:
    gate = Gate()
    async with serving(gate) as server:
        async with connected(server) as client:
            await client.send(GET)
            request = await gate.entered.get()
        assert await gate.left.get() == "cancelled"
        assert request.disconnected.is_set()
        async with connected(server) as client:
            await client.send(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n")
            request = await gate.entered.get()
        await request.disconnected.wait()
        gate.open.set()
        assert await gate.left.get() == "finished"
        await eventually(lambda: server.connections == 0, lambda: asyncio.sleep(0))
        assert server.control.exempt == 0


@pytest.mark.parametrize("politely", [True, False])
@scenario
async def test_a_client_that_closes_its_half_is_gone(politely: bool) -> None:
    gate = Gate()
    async with serving(gate) as server:
        plain = socket.create_connection(("127.0.0.1", server.port))
        loop = asyncio.get_running_loop()
        client = await loop.run_in_executor(None, lambda: trust().wrap_socket(plain, server_hostname="localhost"))
        await loop.run_in_executor(None, client.sendall, GET)
        await gate.entered.get()
        if politely:
            client.setblocking(False)
            with contextlib.suppress(ssl.SSLWantReadError):
                client.unwrap()
        else:
            client.shutdown(socket.SHUT_WR)
        assert await gate.left.get() == "cancelled"
        client.close()


@scenario
async def test_more_connections_than_allowed_are_turned_away() -> None:
    async with serving(limits=Limits(connections=20)) as server:
        idle = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(1500)]
        await eventually(lambda: server.turned_away == 1480, lambda: asyncio.sleep(0))
        await eventually(lambda: server.connections == 20, lambda: asyncio.sleep(0))
        for _, writer in idle:
            writer.transport.abort()
        await eventually(lambda: server.connections == 0, lambda: asyncio.sleep(0))
        assert code(await exchange(server, CLOSE)) == 200


@scenario
async def test_a_thousand_clients_are_served_at_once() -> None:
    async with serving() as server, contextlib.AsyncExitStack() as stack:
        clients: list[Client] = []
        tls = trust()
        for _ in range(20):
            opened = await asyncio.gather(*(stack.enter_async_context(connected(server, tls)) for _ in range(50)))
            clients.extend(opened)
        for client in clients:
            client.writer.write(GET)
        assert {await client.answer() for client in clients} == {(200, b"/")}
        assert server.connections == 1000


@scenario
async def test_a_large_body_is_compressed_for_who_asks() -> None:
    parts = [b'{"name":"pod-%d"}' % number for number in range(20_000)]
    whole = b"".join(parts)

    async def handler(request: Request) -> Response:
        if request.path == "/parts":
            return Response(200, iter(parts))
        return Response(200, whole if request.path == "/whole" else whole[:1000])

    async def get(client: Client, path: bytes) -> tuple[bytes, bytes]:
        await client.send(b"GET %b HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n" % path)
        head = await client.head()
        return head, await _chunks(client)

    async with serving(handler) as server, connected(server) as client:
        for path in (b"/parts", b"/whole"):
            head, body = await get(client, path)
            assert b"Content-Encoding: gzip" in head
            assert b"Vary: Accept-Encoding" in head
            assert gzip.decompress(body) == whole
        await client.send(b"GET /small HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")
        assert await client.answer() == (200, whole[:1000])
        await client.send(b"GET /whole HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await client.answer() == (200, whole)
        await client.send(b"GET /parts HTTP/1.1\r\nHost: x\r\n\r\n")
        assert code(await client.head()) == 200
        assert await _chunks(client) == whole
        await client.send(b"HEAD /whole HTTP/1.1\r\nHost: x\r\n\r\n" + GET)
        assert b"Content-Length: %d\r\n" % len(whole) in await client.head()
        assert code(await client.head()) == 200
        assert (await exchange(server, b"GET /parts HTTP/1.0\r\n\r\n")).endswith(b"\r\n\r\n" + whole)


async def _chunks(client: Client) -> bytes:
    body = b""
    while piece := await client.chunk():
        body += piece
    return body


@scenario
async def test_an_old_client_is_answered_and_the_connection_closed() -> None:
    async with serving() as server:
        assert (await exchange(server, b"GET /old HTTP/1.0\r\n\r\n")).endswith(b"\r\n\r\n/old")


@scenario
async def test_a_taken_port_is_an_error() -> None:
    async with serving() as server:
        second = Server(echo, lambda _: ADMIN, made().tls(), port=server.port)
        with pytest.raises(OSError, match="in use"):
            await second.start()
        await second.stop()


@scenario
async def test_a_server_listens_on_the_other_loopback_too() -> None:
    async with serving(bind="::1") as server:
        reader, writer = await asyncio.open_connection("::1", server.port, ssl=trust())
        writer.write(CLOSE)
        assert code(await reader.read()) == 200
        writer.close()


@settings(max_examples=15)
@given(st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=20))
def test_rubbish_on_the_socket_never_gets_a_5xx_and_never_hangs(rubbish: list[bytes]) -> None:
    @scenario
    async def run() -> None:
        async with serving(limits=QUICK) as server:
            for data in rubbish:
                answer = await exchange(server, data)
                assert not answer or 200 <= code(answer) < 500
            while not (answer := await exchange(server, CLOSE)):
                pass
            assert code(answer) == 200
            assert server.control.exempt == 0

    run()


@scenario
async def test_rubbish_before_tls_does_no_harm() -> None:
    async with serving(limits=Limits(handshake_time=1)) as server:
        for size in (1, 5, 100, 5000):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(random.Random(size).randbytes(size))
            with contextlib.suppress(ConnectionError):
                writer.write_eof()
                await reader.read()
            writer.close()
        assert code(await exchange(server, CLOSE)) == 200
