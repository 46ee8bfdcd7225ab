"""What can be read of the server itself: health, version, metrics, OpenAPI and discovery."""

from __future__ import annotations

from moorage.apiserver.base.offload import LARGE, offload
from moorage.apiserver.describe import discovery, health, openapi, version
from moorage.apiserver.http.failures import no_such_path
from moorage.apiserver.http.messages import Request, Response
from moorage.apiserver.request.routes import Route, unserved
from moorage.apiserver.verbs.backend import Backend, RouteHandler

_METRICS_TYPE = (("Content-Type", "text/plain; version=0.0.4; charset=utf-8"),)


async def _health(backend: Backend, _: Route, request: Request) -> Response:
    return _served(await health.answer(backend.store, request), request)


async def _version(_: Backend, _route: Route, request: Request) -> Response:
    _alone(request)
    return Response(200, version.document())


async def _metrics(backend: Backend, _: Route, request: Request) -> Response:
    _alone(request)
    return Response(200, await backend.metrics(), _METRICS_TYPE)


async def _openapi(_: Backend, _route: Route, request: Request) -> Response:
    # Whoever asks first waits until the documents are made; nobody else does.
    await offload(0 if openapi.is_made() else LARGE, openapi.description)
    return _served(openapi.answer(request), request)


async def _discovery(_: Backend, _route: Route, request: Request) -> Response:
    return _served(discovery.answer(request), request)


def _alone(request: Request) -> None:
    """Refuse a path below one that has nothing below it."""
    if len(request.segments) > 1:
        raise no_such_path(unserved(request.segments))


def _served(response: Response | None, request: Request) -> Response:
    if response is None:
        raise no_such_path(unserved(request.segments))
    return response


DOCUMENTS: dict[str, RouteHandler] = {
    **{f"/{path}": _health for path in health.PATHS},
    "/version": _version,
    "/metrics": _metrics,
    "/openapi": _openapi,
    "/": _discovery,
    "/api": _discovery,
    "/apis": _discovery,
}
"""What answers GET and HEAD, by the first part of the path."""
