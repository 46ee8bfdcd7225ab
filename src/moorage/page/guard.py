"""What stands between the page and everything else that runs in a browser on this machine."""

from __future__ import annotations

from collections.abc import Collection

from moorage.apiserver.http.messages import Request

SECURITY = (
    ("Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)  # fmt: skip
"""The headers of every response: nothing is loaded from elsewhere, and nobody else may frame or read the page."""


def own_hosts(port: int) -> frozenset[str]:
    """What the Host header may say: any other name was bound to this address by somebody else."""
    return frozenset(f"{host}:{port}" for host in ("127.0.0.1", "localhost", "[::1]"))


def objection(request: Request, hosts: Collection[str]) -> str:
    """Why a request is not from the page or a person who opens it; empty when it is."""
    host = request.headers.get("host")
    if host not in hosts:
        return f"this server is not {host!r}"
    origin = request.headers.get("origin")
    if origin and origin != f"http://{host}":
        return f"requests from {origin!r} are not served"
    site = request.headers.get("sec-fetch-site", "none")
    # A person who types the address, or follows a link from a terminal, comes from nowhere.
    opened = site == "none" and request.method == "GET"
    if site != "same-origin" and not opened and "sec-fetch-site" in request.headers:
        return "requests from other pages are not served"
    return ""
