"""One client connection: requests are answered in order, streams as fast as the client reads."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable
from typing import cast

from moorage.apiserver.base.flows import NOBODY, Flow, PriorityLevel, flow_of
from moorage.apiserver.base.offload import FLOW
from moorage.apiserver.base.pacing import made
from moorage.apiserver.http.flowcontrol import Place, too_many_requests
from moorage.apiserver.http.messages import Reason, Refused, Request, Response, status
from moorage.apiserver.http.state import ServerState
from moorage.apiserver.http.wire import (
    BATCH,
    CONTINUE,
    GZIP_FROM,
    LAST_CHUNK,
    PACKED_BATCH,
    Gzip,
    Reader,
    ReadStage,
    accepts_gzip,
    batches,
    chunk,
    head,
)
from moorage.logs import Log

BACKLOG = 64 << 10
"""How many unparsed bytes a client may send ahead before reading from it pauses."""
UNREAD = 32 << 10
"""How many bytes a client may leave unread before no more are made for it."""
NEVER = math.inf
_CHUNKED = "Transfer-Encoding: chunked\r\n"
_WAITING = "too many of yours are waiting"
_BODILESS = frozenset((204, 304))

_LOG = Log(__name__)


class Connection(asyncio.Protocol):
    """A client connection. `deadline` ends what it does now, `stalled` ends waiting for the client to read."""

    __slots__ = (
        "_address", "_answered", "_begun", "_closing", "_counted", "_disconnected", "_drained", "_ending", "_exempt",
        "_flow", "_handled", "_number", "_peer", "_reader", "_reading", "_request", "_resting", "_server", "_streaming",
        "_task", "_transport", "_unread", "deadline", "stalled",
    )  # fmt: skip

    def __init__(self, server: ServerState, number: int) -> None:
        self._server = server
        self._number = number
        self._reader = Reader(server.limits, self._admit)
        self._flow = NOBODY
        """What the connection counts for: the first user who is authenticated on it."""
        self._exempt = False
        """Whether what it holds is not counted."""
        self._counted = self._unread = 0
        """Bytes of requests and of unread responses that are counted for the flow."""
        self._transport: asyncio.Transport | None = None
        self._peer: bytes | None = None
        self._address = ""
        self._disconnected = asyncio.Event()
        self._request: Request | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun = False
        """Whether the task has run at all."""
        self._handled = False
        """Whether the handler has been called."""
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
        self._resting = False
        """Whether the client was told to come again later, and that time is not over."""
        self.deadline = NEVER
        self.stalled = NEVER

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is established, TLS included where it is spoken."""
        self._transport = cast("asyncio.Transport", transport)
        tls = transport.get_extra_info("ssl_object")
        self._peer = tls.getpeercert(binary_form=True) if tls else None
        self._address = transport.get_extra_info("peername")[0]
        self._transport.set_write_buffer_limits(high=UNREAD)
        self._server.connections.add(self)
        self._server.strangers[self._number] = self.abort
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
        elif self._answered or not self._handled or (self._request and not self._request.mutating):
            self._cancel()

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        reader = self._reader
        before = reader.stage
        reader.feed(data)
        if not (self._exempt or self._count()):
            return
        if self._task is None:
            if reader.stage is not before and not self._closing:
                self._wait()
            self._next()
        if reader.backlog > BACKLOG and self._reading:
            self._pause()

    def pause_writing(self) -> None:
        """The write buffer is full."""
        if self._drained is None:
            self._drained = self._server.loop.create_future()
            self.stalled = self._server.loop.time() + self._server.limits.stall_time
            if self._transport is not None and not self._exempt:
                unread = self._transport.get_write_buffer_size()
                if self._server.control.memory.take(self._flow.user, unread):
                    self._unread = unread
                else:
                    self._transport.abort()

    def resume_writing(self) -> None:
        """The write buffer has room again."""
        self.stalled = NEVER
        self._give_back_unread()
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
            if self._handled:
                self._refuse(_took_too_long())
            else:
                self._turn_away(too_many_requests(_WAITING), self._request)
            self._cancel()
        elif self._reader.stage is ReadStage.IDLE:
            self._close()
        else:
            late = status(408, Reason.TIMEOUT, "Timeout: the request did not arrive within the allotted time", {})
            self._turn_away(late, self._reader.arriving)

    def stop(self) -> None:
        """The server stops: streams are ended, other requests are finished."""
        self._ending = True
        if self._task is None:
            self._close()
        elif self._streaming:
            self._cancel()

    def abort(self) -> None:
        """The grace period of the server is over: drop the connection."""
        self._drop()
        self._cancel()

    def _pause(self) -> None:
        if self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def _drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def release(self) -> None:
        """Give back what the connection holds."""
        self._count_as(0)
        self._server.strangers.pop(self._number, None)
        if self._flow.level not in (PriorityLevel.EXEMPT, PriorityLevel.CATCH_ALL):
            self._server.known.give_back(self._flow.user)

    def _admit(self, request: Request) -> Response | None:
        """Authenticate a request whose head is complete; the response when it is refused."""
        request.certificate = self._peer
        request.address = self._address
        request.disconnected = self._disconnected
        try:
            request.user = self._server.authenticate(request)
        except Refused as refused:
            response = refused.response
            return Response(response.status, b"", response.headers) if request.method == "HEAD" else response
        flow = request.flow = flow_of(request.user)
        if self._flow.level is PriorityLevel.CATCH_ALL and flow.level is not PriorityLevel.CATCH_ALL:
            if not (flow.exempt or self._server.known.take(flow.user)):
                return self._refused(request, "you have too many connections")
            self._belongs_to(flow)
        return None

    def _belongs_to(self, flow: Flow) -> None:
        self._count_as(0)
        self._give_back_unread()
        self._flow, self._exempt = flow, flow.exempt
        self._server.strangers.pop(self._number, None)

    def _refused(self, request: Request, what: str) -> Response:
        """Status 429 for a request, which the server is told of."""
        response = too_many_requests(what)
        self._server.refused(request, response)
        return response

    def _give_back_unread(self) -> None:
        if self._unread:
            self._server.control.memory.give_back(self._flow.user, self._unread)
            self._unread = 0

    def _count(self) -> bool:
        """Count what is held of this client's requests; False when that was too much, and the client is refused."""
        size = self._reader.buffered + (len(self._request.body) if self._request else 0)
        if size == self._counted or self._count_as(size):
            return True
        if self._task is not None:
            self._reader.discard()
            self._drop()
        elif not self._closing:
            response = too_many_requests("the requests that you are sending are too large together")
            self._turn_away(response, self._reader.arriving)
        return False

    def _count_as(self, size: int) -> bool:
        memory, user = self._server.control.memory, self._flow.user
        if size > self._counted and not memory.take(user, size - self._counted):
            return False
        if size < self._counted:
            memory.give_back(user, self._counted - size)
        self._counted = size
        return True

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            if not self._begun:
                # A task that is cancelled before it has run never runs: its own clean-up would not happen.
                self._after()

    def _wait(self) -> None:
        """Set the deadline for what the client must do next."""
        self.deadline = self._server.loop.time() + self._server.patience[self._reader.stage]

    def go_on(self) -> None:
        """Serve the next request, which had to wait until others were served."""
        if self._task is None:
            self._next()

    def _next(self) -> None:
        """Serve the next request that has arrived, unless the client leaves responses unread."""
        reader = self._reader
        while self._transport and not (self._task or self._closing or self._drained or self._resting):
            if not reader.messages and reader.backlog:
                reader.advance()
                self._wait()
            if not reader.messages or not (self._exempt or self._server.may_begin(self)):
                break
            message = reader.messages.popleft()
            if isinstance(message, Response):
                self._turn_away(message, reader.arriving)
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
        self._request = request
        self._begun = self._handled = self._answered = self._streaming = False
        self._ending = server.stopping or not request.keep_alive
        self.deadline = server.loop.time() + server.limits.queue_time
        self._task = server.loop.create_task(self._serve(request))

    async def _serve(self, request: Request) -> None:
        self._begun = True
        FLOW.set(request.flow.user)
        place = Place(self._server.control, request.flow)
        try:
            response = await self._response(request, place)
            try:
                await self._send(request, response)
            finally:
                if response.stream is not None:
                    await response.end()
        except Exception:  # noqa: BLE001 - the log has it
            _LOG.exception("Response not sent", verb=request.method, URI=request.path)
            self._fail()
        except asyncio.CancelledError:
            self._fail()
            raise
        finally:
            place.leave()
            self._after()

    def _after(self) -> None:
        """The task has ended: close, or go on with the next request."""
        self._task = self._request = None
        if not self._exempt:
            self._count()
        if self._transport is None:
            self._server.leave(self)
        elif self._ending:
            self._close()
        elif not self._closing:
            self._wait()
            self._next()

    async def _response(self, request: Request, place: Place) -> Response:
        if not (place.enter() or await place.wait()):
            self._rest()
            return self._refused(request, _WAITING)
        self._handled = True
        self.deadline = self._server.loop.time() + self._server.limits.request_time
        try:
            response = await self._server.handler(request)
        except Refused as refused:
            return refused.response
        except Exception:  # noqa: BLE001 - the log has it
            _LOG.exception("Request failed", verb=request.method, URI=request.path)
            return _internal_error()
        if response.stream is not None and not place.watch():
            await response.give_up(too_many_requests("you have too many watches"))
            self._rest()
        return response

    def _rest(self) -> None:
        """Do not read from the client for a moment: it was told to come again later."""
        self._resting = True
        self._server.loop.call_later(self._server.limits.retry_time, self._rested)

    def _rested(self) -> None:
        self._resting = False
        if self._task is None:
            self._next()

    async def _send(self, request: Request, response: Response) -> None:
        body = response.body
        if response.stream is not None:
            await self._send_stream(request, response, response.stream)
        elif isinstance(body, bytes) and len(body) <= GZIP_FROM:
            self._send_whole(request, response, body)
        else:
            await self._send_parts(request, response, (body,) if isinstance(body, bytes) else body)

    async def _send_parts(self, request: Request, response: Response, parts: Iterable[bytes]) -> None:
        """Send a long body as fast as the client reads."""
        gzip = Gzip() if accepts_gzip(request) else None
        length = len(response.body) if isinstance(response.body, bytes) and gzip is None else None
        chunked = length is None and request.chunked
        self._ending = self._ending or (length is None and not chunked)
        extra = "Vary: Accept-Encoding\r\n" + ("Content-Encoding: gzip\r\n" if gzip else "")
        extra += _CHUNKED if chunked else ""
        self._answer(head(response, self._server.date, length=length, close=self._ending, extra=extra))
        if request.method == "HEAD":
            return
        async for batch in batches(made(parts), BATCH if gzip is None else PACKED_BATCH):
            data = batch if gzip is None else await self._server.loop.run_in_executor(None, gzip.part, batch)
            await self._send_part(data, chunked=chunked)
        if gzip is not None:
            await self._send_part(gzip.end(), chunked=chunked)
        if chunked:
            self._write(LAST_CHUNK)

    async def _send_part(self, data: bytes | memoryview, *, chunked: bool) -> None:
        if data:
            self._write(chunk(data) if chunked else data)
            await self._room()

    def _send_whole(self, request: Request, response: Response, body: bytes) -> None:
        length = None if response.status in _BODILESS else len(body)
        start = head(response, self._server.date, length=length, close=self._ending)
        self._answer(start if request.method == "HEAD" else start + body)

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

    def _turn_away(self, response: Response, request: Request | None) -> None:
        """Send the last response, and tell the server of the request that it is for, if there is one."""
        if request is not None:
            self._server.refused(request, response)
        self._refuse(response)

    def _refuse(self, response: Response) -> None:
        """Send the last response, then discard input for a moment: closing at once could reset the connection."""
        self._ending = False
        body = cast("bytes", response.body)
        start = head(response, self._server.date, length=len(body), close=True)
        self._answer(start if self._request and self._request.method == "HEAD" else start + body)
        self._closing = True
        self._reader.discard()
        self._wait()
        if self._reading and not self._server.linger(self):
            self._pause()

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


def _took_too_long() -> Response:
    return status(504, Reason.TIMEOUT, "Timeout: request did not complete within the allotted timeout", {})


def _internal_error() -> Response:
    return status(500, Reason.INTERNAL_ERROR, "Internal error occurred: the server's log says more", {})
