"""Whether the server is well, as probes ask for it: all checks at once, or one by its name."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from moorage.apiserver.http.messages import Request, Response
from moorage.gotext import quote
from moorage.store.protocol import Store, StoreError

PATHS = ("healthz", "livez", "readyz")
_LOG = logging.getLogger(__name__)
_TEXT = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))

HealthCheck = Callable[[Store], Awaitable[object]]


async def _ping(_: Store) -> None:
    """Whoever can ask has been answered."""


async def _store(store: Store) -> None:
    await store.revision()


# Probes that were written for Kubernetes name the store after the one it has there.
_CHECKS: dict[str, HealthCheck] = {"ping": _ping, "etcd": _store}


async def answer(store: Store, request: Request) -> Response | None:
    """The answer to a probe; None when there is no check of the name that the path ends in."""
    path, *names = request.segments
    if names:
        check = _CHECKS.get("/".join(names))
        return await _one(store, check) if check else None
    excluded = request.query.get("exclude", ())
    lines, is_well = [], True
    for name, check in _CHECKS.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
        elif error := await _failure(store, check):
            _LOG.warning("%s check failed: %s: %s", path, name, error)
            lines.append(f"[-]{name} failed: reason withheld")
            is_well = False
        else:
            lines.append(f"[+]{name} ok")
    if unknown := sorted({*excluded} - {*_CHECKS}):
        told = ", ".join(map(quote, unknown))
        lines.append(f"warn: some health checks cannot be excluded: no matches for {told}")
    if is_well and "verbose" not in request.query:
        return Response(200, b"ok", _TEXT)
    lines.append(f"{path} check {'passed' if is_well else 'failed'}\n")
    return Response(200 if is_well else 500, "\n".join(lines).encode(), _TEXT)


async def _one(store: Store, check: HealthCheck) -> Response:
    if error := await _failure(store, check):
        return Response(500, f"internal server error: {error}\n".encode(), _TEXT)
    return Response(200, b"ok", _TEXT)


async def _failure(store: Store, check: HealthCheck) -> str:
    try:
        await check(store)
    except StoreError as error:
        return str(error) or type(error).__name__
    return ""
