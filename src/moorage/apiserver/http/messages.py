"""Requests and responses, and the Status objects that answer them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from moorage.apiserver.base.flows import NOBODY, Flow
from moorage.apiserver.base.users import User

JSON = (("Content-Type", "application/json"),)
MAX_PARAMETERS = 1_000
_IMPERSONATE = "impersonate-"


class Reason(StrEnum):
    """The machine-readable reason of a failure."""

    BAD_REQUEST = "BadRequest"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    NOT_FOUND = "NotFound"
    METHOD_NOT_ALLOWED = "MethodNotAllowed"
    NOT_ACCEPTABLE = "NotAcceptable"
    ALREADY_EXISTS = "AlreadyExists"
    CONFLICT = "Conflict"
    GONE = "Gone"
    EXPIRED = "Expired"
    REQUEST_ENTITY_TOO_LARGE = "RequestEntityTooLarge"
    UNSUPPORTED_MEDIA_TYPE = "UnsupportedMediaType"
    INVALID = "Invalid"
    TOO_MANY_REQUESTS = "TooManyRequests"
    INTERNAL_ERROR = "InternalError"
    SERVER_TIMEOUT = "ServerTimeout"
    SERVICE_UNAVAILABLE = "ServiceUnavailable"
    INSUFFICIENT_STORAGE = "InsufficientStorage"
    TIMEOUT = "Timeout"
    UNKNOWN = ""


class Headers:
    """Header fields by case-insensitive name."""

    __slots__ = ("_values", "impersonates")

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._values: dict[str, list[str]] = {}
        self.impersonates = False
        """Whether a field asks for impersonation."""
        for name, value in pairs:
            self.add(name.lower(), value)

    def add(self, lower_name: str, value: str) -> None:
        """Add a field whose name is in lower case already."""
        if lower_name in self._values:
            self._values[lower_name].append(value)
        else:
            self._values[lower_name] = [value]
            self.impersonates = self.impersonates or lower_name.startswith(_IMPERSONATE)

    def get(self, name: str, default: str = "") -> str:
        """The first value of a field."""
        values = self._values.get(name if name.islower() else name.lower())
        return values[0] if values else default

    def all(self, name: str) -> Sequence[str]:
        """All values of a field, in order."""
        return self._values.get(name.lower(), ())

    def items(self) -> Iterator[tuple[str, str]]:
        """All fields, names in lower case."""
        return ((name, value) for name, values in self._values.items() for value in values)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def __len__(self) -> int:
        return sum(map(len, self._values.values()))

    def __repr__(self) -> str:
        return f"Headers({list(self.items())!r})"


class TargetError(ValueError):
    """The target of a request cannot be parsed."""


class Target:
    """The target of a request: path and query, decoded."""

    __slots__ = ("path", "query", "segments")

    def __init__(self, raw: bytes) -> None:
        if not raw.startswith(b"/"):
            raw = _origin_form(raw)
        path, _, query = raw.partition(b"?")
        self.path = decoded(path)
        self.segments = _segments(path, self.path)
        self.query = _parameters(query) if query else {}


def _origin_form(raw: bytes) -> bytes:
    scheme, separator, rest = raw.partition(b"://")
    if not separator or scheme.lower() not in (b"http", b"https"):
        raise TargetError("the request target must be a path")
    slash = rest.find(b"/")
    return rest[slash:] if slash >= 0 else b"/"


def decoded(raw: bytes) -> str:
    """Decode percent-encoded text."""
    if b"%" in raw:
        for escape in raw.split(b"%")[1:]:
            if len(escape) < 2 or not _is_hex(escape[:2]):
                raise TargetError("the request target has a % without two hexadecimal digits after it")
        raw = unquote_to_bytes(raw)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise TargetError("the request target is not UTF-8") from None
    if not text.isprintable() and any(character < " " or character == "\x7f" for character in text):
        raise TargetError("the request target has a control character")
    return text


def _is_hex(digits: bytes) -> bool:
    return all(digit in b"0123456789abcdefABCDEF" for digit in digits)


def _segments(raw: bytes, path: str) -> tuple[str, ...]:
    """The segments of a path. An encoded slash in one could get around authorization and is refused."""
    if raw == b"/":
        return ()
    segments = tuple(path.strip("/").split("/"))
    if "." in segments or ".." in segments or (b"%" in raw and b"%2f" in raw.lower()):
        raise TargetError('a path segment must not be "." or ".." and must not hold an encoded "/"')
    return segments


def _parameters(raw: bytes) -> dict[str, list[str]]:
    parameters: dict[str, list[str]] = {}
    fields = raw.split(b"&")
    if len(fields) > MAX_PARAMETERS:
        raise TargetError(f"the query has more than {MAX_PARAMETERS} parameters")
    for item in filter(None, fields):
        name, _, value = item.replace(b"+", b" ").partition(b"=")
        parameters.setdefault(decoded(name), []).append(decoded(value))
    return parameters


_READS = frozenset(("GET", "HEAD", "OPTIONS"))
_STAYS = asyncio.Event()
"""A component of this process does not disconnect."""
_WATCH_AT = {"api": 2, "apis": 3}
"""The index of the segment `watch` in the old form of a watch: /api/v1/watch/pods."""


@dataclass(slots=True, eq=False)
class Request:
    """A request. `user` is None until it is authenticated."""

    method: str
    path: str
    segments: tuple[str, ...] = ()
    """The path without its outer slashes, split, each part decoded."""
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""
    user: User | None = None
    flow: Flow = NOBODY
    """Whose share of the server it counts against."""
    certificate: bytes | None = None
    """The client's certificate (DER); TLS has verified that the cluster's authority issued it."""
    address: str = "127.0.0.1"
    """Where it came from; components of this process are on this machine."""
    disconnected: asyncio.Event = _STAYS
    """Set when the client has disconnected."""
    keep_alive: bool = True
    chunked: bool = True
    """Whether the client understands a response of unknown length (HTTP/1.1)."""
    audit_id: str = ""
    """Its name in the audit log, once there is something about it."""

    @classmethod
    def of(cls, method: str, target: str, headers: Iterable[tuple[str, str]] = (), body: bytes = b"") -> Request:
        """A request without a connection."""
        to = Target(target.encode())
        return cls(method, to.path, to.segments, to.query, Headers(headers), body)

    def parameter(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        values = self.query.get(name)
        return values[0] if values else default

    @property
    def mutating(self) -> bool:
        """Whether it may change something."""
        return self.method not in _READS

    @property
    def watching(self) -> bool:
        """Whether the client asks for a watch, as Kubernetes reads the parameter."""
        values = self.query.get("watch") if self.query else None
        if values is not None:
            return values[0].lower() not in ("false", "0")
        at = _WATCH_AT.get(self.segments[0], 0) if self.segments else 0
        return at > 0 and self.segments[at : at + 1] == ("watch",)


@dataclass(slots=True, eq=False)
class Response:
    """A response: a whole body, one whose parts are made while it is sent, or a stream of chunks as they come.

    The server calls `aclose()` of a stream that has one in the end, whether it was begun or not.
    """

    status: int = 200
    body: bytes | Iterable[bytes] = b""
    headers: Sequence[tuple[str, str]] = JSON
    stream: AsyncIterator[bytes] | None = None

    async def end(self) -> None:
        """End the stream, if it is one."""
        close = getattr(self.stream, "aclose", None)
        if close is not None:
            await close()

    async def give_up(self, instead: Response) -> None:
        """Become another response, and end the stream, which nobody has begun to read."""
        stream, self.stream = self.stream, None
        self.status, self.body, self.headers = instead.status, instead.body, instead.headers
        await Response(stream=stream).end()  # whoever notes its end sees the other response


Handler = Callable[[Request], Awaitable[Response]]


class Refused(Exception):
    """Ends a request with a response."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


