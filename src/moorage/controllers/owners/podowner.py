"""The base of controllers whose pods differ from each other: StatefulSets, DaemonSets and Jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from moorage.api import kinds
from moorage.api.labels import selector_of
from moorage.api.meta import Data, LabelSelector, Object
from moorage.api.pod import Pod
from moorage.client import ApiError, Informer
from moorage.client.informer import Key
from moorage.client.workqueue import RETRIES
from moorage.controllers.frame.controller import Context, Controller, resource_version
from moorage.controllers.frame.gathering import gather_some, raise_first
from moorage.controllers.owners.podcontrol import (
    ORPHANS,
    OWNER,
    EventMessages,
    PodControl,
    claim,
    follow,
    index_by_owner,
    is_namespace_terminating,
    seconds_to_availability,
)

T = TypeVar("T", bound=Object)

_FEW = 100
_PAUSE, _LONGEST_PAUSE = 5e-4, 1.0
"""Seconds for each pod in which further changes are gathered: each reconciliation goes through all pods."""


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Whether a pod has been ready for long enough."""
    return seconds_to_availability(pod, min_ready_seconds, now) == 0


async def in_batches(tasks: Sequence[Callable[[], Awaitable[Any]]]) -> None:
    """Run one task, then two at a time, then four, until one fails: what fails for all is not tried for all."""
    done, size = 0, 1
    while done < len(tasks):
        raise_first(await gather_some(each() for each in tasks[done : done + size]))
        done, size = done + size, size * 2


class PodOwner(Controller, Generic[T]):
    """A controller of objects that own pods which differ from each other."""

    struct: type[T]
    messages = EventMessages()
    retries = replace(RETRIES, last=60.0)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.kind = kinds.of(self.struct())
        self.owners: Informer[T] = context.informers.of(self.struct)
        self.owners.on_change(self._owner_changed)
        self.pods = context.informers.of(Pod)
        index_by_owner(self.pods)
        follow(self.pods, self.owners, self.selector_of, self.pod_changed, context.gradual)
        self.pod_control = PodControl.of(self, self.pods, self.messages)
        self._specs: dict[str, tuple[int, Data]] = {}

    def selector_of(self, owner: T) -> LabelSelector | None:
        """The selector of an owner's pods."""
        selector: LabelSelector | None = owner.spec.selector  # type: ignore[attr-defined]
        return selector

    def is_member(self, owner: T, pod: Pod) -> bool:  # noqa: ARG002
        """Whether an orphan that the selector matches may be adopted."""
        return True

    def pod_changed(self, key: Key) -> None:
        """Reconcile an owner one of whose pods has changed; the more it has, the longer changes are gathered."""
        owner = self.owners.get(*key)
        count = self.pods.count(OWNER, owner.metadata.uid) if owner is not None else 0
        self.queue.add_after(key, min(count * _PAUSE, _LONGEST_PAUSE) if count > _FEW else 0)

    async def sync(self, owner: T) -> None:
        """Reconcile an owner that exists."""
        raise NotImplementedError

    async def reconcile(self, key: Key) -> None:
        """Reconcile an owner; when the server refuses its pods, try again after the back-off for refused pods."""
        owner = self.owners.get(*key)
        if owner is None:
            self.queue.cancel(key)
            return
        try:
            await self.sync(owner)
        except ApiError as error:
            wait = self.pod_control.seconds_to_wait(owner)
            if not wait and not is_namespace_terminating(error):
                raise
            self.queue.add_after(key, wait or self.retries.last)

    def _owner_changed(self, old: T | None, new: T | None) -> None:
        if new is not None:
            self.enqueue(new)
        elif old is not None:
            self._specs.pop(old.metadata.uid, None)
            self.enqueue(old)

    async def spec_of(self, owner: T) -> Data:
        """The specification of an owner as stored, with the fields that the struct does not have."""
        uid = owner.metadata.uid
        known = self._specs.get(uid)
        if known is None or known[0] < owner.metadata.generation:
            body = await self.client.get(self.kind, owner.metadata.namespace, owner.metadata.name)
            data: Data = msgspec.json.decode(body)
            known = data["metadata"].get("generation", 0), data["spec"]
            if data["metadata"]["uid"] == uid:
                self._specs[uid] = known
        return known[1]

    def owned(self, owner: T) -> list[Pod]:
        """The pods that an owner controls, as they are now."""
        return list(self.pods.by(OWNER, owner.metadata.uid))

    async def claimed(self, owner: T) -> list[Pod]:
        """The pods of an owner, after it has adopted those that match and released those that do not."""
        selector = selector_of(self.selector_of(owner))
        orphans = (pod for pod in self.pods.by(ORPHANS, owner.metadata.namespace) if self.is_member(owner, pod))
        await claim(self.client, self.pods, owner, selector, [*self.owned(owner), *orphans])
        return [pod for pod in self.owned(owner) if selector.matches(pod.metadata.labels)]

    async def write_status(self, owner: T, status: Data) -> None:
        """Write an owner's status unless it is stored already."""
        known = msgspec.to_builtins(owner.status)  # type: ignore[attr-defined]
        if all(known.get(name, type(value)()) == value for name, value in status.items()):
            return
        namespace, name = owner.metadata.namespace, owner.metadata.name
        patch = {"metadata": {"uid": owner.metadata.uid}, "status": status}
        answer = await self.client.patch(self.kind, namespace, name, patch, subresource="status")
        await self.owners.caught_up(resource_version(answer))
