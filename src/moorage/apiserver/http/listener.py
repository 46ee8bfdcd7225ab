"""The server: listens, speaks TLS, and stops without losing what it has begun."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
from collections.abc import Coroutine
from email.utils import formatdate
from typing import Any

from moorage.apiserver.http.connection import Connection, ServerState
from moorage.apiserver.http.limits import Lane, Limits
from moorage.apiserver.http.messages import Handler

SPARE_FILES = 128
"""File descriptors that clients never get: the store, the log and the rest of the process need some."""
SHUTDOWN_TIME = 10
"""How long a client may take to say goodbye in TLS and to read the last bytes."""
_PAUSE = 0.1
"""How long nobody is accepted after it has failed: the reason, too many open files for one, seldom ends at once."""

log = logging.getLogger(__name__)


class Server:
    """Serves a handler over HTTPS. `port` 0 picks a free one; after `start`, `port` says which."""

    def __init__(
        self,
        handler: Handler,
        tls: ssl.SSLContext,
        bind: str = "127.0.0.1",
        port: int = 0,
        limits: Limits | None = None,
    ) -> None:
        self.bind = bind
        self.port = port
        self.turned_away = 0
        """How many connections there was no room for."""
        self._handler = handler
        self._tls = tls
        self._limits = limits or Limits()
        self._room = self._limits.connections
        self._service: ServerState | None = None
        self._socket: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._arriving: set[socket.socket] = set()
        """Clients that were accepted and have not yet shaken hands."""

    @property
    def connections(self) -> int:
        """How many clients are connected or about to be."""
        return len(self._arriving) + (len(self._service.connections) if self._service else 0)

    @property
    def in_flight(self) -> dict[Lane, int]:
        """How many requests are being served."""
        return dict(self._service.in_flight.counts) if self._service else dict.fromkeys(Lane, 0)

    async def start(self) -> None:
        """Begin to listen. Raises OSError when the address cannot be had."""
        family = socket.AF_INET6 if ":" in self.bind else socket.AF_INET
        self._socket = socket.create_server((self.bind, self.port), family=family, backlog=1024)
        self._socket.setblocking(False)
        self.port = self._socket.getsockname()[1]
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._room = min(self._limits.connections, max(files - SPARE_FILES, 1))
        self._service = ServerState(self._handler, self._limits, asyncio.get_running_loop())
        self._service.date = formatdate(usegmt=True)
        self._listen(self._socket, self._service)
        self._spawn(self._sweep(self._service))

    async def stop(self, grace: float = 10) -> None:
        """Accept nobody new, end the streams, and finish what is being served, for `grace` seconds at most."""
        service = self._service
        if service is None or service.stopping:
            return
        service.stopping = True
        self._stop_accepting(service)
        for connection in list(service.connections):
            connection.stop()
        if not service.connections:
            service.deserted.set()
        if not await _happens(service.deserted, grace):
            log.warning("%d connections did not end within %s s and are cut", len(service.connections), grace)
            for connection in list(service.connections):
                connection.abort()
            await _happens(service.deserted, 1)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # A task that is cancelled before it begins cannot clean up after itself.
        while self._arriving:
            self._arriving.pop().close()

    def _stop_accepting(self, service: ServerState) -> None:
        if self._socket is not None:
            service.loop.remove_reader(self._socket)
            self._socket.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _listen(self, listener: socket.socket, service: ServerState) -> None:
        if not service.stopping:
            service.loop.add_reader(listener, self._accept, listener, service)

    def _accept(self, listener: socket.socket, service: ServerState) -> None:
        """Take a client that waits. No task does this: one that is cancelled could lose the client it has just got."""
        try:
            client, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            log.warning("a connection could not be accepted: %s", error)
            service.loop.remove_reader(listener)
            service.loop.call_later(_PAUSE, self._listen, listener, service)
            return
        if self.connections >= self._room:
            self.turned_away += 1
            client.close()
            return
        client.setblocking(False)
        self._arriving.add(client)
        self._spawn(self._welcome(client, service))

    async def _welcome(self, client: socket.socket, service: ServerState) -> None:
        try:
            await service.loop.connect_accepted_socket(
                lambda: Connection(service),
                client,
                ssl=self._tls,
                ssl_handshake_timeout=self._limits.handshake_time,
                ssl_shutdown_timeout=SHUTDOWN_TIME,
            )
        except OSError as error:
            log.debug("a TLS handshake failed: %s", error)
        finally:
            self._arriving.discard(client)

    async def _sweep(self, service: ServerState) -> None:
        """Look for deadlines now and then: cheaper than a timer for every request."""
        shortest = min(*service.patience.values(), self._limits.request_time, self._limits.stall_time)
        while True:
            await asyncio.sleep(min(1, shortest / 4))
            service.date = formatdate(usegmt=True)
            now = service.loop.time()
            for connection in list(service.connections):
                if now >= connection.deadline or now >= connection.stalled:
                    connection.expire()


async def _happens(event: asyncio.Event, within: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within):
            await event.wait()
    return event.is_set()
