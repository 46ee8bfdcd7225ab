"""Asks the scheduler about pods without placing them: its informers are filled with the objects of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Object
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.client import Client, Informer
from moorage.features import Gates
from moorage.scheduler.config import Configuration
from moorage.scheduler.cycle import CycleRunner
from moorage.scheduler.framework import Cycle, Plugin, Reject, Scope, Skip, Told, overrides
from moorage.scheduler.plugins.defaultpreemption import DefaultPreemption
from moorage.scheduler.pods.victims import PreemptionCandidate
from moorage.scheduler.profile import DEFAULT_NAME, scheduler_name
from moorage.scheduler.scheduler import Scheduler
from moorage.scheduler.table.nodes import Index, Mask, Scores
from moorage.scheduler.table.shape import PodInfo

T = TypeVar("T", bound=Object)
_NODES_FIRST = ("nodes",)
_PODS_LAST = ("pods",)
_SEED = 1
"""Of nodes that are equally good, the same is chosen each time that the same is asked."""


class _NobodyThere:
    """The transport of a client that nobody may use: whoever asks the scheduler must not touch a cluster."""

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> NoReturn:
        """There is no server."""
        raise AssertionError(f"a scheduler that is only asked never calls an API server: {method} {target}")

    def stream(self, target: str) -> NoReturn:
        """There is no server."""
        raise AssertionError(f"a scheduler that is only asked never calls an API server: {target}")

    async def close(self) -> None:
        """Nothing is open."""


class PluginRefusal(NamedTuple):
    """What a plugin says of the nodes that it refuses."""

    plugin: str
    told: Told


class Placed(NamedTuple):
    """A pod that was placed in thought, with the attempt that placed it."""

    cycle: Cycle
    node: str


@dataclass(slots=True)
class Inquiry:
    """What a profile says about one pod and every node."""

    profile: str
    """The name of the profile that answered."""
    is_foreign: bool
    """Whether the pod is for a scheduler that is not known here, so that the default profile answered."""
    held_back: str = ""
    """Why the pod is not even tried, empty when it is."""
    rejected: list[tuple[str, str]] = field(default_factory=list)
    """The plugins that reject the pod whatever the node, and why."""
    refusals: list[PluginRefusal] = field(default_factory=list)
    """Why nodes are refused, in the order of the plugins."""
    feasible: Index = field(default_factory=lambda: np.zeros(0, np.intp))
    """The rows on which the pod fits."""
    scores: dict[str, Scores] = field(default_factory=dict)
    """The weighted score of each plugin for the feasible rows."""
    preemption: PreemptionCandidate | None = None
    """The node where room would be made, and the pods that would have to leave it."""
    no_preemption: str = ""
    """Why no room is made."""

    @property
    def totals(self) -> Scores:
        """What feasible rows are ranked by."""
        return np.sum(list(self.scores.values()), axis=0) if self.scores else np.zeros(len(self.feasible), np.int64)


class Asking:
    """A scheduler that is asked and never acts."""

    def __init__(
        self, gates: Gates, configuration: Configuration, objects: Iterable[Object] = (), *,
        scheduler: Scheduler | None = None,
    ) -> None:  # fmt: skip
        """`scheduler` is one that follows a cluster and places nothing; without it the objects are all there is."""
        self.scheduler = scheduler or Scheduler(Client(_NobodyThere()), gates, configuration, seed=_SEED, quiet=True)
        self.table = self.scheduler.table
        self._shapes = self.scheduler.shapes
        self._informers: dict[Kind, Informer[Any]] = {each.kind: each for each in self.scheduler.handle.informers}
        self._default = self.scheduler.runners.get(DEFAULT_NAME) or next(iter(self.scheduler.runners.values()))
        self._revision = 0
        self.fill(objects)

    def fill(self, objects: Iterable[Object]) -> None:
        """Add objects, nodes first and pods last; of two of one name the last counts."""
        by_kind: dict[Kind, dict[tuple[str, str], Object]] = {}
        for item in objects:
            kind = kinds.of(item)
            if kind in self._informers:
                by_kind.setdefault(kind, {})[item.metadata.namespace, item.metadata.name] = item
        for kind in sorted(by_kind, key=lambda kind: (kind.plural in _PODS_LAST, kind.plural not in _NODES_FIRST)):
            informer = self._informers[kind]
            for item in by_kind[kind].values():
                informer.put(item)

    def put(self, item: Object) -> Object | None:
        """Add or replace one object, whatever its revision. Returns what was there before."""
        informer = self._informers.get(kinds.of(item))
        if informer is None:
            return None
        self._revision += 1
        old: Object | None = informer.get(item.metadata.namespace, item.metadata.name)
        metadata = msgspec.structs.replace(item.metadata, resource_version=f"asked-{self._revision}")
        informer.put(msgspec.structs.replace(item, metadata=metadata))
        return old

    def remove(self, item: Object) -> None:
        """Drop an object."""
        informer = self._informers.get(kinds.of(item))
        if informer is not None:
            informer.remove(item)

    def _restore(self, item: Object) -> None:
        """Put an object back as it was, with its own revision."""
        informer = self._informers.get(kinds.of(item))
        if informer is not None:
            informer.put(item)

    @contextmanager
    def changed(self, put: Iterable[Object] = (), remove: Iterable[Object] = ()) -> Iterator[None]:
        """Some objects added or changed, and others removed, for a moment."""
        undo: list[tuple[Object, Object | None]] = []
        removed = list(remove)
        try:
            for item in removed:
                self.remove(item)
            undo.extend((item, self.put(item)) for item in put)
            yield
        finally:
            for item, old in reversed(undo):
                if old is None:
                    self.remove(item)
                else:
                    self._restore(old)
            for item in removed:
                self._restore(item)

    def get(self, struct: type[T], namespace: str, name: str) -> T | None:
        """An object of a kind that the scheduler follows."""
        return self.scheduler.handle.informers.of(struct).get(namespace, name)

    def all_of(self, struct: type[T]) -> Iterable[T]:
        """All objects of a kind that the scheduler follows."""
        return self.scheduler.handle.informers.of(struct)

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes."""
        return (node for node in self.table.nodes if node is not None)

    def name(self, row: int) -> str:
        """The name of the node of a row."""
        return self._default.node_name(row)

    def info(self, pod: Pod) -> PodInfo:
        """A pod as the scheduler sees one that is to be placed, wherever it is now."""
        return self._shapes.info(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="")))

    def runner(self, pod: Pod) -> CycleRunner:
        """The profile that a pod is asked about with."""
        return self.scheduler.runners.get(scheduler_name(pod), self._default)

    def ask(self, pod: Pod, *, preempt: bool = True) -> Inquiry:
        """What the profile of a pod says about it and every node. One that is on a node is asked as if it were not."""
        info, runner = self.info(pod), self.runner(pod)
        with self.absent(pod):
            inquiry = Inquiry(runner.name, scheduler_name(pod) not in self.scheduler.runners)
            inquiry.held_back = runner.pre_enqueue(info)
            _Round(runner, info, inquiry).run()
            if preempt and not inquiry.held_back and not len(inquiry.feasible) and self.table.count:
                self._preempt(runner, info, inquiry)
        return inquiry

    def fits(self, pod: Pod, node: str) -> bool:
        """Whether a pod fits on one node, as `ask` says it for all of them."""
        info, runner, row = self.info(pod), self.runner(pod), self.table.rows.get(node)
        if row is None or not self.table.alive[row]:
            return False
        with self.absent(pod):
            return not runner.pre_enqueue(info) and runner.fits(runner.start(info), row)

    def place(self, pod: Pod) -> Placed | None:
        """Place a pod as the scheduler would, and count it on its node with what is reserved for it."""
        info, runner = self.info(pod), self.runner(pod)
        if runner.pre_enqueue(info):
            return None
        cycle = runner.start(info)
        placement = runner.place(cycle)
        if placement.node:
            placement = runner.reserve(cycle, placement)
        if not placement.node:
            return None
        self.scheduler.assume(info, placement.node)
        return Placed(cycle, placement.node)

    def take_back(self, placed: Placed) -> None:
        """Undo a placement."""
        self.scheduler.retract(placed.cycle.pod.uid)
        self.runner(placed.cycle.pod.pod).unreserve(placed.cycle, placed.node)

    @contextmanager
    def absent(self, pod: Pod) -> Iterator[None]:
        """Without a pod, if it is on a node."""
        counted = self.scheduler.counted.get(pod.metadata.uid)
        was_there = counted is not None and self.table.remove_pod(counted) is not None
        try:
            yield
        finally:
            if counted is not None and was_there:
                self.table.add_pod(counted)

    def feasible(self, pod: Pod) -> Index:
        """The rows on which a pod fits, without words and scores."""
        info, runner = self.info(pod), self.runner(pod)
        with self.absent(pod):
            inquiry = Inquiry(runner.name, is_foreign=False, held_back=runner.pre_enqueue(info))
            return _Round(runner, info, inquiry).feasible(tell=False)

    def leaving(self, pod: Pod, node: str, pods: Sequence[PodInfo]) -> list[PodInfo] | None:
        """Which of some pods would have to leave a node so that another fits there, those first that may go first.

        None when it does not fit even if all of them leave.
        """
        gone: list[PodInfo] = []
        if self.fits(pod, node):
            return gone
        try:
            for info in pods:
                self.table.remove_pod(info)
                gone.append(info)
                if self.fits(pod, node):
                    break
            else:
                return None
            for info in list(reversed(gone)):
                self.table.add_pod(info)
                gone.remove(info)
                if not self.fits(pod, node):
                    self.table.remove_pod(info)
                    gone.append(info)
            return list(gone)
        finally:
            for info in gone:
                self.table.add_pod(info)

    def _preempt(self, runner: CycleRunner, info: PodInfo, inquiry: Inquiry) -> None:
        """What the post-filter of preemption would do."""
        plugin = next((each for each in runner.profile.post_filters if isinstance(each, DefaultPreemption)), None)
        if plugin is None:
            return
        cycle = runner.start(info)
        placement = runner.place(cycle)
        chosen = plugin.choose(cycle, placement.rejections)
        if isinstance(chosen, PreemptionCandidate):
            inquiry.preemption = chosen
        else:
            inquiry.no_preemption = chosen.message


