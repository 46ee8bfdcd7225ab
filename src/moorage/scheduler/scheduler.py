"""The scheduler: follows nodes and pods by informers, feeds the queue, and runs a cycle for one pod after the other."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

from moorage.api import kinds
from moorage.api.meta import Object
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.rules import rules_of
from moorage.client import ApiError, Client, Informers
from moorage.client.backoff import Backoff
from moorage.client.clock import Clock
from moorage.client.errors import is_race
from moorage.client.events import NORMAL, WARNING, Recorder
from moorage.client.rights import Right
from moorage.features import Gates
from moorage.logs import Log
from moorage.match.deferral import NotReady, deferring
from moorage.pace import SLICES
from moorage.scheduler.config import Configuration
from moorage.scheduler.cycle import CycleRunner, NotPermitted, Placement
from moorage.scheduler.explaining import Explaining
from moorage.scheduler.failures import message_of
from moorage.scheduler.framework import Cycle, Handle, Nomination, Scope
from moorage.scheduler.metrics import SchedulerMetrics
from moorage.scheduler.parseerrors import ParseErrors
from moorage.scheduler.preparing import Preparing
from moorage.scheduler.profile import scheduler_name
from moorage.scheduler.queue import Queue, Queued
from moorage.scheduler.statuswriter import StatusWriter
from moorage.scheduler.table.nodes import NodeTable
from moorage.scheduler.table.shape import FINISHED, PodInfo, Shapes
from moorage.scheduler.waking import Waking

_LOG = Log(__name__)
_POD = kinds.row("v1", "Pod")
BINDING_RIGHTS = (Right("create", _POD, "binding"), Right("patch", _POD, "status"))
"""What a scheduler must be allowed to write."""
SLICE_SECONDS = 0.004
"""Seconds of decisions after which others in the same process have their turn."""
WARM_SLICES = 12
"""How often others have their turn while a pod is prepared until other pods pass it."""
SEARCH_STEPS = 6
"""How many steps are taken at once to make room for a pod, until other pods pass it."""
_BINDINGS = 512
"""How many pods are being bound at a time, at most."""
_WARM = object()
_FLUSH_SECONDS = 30.0
_FINISH_SECONDS = 2.0
_PREEMPTION_RETRY_SECONDS = 1.0
"""How long to wait after victims could not be removed, before the pod is tried again."""


class Scheduler:
    """Places pods. Decisions are synchronous, one after the other; whatever waits runs in tasks beside them."""

    def __init__(
        self, client: Client, gates: Gates, configuration: Configuration, *,
        clock: Clock | None = None, seed: int = 0, slots: asyncio.Semaphore | None = None,
        recorder: Recorder | None = None, quiet: bool = False,
    ) -> None:  # fmt: skip
        """`slots` limits how many pods are being bound at a time; `recorder` is given the events.

        `quiet`: values that do not parse are not logged.
        """
        self.client = client
        self.table = NodeTable()
        self.clock: Clock = clock or Clock()
        self.metrics = SchedulerMetrics(gates)
        informers = Informers(client)
        self._recorder = recorder or Recorder(client, configuration.specs[0].scheduler_name, self.clock)
        self.shapes = Shapes(gates)
        self._explaining = Explaining()
        errors = ParseErrors(self.metrics, quiet=quiet)
        self.handle = Handle(
            self.table, client, informers, gates, self._recorder, self.clock,
            wake=self._plugin_changed, parse_error=errors.note, label_error=errors.note_labels,
            device_error=errors.note_device, wildcard_seconds=self.metrics.wildcard.observe,
        )  # fmt: skip
        if seed:
            self.handle.random.seed(seed)
        self._nominations = self.handle.nominations
        self._nominations.on_release = self._nomination_released
        self._pods = informers.of(Pod)
        self._nodes = informers.of(Node)
        self._pods.on_change(self._pod_changed)
        self._nodes.on_change(self._node_changed)
        self.runners = {
            name: CycleRunner(profile, self.handle) for name, profile in configuration.profiles(self.handle).items()
        }
        self._recorders = {name: self._recorder.named(name) for name in self.runners}
        self._work = asyncio.Event()
        first = next(iter(self.runners.values()))
        backoff = Backoff(configuration.first_backoff, configuration.last_backoff)
        self.queue = Queue(self.clock.monotonic, first.profile.queue_sort.sort_key, backoff, self._work.set)
        self.waking = Waking(self.queue, self._runner)
        self.preparing = Preparing(self.queue)
        self.metrics.follow(self.queue)
        self.counted: dict[str, PodInfo] = {}
        """The pods in the table, by uid."""
        self.assumed: set[str] = set()
        """Those of them that are being bound."""
        self.tasks: set[asyncio.Task[None]] = set()
        """What is under way beside the decisions: bindings, preemptions and updates of status."""
        self._slots = slots or asyncio.Semaphore(_BINDINGS)
        self._statuses = StatusWriter(client, self.clock)

    async def run(self) -> None:
        """Place pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._recorder.run())
            try:
                await self.handle.informers.start()
                tasks.create_task(self._flush())
                await self.schedule()
            finally:
                await self._finish()
                await self.handle.informers.stop()

    async def _finish(self) -> None:
        """Let what is under way come to its end: the next leader can count only the pods that are bound."""
        await self.preparing.stop()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=_FINISH_SECONDS)
        left = list(self.tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def schedule(self) -> None:
        """Try the pods in the queue one after the other, forever. `run` also follows the API server meanwhile."""
        end, clock = 0.0, SLICES.get()
        while True:
            # Only with a slot in hand: the queue may change while all slots are taken.
            await self._slots.acquire()
            self.waking.wake()
            entry = self.queue.pop()
            if entry is not None:
                await self._warm(entry)
            if entry is None or not self.attempt(entry):
                self._slots.release()
            if entry is None:
                await self._idle()
            elif clock() >= end:
                await asyncio.sleep(0)
                end = clock() + SLICE_SECONDS

    async def _warm(self, entry: Queued) -> None:
        """Let plugins prepare for a pod, with pauses in which others in the same process have their turn.

        When that takes long and other pods wait, these pass it.
        """
        if self.preparing.join(entry):
            return
        runner, clock = self._runner(entry.info), SLICES.get()
        end = clock() + SLICE_SECONDS
        slices = 0
        try:
            steps = runner.warm(entry.info) if runner else iter(())
            while True:
                with deferring():
                    if next(steps, _WARM) is _WARM:
                        return
                if clock() > end:
                    await asyncio.sleep(0)
                    end, slices = clock() + SLICE_SECONDS, slices + 1
                    if slices >= WARM_SLICES and self.queue.has_other(entry.info.shape):
                        self.preparing.go_on(entry, steps)
                        return
        except NotReady as later:
            self.preparing.park(entry, later.work)
        except Exception:  # noqa: BLE001 - a plugin that fails here is asked again when the pod is tried
            _LOG.exception("Pod not prepared", pod=entry.info.key)

    async def _idle(self) -> None:
        self._work.clear()
        due = self.queue.next_due()
        timer = None if due is None else self.clock.call_later(due - self.queue.now(), self._work.set)
        try:
            await self._work.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _flush(self) -> None:
        while True:
            await self.clock.sleep(_FLUSH_SECONDS)
            self.queue.flush_unschedulable(self.waking.take_outdated())

    def _runner(self, info: PodInfo) -> CycleRunner | None:
        return self.runners.get(scheduler_name(info.pod))

    def attempt(self, entry: Queued) -> bool:
        """Decide about one pod. True when it is being bound: that task gives the slot back."""
        runner = self._runner(entry.info)
        if runner is None or entry.info.pod.metadata.deletion_timestamp is not None or not self.queue.tries(entry):
            return False
        start = time.perf_counter()
        cycle = runner.start(entry.info, self.metrics.timings())
        try:
            with deferring():
                placement = runner.place(cycle)
            if placement.node:
                placement = runner.reserve(cycle, placement)
        except NotReady as later:
            self.preparing.park(entry, later.work)
            return False
        except Exception:  # noqa: BLE001 - one pod that a plugin fails on must not keep all others waiting
            _LOG.exception("No decision about a pod", pod=entry.info.key)
            self.queue.retry(entry)
            self.metrics.attempted(runner.name, "error", start)
            return False
        self.metrics.decided(runner.name, start, cycle)
        if not placement.node:
            if self._goes_on(entry, runner.search(cycle, placement)):
                return False
            self._rejected(entry, runner, cycle, placement)
            self.metrics.attempted(runner.name, "unschedulable", start)
            return False
        self.assume(entry.info, placement.node)
        self._begin(self._bind(entry, runner, cycle, placement.node, start))
        return True

    def _goes_on(self, entry: Queued, search: Iterator[None]) -> bool:
        """Take the first steps to make room; whether there are more, which are taken beside the decisions."""
        for _ in itertools.islice(search, SEARCH_STEPS):
            pass
        ended = next(search, _WARM) is _WARM
        if not ended:
            self.preparing.go_on(entry, search)
        return not ended

    def assume(self, info: PodInfo, node: str) -> None:
        """Count a pod on its node already, so that the next decision takes it into account."""
        assumed = PodInfo(info.pod, info.shape, node)
        self.counted[info.uid] = assumed
        self.assumed.add(info.uid)
        self._nominations.release(info.uid)
        self.table.add_pod(assumed)

    def retract(self, uid: str) -> None:
        """Count a pod no more that was only assumed."""
        self.assumed.discard(uid)
        self._uncount(uid)

    async def _bind(self, entry: Queued, runner: CycleRunner, cycle: Cycle, node: str, start: float) -> None:
        info = entry.info
        try:
            await self._permit(runner, cycle, node)
            await runner.bind(cycle, node)
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises, what was reserved is given back
            trace, benign = not isinstance(error, ApiError | NotPermitted), is_race(error)
            _LOG.warning("Binding failed", trace=trace, benign=benign, pod=info.key, node=node, err=error)
            self._forget(entry, runner, cycle, node)
            self.metrics.attempted(runner.name, "error", start)
            message = str(error) if isinstance(error, NotPermitted) else f"running Bind plugin: {error}"
            self._recorders[runner.name].event(info.pod, WARNING, "FailedScheduling", message, "Scheduling")
            if isinstance(error, NotPermitted):
                self._begin(self._statuses.write(info, message, ""))
        else:
            _LOG.info("Bound pod", v=2, pod=info.key, node=node)
            self.queue.remove(info.uid)
            self.metrics.attempted(runner.name, "scheduled", start)
            self.metrics.bound(entry, self.queue.now())
            message = f"Successfully assigned {info.key[0]}/{info.key[1]} to {node}"
            self._recorders[runner.name].event(info.pod, NORMAL, "Scheduled", message, "Binding")
        finally:
            self._slots.release()

    async def _permit(self, runner: CycleRunner, cycle: Cycle, node: str) -> None:
        """Permit and pre-bind. A pod that waits for volumes, minutes perhaps, takes no slot meanwhile."""
        if not runner.may_wait(cycle):
            return
        self._slots.release()
        try:
            await runner.permit(cycle, node)
        finally:
            await self._slots.acquire()

    def _forget(self, entry: Queued, runner: CycleRunner, cycle: Cycle, node: str) -> None:
        """Undo `assume` for a pod that was not bound, and try it again later."""
        runner.unreserve(cycle, node)
        info = entry.info
        if info.uid in self.assumed:
            self.retract(info.uid)
            # No informer will tell: pods that wait for others to leave may have waited for this one.
            filters = runner.profile.filters
            self.waking.plugins_changed(*(plugin.name for plugin in filters if plugin.scope is Scope.CLUSTER))
        self.queue.retry(entry)
        pod = self._pods.get(*info.key)
        if pod is not None and pod is not info.pod and info.uid in self.queue.pods:
            # Changes of the pod were ignored while it was assumed.
            self._unassigned(info.pod, pod)

    def _rejected(self, entry: Queued, runner: CycleRunner, cycle: Cycle, placement: Placement) -> None:
        """No node fits: try to make room, and tell the user why the pod waits."""
        nominations: list[Nomination] = []
        if not placement.not_reserved:
            self.metrics.preempted()
            nominations = runner.post_filter(cycle, placement)
        for nomination in nominations:
            if nomination.act is not None:
                self._begin(self._make_room(entry, nomination.act))
        afterthought = ", ".join(nomination.message for nomination in nominations if nomination.message)
        why = self._explaining.sentence(cycle, runner.profile.filters, placement.rejections)
        message = message_of(self.table.count, placement, afterthought, why)
        info = entry.info
        _LOG.info("Unable to schedule pod", v=2, pod=info.key, err=message)
        self.queue.failed(entry, placement.plugins or {cycle.rejected_by} - {""})
        self._recorders[runner.name].event(info.pod, WARNING, "FailedScheduling", message, "Scheduling")
        if nominations and nominations[-1].node:
            self._nominations.nominate(info, nominations[-1].node)
        elif nominations and nominations[-1].hopeless:
            self._nominations.release(info.uid)
        self._begin(self._statuses.write(info, message, self._nominations.node_of(info.uid)))

    async def _make_room(self, entry: Queued, act: Callable[[], Awaitable[None]]) -> None:
        attempts = entry.attempts
        try:
            await act()
        except ApiError as error:
            _LOG.warning("Preemption failed", benign=is_race(error), pod=entry.info.key, err=error)
            await self.clock.sleep(_PREEMPTION_RETRY_SECONDS)
            self.queue.wake(entry)
        else:
            if entry.attempts > attempts:
                # It was tried meanwhile, and rejected because the preemption was not finished.
                self.queue.wake(entry)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            row = self.table.remove_node(old.metadata.name)
            for uid in self._nominations.by_node.get(old.metadata.name, ()):
                if entry := self.queue.pods.get(uid):
                    self.queue.wake(entry)
        elif old is not None and _places_alike(old, new):
            self.table.see_node(new)
            return
        else:
            row = self.table.set_node(new)
        if row is not None:
            self.waking.row_changed(row, relieved=True)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        uid = pod.metadata.uid
        if new is None or new.status.phase in FINISHED:
            self._gone(uid)
        elif new.spec.node_name:
            self._assigned(new)
        elif uid not in self.assumed:
            self._unassigned(old, new)

    def _gone(self, uid: str) -> None:
        if entry := self.queue.pods.get(uid):
            self.queue.remove(uid)
            self.preparing.forget(entry.info.shape)
        self.assumed.discard(uid)
        self._uncount(uid)
        self._nominations.release(uid)

    def _assigned(self, pod: Pod) -> None:
        info = self.shapes.assigned(pod)
        self.queue.remove(info.uid)
        self.assumed.discard(info.uid)
        self._nominations.release(info.uid)
        counted = self.counted.get(info.uid)
        if counted is not None and counted.node_name != info.node_name:
            self._uncount(info.uid)
        row = self.table.replace_pod(info)
        self.counted[info.uid] = info
        if row is not None:
            self.waking.row_changed(row)

    def _unassigned(self, old: Pod | None, new: Pod) -> None:
        if scheduler_name(new) not in self.runners:
            return
        if new.metadata.deletion_timestamp is not None:
            self._gone(new.metadata.uid)
            return
        info = self.shapes.info(new)
        nominated = new.status.nominated_node_name
        withdrawn = old is not None and old.status.nominated_node_name not in ("", nominated)
        if nominated:
            self._nominations.nominate(info, nominated)
        elif withdrawn:
            self._nominations.release(info.uid)
        if old is not None and info.uid in self.queue.pods and _asks_alike(old, new):
            self.queue.update(info)
            if withdrawn:
                self.queue.wake(self.queue.pods[info.uid])
            return
        runner = self._runner(info)
        self.queue.add(info, runner.pre_enqueue(info) if runner else "")

    def _uncount(self, uid: str) -> None:
        info = self.counted.pop(uid, None)
        row = self.table.remove_pod(info) if info is not None else None
        if row is not None:
            self.waking.row_changed(row, relieved=True)

    def _nomination_released(self, node: str) -> None:
        row = self.table.rows.get(node)
        if row is not None:
            self.waking.row_released(row)

    def _plugin_changed(self, plugin: str, old: Object | None, new: Object | None) -> None:
        self.waking.plugins_changed(plugin)


def _places_alike(old: Node, new: Node) -> bool:
    """Whether nothing of a node has changed that placement depends on."""
    return (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.status.allocatable == new.status.allocatable
        and old.status.images == new.status.images
    )


def _asks_alike(old: Pod, new: Pod) -> bool:
    """Whether nothing of a pod has changed that its placement depends on."""
    return (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.status.resource_claim_statuses == new.status.resource_claim_statuses
        and rules_of(old.metadata.annotations) == rules_of(new.metadata.annotations)
    )
