"""A connection in the middle of which things get lost."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self


class Proxy:
    """Passes bytes to a server and back, as long as it is let."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.requests, self.answers = asyncio.Event(), asyncio.Event()
        """Whether bytes pass to the server, and back."""
        self.requests.set()
        self.answers.set()
        self.held = asyncio.Event()
        """Whether anything has been held back."""
        self._refusing = False

    @property
    def endpoint(self) -> str:
        """Where to connect."""
        assert self._server
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def cut(self) -> None:
        """End all connections and take no new ones; what was held back is lost."""
        self._refusing = True
        for connection, client in self._connections.items():
            # A task that is cancelled before it begins cannot do this.
            client.transport.abort()
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        self.requests.set()
        self.answers.set()

    def mend(self) -> None:
        """Take connections again."""
        self._refusing = False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server
        await self.cut()
        self._server.close()
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        connection = asyncio.create_task(self._pass(reader, writer))
        self._connections[connection] = writer
        connection.add_done_callback(self._connections.pop)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            host, port = self._target.split(":")
            answers, requests = await asyncio.open_connection(host, int(port))
            writers.append(requests)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, requests, self.requests))
                both.create_task(self._pump(answers, writer, self.answers))
        finally:
            for writer in writers:
                writer.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, flows: asyncio.Event) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                if not flows.is_set():
                    self.held.set()
                await flows.wait()
                sink.write(data)
                await sink.drain()
        sink.transport.abort()
