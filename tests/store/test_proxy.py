"""The connection in the middle really ends when it is cut: tests that wait for the loss would hang otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from tests.store.proxy import Proxy


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("turns", range(6))
async def test_a_client_that_is_connecting_is_cut_as_well(turns: int) -> None:
    async with await asyncio.start_server(_silent, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        async with Proxy(f"{host}:{port}") as proxy:
            client = socket.create_connection(("127.0.0.1", int(proxy.endpoint.partition(":")[2])))
            for _ in range(turns):
                await asyncio.sleep(0)
            await proxy.cut()
            client.setblocking(False)
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 120) == b""
            client.close()
