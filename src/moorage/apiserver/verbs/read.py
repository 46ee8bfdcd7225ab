"""Get and list: objects as they are now, or were at a revision, in the form that the client wants."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.apiserver.base.objects import decode, decoded, key, prefix
from moorage.apiserver.base.offload import offload
from moorage.apiserver.base.pacing import in_slices
from moorage.apiserver.describe.documents import not_acceptable
from moorage.apiserver.http.failures import bad_request, expired, not_found, too_large_resource_version
from moorage.apiserver.http.media import (
    JSON,
    OLD_PARTIAL,
    OLD_PARTIAL_LIST,
    OLD_TABLE,
    PARTIAL,
    PARTIAL_LIST,
    PLAIN,
    TABLE,
    YAML,
    Form,
    negotiate,
)
from moorage.apiserver.http.messages import Refused, Request, Response
from moorage.apiserver.request.options import EXACT, check_list, number, revision
from moorage.apiserver.request.routes import Route
from moorage.apiserver.request.selection import Selection, selection
from moorage.apiserver.verbs import tables
from moorage.apiserver.verbs.backend import Backend
from moorage.registry.cluster.eventversions import to_events_v1
from moorage.store.protocol import Compacted, Item, Page, Store

_TOO_OLD = "The resourceVersion for the provided list is too old."
_CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_WHOLE = 128 << 10
"""Lists whose objects are together no longer than this are answered in one piece."""
_TOGETHER, _CONVERTED_TOGETHER = 56 << 10, 8 << 10
"""About how many bytes of a long list are made at a time, and how many when each object is read for it."""
_PAGE = 500
"""How many objects are read at once, as kubectl does, without waiting for a turn unless they are selected."""
_LONG = frozenset(("labelSelector", "fieldSelector", "continue", "resourceVersion"))
"""Parameters for which more may be read than is answered."""
_NOW = -1
"""In place of the revision of a list that continues with the objects as they are now."""


class _Continue(msgspec.Struct, rename={"revision": "rv", "after": "start"}):
    """Where a list continues: after a key, as of the revision of its first page."""

    revision: int
    after: str

    def token(self) -> str:
        """The continue token that clients send back."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()


def convert_out(route: Route) -> Callable[[Data], Data] | None:
    """What converts stored data to the version of a route; None when that is the stored one."""
    kind = route.kind
    if route.version != kind.version and (downgrade := kind.downgrade):
        return lambda data: downgrade(data, route.version)
    return to_events_v1 if kind.group == "events.k8s.io" else None


def form_of(request: Request, *offers: Form) -> Form:
    """The form that a client wants of those on offer; Refused (406) when it wants none of them."""
    form = negotiate(request.headers.get("accept"), offers)
    if form is None:
        raise Refused(not_acceptable(JSON, YAML))
    return form


ONE = (PLAIN, TABLE, PARTIAL, OLD_TABLE, OLD_PARTIAL)
"""The forms of one object."""
_MANY = (PLAIN, TABLE, PARTIAL_LIST, OLD_TABLE, OLD_PARTIAL_LIST)


async def get(backend: Backend, route: Route, request: Request) -> Response:
    """One object."""
    form = form_of(request, *ONE)
    if request.query:
        await reached(backend.store, revision(request))
    item = await backend.store.get(key(route.kind, route.namespace, route.name))
    if item is None:
        raise not_found(route.kind, route.name)
    return Response(200, await offloaded_body(route, item, form, request))


async def offloaded_body(route: Route, item: Item, form: Form, request: Request) -> bytes:
    """One object in a form; a large one is read and written again in a thread."""
    is_stored_form = form == PLAIN and convert_out(route) is None
    return await offload(0 if is_stored_form else len(item.value), body_of, route, item, form, request)


def body_of(route: Route, item: Item, form: Form, request: Request, *, headers: bool = True) -> bytes:
    """One object in a form."""
    convert = convert_out(route)
    if form == PLAIN and convert is None:
        return item.body
    data = convert(decode(item)) if convert else decode(item)
    return formed(route.kind, data, str(item.revision), form, request, headers=headers)


def formed(kind: Kind, data: Data, revision: str, form: Form, request: Request, *, headers: bool = True) -> bytes:
    """The data of one object in a form."""
    if form == PLAIN:
        return msgspec.json.encode(data)
    is_table = form.kind == TABLE.kind
    shown = _table(kind, [data], revision, request, headers=headers) if is_table else tables.partial(data)
    return msgspec.json.encode(shown | {"apiVersion": form.api_version})


async def list_objects(backend: Backend, route: Route, request: Request) -> Response:
    """The objects of a kind, all of them as of one revision, perhaps a page at a time."""
    limit = max(0, number(request, "limit"))
    if 0 < limit <= _PAGE and _LONG.isdisjoint(request.query):
        return await _list(backend.store, route, request, limit)
    async with backend.list_turn():
        return await _list(backend.store, route, request, limit)


async def _list(store: Store, route: Route, request: Request, limit: int) -> Response:
    form = form_of(request, *_MANY)
    check_list(request)
    selected = selection(route, request)
    start = await _start(store, route, request, limit)
    try:
        page, last = await _page(store, route, selected, start.revision, limit, start.after)
    except Compacted:
        if not start.after:
            raise expired(_TOO_OLD) from None
        raise expired(_CONTINUE_TOO_OLD, _Continue(_NOW, start.after).token()) from None
    metadata: dict[str, Any] = {"resourceVersion": str(page.revision)}
    if page.remaining:
        metadata["continue"] = _Continue(page.revision, last).token()
        if selected.matches is None:
            metadata["remainingItemCount"] = page.remaining
    return Response(200, _listed(route, page.items, metadata, form, request))


