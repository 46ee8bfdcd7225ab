"""Update: an object, or the part of it that a sub-resource is, replaced by what was sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from moorage.api.meta import Data
from moorage.apiserver.base.objects import decode, key
from moorage.apiserver.base.offload import in_hand, offload
from moorage.apiserver.http.failures import bad_request, conflict, invalid, not_found
from moorage.apiserver.http.messages import Request, Response
from moorage.apiserver.patch import managed
from moorage.apiserver.request.bodies import check_values, read_object
from moorage.apiserver.request.routes import Route
from moorage.apiserver.verbs import answers
from moorage.apiserver.verbs.backend import Backend
from moorage.apiserver.verbs.delete import is_over
from moorage.apiserver.verbs.quotas import StoredWrite, check_quotas, store_charged
from moorage.apiserver.verbs.writing import ATTEMPTS, allocate, check_escalation, encoded, is_dry, managed_write
from moorage.registry.table import strategy_of
from moorage.store.protocol import Item, KeyMissing, RevisionConflict
from moorage.validation import field

ObjectEdit = Callable[[Data], Data]
"""Makes of the data of an object, which it may change, the data that is to be stored."""


async def update(backend: Backend, route: Route, request: Request) -> Response:
    """Replace an object, or the part of it that a sub-resource is."""
    new, warnings = await read_object(route, request)
    check_name(route, new)
    name = route.name
    expected = _expected(new)
    where = key(route.kind, route.namespace, name)
    if not expected and strategy_of(route.kind).conditional and await backend.store.get(where):
        problem = field.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(route.kind, name, [problem])
    return await change(backend, route, request, lambda _: new, warnings, expected=expected)


def check_name(route: Route, new: Data) -> None:
    """Refuse an object that has no name, or another one than the path."""
    name = new["metadata"].get("name")
    if not name:
        problem = f"the name of the object ({route.name} based on URL) was undeterminable: name must be provided"
        raise bad_request(problem)
    if name != route.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({route.name})")


async def change(
    backend: Backend,
    route: Route,
    request: Request,
    edit: ObjectEdit,
    warnings: Iterable[str] = (),
    *,
    expected: str = "",
    track: bool = True,
) -> Response:
    """Edit an object that exists; from its new version again when another write was faster and none is expected."""
    where = key(route.kind, route.namespace, route.name)
    item = await backend.store.get(where)
    async with in_hand(len(request.body) + (len(item.value) if item else 0)):
        for _ in range(ATTEMPTS):
            if item is None:
                raise not_found(route.kind, route.name)
            if expected and expected != str(item.revision):
                raise conflict(route.kind, route.name)
            try:
                return await _try_change(backend, route, request, item, edit, warnings, track=track)
            except RevisionConflict as lost:
                lost.__traceback__ = None  # it holds the object as it would have become
                if expected:
                    break
            except KeyMissing:
                raise not_found(route.kind, route.name) from None
            item = await backend.store.get(where)
    raise conflict(route.kind, route.name)


async def _try_change(
    backend: Backend, route: Route, request: Request, item: Item, edit: ObjectEdit, warnings: Iterable[str], *,
    track: bool,
) -> Response:  # fmt: skip
    size = len(request.body) + len(item.value)

    def edited() -> Data:
        new = edit(decode(item))
        check_values(new, size)
        return new

    new = await offload(size, edited)
    return await _store_change(backend, route, request, item, new, warnings, track=track)


async def _store_change(
    backend: Backend, route: Route, request: Request, item: Item, new: Data, warnings: Iterable[str], *, track: bool
) -> Response:
    kind, size = route.kind, len(request.body) + len(item.value)
    old = await offload(size, decode, item)
    if _expected(new) not in ("", str(item.revision)):
        raise conflict(kind, route.name)
    moment = backend.timestamp()
    state = await backend.admission.prepare_update(kind, new, old, route.subresource, moment, size=size)
    if track:
        new = await offload(size, managed.track, managed_write(route, request, moment), old, new)
    if not route.subresource:
        await allocate(backend, kind, new, old, dry=is_dry(request), size=size)
    check_escalation(backend, route, request, new, old)
    advice = await backend.admission.judge(kind, new, old, state, route.subresource, size=size)
    value = await offload(size, encoded, new)
    write = StoredWrite(kind, route.namespace, route.subresource, item._replace(value=value), item)
    if is_dry(request) or value == item.value:
        await check_quotas(backend, write)
        changed = write.item
    elif is_over(kind, new):
        changed = await backend.store.delete(item.key, item.revision)
        changed = changed._replace(value=value)
    else:
        changed = await store_charged(backend, write)
    return await answers.stored(route, request, changed, [*warnings, *advice], 200)


def _expected(data: Data) -> str:
    """The resourceVersion that is to be replaced; empty when any will do, which `0` says too."""
    version = data.get("metadata", {}).get("resourceVersion") or ""
    return "" if version == "0" else version
