"""HTTP/1.1 as bytes: parsing requests, serialising responses. No sockets, no clocks."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from enum import Enum
from http import HTTPStatus
from typing import NamedTuple, NoReturn

import httptools

from moorage.apiserver.http.limits import Limits
from moorage.apiserver.http.messages import (
    JSON,
    Headers,
    Reason,
    Request,
    Response,
    Target,
    TargetError,
    status,
)

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
SLICE = 4 << 10
"""How many bytes are parsed at a time: a client that pipelines thousands of requests must not fill the memory."""
LONGEST_KNOWN = 2 << 10
"""How long a head is at most that a connection remembers."""
GZIP_FROM = 128 << 10
"""Bodies longer than this are compressed for clients that accept it, as in Kubernetes."""
BATCH, PACKED_BATCH = 64 << 10, 256 << 10
"""How much of a long body is sent at a time, and how much is compressed at a time."""
_OBJECT = 2 << 10
"""About what a request takes in memory besides its body."""


class ReadStage(Enum):
    """What is being read of a request."""

    IDLE = "nothing of it is here"
    HEAD = "the request line or the headers are incomplete"
    BODY = "the body is incomplete"
    OVER = "nothing more is read from this client"


class KnownHead(NamedTuple):
    """The head of a request, as bytes and as it was parsed."""

    raw: bytes
    method: str
    target: Target
    headers: Headers
    length: int
    """How long the body is that follows."""


Admit = Callable[[Request], Response | None]
"""Asked about a request whose head is complete, before its body is read: None, or the response that refuses it."""


class Reader:
    """Parses bytes into requests, or into an error response, after which nothing more is read."""

    __slots__ = (
        "_admit", "_body", "_chunked", "_count", "_fed", "_headers", "_known", "_limits", "_parsed", "_parser",
        "_request", "_rest", "_size", "_target", "awaits_continue", "messages", "stage",
    )  # fmt: skip

    def __init__(self, limits: Limits, admit: Admit) -> None:
        self.messages: deque[Request | Response] = deque()
        self.stage = ReadStage.IDLE
        self.awaits_continue = False
        """Whether the client waits for `100 Continue` before it sends the body."""
        self._limits = limits
        self._admit = admit
        self._request: Request | None = None
        """The request whose body is being read."""
        self._parser = httptools.HttpRequestParser(self)
        self._known: KnownHead | None = None
        """The head of the last request: clients send the same one many times."""
        self._rest = b""
        self._body: bytes | bytearray = b""
        self._begin()

    @property
    def arriving(self) -> Request | None:
        """The request whose body has not arrived as a whole."""
        return self._request

    @property
    def backlog(self) -> int:
        """How many bytes are not parsed yet, because a request before them is unanswered."""
        return len(self._rest)

    @property
    def buffered(self) -> int:
        """How many bytes are held of requests that are incomplete or not served yet."""
        size = len(self._rest) + len(self._body)
        if self.stage is ReadStage.HEAD:
            size += self._fed
        if self.messages:
            size += sum(_OBJECT + len(message.body) for message in self.messages if isinstance(message, Request))
        return size

    def feed(self, data: bytes) -> None:
        """Take bytes that have arrived."""
        if self.stage is ReadStage.OVER:
            return
        if self._rest or self.messages or len(data) > SLICE:
            self._rest = self._rest + data if self._rest else data
            self.advance()
        elif self.stage is ReadStage.IDLE:
            if not self._feed_known(data):
                self._parse(data)
                self._learn(data)
        else:
            self._parse(data)

    def _feed_known(self, data: bytes) -> bool:
        """Take a whole request whose head is that of the last one, to the byte: it is parsed to the same."""
        known = self._known
        if known is None or len(data) != len(known.raw) + known.length or not data.startswith(known.raw):
            return False
        raw, method, target, headers, _ = known
        request = Request(method, target.path, target.segments, target.query, headers, data[len(raw) :])
        if refusal := self._admit(request):
            self._end(refusal)
        else:
            self.messages.append(request)
        return True

    def _learn(self, data: bytes) -> None:
        """Remember the head of a request that has arrived at once, alone, and after which the connection goes on."""
        if self.stage is not ReadStage.IDLE or len(self.messages) != 1:
            return
        request = self.messages[0]
        if not isinstance(request, Request) or "transfer-encoding" in request.headers or "expect" in request.headers:
            return
        head = data[: len(data) - len(request.body)]
        # The first empty line ends the head: so what follows is the body, and no more than that.
        if len(head) <= LONGEST_KNOWN and head.find(b"\r\n\r\n") == len(head) - 4:
            self._known = KnownHead(head, request.method, self._parsed, request.headers, len(request.body))

    def advance(self) -> None:
        """Parse the backlog up to the next message."""
        rest = memoryview(self._rest)
        while rest and not self.messages and self.stage is not ReadStage.OVER:
            self._parse(rest[:SLICE])
            rest = rest[SLICE:]
        self._rest = b"" if self.stage is ReadStage.OVER else bytes(rest)

    def discard(self) -> None:
        """Forget what is buffered, and whatever comes."""
        self.messages.clear()
        self._body, self._rest = b"", b""
        self.stage = ReadStage.OVER

    def _parse(self, data: bytes | memoryview) -> None:
        if self.stage is ReadStage.BODY:
            self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.stage = ReadStage.OVER
        except httptools.HttpParserError as error:
            # The parser also fails on bytes after a request that ends the connection: those are ignored.
            if self.stage is not ReadStage.OVER:
                self._end(_malformed(str(error)))
        if self.stage is ReadStage.HEAD:
            self._fed += len(data)
            if self._fed > self._limits.header_size + SLICE:
                self._end(_headers_too_large(self._limits))
        elif self.stage is ReadStage.BODY and self._fed > 2 * self._limits.body_size + SLICE:
            self._end(_body_too_large(self._limits))

    def _begin(self) -> None:
        self._target = b""
        self._headers = Headers()
        self._body = b""
        self._fed = self._size = self._count = 0
        self._chunked = False
        self.awaits_continue = False

    def _end(self, response: Response) -> None:
        self.messages.append(response)
        self.awaits_continue = False
        self._body, self._rest = b"", b""
        self.stage = ReadStage.OVER

    def _refuse(self, response: Response) -> NoReturn:
        """End the reading from a callback of the parser, which stops at any exception."""
        self._end(response)
        raise httptools.HttpParserError

    def on_message_begin(self) -> None:
        """The parser has seen the first byte of a request."""
        if self.stage is ReadStage.OVER:
            raise httptools.HttpParserError
        self._begin()
        self.stage = ReadStage.HEAD

    def on_url(self, url: bytes) -> None:
        """The parser has read the target, or a part of it."""
        self._target += url
        self._grow(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser has read a header or, after a chunked body, a trailer, which is ignored."""
        self._count += 1
        self._grow(len(name) + len(value) + 4)
        if self._count > self._limits.header_count:
            self._refuse(_headers_too_large(self._limits))
        if self.stage is ReadStage.HEAD:
            try:
                self._headers.add(_NAMES.get(name) or name.decode("ascii").lower(), value.decode())
            except UnicodeDecodeError:
                self._refuse(_malformed("a header is not UTF-8"))

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self._limits.header_size:
            self._refuse(_headers_too_large(self._limits))

    def on_headers_complete(self) -> None:
        """The parser has read all headers: whatever can be refused without the body is refused now."""
        headers = self._headers
        lengths = headers.all("content-length")
        coding = headers.get("transfer-encoding")
        self._chunked = self._parser.get_http_version() != "1.0"
        if problem := self._problem(lengths, coding):
            self._refuse(_malformed(problem))
        if lengths and int(lengths[0]) > self._limits.body_size:
            self._refuse(_body_too_large(self._limits))
        if expectation := headers.get("expect"):
            if expectation.lower() != "100-continue":
                self._refuse(status(417, Reason.UNKNOWN, f"the expectation {expectation[:100]!r} cannot be met"))
            self.awaits_continue = self._chunked and bool(coding or (lengths and int(lengths[0])))
        self._request = self._admitted()
        self.stage = ReadStage.BODY

    def _admitted(self) -> Request:
        try:
            target = self._parsed = Target(self._target)
        except TargetError as error:
            self._refuse(status(400, Reason.BAD_REQUEST, str(error)))
        method = self._parser.get_method().decode("ascii")
        request = Request(method, target.path, target.segments, target.query, self._headers, chunked=self._chunked)
        if refusal := self._admit(request):
            self._refuse(refusal)
        return request

    def _problem(self, lengths: Sequence[str], coding: str) -> str:
        """What makes a request ambiguous: a proxy could read it differently, which allows request smuggling."""
        headers = self._headers
        if len(lengths) > 1 or (lengths and coding):
            return "it must have one Content-Length or Transfer-Encoding: chunked, not both"
        if lengths and not (lengths[0].isascii() and lengths[0].isdigit() and len(lengths[0]) < 16):
            return "Content-Length must be a number"
        if coding and (coding.lower() != "chunked" or len(headers.all("transfer-encoding")) > 1 or not self._chunked):
            return "the only Transfer-Encoding is chunked, and HTTP/1.0 has none"
        if self._parser.should_upgrade() and (coding or (lengths and int(lengths[0]))):
            return "a request to upgrade must have no body"
        hosts = len(headers.all("host"))
        if hosts > 1 or (not hosts and self._chunked):
            return "it must have one Host header"
        if len(headers.all("authorization")) > 1:
            return "it must have no more than one Authorization header"
        return ""

    def on_body(self, data: bytes) -> None:
        """The parser has read a part of the body."""
        self.awaits_continue = False
        if not self._body:
            self._body = data
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += data
        if len(self._body) > self._limits.body_size:
            self._refuse(_body_too_large(self._limits))

    def on_message_complete(self) -> None:
        """The parser has read a whole request."""
        request = self._request
        assert request is not None
        keep_alive = self._chunked and self._parser.should_keep_alive() and not self._parser.should_upgrade()
        request.body, request.keep_alive = bytes(self._body), keep_alive
        self.messages.append(request)
        self._request = None
        self.stage = ReadStage.IDLE if keep_alive else ReadStage.OVER
        self._body = b""


