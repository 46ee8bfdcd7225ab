"""Patch: parts of an object changed by a JSON patch, a merge patch, a strategic one or an applied configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.apiserver.base.objects import key
from moorage.apiserver.base.offload import YAML_COST, offload
from moorage.apiserver.http.failures import bad_request, unsupported_media_type
from moorage.apiserver.http.messages import Request, Response
from moorage.apiserver.patch import apply, jsonpatch, mergepatch, strategic
from moorage.apiserver.patch.errors import PatchError
from moorage.apiserver.request.bodies import (
    Body,
    check_fields,
    check_values,
    media_type,
    normalised,
    read_yaml,
    upgraded,
)
from moorage.apiserver.request.options import apply_force
from moorage.apiserver.request.routes import Route
from moorage.apiserver.verbs.backend import Backend
from moorage.apiserver.verbs.create import create_object
from moorage.apiserver.verbs.read import convert_out
from moorage.apiserver.verbs.recurringpatches import recurring_patch, renewal
from moorage.apiserver.verbs.update import change, check_name
from moorage.apiserver.verbs.writing import managed_write, patch_refused
from moorage.registry.schema import has_field

JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC_PATCH, APPLY_PATCH = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


async def patch(backend: Backend, route: Route, request: Request) -> Response:
    """Change parts of an object."""
    how = media_type(request)
    if how not in _TYPES:
        raise unsupported_media_type(_TYPES)
    if how == APPLY_PATCH:
        return await _apply(backend, route, request)
    if how == MERGE_PATCH and (response := await renewal(backend, route, request)) is not None:
        return response
    quick = await recurring_patch(backend, route, request) if how == MERGE_PATCH else None
    if quick is None:
        return await _merge(backend, route, request, how)
    response = await quick.replay(backend, route, request)
    if response is None:
        response = await _merge(backend, route, request, how)
        await quick.learn(backend, response)
    return response


async def _merge(backend: Backend, route: Route, request: Request, how: str) -> Response:
    sent = read_patch(request)
    warnings: list[str] = []

    def patched(data: Data) -> Data:
        if convert := convert_out(route):
            data = convert(data)
        try:
            if how == JSON_PATCH:
                new = jsonpatch.apply(data, sent)
                check_values(new)  # which may have copied a lot
            elif how == MERGE_PATCH:
                new = mergepatch.apply(data, sent)
            else:
                new = strategic.apply(data, sent, managed_write(route, request, backend.timestamp()).shape)
        except PatchError as error:
            raise patch_refused(error) from None
        if not isinstance(new, dict):
            raise bad_request("the patched object is not an object")
        new = upgraded(route.kind, new)
        warnings[:] = check_fields(route.kind, request, new, before=upgraded(route.kind, data))
        new = normalised(route, new)
        check_name(route, new)
        return new

    return await change(backend, route, request, patched, warnings)


def read_patch(request: Request) -> object:
    """The patch in a request; Refused when it is not JSON."""
    try:
        return msgspec.json.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {error}") from None


async def _apply(backend: Backend, route: Route, request: Request) -> Response:
    size = len(request.body)
    config, repeated = await offload(size * YAML_COST, _read_applied, request.body)
    force = apply_force(request)
    if isinstance(config, dict):
        config = normalised(route, config)
        config["metadata"].setdefault("name", route.name)
    write = managed_write(route, request, backend.timestamp())
    warnings = []
    if isinstance(config, dict):
        warnings = await offload(size, _check_applied, route.kind, request, config, repeated)

    def applied(data: Data | None) -> Data:
        try:
            return apply.apply(write, data, config, force=force)
        except PatchError as error:
            raise patch_refused(error) from None

    if route.subresource or await backend.store.get(key(route.kind, route.namespace, route.name)):
        return await change(backend, route, request, applied, warnings, track=False)
    new = await offload(size, applied, None)
    # What admission adds gets no owner, so that applying the same again conflicts with nobody.
    return await create_object(backend, route, request, new, warnings, track=False)


def _read_applied(body: bytes) -> Body:
    read = read_yaml(body)
    check_values(read.data, len(body))
    return read


def _check_applied(kind: Kind, request: Request, config: Data, repeated: Sequence[str]) -> list[str]:
    """The warnings about the fields of a configuration, which keeps what it sets to null."""
    nulls = list(_nulls(config))
    warnings = check_fields(kind, request, config, repeated)
    _put_back(kind, config, nulls)
    return warnings


def _nulls(config: Data, *path: str) -> Iterator[tuple[str, ...]]:
    """The paths of what a configuration sets to null: as an object it would not have it, applied it removes it."""
    for name, value in config.items():
        if value is None:
            yield *path, name
        elif isinstance(value, dict):
            yield from _nulls(value, *path, name)


def _put_back(kind: Kind, config: Data, nulls: Iterable[tuple[str, ...]]) -> None:
    for path in nulls:
        part: Any = config
        for name in path[:-1]:
            part = part.get(name) if isinstance(part, dict) else None
        if isinstance(part, dict) and path[-1] not in part and has_field(kind, config, *path):
            part[path[-1]] = None
