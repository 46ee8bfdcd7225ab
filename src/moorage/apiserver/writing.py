"""Create, update, patch and delete: one write at a time, against the object as it is now."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.apiserver import apply, binding, jsonpatch, managed, mergepatch, strategic
from moorage.apiserver.admission import Admission
from moorage.apiserver.aside import aside
from moorage.apiserver.authorization import Rbac
from moorage.apiserver.bodies import check_fields, check_values, from_yaml, media_type, normalised, sent
from moorage.apiserver.defaults import apply_defaults
from moorage.apiserver.escalation import escalation
from moorage.apiserver.failures import (
    already_exists,
    bad_request,
    conflict,
    forbidden,
    not_found,
    too_large,
    unsupported_media_type,
)
from moorage.apiserver.http import JSON, Refused, Request, Response, status, warning_headers
from moorage.apiserver.media import PLAIN
from moorage.apiserver.metadata import MetadataError, prepare_create, prepare_update
from moorage.apiserver.objects import Data, decode, encode, key, prefix
from moorage.apiserver.options import FOREGROUND, ORPHAN, DeleteOptions, Preconditions, delete_options
from moorage.apiserver.patching import PatchError
from moorage.apiserver.reading import ONE, body_of, convert_out, form_of
from moorage.apiserver.roles import RBAC_GROUP
from moorage.apiserver.routes import Route
from moorage.apiserver.selection import selection
from moorage.client.clock import Clock
from moorage.store.protocol import Conflict, Exists, Item, Missing, Store

_ATTEMPTS = 10
_NAMES = 8
"""How many names are made up before the object is refused."""
_MAX_BYTES = 1_500_000
"""How large an object may become: no larger than an etcd takes that nobody has told otherwise."""
_LONGEST_GRACE = 2**31 - 1
_NAMESPACE = kinds.row("v1", "Namespace")
_LASTING_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PROPAGATION = {FOREGROUND: "foregroundDeletion", ORPHAN: "orphan"}
_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)

Change = Callable[[Data], Data]
"""Makes of the data of an object, which it may change, the data that is to be stored."""


class Writer:
    """Writes objects through admission into the store."""

    def __init__(self, store: Store, admission: Admission, rbac: Rbac, clock: Clock | None = None) -> None:
        self.store = store
        self.admission = admission
        self._rbac = rbac
        self._clock = clock or Clock()

    def now(self) -> datetime:
        """The time, in whole seconds as objects have it."""
        return self._clock.now().replace(microsecond=0)

    async def create(self, route: Route, request: Request) -> Response:
        """Put a new object. A binding is none: it says where a pod is to be."""
        if route.kind is kinds.BINDING:
            return await binding.bind(self.store, route, request, timestamp(self.now()), dry=is_dry(request))
        for _ in range(_NAMES):
            data, warned = await aside(len(request.body), sent, route, request)
            is_named = bool(data["metadata"].get("name"))
            try:
                return await self.create_data(route, request, data, warned)
            except Refused as refusal:
                # A name that the server made up and that is taken by chance is no fault of the client's.
                if is_named or refusal.response.status != 409:
                    raise
                taken = refusal
        raise taken

    async def create_data(
        self, route: Route, request: Request, data: Data, warned: list[str], *, track: bool = True
    ) -> Response:
        """Put a new object that is already read."""
        kind = route.kind
        moment = self.now()
        # Defaults come first: what an object is prepared to be depends on them, a pod's quality of service for one.
        apply_defaults(kind, data, timestamp(moment))
        await self.admission.fill(kind, data, None)
        try:
            prepare_create(kind, data, route.namespace, timestamp(moment), new_uid())
        except MetadataError as error:
            raise bad_request(str(error)) from None
        self._check_escalation(route, request, data, None)
        size = len(request.body)
        told = await self.admission.judge(kind, data, None, size=size)
        if track:
            data = await aside(size, managed.track, self._write(route, request, moment), None, data)
        name = data["metadata"]["name"]
        where = key(kind, route.namespace, name)
        if is_dry(request):
            if await self.store.get(where):
                raise already_exists(kind, name)
            item = Item(where, _encoded(data), 0)
        else:
            try:
                item = await self.store.create(where, _encoded(data))
            except Exists:
                raise already_exists(kind, name) from None
        return self._answer(route, request, item, [*warned, *told], 201)

    async def update(self, route: Route, request: Request) -> Response:
        """Replace an object, or the part of it that a sub-resource is."""
        new, warned = await aside(len(request.body), sent, route, request)
        name = new["metadata"].setdefault("name", route.name)
        if name != route.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({route.name})")
        expected = new["metadata"].get("resourceVersion") or ""
        return await self.change(route, request, lambda _: new, warned, expected=expected)

    async def change(
        self,
        route: Route,
        request: Request,
        change: Change,
        warned: Iterable[str] = (),
        *,
        expected: str = "",
        track: bool = True,
    ) -> Response:
        """Change an object that exists; once more from the start when somebody else was faster and nobody minds."""
        where = key(route.kind, route.namespace, route.name)
        for _ in range(_ATTEMPTS):
            item = await self.store.get(where)
            if item is None:
                raise not_found(route.kind, route.name)
            if expected and expected != str(item.revision):
                raise conflict(route.kind, route.name)
            old = decode(item)
            new = await aside(len(request.body) + len(item.value), change, decode(item))
            try:
                return await self._store_change(route, request, old, new, item, warned, track=track)
            except Conflict:
                if expected:
                    raise conflict(route.kind, route.name) from None
            except Missing:
                raise not_found(route.kind, route.name) from None
        raise conflict(route.kind, route.name)

    async def _store_change(
        self, route: Route, request: Request, old: Data, new: Data, item: Item, warned: Iterable[str], *, track: bool
    ) -> Response:
        kind = route.kind
        version = new.get("metadata", {}).get("resourceVersion")
        if version and version != str(item.revision):
            raise conflict(kind, route.name)
        moment = self.now()
        apply_defaults(kind, new, timestamp(moment))
        await self.admission.fill(kind, new, old, route.subresource)
        try:
            prepare_update(kind, new, old, route.subresource, timestamp(moment))
        except MetadataError as error:
            raise bad_request(str(error)) from None
        self._check_escalation(route, request, new, old)
        size = len(request.body) + len(item.value)
        told = await self.admission.judge(kind, new, old, route.subresource, size=size)
        if track:
            new = await aside(size, managed.track, self._write(route, request, moment), old, new)
        value = _encoded(new)
        if is_dry(request) or value == item.value:
            changed = item._replace(value=value)
        elif new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers") and _is_over(kind, new):
            changed = await self.store.delete(item.key, item.revision)
            changed = changed._replace(value=value)
        else:
            changed = await self.store.update(item.key, value, item.revision)
        return self._answer(route, request, changed, [*warned, *told], 200)

    async def patch(self, route: Route, request: Request) -> Response:
        """Change parts of an object."""
        how = media_type(request)
        if how not in _PATCHES:
            raise unsupported_media_type(_PATCHES)
        if how == "application/apply-patch+yaml":
            return await self._apply(route, request)
        try:
            patch = msgspec.json.decode(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request(f"error decoding patch: {error}") from None
        warned: list[str] = []

        def patched(data: Data) -> Data:
            if convert := convert_out(route):
                data = convert(data)
            try:
                if how == "application/json-patch+json":
                    new = jsonpatch.apply(data, patch)
                elif how == "application/merge-patch+json":
                    new = mergepatch.apply(data, patch)
                else:
                    new = strategic.apply(data, patch, self._write(route, request, self.now()).shape)
            except PatchError as error:
                raise refused(error) from None
            if not isinstance(new, dict):
                raise bad_request("the patched object is not an object")
            check_values(new)
            warned[:] = check_fields(route.kind, request, new)
            return normalised(route, new)

        return await self.change(route, request, patched, warned)

    async def _apply(self, route: Route, request: Request) -> Response:
        config = await aside(len(request.body), from_yaml, request.body)
        check_values(config, len(request.body))
        if not request.parameter("fieldManager"):
            raise bad_request(
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
            )
        force = request.parameter("force").lower() in ("true", "1")
        if isinstance(config, dict):
            config = normalised(route, config)
            config["metadata"].setdefault("name", route.name)
        write = self._write(route, request, self.now())
        warned = []
        if isinstance(config, dict):
            warned = await aside(len(request.body), check_fields, route.kind, request, config)

        def applied(data: Data | None) -> Data:
            try:
                return apply.apply(write, data, config, force=force)
            except PatchError as error:
                raise refused(error) from None

        if route.subresource or await self.store.get(key(route.kind, route.namespace, route.name)):
            return await self.change(route, request, applied, warned, track=False)
        new = await aside(len(request.body), applied, None)
        # What admission adds belongs to nobody: the next time the same is applied, there is nothing to object to.
        return await self.create_data(route, request, new, warned, track=False)

    async def delete(self, route: Route, request: Request) -> Response:
        """Remove an object, at once or when its grace period and its finalizers are over."""
        options = delete_options(request)
        where = key(route.kind, route.namespace, route.name)
        for _ in range(_ATTEMPTS):
            item = await self.store.get(where)
            if item is None:
                raise not_found(route.kind, route.name)
            try:
                return await self.delete_item(route, request, item, options)
            except Conflict:
                continue
            except Missing:
                raise not_found(route.kind, route.name) from None
        raise conflict(route.kind, route.name)

    async def delete_item(self, route: Route, request: Request, item: Item, options: DeleteOptions) -> Response:
        """Remove an object that is as it was read; Conflict when it is not."""
        kind, data = route.kind, decode(item)
        dry = bool(options.dry_run)
        metadata = data["metadata"]
        name = metadata["name"]
        if kind is _NAMESPACE and name in _LASTING_NAMESPACES:
            raise forbidden(kind, name, "this namespace may not be deleted")
        _check_preconditions(route, metadata, options.preconditions)
        grace = _grace_seconds(kind, data, options)
        finalizers = list(metadata.get("finalizers") or ())
        added = _PROPAGATION.get(options.propagation_policy or (ORPHAN if options.orphan_dependents else ""))
        if added and added not in finalizers and not metadata.get("deletionTimestamp"):
            finalizers.append(added)
        if not finalizers and not grace and not _holds_itself(kind, data):
            if not dry:
                item = await self.store.delete(item.key, item.revision)
            return self._deleted(route, request, item)
        until = timestamp(self.now() + timedelta(seconds=grace))
        if not metadata.get("deletionTimestamp") or grace < metadata.get("deletionGracePeriodSeconds", 0):
            metadata |= {"deletionTimestamp": until, "deletionGracePeriodSeconds": grace}
            metadata["generation"] = metadata.get("generation", 0) + 1
        if finalizers:
            metadata["finalizers"] = finalizers
        if kind is _NAMESPACE:
            data.setdefault("status", {})["phase"] = "Terminating"
        value = encode(data)
        if not dry and value != item.value:
            item = await self.store.update(item.key, value, item.revision)
        return self._answer(route, request, item, (), 200)

    async def delete_collection(self, route: Route, request: Request) -> Response:
        """Remove all objects that are selected."""
        chosen = selection(route, request)
        options = delete_options(request)
        page = await self.store.list(prefix(route.kind, route.namespace))
        for item in page.items:
            metadata = decode(item)["metadata"]
            if chosen.matches is None or chosen.matches(decode(item)):
                one = Route("delete", route.kind, route.version, metadata.get("namespace", ""), metadata["name"])
                with suppress(Missing):
                    await self.delete_latest(one, request, item, options)
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return Response(200, msgspec.json.encode(body))

    async def delete_latest(self, route: Route, request: Request, item: Item, options: DeleteOptions) -> None:
        """Remove an object, whatever has happened to it since it was read; Missing when it is gone."""
        for _ in range(_ATTEMPTS):
            try:
                await self.delete_item(route, request, item, options)
            except Conflict as error:
                item = error.current
            else:
                return

    def _check_escalation(self, route: Route, request: Request, new: Data, old: Data | None) -> None:
        """Refuse a role or binding that gives more than its author has."""
        if route.kind.group == RBAC_GROUP and request.user is not None:
            problem = escalation(self._rbac, request.user, route.kind.kind, route.namespace, new, old)
            if problem is not None:
                raise Refused(problem)

    def _deleted(self, route: Route, request: Request, item: Item) -> Response:
        if route.kind.kind == "Pod":
            return self._answer(route, request, item, (), 200)
        metadata = decode(item)["metadata"]
        details = {
            "name": metadata["name"],
            "group": route.kind.group,
            "kind": route.kind.plural,
            "uid": metadata["uid"],
        }
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return Response(200, msgspec.json.encode(body))

    def _answer(self, route: Route, request: Request, item: Item, warned: Iterable[str], code: int) -> Response:
        wanted = form_of(request, *ONE)
        headers = [*JSON, *warning_headers(warned)]
        body = body_of(route, item, wanted, request) if item.revision or wanted != PLAIN else item.value
        return Response(code, body, headers)

    def _write(self, route: Route, request: Request, time: datetime) -> managed.Write:
        manager = managed.manager_name(request.parameter("fieldManager"), request.headers.get("user-agent"))
        # Fields are set in the version that is stored.
        version = "v1" if convert_out(route) else route.kind.api_version
        return managed.Write(version, route.kind.kind, manager, timestamp(time), route.subresource)


def refused(error: PatchError) -> Refused:
    """The answer to a patch that does not fit."""
    causes = [{"reason": each.type, "message": each.message, "field": each.field} for each in error.causes]
    reason = {400: "BadRequest", 409: "Conflict", 422: "Invalid"}.get(int(error.status), "")
    return Refused(status(int(error.status), reason, error.message, {"causes": causes}))


_RANDOM = random.Random(secrets.randbits(128))
_VARIANT = {f"{digit:x}": f"{digit & 3 | 8:x}" for digit in range(16)}


def new_uid() -> str:
    """A name for an object that no other object ever has. It is no secret, so it need not come from the kernel."""
    digits = f"{_RANDOM.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANT[digits[16]]}{digits[17:20]}-{digits[20:]}"


@lru_cache(maxsize=16)
def timestamp(time: datetime) -> str:
    """A time as objects spell it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def is_dry(request: Request) -> bool:
    """Whether nothing is to be stored."""
    values = request.query.get("dryRun") if request.query else None
    for value in values or ():
        if value != "All":
            raise bad_request(f'dryRun: Unsupported value: "{value}": supported values: "All"')
    return bool(values)


