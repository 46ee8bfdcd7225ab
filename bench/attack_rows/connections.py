"""Attacks with many connections, bodies that never end, and answers that nobody reads."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator

import aiohttp

from attack_rows.frame import NO_ANSWER, Site, attack

SIZE = 3 << 20
PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
ALONE = ("apiserver",)


class Raw:
    """A connection of the attacker, whose every byte is theirs."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def status(self) -> int:
        """The status of the next answer."""
        try:
            async with asyncio.timeout(60):
                line = await self.reader.readline()
        except (TimeoutError, ConnectionError, ssl.SSLError):
            return NO_ANSWER
        return int(line.split()[1]) if line else NO_ANSWER


@contextlib.asynccontextmanager
async def raw(site: Site, count: int) -> AsyncIterator[list[Raw]]:
    """Connections with small windows, so that the machine's buffers hold little."""
    trust = ssl.create_default_context(cafile=site.authority)

    async def connect() -> Raw:
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
        plain.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", site.port))
        return Raw(*await asyncio.open_connection(sock=plain, ssl=trust, server_hostname="127.0.0.1", limit=4096))

    opened: list[Raw] = []
    try:
        while len(opened) < count:
            opened += await asyncio.gather(*(connect() for _ in range(min(50, count - len(opened)))))
        yield opened
    finally:
        for each in opened:
            each.writer.transport.abort()


def request(site: Site, method: str, target: str, *more: str) -> bytes:
    token = site.token(site.attacker)
    lines = [f"{method} {target} HTTP/1.1", "Host: x", *([f"Authorization: Bearer {token}"] if token else []), *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def endless_bodies(site: Site) -> None:
    start = request(site, "POST", PODS, "Content-Type: application/json", f"Content-Length: {SIZE}")

    async def send(connection: Raw) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            connection.writer.write(start + b" " * (SIZE - 1))
            await connection.writer.drain()

    async with raw(site, 600) as connections:
        sending = [asyncio.create_task(send(connection)) for connection in connections]
        for status in await asyncio.gather(*(connection.status() for connection in connections)):
            site.answers[status] += 1
        await asyncio.gather(*sending)


@attack("600 bodies of 3 MiB that never end", by="nobody", command=ALONE, answers=(401,))
async def strangers_bodies(site: Site) -> None:
    await endless_bodies(site)


@attack("600 bodies of 3 MiB that never end, authenticated", by="editor", command=ALONE, answers=(408, 429))
async def editors_bodies(site: Site) -> None:
    await endless_bodies(site)


async def pods(site: Site) -> None:
    container = {"name": "c", "image": "pause:3.10", "args": ["x" * 1500]}
    await site.fill(
        PODS, [{"metadata": {"name": f"pod-{n}"}, "spec": {"containers": [container]}} for n in range(10_000)]
    )


async def unread(site: Site, target: str, count: int) -> None:
    async with raw(site, count) as connections:
        for connection in connections:
            connection.writer.write(request(site, "GET", target))
        for status in await asyncio.gather(*(connection.status() for connection in connections)):
            site.answers[status] += 1
        await asyncio.sleep(5)


@attack("100 watchers that do not read, 10,000 pods", by="viewer", prepare=pods, command=ALONE, answers=(200,))
async def watchers(site: Site) -> None:
    await unread(site, f"{PODS}?watch=1", 100)


@attack("100 lists that nobody reads, 10,000 pods", by="viewer", prepare=pods, command=ALONE, answers=(200, 429))
async def lists(site: Site) -> None:
    await unread(site, PODS, 100)


@attack("1,000 watches with 200 requirements, 300 changes", by="viewer", command=ALONE, answers=(200, 429))
async def particular(site: Site) -> None:
    wanted = ",".join(f"!absent-{number}" for number in range(200))
    async with raw(site, 1_000) as connections:
        for connection in connections:
            connection.writer.write(request(site, "GET", f"{CONFIG_MAPS}?watch=1&labelSelector={wanted}"))
        for status in await asyncio.gather(*(connection.status() for connection in connections)):
            site.answers[status] += 1
        await site.fill(CONFIG_MAPS, [{"metadata": {"name": f"changed-{number}"}} for number in range(300)])


async def read_for(site: Site, count: int, target: str, *head: str, seconds: float = 5) -> None:
    """Have connections ask for `target`, in which `{}` is their number, and read as fast as they can."""

    async def read(connection: Raw) -> None:
        with contextlib.suppress(TimeoutError, ConnectionError, ssl.SSLError):
            async with asyncio.timeout(seconds):
                site.answers[await connection.status()] += 1
                while await connection.reader.read(1 << 16):
                    pass

    async with raw(site, count) as connections:
        for number, connection in enumerate(connections):
            connection.writer.write(request(site, "GET", target.format(number), *head))
        await asyncio.gather(*map(read, connections))


TABLE = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"


@attack("30 tables of 10,000 pods", by="viewer", prepare=pods, command=ALONE, answers=(200, 0))
async def tables(site: Site) -> None:
    await read_for(site, 30, PODS, TABLE)


@attack("500 watches from the beginning, as tables", by="viewer", prepare=pods, command=ALONE, answers=(200, 429, 0))
async def tables_of_the_past(site: Site) -> None:
    await read_for(site, 500, f"{PODS}?watch=1&resourceVersion=2{{}}", TABLE)


@attack("500 watches that select among 10,000 pods", by="viewer", prepare=pods, command=ALONE, answers=(200, 429, 0))
async def selected_at_first(site: Site) -> None:
    await read_for(site, 500, f"{PODS}?watch=1&labelSelector=absent-{{}}")


@attack("500 watches from the beginning, everything", by="viewer", prepare=pods, command=ALONE, answers=(200, 429, 0))
async def everything_of_the_past(site: Site) -> None:
    await read_for(site, 500, f"{PODS}?watch=1&resourceVersion=2{{}}")


@attack("800 connections that write", by="editor", command=ALONE, answers=(201, 429), keeps=True)
async def writers(site: Site) -> None:
    end = time.monotonic() + 10
    names, head = iter(range(10**9)), {"Content-Type": "application/json"}

    async def write(session: aiohttp.ClientSession) -> None:
        while time.monotonic() < end:
            body = json.dumps({"metadata": {"name": f"x-{next(names)}"}})
            try:
                async with session.post(CONFIG_MAPS, data=body, headers=head) as answer:
                    await answer.read()
                    site.answers[answer.status] += 1
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)

    async with site.session() as session:
        await asyncio.gather(*(write(session) for _ in range(800)))


