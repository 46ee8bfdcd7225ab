"""The transport over HTTPS, with the address and credentials of a kubeconfig."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from math import inf
from typing import Any, cast

from moorage.client import errors
from moorage.client.clock import Clock, Timer
from moorage.client.connection import ClientConnection, Unanswered, unavailable
from moorage.client.dial import dial
from moorage.client.kubeconfig import Kubeconfig, KubeconfigError
from moorage.client.kubeconfig.credentials import Proof
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
_UNAUTHORIZED = 401
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
        self._connections: dict[ClientConnection, Proof] = {}
        """The open connections, and what each was made with."""
        self._awaited: set[ClientConnection] = set()
        self._sweep: Timer | None = None
        self._giving_back: Timer | None = None
        self._closed = False
        self._all_closed = asyncio.Event()
        self._proof = Proof()
        self._proof_until = 0.0
        self._head = f"Host: {kubeconfig.authority}\r\nUser-Agent: {component}\r\nAccept: application/json\r\n"
        self._headers = self._head

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        """The answer to one request."""
        if self._clock.monotonic() >= self._proof_until:
            await self._prove()
        shown = self._proof
        answer = await self._request(method, target, body, content_type)
        if answer.status == _UNAUTHORIZED and await self._prove_anew(shown):
            return await self._request(method, target, body, content_type)
        return answer

    async def _request(self, method: str, target: str, body: bytes, content_type: str) -> Answer:
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
        if self._clock.monotonic() >= self._proof_until:
            await self._prove()
        shown = self._proof
        connection, answer = await self._begin(target)
        if answer is not None and answer.status == _UNAUTHORIZED and await self._prove_anew(shown):
            connection.abort()
            connection, answer = await self._begin(target)
        try:
            if answer is not None:
                raise errors.of(answer.status, answer.body, answer.retry_after)
            async with aclosing(cast(Any, connection.chunks())) as chunks:
                yield chunks
        finally:
            connection.abort()
            self._give_back_after(connection)

    async def _begin(self, target: str) -> tuple[ClientConnection, Answer | None]:
        connection = await self._connect()
        self._await(connection)
        try:
            return connection, await connection.begin(self._message("GET", target, b"", ""))
        except BaseException:
            connection.abort()
            raise
        finally:
            self._awaited.discard(connection)

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
        if connection.reusable and not self._closed and self._is_current(connection):
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def _take(self) -> ClientConnection | None:
        """An open connection that was used recently."""
        while self._idle:
            connection = self._idle.pop()
            is_fresh = self._clock.monotonic() - connection.heard < _KEPT
            if connection.reusable and is_fresh and self._is_current(connection):
                return connection
            connection.close()
        return None

    def _is_current(self, connection: ClientConnection) -> bool:
        """Whether a connection shows the client certificate that is shown now."""
        made_with = self._connections.get(connection)
        return made_with is not None and made_with.tls is self._proof.tls

    async def _connect(self) -> ClientConnection:
        if self._closed:
            raise unavailable("the client is closed")
        proof = self._proof
        try:
            async with asyncio.timeout(_CONNECT_TIME):
                connection = await dial(
                    self._config, proof.tls, lambda: ClientConnection(self._clock.monotonic, self._gone)
                )
        except OSError as error:
            reason = f"no connection within {_CONNECT_TIME:g} s" if isinstance(error, TimeoutError) else error
            raise unavailable(f"{self._config.url} cannot be reached: {reason}") from None
        if not connection.lost:
            self._connections[connection] = proof
        return connection

    def _gone(self, connection: ClientConnection) -> None:
        self._connections.pop(connection, None)
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
        head = f"{method} {self._config.base}{target} HTTP/1.1\r\n{self._headers}"
        if method == "GET":
            return f"{head}\r\n".encode("ascii")
        kind = f"Content-Type: {content_type}\r\n" if content_type else ""
        return f"{head}{kind}Content-Length: {len(body)}\r\n\r\n".encode("ascii") + body

    async def _prove(self, refused: Proof | None = None) -> None:
        """Have what requests show read or issued again."""
        credentials, known = self._config.credentials, self._proof
        if credentials is None:
            self._proof_until = inf
            return
        try:
            self._proof = await credentials.proof(self._clock, refused)
        except KubeconfigError as error:
            if (not known.headers and known.tls is None) or credentials.has_plugin:
                raise unavailable(str(error)) from None
            _LOG.warning("Credentials not read again, the old ones are used", err=error)
        self._headers = self._head + self._proof.headers
        self._proof_until = self._clock.monotonic() + self._proof.seconds

    async def _prove_anew(self, refused: Proof) -> bool:
        """Whether there are other credentials than those that the server has refused."""
        credentials = self._config.credentials
        if credentials is None or not credentials.is_renewable:
            return False
        await self._prove(refused)
        return (self._proof.headers, self._proof.tls) != (refused.headers, refused.tls)
