"""ControllerRevisions: every template that a StatefulSet or DaemonSet has had, so that one can go back."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data, Object
from moorage.api.workload import ControllerRevision
from moorage.client import Exists, Missing
from moorage.controllers.frame.controller import Context
from moorage.controllers.frame.pods import controller_of
from moorage.controllers.owners.podcontrol import OWNER, index_by_owner, reference_to
from moorage.controllers.owners.templatehash import controller_revision_hash

_REVISION = kinds.row("apps/v1", "ControllerRevision")
_LONGEST_PREFIX = 223
_DEFAULT_LIMIT = 10
"""How many revisions are kept when an owner does not set revisionHistoryLimit."""


class Revisions:
    """The revisions of the owners of one kind, labelled with their hash."""

    def __init__(self, context: Context, label: str) -> None:
        self._client = context.client
        self._label = label
        self._revisions = context.informers.of(ControllerRevision)
        index_by_owner(self._revisions)
        self._revisions.on_change(self._forget)
        self._templates: dict[str, Data] = {}

    def _forget(self, old: ControllerRevision | None, new: ControllerRevision | None) -> None:
        if old is not None and new is None:
            self._templates.pop(old.metadata.uid, None)

    def of(self, owner: Object) -> list[ControllerRevision]:
        """All revisions of an owner, the newest last."""
        return sorted(
            self._revisions.by(OWNER, owner.metadata.uid), key=lambda each: (each.revision, each.metadata.name)
        )

    def hash_of(self, revision: ControllerRevision) -> str:
        """The hash in the labels of a revision."""
        return revision.metadata.labels.get(self._label, "")

    async def template(self, revision: ControllerRevision) -> Data:
        """The template that a revision holds, which never changes."""
        uid = revision.metadata.uid
        if uid not in self._templates:
            data = await self._client.get(_REVISION, revision.metadata.namespace, revision.metadata.name)
            self._templates[uid] = _template_in(msgspec.json.decode(data))
        return self._templates[uid]

    async def latest(self, owner: Object, template: Data, collisions: int) -> tuple[ControllerRevision, int]:
        """The revision of an owner's current template, made the newest, and the collision count."""
        revisions = self.of(owner)
        equal = [each for each in revisions if await self.template(each) == template]
        if not equal:
            number = revisions[-1].revision + 1 if revisions else 1
            return await self._create(owner, template, number, collisions)
        if equal[-1] is revisions[-1]:
            return equal[-1], collisions
        return await self._change(equal[-1], {"revision": revisions[-1].revision + 1}), collisions

    async def _create(
        self, owner: Object, template: Data, number: int, collisions: int
    ) -> tuple[ControllerRevision, int]:
        while True:
            hash_ = controller_revision_hash(template, collisions)
            name = f"{owner.metadata.name[:_LONGEST_PREFIX]}-{hash_}"
            labels = {**((template.get("metadata") or {}).get("labels") or {}), self._label: hash_}
            data = {
                "metadata": {
                    "name": name,
                    "labels": labels,
                    "annotations": owner.metadata.annotations,
                    "ownerReferences": [reference_to(owner)],
                },
                "data": _in_order({"spec": {"template": {**template, "$patch": "replace"}}}),
                "revision": number,
            }
            try:
                return await self._seen(
                    await self._client.create(_REVISION, data, owner.metadata.namespace)
                ), collisions
            except Exists:
                existing = await self._existing(owner, name, template)
            if existing is not None:
                return existing, collisions
            collisions += 1

    async def _existing(self, owner: Object, name: str, template: Data) -> ControllerRevision | None:
        """A revision of this name, if it holds this template and is controlled by the owner or by nobody."""
        answer = await self._client.get(_REVISION, owner.metadata.namespace, name)
        if _template_in(msgspec.json.decode(answer)) != template:
            return None
        revision = msgspec.json.decode(answer, type=ControllerRevision)
        controller = controller_of(revision)
        if controller is None:
            return await self._change(revision, {"metadata": {"ownerReferences": [reference_to(owner)]}})
        return revision if controller.uid == owner.metadata.uid else None

    async def _change(self, revision: ControllerRevision, patch: Data) -> ControllerRevision:
        metadata = revision.metadata
        return await self._seen(await self._client.patch(_REVISION, metadata.namespace, metadata.name, patch))

    async def _seen(self, answer: bytes) -> ControllerRevision:
        revision = msgspec.json.decode(answer, type=ControllerRevision)
        await self._revisions.caught_up(revision.metadata.resource_version)
        return revision

    async def truncate(self, owner: Object, limit: int | None, live: Collection[str]) -> None:
        """Delete the oldest revisions that are not in use (`live` are names), beyond a limit."""
        unused = [each for each in self.of(owner) if each.metadata.name not in live]
        kept = _DEFAULT_LIMIT if limit is None else limit
        for each in unused[: max(0, len(unused) - kept)]:
            with suppress(Missing):
                await self._client.delete(_REVISION, each.metadata.namespace, each.metadata.name, uid=each.metadata.uid)


def _template_in(revision: dict[str, Any]) -> Data:
    template = ((revision.get("data") or {}).get("spec") or {}).get("template") or {}
    return {name: value for name, value in template.items() if name != "$patch"}


def _in_order(data: Data) -> Data:
    """The same with its fields in the order of their names: clients compare revisions byte by byte."""
    ordered: Data = msgspec.json.decode(msgspec.json.encode(data, order="sorted"))
    return ordered
