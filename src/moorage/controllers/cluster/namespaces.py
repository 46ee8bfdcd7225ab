"""Deletion of namespaces: their pods go first, then all else in them, then they themselves."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from moorage.api import kinds
from moorage.api.cluster import Namespace
from moorage.api.kinds import Kind
from moorage.api.meta import Data, Object
from moorage.client import ApiError, Missing
from moorage.client.clock import timestamp
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.frame.pods import POD

_NAMESPACE = kinds.row("v1", "Namespace")
_INSIDE = tuple(kind for kind in kinds.KINDS if kind.namespaced and kind.group != "events.k8s.io")
_WATCHED = tuple(kind for kind in _INSIDE if kind.kind != "Event")
_FINALIZER = "kubernetes"
_AT_ONCE = 32
_RETRY_SECONDS = 5.0

_FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted", "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}  # fmt: skip
"""Reason and message of each condition of a namespace while it is False."""


@dataclass(slots=True)
class _Left:
    """What an attempt to empty a namespace has left behind."""

    objects: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def problems(self) -> Mapping[str, tuple[str, str]]:
        """Reason and message of the conditions that are true."""
        conditions = {}
        if self.errors:
            text = (
                f"Failed to delete all resource types, {len(self.errors)} remaining: {', '.join(sorted(self.errors))}"
            )
            conditions["NamespaceDeletionContentFailure"] = "ContentDeletionFailed", text
        if self.objects:
            parts = sorted(f"{name} has {count} resource instances" for name, count in self.objects.items())
            text = f"Some resources are remaining: {', '.join(parts)}"
            conditions["NamespaceContentRemaining"] = "SomeResourcesRemain", text
        if self.finalizers:
            parts = sorted(f"{name} in {count} resource instances" for name, count in self.finalizers.items())
            text = f"Some content in the namespace has finalizers remaining: {', '.join(parts)}"
            conditions["NamespaceFinalizersRemaining"] = "SomeFinalizersRemain", text
        return conditions


class Namespaces(Controller):
    """Empties namespaces that were deleted, as grace periods and finalizers allow, and then lets them go."""

    name = "namespace"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._left: dict[str, int] = {}
        self._namespaces = context.informers.of(Namespace)
        self._namespaces.on_change(self._namespace_changed)
        for kind in _WATCHED:
            context.informers.kind(kind).on_change(self._content_changed)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is None:
            assert old is not None
            self._left.pop(old.metadata.name, None)
        elif new.metadata.deletion_timestamp is not None and (old is None or old.metadata.deletion_timestamp is None):
            self._left[new.metadata.name] = 0
            self.enqueue(new)

    def _content_changed(self, old: Object | None, new: Object | None) -> None:
        """Reconcile a terminating namespace after an object in it was deleted; the fuller it was, the later."""
        if new is None and old is not None and (left := self._left.get(old.metadata.namespace)) is not None:
            self.queue.add_after(("", old.metadata.namespace), min(1.0, 0.02 + left / 1000))

    async def reconcile(self, key: Key) -> None:
        """Empty one namespace."""
        name = key[1]
        namespace = self._namespaces.get(*key)
        if namespace is None or namespace.metadata.deletion_timestamp is None:
            return
        left = _Left()
        await self._empty(POD, name, left)
        if not left.objects:
            for kind in _INSIDE:
                if kind is not POD:
                    await self._empty(kind, name, left)
        await self._write_conditions(namespace, left)
        if left.objects or left.errors:
            self._left[name] = left.objects.total()
            self.queue.add_after(key, _RETRY_SECONDS)
        else:
            await self._finalize(name)

    async def _empty(self, kind: Kind, namespace: str, left: _Left) -> None:
        errors: list[str] = []
        try:
            objects = await self._inside(kind, namespace)
            if not objects:
                return
            undeleted = [each for each in objects if each.metadata.deletion_timestamp is None]
            for start in range(0, len(undeleted), _AT_ONCE):
                await asyncio.gather(
                    *(self._delete(kind, each, errors) for each in undeleted[start : start + _AT_ONCE])
                )
            objects = await self._inside(kind, namespace)
        except ApiError as error:
            errors.append(str(error))
            objects = []
        left.errors += errors[:1]
        if objects:
            left.objects[f"{kind.plural}.{kind.group}"] = len(objects)
            left.finalizers.update(finalizer for each in objects for finalizer in each.metadata.finalizers)

    async def _inside(self, kind: Kind, namespace: str) -> list[Object]:
        listing = await self.client.list(kind, namespace)
        return [msgspec.json.decode(item, type=Object) for item in listing.items]

    async def _delete(self, kind: Kind, item: Object, errors: list[str]) -> None:
        try:
            with suppress(Missing):
                await self.client.delete(
                    kind, item.metadata.namespace, item.metadata.name, propagation="Background"
                )  # fmt: skip
        except ApiError as error:
            errors.append(str(error))

    async def _write_conditions(self, namespace: Namespace, left: _Left) -> None:
        problems = left.problems()
        known = {each.type: each for each in namespace.status.conditions}
        conditions: list[Data] = []
        is_changed = False
        for type_, fine in _FINE.items():
            status = "True" if type_ in problems else "False"
            reason, message = problems.get(type_, fine)
            old = known.get(type_)
            is_same = old is not None and old.status == status
            since = old.last_transition_time if is_same and old is not None else None
            is_changed |= not is_same or old is None or (old.reason, old.message) != (reason, message)
            conditions.append(
                {
                    "type": type_, "status": status, "reason": reason, "message": message,
                    "lastTransitionTime": timestamp(since or self.clock.now()),
                }
            )  # fmt: skip
        if is_changed:
            with suppress(Missing):
                patch = {"status": {"conditions": conditions}}
                await self.client.patch(_NAMESPACE, "", namespace.metadata.name, patch, subresource="status")

    async def _finalize(self, name: str) -> None:
        with suppress(Missing):
            data: Data = msgspec.json.decode(await self.client.get(_NAMESPACE, "", name))
            spec = data.setdefault("spec", {})
            if _FINALIZER in (spec.get("finalizers") or ()):
                spec["finalizers"] = [each for each in spec["finalizers"] if each != _FINALIZER]
                await self.client.update(_NAMESPACE, data, subresource="finalize")
