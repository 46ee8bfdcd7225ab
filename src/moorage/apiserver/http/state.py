"""What all connections of a server share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from moorage.apiserver.base.shares import Shared
from moorage.apiserver.base.users import User
from moorage.apiserver.http.flowcontrol import FlowControl
from moorage.apiserver.http.limits import Limits
from moorage.apiserver.http.messages import Handler, Request
from moorage.apiserver.http.wire import ReadStage

LINGERING = 16
"""From how many refused clients the rest of their requests is read and thrown away at the same time."""
Authenticate = Callable[[Request], User]
"""Finds the user of a request from its head and the client's certificate; Refused when there is none."""


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


class ServerState:
    """The limits of a server, and its connections."""

    def __init__(
        self,
        handler: Handler,
        authenticate: Authenticate,
        limits: Limits,
        control: FlowControl,
        room: int,
    ) -> None:
        self.handler = handler
        self.authenticate = authenticate
        self.limits = limits
        self.control = control
        self.loop = asyncio.get_running_loop()
        self.connections: set[ServedClient] = set()
        self.known = Shared(room)
        """The connections by user."""
        self.strangers: dict[int, Callable[[], None]] = {}
        """What drops a client that is not authenticated, by the number of the client, oldest first."""
        self._lingering: set[ServedClient] = set()
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

    def linger(self, connection: ServedClient) -> bool:
        """Whether a refused client may go on sending; what many of them send would keep the server busy."""
        if len(self._lingering) < LINGERING:
            self._lingering.add(connection)
        return connection in self._lingering

    def leave(self, connection: ServedClient) -> None:
        """Forget a connection that is closed and has no running task."""
        self.connections.discard(connection)
        self._lingering.discard(connection)
        connection.release()
        if self.stopping and not self.connections:
            self.deserted.set()