def _listed(
    route: Route, items: list[Item], metadata: dict[str, Any], form: Form, request: Request
) -> bytes | Iterable[bytes]:
    """A list in a form. The parts of a long one are made while it is sent, so that slow clients hold little."""
    parts = _parts(route, items, metadata, form, request)
    return b"".join(parts) if sum(len(item.value) for item in items) <= _WHOLE else parts


def _parts(route: Route, items: list[Item], metadata: dict[str, Any], form: Form, request: Request) -> Iterator[bytes]:
    convert = convert_out(route)
    if form == PLAIN and convert is None:
        head = {"kind": f"{route.kind.kind}List", "apiVersion": route.kind.api_version, "metadata": metadata}
        return _array(head, "items", (item.body for item in items))
    objects: Iterable[Data] = (convert(decode(item)) if convert else decode(item) for item in items)
    if form.kind == TABLE.kind:
        head = _table(route.kind, (), metadata["resourceVersion"], request)
        head |= {"apiVersion": form.api_version, "metadata": metadata}
        del head["rows"]
        objects = tables.rows(route.kind, objects, now=datetime.now(UTC), include=_include(request))
        return _array(head, "rows", map(msgspec.json.encode, objects), _CONVERTED_TOGETHER)
    if form != PLAIN:
        objects = map(tables.partial, objects)
        head = {"kind": form.kind, "apiVersion": form.api_version, "metadata": metadata}
    else:
        head = {"kind": f"{route.kind.kind}List", "apiVersion": route.api_version, "metadata": metadata}
    return _array(head, "items", map(msgspec.json.encode, objects), _CONVERTED_TOGETHER)


def _array(head: Data, name: str, elements: Iterator[bytes], most: int = _TOGETHER) -> Iterator[bytes]:
    """The JSON of an object whose last field is an array, in parts."""
    yield b'%b,"%b":[' % (msgspec.json.encode(head)[:-1], name.encode())
    together: list[bytes] = []
    size = 0
    for element in elements:
        together.append(element)
        size += len(element)
        if size >= most:
            yield b",".join(together)
            together, size = [b""], 0  # so that what follows begins with a comma
    yield b",".join(together)
    yield b"]}\n"


def _include(request: Request) -> str:
    include = request.parameter("includeObject", "Metadata")
    if problem := tables.include_error(include):
        raise bad_request(problem)
    return include


def _table(kind: Kind, objects: Iterable[Data], revision: str, request: Request, *, headers: bool = True) -> Data:
    table: Data = tables.render(kind, objects, now=datetime.now(UTC), include=_include(request), headers=headers)
    table["metadata"] = {"resourceVersion": revision}
    return table


async def _start(store: Store, route: Route, request: Request, limit: int) -> _Continue:
    """The revision that a list is as of (0: now) and the key that it starts after."""
    if token := request.parameter("continue"):
        if request.parameter("resourceVersion") not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        return _continued(token, prefix(route.kind, route.namespace), await store.revision())
    requested = revision(request)
    await reached(store, requested)
    match = request.parameter("resourceVersionMatch")
    # Otherwise the revision is only the oldest that may be answered, and the answer is always the newest.
    exact = match == EXACT or (limit and not match)
    return _Continue(requested if exact else 0, "")


def _continued(token: str, begin: str, current: int) -> _Continue:
    try:
        start = msgspec.json.decode(base64.urlsafe_b64decode(token.encode()), type=_Continue)
    except (ValueError, msgspec.DecodeError):
        start = _Continue(0, "")
    if not start.after.startswith(begin) or not (0 < start.revision <= current or start.revision == _NOW):
        raise bad_request("continue key is not valid: it was not made by this server")
    return _Continue(max(0, start.revision), start.after)


async def reached(store: Store, requested: int) -> None:
    """Refuse a revision that is still to come, rather than wait for it."""
    if requested and requested > (current := await store.revision()):
        raise too_large_resource_version(requested, current)


async def matching(items: list[Item], matches: Callable[[Data], bool]) -> list[Item]:
    """The items that are selected; others are served meanwhile."""
    return [item async for item in in_slices(items) if matches(decoded(item))]


async def _page(
    store: Store, route: Route, selected: Selection, revision: int, limit: int, after: str
) -> tuple[Page, str]:
    """The next items that are selected, and the last key that was read."""
    begin = prefix(route.kind, route.namespace)
    if selected.name and route.namespace and not revision:
        item = await store.get(begin + selected.name)
        items = [item] if item and selected.matches and selected.matches(decoded(item)) else []
        return Page(items, await store.revision(), 0), ""
    matches = selected.matches
    if matches is None or not limit:
        page = await store.list(begin, revision=revision, limit=limit, after=after)
        items = page.items if matches is None else await matching(page.items, matches)
        return page._replace(items=items), page.items[-1].key if page.items else after
    found: list[Item] = []
    while True:
        page = await store.list(begin, revision=revision, limit=max(limit, _PAGE), after=after)
        revision = page.revision
        index = -1
        async for item in in_slices(page.items):
            after, index = item.key, index + 1
            if matches(decoded(item)):
                found.append(item)
                if len(found) == limit:
                    return Page(found, revision, page.remaining + len(page.items) - index - 1), after
        if not page.remaining:
            return Page(found, revision, 0), after
