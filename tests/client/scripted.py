"""An HTTPS server that says what a test tells it to, byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from moorage.apiserver.access import certificates
from moorage.client.clock import Clock
from moorage.client.https import HTTPSTransport
from moorage.client.kubeconfig import load

Serve = Callable[["Visit"], Awaitable[None]]


@dataclass(slots=True, eq=False)
class Visit:
    """One connection, as the server sees it."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> str:
        """The next request, head and body."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        length = head.lower().partition("content-length: ")[2].partition("\r\n")[0]
        return head + (await self.reader.readexactly(int(length or 0))).decode()

    async def send(self, text: str) -> None:
        """Answer, or a part of it."""
        self.writer.write(text.encode())
        await self.writer.drain()

    async def answer(self, body: str = "{}", status: str = "200 OK", headers: str = "") -> None:
        """A whole answer."""
        await self.send(f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body.encode())}\r\n\r\n{body}")

    def drop(self) -> None:
        """End the connection without a word."""
        self.writer.transport.abort()


@dataclass(slots=True)
class Scripted:
    """A running server and the way to it."""

    transport: HTTPSTransport
    visits: list[Visit] = field(default_factory=list)


@asynccontextmanager
async def scripted(
    directory: Path, serve: Serve, clock: Clock | None = None, *, client_certificates: bool = False
) -> AsyncIterator[Scripted]:
    """Serve each connection with a function; the connection ends when it returns."""
    material = certificates.prepare(directory)
    tls = material.tls([material.authority.certificate] if client_certificates else ())
    visits: list[Visit] = []
    tasks: set[asyncio.Task[None]] = set()

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        tasks.add(task)
        visit = Visit(len(visits), reader, writer)
        visits.append(visit)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await serve(visit)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(visited, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    file = directory / "kubeconfig"
    file.write_text(
        certificates.kubeconfig(f"https://127.0.0.1:{port}", material.authority.certificate_pem, "the-token")
    )
    transport = HTTPSTransport(load(file), "moorage-test", clock)
    try:
        yield Scripted(transport, visits)
    finally:
        await transport.close()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
