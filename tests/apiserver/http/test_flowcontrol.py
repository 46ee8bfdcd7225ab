"""Who is served when many ask: administrators always, components apart, users in turn."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from moorage.apiserver.access.tokens import ADMIN
from moorage.apiserver.base.flows import Flow, PriorityLevel, flow_of
from moorage.apiserver.base.users import ANONYMOUS, AUTHENTICATED, User, service_account_groups
from moorage.apiserver.http.connection import UNREAD
from moorage.apiserver.http.limits import Limits
from moorage.apiserver.http.listener import Server
from moorage.apiserver.http.messages import Reason, Refused, Request, Response, status
from tests.apiserver.edge import Client, code, connected, echo, eventually, exchange, scenario, serving, told

USERS = {name: User(name, (AUTHENTICATED,)) for name in ("ann", "bob")} | {"admin": ADMIN}


def by_name(request: Request) -> User:
    """The user whom the Authorization header names."""
    name = request.headers.get("authorization")
    if name in USERS:
        return USERS[name]
    if request.path == "/healthz":
        return ANONYMOUS
    raise Refused(status(401, Reason.UNAUTHORIZED, "Unauthorized"))


def asking(user: str, method: str = "GET", path: str = "/", more: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n" + (f"Authorization: {user}\r\n" if user else "")
    return head.encode() + more + b"\r\n"


class Blocked:
    """Answers nobody until it is opened."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.bodies = 0

    async def __call__(self, request: Request) -> Response:
        self.bodies += bool(request.body)
        await self.open.wait()
        return await echo(request)


@contextlib.asynccontextmanager
async def many(server: Server, count: int, sent: bytes) -> AsyncIterator[list[Client]]:
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(server)) for _ in range(count)]
        for client in clients:
            await client.send(sent)
        yield clients


async def turn() -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("user", "flow"),
    [
        (ADMIN, (PriorityLevel.EXEMPT, "")),
        (User("system:node:a", ("system:nodes", AUTHENTICATED)), (PriorityLevel.SYSTEM, "system:node:a")),
        (User("system:kube-scheduler", (AUTHENTICATED,)), (PriorityLevel.SYSTEM, "system:kube-scheduler")),
        (USERS["ann"], (PriorityLevel.WORKLOAD, "ann")),
        (ANONYMOUS, (PriorityLevel.CATCH_ALL, "system:anonymous")),
        (
            User("system:serviceaccount:kube-system:a", service_account_groups("kube-system")),
            (PriorityLevel.SYSTEM, "system:serviceaccount:kube-system:a"),
        ),
        (
            User("system:serviceaccount:shop:a", service_account_groups("shop")),
            (PriorityLevel.WORKLOAD, "system:serviceaccounts:shop"),
        ),
    ],
)
def test_everybody_has_a_level_and_the_accounts_of_a_namespace_count_together(
    user: User, flow: tuple[PriorityLevel, str]
) -> None:
    assert flow_of(user) == Flow(*flow)


@scenario
async def test_one_user_with_many_connections_does_not_keep_others_out() -> None:
    blocked = Blocked()
    limits = Limits(seats=20, queued=8, retry_time=0.01)  # the level of users has 13 seats: ann gets 7 of them
    async with serving(blocked, limits, by_name) as server, many(server, 20, asking("ann", "POST")) as clients:
        seats = server.control.levels[PriorityLevel.WORKLOAD]
        await eventually(lambda: seats.refused == 20 - 7 - 4, turn)
        assert (seats.seats.held("ann"), seats.waiting.held("ann")) == (7, 4)
        async with many(server, 1, asking("bob")), many(server, 1, asking("admin")):
            await eventually(lambda: seats.seats.held("bob") == server.control.exempt == 1, turn)
            blocked.open.set()
        answers = sorted([(await client.answer())[0] for client in clients])
        assert answers == [200] * 11 + [429] * 9
        for client in clients:
            await client.send(asking("ann"))
            assert (await client.answer())[0] == 200
        await eventually(lambda: seats.seats.used == seats.waiting.used == 0, turn)


@scenario
async def test_a_refused_request_says_when_to_come_again_and_nothing_is_read_until_then() -> None:
    blocked = Blocked()
    async with (
        serving(blocked, Limits(seats=1, queued=0, retry_time=30), by_name) as server,
        many(server, 1, asking("bob")),
        connected(server) as client,
    ):
        seats = server.control.levels[PriorityLevel.WORKLOAD]
        await eventually(lambda: seats.seats.used == 1, turn)
        await client.send(asking("ann") * 3)
        head = await client.head()
        assert code(head) == 429
        assert b"\r\nRetry-After: 1\r\n" in head
        body = told(await client.reader.readexactly(int(head.split(b"Content-Length: ")[1].split()[0])))
        assert (body["reason"], body["details"]) == ("TooManyRequests", {"retryAfterSeconds": 1})
        for _ in range(10):
            await turn()
        assert seats.refused == 1


@scenario
async def test_who_waits_too_long_for_a_seat_is_told_to_come_again() -> None:
    limits = Limits(seats=1, queued=8, queue_time=0.05, linger_time=0.05)
    refused: list[tuple[Request, Response]] = []
    told = serving(Blocked(), limits, by_name, refused=lambda *refusal: refused.append(refusal))
    async with told as server, many(server, 1, asking("bob")):
        await eventually(lambda: server.control.levels[PriorityLevel.WORKLOAD].seats.used == 1, turn)
        assert code(await exchange(server, asking("ann", "POST"))) == 429
        assert server.control.levels[PriorityLevel.WORKLOAD].waiting.used == 0
        assert [(request.user, response.status) for request, response in refused] == [(USERS["ann"], 429)]