def _encoded(data: Data) -> bytes:
    """The bytes that are stored; Refused when they are too many."""
    value = encode(data)
    if len(value) > _MAX_BYTES:
        raise too_large(f"limit is {_MAX_BYTES}")
    return value


def _check_preconditions(route: Route, metadata: Data, wanted: Preconditions) -> None:
    for expected, name, words in (
        (wanted.uid, "uid", "UID"),
        (wanted.resource_version, "resourceVersion", "ResourceVersion"),
    ):
        found = metadata.get(name)
        if expected and expected != found:
            why = f"Precondition failed: {words} in precondition: {expected}, {words} in object meta: {found}"
            raise conflict(route.kind, route.name, why)


def _grace_seconds(kind: Any, data: Data, options: DeleteOptions) -> int:
    """How long an object may take to end: only a pod that runs somewhere needs time."""
    if kind.kind != "Pod":
        return 0
    if not data["spec"].get("nodeName") or (data.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    seconds = options.grace_period_seconds
    if seconds is None:
        seconds = data["spec"].get("terminationGracePeriodSeconds", 30)
    return 1 if seconds < 0 else min(seconds, _LONGEST_GRACE)


def _is_over(kind: Any, data: Data) -> bool:
    """Whether an object that is to be deleted and has no finalizers left waits for nothing else."""
    if _holds_itself(kind, data):
        return False
    return kind.kind != "Pod" or not data["metadata"].get("deletionGracePeriodSeconds")


def _holds_itself(kind: Any, data: Data) -> bool:
    """Whether an object is a namespace that somebody still has to empty."""
    return kind is _NAMESPACE and bool((data.get("spec") or {}).get("finalizers"))
