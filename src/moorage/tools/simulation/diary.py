"""Writes down what happens to pods, and says afterwards what moved, was evicted, is pending or gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from moorage.api.meta import Object, OwnerReference
from moorage.api.pod import Pod
from moorage.api.workload import Job, ReplicaSet
from moorage.client import Informers
from moorage.controllers.frame.pods import DISRUPTION_TARGET, condition_of, controller_of, is_ending, is_finished
from moorage.tools.simulation.privatecluster import NotedEvent, PrivateCluster
from moorage.tools.simulation.result import (
    BlockedEviction,
    Effects,
    EvictedPod,
    GonePod,
    MovedPod,
    NotCreated,
    PendingPod,
    PlacedPod,
    RestlessOwner,
    TimelineEntry,
)

_EVICTIONS = {
    "TaintManagerEviction": "a NoExecute taint",
    "DeviceTaintManagerEviction": "a NoExecute taint of its device",
}
_CAUSES = {
    "DeletionByTaintManager": "a NoExecute taint that it does not tolerate",
    "DeletionByDeviceTaintManager": "a NoExecute taint of its device that its claim does not tolerate",
    "PreemptionByScheduler": "preempted by a pod of higher priority",
    "DeletionByPodGC": "its node is gone",
    "TerminationByKubelet": "preempted on its node by a critical pod",
}
_BETWEEN = (ReplicaSet, Job)
"""Owners of pods that have owners themselves."""


class RootOwner(NamedTuple):
    """Who a pod belongs to in the end."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.kind else ""


@dataclass(slots=True, eq=False)
class PodStory:
    """What has happened to a pod."""

    pod: Pod
    """As it was seen last."""
    root: RootOwner
    created: float | None = None
    """None when it was there at the beginning."""
    bound: float | None = None
    leaving: float | None = None
    gone: float | None = None
    cause: str = ""

    @property
    def name(self) -> str:
        """Namespace and name."""
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def node(self) -> str:
        """The node that it is or was on."""
        return self.pod.spec.node_name

    @property
    def has_left(self) -> bool:
        """Whether it is gone, or being deleted."""
        return self.gone is not None or is_ending(self.pod)

    @property
    def waits(self) -> bool:
        """Whether it is there, has no node, and has not ended."""
        return not self.has_left and not self.node and not is_finished(self.pod)


class Diary:
    """The stories of all pods of a cluster since the last page was turned."""

    def __init__(self, cluster: PrivateCluster) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._stories: dict[str, PodStory] = {}
        self._before: dict[str, tuple[str, bool]] = {}
        """The node of each pod when the page was turned, and whether it had ended."""
        self._refused: dict[str, str] = {}
        """What the API server said to workloads that cannot create pods."""
        self._failing: dict[str, str] = {}
        """What these workloads belong to."""
        self.blocked: dict[str, BlockedEviction] = {}
        """Evictions that were not allowed, by pod."""
        self.timeline: list[TimelineEntry] = []
        self._start = 0.0
        self.told: dict[str, str] = {}
        """What is to be said of pods that are being deleted, by uid."""

    def turn_page(self) -> None:
        """Begin anew with what is there now."""
        self._start = self._clock.monotonic()
        self._stories = {
            pod.metadata.uid: PodStory(pod, self._root(pod)) for pod in self._cluster.pods if not is_ending(pod)
        }
        self._before = {uid: (story.node, is_finished(story.pod)) for uid, story in self._stories.items()}
        self._refused.clear()
        self.blocked.clear()
        self.timeline.clear()

    def now(self) -> float:
        """Seconds since the page was turned."""
        return round(self._clock.monotonic() - self._start, 3)

    def say(self, what: str) -> None:
        """Add a line to the timeline."""
        self.timeline.append(TimelineEntry(self.now(), what))

    def _root(self, item: Object) -> RootOwner:
        namespace, owner = item.metadata.namespace, controller_of(item)
        if owner is None:
            return RootOwner("", namespace, item.metadata.name)
        above = self._above(self._cluster.informers, namespace, owner)
        return RootOwner(above.kind, namespace, above.name)

    def _above(self, informers: Informers, namespace: str, owner: OwnerReference) -> OwnerReference:
        for struct in _BETWEEN:
            if owner.kind == struct.__name__:
                between = informers.of(struct).get(namespace, owner.name)
                return (controller_of(between) if between is not None else None) or owner
        return owner

    def see_pod(self, old: Pod | None, new: Pod | None) -> None:
        """A pod has changed."""
        pod = new or old
        assert pod is not None
        story = self._stories.get(pod.metadata.uid)
        if story is None:
            if new is None:
                return
            story = self._stories[pod.metadata.uid] = PodStory(pod, self._root(pod), self.now())
            self.say(f"{story.name} is created{f' for {story.root}' if story.root.kind else ''}")
        was_bound, was_over = bool(story.node), is_finished(story.pod)
        if story.leaving is None and is_ending(pod):
            story.leaving, story.cause = self.now(), self._cause(pod)
            self.say(f"{story.name} leaves {story.node or 'the queue'}{f': {story.cause}' if story.cause else ''}")
        story.pod = pod
        if new is None:
            story.gone = self.now()
            story.cause = story.cause or self._cause(pod)
        elif pod.spec.node_name and (not was_bound or (story.created is not None and story.bound is None)):
            story.bound = self.now()
            self.say(f"{story.name} is placed on {story.node}")
        elif is_finished(pod) and not was_over and not is_ending(pod):
            story.leaving = self.now()
            self.say(f"{story.name} has ended on {story.node}: {_ending(pod)}")

    def see_event(self, noted: NotedEvent) -> None:
        """An event was recorded."""
        metadata = noted.about.metadata
        if noted.reason in _EVICTIONS:
            _, _, why = noted.message.partition(f"{metadata.namespace}/{metadata.name}: ")
            self.told[metadata.uid] = why or f"{_EVICTIONS[noted.reason]}"
        elif noted.reason == "Preempted":
            uid = noted.message.removeprefix("Preempted by pod ").split()[0]
            other = self._stories.get(uid)
            self.told[metadata.uid] = f"preempted by {other.name}" if other else "preempted"
        elif noted.reason == "FailedCreate":
            name = f"{type(noted.about).__name__} {metadata.namespace}/{metadata.name}"
            if name not in self._refused:
                self.say(f"{name} cannot create pods: {noted.message}")
            self._refused[name] = noted.message
            self._failing[name] = str(self._root(noted.about)) or name

    def _cause(self, pod: Pod) -> str:
        uid = pod.metadata.uid
        if uid in self.told:
            return self.told[uid]
        target = condition_of(pod, DISRUPTION_TARGET)
        return _CAUSES.get(target.reason, target.message) if target is not None else ""

    def pending(self) -> list[PendingPod]:
        """The pods that were without a node when the page was turned, and still are."""
        return sorted(
            (_waiting(story) for uid, story in self._stories.items() if uid in self._before and story.waits),
            key=lambda each: each.pod,
        )

    def effects(self) -> Effects:
        """What has happened since the page was turned."""
        replaced = dict(self._pairs())
        replacing = {new: old for old, new in replaced.items()}
        found = Effects(
            blocked=list(self.blocked.values()),
            refused=[NotCreated(name, message) for name, message in sorted(self._refused.items())],
        )
        found.restless.extend(self._restless())
        failing = {self._failing[name] for name in self._refused}
        for uid, story in self._stories.items():
            node, was_over = self._before.get(uid, (None, False))
            if was_over:
                continue
            if story.has_left:
                is_owned = bool(story.root.kind) and str(story.root) not in failing
                _tell_left(story, replaced.get(story), found, was_there=node is not None, is_owned=is_owned)
            elif story.waits:
                if node is None:
                    found.pending.append(_waiting(story, replacing.get(story)))
            elif is_finished(story.pod):
                found.finished.append(GonePod(story.name, story.node, story.leaving or 0.0, _ending(story.pod)))
            elif story.bound is not None:
                _tell_placed(story, replacing.get(story), found)
        return found

    def _restless(self) -> Iterator[RestlessOwner]:
        """The owners of pods that came and were evicted again, with how many of them there were."""
        evicted: dict[RootOwner, list[PodStory]] = defaultdict(list)
        for uid, story in self._stories.items():
            if uid not in self._before and story.has_left and story.cause and story.node:
                evicted[story.root].append(story)
        for root, stories in evicted.items():
            yield RestlessOwner(str(root), len(stories), stories[-1].cause)

    def _pairs(self) -> Iterator[tuple[PodStory, PodStory]]:
        """Pods that were there and left, each with the pod of the same owner that is there in its place."""
        left: dict[RootOwner, list[PodStory]] = defaultdict(list)
        come: dict[RootOwner, list[PodStory]] = defaultdict(list)
        for uid, story in self._stories.items():
            before = self._before.get(uid)
            if before is None and not story.has_left:
                come[story.root].append(story)
            elif before is not None and not before[1] and (story.has_left or is_finished(story.pod)):
                left[story.root].append(story)
        for root, stories in left.items():
            yield from _paired(stories, come.get(root, []))


