"""TLS handshakes cost the server more than its clients: few begin at a time, and nobody keeps others out by them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from moorage.apiserver.http.handshakes import AT_ONCE, Handshakes
from moorage.apiserver.http.limits import Limits
from tests.apiserver.edge import GET, connected, eventually, scenario, serving


class Arrivals:
    """Clients of some addresses, and what becomes of them."""

    def __init__(self, patience: float = 60) -> None:
        self.begun: list[int] = []
        self.dropped: list[int] = []
        self.far: list[socket.socket] = []
        self._near: list[socket.socket] = []
        self.waiting = Handshakes(
            asyncio.get_running_loop(),
            lambda _, number: self.begun.append(number),
            lambda _, number: self.dropped.append(number),
            patience,
        )

    def arrive(self, address: str, said: bytes = b"hello") -> None:
        near, far = socket.socketpair()
        near.setblocking(False)
        far.send(said)
        self._near.append(near)
        self.far.append(far)
        self.waiting.add(near, len(self.far) - 1, address)

    def close(self) -> None:
        self.waiting.stop()
        for each in (*self._near, *self.far):
            each.close()


@contextlib.contextmanager
def arrivals(patience: float = 60) -> Iterator[Arrivals]:
    made = Arrivals(patience)
    try:
        yield made
    finally:
        made.close()


async def _until(holds: Callable[[], bool]) -> None:
    await eventually(holds, lambda: asyncio.sleep(0))


@scenario
async def test_few_handshakes_begin_in_each_turn_of_the_event_loop() -> None:
    with arrivals() as here:
        for _ in range(10 * AT_ONCE):
            here.arrive("10.0.0.1")
        counts = [0]
        while counts[-1] < 10 * AT_ONCE:
            await asyncio.sleep(0)
            counts.append(len(here.begun))
        assert max(after - before for before, after in pairwise(counts)) <= AT_ONCE
        assert here.begun == sorted(here.begun)


@scenario
async def test_a_flood_from_one_address_does_not_keep_out_another() -> None:
    with arrivals() as here:
        for number in range(100):
            here.arrive("10.0.0.1" if number < 99 else "10.0.0.2")
        await _until(lambda: len(here.begun) == 100)
        assert here.begun.index(99) <= 2 * AT_ONCE


@scenario
async def test_no_handshake_begins_before_a_client_says_something() -> None:
    with arrivals(patience=0.01) as here:
        here.arrive("10.0.0.1", b"")
        await _until(lambda: here.dropped == [0])
        assert not here.begun


@scenario
async def test_a_client_that_has_gone_is_not_greeted() -> None:
    with arrivals() as here:
        here.arrive("10.0.0.1", b"")
        here.far[0].close()
        await _until(lambda: here.dropped == [0])
        assert not here.begun


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01"])
@scenario
async def test_clients_that_do_not_say_who_they_are_make_room_for_others(said: bytes) -> None:
    async with serving(limits=Limits(strangers=5)) as server, connected(server) as known:
        await known.send(GET)
        assert (await known.answer())[0] == 200
        strangers = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
        for each in strangers:
            each.send(said)
        await _until(lambda: server.turned_away == 15 and server.connections <= 6)
        await known.send(GET)
        assert (await known.answer())[0] == 200
        async with connected(server) as later:
            await later.send(GET)
            assert (await later.answer())[0] == 200
        for each in strangers:
            each.close()
