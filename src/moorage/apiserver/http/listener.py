"""The HTTP server: listening, TLS handshakes, and graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import Coroutine
from email.utils import formatdate
from functools import partial
from typing import Any

from moorage.apiserver.http.connection import Connection
from moorage.apiserver.http.flowcontrol import FlowControl
from moorage.apiserver.http.handshakes import Handshakes
from moorage.apiserver.http.limits import Limits
from moorage.apiserver.http.messages import Handler
from moorage.apiserver.http.state import Authenticate, OnRefusal, ServerState
from moorage.garbage import give_back
from moorage.logs import Log

SPARE_FILES = 128
"""File descriptors that are kept from clients, for the store, the log and the rest of the process."""
RECEIVED = 64 << 10
"""About how many bytes of each client wait in the kernel."""
MANY_GONE = 100
"""After so many connections have ended, the memory that they held is given back to the operating system."""
SHUTDOWN_TIME = 10
"""How long a client may take to close TLS and to read the last bytes."""
_PAUSE = 0.1
"""How long accepting pauses after it failed: a cause such as too many open files seldom ends at once."""

_LOG = Log(__name__)


class Server:
    """Serves a handler over HTTPS, or HTTP without TLS. `port` 0 picks a free one; after `start`, `port` says which."""

    def __init__(
        self,
        handler: Handler,
        authenticate: Authenticate,
        tls: ssl.SSLContext | None,
        bind: str = "127.0.0.1",
        port: int = 0,
        limits: Limits | None = None,
        refused: OnRefusal = lambda *_: None,
    ) -> None:
        self.bind = bind
        self.port = port
        self.turned_away = 0
        """How many connections were refused or dropped because the limit was reached."""
        self._handler = handler
        self._authenticate = authenticate
        self._refused = refused
        self._tls = tls
        self._limits = limits or Limits()
        self.control = FlowControl(self._limits)
        self._room = self._limits.connections
        self._service: ServerState | None = None
        self._socket: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._arriving: set[socket.socket] = set()
        """Sockets that are accepted and wait for the TLS handshake, or are in it."""
        self._handshakes: Handshakes | None = None
        self._accepted = 0

    @property
    def connections(self) -> int:
        """How many clients are connected or in the handshake."""
        return len(self._arriving) + (len(self._service.connections) if self._service else 0)

    async def start(self, listening: socket.socket | None = None) -> None:
        """Begin to accept, on a socket that listens already or a new one. OSError when the address is not available."""
        family = socket.AF_INET6 if ":" in self.bind else socket.AF_INET
        self._socket = listening or socket.create_server((self.bind, self.port), family=family, backlog=1024)
        self._socket.setblocking(False)
        # Inherited by connections: what one of them has sent ahead is copied several times when it is read at once.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED)
        self.port = self._socket.getsockname()[1]
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._room = min(self._limits.connections, max(files - SPARE_FILES, 1))
        state = self._service = ServerState(
            self._handler, self._authenticate, self._refused, self._limits, self.control, self._room
        )  # fmt: skip
        state.date = formatdate(usegmt=True)
        self._handshakes = Handshakes(
            state.loop,
            lambda client, number: self._spawn(self._welcome(client, number, state)),
            lambda client, number: self._farewell(client, number, state),
            self._limits.handshake_time,
        )
        self._listen(self._socket, state, self._handshakes)
        self._spawn(self._sweep(state))

    async def stop(self, grace: float = 10) -> None:
        """Stop accepting, end the streams, and finish other requests, for `grace` seconds at most."""
        state = self._service
        if state is None or state.stopping:
            return
        state.stopping = True
        self._stop_accepting(state)
        for connection in list(state.connections):
            connection.stop()
        if not state.connections:
            state.deserted.set()
        if not await _happens(state.deserted, grace):
            _LOG.warning("Connections cut after the grace period", connections=len(state.connections), seconds=grace)
            for connection in list(state.connections):
                connection.abort()
            await _happens(state.deserted, 1)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # A task that is cancelled before it has run cannot clean up after itself.
        while self._arriving:
            self._arriving.pop().close()

    def _stop_accepting(self, state: ServerState) -> None:
        if self._socket is not None:
            state.loop.remove_reader(self._socket)
            self._socket.close()
        if self._handshakes is not None:
            self._handshakes.stop()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _listen(self, listener: socket.socket, state: ServerState, handshakes: Handshakes) -> None:
        if not state.stopping:
            state.loop.add_reader(listener, self._accept, listener, state, handshakes)

    def _accept(self, listener: socket.socket, state: ServerState, handshakes: Handshakes) -> None:
        """Accept a client. Not in a task, which could lose a client that it has just accepted when it is cancelled."""
        try:
            client, address = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            _LOG.warning("Connection not accepted", err=error)
            state.loop.remove_reader(listener)
            state.loop.call_later(_PAUSE, self._listen, listener, state, handshakes)
            return
        if self.connections >= self._room or len(state.strangers) >= self._limits.strangers:
            self.turned_away += 1
            if not state.strangers:
                client.close()
                return
            # Whoever has not said who they are makes room, so that they cannot keep out those who can.
            state.strangers.pop(next(iter(state.strangers)))()
        client.setblocking(False)
        self._arriving.add(client)
        self._accepted += 1
        state.strangers[self._accepted] = partial(_hang_up, client)
        handshakes.add(client, self._accepted, address[0])

    def _farewell(self, client: socket.socket, number: int, state: ServerState) -> None:
        """A client did not begin the handshake."""
        state.strangers.pop(number, None)
        self._arriving.discard(client)
        client.close()

    async def _welcome(self, client: socket.socket, number: int, state: ServerState) -> None:
        try:
            await state.loop.connect_accepted_socket(
                lambda: Connection(state, number),
                client,
                ssl=self._tls,
                ssl_handshake_timeout=self._limits.handshake_time if self._tls else None,
                ssl_shutdown_timeout=SHUTDOWN_TIME if self._tls else None,
            )
        except OSError as error:
            _LOG.info("TLS handshake failed", v=4, err=error)
            state.strangers.pop(number, None)
        finally:
            self._arriving.discard(client)

    async def _sweep(self, state: ServerState) -> None:
        """Check all deadlines periodically, which is cheaper than a timer for every request."""
        times = (self._limits.queue_time, self._limits.request_time, self._limits.stall_time)
        shortest = min(*state.patience.values(), *times)
        most = 0
        while True:
            await asyncio.sleep(min(1, shortest / 4))
            most = max(most, self.connections)
            if most - self.connections >= MANY_GONE:
                most = self.connections
                await state.loop.run_in_executor(None, give_back)
            state.date = formatdate(usegmt=True)
            now = state.loop.time()
            for connection in list(state.connections):
                if now >= connection.deadline or now >= connection.stalled:
                    connection.expire()


def _hang_up(client: socket.socket) -> None:
    """End a handshake: it fails at once. The socket is closed by whoever runs the handshake."""
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


async def _happens(event: asyncio.Event, within: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within):
            await event.wait()
    return event.is_set()
