"""One HTTPS connection to an API server, with one request at a time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from typing import cast

import httptools

from moorage.client.errors import Unavailable
from moorage.client.transport import Answer

_HELD = 1 << 20
"""How many bytes of a stream may wait for their reader before reading from the socket is paused."""
LARGEST, LARGEST_HEAD = 1 << 30, 64 << 10
"""How many bytes an answer may have, and its headers."""
_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000),
)
"""A machine that is gone is noticed within half a minute, even on a watch without events."""


class Unanswered(Unavailable):
    """The connection ended before the first byte of an answer."""


def unavailable(message: str, kind: type[Unavailable] = Unavailable) -> Unavailable:
    """The error of a request that the server has not answered."""
    return kind(503, "ServiceUnavailable", message)


class ClientConnection(asyncio.Protocol):
    """A connection. Whoever asks must wait for the answer, or abort."""

    __slots__ = (
        "_begun", "_complete", "_failure", "_head", "_held", "_monotonic", "_on_lost", "_parser", "_parts", "_paused",
        "_retry_after", "_status", "_streaming", "_transport", "_waiter", "heard", "lost", "received", "reusable",
    )  # fmt: skip

    def __init__(self, monotonic: Callable[[], float], on_lost: Callable[[ClientConnection], None]) -> None:
        self._monotonic = monotonic
        self.heard = monotonic()
        """When something was last sent or received."""
        self.reusable = False
        """Whether it is open and unused."""
        self.lost = ""
        """Why it was closed; empty while it is open."""
        self._failure = Unavailable
        self._on_lost = on_lost
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._streaming = False
        self._paused = False
        self._forget()

    def _forget(self) -> None:
        self._begun = self._complete = False
        self._status = 0
        self._retry_after = 0.0
        self._parts: list[bytes] = []
        self._held = self._head = 0
        self.received = 0
        """How many bytes of an answer have come so far."""

    async def ask(self, message: bytes) -> Answer:
        """Send a request and return its answer. Raises Unavailable, Unanswered when not a byte came back."""
        self._send(message)
        while not self._complete:
            await self._progress()
        return self._answer()

    async def begin(self, message: bytes) -> Answer | None:
        """Send a request whose answer is a stream: None once it begins, the answer when the server refuses it."""
        self._streaming = True
        self._send(message)
        while not (self._status or self._complete):
            await self._progress()
        if self._status == 200:
            return None
        while not self._complete:
            await self._progress()
        return self._answer()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body of a stream as it comes. Raises Unavailable when it breaks off."""
        while True:
            if self._parts:
                data = b"".join(self._parts)
                self._parts.clear()
                self._held = 0
                self._resume()
                yield data
            elif self._complete:
                return
            else:
                await self._progress()

    def _send(self, message: bytes) -> None:
        self._forget()
        self.reusable = False
        self.heard = self._monotonic()
        if self._transport is not None:
            self._transport.write(message)

    async def _progress(self) -> None:
        if self.lost:
            raise unavailable(self.lost, self._failure)
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    @property
    def _streams(self) -> bool:
        return self._streaming and self._status == 200

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _answer(self) -> Answer:
        parts, self._parts = self._parts, []  # an idle connection keeps no answer in memory
        return Answer(self._status, parts[0] if len(parts) == 1 else b"".join(parts), self._retry_after)

    def _resume(self) -> None:
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Close it with a TLS goodbye."""
        self.reusable = False
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str = "the connection was given up") -> None:
        """Close it at once."""
        self.reusable = False
        self.lost = self.lost or reason
        self._wake()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TLS is established."""
        self._transport = cast("asyncio.Transport", transport)
        wire = transport.get_extra_info("socket")
        for option in _ALIVE:
            wire.setsockopt(*option)

    def connection_lost(self, error: Exception | None) -> None:
        """The server has gone, or we have."""
        self._transport = None
        self.reusable = False
        if not self.lost:
            self.lost = f"the connection was lost{f': {error}' if error else ''}"
            self._failure = Unavailable if self._begun else Unanswered
        self._wake()
        self._on_lost(self)

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        if self.reusable:
            self.abort()
            return
        self.heard = self._monotonic()
        self.received += len(data)
        self._begun = True
        if not self._status:
            self._head += len(data)
            if self._head > LARGEST_HEAD + len(data):
                self.abort(f"the answer has more than {LARGEST_HEAD >> 10} KiB of headers")
                return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.abort(f"the answer is not HTTP: {error}")
        if self._complete or self._streaming:
            self._wake()
        if self._held > _HELD and self._streams and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_begin(self) -> None:
        """The parser has seen the first byte of an answer."""
        if self._complete:
            self.reusable = False
            raise httptools.HttpParserError("more than one answer to a request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser has read a header."""
        if len(name) == 11 and name.lower() == b"retry-after" and value.isdigit():
            self._retry_after = float(value)

    def on_headers_complete(self) -> None:
        """The parser has read all headers."""
        status = self._parser.get_status_code()
        self._status = status if status >= 200 else 0

    def on_body(self, data: bytes) -> None:
        """The parser has read a part of the body."""
        self._parts.append(data)
        self._held += len(data)
        if self._held > LARGEST and not self._streams:
            self.abort(f"the answer is longer than {LARGEST >> 20} MiB")

    def on_message_complete(self) -> None:
        """The parser has read a whole answer, or one that only says that the answer will come."""
        if self._status:
            self._complete = True
            self.reusable = not self._streaming and self._parser.should_keep_alive()
