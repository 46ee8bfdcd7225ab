"""Clients both ways: in the same process, and over HTTPS."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from moorage.apiserver.run import APIServer
from moorage.client import Client
from moorage.client.https import HTTPSTransport
from moorage.client.kubeconfig import load

Connect = Callable[[APIServer], Client]


@pytest.fixture(params=["in the same process", "over HTTPS"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Connect]:
    """Makes clients of a server, and closes them in the end."""
    clients: list[Client] = []

    def to(server: APIServer) -> Client:
        if request.param == "over HTTPS":
            clients.append(Client(HTTPSTransport(load(server.kubeconfig), "test")))
        else:
            clients.append(server.client("test"))
        return clients[-1]

    yield to
    for client in clients:
        await client.close()
