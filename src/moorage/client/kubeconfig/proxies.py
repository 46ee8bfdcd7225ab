"""Proxies on the way to an API server: the one of a kubeconfig, or the environment's."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that is asked for a tunnel."""

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def url(self) -> str:
        """Its address, without what is secret."""
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def authorization(self) -> str:
        """The header by which the proxy knows who asks; empty without a user."""
        if not self.user and not self.password:
            return ""
        return f"Proxy-Authorization: {basic(self.user, self.password)}\r\n"


def basic(user: str, password: str) -> str:
    """The value of a header that shows a user name and a password."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def read_proxy(url: str) -> Proxy:
    """The proxy of an address. Raises ValueError with a sentence."""
    address: SplitResult = urlsplit(url)
    port = address.port or _PORTS.get(address.scheme, 0)
    if not port or not address.hostname or not url.isascii():
        raise ValueError(f"expected http://, https:// or socks5://host:port, got {url!r}")
    return Proxy(
        address.scheme, address.hostname, port, unquote(address.username or ""), unquote(address.password or "")
    )


def from_environment(scheme: str, host: str, port: int, environment: Mapping[str, str]) -> str:
    """The address of the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name for a server, empty when none."""
    name = f"{scheme}_proxy"
    url = environment.get(name.upper()) or environment.get(name) or ""
    if not url or is_loopback(host):
        return ""
    excepted = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    if any(_covers(each.strip().lower(), host.lower(), port) for each in excepted.split(",")):
        return ""
    return url if "://" in url else f"http://{url}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _covers(pattern: str, host: str, port: int) -> bool:
    """Whether an entry of NO_PROXY is about a server, as Go's programs read it."""
    if not pattern:
        return False
    if pattern == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(pattern, strict=False)
    except ValueError:
        pass
    name, colon, of_port = pattern.rpartition(":")
    if colon and of_port.isdigit():
        if int(of_port) != port:
            return False
        pattern = name.strip("[]")
    pattern = pattern.removeprefix("*")
    return host.endswith(pattern) if pattern.startswith(".") else host == pattern or host.endswith(f".{pattern}")
