"""Opens connections to an API server: directly, or through a proxy."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Callable
from typing import cast

from moorage.client.connection import ClientConnection
from moorage.client.kubeconfig import Kubeconfig
from moorage.client.kubeconfig.proxies import Proxy

_GOODBYE_TIME = 1.0
_LARGEST_REPLY = 16 << 10


async def dial(
    config: Kubeconfig, tls: ssl.SSLContext | None, make: Callable[[], ClientConnection]
) -> ClientConnection:
    """An open connection. Raises OSError."""
    loop = asyncio.get_running_loop()
    if config.proxy is None:
        _, connection = await loop.create_connection(
            make,
            config.host,
            config.port,
            ssl=tls,
            server_hostname=config.server_name if tls else None,
            ssl_shutdown_timeout=_GOODBYE_TIME if tls else None,
        )
        return connection
    transport, tunnel = await _reached(config.proxy)
    try:
        if config.proxy.scheme.startswith("socks5"):
            await _socks(tunnel, config)
        else:
            await _connect(tunnel, config)
        connection = make()
        if tls is None:
            transport.set_protocol(connection)
        else:
            secured = await loop.start_tls(
                transport, connection, tls, server_hostname=config.server_name, ssl_shutdown_timeout=_GOODBYE_TIME
            )
            transport = cast("asyncio.Transport", secured)
    except BaseException:
        transport.abort()
        raise
    connection.connection_made(transport)
    return connection


class _Tunnel(asyncio.Protocol):
    """A connection to a proxy until it leads to the server."""

    def __init__(self) -> None:
        self._received = b""
        self._lost = False
        self._changed = asyncio.Event()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _: Exception | None) -> None:
        self._lost = True
        self._changed.set()

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._changed.set()

    def send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    async def exactly(self, size: int) -> bytes:
        """The next bytes of the proxy."""
        while len(self._received) < size:
            await self._more()
        data, self._received = self._received[:size], self._received[size:]
        return data

    async def until(self, end: bytes) -> bytes:
        """The bytes up to an end."""
        while end not in self._received:
            if len(self._received) > _LARGEST_REPLY:
                raise OSError("the proxy's answer does not end")
            await self._more()
        data, _, self._received = self._received.partition(end)
        return data

    async def _more(self) -> None:
        if self._lost:
            raise OSError("the proxy closed the connection")
        self._changed.clear()
        await self._changed.wait()


async def _reached(proxy: Proxy) -> tuple[asyncio.Transport, _Tunnel]:
    tls = ssl.create_default_context() if proxy.scheme == "https" else None
    try:
        return await asyncio.get_running_loop().create_connection(_Tunnel, proxy.host, proxy.port, ssl=tls)
    except OSError as error:
        raise OSError(f"the proxy {proxy.url} cannot be reached: {error}") from None


async def _connect(tunnel: _Tunnel, config: Kubeconfig) -> None:
    assert config.proxy is not None
    where = config.authority
    tunnel.send(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n{config.proxy.authorization}\r\n".encode())
    head = await tunnel.until(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].decode("latin-1")
    words = status.split(" ", 2)
    if not words[0].startswith("HTTP/1.") or len(words) < 2 or not words[1].startswith("2"):
        raise OSError(f"the proxy {config.proxy.url} answered {status!r}")


async def _socks(tunnel: _Tunnel, config: Kubeconfig) -> None:
    """Ask a SOCKS5 proxy (RFC 1928), with a name and a password (RFC 1929) when there are some."""
    proxy = config.proxy
    assert proxy is not None
    method = 2 if proxy.user else 0
    tunnel.send(bytes((5, 1, method)))
    if await tunnel.exactly(2) != bytes((5, method)):
        raise OSError(f"the proxy {proxy.url} wants another way to sign in")
    if proxy.user:
        user, password = proxy.user.encode()[:255], proxy.password.encode()[:255]
        tunnel.send(bytes((1, len(user))) + user + bytes((len(password),)) + password)
        if (await tunnel.exactly(2))[1]:
            raise OSError(f"the proxy {proxy.url} does not know the user")
    tunnel.send(bytes((5, 1, 0)) + _socks_address(config.host) + config.port.to_bytes(2, "big"))
    _, code, _, form = await tunnel.exactly(4)
    if code:
        raise OSError(f"the proxy {proxy.url} does not connect: code {code}")
    length = {1: 4, 4: 16}.get(form) or (await tunnel.exactly(1))[0]
    await tunnel.exactly(length + 2)


def _socks_address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return bytes((3, len(host))) + host.encode("ascii")
    return bytes((1 if address.version == 4 else 4,)) + address.packed
