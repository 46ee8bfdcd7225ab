"""Requests over HTTPS: connections are kept, nothing is done twice, and a server that fails is noticed."""

from __future__ import annotations

import asyncio
import gc
import re
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest

from moorage.api import kinds
from moorage.apiserver.access import certificates
from moorage.client import Client, Forbidden, TooManyRequests, Unavailable
from moorage.client.clock import ManualClock
from moorage.client.https import HTTPSTransport
from moorage.client.kubeconfig import load
from tests.client.scripted import Scripted, Visit, scripted
from tests.plane import api_server, eventually

_START = datetime(2026, 1, 1, tzinfo=UTC)


async def _polite(visit: Visit) -> None:
    while True:
        await visit.answer(await visit.request())


async def _asked(server: Scripted, method: str = "GET", body: bytes = b"") -> str:
    answer = await server.transport.request(method, "/api", body, "application/json" if body else "")
    assert answer.status == 200
    return answer.body.decode()


async def test_a_request_says_who_asks_and_what(tmp_path: Path) -> None:
    async with scripted(tmp_path, _polite) as server:
        sent = await _asked(server, "POST", b'{"a":1}')
        assert sent.startswith("POST /api HTTP/1.1\r\nHost: 127.0.0.1:")
        for line in (
            "User-Agent: moorage-test", "Authorization: Bearer the-token", "Accept: application/json",
            "Content-Type: application/json", "Content-Length: 7",
        ):  # fmt: skip
            assert f"\r\n{line}\r\n" in sent
        assert sent.endswith('\r\n\r\n{"a":1}')


async def test_one_after_the_other_shares_a_connection(tmp_path: Path) -> None:
    async with scripted(tmp_path, _polite) as server:
        for _ in range(5):
            await _asked(server)
        assert len(server.visits) == 1


async def test_many_at_once_use_no_more_connections_than_allowed(tmp_path: Path) -> None:
    async with scripted(tmp_path, _polite) as server:
        await asyncio.gather(*(_asked(server, "POST", b"{}") for _ in range(200)))
        assert len(server.visits) == 64


async def test_answers_are_read_in_whatever_pieces_they_come(tmp_path: Path) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        answer = (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nTrailer: t\r\n\r\n"
        )
        for letter in answer:
            await visit.send(letter)
        await visit.request()
        await visit.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi!")
        await visit.request()
        await visit.send("HTTP/1.1 204 No Content\r\n\r\n")
        await visit.request()

    async with scripted(tmp_path, serve) as server:
        assert await _asked(server) == "abcdefg"
        assert await _asked(server) == "hi!"
        assert (await server.transport.request("DELETE", "/api")).status == 204
        assert len(server.visits) == 1


async def test_a_server_that_says_close_is_asked_on_a_new_connection(tmp_path: Path) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.answer(headers="Connection: close\r\n")
        await visit.reader.read()

    async with scripted(tmp_path, serve) as server:
        await _asked(server)
        await _asked(server, "POST", b"{}")
        assert len(server.visits) == 2


async def _answers_once(visit: Visit) -> None:
    """Answer the first request of a connection, and vanish at the second; later connections are served well."""
    await visit.request()
    await visit.answer()
    await visit.request()
    if visit.number:
        await visit.answer()


async def test_a_read_on_a_connection_that_was_closed_is_tried_again(tmp_path: Path) -> None:
    async with scripted(tmp_path, _answers_once) as server:
        await _asked(server)
        await _asked(server)
        assert len(server.visits) == 2


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_write_that_was_sent_is_never_sent_twice(tmp_path: Path, method: str) -> None:
    async with scripted(tmp_path, _answers_once) as server:
        await _asked(server)
        with pytest.raises(Unavailable, match="connection was lost"):
            await server.transport.request(method, "/api", b"{}", "application/json")
        assert len(server.visits) == 1
        await _asked(server, method, b"{}")


async def test_a_read_is_tried_again_only_once(tmp_path: Path) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        if visit.number == 0:
            await visit.answer()
            await visit.request()

    async with scripted(tmp_path, serve) as server:
        await _asked(server)
        with pytest.raises(Unavailable):
            await _asked(server)
        assert len(server.visits) == 2


async def test_a_write_meets_no_connection_that_was_closed_while_unused(tmp_path: Path) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.answer()
        if visit.number:
            await visit.reader.read()

    async with scripted(tmp_path, serve) as server:
        await _asked(server)

        async def noticed() -> bool:
            return not server.transport.connections

        await eventually(noticed)
        await _asked(server, "POST", b"{}")


async def test_an_answer_that_breaks_off_is_no_answer(tmp_path: Path) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")

    async with scripted(tmp_path, serve) as server:
        with pytest.raises(Unavailable, match="connection was lost"):
            await _asked(server)
        assert len(server.visits) == 1


async def test_what_is_not_http_is_no_answer(tmp_path: Path) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send("220 mail.example.com ESMTP\r\n")
        await visit.reader.read()

    async with scripted(tmp_path, serve) as server:
        with pytest.raises(Unavailable, match="the answer is not HTTP"):
            await _asked(server)


