"""The members of an etcd cluster: each call goes to a connected one, and to the next one when that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import grpc
from grpc import aio

from moorage.store import messages
from moorage.store.protocol import CannotOpen, Compacted, StoreError, StoreFull, StoreUnavailable

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

PAUSE_SECONDS = 0.05
_CONNECTING_SECONDS = 0.005
"""How long to wait before looking again whether a connection has been made."""
_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),  # by default two, after which a dead member would not be missed
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)
# A member without a leader refuses the call at once instead of waiting for one.
_METADATA = (("hasleader", "true"),)

_TROUBLE = {
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.UNKNOWN,
}
_NOT_BEGUN = {"etcdserver: no leader", "etcdserver: too many requests", "raft proposal dropped"}
_FINAL: dict[str, tuple[type[StoreError], str]] = {
    "etcdserver: mvcc: required revision has been compacted": (Compacted, "the revision is too old: etcd forgot it"),
    "etcdserver: mvcc: required revision is a future revision": (StoreUnavailable, "the revision is still to come"),
    "etcdserver: mvcc: database space exceeded": (
        StoreFull,
        "etcd's space is used up: compact and defragment it, raise its --quota-backend-bytes, then disarm its alarm",
    ),
    "etcdserver: request is too large": (
        StoreError,
        "the object is too large for etcd: make it smaller, or raise etcd's --max-request-bytes",
    ),
}


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files: the authority to trust (the system's when None), and the client's certificate and key."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """What a connection needs. Raises CannotOpen."""
        try:
            ca, cert, key = (path.read_bytes() if path else None for path in (self.ca, self.cert, self.key))
        except OSError as error:
            raise CannotOpen(f"{error.filename} cannot be read: {error.strerror}") from error
        return grpc.ssl_channel_credentials(ca, key, cert)


@dataclass(frozen=True, slots=True)
class Method(Generic[RequestT, ResponseT]):
    """A unary call of etcd."""

    path: str
    request: type[RequestT]
    response: type[ResponseT]


RANGE = Method("/etcdserverpb.KV/Range", messages.RangeRequest, messages.RangeResponse)
TXN = Method("/etcdserverpb.KV/Txn", messages.TxnRequest, messages.TxnResponse)
COMPACT = Method("/etcdserverpb.KV/Compact", messages.CompactionRequest, messages.CompactionResponse)


class Lost(Exception):
    """A call was sent and not answered: it may or may not have been done."""


class Members:
    """A cluster. The member that answered last is asked first."""

    def __init__(self, endpoints: Sequence[str], tls: Tls | None, timeout: float) -> None:
        self.endpoints = tuple(endpoints)
        self._timeout = timeout
        credentials = tls.credentials() if tls else None
        self._members = [_Member(endpoint, credentials) for endpoint in endpoints]
        self._preferred = 0
        self._closed = False

    async def read(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Call an idempotent method; retry it until the timeout."""
        return await self._call(method, request, repeat=True)

    async def write(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Call a method that is not idempotent, at most once. Raises Lost."""
        return await self._call(method, request, repeat=False)

    async def watch(self, request: messages.WatchRequest) -> AsyncGenerator[messages.WatchResponse, None]:
        """The responses of a member to a watch, until the member fails or ends it."""
        member = await self._connected(self._now() + self._timeout)
        call = member.watch(metadata=_METADATA)
        member.watches.add(call)
        try:
            await call.write(request)
            while (response := await call.read()) is not aio.EOF:
                assert isinstance(response, messages.WatchResponse)
                yield response
            self._leave(member)
        except aio.AioRpcError as error:
            self._leave(member)
            raise StoreUnavailable(f"the watch was lost: {error.details()}") from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if call in member.watches or (task and task.cancelling()):
                raise
            raise StoreUnavailable("the member does not answer") from None
        finally:
            member.watches.discard(call)
            call.cancel()

    async def close(self) -> None:
        """Wait for the calls under way, and disconnect."""
        self._closed = True
        await asyncio.gather(*(member.channel.close(self._timeout) for member in self._members))

    async def _call(self, method: Method[RequestT, ResponseT], request: RequestT, *, repeat: bool) -> ResponseT:
        deadline = self._now() + self._timeout
        while True:
            member = await self._connected(deadline)
            try:
                # A member that hangs must leave time to ask another.
                return await member.call(method)(request, timeout=self._timeout / 3, metadata=_METADATA)
            except aio.AioRpcError as error:
                details = error.details() or ""
                if details in _FINAL:
                    kind, sentence = _FINAL[details]
                    raise kind(sentence) from error
                if error.code() not in _TROUBLE:
                    raise StoreUnavailable(f"etcd does not do it: {details}") from error
                self._leave(member)
                if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                    member.end_watches()
                if not repeat and details not in _NOT_BEGUN:
                    raise Lost(details) from error
                if self._now() > deadline:
                    raise StoreUnavailable(f"etcd does not answer: {details}") from error
            await asyncio.sleep(PAUSE_SECONDS)

    async def _connected(self, deadline: float) -> _Member:
        while True:
            if self._closed:
                raise StoreUnavailable("the store is closed")
            for index in self._rotation():
                if self._members[index].ready():
                    self._preferred = index
                    return self._members[index]
            if self._now() > deadline:
                raise StoreUnavailable(f"no etcd member answers at {', '.join(self.endpoints)}: {await self._reason()}")
            await asyncio.sleep(_CONNECTING_SECONDS)

    async def _reason(self) -> str | None:
        try:
            await self._members[self._preferred].call(RANGE)(messages.RangeRequest(key=b"\0"), timeout=1)
        except aio.AioRpcError as error:
            return error.details()
        return "it does now"

    def _rotation(self) -> Iterator[int]:
        return (index % len(self._members) for index in range(self._preferred, self._preferred + len(self._members)))

    def _leave(self, member: _Member) -> None:
        # Of many calls that fail together only the first switches members: the others would skip healthy ones.
        if self._members[self._preferred] is member:
            self._preferred = (self._preferred + 1) % len(self._members)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class _Member:
    """A connection to one member, opened when it is needed and reopened when it is lost."""

    def __init__(self, endpoint: str, credentials: grpc.ChannelCredentials | None) -> None:
        self.channel = (
            aio.secure_channel(endpoint, credentials, _OPTIONS)
            if credentials
            else aio.insecure_channel(endpoint, _OPTIONS)
        )
        self.watch: aio.StreamStreamMultiCallable[messages.WatchRequest, messages.WatchResponse] = (
            self.channel.stream_stream("/etcdserverpb.Watch/Watch", encode, _decoder(messages.WatchResponse))
        )
        self.watches: set[aio.StreamStreamCall[messages.WatchRequest, messages.WatchResponse]] = set()
        """Those under way."""
        self._calls: dict[str, aio.UnaryUnaryMultiCallable[Any, Any]] = {}

    def ready(self) -> bool:
        """Whether the member is connected; if not, it is being connected now."""
        return self.channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY

    def end_watches(self) -> None:
        """End the watches of a member that hangs, which would go on to wait for it."""
        while self.watches:
            self.watches.pop().cancel()

    def call(self, method: Method[RequestT, ResponseT]) -> aio.UnaryUnaryMultiCallable[RequestT, ResponseT]:
        """A method of this member, to be called."""
        if method.path not in self._calls:
            self._calls[method.path] = self.channel.unary_unary(method.path, encode, _decoder(method.response))
        return self._calls[method.path]


def encode(message: Any) -> bytes:
    """A message as it is sent."""
    encoded: bytes = message.SerializeToString()
    return encoded


def _decoder(response: Any) -> Callable[[bytes], Any]:
    decoder: Callable[[bytes], Any] = response.FromString
    return decoder