class _Round:
    """One pod asked about: unlike a cycle, which ends at the first plugin that rejects, every plugin has its say."""

    def __init__(self, runner: CycleRunner, info: PodInfo, inquiry: Inquiry) -> None:
        self._runner, self._inquiry = runner, inquiry
        self._cycle: Cycle = runner.start(info)
        self._rows: Index = runner.table.alive.nonzero()[0]
        self._told: set[int] = set()
        """The rows of which somebody has said why they are refused."""

    def run(self) -> None:
        """Filter, and score where the pod fits."""
        self._inquiry.feasible = feasible = self.feasible(tell=True)
        if len(feasible):
            self._inquiry.scores = self._scores(feasible)

    def feasible(self, *, tell: bool) -> Index:
        """The rows that every plugin accepts; of the others is told why, if that is wanted."""
        mask = np.ones(len(self._rows), np.bool_)
        for plugin in self._runner.profile.filters:
            if plugin.applies(self._cycle.shape):
                mask &= self._filter(plugin, tell=tell)
        if self._inquiry.rejected or self._inquiry.held_back:
            mask[:] = False
        return self._beside_nominated(self._rows[mask])

    def _filter(self, plugin: Plugin, *, tell: bool) -> Mask:
        everywhere = np.ones(len(self._rows), np.bool_)
        if plugin.scope is Scope.CLUSTER:
            answer = plugin.pre_filter(self._cycle)
            if isinstance(answer, Reject):
                if answer.reason not in [reason for _, reason in self._inquiry.rejected]:
                    self._inquiry.rejected.append((plugin.name, answer.reason))
                return everywhere
            if isinstance(answer, Skip):
                return everywhere
        if isinstance(named := plugin.named(self._cycle.shape), Reject):
            self._inquiry.rejected.append((plugin.name, named.reason))
        mask = plugin.filter(self._cycle, self._rows)
        if tell and not mask.all():
            self._tell(plugin, self._rows[~mask])
        return mask

    def _tell(self, plugin: Plugin, rows: Index) -> None:
        untold = dict.fromkeys(row for row in rows.tolist() if row not in self._told)
        for told in plugin.tell(self._cycle, rows):
            if len(told.rows):
                self._inquiry.refusals.append(PluginRefusal(plugin.name, told))
                self._told.update(told.rows.tolist())
                for row in told.rows.tolist():
                    untold.pop(row, None)
        if untold and plugin.reason:
            left = Told(plugin.reason, plugin.name, plugin.reason, np.array(list(untold), np.intp))
            self._inquiry.refusals.append(PluginRefusal(plugin.name, left))

    def _beside_nominated(self, rows: NDArray[np.intp]) -> Index:
        """Where the pod fits beside the pods that are nominated there."""
        runner, left = self._runner, []
        if not runner.handle.nominations.by_node:
            return rows
        for row in rows.tolist():
            nominated = runner.nominated_before(self._cycle, row)
            if not nominated or runner.fits(self._cycle, row):
                left.append(row)
                continue
            names = ", ".join("/".join(info.key) for info in nominated)
            told = Told("nominated", "nominated pods", f"room is kept for {names}", np.array([row], np.intp))
            self._inquiry.refusals.append(PluginRefusal("", told))
        return np.array(left, np.intp)

    def _scores(self, rows: Index) -> dict[str, Scores]:
        scores: dict[str, Scores] = {}
        for plugin, weight in self._runner.profile.scores:
            if not plugin.applies(self._cycle.shape):
                continue
            if plugin.scope is Scope.CLUSTER and isinstance(plugin.pre_score(self._cycle), Skip):
                continue
            raw = plugin.score(self._cycle, rows)
            scores[plugin.name] = weight * (
                plugin.normalize(self._cycle, raw) if overrides(type(plugin), "normalize") else raw
            )
        return scores
