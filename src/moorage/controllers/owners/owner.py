"""What StatefulSets, DaemonSets and Jobs have in common: owners whose pods are not all made alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from moorage.api import kinds
from moorage.api.labels import selector_of
from moorage.api.meta import LabelSelector, Object
from moorage.api.pod import Pod
from moorage.client import ApiError, Informer
from moorage.client.client import Data
from moorage.client.informer import Key
from moorage.client.workqueue import WorkQueue
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.frame.timers import Alarms
from moorage.controllers.owners.podcontrol import (
    ORPHANS,
    OWNER,
    Children,
    Words,
    claim,
    follow,
    index_by_owner,
    namespace_ends,
    seconds_to_availability,
)

T = TypeVar("T", bound=Object)

_LAST_DELAY = 60.0


def is_finished(pod: Pod) -> bool:
    """Whether a pod has ended, well or not."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_ending(item: Object) -> bool:
    """Whether an object is being deleted."""
    return item.metadata.deletion_timestamp is not None


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Whether a pod has been ready for long enough."""
    return seconds_to_availability(pod, min_ready_seconds, now) == 0


def scaled(value: int | str | None, total: int, *, up: bool) -> int:
    """A number, or a percentage of a total; what is neither counts as 0."""
    if not isinstance(value, str):
        return value or 0
    number = value.removesuffix("%")
    if not number.isdecimal() or number == value:
        return 0
    return -(-int(number) * total // 100) if up else int(number) * total // 100


async def in_batches(work: Sequence[Callable[[], Awaitable[Any]]]) -> None:
    """Do one thing, then two at a time, then four, until one fails: what would fail for all is not tried by all."""
    done, size = 0, 1
    while done < len(work):
        results = await asyncio.gather(*(each() for each in work[done : done + size]), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        done, size = done + size, size * 2


class PodOwner(Controller, Generic[T]):
    """A controller of objects that own pods, which are not all made alike."""

    struct: type[T]
    words = Words()

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.queue = WorkQueue(last_delay=_LAST_DELAY)
        self.alarms = Alarms(context.clock, self.queue.add)
        self.kind = kinds.of(self.struct())
        self.owners: Informer[T] = context.informers.of(self.struct)
        self.owners.on_change(self._owner_changed)
        self.pods = context.informers.of(Pod)
        index_by_owner(self.pods)
        follow(self.pods, self.owners, self.selector_of, self.pod_changed)
        self.children = Children.of(self, self.pods, self.words)
        self._specs: dict[str, tuple[int, Data]] = {}

    def selector_of(self, owner: T) -> LabelSelector | None:
        """What an owner picks its pods by."""
        selector: LabelSelector | None = owner.spec.selector  # type: ignore[attr-defined]
        return selector

    def is_member(self, owner: T, pod: Pod) -> bool:  # noqa: ARG002
        """Whether a pod that nobody owns and the selector picks can be one of an owner's."""
        return True

    def pod_changed(self, key: Key) -> None:
        """Look at an owner one of whose pods has changed."""
        self.queue.add(key)

    async def sync(self, owner: T) -> None:
        """Bring an owner's world in order."""
        raise NotImplementedError

    async def reconcile(self, key: Key) -> None:
        """Bring an owner's world in order; when the server refuses its pods, wait as long as that was agreed."""
        owner = self.owners.get(*key)
        if owner is None:
            self.alarms.cancel(key)
            return
        try:
            await self.sync(owner)
        except ApiError as error:
            wait = self.children.seconds_to_wait(owner)
            if not wait and not namespace_ends(error):
                raise
            self.alarms.set(key, wait or _LAST_DELAY)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        try:
            await super().run()
        finally:
            self.alarms.close()

    def _owner_changed(self, old: T | None, new: T | None) -> None:
        if new is not None:
            self.enqueue(new)
        elif old is not None:
            self._specs.pop(old.metadata.uid, None)
            self.enqueue(old)

    async def spec_of(self, owner: T) -> Data:
        """The specification of an owner as it was written, with all that the struct does not know."""
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
        """The pods that say they belong to an owner, as they are now."""
        return list(self.pods.by(OWNER, owner.metadata.uid))

    async def claimed(self, owner: T) -> list[Pod]:
        """The pods of an owner, after it has adopted those that match and released those that do not."""
        selector = selector_of(self.selector_of(owner))
        orphans = (pod for pod in self.pods.by(ORPHANS, owner.metadata.namespace) if self.is_member(owner, pod))
        await claim(self.client, self.pods, owner, selector, [*self.owned(owner), *orphans])
        return [pod for pod in self.owned(owner) if selector.matches(pod.metadata.labels)]

    async def tell_status(self, owner: T, status: Data) -> None:
        """Write an owner's status when it is not as it is to be."""
        known = msgspec.to_builtins(owner.status)  # type: ignore[attr-defined]
        if all(known.get(name, type(value)()) == value for name, value in status.items()):
            return
        namespace, name = owner.metadata.namespace, owner.metadata.name
        patch = {"metadata": {"uid": owner.metadata.uid}, "status": status}
        answer = await self.client.patch(self.kind, namespace, name, patch, subresource="status")
        await self.owners.caught_up(msgspec.json.decode(answer, type=Object).metadata.resource_version)