def _paired(left: list[PodStory], come: list[PodStory]) -> Iterator[tuple[PodStory, PodStory]]:
    """Those of the same name first, then those on the same node, then evicted pods, all in the order of time."""
    remaining = sorted(come, key=lambda story: (story.created or 0.0, story.name))
    waiting = sorted(left, key=lambda story: (not story.cause, story.leaving or 0.0, story.name))
    for trait in (attrgetter("name"), attrgetter("node")):
        found = {trait(story): story for story in reversed(remaining)}
        for old in list(waiting):
            new = found.pop(trait(old), None)
            if new is not None:
                waiting.remove(old)
                remaining.remove(new)
                yield old, new
    yield from zip(waiting, remaining, strict=False)


def _tell_left(story: PodStory, successor: PodStory | None, found: Effects, *, was_there: bool, is_owned: bool) -> None:
    at = story.leaving or story.gone or 0.0
    if story.cause and story.node:
        found.evicted.append(EvictedPod(story.name, story.node, at, story.cause, successor.name if successor else ""))
    if was_there and successor is None:
        # An owner that can create pods and does not has enough of them.
        is_lost = story.cause and not is_owned
        (found.lost if is_lost else found.deleted).append(GonePod(story.name, story.node, at, story.cause))


def _tell_placed(story: PodStory, predecessor: PodStory | None, found: Effects) -> None:
    if predecessor is not None:
        found.moved.append(_moved(predecessor, story))
    else:
        found.placed.append(PlacedPod(story.name, story.node, story.bound or 0.0, str(story.root)))


def _waiting(story: PodStory, predecessor: PodStory | None = None) -> PendingPod:
    scheduled = condition_of(story.pod, "PodScheduled")
    reason = scheduled.message if scheduled is not None and scheduled.status == "False" else "not tried yet"
    return PendingPod(story.name, reason, str(story.root), predecessor.name if predecessor else "")


def _moved(old: PodStory, new: PodStory) -> MovedPod:
    return MovedPod(
        pod=old.name, source=old.node, replacement=new.name, to=new.node, at=new.bound or 0.0, owner=str(new.root),
        cause=old.cause,
    )  # fmt: skip


def _ending(pod: Pod) -> str:
    status = pod.status
    return f"{status.phase}{f' ({status.reason}: {status.message})' if status.reason else ''}"
