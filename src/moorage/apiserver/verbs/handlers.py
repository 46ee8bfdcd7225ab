"""The table of everything that can be asked of the server: by verb and endpoint, the function that answers."""

from __future__ import annotations

from moorage.apiserver.http.failures import method_not_allowed, no_such_path, not_implemented
from moorage.apiserver.http.messages import Refused, Request, Response
from moorage.apiserver.request.routes import Route, unserved
from moorage.apiserver.verbs import binding, eviction, read, scale, token, watch
from moorage.apiserver.verbs.backend import Backend, RouteHandler
from moorage.apiserver.verbs.create import create
from moorage.apiserver.verbs.delete import delete, delete_collection
from moorage.apiserver.verbs.documents import DOCUMENTS
from moorage.apiserver.verbs.patch import patch
from moorage.apiserver.verbs.reviews import REVIEWS
from moorage.apiserver.verbs.update import update

_PARTS = ("status", "ephemeralcontainers", "resize", "finalize")
"""Sub-resources that are parts of the object itself."""
_NEED_CONTAINERS = {
    "log": "there are no containers here whose log could be read",
    "exec": "there are no containers here to run a command in",
    "attach": "there are no containers here to attach to",
    "portforward": "there are no containers here whose ports could be forwarded",
    "proxy": "there are no containers here to send requests to",
}


async def _need_container(_: Backend, route: Route, _request: Request) -> Response:
    raise not_implemented(_NEED_CONTAINERS[route.subresource])


HANDLERS: dict[tuple[str, str], RouteHandler] = {
    ("get", ""): read.get,
    ("list", ""): read.list_objects,
    ("watch", ""): watch.watch,
    ("create", ""): create,
    ("update", ""): update,
    ("patch", ""): patch,
    ("delete", ""): delete,
    ("deletecollection", ""): delete_collection,
    ("create", "binding"): binding.bind,
    ("create", "eviction"): eviction.evict,
    ("create", "token"): token.issue,
    ("get", "scale"): scale.get,
    ("update", "scale"): scale.update,
    ("patch", "scale"): scale.patch,
    **{
        (verb, part): handler
        for verb, handler in (("get", read.get), ("update", update), ("patch", patch))
        for part in _PARTS
    },
    **{
        (verb, part): _need_container
        for verb in ("get", "watch", "create", "update", "patch", "delete")
        for part in _NEED_CONTAINERS
    },
    **{("create", resource): review for resource, review in REVIEWS.items()},
    **{(verb, path): document for verb in ("get", "head") for path, document in DOCUMENTS.items()},
}
"""By verb and `Route.endpoint`."""


def handler_of(route: Route, request: Request) -> RouteHandler:
    """What answers a route; Refused (404, 405) when there is nothing."""
    handler = HANDLERS.get((route.verb, route.endpoint))
    if handler is None:
        raise _unhandled(route, request)
    return handler


def _unhandled(route: Route, request: Request) -> Refused:
    if route.path and (route.verb in ("get", "head") or route.endpoint in ("/api", "/apis")):
        return no_such_path(unserved(request.segments))
    return method_not_allowed()