def status(
    code: int,
    reason: str,
    message: str,
    details: Mapping[str, Any] | None = None,
    headers: Iterable[tuple[str, str]] = (),
    metadata: Mapping[str, str] | None = None,
) -> Response:
    """A failure as a Status object; of the details (name, group, kind, causes, ...) empty ones are left out."""
    filled = None if details is None else {name: value for name, value in details.items() if value}
    content = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": metadata or {},
        "status": "Failure",
        "message": message,
        **({"reason": str(reason)} if reason else {}),
        **({"details": filled} if filled is not None else {}),
        "code": code,
    }
    extra = [*headers]
    if filled and "retryAfterSeconds" in filled:
        extra.append(("Retry-After", str(filled["retryAfterSeconds"])))
    return Response(code, msgspec.json.encode(content) + b"\n", (*JSON, ("X-Content-Type-Options", "nosniff"), *extra))


def success(code: int = 200, details: Mapping[str, Any] | None = None) -> Response:
    """A success as a Status object, which names its code only when that is not 200."""
    content = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        **({"details": details} if details is not None else {}),
        **({"code": code} if code != 200 else {}),
    }
    return Response(code, msgspec.json.encode(content))


_ALL_WARNINGS, _LONG_WARNING, _MAX_WARNINGS = 4096, 256, 50
"""How many characters all warnings of a response may have, to how many each is cut when they have more, and how many
warnings there may be: some clients read no more than a hundred headers.
"""


def warning_headers(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Warning headers without duplicates: printable, escaped, and within the limits of clients."""
    unique = list(dict.fromkeys(texts))
    longest = _LONG_WARNING if sum(map(len, unique)) > _ALL_WARNINGS else _ALL_WARNINGS
    lengths = accumulate(min(len(text), longest) for text in unique)
    kept = [text[:longest] for text, length in zip(unique, lengths, strict=True) if length <= _ALL_WARNINGS]
    return [("Warning", f'299 - "{_header(text)}"') for text in kept[:_MAX_WARNINGS]]


def _header(text: str) -> str:
    flat = "".join(char if char.isprintable() and char.isascii() else "?" for char in text)
    return flat.replace("\\", "\\\\").replace('"', '\\"')
