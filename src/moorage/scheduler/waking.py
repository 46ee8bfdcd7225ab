"""Which of the pods that fit nowhere are tried again: those for which a change makes or could make room."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from moorage.match.deferral import NotReady, deferring
from moorage.scheduler.cycle import CycleRunner
from moorage.scheduler.decisions import REJECTED
from moorage.scheduler.framework import Cycle
from moorage.scheduler.queue import Queue, Queued
from moorage.scheduler.table.nodes import Index
from moorage.scheduler.table.shape import PodInfo, Shape


class Waking:
    """Collects changes while decisions are made, and wakes the pods that they matter to."""

    def __init__(self, queue: Queue, runner_of: Callable[[PodInfo], CycleRunner | None]) -> None:
        self._queue = queue
        self._runner_of = runner_of
        self._changed: set[int] = set()
        """The rows that have changed."""
        self._relieved: set[int] = set()
        """The rows where something else has changed than that a pod was added."""
        self._released: set[int] = set()
        """The rows to which a pod is no longer nominated."""
        self._plugins: set[str] = set()
        """The plugins that ask for the pods which they rejected to be tried again."""
        self._outdated: set[Shape] = set()
        """The shapes of pods that still fit nowhere, but perhaps for other reasons than they were told."""

    @property
    def pending(self) -> bool:
        """Whether there are changes that no pod was woken for yet."""
        return bool(self._changed or self._released or self._plugins)

    def row_changed(self, row: int, *, relieved: bool = False) -> None:
        """Note that a row has changed; `relieved` unless all that happened is that a pod was added."""
        if self._queue.waits():
            self._changed.add(row)
            if relieved:
                self._relieved.add(row)
            self._queue.ready()

    def row_released(self, row: int) -> None:
        """Note that a pod is no longer nominated to a row."""
        if self._queue.waits():
            self._released.add(row)
            self._relieved.add(row)
            self._queue.ready()

    def plugins_changed(self, *plugins: str) -> None:
        """Note that pods which one of these plugins rejected are to be tried again."""
        self._plugins.update(plugins)
        self._queue.ready()

    def take_outdated(self) -> set[Shape]:
        """The shapes of pods that still fit nowhere, though nodes have changed since they were tried."""
        outdated, self._outdated = self._outdated, set()
        return outdated

    @property
    def outdated(self) -> frozenset[Shape]:
        """What `take_outdated` would give."""
        return frozenset(self._outdated)

    def wake(self) -> None:
        """Wake the pods that fit somewhere since the changes that were noted, or for which room could be made now."""
        if not self.pending:
            return
        changed, released = (np.array(sorted(rows), np.intp) for rows in (self._changed, self._released))
        relieved, plugins = self._relieved, self._plugins
        self._changed, self._relieved, self._released, self._plugins = set(), set(), set(), set()
        for shape in self._queue.waiting_shapes():
            waiting = self._queue.waiting(shape)
            runner = self._runner_of(waiting[0].info)
            assert runner is not None  # the pods of other schedulers are not in the queue
            try:
                with deferring():
                    fits = _fits_now(runner, waiting[0].info, changed, released)
                    if not shape.has_claims:
                        fits = fits or _room_can_be_made(runner, waiting[0], relieved)
            except NotReady:
                fits = True  # when it is tried, it waits until that is known
            for entry in waiting:
                if (
                    fits
                    or not plugins.isdisjoint(entry.plugins)
                    or (shape.has_claims and _room_can_be_made(runner, entry, relieved))
                ):
                    self._queue.wake(entry)
            if not fits and len(changed):
                self._outdated.add(shape)


def _fits_now(runner: CycleRunner, info: PodInfo, changed: Index, released: Index) -> bool:
    """Whether a pod fits now on rows where pods of its shape did not fit when they were last tried.

    Only plugins of scopes NODE and ROW are asked. Where other pods are nominated, or were until now, the row may have
    been good enough but for them.
    """
    cycle = runner.start(info)
    before = runner.decisions.seen(cycle.shape, changed)
    good = runner.decisions.of(cycle).rank != REJECTED
    better = {*changed[good[changed] & ~before].tolist(), *released[good[released]].tolist()}
    nominated_nodes = runner.handle.nominations.by_node
    if not nominated_nodes:
        return bool(better)
    nominated = {runner.table.rows.get(name) for name in nominated_nodes}
    if better - nominated:
        return True
    uncertain = nominated.intersection((*better, *changed[good[changed]].tolist()))
    fits = any(_good_beside_nominated(runner, cycle, row) for row in uncertain if row is not None)
    runner.decisions.of(cycle)  # the table is as it was before: what is known must be so too
    return fits


def _good_beside_nominated(runner: CycleRunner, cycle: Cycle, row: int) -> bool:
    others = [info for info in runner.nominated_before(cycle, row) if info.shape.spec != cycle.shape.spec]
    with runner.assuming(others, runner.node_name(row)):
        return bool(runner.decisions.of(cycle).rank[row] != REJECTED)


def _room_can_be_made(runner: CycleRunner, entry: Queued, rows: Iterable[int]) -> bool:
    cycle = runner.start(entry.info)
    return any(_is_resolvable(runner, cycle, row) for row in rows)


def _is_resolvable(runner: CycleRunner, cycle: Cycle, row: int) -> bool:
    """Whether a pod would fit on a row if pods of lower priority left it."""
    table, priority = runner.table, cycle.pod.priority
    never = cycle.shape.spec.preemption_policy == "Never"
    if not runner.profile.post_filters or not table.alive[row] or never:
        return False
    if all(other >= priority for other in table.priorities):
        return False
    if all(info.priority >= priority for info in table.pods[row].values()):
        return False
    # Plugins of scope CLUSTER are not asked: what they say of this pod need not hold for others of its shape.
    diagnosis, _ = runner.first_rejections(cycle, runner.decisions.of(cycle), [], np.array([row], np.intp))
    return all(rejection.resolvable for rejections in diagnosis.values() for rejection in rejections)
