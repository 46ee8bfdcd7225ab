"""A server that stops leaves nobody hanging, whatever they were about to do."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from moorage.apiserver.access.tokens import ADMIN
from moorage.apiserver.http.listener import Server
from tests.apiserver.edge import echo, made, scenario


@pytest.mark.parametrize("turns", range(6))
@scenario
async def test_who_connects_while_the_server_stops_is_not_left_waiting(turns: int) -> None:
    server = Server(echo, lambda _: ADMIN, made().tls())
    await server.start()
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(8)]
    for _ in range(turns):
        await asyncio.sleep(0)
    await server.stop(grace=1)
    assert server.connections == 0
    loop = asyncio.get_running_loop()
    for client in clients:
        client.setblocking(False)
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(loop.sock_recv(client, 1), 5) == b""
        client.close()
