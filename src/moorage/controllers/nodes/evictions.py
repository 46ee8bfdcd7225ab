"""Evictions: pods to be deleted at a given time, a bounded number a second, each node's in turn."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, NamedTuple

from prometheus_client import Counter

from moorage.api.pod import Pod
from moorage.client import ApiError, Missing
from moorage.client.backoff import Backoff
from moorage.client.errors import is_race
from moorage.client.events import NORMAL, Recorder
from moorage.client.informer import Key
from moorage.client.timers import Timers
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.frame.pods import DISRUPTION_TARGET, POD
from moorage.controllers.frame.ratelimit import TokenBucket
from moorage.controllers.nodes.deadlines import EVICT_AT, Deadlines
from moorage.controllers.nodes.nodepods import LONG_AGO, set_condition
from moorage.histogram import Histogram
from moorage.logs import Log
from moorage.match.deferral import NotReady

Reasons = tuple[str, ...]
"""Names that a controller gets back when the eviction was done."""

_LOG = Log(__name__)
_AT_ONCE = 16
_RATE, _BURST = 200.0, 400
_RETRIES = Backoff(first=0.05, last=60.0)
_LONGEST_WHY = 400
_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)


class EvictionCause(NamedTuple):
    """Why pods are evicted: the texts of conditions, events and metrics; `{pod}` is namespace/name."""

    subsystem: str
    reason: str
    message: str
    event: str
    marking: str
    cancelling: str


@dataclass(slots=True, eq=False)
class _Eviction:
    pod: Key
    uid: str
    node: str
    due: datetime
    counted_from: datetime
    because: Reasons
    taken_over: datetime
    failures: int = 0
    begun: bool = False


class Evictions:
    """Deletes pods when they are due, with the condition and the event that say why.

    An eviction is about six writes: condition, deletion and event, then the pod's end, its replacement and its
    binding. 200 a second (after a burst of 400) keep about as many writes in flight as one API server takes, and empty
    a usual node at once; Kubernetes bounds the same by its client's rate. Nodes take turns, so that one with
    thousands of pods holds up nobody.
    """

    def __init__(
        self,
        context: Context,
        recorder: Recorder,
        cause: EvictionCause,
        why: Callable[[Pod], str],
        evicted: Callable[[Reasons], None],
    ) -> None:
        """`why` says what a pod has to leave for, in words that follow those of its event."""
        self._client = context.client
        self._clock = context.clock
        self._recorder = recorder
        self._pods = context.informers.of(Pod)
        self._cause = cause
        self._why = why
        self._evicted = evicted
        self._deadlines = Deadlines(context, cause.subsystem)
        self._planned: dict[str, _Eviction] = {}
        self._timers: Timers[str] = Timers(context.clock, self._due)
        self._ready: OrderedDict[str, deque[_Eviction]] = OrderedDict()
        self._running = 0
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()
        self._bucket = TokenBucket(context.clock, _RATE, _BURST)
        self._deletions = Counter(
            f"{cause.subsystem}_pod_deletions", "Pods that were evicted.", registry=context.registry
        )
        self._durations = Histogram(
            context.registry,
            f"{cause.subsystem}_pod_deletion_duration_seconds",
            "Time from when an eviction was due to the deletion of the pod.",
            _BUCKETS,
        )

    def counts_from(self, pod: Pod) -> datetime:
        """From when taints count at the earliest, beside when they were added.

        That is when a pod was taken over from an earlier leader, whose deadline for it holds: what this one judges
        anew can only be a change that it has just seen.
        """
        eviction = self._planned.get(pod.metadata.uid)
        if eviction is not None:
            return eviction.taken_over
        return LONG_AGO if self._deadlines.inherited(pod) is None else self._clock.now()

    def plan(self, pod: Pod, due: datetime, because: Reasons = ()) -> None:
        """Evict a pod at some time, at once when that has passed; the earlier of this and the pending one holds."""
        metadata, now = pod.metadata, self._clock.now()
        old, taken_over = self._planned.get(metadata.uid), self.counts_from(pod)
        pending = self._deadlines.inherited(pod) if old is None else old.due
        due = due if pending is None else min(due, pending)
        if old is not None and (old.begun or old.due == due):
            old.because = because
            return
        key = metadata.namespace, metadata.name
        eviction = _Eviction(key, metadata.uid, pod.spec.node_name, due, max(due, now), because, taken_over)
        self._planned[metadata.uid] = eviction
        self._timers.cancel(metadata.uid)
        if due > now:
            self._deadlines.set(pod, due)
        elif old is None and pending is not None:
            self._deadlines.set(pod, pending)
        self._evict_after(eviction, (due - now).total_seconds())

    def cancel(self, pod: Pod) -> None:
        """Cancel the eviction of a pod, unless it has begun."""
        eviction = self._planned.get(pod.metadata.uid)
        if eviction is None and self._deadlines.holds(pod):
            self._deadlines.cancel(pod)
        if eviction is None or eviction.begun:
            return
        self.forget(pod)
        self._deadlines.cancel(pod)
        self._event(pod, self._cause.cancelling)

    def hold(self, pod: Pod) -> None:
        """Judging a pod takes long: what is planned stays, also when an earlier leader planned it."""
        if pod.metadata.uid not in self._planned:
            self._deadlines.hold(pod)

    def forget(self, pod: Pod) -> None:
        """A pod is being deleted or gone: nothing is left to be done."""
        self._planned.pop(pod.metadata.uid, None)
        self._timers.cancel(pod.metadata.uid)

    @property
    def is_idle(self) -> bool:
        """Whether no pod is being evicted or due."""
        return not self._running and not self._ready and self._deadlines.is_idle

    async def run(self) -> None:
        """Evict until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._deadlines.run())
                for _ in range(_AT_ONCE):
                    tasks.create_task(self._work())
        finally:
            self._timers.close()

    async def _work(self) -> None:
        while True:
            async with self._turn:
                await self._bucket.wait()
                eviction = await self._take()
            try:
                await self._evict(eviction)
            except Exception as error:  # noqa: BLE001 - one pod's trouble must not end the eviction of others
                self._retry(eviction, error)
            finally:
                self._running -= 1

    async def _take(self) -> _Eviction:
        while True:
            while self._ready:
                node, evictions = self._ready.popitem(last=False)
                eviction = evictions.popleft()
                if evictions:
                    self._ready[node] = evictions
                if self._planned.get(eviction.uid) is eviction:
                    eviction.begun = True
                    self._running += 1
                    return eviction
            self._wake.clear()
            await self._wake.wait()

    async def _evict(self, eviction: _Eviction) -> None:
        pod = self._pods.get(*eviction.pod)
        if pod is None or pod.metadata.uid != eviction.uid or pod.metadata.deletion_timestamp is not None:
            self._planned.pop(eviction.uid, None)
            return
        if not eviction.failures:
            why = self._why(pod)
            self._event(pod, self._cause.marking, f": {why}" if why else "")
        condition = {
            "type": DISRUPTION_TARGET, "status": "True", "reason": self._cause.reason, "message": self._cause.message,
        }  # fmt: skip
        try:
            await set_condition(self._client, pod, self._clock.now(), condition)
            await self._client.delete(POD, *eviction.pod, uid=eviction.uid)
        except Missing:
            self._planned.pop(eviction.uid, None)
            return
        self._deletions.inc()
        self._durations.observe((self._clock.now() - eviction.counted_from).total_seconds())
        self._evicted(eviction.because)

    def _retry(self, eviction: _Eviction, error: Exception) -> None:
        eviction.failures += 1
        delay = _RETRIES.delay(eviction.failures)
        eviction.begun = False
        trace, benign = not isinstance(error, ApiError), is_race(error)
        _LOG.warning("Eviction failed", trace=trace, benign=benign, pod=eviction.pod, retry_seconds=delay, err=error)
        self._evict_after(eviction, delay)

    def _event(self, pod: Pod, text: str, more: str = "") -> None:
        message = text.format(pod=f"{pod.metadata.namespace}/{pod.metadata.name}")
        self._recorder.event(pod, NORMAL, self._cause.event, message + more)

    def _evict_after(self, eviction: _Eviction, seconds: float) -> None:
        if seconds > 0:
            self._timers.set(eviction.uid, seconds)
        else:
            self._due(eviction.uid)

    def _due(self, uid: str) -> None:
        eviction = self._planned.get(uid)
        if eviction is not None:
            self._ready.setdefault(eviction.node, deque()).append(eviction)
            self._wake.set()