async def test_bytes_that_nobody_asked_for_end_a_connection(tmp_path: Path) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.answer("first")
        if visit.number == 0:
            await visit.answer("stray")
        await visit.request()
        await visit.answer("second")

    async with scripted(tmp_path, serve) as server:
        assert await _asked(server) == "first"

        async def ended() -> bool:
            return not server.transport.connections

        await eventually(ended)
        assert [await _asked(server), await _asked(server)] == ["first", "second"]


async def test_a_server_that_keeps_silent_is_given_up(tmp_path: Path) -> None:
    silent = asyncio.Event()

    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.answer()
        await visit.request()
        silent.set()
        await visit.reader.read()

    async with scripted(tmp_path, serve, clock := ManualClock(_START)) as server:
        await _asked(server)
        asking = asyncio.create_task(_asked(server))
        await silent.wait()
        clock.advance(32)
        with pytest.raises(Unavailable, match=r"https://127.0.0.1:\d+ has not answered for 30 s"):
            await asking
        assert len(server.visits) == 1


async def test_a_watch_that_does_not_begin_is_given_up(tmp_path: Path) -> None:
    silent = asyncio.Event()

    async def serve(visit: Visit) -> None:
        await visit.request()
        silent.set()
        await visit.reader.read()

    async def watch(server: Scripted) -> None:
        async with server.transport.stream("/watch"):
            pass

    async with scripted(tmp_path, serve, clock := ManualClock(_START)) as server:
        watching = asyncio.create_task(watch(server))
        await silent.wait()
        clock.advance(32)
        with pytest.raises(Unavailable, match="has not answered"):
            await watching


async def test_a_server_that_takes_long_but_speaks_is_waited_for(tmp_path: Path) -> None:
    clock = ReadClock(_START)

    async def serve(visit: Visit) -> None:
        await visit.request()
        for part in ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "x", "x"):
            clock.is_read.clear()
            await visit.send(part)
            await clock.is_read.wait()
            clock.advance(25)
        await visit.send("x")

    async with scripted(tmp_path, serve, clock) as server:
        assert await _asked(server) == "xxx"


class ReadClock(ManualClock):
    """A clock that says when somebody reads it: a connection does so whenever it receives something."""

    def __init__(self, start: datetime) -> None:
        super().__init__(start)
        self.is_read = asyncio.Event()

    def monotonic(self) -> float:
        self.is_read.set()
        return super().monotonic()


async def test_a_connection_that_was_not_used_for_long_is_not_used_again(tmp_path: Path) -> None:
    async with scripted(tmp_path, _polite, clock := ManualClock(_START)) as server:
        await _asked(server)
        clock.advance(44)
        await _asked(server)
        assert len(server.visits) == 1
        clock.advance(46)
        await _asked(server)
        assert len(server.visits) == 2


async def test_who_gives_up_waiting_leaves_no_answer_to_the_next(tmp_path: Path) -> None:
    asked = asyncio.Event()
    go = asyncio.Event()

    async def serve(visit: Visit) -> None:
        await visit.request()
        if visit.number == 0:
            asked.set()
            await go.wait()
        await visit.answer(f"answer {visit.number}")

    async with scripted(tmp_path, serve) as server:
        first = asyncio.create_task(_asked(server))
        await asyncio.wait_for(asked.wait(), 120)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        go.set()
        assert await _asked(server) == "answer 1"


async def test_all_places_are_free_again_after_failures(tmp_path: Path) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        if visit.number >= 100:
            await visit.answer()
            await visit.reader.read()

    async with scripted(tmp_path, serve) as server:
        failed = await asyncio.gather(*(_asked(server) for _ in range(100)), return_exceptions=True)
        assert all(isinstance(error, Unavailable) for error in failed)
        await asyncio.gather(*(_asked(server) for _ in range(64)))
        assert len(server.visits) == 164


