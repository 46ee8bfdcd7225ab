"""The scheduler: follows nodes and pods, decides one pod at a time, and binds many at once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np

from moorage.api import kinds
from moorage.api.meta import Object
from moorage.api.node import Node, Taint
from moorage.api.pod import Pod
from moorage.client import ApiError, Client, Informers, Missing, Unavailable
from moorage.client.client import STRATEGIC
from moorage.client.clock import Clock, timestamp
from moorage.client.events import NORMAL, WARNING, Recorder
from moorage.features import Gates
from moorage.match.tolerations import Tolerations
from moorage.scheduler.config import Configuration
from moorage.scheduler.failures import message_of
from moorage.scheduler.framework import Cycle, Handle, Nomination, Scope
from moorage.scheduler.metrics import Metrics
from moorage.scheduler.profile import NotPermitted, Placement, Profile
from moorage.scheduler.queue import Queue, Queued
from moorage.scheduler.table.nodes import NodeTable
from moorage.scheduler.table.shape import PodInfo, Shape, Shapes

_LOG = logging.getLogger(__name__)
_POD = kinds.row("v1", "Pod")
_SLICE = 0.004
"""Seconds of decisions after which others in the same process have their turn."""
_BINDING = 512
"""How many pods are being bound at a time, at most."""
_FLUSH_SECONDS = 30.0
_FINISH_SECONDS = 2.0
_ROOM_SECONDS = 1.0
"""How long to wait after room could not be made, before it is tried again."""


class Scheduler:
    """Places pods. Decisions are made one by one and never wait; all that waits happens beside them."""

    def __init__(
        self, client: Client, gates: Gates, configuration: Configuration, *, clock: Clock | None = None, seed: int = 0
    ) -> None:
        self.client = client
        self.table = NodeTable()
        self.clock: Clock = clock or Clock()
        self.metrics = Metrics()
        informers = Informers(client)
        self._recorder = Recorder(client, "default-scheduler", self.clock)
        self._shapes = Shapes(gates)
        self.handle = Handle(
            self.table, client, informers, gates, self._recorder, self.clock,
            wake=self._note_wake, unclear=self._note_unclear, wildcard_seconds=self.metrics.wildcard.observe,
            promise=self._promise,
        )  # fmt: skip
        if seed:
            self.handle.random.seed(seed)
        self._pods = informers.of(Pod)
        self._nodes = informers.of(Node)
        self._pods.on_change(self._pod_changed)
        self._nodes.on_change(self._node_changed)
        self.profiles = configuration.profiles(self.handle)
        first = next(iter(self.profiles.values()))
        self.queue = Queue(
            self.clock.monotonic, first.sort_key, configuration.first_backoff, configuration.last_backoff, self._ready
        )
        self.metrics.follow(self.queue)
        self._stale: set[Shape] = set()
        """Of whose nodes some have changed since pods of it were refused, though none that would take them now."""
        self._work = asyncio.Event()
        self._counted: dict[str, PodInfo] = {}
        """The pods in the table, by uid."""
        self._assumed: set[str] = set()
        """Those of them that are being bound."""
        self._changed_rows: set[int] = set()
        self._relieved: set[int] = set()
        """The rows where it is not just that a pod has come."""
        self._unpromised: set[int] = set()
        """The rows where room that was promised to somebody is no longer so."""
        self._woken: set[str] = set()
        self._unclear: set[tuple[str, str, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(_BINDING)

    # -- running ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Place pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._recorder.run())
            try:
                await self.handle.informers.start()
                tasks.create_task(self._flush())
                await self._schedule()
            finally:
                await self._finish()
                await self.handle.informers.stop()

    async def _finish(self) -> None:
        """Let what is under way come to its end: whoever comes next can count only the pods that are bound."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_FINISH_SECONDS)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _schedule(self) -> None:
        end = 0.0
        while True:
            # Much may happen while there is no slot: only then it is time to see who is next.
            await self._slots.acquire()
            self._wake_pods()
            entry = self.queue.pop()
            if entry is not None:
                await self._warm(entry)
            if entry is None or not self._try(entry):
                self._slots.release()
            if entry is None:
                await self._idle()
            elif time.perf_counter() > end:
                await asyncio.sleep(0)
                end = time.perf_counter() + _SLICE

    async def _warm(self, entry: Queued) -> None:
        """Let plugins find out what they were never asked before, while others in the same process have their turns."""
        profile, end = self._profile(entry.info), time.perf_counter() + _SLICE
        try:
            for _ in profile.warm(entry.info) if profile else ():
                if time.perf_counter() > end:
                    await asyncio.sleep(0)
                    end = time.perf_counter() + _SLICE
        except Exception:  # noqa: BLE001 - whoever stumbles here is asked again when the pod is tried
            _LOG.exception('not prepared pod="%s/%s"', *entry.info.key)

    async def _idle(self) -> None:
        self._work.clear()
        due = self.queue.next_due()
        timer = None if due is None else self.clock.call_later(due - self.queue.now(), self._work.set)
        try:
            await self._work.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _ready(self) -> None:
        self._work.set()

    async def _flush(self) -> None:
        while True:
            await self.clock.sleep(_FLUSH_SECONDS)
            self.queue.flush_unschedulable(self._stale)
            self._stale.clear()

    # -- one pod ------------------------------------------------------------------------------------------------

    def _try(self, entry: Queued) -> bool:
        """Decide about one pod. True when it is being bound, which gives the slot back."""
        profile = self._profile(entry.info)
        if profile is None or entry.info.pod.metadata.deletion_timestamp is not None or not self.queue.tries(entry):
            return False
        start = time.perf_counter()
        cycle = Cycle(entry.info, self.table, profile, self.metrics.timings())
        try:
            placement = profile.place(cycle)
            if placement.node:
                placement = self._reserved(cycle, placement)
        except Exception:  # noqa: BLE001 - one pod that a plugin stumbles over must not keep all others waiting
            _LOG.exception('no decision pod="%s/%s"', *entry.info.key)
            self.queue.retry(entry)
            self.metrics.attempted(profile.name, "error", start)
            return False
        self.metrics.decided(profile.name, start, cycle)
        if not placement.node:
            self._rejected(entry, cycle, placement)
            self.metrics.attempted(profile.name, "unschedulable", start)
            return False
        self._assume(entry.info, placement.node)
        self._begin(self._bind(entry, cycle, placement.node, start))
        return True

    def _profile(self, info: PodInfo) -> Profile | None:
        return self.profiles.get(info.pod.spec.scheduler_name or "default-scheduler")

    def _reserved(self, cycle: Cycle, placement: Placement) -> Placement:
        reserves = cycle.profile.reserves
        for number, plugin in enumerate(reserves):
            if reason := plugin.reserve(cycle, placement.node):
                for done in reversed(reserves[: number + 1]):
                    done.unreserve(cycle, placement.node)
                return Placement(refused=(plugin.name, reason))
        return placement

    def _assume(self, info: PodInfo, node: str) -> None:
        """Count a pod on its node from now on, so that the next decision knows."""
        assumed = PodInfo(info.pod, info.shape, node)
        self._counted[info.uid] = assumed
        self._assumed.add(info.uid)
        self._promise(info, "")
        self.table.add_pod(assumed)

    async def _bind(self, entry: Queued, cycle: Cycle, node: str, start: float) -> None:
        info, profile = entry.info, cycle.profile
        try:
            await self._prepared(cycle, node)
            await self._bound(cycle, node)
        except Exception as error:  # noqa: BLE001 - whatever a plugin does, what the pod took is given back
            expected = isinstance(error, ApiError | NotPermitted)
            _LOG.warning('binding failed pod="%s/%s" node="%s": %s', *info.key, node, error, exc_info=not expected)
            self._forget(entry, cycle, node)
            self.metrics.attempted(profile.name, "error", start)
            message = str(error) if isinstance(error, NotPermitted) else f"running Bind plugin: {error}"
            self._recorder.event(info.pod, WARNING, "FailedScheduling", message, "Scheduling")
        else:
            _LOG.debug('bound pod="%s/%s" node="%s"', *info.key, node)
            self.queue.remove(info.uid)
            self.metrics.attempted(profile.name, "scheduled", start)
            self.metrics.bound(entry, self.queue.now())
            message = f"Successfully assigned {info.key[0]}/{info.key[1]} to {node}"
            self._recorder.event(info.pod, NORMAL, "Scheduled", message, "Binding")
        finally:
            self._slots.release()

    async def _prepared(self, cycle: Cycle, node: str) -> None:
        """Do what must come before a binding. Who waits for volumes, minutes perhaps, takes nobody's slot meanwhile."""
        if not cycle.profile.holds_back(cycle):
            return
        self._slots.release()
        try:
            await cycle.profile.prepare(cycle, node)
        finally:
            await self._slots.acquire()

    async def _bound(self, cycle: Cycle, node: str) -> None:
        """Bind a pod. When the answer is lost the pod itself tells what became of it."""
        wait = 0.1
        while True:
            try:
                await cycle.profile.binds[0].bind(cycle, node)
            except Unavailable as error:
                _LOG.warning('no answer to a binding pod="%s/%s": %s', *cycle.pod.key, error)
            else:
                return
            await self.clock.sleep(wait)
            wait = min(wait * 2, 5.0)
            try:
                pod = msgspec.json.decode(await self.client.get(_POD, *cycle.pod.key), type=Pod)
            except Unavailable:
                continue
            if pod.metadata.uid == cycle.pod.uid and pod.spec.node_name == node:
                return

    def _forget(self, entry: Queued, cycle: Cycle, node: str) -> None:
        """A pod was not bound after all: what it took is free again, and it is tried again later."""
        for plugin in reversed(cycle.profile.reserves):
            plugin.unreserve(cycle, node)
        info = entry.info
        if info.uid in self._assumed:
            self._assumed.discard(info.uid)
            self._uncount(info.uid)
            # Nobody else hears of it: who waits for other pods to leave may have waited for this one.
            self._woken.update(plugin.name for plugin in cycle.profile.filters if plugin.scope is Scope.CLUSTER)
        self.queue.retry(entry)
        pod = self._pods.get(*info.key)
        if pod is not None and pod is not info.pod and info.uid in self.queue.pods:
            # What was said of the pod meanwhile was left for now.
            self._unassigned(info.pod, pod)

    # -- failure ------------------------------------------------------------------------------------------------

    def _rejected(self, entry: Queued, cycle: Cycle, placement: Placement) -> None:
        nomination = Nomination()
        said: list[str] = []
        if not placement.refused:
            self.metrics.preempted()
            for plugin in cycle.profile.post_filters:
                nomination = plugin.post_filter(cycle, placement.rejections)
                said.append(nomination.message)
                if nomination.act is not None:
                    self._begin(self._make_room(entry, nomination.act))
                if nomination.node:
                    break
        message = message_of(self.table.count, placement, ", ".join(filter(None, said)))
        plugins = placement.plugins or {cycle.rejected_by} - {""}
        _LOG.debug('unschedulable pod="%s/%s": %s', *entry.info.key, message)
        cycle.profile.settle(cycle)
        self.queue.failed(entry, plugins)
        info = entry.info
        self._recorder.event(info.pod, WARNING, "FailedScheduling", message, "Scheduling")
        if nomination.node or nomination.hopeless:
            self._promise(info, nomination.node)
        promised = next((node for node, pods in self.handle.nominated.items() if info.uid in pods), "")
        self._begin(self._say_unschedulable(info, message, promised))

    async def _make_room(self, entry: Queued, act: Callable[[], Any]) -> None:
        attempts = entry.attempts
        try:
            await act()
        except ApiError as error:
            _LOG.warning('making room failed pod="%s/%s": %s', *entry.info.key, error)
            await self.clock.sleep(_ROOM_SECONDS)
            self.queue.wake(entry)
        else:
            if entry.attempts > attempts:
                # It was tried meanwhile, and only told to wait for the end of this.
                self.queue.wake(entry)

    async def _say_unschedulable(self, info: PodInfo, message: str, promised: str) -> None:
        """Write into the pod's status why it is not placed; nothing is written twice."""
        now = next((each for each in info.pod.status.conditions if each.type == "PodScheduled"), None)
        status: dict[str, Any] = {}
        if now is None or (now.status, now.reason, now.message) != ("False", "Unschedulable", message):
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            if now is None or now.status != "False":
                condition["lastTransitionTime"] = timestamp(self.clock.now())
            status["conditions"] = [condition]
        if promised != info.pod.status.nominated_node_name:
            status["nominatedNodeName"] = promised or None
        if not status:
            return
        patch = {"metadata": {"uid": info.uid}, "status": status}
        try:
            await self.client.patch(_POD, *info.key, patch, subresource="status", form=STRATEGIC)
        except Missing:
            return
        except ApiError as error:
            _LOG.warning('status not written pod="%s/%s": %s', *info.key, error)

    def _promise(self, info: PodInfo, node: str) -> None:
        """Keep room for a pod on a node and nowhere else, or, without a node, nowhere at all."""
        for other, promised in list(self.handle.nominated.items()):
            if other != node and promised.pop(info.uid, None) is not None:
                self._note_unpromised(other)
                if not promised:
                    del self.handle.nominated[other]
        if node:
            self.handle.nominated.setdefault(node, {})[info.uid] = info

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- what happens -------------------------------------------------------------------------------------------

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            row = self.table.remove_node(old.metadata.name)
            for uid in self.handle.nominated.get(old.metadata.name, ()):
                if entry := self.queue.pods.get(uid):
                    self.queue.wake(entry)
        elif old is not None and _same_place(old, new):
            self.table.see_node(new)
            return
        else:
            row = self.table.set_node(new)
        if row is not None:
            self._note_row(row, relieved=True)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        uid = pod.metadata.uid
        if new is None or new.status.phase in ("Succeeded", "Failed"):
            self._gone(pod)
        elif new.spec.node_name:
            self._assigned(new)
        elif uid not in self._assumed:
            self._unassigned(old, new)

    def _gone(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.queue.remove(uid)
        self._assumed.discard(uid)
        self._uncount(uid)
        self._promise(self._shapes.info(pod), "")

    def _assigned(self, pod: Pod) -> None:
        info = self._shapes.info(pod)
        self.queue.remove(info.uid)
        self._assumed.discard(info.uid)
        self._promise(info, "")
        counted = self._counted.get(info.uid)
        if counted is not None and counted.node_name != info.node_name:
            self._uncount(info.uid)
        row = self.table.replace_pod(info)
        self._counted[info.uid] = info
        if row is not None:
            self._note_row(row)

    def _unassigned(self, old: Pod | None, new: Pod) -> None:
        if (new.spec.scheduler_name or "default-scheduler") not in self.profiles:
            return
        if new.metadata.deletion_timestamp is not None:
            self._gone(new)
            return
        info = self._shapes.info(new)
        promised = new.status.nominated_node_name
        withdrawn = old is not None and old.status.nominated_node_name not in ("", promised)
        if promised or withdrawn:
            self._promise(info, promised)
        if old is not None and info.uid in self.queue.pods and _same_question(old, new):
            self.queue.update(info)
            if withdrawn:
                self.queue.wake(self.queue.pods[info.uid])
            return
        profile = self._profile(info)
        self.queue.add(info, profile.waits(info) if profile else "")

    def _uncount(self, uid: str) -> None:
        info = self._counted.pop(uid, None)
        row = self.table.remove_pod(info) if info is not None else None
        if row is not None:
            self._note_row(row, relieved=True)

    def _note_row(self, row: int, *, relieved: bool = False) -> None:
        if self.queue.waits():
            self._changed_rows.add(row)
            if relieved:
                self._relieved.add(row)
            self._work.set()

    def _note_unpromised(self, node: str) -> None:
        row = self.table.rows.get(node)
        if row is not None and self.queue.waits():
            self._unpromised.add(row)
            self._relieved.add(row)
            self._work.set()

    def _note_wake(self, plugin: str, old: Object | None, new: Object | None) -> None:
        self._woken.add(plugin)
        self._work.set()

    def _wake_pods(self) -> None:
        """Let those pods be tried again for whom something has changed that could let them fit."""
        if not self._changed_rows and not self._unpromised and not self._woken:
            return
        rows, unpromised = (np.array(sorted(each), np.intp) for each in (self._changed_rows, self._unpromised))
        relieved, woken = self._relieved, self._woken
        self._changed_rows, self._relieved, self._unpromised, self._woken = set(), set(), set(), set()
        for shape in self.queue.waiting_shapes():
            waiting = self.queue.waiting(shape)
            profile = self._profile(waiting[0].info)
            assert profile is not None  # others are not in the queue
            opened = profile.opens(Cycle(waiting[0].info, self.table, profile), rows, unpromised)
            if not shape.has_claims:
                opened = opened or self._could_open(waiting[0], profile, relieved)
            for entry in waiting:
                if (
                    opened
                    or not woken.isdisjoint(entry.plugins)
                    or (shape.has_claims and self._could_open(entry, profile, relieved))
                ):
                    self.queue.wake(entry)
            if not opened and len(rows):
                self._stale.add(shape)

    def _could_open(self, entry: Queued, profile: Profile, rows: Iterable[int]) -> bool:
        cycle = Cycle(entry.info, self.table, profile)
        return any(profile.could_open(cycle, row) for row in rows)

    def _note_unclear(self, tolerations: Tolerations, taint: Taint) -> None:
        """Say once for each value that a taint could not be understood."""
        verdict = tolerations.verdict(taint)
        if verdict.error:
            self.metrics.unclear.labels(verdict.log).inc()
            seen = (verdict.log, taint.key, taint.value)
            if seen not in self._unclear and len(self._unclear) < 10_000:
                self._unclear.add(seen)
                _LOG.warning('%s taint="%s": %s', verdict.log, taint, verdict.error)


def _same_place(old: Node, new: Node) -> bool:
    """Whether nothing has changed that placement depends on."""
    return (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.status.allocatable == new.status.allocatable
        and old.status.images == new.status.images
    )


def _same_question(old: Pod, new: Pod) -> bool:
    """Whether nothing has changed that could make a difference to where a pod may go."""
    return (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.status.resource_claim_statuses == new.status.resource_claim_statuses
    )
