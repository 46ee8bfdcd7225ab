"""TLS handshakes, a few in each turn of the event loop, and clients of different addresses in turn."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable

AT_ONCE = 4
"""How many handshakes begin in one turn of the event loop: each takes about half a millisecond."""

Begin = Callable[[socket.socket, int], object]


class Handshakes:
    """Clients that were accepted and whose handshake has not begun. It begins only when they have said something."""

    def __init__(self, loop: asyncio.AbstractEventLoop, begin: Begin, drop: Begin, patience: float) -> None:
        """`begin` is called with a client and its number when it is its turn, `drop` when it is gone or silent."""
        self._loop = loop
        self._begin = begin
        self._drop = drop
        self._patience = patience
        self._silent: dict[socket.socket, asyncio.TimerHandle] = {}
        self._waiting: dict[str, deque[tuple[socket.socket, int]]] = {}
        """Those who have said something, by address; the address that is next comes first."""

    def add(self, client: socket.socket, number: int, address: str) -> None:
        """Wait until a client says something, and then until it is its turn."""
        self._silent[client] = self._loop.call_later(self._patience, self._give_up, client, number)
        self._loop.add_reader(client, self._heard, client, number, address)

    def stop(self) -> None:
        """Begin no more; the sockets stay open."""
        for client, timer in self._silent.items():
            timer.cancel()
            self._loop.remove_reader(client)
        self._silent.clear()
        self._waiting.clear()

    def _give_up(self, client: socket.socket, number: int) -> None:
        self._no_longer_silent(client)
        self._drop(client, number)

    def _no_longer_silent(self, client: socket.socket) -> None:
        self._silent.pop(client).cancel()
        self._loop.remove_reader(client)

    def _heard(self, client: socket.socket, number: int, address: str) -> None:
        self._no_longer_silent(client)
        if not self._waiting:
            self._loop.call_soon(self._turn)
        self._waiting.setdefault(address, deque()).append((client, number))

    def _turn(self) -> None:
        begun = 0
        while self._waiting and begun < AT_ONCE:
            address = next(iter(self._waiting))
            clients = self._waiting.pop(address)
            client, number = clients.popleft()
            if clients:
                self._waiting[address] = clients
            if _is_there(client):
                begun += 1
                self._begin(client, number)
            else:
                self._drop(client, number)
        if self._waiting:
            self._loop.call_soon(self._turn)


def _is_there(client: socket.socket) -> bool:
    """Whether a client that has said something has not gone away or been hung up on since."""
    with contextlib.suppress(OSError):
        return bool(client.recv(1, socket.MSG_PEEK))
    return False
