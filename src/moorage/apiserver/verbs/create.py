"""Create: a new object through defaults, admission and validation into the store."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.apiserver.base.objects import key
from moorage.apiserver.base.offload import offload
from moorage.apiserver.http.failures import already_exists
from moorage.apiserver.http.messages import Request, Response
from moorage.apiserver.patch import managed
from moorage.apiserver.patch.managed import manager_name
from moorage.apiserver.request.bodies import read_object
from moorage.apiserver.request.newtexts import ADDED, NewText, new_text
from moorage.apiserver.request.routes import Route
from moorage.apiserver.verbs import answers
from moorage.apiserver.verbs.backend import Backend
from moorage.apiserver.verbs.quotas import StoredWrite, check_quotas, store_charged
from moorage.apiserver.verbs.stencils import NewPod, new_pod
from moorage.apiserver.verbs.writing import allocate, check_escalation, encoded, is_dry, managed_write, new_uid
from moorage.registry.metadata import generated_name
from moorage.registry.table import strategy_of
from moorage.store.protocol import Item, KeyExists

_NAMES = 8
"""How many names are generated, each of which may be taken, before the object is refused."""
_POD = kinds.row("v1", "Pod")
_POD_STRATEGY = strategy_of(_POD)


async def create(backend: Backend, route: Route, request: Request) -> Response:
    """Store a new object."""
    pod = new_pod(route, request) if route.kind is _POD else None
    if pod is not None:
        return await _create_pod(backend, route, request, pod)
    text = new_text(route, request)
    if text is not None:
        return await _create_text(backend, route, request, text)
    data, warnings = await read_object(route, request)
    return await create_object(backend, route, request, data, warnings)


async def create_object(
    backend: Backend, route: Route, request: Request, data: Data, warnings: Sequence[str], *, track: bool = True
) -> Response:
    """Store a new object that was read already; `track` says whether its managed fields are still to be updated."""
    item, warnings = await _store_new(backend, route, request, data, warnings, track=track)
    return await answers.stored(route, request, item, warnings, 201)


async def _create_pod(backend: Backend, route: Route, request: Request, pod: NewPod) -> Response:
    """Store a new pod: from a stencil, when pods of its template have come before."""
    around, quotas = await backend.admission.around_new(_POD_STRATEGY, route.namespace)
    stencil = backend.stencils.get(pod.outline, around)
    if stencil is None:
        new, warnings = await _store_new(backend, route, request, *await read_object(route, request))
        backend.stencils.learn(pod.outline, new, warnings, around)
        return await answers.stored(route, request, new, warnings, 201)
    for _ in range(_NAMES if pod.generate_name else 1):
        value = stencil.fill(pod, new_uid(), backend.timestamp())
        backend.admission.compared.note_alike(key(route.kind, route.namespace, pod.name), stencil.comparisons)
        item = await _put(backend, route, request, pod.name, value, quotas)
        if item is not None:
            return await answers.stored(route, request, item, stencil.warnings, 201)
        taken = pod.name
        pod = pod._replace(name=generated_name(pod.generate_name))
    raise already_exists(route.kind, taken)


async def _create_text(backend: Backend, route: Route, request: Request, text: NewText) -> Response:
    """Store a new object: by a recipe, when others that differ only in their values have come before."""
    manager = manager_name(request.parameter("fieldManager"), request.headers.get("user-agent"))
    around, quotas = await backend.admission.around_new(text.strategy, route.namespace)
    context = (around, route.namespace, manager, request.parameter("fieldValidation"))
    values = text.values(new_uid(), backend.timestamp())
    recipes = backend.recipes.get(text.sort(context, values))
    if recipes is None:
        new, warnings = await _store_new(backend, route, request, *await read_object(route, request))
        if not warnings:
            values = text.stored_values(new.value)
            rest = (*text.body.rest, f'"{manager}" "{route.namespace}" {ADDED}'.encode())
            backend.recipes.learn(text.sort(context, values), (new.value,), rest, values)
        return await answers.stored(route, request, new, warnings, 201)
    warnings = await _label_warnings(backend, route, text)
    item = await _put(backend, route, request, text.name, recipes[0].text(values), quotas)
    if item is None and text.is_generated:
        item, warnings = await _store_new(backend, route, request, *await read_object(route, request))
    if item is None:
        raise already_exists(route.kind, text.name)
    return await answers.stored(route, request, item, warnings, 201)


async def _label_warnings(backend: Backend, route: Route, text: NewText) -> list[str]:
    """What is said of labels, which other objects decide about: no recipe knows it."""
    if not text.labels:
        return []
    data = {"kind": route.kind.kind, "metadata": {"labels": text.labels}}
    return [warning async for warning in backend.admission.comparison_warnings(data, None)]


async def _store_new(
    backend: Backend, route: Route, request: Request, data: Data, warnings: Sequence[str], *, track: bool = True
) -> tuple[Item, Sequence[str]]:
    """A new object in the store, and the warnings to its author."""
    is_named = bool(data["metadata"].get("name"))
    for _ in range(1 if is_named else _NAMES):
        # A generated name may be taken by chance: the object is then prepared again, from what was sent.
        new = data if is_named else msgspec.to_builtins(data)
        new, advice = await _prepared(backend, route, request, new, track=track)
        name = new["metadata"]["name"]
        item = await _put(backend, route, request, name, await offload(len(request.body), encoded, new))
        if item is not None:
            return item, [*warnings, *advice]
    raise already_exists(route.kind, name)


async def _prepared(
    backend: Backend, route: Route, request: Request, data: Data, *, track: bool
) -> tuple[Data, list[str]]:
    """A new object as it is to be stored, and the warnings of validation."""
    kind, moment, size = route.kind, backend.timestamp(), len(request.body)
    state = await backend.admission.prepare_create(kind, data, route.namespace, moment, new_uid(), size=size)
    if track:
        data = await offload(size, managed.track, managed_write(route, request, moment), None, data)
    await allocate(backend, kind, data, None, dry=is_dry(request), size=size)
    check_escalation(backend, route, request, data, None)
    return data, await backend.admission.judge(kind, data, None, state, size=size)


async def _put(
    backend: Backend, route: Route, request: Request, name: str, value: bytes, quotas: Sequence[Item] | None = None
) -> Item | None:
    """The new object in the store, with revision 0 in a dry run; None when its name is taken.

    `quotas` are those of its namespace, when they were read for this request already.
    """
    where = key(route.kind, route.namespace, name)
    write = StoredWrite(route.kind, route.namespace, "", Item(where, value, 0), None)
    if is_dry(request):
        await check_quotas(backend, write)
        return None if await backend.store.get(where) else write.item
    try:
        return await store_charged(backend, write, quotas)
    except KeyExists:
        return None
