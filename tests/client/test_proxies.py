"""Proxies on the way to the API server, as kubectl takes them, and servers on this machine without TLS."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import yaml

from moorage.apiserver.access import certificates
from moorage.client import Unavailable
from moorage.client.https import HTTPSTransport
from moorage.client.kubeconfig import KubeconfigError, load
from moorage.client.kubeconfig.proxies import from_environment, read_proxy
from tests.client.scripted import Visit, scripted

_PROXIED = {"HTTPS_PROXY": "http://p:3128", "HTTP_PROXY": "http://q:3128"}
Opening = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[tuple[str, int]]]


@pytest.mark.parametrize(
    ("host", "port", "excepted", "proxied"),
    [
        ("api.example.com", 443, "", True),
        ("api.example.com", 443, "example.com", False),
        ("api.example.com", 443, ".example.com", False),
        ("example.com", 443, ".example.com", True),
        ("api.example.com", 443, "*.example.com", False),
        ("notexample.com", 443, "example.com", True),
        ("API.Example.com", 443, "a, EXAMPLE.com ", False),
        ("api.example.com", 443, "*", False),
        ("api.example.com", 443, "example.com:6443", True),
        ("api.example.com", 6443, "example.com:6443", False),
        ("10.1.2.3", 443, "10.0.0.0/8", False),
        ("11.1.2.3", 443, "10.0.0.0/8", True),
        ("10.1.2.3", 443, "10.1.2.3", False),
        ("10.1.2.3", 6443, "10.1.2.3:6443", False),
        ("fd00::1", 443, "fd00::/8", False),
        ("localhost", 443, "", False),
        ("127.0.0.5", 443, "", False),
        ("::1", 443, "", False),
    ],
)
def test_the_environment_names_proxies_and_exceptions(host: str, port: int, excepted: str, proxied: bool) -> None:
    url = from_environment("https", host, port, {**_PROXIED, "NO_PROXY": excepted})
    assert url == ("http://p:3128" if proxied else "")
    lower = {"https_proxy": "p:3128", "no_proxy": excepted}
    assert bool(from_environment("https", host, port, lower)) is proxied


def test_a_proxy_shows_no_password() -> None:
    proxy = read_proxy("http://jane:hush%20hush@p")
    assert (proxy.user, proxy.password, proxy.url) == ("jane", "hush hush", "http://p:80")
    assert "hush" not in repr(proxy)


async def _connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
    """The opening of an HTTP proxy that knows one user."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    if "Proxy-Authorization: Basic amFuZTpodXNo\r\n" not in head:
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        raise ConnectionError
    host, _, port = head.split(" ")[1].rpartition(":")
    writer.write(b"HTTP/1.1 200 Connection established\r\nVia: us\r\n\r\n")
    return host, int(port)


async def _socks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
    """The opening of a SOCKS5 proxy that knows one user."""
    assert await reader.readexactly(3) == b"\5\1\2"
    writer.write(b"\5\2")
    assert await reader.readexactly(11) == b"\1\4jane\4hush"
    writer.write(b"\1\0")
    assert await reader.readexactly(4) == b"\5\1\0\1"
    host = ".".join(str(byte) for byte in await reader.readexactly(4))
    port = int.from_bytes(await reader.readexactly(2), "big")
    writer.write(b"\5\0\0\3\4name\0\1")
    return host, port


@asynccontextmanager
async def _proxy(opening: Opening, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[int, list[str]]]:
    """A proxy, its port and the servers that it was asked for."""
    asked: list[str] = []
    tasks: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
        writer.transport.abort()

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        tasks.add(task)
        try:
            host, port = await opening(reader, writer)
            asked.append(f"{host}:{port}")
            far_reader, far_writer = await asyncio.open_connection(host, port)
            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
        except (ConnectionError, asyncio.CancelledError):
            writer.close()

    server = await asyncio.start_server(visited, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1], asked
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _polite(visit: Visit) -> None:
    while True:
        await visit.answer(await visit.request())


def _through(folder: Path, proxy: str) -> HTTPSTransport:
    data = yaml.safe_load((folder / "kubeconfig").read_text())
    data["clusters"][0]["cluster"]["proxy-url"] = proxy
    (folder / "proxied").write_text(json.dumps(data))
    return HTTPSTransport(load(folder / "proxied"), "test")


@pytest.mark.parametrize(("scheme", "opening"), [("http", _connect), ("https", _connect), ("socks5", _socks)])
async def test_requests_go_through_the_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, opening: Opening
) -> None:
    material = certificates.prepare(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.crt"))
    tls = material.tls() if scheme == "https" else None
    async with scripted(tmp_path, _polite) as server, _proxy(opening, tls) as (port, asked):
        transport = _through(tmp_path, f"{scheme}://jane:hush@127.0.0.1:{port}")
        for _ in range(3):
            answer = await transport.request("GET", "/api")
            assert "Bearer the-token" in answer.body.decode()
        assert len(asked) == len(server.visits) == 1
        async with transport.stream("/api") as chunks:
            assert [chunk async for chunk in chunks]
        await transport.close()


async def test_a_proxy_that_refuses_is_named(tmp_path: Path) -> None:
    async with scripted(tmp_path, _polite) as server, _proxy(_connect) as (port, _):
        transport = _through(tmp_path, f"http://127.0.0.1:{port}")
        with pytest.raises(Unavailable, match=r"the proxy http://127\.0\.0\.1:\d+ answered 'HTTP/1.1 407"):
            await transport.request("GET", "/api")
        assert server.visits == []


async def test_a_proxy_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with scripted(tmp_path, _polite), _proxy(_connect) as (port, _):
        pass
    transport = _through(tmp_path, f"socks5://127.0.0.1:{port}")
    with pytest.raises(Unavailable, match=r"the proxy socks5://127\.0\.0\.1:\d+ cannot be reached"):
        await transport.request("GET", "/api")


def _without_tls(folder: Path, server: str) -> Path:
    file = folder / "plain"
    user = {"token": "secret"}
    file.write_text(json.dumps({
        "clusters": [{"name": "here", "cluster": {"server": server}}], "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "it", "context": {"cluster": "here", "user": "me"}}], "current-context": "it",
    }))  # fmt: skip
    return file


async def test_a_server_on_this_machine_may_be_without_tls_and_learns_nothing_secret(tmp_path: Path) -> None:
    heads: list[str] = []

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(visited, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = HTTPSTransport(load(_without_tls(tmp_path, f"http://127.0.0.1:{port}/k8s/")), "test")
    assert (await transport.request("GET", "/api")).body == b"{}"
    await transport.close()
    server.close()
    assert heads[0].startswith("GET /k8s/api HTTP/1.1\r\n")
    assert "secret" not in heads[0]


def test_a_server_elsewhere_must_have_tls(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="without TLS only this machine is asked"):
        load(_without_tls(tmp_path, "http://10.0.0.1:8080"))
