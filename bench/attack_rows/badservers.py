"""Attacks by a bad API server on a scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import cast

from attack_rows.frame import Site, attack
from moorage.apiserver.access import certificates

HEAD = b"HTTP/1.1 200 OK\r\n"
LIST = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
QUIET = 4.0
"""Seconds in which a watch is silent: meanwhile a component is idle."""
HTML = b"<html>Bad gateway</html>"


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Empty lists, watches of one line without an end, and HTML in place of leases."""
    with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
        while not writer.is_closing():
            head = await reader.readuntil(b"\r\n\r\n")
            if b"watch=true" in head:
                writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
                await asyncio.sleep(QUIET)
                while not writer.is_closing():
                    writer.write(b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.001)
            body = HTML if b"/leases" in head else LIST
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
    writer.transport.abort()


@asynccontextmanager
async def _bad_server(site: Site) -> AsyncIterator[None]:
    material = certificates.prepare(site.directory)
    visits: set[asyncio.Task[None]] = set()

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.add(cast("asyncio.Task[None]", asyncio.current_task()))
        await _serve(reader, writer)

    server = await asyncio.start_server(visited, "127.0.0.1", 0, ssl=material.tls())
    site.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    text = certificates.kubeconfig(site.url, material.authority.certificate_pem, "token")
    (site.directory / "kubeconfig").write_text(text)
    try:
        yield
    finally:
        server.close()
        for visit in visits:
            visit.cancel()


@attack("a watch of one line without an end", by="a bad server", command=())
async def endless(site: Site) -> None:
    async with _bad_server(site):
        site.start("scheduler", "--kubeconfig", f"{site.directory}/kubeconfig", "--no-leader-elect")
        await asyncio.sleep(QUIET - 1.5)
        await site.settle()
        await asyncio.sleep(10)


@attack("HTML in place of a lease", by="a bad server", command=())
async def no_lease(site: Site) -> None:
    async with _bad_server(site):
        site.start("scheduler", "--kubeconfig", f"{site.directory}/kubeconfig")
        await asyncio.sleep(QUIET - 1.5)
        await site.settle()
        await asyncio.sleep(10)
