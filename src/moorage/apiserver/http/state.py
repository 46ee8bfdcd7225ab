"""What all connections of a server share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Protocol

from moorage.apiserver.base.shares import Shared
from moorage.apiserver.base.users import User
from moorage.apiserver.http.flowcontrol import FlowControl
from moorage.apiserver.http.limits import Limits
from moorage.apiserver.http.messages import Handler, Request, Response
from moorage.apiserver.http.wire import ReadStage

AT_ONCE = 32
"""How many requests begin in one turn of the event loop; those of administrators are not counted."""
LINGERING = 16
"""From how many refused clients the rest of their requests is read and thrown away at the same time."""
Authenticate = Callable[[Request], User]
"""Finds the user of a request from its head and the client's certificate; Refused when there is none."""

OnRefusal = Callable[[Request, Response], None]
"""Told of each request that is refused though its user is known, and that no handler sees."""


class ServedClient(Protocol):
    """What the server asks of a connection."""

    deadline: float
    stalled: float

    def expire(self) -> None:
        """A deadline has passed."""

    def stop(self) -> None:
        """The server stops."""

    def abort(self) -> None:
        """Drop the connection."""

    def release(self) -> None:
        """Give back what the connection holds."""

    def go_on(self) -> None:
        """Serve the next request, which had to wait until others were served."""


class ServerState:
    """The limits of a server, and its connections."""

    def __init__(
        self,
        handler: Handler,
        authenticate: Authenticate,
        refused: OnRefusal,
        limits: Limits,
        control: FlowControl,
        room: int,
    ) -> None:
        self.handler = handler
        self.authenticate = authenticate
        self.refused = refused
        self.limits = limits
        self.control = control
        self.loop = asyncio.get_running_loop()
        self.connections: set[ServedClient] = set()
        self.known = Shared(room)
        """The connections by user."""
        self.strangers: dict[int, Callable[[], None]] = {}
        """What drops a client that is not authenticated, by the number of the client, oldest first."""
        self._lingering: set[ServedClient] = set()
        self._begun = 0
        """How many requests have begun in this turn of the event loop."""
        self._held: dict[ServedClient, None] = {}
        """The connections whose next requests begin in a later turn, in their order."""
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

    def may_begin(self, connection: ServedClient) -> bool:
        """Whether a request may begin in this turn of the event loop; otherwise its connection goes on in a later one.

        Hundreds that arrive at the same moment would keep the loop from everybody else.
        """
        if not self._begun:
            self.loop.call_soon(self._turn)
        self._begun += 1
        if self._begun > AT_ONCE:
            self._held[connection] = None
        return self._begun <= AT_ONCE

    def _turn(self) -> None:
        self._begun = 0
        for connection in list(islice(self._held, AT_ONCE)):
            del self._held[connection]
            connection.go_on()
        if self._held and not self._begun:
            self.loop.call_soon(self._turn)

    def linger(self, connection: ServedClient) -> bool:
        """Whether a refused client may go on sending; what many of them send would keep the server busy."""
        if len(self._lingering) < LINGERING:
            self._lingering.add(connection)
        return connection in self._lingering

    def leave(self, connection: ServedClient) -> None:
        """Forget a connection that is closed and has no running task."""
        self.connections.discard(connection)
        self._lingering.discard(connection)
        self._held.pop(connection, None)
        connection.release()
        if self.stopping and not self.connections:
            self.deserted.set()
