"""One client connection: requests are answered in order, streams as fast as the client reads."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Sequence
from typing import cast

from moorage.apiserver.http.limits import InFlight, Lane, Limits, lane
from moorage.apiserver.http.messages import Handler, Reason, Refused, Request, Response, status
from moorage.apiserver.http.wire import (
    CONTINUE,
    GZIP_FROM,
    LAST_CHUNK,
    Reader,
    ReadStage,
    accepts_gzip,
    batches,
    chunk,
    gzipped,
    head,
)

BACKLOG = 64 << 10
"""How many unparsed bytes a client may send ahead before reading from it pauses."""
NEVER = math.inf
_CHUNKED = "Transfer-Encoding: chunked\r\n"
_BODILESS = frozenset((204, 304))

log = logging.getLogger(__name__)


class ServerState:
    """What all connections of a server share."""

    def __init__(self, handler: Handler, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        self.handler = handler
        self.limits = limits
        self.loop = loop
        self.in_flight = InFlight(limits)
        self.connections: set[Connection] = set()
        self.deserted = asyncio.Event()
        """Set when the last connection is gone, while the server stops."""
        self.stopping = False
        self.date = ""
        self.patience = {
            ReadStage.IDLE: limits.idle_time,
            ReadStage.HEAD: limits.header_time,
            ReadStage.BODY: limits.body_time,
            ReadStage.OVER: limits.linger_time,
        }

    def leave(self, connection: Connection) -> None:
        """Forget a connection that is closed and has no running task."""
        self.connections.discard(connection)
        if self.stopping and not self.connections:
            self.deserted.set()


class Connection(asyncio.Protocol):
    """A client connection. `deadline` ends what it does now, `stalled` ends waiting for the client to read."""

    __slots__ = (
        "_answered", "_begun", "_closing", "_disconnected", "_drained", "_ending", "_peer", "_reader", "_reading",
        "_request", "_server", "_streaming", "_task", "_transport", "deadline", "stalled",
    )  # fmt: skip

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._reader = Reader(server.limits)
        self._transport: asyncio.Transport | None = None
        self._peer: bytes | None = None
        self._disconnected = asyncio.Event()
        self._request: Request | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun = False
        """Whether the task has run at all."""
        self._answered = False
        """Whether the response to the current request has begun."""
        self._streaming = False
        self._ending = False
        """Whether the connection closes after the current response."""
        self._closing = False
        """Whether the last response is sent."""
        self._drained: asyncio.Future[None] | None = None
        """Done when the client has read enough; None while the write buffer has room."""
        self._reading = True
        self.deadline = NEVER
        self.stalled = NEVER

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TLS is established."""
        self._transport = cast("asyncio.Transport", transport)
        self._peer = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        self._server.connections.add(self)
        self._wait()
        if self._server.stopping:
            self.stop()

    def connection_lost(self, _: Exception | None) -> None:
        """The client is gone. A mutating request that has begun is finished all the same; others are cancelled."""
        self._transport = None
        self._disconnected.set()
        self.resume_writing()
        if self._task is None:
            self._server.leave(self)
        elif self._answered or not self._begun or (self._request and lane(self._request) is not Lane.WRITE):
            self._cancel()

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        reader = self._reader
        before = reader.stage
        reader.feed(data)
        if self._task is None:
            if reader.stage is not before and not self._closing:
                self._wait()
            self._next()
        if reader.backlog > BACKLOG and self._reading and self._transport:
            self._reading = False
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """The write buffer is full."""
        if self._drained is None:
            self._drained = self._server.loop.create_future()
            self.stalled = self._server.loop.time() + self._server.limits.stall_time

    def resume_writing(self) -> None:
        """The write buffer has room again."""
        self.stalled = NEVER
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
            if self._task is None:
                self._next()

    def expire(self) -> None:
        """A deadline has passed."""
        if self._transport is None:
            return
        if self._closing or self._server.loop.time() >= self.stalled:
            self._transport.abort()
        elif self._task is not None:
            message = "Timeout: request did not complete within the allotted timeout"
            self._refuse(status(504, Reason.TIMEOUT, message, {}))
            self._cancel()
        elif self._reader.stage is ReadStage.IDLE:
            self._close()
        else:
            self._refuse(
                status(408, Reason.TIMEOUT, "Timeout: the request did not arrive within the allotted time", {})
            )

    def stop(self) -> None:
        """The server stops: streams are ended, other requests are finished."""
        self._ending = True
        if self._task is None:
            self._close()
        elif self._streaming:
            self._cancel()

    def abort(self) -> None:
        """The grace period of the server is over: drop the connection."""
        if self._transport is not None:
            self._transport.abort()
        self._cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            if not self._begun:
                # A task that is cancelled before it has run never runs: its own clean-up would not happen.
                self._after()

    def _wait(self) -> None:
        """Set the deadline for what the client must do next."""
        self.deadline = self._server.loop.time() + self._server.patience[self._reader.stage]

    def _next(self) -> None:
        """Serve the next request that has arrived, unless the client leaves responses unread."""
        reader = self._reader
        while self._transport and not (self._task or self._closing or self._drained):
            if not reader.messages and reader.backlog:
                reader.advance()
                self._wait()
            if not reader.messages:
                break
            message = reader.messages.popleft()
            if isinstance(message, Response):
                self._refuse(message)
            else:
                self._begin(message)
        if self._transport and not self._closing:
            if not self._reading and reader.backlog <= BACKLOG:
                self._reading = True
                self._transport.resume_reading()
            if reader.awaits_continue and not (self._task or reader.messages):
                reader.awaits_continue = False
                self._write(CONTINUE)

    def _begin(self, request: Request) -> None:
        server = self._server
        request.certificate = self._peer
        request.disconnected = self._disconnected
        self._request = request
        self._begun = self._answered = self._streaming = False
        self._ending = server.stopping or not request.keep_alive
        self.deadline = server.loop.time() + server.limits.request_time
        self._task = server.loop.create_task(self._serve(request))

    async def _serve(self, request: Request) -> None:
        self._begun = True
        # Counted here, not on arrival: in a burst, requests that are answered at once do not fill the limit.
        counted = lane(request)
        entered = self._server.in_flight.enter(counted)
        try:
            response = await self._response(request) if entered else _TOO_MANY_REQUESTS
            try:
                await self._send(request, response)
            finally:
                await _discard(response)
        except Exception:
            log.exception("%s %s: the response could not be sent", request.method, request.path)
            self._fail()
        except asyncio.CancelledError:
            self._fail()
            raise
        finally:
            if entered:
                self._server.in_flight.leave(counted)
            self._after()

    def _after(self) -> None:
        """The task has ended: close, or go on with the next request."""
        self._task = self._request = None
        if self._transport is None:
            self._server.leave(self)
        elif self._ending:
            self._close()
        elif not self._closing:
            self._wait()
            self._next()

    async def _response(self, request: Request) -> Response:
        try:
            return await self._server.handler(request)
        except Refused as refused:
            return refused.response
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return _internal_error()

    async def _send(self, request: Request, response: Response) -> None:
        if response.stream is not None:
            await self._send_stream(request, response, response.stream)
            return
        parts: Sequence[bytes] = (response.body,) if isinstance(response.body, bytes) else response.body
        size = sum(map(len, parts))
        if size <= GZIP_FROM:
            self._send_whole(request, response, parts, size)
            return
        extra = "Vary: Accept-Encoding\r\n"
        if accepts_gzip(request):
            parts = await self._server.loop.run_in_executor(None, gzipped, parts)
            size = sum(map(len, parts))
            extra += "Content-Encoding: gzip\r\n"
        self._answer(head(response, self._server.date, length=size, close=self._ending, extra=extra))
        if request.method != "HEAD":
            for batch in batches(parts):
                self._write(batch)
                await self._room()

    def _send_whole(self, request: Request, response: Response, parts: Sequence[bytes], size: int) -> None:
        length = None if response.status in _BODILESS else size
        start = head(response, self._server.date, length=length, close=self._ending)
        self._answer(start if request.method == "HEAD" else b"".join((start, *parts)))

    async def _send_stream(self, request: Request, response: Response, stream: AsyncIterator[bytes]) -> None:
        self._ending = self._ending or not request.chunked
        extra = _CHUNKED if request.chunked else ""
        self._streaming = True
        self._answer(head(response, self._server.date, length=None, close=self._ending, extra=extra))
        if request.method == "HEAD":
            return
        try:
            if not self._server.stopping:
                await self._send_chunks(stream, chunked=request.chunked)
        except asyncio.CancelledError:
            if self._transport is None or not self._server.stopping:
                raise
        if request.chunked:
            self._write(LAST_CHUNK)

    async def _send_chunks(self, stream: AsyncIterator[bytes], *, chunked: bool) -> None:
        async for data in stream:
            if data:
                self._write(chunk(data) if chunked else data)
                if self._drained is not None:
                    await self._room()

    async def _room(self) -> None:
        """Wait until the write buffer has room."""
        if self._drained is not None:
            await asyncio.shield(self._drained)

    def _answer(self, start: bytes) -> None:
        """Write the start of a response; from now on only a client that does not read runs into a deadline."""
        self._answered = True
        self._write(start)
        if not self._closing:
            self.deadline = NEVER

    def _write(self, data: bytes | memoryview) -> None:
        if self._transport is not None and not self._closing:
            self._transport.write(data)

    def _refuse(self, response: Response) -> None:
        """Send the last response, then discard input for a moment: closing at once could reset the connection."""
        self._ending = False
        body = cast("bytes", response.body)
        start = head(response, self._server.date, length=len(body), close=True)
        self._answer(start if self._request and self._request.method == "HEAD" else start + body)
        self._closing = True
        self._reader.stage = ReadStage.OVER
        self._wait()

    def _fail(self) -> None:
        """Answer with an error or, when a response has begun, abort, so that the client sees that it is incomplete."""
        if self._closing or self._transport is None:
            return
        if self._answered:
            self._transport.abort()
        else:
            self._refuse(_internal_error())

    def _close(self) -> None:
        if self._transport is not None:
            limits = self._server.limits
            # TLS closes when both sides have said so, which an idle client may never do.
            patience = limits.stall_time if self._transport.get_write_buffer_size() else limits.linger_time
            self._closing = True
            self._transport.close()
            self.deadline = self._server.loop.time() + patience


async def _discard(response: Response) -> None:
    close = getattr(response.stream, "aclose", None)
    if close is not None:
        await close()


def _internal_error() -> Response:
    return status(500, Reason.INTERNAL_ERROR, "Internal error occurred: the server's log says more", {})


_TOO_MANY_REQUESTS = status(
    429, Reason.TOO_MANY_REQUESTS, "Too many requests, please try again later.", {"retryAfterSeconds": 1}
)
