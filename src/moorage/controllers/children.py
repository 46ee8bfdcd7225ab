"""Pods that belong to somebody: made from a template, deleted by name, with a word about either."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.api.meta import Object, OwnerReference
from moorage.api.pod import Pod
from moorage.client import ApiError, Client, Informer, Missing
from moorage.client.client import Data
from moorage.client.events import NORMAL, WARNING, Recorder

POD = kinds.row("v1", "Pod")
OWNER = "owner"
"""The index of pods by the uid of the owner that controls them."""


def controller_of(item: Object) -> OwnerReference | None:
    """The one owner that manages an object."""
    return next((each for each in item.metadata.owner_references if each.controller), None)


def index_by_owner(pods: Informer[Any]) -> None:
    """Keep objects by the uid of the owner that controls them."""
    pods.index(OWNER, lambda item: [owner.uid] if (owner := controller_of(item)) else [])


def reference_to(owner: Object) -> Data:
    """How an object says that another controls it."""
    kind = kinds.of(owner)
    return {
        "apiVersion": kind.api_version, "kind": kind.kind, "name": owner.metadata.name, "uid": owner.metadata.uid,
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip


class Children:
    """Creates and deletes the pods of owners. It returns when the informer has seen what was done.

    So whoever asks the informer next sees it too, and no pod is made twice.
    """

    def __init__(self, client: Client, pods: Informer[Pod], recorder: Recorder) -> None:
        self._client = client
        self._pods = pods
        self._recorder = recorder

    async def create(self, owner: Object, template: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
        """Make a pod from a template as it was written, unknown fields included.

        `metadata` has its name or generateName, and adds to (or replaces) labels and annotations of the template.
        What the server refuses is told in an event of the owner and raised. Returns the pod's name.
        """
        given: Data = dict(template.get("metadata") or {})
        for part in ("labels", "annotations"):
            given[part] = {**(given.get(part) or {}), **(metadata.get(part) or {})}
        own = {key: metadata[key] for key in ("name", "generateName", "finalizers") if key in metadata}
        kept = {key: given[key] for key in ("labels", "annotations", "finalizers") if given.get(key)}
        data = {
            "metadata": {**kept, **own, "ownerReferences": [reference_to(owner)]},
            "spec": template.get("spec") or {},
        }
        try:
            made = msgspec.json.decode(await self._client.create(POD, data, owner.metadata.namespace), type=Object)
        except ApiError as error:
            self._recorder.event(owner, WARNING, "FailedCreate", f"Error creating: {error}")
            raise
        self._recorder.event(owner, NORMAL, "SuccessfulCreate", f"Created pod: {made.metadata.name}")
        await self._pods.caught_up(made.metadata.resource_version)
        return made.metadata.name

    async def delete(self, owner: Object, pod: Pod) -> None:
        """Delete a pod, this very one; one that is gone already is as good."""
        metadata = pod.metadata
        try:
            answer = await self._client.delete(POD, metadata.namespace, metadata.name, uid=metadata.uid)
        except Missing:
            return
        except ApiError as error:
            self._recorder.event(owner, WARNING, "FailedDelete", f"Error deleting: {error}")
            raise
        self._recorder.event(owner, NORMAL, "SuccessfulDelete", f"Deleted pod: {metadata.name}")
        await self._pods.caught_up(msgspec.json.decode(answer, type=Object).metadata.resource_version)