@scenario
async def test_a_write_that_waits_is_forgotten_when_its_client_leaves() -> None:
    blocked = Blocked()
    async with serving(blocked, Limits(seats=1, queued=8), by_name) as server, many(server, 1, asking("bob")):
        seats = server.control.levels[PriorityLevel.WORKLOAD]
        await eventually(lambda: seats.seats.used == 1, turn)
        async with many(server, 1, asking("ann", "POST", more=b"Content-Length: 1\r\n") + b"x"):
            await eventually(lambda: seats.waiting.used == 1, turn)
        await eventually(lambda: seats.waiting.used == 0, turn)
        assert blocked.bodies == 0


async def _endless() -> AsyncIterator[bytes]:
    yield b"{}\n"
    await asyncio.Event().wait()


@scenario
async def test_one_user_has_no_more_than_half_of_the_watches_and_a_watch_takes_no_seat() -> None:
    async def watch(_: Request) -> Response:
        return Response(stream=_endless())

    async with (
        serving(watch, Limits(watches=8, seats=2), by_name) as server,
        many(server, 5, asking("ann", path="/?watch=1")) as clients,
    ):
        assert [code(await client.head()) for client in clients] == [200] * 4 + [429]
        async with many(server, 6, asking("admin", path="/?watch=1")) as others:
            assert [code(await client.head()) for client in others] == [200] * 6
        assert sum(server.control.executing.values()) == 0


@scenario
async def test_one_user_has_no_more_than_half_of_the_connections() -> None:
    async with serving(limits=Limits(connections=8), authenticate=by_name) as server:
        async with many(server, 5, asking("ann")) as clients:
            assert [(await client.answer())[0] for client in clients] == [200] * 4 + [429]
            async with many(server, 1, asking("bob")) as others:
                assert (await others[0].answer())[0] == 200
        await eventually(lambda: server.connections == 0, turn)
        async with many(server, 4, asking("ann")) as clients:
            assert [(await client.answer())[0] for client in clients] == [200] * 4


@scenario
async def test_strangers_make_room_for_whoever_comes() -> None:
    async with (
        serving(limits=Limits(connections=4), authenticate=by_name) as server,
        many(server, 1, asking("ann")) as known,
        many(server, 3, asking("", path="/healthz")),
        many(server, 1, asking("bob")) as later,
    ):
        assert (await known[0].answer())[0] == (await later[0].answer())[0] == 200
        await known[0].send(asking("ann"))
        assert (await known[0].answer())[0] == 200
        assert server.turned_away == 1


SENT = 3 << 20
LONG = b"Content-Length: %d\r\n" % SENT


@pytest.mark.parametrize("more", [LONG, b"Transfer-Encoding: chunked\r\n", LONG + b"Expect: 100-continue\r\n"])
@scenario
async def test_a_stranger_is_answered_before_the_body_and_nothing_of_it_is_kept(more: bytes) -> None:
    async with serving(limits=Limits(linger_time=0.05), authenticate=by_name) as server, connected(server) as client:
        await client.send(asking("eve", "POST", more=more))
        assert (await client.answer())[0] == 401
        await client.send(bytes(SENT))
        assert server.control.memory.used == 0
        await client.rest()


@scenario
async def test_a_head_request_of_a_stranger_has_no_body() -> None:
    async with serving(limits=Limits(linger_time=0.05), authenticate=by_name) as server:
        assert (await exchange(server, asking("eve", "HEAD"))).endswith(b"\r\n\r\n")


@scenario
async def test_bodies_that_never_end_hold_no_more_than_their_users_share() -> None:
    limits = Limits(memory=8 << 20, linger_time=0.05)
    async with serving(Blocked(), limits, by_name) as server, contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(server)) for _ in range(6)]
        memory = server.control.memory
        sending = [
            asyncio.create_task(client.send(asking("ann", "POST", more=LONG) + bytes(1 << 20))) for client in clients
        ]
        await eventually(lambda: memory.held("ann") > 3 << 20, lambda: asyncio.sleep(0.001))
        assert memory.held("ann") <= 4 << 20
        async with connected(server) as other:
            await other.send(asking("bob", "POST", more=LONG) + bytes(1 << 20))
            await eventually(lambda: memory.held("bob") >= 1 << 20, lambda: asyncio.sleep(0.001))
        await asyncio.gather(*sending)
    assert memory.used == 0


@scenario
async def test_headers_that_never_end_are_counted_for_all_strangers_together() -> None:
    async with serving(limits=Limits(memory=64 << 10, linger_time=0.05), authenticate=by_name) as server:
        begun = b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 10_000
        async with many(server, 5, begun) as clients:
            assert (await clients[-1].answer())[0] == 429
            assert server.control.memory.used <= 32 << 10
            async with connected(server) as client:
                await client.send(asking("ann"))
                assert (await client.answer())[0] == 200


@scenario
async def test_unread_answers_hold_no_more_than_their_users_share() -> None:
    async def long(_: Request) -> Response:
        return Response(200, (bytes(16 << 10) for _ in range(4096)))

    async with serving(long, Limits(memory=1 << 20), by_name) as server, many(server, 12, asking("ann")):
        memory = server.control.memory
        await eventually(lambda: server.connections < 12, lambda: asyncio.sleep(0.001))
        assert 0 < memory.held("ann") <= (512 << 10) + UNREAD
    await eventually(lambda: memory.used == 0, turn)