def _malformed(problem: str) -> Response:
    return status(400, Reason.BAD_REQUEST, f"malformed HTTP request: {problem}")


def _headers_too_large(limits: Limits) -> Response:
    return status(
        431, Reason.BAD_REQUEST,
        f"request headers too large: at most {limits.header_count} headers and {limits.header_size} bytes are allowed",
    )  # fmt: skip


def _body_too_large(limits: Limits) -> Response:
    message = f"Request entity too large: limit is {limits.body_size}"
    return status(413, Reason.REQUEST_ENTITY_TOO_LARGE, message)


_COMMON = (
    "Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Length", "Content-Type", "Expect", "Host",
    "Transfer-Encoding", "User-Agent",
)  # fmt: skip
_NAMES = {spelling.encode(): name.lower() for name in _COMMON for spelling in (name, name.lower())}
_STATUS_LINES = {code.value: f"HTTP/1.1 {code.value} {code.phrase}\r\n" for code in HTTPStatus}
_UNCACHED = "Cache-Control: no-cache, private\r\n"
_JSON_HEADS = {code: f"{line}Content-Type: application/json\r\n{_UNCACHED}" for code, line in _STATUS_LINES.items()}
_NO_BREAKS = str.maketrans("\r\n\0", "   ")


def head(response: Response, date: str, *, length: int | None, close: bool, extra: str = "") -> bytes:
    """The status line and the headers. Without a length the body is chunked, or ends with the connection."""
    if response.headers is JSON:
        start = _JSON_HEADS[response.status]
    else:
        lines = "".join(f"{name}: {value.translate(_NO_BREAKS)}\r\n" for name, value in response.headers)
        start = f"{_STATUS_LINES[response.status]}{lines}{_UNCACHED}"
    size = "" if length is None else f"Content-Length: {length}\r\n"
    end = "Connection: close\r\n\r\n" if close else "\r\n"
    return f"{start}Date: {date}\r\n{extra}{size}{end}".encode()


