"""The scale sub-resource of workloads: their number of replicas, as an object of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from moorage.api import labels
from moorage.api.decode import DecodeError, convert
from moorage.api.meta import Data, Int32, LabelSelector, Object, Wire
from moorage.apiserver.base.objects import decode, key
from moorage.apiserver.http.failures import bad_request, invalid, not_found, unsupported_media_type
from moorage.apiserver.http.messages import Headers, Request, Response
from moorage.apiserver.patch import apply, jsonpatch, managed, mergepatch
from moorage.apiserver.patch.errors import PatchError
from moorage.apiserver.request.bodies import check_small, media_type, parsed
from moorage.apiserver.request.options import apply_force
from moorage.apiserver.request.routes import Route
from moorage.apiserver.verbs.backend import Backend
from moorage.apiserver.verbs.patch import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, read_patch
from moorage.apiserver.verbs.read import ONE, form_of, formed
from moorage.apiserver.verbs.update import ObjectEdit, change
from moorage.apiserver.verbs.writing import managed_write, patch_refused
from moorage.registry.workload.scale import SCALE
from moorage.validation import field

_PATCHES = {JSON_PATCH: jsonpatch.apply, MERGE_PATCH: mergepatch.apply, STRATEGIC_PATCH: mergepatch.apply}


class ScaleSpec(Wire):
    """The desired size."""

    replicas: Int32 = 0


class Scale(Object):
    """The size of a workload."""

    spec: ScaleSpec = ScaleSpec()


async def get(backend: Backend, route: Route, request: Request) -> Response:
    """The desired and the current replicas of a workload."""
    item = await backend.store.get(key(route.kind, route.namespace, route.name))
    if item is None:
        raise not_found(route.kind, route.name)
    return _answer(request, decode(item))


async def update(backend: Backend, route: Route, request: Request) -> Response:
    """Set the desired replicas of a workload."""
    sent = _read(route, await parsed(request))
    return await _changed(backend, route, request, lambda _: sent)


async def patch(backend: Backend, route: Route, request: Request) -> Response:
    """Set them by a patch of the scale."""
    how = media_type(request)
    if how == APPLY_PATCH:
        return await _apply(backend, route, request)
    if how not in _PATCHES:
        raise unsupported_media_type((*_PATCHES, APPLY_PATCH))
    check_small(request)
    sent = read_patch(request)

    def patched(current: Data) -> Scale:
        try:
            return _read(route, _PATCHES[how](current, sent))
        except PatchError as error:
            raise patch_refused(error) from None

    return await _changed(backend, route, request, patched)


async def _changed(backend: Backend, route: Route, request: Request, make: Callable[[Data], Scale]) -> Response:
    write = managed_write(route, request, backend.timestamp())

    def edit(data: Data) -> Data:
        scale = make(_scale(data))
        metadata, version = data["metadata"], scale.metadata.resource_version
        new = {
            **data,
            "metadata": {**metadata, "resourceVersion": version or metadata["resourceVersion"]},
            "spec": {**data["spec"], "replicas": scale.spec.replicas},
        }
        return managed.track(write, data, new)

    return await _stored(backend, route, request, edit)


async def _apply(backend: Backend, route: Route, request: Request) -> Response:
    force = apply_force(request)
    config = await parsed(request)
    scale = _read(route, config)
    named = config.get("apiVersion"), config.get("kind")
    if named != (SCALE.kind.api_version, SCALE.kind.kind):
        raise bad_request(f"invalid object type: {named[0] or ''}, Kind={named[1] or ''}")
    metadata = config.get("metadata") or {}
    kind, spec = route.kind, config.get("spec") or {}
    applied = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {name: metadata[name] for name in ("resourceVersion", "managedFields") if name in metadata},
        "spec": {"replicas": scale.spec.replicas} if "replicas" in spec else {},
    }
    write = managed_write(route, request, backend.timestamp())

    def edit(data: Data) -> Data:
        try:
            new = apply.apply(write, data, applied, force=force)
        except PatchError as error:
            raise patch_refused(error) from None
        # Replicas that are no longer applied become 0.
        return {**new, "spec": {"replicas": 0, **new["spec"]}}

    return await _stored(backend, route, request, edit)


async def _stored(backend: Backend, route: Route, request: Request, edit: ObjectEdit) -> Response:
    """Change the workload of a scale, whose managed fields the edit has updated already."""
    whole = Route("update", route.kind, route.version, route.namespace, route.name)
    response = await change(backend, whole, replace(request, headers=Headers()), edit, track=False)
    assert isinstance(response.body, bytes)
    return _answer(request, msgspec.json.decode(response.body))


def _answer(request: Request, workload: Data) -> Response:
    scale = _scale(workload)
    form = form_of(request, *ONE)
    return Response(200, formed(SCALE.kind, scale, scale["metadata"]["resourceVersion"], form, request))


def _read(route: Route, data: Any) -> Scale:
    try:
        scale = convert(data, Scale)
    except DecodeError as error:
        raise bad_request(f"the body must be a Scale: {error}") from None
    if (name := scale.metadata.name) not in ("", route.name):
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({route.name})")
    if (replicas := scale.spec.replicas) < 0:
        negative = field.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid(SCALE.kind, route.name, [negative])
    return scale


def _scale(data: Data) -> Data:
    metadata = data["metadata"]
    kept = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
    selector_data = data["spec"].get("selector") or {}
    if data["kind"] == "ReplicationController":
        selector_data = {"matchLabels": selector_data}
    selector = convert(selector_data, LabelSelector)
    current = {"replicas": (data.get("status") or {}).get("replicas", 0), "selector": str(labels.from_struct(selector))}
    spec = {"replicas": data["spec"].get("replicas", 0)}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": kept, "spec": spec, "status": current}
