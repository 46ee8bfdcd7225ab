"""How fast the HTTPS server is when its handler does nothing: requests, long bodies, watches; and access decisions."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import uvloop

from moorage.apiserver.access import certificates
from moorage.apiserver.access.defaultroles import DEFAULTS
from moorage.apiserver.access.rbac import Attributes, Rbac
from moorage.apiserver.access.tokens import ADMIN
from moorage.apiserver.base.users import User
from moorage.apiserver.http.listener import Server
from moorage.apiserver.http.messages import Request, Response

CONNECTIONS = 32
REQUESTS = 20_000
ROUNDS = 3
TARGET = 4_000
WATCHERS = 200
EVENTS = 200
CONTAINERS = (
    '"spec":{"containers":[{"name":"c","image":"example.com/pause:3.10","resources":{"requests":{"cpu":"100m"}}}]}'
)
BODY = f'{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"echo"}},{CONTAINERS}}}'.encode()
ITEMS = [
    f'{{"metadata":{{"name":"pod-{number}","uid":"{number:032x}"}},{CONTAINERS},"status":{{"phase":"Running"}}}},'.encode()
    * 4
    for number in range(10_000)
]
MEGABYTES = sum(map(len, ITEMS)) / 1e6


async def handle(request: Request) -> Response:
    if request.path == "/list":
        return Response(200, ITEMS)
    return Response(stream=events()) if request.watching else Response(200, request.body)


async def events() -> AsyncIterator[bytes]:
    for item in ITEMS[:EVENTS]:
        yield item
        await asyncio.sleep(0)


async def serve(folder: str) -> None:
    server = Server(handle, lambda _: ADMIN, certificates.prepare(Path(folder)).tls())
    await server.start()
    print(server.port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    print(time.process_time(), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(1)


class Client:
    """One aiohttp client; each question has connections of its own."""

    def __init__(self, port: int, authority: str) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self.trust = ssl.create_default_context(cafile=authority)

    def session(self, connections: int = CONNECTIONS) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(ssl=self.trust, limit=connections)
        return aiohttp.ClientSession(self.url, connector=connector)

    async def requests(self) -> float:
        """Requests a second."""
        remaining = iter(range(REQUESTS))

        async def worker(session: aiohttp.ClientSession) -> None:
            for _ in remaining:
                async with session.post("/echo", data=BODY) as answer:
                    await answer.read()

        async with self.session() as session:
            start = time.perf_counter()
            await asyncio.gather(*(worker(session) for _ in range(CONNECTIONS)))
            return REQUESTS / (time.perf_counter() - start)

    async def list(self, encoding: str) -> float:
        """Seconds until a long body is here."""
        async with self.session() as session:
            start = time.perf_counter()
            async with session.get("/list", headers={"Accept-Encoding": encoding}) as answer:
                assert len(await answer.read()) == MEGABYTES * 1e6
            return time.perf_counter() - start

    async def watch(self) -> float:
        """Events a second, of all watchers together."""

        async def watcher(session: aiohttp.ClientSession) -> None:
            async with session.get("/events?watch=1") as answer:
                await answer.read()

        async with self.session(WATCHERS) as session:
            start = time.perf_counter()
            await asyncio.gather(*(watcher(session) for _ in range(WATCHERS)))
            return WATCHERS * EVENTS / (time.perf_counter() - start)


def decisions() -> None:
    bindings = [
        {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"b{number}"},
            "roleRef": {"kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "User", "name": f"user-{number}"}],
        }
        for number in range(1_000)
    ]
    rbac = Rbac((*DEFAULTS, *bindings))
    asked = Attributes("create", "pods", namespace="default", name="web")
    groups = ("system:authenticated",)
    for who in (User("admin", ("system:masters", *groups)), User("user-7", groups), User("nobody", groups)):
        start = time.perf_counter()
        for _ in range(200_000):
            rbac.decide(who, asked)
        print(f"access decision for {who.name:<7}{(time.perf_counter() - start) / 200_000 * 1e6:>6.2f} µs")
    first = []
    for number in range(100):
        start = time.perf_counter()
        rbac.decide(User(f"user-{number}", groups), asked)
        first.append(time.perf_counter() - start)
    print(f"the first decision for a user {sorted(first)[50] * 1e6:.0f} µs")


def main() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "serve", folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert process.stdin
            client = Client(int(process.stdout.readline()), f"{folder}/ca.crt")
            rates = [uvloop.run(client.requests()) for _ in range(ROUNDS)]
            process.stdin.write("\n")
            process.stdin.flush()
            busy = float(process.stdout.readline())
            plain, packed = (uvloop.run(client.list(encoding)) for encoding in ("identity", "gzip"))
            watched = uvloop.run(client.watch())
    met = max(rates) >= TARGET
    shown = ", ".join(f"{rate:,.0f}" for rate in rates)
    print(f"HTTPS echo, {CONNECTIONS} connections of one aiohttp client: {shown} requests/s", end=" ")
    print(f"(target: {TARGET:,}: {'met' if met else 'missed'})")
    print(f"the server's share: {busy / (ROUNDS * REQUESTS) * 1e6:.0f} µs of processor time a request")
    print(f"a body of {MEGABYTES:.0f} MB in 10,000 parts: {plain:.2f} s, compressed {packed:.2f} s")
    print(f"{WATCHERS} watchers, {len(ITEMS[0])} bytes an event: {watched:,.0f} events/s")
    decisions()
    return met


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        uvloop.run(serve(sys.argv[2]))
    else:
        sys.exit(not main())