def chunk(data: bytes | memoryview) -> bytes:
    """One chunk of a chunked body. It must not be empty: an empty chunk ends the body."""
    return b"".join((b"%x\r\n" % len(data), data, b"\r\n"))


def accepts_gzip(request: Request) -> bool:
    """Whether the client asks for compressed bodies."""
    for offer in request.headers.get("accept-encoding").split(","):
        coding, _, parameter = offer.partition(";")
        if coding.strip().lower() == "gzip":
            return parameter.replace(" ", "").rstrip("0.") not in ("q=", "Q=")
    return False


class Gzip:
    """Compresses the parts of a body with the fastest level."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)

    def part(self, data: bytes | memoryview) -> bytes:
        """What one part gives, perhaps nothing yet. Too slow for the event loop."""
        return self._compressor.compress(data)

    def end(self) -> bytes:
        """What is left."""
        return self._compressor.flush()


async def batches(parts: AsyncIterable[bytes], most: int = BATCH) -> AsyncIterator[bytes | memoryview]:
    """The same bytes in pieces of limited size: worth some TLS records, small enough to buffer for a slow client."""
    batch: list[bytes] = []
    size = 0
    async for part in parts:
        if size + len(part) > most and batch:
            yield b"".join(batch)
            batch, size = [], 0
        if len(part) > most:
            view = memoryview(part)
            for at in range(0, len(view), most):
                yield view[at : at + most]
        else:
            batch.append(part)
            size += len(part)
    if batch:
        yield b"".join(batch)