def shortened(why: str) -> str:
    """What fits into an event beside Kubernetes' own words."""
    return why if len(why) <= _LONGEST_WHY else f"{why[: _LONGEST_WHY - 1]}…"


class EvictingController(Controller):
    """A controller that judges pods and evicts those that may not stay."""

    cause: ClassVar[EvictionCause]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = context.informers.of(Pod)
        self._evictions = Evictions(context, self.recorder, self.cause, self._why, self._note_evicted)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be judged or evicted now."""
        return super().is_idle and self._evictions.is_idle

    async def run(self) -> None:
        """Judge and evict until cancelled."""
        # All evicting controllers of a process come here before any of them goes on: none removes a deadline that
        # another would have honoured.
        for pod in [each for each in self._pods if EVICT_AT in each.metadata.annotations]:
            try:
                self._settle(pod)
            except NotReady:
                self._evictions.hold(pod)
                self.enqueue(pod)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self._evictions.run())

    def _settle(self, pod: Pod) -> None:
        """Judge a pod: plan its eviction, or cancel it."""
        raise NotImplementedError

    def _why(self, pod: Pod) -> str:
        """What a pod has to leave for; empty when that is no more known."""
        raise NotImplementedError

    def _note_evicted(self, because: Reasons) -> None:
        """Note that a pod was evicted, and what for."""