async def test_a_stream_gives_chunks_as_they_come(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await visit.send("3\r\nabc\r\n")
        await go.wait()
        await visit.send("3\r\ndef\r\n0\r\n\r\n")
        await visit.reader.read()

    async with scripted(tmp_path, serve) as server:
        heard = []
        async with server.transport.stream("/watch") as chunks:
            async for chunk in chunks:
                heard.append(chunk)
                go.set()
        assert heard == [b"abc", b"def"]


async def test_a_stream_that_breaks_off_gives_what_came_and_then_fails(tmp_path: Path) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")

    async with scripted(tmp_path, serve) as server, server.transport.stream("/watch") as chunks:
        assert await anext(chunks) == b"abc"
        with pytest.raises(Unavailable, match="connection was lost"):
            await anext(chunks)


async def test_a_watch_on_which_nothing_happens_goes_on(tmp_path: Path) -> None:
    later = asyncio.Event()

    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await later.wait()
        await visit.send("3\r\nabc\r\n")

    clock = ManualClock(_START)
    async with scripted(tmp_path, serve, clock) as server, server.transport.stream("/watch") as chunks:
        clock.advance(3600)
        later.set()
        assert await anext(chunks) == b"abc"


async def test_a_long_refusal_of_a_watch_is_read_to_its_end(tmp_path: Path) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.answer("x" * (8 << 20), "403 Forbidden")
        await visit.reader.read()

    async with scripted(tmp_path, serve) as server:
        with pytest.raises(Forbidden) as caught:
            async with server.transport.stream("/watch"):
                pass
        assert len(str(caught.value)) == 8 << 20


async def test_a_stream_nobody_reads_makes_the_server_wait(tmp_path: Path) -> None:
    size = 64 << 20
    sent = 0
    full = asyncio.Event()

    async def serve(visit: Visit) -> None:
        nonlocal sent
        await visit.request()
        await visit.send(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n")
        piece = "x" * (1 << 20)
        while sent < size:
            sending = asyncio.create_task(visit.send(piece))
            done, _ = await asyncio.wait({sending}, timeout=0.2)
            if not done:
                full.set()
            await sending
            sent += len(piece)
        await visit.reader.read()

    async with scripted(tmp_path, serve) as server, server.transport.stream("/watch") as chunks:
        await asyncio.wait_for(full.wait(), 120)
        assert sent < size
        assert sum([len(chunk) async for chunk in chunks]) == size


async def test_streams_take_no_place_from_requests(tmp_path: Path) -> None:
    async def serve(visit: Visit) -> None:
        while True:
            if "/watch" in await visit.request():
                await visit.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            else:
                await visit.answer()

    async with scripted(tmp_path, serve) as server:
        streams = [server.transport.stream("/watch") for _ in range(70)]
        for stream in streams:
            await stream.__aenter__()
        await asyncio.wait_for(_asked(server), 120)
        for stream in streams:
            await stream.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("status", "error"), [("429 Too Many Requests", TooManyRequests), ("503 Service Unavailable", Unavailable)]
)
async def test_a_busy_server_says_when_to_come_again(
    tmp_path: Path, status: str, error: type[TooManyRequests | Unavailable]
) -> None:
    async def serve(visit: Visit) -> None:
        while True:
            await visit.request()
            await visit.answer("later, please", status, "retry-after: 7\r\n")

    async with scripted(tmp_path, serve) as server:
        client = Client(server.transport)
        with pytest.raises(error, match="later, please") as caught:
            await client.create(kinds.row("v1", "ConfigMap"), {}, "default")
        assert caught.value.retry_after == 7
        with pytest.raises(error) as caught:
            async with server.transport.stream("/watch"):
                pass
        assert caught.value.retry_after == 7


async def test_nobody_there_is_said_in_a_sentence(tmp_path: Path) -> None:
    async with scripted(tmp_path, _polite) as server:
        pass
    with pytest.raises(Unavailable, match="the client is closed"):
        await _asked(server)
    transport = HTTPSTransport(load(tmp_path / "kubeconfig"), "test")
    with pytest.raises(Unavailable, match=r"https://127.0.0.1:\d+ cannot be reached: .*[Cc]onnect"):
        await transport.request("GET", "/api")
    with pytest.raises(Unavailable, match="cannot be reached"):
        async with transport.stream("/watch"):
            pass


async def test_a_server_that_cannot_prove_who_it_is_gets_no_request(tmp_path: Path) -> None:
    async with scripted(tmp_path, _polite) as server:
        stranger = certificates.prepare(tmp_path / "stranger").authority.certificate_pem
        url = re.search(r"https://\S+", (tmp_path / "kubeconfig").read_text())
        assert url
        file = tmp_path / "other"
        file.write_text(certificates.kubeconfig(url[0], stranger, "the-token"))
        with pytest.raises(Unavailable, match="certificate verify failed"):
            await HTTPSTransport(load(file), "test").request("GET", "/api")
        assert server.visits == []


async def test_closing_ends_what_is_being_asked(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def serve(visit: Visit) -> None:
        await visit.request()
        asked.set()
        await visit.reader.read()

    async with scripted(tmp_path, serve) as server:
        asking = asyncio.create_task(_asked(server))
        await asyncio.wait_for(asked.wait(), 120)
        await server.transport.close()
        with pytest.raises(Unavailable):
            await asking


async def test_a_real_server_answers_a_thousand_requests_from_many_at_once(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        transport = HTTPSTransport(load(server.kubeconfig), "test")

        async def ask() -> None:
            for _ in range(30):
                assert (await transport.request("GET", "/version")).status == 200

        await asyncio.gather(*(ask() for _ in range(32)))
        await transport.close()


async def test_an_unused_connection_keeps_no_answer_in_memory(tmp_path: Path) -> None:
    size = 8 << 20

    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.answer("x" * size)
        await visit.reader.read()

    async with scripted(tmp_path, serve) as server:
        tracemalloc.start()
        try:
            assert len((await server.transport.request("GET", "/api")).body) == size
            gc.collect()
            mapped = tracemalloc.take_snapshot().statistics("filename")
        finally:
            tracemalloc.stop()
        assert sum(each.size for each in mapped if each.traceback[0].filename.endswith("connection.py")) < size // 2
