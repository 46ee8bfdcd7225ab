"""Create, update, patch and delete: one write at a time, against the object as it is now."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from functools import lru_cache

import msgspec

from moorage.api import kinds
from moorage.apiserver.access.escalation import escalation
from moorage.apiserver.access.rbac import Rbac
from moorage.apiserver.access.roles import RBAC_GROUP
from moorage.apiserver.base.objects import Data, decode, encode, key, prefix
from moorage.apiserver.base.offload import aside
from moorage.apiserver.http.failures import (
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
    too_large,
    unsupported_media_type,
)
from moorage.apiserver.http.media import PLAIN
from moorage.apiserver.http.messages import JSON, Refused, Request, Response, status, warning_headers
from moorage.apiserver.patch import apply, jsonpatch, managed, mergepatch, strategic
from moorage.apiserver.patch.errors import PatchError
from moorage.apiserver.request.bodies import check_fields, check_values, from_yaml, media_type, normalised, sent
from moorage.apiserver.request.options import DeleteOptions, Preconditions, apply_force, delete_options
from moorage.apiserver.request.routes import Route
from moorage.apiserver.request.selection import selection
from moorage.apiserver.verbs import binding, deletion
from moorage.apiserver.verbs.admission import Admission
from moorage.apiserver.verbs.read import ONE, body_of, convert_out, form_of
from moorage.apiserver.verbs.serviceaddresses import give_address
from moorage.apiserver.verbs.serviceports import give_ports
from moorage.apiserver.verbs.stencils import Stencils, new_pod
from moorage.client.clock import Clock
from moorage.registry.defaults import apply_defaults, give_job_selector
from moorage.registry.metadata import MetadataError, prepare_create, prepare_update
from moorage.store.protocol import Item, KeyExists, KeyMissing, RevisionConflict, Store
from moorage.validation import field

_ATTEMPTS = 10
_NAMES = 8
"""How many names are made up before the object is refused."""
_MAX_BYTES = 1_500_000
"""How large an object may become: no larger than an etcd takes that nobody has told otherwise."""
_LONGEST_GRACE = 2**31 - 1
_POD, _SERVICE, _JOB = kinds.row("v1", "Pod"), kinds.row("v1", "Service"), kinds.row("batch/v1", "Job")
_LASTING_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_CONDITIONAL = frozenset((
    "CSIDriver", "CSINode", "CSIStorageCapacity", "Lease", "PodDisruptionBudget", "RuntimeClass", "VolumeAttachment",
))  # fmt: skip
"""Kinds that are replaced only by those who know what they replace."""
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
        self._stencils = Stencils()

    def now(self) -> datetime:
        """The time, in whole seconds as objects have it."""
        return self._clock.now().replace(microsecond=0)

    async def bind(self, route: Route, request: Request) -> Response:
        """Assign a pod to a node, once."""
        return await binding.bind(self.store, route, request, timestamp(self.now()), dry=is_dry(request))

    async def create(self, route: Route, request: Request) -> Response:
        """Put a new object. A binding is none: it says where a pod is to be."""
        if route.kind is kinds.BINDING:
            return await self.bind(route, request)
        make = self._create_pod if route.kind is _POD else self._create
        for _ in range(_NAMES):
            try:
                return await make(route, request)
            except Refused as refusal:
                # A name that the server made up and that is taken by chance is no fault of the client's.
                if refusal.response.status != 409 or (await self._sent(route, request))[0]["metadata"].get("name"):
                    raise
                taken = refusal
        raise taken

    async def _create(self, route: Route, request: Request) -> Response:
        data, warned = await self._sent(route, request)
        return await self.create_data(route, request, data, warned)

    async def _create_pod(self, route: Route, request: Request) -> Response:
        """Put a new pod: from a stencil, when pods of its template have come before."""
        new = new_pod(route, request)
        if new is None:
            return await self._create(route, request)
        classes = await self.admission.priority_classes()
        stencil = self._stencils.get(new.outline, classes)
        if stencil is None:
            data, warned = await self._sent(route, request)
            data, warned = await self._made(route, request, data, warned)
            item = await self._put(route, request, data["metadata"]["name"], _encoded(data))
            self._stencils.learn(new.outline, item.value, warned, classes)
            return self._answer(route, request, item, warned, 201)
        await self.admission.check_namespace(route.kind, route.namespace, new.name)
        item = await self._put(route, request, new.name, stencil.fill(new, new_uid(), timestamp(self.now())))
        return self._answer(route, request, item, stencil.warnings, 201)

    async def _sent(self, route: Route, request: Request) -> tuple[Data, list[str]]:
        return await aside(len(request.body), sent, route, request)

    async def create_data(
        self, route: Route, request: Request, data: Data, warned: list[str], *, track: bool = True
    ) -> Response:
        """Put a new object that is already read."""
        data, warned = await self._made(route, request, data, warned, track=track)
        item = await self._put(route, request, data["metadata"]["name"], _encoded(data))
        return self._answer(route, request, item, warned, 201)

    async def _made(
        self, route: Route, request: Request, data: Data, warned: list[str], *, track: bool = True
    ) -> tuple[Data, list[str]]:
        """A new object as it is to be stored, and what its author is to be warned of."""
        kind = route.kind
        moment = self.now()
        # Defaults come first: what an object is prepared to be depends on them, a pod's quality of service for one.
        apply_defaults(kind, data, timestamp(moment))
        await self.admission.fill(kind, data, None)
        try:
            prepare_create(kind, data, route.namespace, timestamp(moment), new_uid())
        except MetadataError as error:
            raise bad_request(str(error)) from None
        size = len(request.body)
        if track:
            data = await aside(size, managed.track, self._write(route, request, moment), None, data)
        await self._make_up(kind, data, None, dry=is_dry(request))
        self._check_escalation(route, request, data, None)
        told = await self.admission.judge(kind, data, None, size=size)
        return data, [*warned, *told]

    async def _make_up(self, kind: kinds.Kind, new: Data, old: Data | None, *, dry: bool) -> None:
        """Add what the server makes up. It is nobody's, so who owns which fields is noted before."""
        if kind is _JOB and old is None:
            give_job_selector(new, new["metadata"]["uid"])
        if kind is _SERVICE:
            if old is None or old["spec"].get("type") == "ExternalName":
                await give_address(self.store, new, dry=dry)
            await give_ports(self.store, new, old, dry=dry)

    async def _put(self, route: Route, request: Request, name: str, value: bytes) -> Item:
        where = key(route.kind, route.namespace, name)
        if is_dry(request):
            if await self.store.get(where):
                raise already_exists(route.kind, name)
            return Item(where, value, 0)
        try:
            return await self.store.create(where, value)
        except KeyExists:
            raise already_exists(route.kind, name) from None

    async def update(self, route: Route, request: Request) -> Response:
        """Replace an object, or the part of it that a sub-resource is."""
        new, warned = await self._sent(route, request)
        name = new["metadata"].setdefault("name", route.name)
        if name != route.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({route.name})")
        expected = _expected(new)
        where = key(route.kind, route.namespace, name)
        if not expected and route.kind.kind in _CONDITIONAL and await self.store.get(where):
            problem = field.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(route.kind, name, [problem])
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
            old, size = decode(item), len(request.body) + len(item.value)
            new = await aside(size, change, decode(item))
            check_values(new, size)
            try:
                return await self._store_change(route, request, old, new, item, warned, track=track)
            except RevisionConflict:
                if expected:
                    raise conflict(route.kind, route.name) from None
            except KeyMissing:
                raise not_found(route.kind, route.name) from None
        raise conflict(route.kind, route.name)

    async def _store_change(
        self, route: Route, request: Request, old: Data, new: Data, item: Item, warned: Iterable[str], *, track: bool
    ) -> Response:
        kind = route.kind
        if _expected(new) not in ("", str(item.revision)):
            raise conflict(kind, route.name)
        moment = self.now()
        apply_defaults(kind, new, timestamp(moment))
        await self.admission.fill(kind, new, old, route.subresource)
        try:
            prepare_update(kind, new, old, route.subresource, timestamp(moment))
        except MetadataError as error:
            raise bad_request(str(error)) from None
        size = len(request.body) + len(item.value)
        if track:
            new = await aside(size, managed.track, self._write(route, request, moment), old, new)
        if not route.subresource:
            await self._make_up(kind, new, old, dry=is_dry(request))
        self._check_escalation(route, request, new, old)
        told = await self.admission.judge(kind, new, old, route.subresource, size=size)
        value = _encoded(new)
        if is_dry(request) or value == item.value:
            changed = item._replace(value=value)
        elif deletion.is_over(kind, new):
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
                    check_values(new)  # which may have copied a lot
                elif how == "application/merge-patch+json":
                    new = mergepatch.apply(data, patch)
                else:
                    new = strategic.apply(data, patch, self._write(route, request, self.now()).shape)
            except PatchError as error:
                raise refused(error) from None
            if not isinstance(new, dict):
                raise bad_request("the patched object is not an object")
            warned[:] = check_fields(route.kind, request, new, data)
            return normalised(route, new)

        return await self.change(route, request, patched, warned)

    async def _apply(self, route: Route, request: Request) -> Response:
        config = await aside(len(request.body), from_yaml, request.body)
        check_values(config, len(request.body))
        force = apply_force(request)
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
            except RevisionConflict:
                continue
            except KeyMissing:
                raise not_found(route.kind, route.name) from None
        raise conflict(route.kind, route.name)

    async def delete_item(self, route: Route, request: Request, item: Item, options: DeleteOptions) -> Response:
        """Remove an object that is as it was read; RevisionConflict when it is not."""
        kind, data = route.kind, decode(item)
        dry = bool(options.dry_run)
        metadata = data["metadata"]
        name = metadata["name"]
        if kind is deletion.NAMESPACE and name in _LASTING_NAMESPACES:
            raise forbidden(kind, name, "this namespace may not be deleted")
        _check_preconditions(route, metadata, options.preconditions)
        if not deletion.mark(kind, data, options, self.now()):
            if not dry:
                item = await self.store.delete(item.key, item.revision)
            return self._deleted(route, request, item)
        value = encode(data)
        if dry:
            item = item._replace(value=value)
        elif value != item.value:
            item = await self.store.update(item.key, value, item.revision)
        return self._answer(route, request, item, deletion.warnings(kind, options), 200)

    async def delete_collection(self, route: Route, request: Request) -> Response:
        """Remove all objects that are selected."""
        chosen = selection(route, request)
        options = delete_options(request)
        page = await self.store.list(prefix(route.kind, route.namespace))
        for item in page.items:
            metadata = decode(item)["metadata"]
            if chosen.matches is None or chosen.matches(decode(item)):
                one = Route("delete", route.kind, route.version, metadata.get("namespace", ""), metadata["name"])
                with suppress(KeyMissing):
                    await self.delete_latest(one, request, item, options)
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return Response(200, msgspec.json.encode(body))

    async def delete_latest(self, route: Route, request: Request, item: Item, options: DeleteOptions) -> None:
        """Remove an object, whatever has happened to it since it was read; KeyMissing when it is gone."""
        for _ in range(_ATTEMPTS):
            try:
                await self.delete_item(route, request, item, options)
            except RevisionConflict as error:
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

    def _write(self, route: Route, request: Request, time: datetime) -> managed.ManagedWrite:
        manager = managed.manager_name(request.parameter("fieldManager"), request.headers.get("user-agent"))
        # Fields are set in the version that is stored.
        version = "v1" if convert_out(route) else route.kind.api_version
        return managed.ManagedWrite(version, route.kind.kind, manager, timestamp(time), route.subresource)


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


def _expected(data: Data) -> str:
    """The version of an object that is to be changed and no other; empty when any will do, which `0` says too."""
    version = data.get("metadata", {}).get("resourceVersion") or ""
    return "" if version == "0" else version


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
