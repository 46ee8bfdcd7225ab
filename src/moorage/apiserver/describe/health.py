"""The health endpoints for probes: all checks at once, or one by its name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from moorage.apiserver.http.messages import Request, Response
from moorage.gotext import quote
from moorage.logs import Log
from moorage.store.protocol import Store, StoreError

PATHS = ("healthz", "livez", "readyz")
_LOG = Log(__name__)
_TEXT = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))

HealthCheck = Callable[[Store], Awaitable[object]]


async def _ping(_: Store) -> None:
    """Succeeds whenever the server answers at all."""


async def _store(store: Store) -> None:
    await store.revision()


# The store's check is named etcd, as in Kubernetes, for the sake of existing probes.
_CHECKS: dict[str, HealthCheck] = {"ping": _ping, "etcd": _store}


async def answer(store: Store, request: Request) -> Response | None:
    """The response to a probe; None when the path names a check that does not exist."""
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
            _LOG.warning("Health check failed", path=path, check=name, err=error)
            lines.append(f"[-]{name} failed: reason withheld")
            is_well = False
        else:
            lines.append(f"[+]{name} ok")
    if unknown := sorted({*excluded} - {*_CHECKS}):
        names_text = ", ".join(map(quote, unknown))
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names_text}")
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
