"""The transport over HTTPS, with the address and credentials of a kubeconfig."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, cast

from moorage.client import errors
from moorage.client.clock import Clock, Timer
from moorage.client.connection import ClientConnection, Unanswered, unavailable
from moorage.client.kubeconfig import Kubeconfig, KubeconfigError
from moorage.client.transport import Answer
from moorage.garbage import give_back
from moorage.logs import Log

_LOG = Log(__name__)
_CONNECTIONS = 64
_CONNECT_TIME, _GOODBYE_TIME = 10.0, 1.0
_SILENCE = 30.0
"""How many seconds a server may send nothing while a request waits for its answer."""
_SWEEP = _SILENCE / 16
_KEPT = 45.0
"""How long an unused connection is kept: less than servers keep it, so that no request meets one being closed."""
_TOKEN_AGE = 60.0
_LARGE, _GIVE_BACK = 1 << 20, 2.0
"""Some seconds after an answer of so many bytes, the memory that it took is given back to the operating system."""


class HTTPSTransport:
    """Sends requests over a pool of connections. Each watch has a connection of its own."""

    def __init__(self, kubeconfig: Kubeconfig, component: str, clock: Clock | None = None) -> None:
        self._config = kubeconfig
        self._component = component
        self._clock = clock or Clock()
        self._slots = asyncio.Semaphore(_CONNECTIONS)
        self._idle: list[ClientConnection] = []
        self._connections: set[ClientConnection] = set()
        self._awaited: set[ClientConnection] = set()
        self._sweep: Timer | None = None
        self._giving_back: Timer | None = None
        self._closed = False
        self._all_closed = asyncio.Event()
        self._headers = self._with_token(kubeconfig.token())
        self._token_read = self._clock.monotonic()

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        """The answer to one request."""
        message = self._message(method, target, body, content_type)
        async with self._slots:
            kept = self._take()
            if kept is not None:
                try:
                    return await self._ask(kept, message)
                except Unanswered:
                    # The server may have processed the request before it closed the connection: only reads are retried.
                    if method != "GET":
                        raise
            return await self._ask(await self._connect(), message)

    @asynccontextmanager
    async def stream(self, target: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer to a GET as it comes."""
        connection = await self._connect()
        try:
            self._await(connection)
            try:
                answer = await connection.begin(self._message("GET", target, b"", ""))
            finally:
                self._awaited.discard(connection)
            if answer is not None:
                raise errors.of(answer.status, answer.body, answer.retry_after)
            async with aclosing(cast(Any, connection.chunks())) as chunks:
                yield chunks
        finally:
            connection.abort()
            self._give_back_after(connection)

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        self._closed = True
        for timer in (self._sweep, self._giving_back):
            if timer is not None:
                timer.cancel()
        self._idle.clear()
        if not self._connections:
            return
        for connection in list(self._connections):
            connection.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE_TIME):
                await self._all_closed.wait()
        for connection in list(self._connections):
            connection.abort()

    async def _ask(self, connection: ClientConnection, message: bytes) -> Answer:
        self._await(connection)
        try:
            answer = await connection.ask(message)
        except BaseException:
            connection.abort()
            raise
        finally:
            self._awaited.discard(connection)
            self._give_back_after(connection)
        if connection.reusable and not self._closed:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def _take(self) -> ClientConnection | None:
        """An open connection that was used recently."""
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and self._clock.monotonic() - connection.heard < _KEPT:
                return connection
            connection.close()
        return None

    async def _connect(self) -> ClientConnection:
        if self._closed:
            raise unavailable("the client is closed")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_TIME):
                _, connection = await loop.create_connection(
                    lambda: ClientConnection(self._clock.monotonic, self._gone),
                    self._config.host,
                    self._config.port,
                    ssl=self._config.tls,
                    server_hostname=self._config.server_name,
                    ssl_shutdown_timeout=_GOODBYE_TIME,
                )
        except OSError as error:
            reason = f"no connection within {_CONNECT_TIME:g} s" if isinstance(error, TimeoutError) else error
            raise unavailable(f"{self._config.url} cannot be reached: {reason}") from None
        if not connection.lost:
            self._connections.add(connection)
        return connection

    def _gone(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)
        if self._closed and not self._connections:
            self._all_closed.set()

    def _await(self, connection: ClientConnection) -> None:
        self._awaited.add(connection)
        if self._sweep is None:
            self._sweep = self._clock.call_later(_SWEEP, self._sweep_out)

    def _sweep_out(self) -> None:
        """Give up servers that have been silent for too long: one timer for all requests is cheaper than one each."""
        now = self._clock.monotonic()
        for connection in list(self._awaited):
            if now - connection.heard > _SILENCE:
                connection.abort(f"{self._config.url} has not answered for {_SILENCE:g} s")
        self._sweep = self._clock.call_later(_SWEEP, self._sweep_out) if self._awaited else None

    def _give_back_after(self, connection: ClientConnection) -> None:
        if connection.received > _LARGE and self._giving_back is None and not self._closed:
            self._giving_back = self._clock.call_later(_GIVE_BACK, self._give_back)

    def _give_back(self) -> None:
        self._giving_back = None
        asyncio.get_running_loop().run_in_executor(None, give_back)

    def _message(self, method: str, target: str, body: bytes, content_type: str) -> bytes:
        if self._config.token_changes:
            self._renew_token()
        head = f"{method} {self._config.base}{target} HTTP/1.1\r\n{self._headers}"
        if method == "GET":
            return f"{head}\r\n".encode("ascii")
        kind = f"Content-Type: {content_type}\r\n" if content_type else ""
        return f"{head}{kind}Content-Length: {len(body)}\r\n\r\n".encode("ascii") + body

    def _with_token(self, token: str) -> str:
        proof = f"Authorization: Bearer {token}\r\n" if token else ""
        return f"Host: {self._config.authority}\r\nUser-Agent: {self._component}\r\nAccept: application/json\r\n{proof}"

    def _renew_token(self) -> None:
        now = self._clock.monotonic()
        if now - self._token_read < _TOKEN_AGE:
            return
        self._token_read = now
        try:
            self._headers = self._with_token(self._config.token())
        except KubeconfigError as error:
            _LOG.warning("Token not read again, the old one is used", err=error)
