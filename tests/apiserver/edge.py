"""A server on a free port with real certificates, and clients that speak to it byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, ParamSpec

import msgspec
import uvloop

from moorage.apiserver.access import certificates
from moorage.apiserver.access.certificates import Certificates, Pair
from moorage.apiserver.access.tokens import ADMIN
from moorage.apiserver.http.limits import Limits
from moorage.apiserver.http.listener import Server
from moorage.apiserver.http.messages import Handler, Request, Response
from moorage.apiserver.http.state import Authenticate

P = ParamSpec("P")
PATIENCE = 30
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
CLOSE = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def scenario(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an asynchronous test on the event loop of production, and never for ever."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE):
                await test(*args, **kwargs)

        uvloop.run(bounded())

    return run


_FOLDER = tempfile.TemporaryDirectory()


@functools.cache
def made() -> Certificates:
    """Certificates for all tests of this process."""
    return certificates.prepare(Path(_FOLDER.name))


def trust(pair: Pair | None = None) -> ssl.SSLContext:
    """What an independent client makes of our authority: the strictest that it can be asked for."""
    context = ssl.create_default_context(cadata=made().authority.certificate_pem.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    if pair is not None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "client.pem"
            file.write_bytes(pair.certificate_pem + pair.key_pem)
            context.load_cert_chain(file)
    return context


async def echo(request: Request) -> Response:
    """Answer with the body, or with what was understood."""
    return Response(200, request.body or request.path.encode())


@contextlib.asynccontextmanager
async def serving(
    handler: Handler = echo,
    limits: Limits | None = None,
    authenticate: Authenticate = lambda _: ADMIN,
    **options: Any,
) -> AsyncIterator[Server]:
    """A running server, by default for administrators."""
    server = Server(handler, authenticate, made().tls(), limits=limits, **options)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(grace=1)


class Client:
    """A connection whose every byte is ours."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        with contextlib.suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        data = b""
        with contextlib.suppress(ConnectionError):
            while more := await self.reader.read(1 << 16):
                data += more
        return data

    async def head(self) -> bytes:
        """The next status line with its headers."""
        return await self.reader.readuntil(b"\r\n\r\n")

    async def answer(self) -> tuple[int, bytes]:
        """The next response that has a length."""
        head = await self.head()
        return code(head), await self.reader.readexactly(length(head))

    async def chunk(self) -> bytes:
        """The next piece of a chunked body; empty at its end."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]


@contextlib.asynccontextmanager
async def connected(server: Server, tls: ssl.SSLContext | None = None) -> AsyncIterator[Client]:
    """A raw client."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls or trust(), limit=1 << 20)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


def code(head: bytes) -> int:
    """The status of a response."""
    return int(head.split(b" ", 2)[1])


def length(head: bytes) -> int:
    """The Content-Length of a response."""
    (line,) = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return int(line.split(b":")[1])


def told(answer: bytes | Response) -> dict[str, Any]:
    """A Status object."""
    body = answer.body if isinstance(answer, Response) else answer
    assert isinstance(body, bytes)
    content: dict[str, Any] = msgspec.json.decode(body)
    assert content["kind"] == "Status"
    return content


async def exchange(server: Server, data: bytes) -> bytes:
    """Send bytes, and read until the server closes."""
    async with connected(server) as client:
        await client.send(data)
        return await client.rest()


async def eventually(holds: Callable[[], bool], step: Callable[[], Awaitable[object]]) -> None:
    """Repeat a step until something holds."""
    while not holds():
        await step()
