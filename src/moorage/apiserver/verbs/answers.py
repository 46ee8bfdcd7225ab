"""The answers to writes: the object that was stored, or a Status that says that it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from moorage.apiserver.http.media import PLAIN
from moorage.apiserver.http.messages import JSON, Request, Response, warning_headers
from moorage.apiserver.request.routes import Route
from moorage.apiserver.verbs.read import ONE, convert_out, form_of, offloaded_body
from moorage.store.protocol import Item

_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
_CREATED = msgspec.json.encode({**_SUCCESS, "code": 201})


async def stored(route: Route, request: Request, item: Item, warnings: Sequence[str], code: int) -> Response:
    """The object as it is now stored; as it would be (revision 0) after a dry run."""
    form = form_of(request, *ONE)
    headers = [*JSON, *warning_headers(warnings)] if warnings else JSON
    if form == PLAIN and convert_out(route) is None:
        return Response(code, item.body if item.revision else item.value, headers)
    return Response(code, await offloaded_body(route, item, form, request), headers)


def created() -> Response:
    """Success of a sub-resource that is created and not kept."""
    return Response(201, _CREATED)


def deleted(details: Mapping[str, str] | None = None) -> Response:
    """Success of a deletion; the details say of which object."""
    return Response(200, msgspec.json.encode({**_SUCCESS, "details": details} if details else _SUCCESS))
