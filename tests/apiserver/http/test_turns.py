"""Requests that arrive at the same moment begin a few in each turn of the event loop: others are served between."""

from __future__ import annotations

import asyncio

from moorage.apiserver.base.users import User
from moorage.apiserver.http.flowcontrol import FlowControl
from moorage.apiserver.http.limits import Limits
from moorage.apiserver.http.messages import Request, Response
from moorage.apiserver.http.state import AT_ONCE, ServerState


class Client:
    """A connection with one request."""

    deadline = stalled = 0.0

    def __init__(self, state: ServerState) -> None:
        self.state = state
        self.begun = False
        self.go_on()

    def go_on(self) -> None:
        self.begun = self.begun or self.state.may_begin(self)

    def expire(self) -> None: ...
    def stop(self) -> None: ...
    def abort(self) -> None: ...
    def release(self) -> None: ...


async def _handler(_: Request) -> Response:
    return Response(200, b"")


async def test_hundreds_of_requests_begin_in_turns_and_in_their_order() -> None:
    limits = Limits()
    state = ServerState(_handler, lambda _: User("ann", ()), lambda *_: None, limits, FlowControl(limits), 1000)
    clients = [Client(state) for _ in range(10 * AT_ONCE)]
    state.leave(clients[5 * AT_ONCE])
    counts = [sum(client.begun for client in clients)]
    while counts[-1] < len(clients) - 1:
        await asyncio.sleep(0)
        counts.append(sum(client.begun for client in clients))
        assert counts[-1] - counts[-2] <= AT_ONCE
        begun = [client.begun for client in clients if client is not clients[5 * AT_ONCE]]
        assert begun == sorted(begun, reverse=True)
    assert counts[0] == AT_ONCE
    assert not clients[5 * AT_ONCE].begun
