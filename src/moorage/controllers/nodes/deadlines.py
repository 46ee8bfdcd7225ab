"""Deadlines of evictions, written on the pods, so that neither a restart nor another leader changes them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec

from moorage.api.pod import Pod
from moorage.api.rules import rules_of
from moorage.client import ApiError, Missing
from moorage.client.errors import is_race
from moorage.client.informer import Key
from moorage.client.workqueue import WorkQueue, work
from moorage.controllers.frame.controller import Context, resource_version
from moorage.controllers.frame.pods import POD
from moorage.controllers.frame.ratelimit import TokenBucket
from moorage.controllers.nodes.nodepods import bound_at
from moorage.logs import Log

EVICT_AT = "moorage.dev/evict-at"
"""The annotation of a pod whose eviction is pending: when it is due, in RFC 3339."""

_LOG = Log(__name__)
_AT_ONCE = 4
_RATE, _BURST = 100.0, 400


class Deadlines:
    """Keeps the annotation of each pod at the earliest deadline that any controller has set for it.

    It says that and nothing else: whatever somebody else writes there is replaced or removed. An eviction never waits
    for its annotation, and goes on when it cannot be written.
    """

    def __init__(self, context: Context, controller: str) -> None:
        self._client = context.client
        self._pods = context.informers.of(Pod)
        self._controller = controller
        self._due = context.deadlines
        self._attached = context.attached
        self._queue: WorkQueue[Key] = WorkQueue(context.clock)
        self._bucket = TokenBucket(context.clock, _RATE, _BURST)
        self._complained: set[int] = set()
        self._held: dict[str, datetime] = {}
        self._pods.on_change(self._pod_changed)

    def set(self, pod: Pod, due: datetime) -> None:
        """Set when a pod must leave."""
        self._held.pop(pod.metadata.uid, None)
        self._due.setdefault(pod.metadata.uid, {})[self._controller] = due
        self._queue.add(_key(pod))

    def cancel(self, pod: Pod) -> None:
        """A pod may stay. What is written on it is void from now on, also while it is still to be removed."""
        self._held.pop(pod.metadata.uid, None)
        self._due.setdefault(pod.metadata.uid, {}).pop(self._controller, None)
        self._queue.add(_key(pod))

    def hold(self, pod: Pod) -> None:
        """Leave what an earlier leader has written on a pod until the pod is judged, which takes long."""
        due = self.inherited(pod)
        if due is not None:
            self._held[pod.metadata.uid] = due
            self._due.setdefault(pod.metadata.uid, {})[self._controller] = due

    def holds(self, pod: Pod) -> bool:
        """Whether a pod has yet to be judged that an earlier leader wrote a deadline on."""
        return pod.metadata.uid in self._held

    def inherited(self, pod: Pod) -> datetime | None:
        """The deadline that an earlier leader has written on a pod, when no controller of this one has judged it.

        One from before the pod was bound is not its own: somebody copied it from another pod.
        """
        if held := self._held.get(pod.metadata.uid):
            return held
        if EVICT_AT not in pod.metadata.annotations or pod.metadata.uid in self._due:
            return None
        try:
            due = msgspec.convert(pod.metadata.annotations[EVICT_AT], datetime)
        except msgspec.ValidationError:
            return None
        return due if due.tzinfo is not None and due >= bound_at(pod) else None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be written now."""
        return self._queue.is_idle

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(_AT_ONCE):
                    tasks.create_task(work(self._queue, self._write, self._failed))
        finally:
            self._queue.close()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        uid, written = pod.metadata.uid, EVICT_AT in pod.metadata.annotations
        if uid not in self._due and (not written or self._is_of_others(pod)):
            return
        due = self._due.get(uid, {})
        if new is None or new.metadata.deletion_timestamp is not None or not (written or due):
            self._due.pop(uid, None)
            self._held.pop(uid, None)
        elif (not due or min(due, key=due.__getitem__) == self._controller) and not self._is_written(new):
            self._queue.add(_key(new))

    def _is_of_others(self, pod: Pod) -> bool:
        return self._attached and rules_of(pod.metadata.annotations) is None

    def _text(self, uid: str) -> str | None:
        """What should be written on a pod."""
        due = self._due.get(uid)
        return min(due.values()).astimezone(UTC).isoformat().replace("+00:00", "Z") if due else None

    def _is_written(self, pod: Pod) -> bool:
        return pod.metadata.annotations.get(EVICT_AT) == self._text(pod.metadata.uid)

    def _to_write(self, key: Key) -> Pod | None:
        """A pod that does not say what it should."""
        pod = self._pods.get(*key)
        return None if pod is None or self._is_written(pod) else pod

    async def _write(self, key: Key) -> None:
        if self._to_write(key) is None:
            return
        await self._bucket.wait()
        pod = self._to_write(key)
        if pod is None:
            return
        uid = pod.metadata.uid
        patch = {"metadata": {"uid": uid, "annotations": {EVICT_AT: self._text(uid)}}}
        try:
            answer = await self._client.patch(POD, *key, patch)
        except Missing:
            return
        self._complained.clear()
        await self._pods.caught_up(resource_version(answer))

    def _failed(self, key: Key, error: Exception) -> None:
        """Warn once of each sort of failure, however many pods it concerns."""
        code = error.code if isinstance(error, ApiError) else 0
        expected = is_race(error) or code in self._complained
        self._complained.add(code)
        message = "Deadline not written on a pod: after a restart its grace period begins again"
        _LOG.warning(message, trace=not code, benign=expected, pod=key, annotation=EVICT_AT, err=error)


def _key(pod: Pod) -> Key:
    return pod.metadata.namespace, pod.metadata.name