@attack("3,000 access reviews of 120 KB", by="authenticated", command=ALONE, answers=(201,))
async def reviews(site: Site) -> None:
    waiting = iter(range(3000))
    async with site.session() as session:

        async def ask() -> None:
            for number in waiting:
                spec = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": f"{number:x>120000}"}}
                async with session.post(REVIEWS, json={"spec": spec}) as answer:
                    await answer.read()
                    site.answers[answer.status] += 1

        await asyncio.gather(*(ask() for _ in range(16)))


@attack("2,000 connections that say nothing", by="nobody", command=ALONE, answers=())
async def silent(site: Site) -> None:
    sockets = []
    for _ in range(2000 if site.process else 0):
        with contextlib.suppress(OSError):
            plain = socket.socket()
            sockets.append(plain)
            plain.setblocking(False)
            await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", site.port))
    await asyncio.sleep(5)
    async with site.session("administrator") as session, session.get("/api/v1/namespaces") as answer:
        if answer.status != 200:
            site.miss(f"somebody who came later was answered {answer.status}")
    for plain in sockets:
        plain.close()


def client_hello() -> bytes:
    """The first bytes of a TLS handshake, which cost who sends them again and again nothing."""
    trust, sent = ssl.create_default_context(), ssl.MemoryBIO()
    trust.check_hostname = False
    with contextlib.suppress(ssl.SSLWantReadError):
        trust.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost").do_handshake()
    return sent.read()


@attack("handshakes that are begun, as many as possible", by="nobody", command=ALONE, answers=())
async def handshakes(site: Site) -> None:
    loop, hello, count = asyncio.get_running_loop(), client_hello(), 0

    async def begin(burst: int) -> None:
        """Have a number of handshakes begin at the same moment, and read nothing."""
        nonlocal count
        plain = [socket.socket() for _ in range(burst)]
        try:
            for each in plain:
                each.setblocking(False)
                await loop.sock_connect(each, ("127.0.0.1", site.port))
            for each in plain:
                each.send(hello)
            count += burst
            await asyncio.wait({asyncio.ensure_future(loop.sock_recv(each, 1)) for each in plain}, timeout=5)
        finally:
            for each in plain:
                each.close()

    end = time.monotonic() + 10
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            await begin(500)
    start = time.monotonic()
    async with site.session("administrator") as session, session.get("/api/v1/namespaces") as answer:
        taken = time.monotonic() - start
    site.note(f"{count:,} handshakes were begun; a new client was answered {answer.status} after {taken:.2f} s")
