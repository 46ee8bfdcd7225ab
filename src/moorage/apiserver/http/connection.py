"""One client's connection: requests are answered one after the other, streams as fast as the client reads."""

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
"""How far a client may send ahead of the answers before it is no longer read from."""
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
        """A connection is gone and nothing works for it any more."""
        self.connections.discard(connection)
        if self.stopping and not self.connections:
            self.deserted.set()


class Connection(asyncio.Protocol):
    """A client. `deadline` is when what it does now has taken too long, `stalled` when it has not read for too long."""

    __slots__ = (
        "_answered", "_begun", "_closing", "_disconnected", "_drained", "_ending", "_peer", "_reader", "_reading",
        "_request", "_service", "_streaming", "_task", "_transport", "deadline", "stalled",
    )  # fmt: skip

    def __init__(self, service: ServerState) -> None:
        self._service = service
        self._reader = Reader(service.limits)
        self._transport: asyncio.Transport | None = None
        self._peer: bytes | None = None
        self._disconnected = asyncio.Event()
        self._request: Request | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun = False
        """Whether the task has taken its first step."""
        self._answered = False
        """Whether the answer to the present request has begun."""
        self._streaming = False
        self._ending = False
        """Whether the connection ends with the present answer."""
        self._closing = False
        """Whether the last answer is given."""
        self._drained: asyncio.Future[None] | None = None
        """Waits until the client has read enough; None while there is room."""
        self._reading = True
        self.deadline = NEVER
        self.stalled = NEVER

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TLS is established."""
        self._transport = cast("asyncio.Transport", transport)
        self._peer = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        self._service.connections.add(self)
        self._wait()
        if self._service.stopping:
            self.stop()

    def connection_lost(self, _: Exception | None) -> None:
        """The client has gone. A write that it began is finished all the same: half of one helps nobody."""
        self._transport = None
        self._disconnected.set()
        self.resume_writing()
        if self._task is None:
            self._service.leave(self)
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
        """The client does not read as fast as it is written to."""
        if self._drained is None:
            self._drained = self._service.loop.create_future()
            self.stalled = self._service.loop.time() + self._service.limits.stall_time

    def resume_writing(self) -> None:
        """The client has read enough."""
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
        if self._closing or self._service.loop.time() >= self.stalled:
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
        """The server stops: end what would go on for ever, finish what will end."""
        self._ending = True
        if self._task is None:
            self._close()
        elif self._streaming:
            self._cancel()

    def abort(self) -> None:
        """The server has waited long enough."""
        if self._transport is not None:
            self._transport.abort()
        self._cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            if not self._begun:
                # A task that is cancelled before its first step never takes one: it cannot tidy up itself.
                self._after()

    def _wait(self) -> None:
        """Set the deadline for what the client must do next."""
        self.deadline = self._service.loop.time() + self._service.patience[self._reader.stage]

    def _next(self) -> None:
        """Begin with the next message that has arrived, unless the client leaves its answers unread."""
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
        service = self._service
        request.certificate = self._peer
        request.disconnected = self._disconnected
        self._request = request
        self._begun = self._answered = self._streaming = False
        self._ending = service.stopping or not request.keep_alive
        self.deadline = service.loop.time() + service.limits.request_time
        self._task = service.loop.create_task(self._serve(request))

    async def _serve(self, request: Request) -> None:
        self._begun = True
        # Counted here, not on arrival: of a burst, those that are answered at once never wait for room.
        counted = lane(request)
        entered = self._service.in_flight.enter(counted)
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
                self._service.in_flight.leave(counted)
            self._after()

    def _after(self) -> None:
        """The task is over."""
        self._task = self._request = None
        if self._transport is None:
            self._service.leave(self)
        elif self._ending:
            self._close()
        elif not self._closing:
            self._wait()
            self._next()

    async def _response(self, request: Request) -> Response:
        try:
            return await self._service.handler(request)
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
            parts = await self._service.loop.run_in_executor(None, gzipped, parts)
            size = sum(map(len, parts))
            extra += "Content-Encoding: gzip\r\n"
        self._answer(head(response, self._service.date, length=size, close=self._ending, extra=extra))
        if request.method != "HEAD":
            for batch in batches(parts):
                self._write(batch)
                await self._room()

    def _send_whole(self, request: Request, response: Response, parts: Sequence[bytes], size: int) -> None:
        length = None if response.status in _BODILESS else size
        start = head(response, self._service.date, length=length, close=self._ending)
        self._answer(start if request.method == "HEAD" else b"".join((start, *parts)))

    async def _send_stream(self, request: Request, response: Response, stream: AsyncIterator[bytes]) -> None:
        self._ending = self._ending or not request.chunked
        extra = _CHUNKED if request.chunked else ""
        self._streaming = True
        self._answer(head(response, self._service.date, length=None, close=self._ending, extra=extra))
        if request.method == "HEAD":
            return
        try:
            if not self._service.stopping:
                await self._send_chunks(stream, chunked=request.chunked)
        except asyncio.CancelledError:
            if self._transport is None or not self._service.stopping:
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
        """Wait until the client has read enough."""
        if self._drained is not None:
            await asyncio.shield(self._drained)

    def _answer(self, start: bytes) -> None:
        """Write the beginning of an answer: from now on only a client that does not read can be too late."""
        self._answered = True
        self._write(start)
        if not self._closing:
            self.deadline = NEVER

    def _write(self, data: bytes | memoryview) -> None:
        if self._transport is not None and not self._closing:
            self._transport.write(data)

    def _refuse(self, response: Response) -> None:
        """Give the last answer, and let the client send on for a moment, lest the answer be lost on its way."""
        self._ending = False
        body = cast("bytes", response.body)
        start = head(response, self._service.date, length=len(body), close=True)
        self._answer(start if self._request and self._request.method == "HEAD" else start + body)
        self._closing = True
        self._reader.stage = ReadStage.OVER
        self._wait()

    def _fail(self) -> None:
        """Tell the client of an error, or break off, so that it sees that its answer is incomplete."""
        if self._closing or self._transport is None:
            return
        if self._answered:
            self._transport.abort()
        else:
            self._refuse(_internal_error())

    def _close(self) -> None:
        if self._transport is not None:
            limits = self._service.limits
            # TLS ends when both sides say so. A client that has everything and sleeps on would never say it.
            patience = limits.stall_time if self._transport.get_write_buffer_size() else limits.linger_time
            self._closing = True
            self._transport.close()
            self.deadline = self._service.loop.time() + patience


async def _discard(response: Response) -> None:
    close = getattr(response.stream, "aclose", None)
    if close is not None:
        await close()


def _internal_error() -> Response:
    return status(500, Reason.INTERNAL_ERROR, "Internal error occurred: the server's log says more", {})


_TOO_MANY_REQUESTS = status(
    429, Reason.TOO_MANY_REQUESTS, "Too many requests, please try again later.", {"retryAfterSeconds": 1}
)
