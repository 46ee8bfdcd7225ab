"""Delete: an object goes at once, or is marked until its grace period and its finalizers are over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime, timedelta

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.apiserver.base.objects import decode, encode, key, prefix
from moorage.apiserver.base.offload import offload
from moorage.apiserver.base.pacing import in_slices
from moorage.apiserver.http.failures import conflict, forbidden, not_found
from moorage.apiserver.http.messages import Request, Response
from moorage.apiserver.request.options import FOREGROUND, ORPHAN, DeleteOptions, delete_options
from moorage.apiserver.request.routes import Route
from moorage.apiserver.request.selection import selection
from moorage.apiserver.verbs import answers
from moorage.apiserver.verbs.backend import Backend
from moorage.apiserver.verbs.writing import ATTEMPTS, unmet_precondition
from moorage.client.clock import timestamp
from moorage.store.protocol import Compacted, Item, KeyMissing, RevisionConflict, Store

_NAMESPACE = kinds.row("v1", "Namespace")
_POD = kinds.row("v1", "Pod")
_JOB = kinds.row("batch/v1", "Job")
_ORPHANING = (_JOB, kinds.row("v1", "ReplicationController"))
"""Kinds whose pods are orphaned by default."""
PAGE = 500
"""How many objects of a collection are read at once."""
_LONGEST_GRACE = 2**31 - 1
_FINALIZERS = {FOREGROUND: "foregroundDeletion", ORPHAN: "orphan"}
_WITHOUT_DEPENDENTS = frozenset(("Event",))
_KEPT_PODS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or "
    "set propagationPolicy=Orphan to suppress this warning"
)
_LASTING_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


async def delete(backend: Backend, route: Route, request: Request) -> Response:
    """Remove an object, at once or when its grace period and its finalizers are over."""
    options = await delete_options(request)
    where = key(route.kind, route.namespace, route.name)
    for _ in range(ATTEMPTS):
        item = await backend.store.get(where)
        if item is None:
            raise not_found(route.kind, route.name)
        try:
            return await _delete_item(backend, route, request, item, options)
        except RevisionConflict:
            continue
        except KeyMissing:
            raise not_found(route.kind, route.name) from None
    raise conflict(route.kind, route.name)


async def delete_collection(backend: Backend, route: Route, request: Request) -> Response:
    """Remove all objects that are selected."""
    selected = selection(route, request)
    options = await delete_options(request)
    async for item in _all(backend.store, prefix(route.kind, route.namespace)):
        data = await offload(len(item.value), decode, item)
        if selected.matches is None or selected.matches(data):
            metadata = data["metadata"]
            one = Route("delete", route.kind, route.version, metadata.get("namespace", ""), metadata["name"])
            with suppress(KeyMissing):
                await delete_latest(backend, one, request, item, options)
    return answers.deleted()


async def _all(store: Store, place: str) -> AsyncIterator[Item]:
    """The objects that a collection had at first, read some at a time."""
    revision, after = 0, ""
    while True:
        try:
            page = await store.list(place, revision=revision, limit=PAGE, after=after)
        except Compacted:
            revision = 0  # it took long: then those that are there now
            continue
        async for item in in_slices(page.items):
            yield item
        if not page.remaining:
            return
        revision, after = page.revision, page.items[-1].key


async def delete_latest(backend: Backend, route: Route, request: Request, item: Item, options: DeleteOptions) -> None:
    """Remove an object, whatever has happened to it since it was read; KeyMissing when it is gone."""
    for _ in range(ATTEMPTS):
        try:
            await _delete_item(backend, route, request, item, options)
        except RevisionConflict as error:
            item = error.current
        else:
            return
    raise conflict(route.kind, route.name)


async def _delete_item(
    backend: Backend, route: Route, request: Request, item: Item, options: DeleteOptions
) -> Response:
    """Remove an object that is as it was read; Conflict when it is not."""
    kind, data = route.kind, await offload(len(item.value), decode, item)
    dry = bool(options.dry_run)
    metadata = data["metadata"]
    if kind is _NAMESPACE and metadata["name"] in _LASTING_NAMESPACES:
        raise forbidden(kind, metadata["name"], "this namespace may not be deleted")
    expected = options.preconditions.uid, options.preconditions.resource_version
    if problem := unmet_precondition(expected, (metadata["uid"], metadata["resourceVersion"])):
        raise conflict(kind, route.name, problem)
    if not mark(kind, data, options, backend.now()):
        if not dry:
            item = await backend.store.delete(item.key, item.revision)
        return await _deleted(route, request, item, metadata)
    value = await offload(len(item.value), encode, data)
    if dry:
        item = item._replace(value=value)
    elif value != item.value:
        item = await backend.store.update(item.key, value, item.revision)
    return await answers.stored(route, request, item, deletion_warnings(kind, options), 200)


async def _deleted(route: Route, request: Request, item: Item, metadata: Data) -> Response:
    if route.kind.kind == "Pod":
        return await answers.stored(route, request, item, (), 200)
    kind = route.kind
    return answers.deleted({"name": metadata["name"], "group": kind.group, "kind": kind.plural, "uid": metadata["uid"]})


def is_over(kind: Kind, data: Data) -> bool:
    """Whether an object is marked as being deleted and nothing keeps it any more."""
    metadata = data["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers") or _is_unfinalized(kind, data):
        return False
    return kind is not _POD or not metadata.get("deletionGracePeriodSeconds")


def mark(kind: Kind, data: Data, options: DeleteOptions, now: datetime) -> bool:
    """Mark an object as being deleted; False when nothing keeps it, so that it can be removed at once."""
    metadata = data["metadata"]
    seconds, left = options.grace_period_seconds, metadata.get("deletionGracePeriodSeconds") or 0
    if left and (seconds is None or _bounded(seconds) >= left):
        return True
    finalizers = _finalizers(kind, metadata, options)
    metadata.pop("finalizers", None)
    if finalizers:
        metadata["finalizers"] = finalizers
    is_marked = bool(metadata.get("deletionTimestamp"))
    grace = _bounded(seconds or 0) if left else 0 if is_marked else _grace(kind, data, seconds)
    if not finalizers and not grace and not _is_unfinalized(kind, data):
        return False
    if left:
        _shorten(metadata, grace, now)
    elif not is_marked:
        metadata["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
    if kind is _NAMESPACE:
        data.setdefault("status", {})["phase"] = "Terminating"
    return True


def deletion_warnings(kind: Kind, options: DeleteOptions) -> tuple[str, ...]:
    """A warning to those who delete a Job without saying what becomes of its pods."""
    unsaid = options.propagation_policy is None and options.orphan_dependents is None
    return (_KEPT_PODS,) if kind is _JOB and unsaid else ()


def _finalizers(kind: Kind, metadata: Data, options: DeleteOptions) -> list[str]:
    """The finalizers after a deletion: its propagation policy replaces that of an earlier one."""
    current = list(metadata.get("finalizers") or ())
    if kind.kind in _WITHOUT_DEPENDENTS:
        return current
    policy = options.propagation_policy
    if options.orphan_dependents is not None:
        policy = ORPHAN if options.orphan_dependents else ""
    if policy is None:
        if kind not in _ORPHANING or not {*current}.isdisjoint(_FINALIZERS.values()):
            return current
        policy = ORPHAN
    others = [name for name in current if name not in _FINALIZERS.values()]
    new = [*others, _FINALIZERS[policy]] if policy in _FINALIZERS else others
    return current if {*current} == {*new} else new


def _grace(kind: Kind, data: Data, seconds: int | None) -> int:
    """The grace period of an object, in seconds: only a pod on a node has one."""
    if kind is not _POD or not data["spec"].get("nodeName"):
        return 0
    if (data.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    return _bounded(data["spec"].get("terminationGracePeriodSeconds", 30) if seconds is None else seconds)


def _bounded(seconds: int) -> int:
    return 1 if seconds < 0 else min(seconds, _LONGEST_GRACE)


def _shorten(metadata: Data, grace: int, now: datetime) -> None:
    """Shorten the grace period of a pod, counted from when it began."""
    begun = datetime.fromisoformat(metadata["deletionTimestamp"]) - timedelta(
        seconds=metadata["deletionGracePeriodSeconds"]
    )
    until = begun + timedelta(seconds=grace)
    if until < now:
        until, grace = now, min(grace, 1)
    metadata |= {"deletionTimestamp": timestamp(until), "deletionGracePeriodSeconds": grace}


def _is_unfinalized(kind: Kind, data: Data) -> bool:
    """Whether an object is a namespace that is still to be emptied."""
    return kind is _NAMESPACE and bool((data.get("spec") or {}).get("finalizers"))
