"""What happened in the last hour: placements, evictions, preemptions, failures, changes of nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import msgspec

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.client.clock import Clock

HAPPENINGS_MAX = 5_000
TEXT_MAX = 2000
"""Characters of a cause: whoever writes the status of a pod may write a megabyte."""
KEPT_SECONDS = 3600.0
SAMPLE_SECONDS = 5.0
"""The number of pods that wait is noted once in so many seconds, at most."""
_PREEMPTED = "PreemptionByScheduler"
_UNPLACED = "Unscheduled"
BY_TAINT = "Taint manager: deleting due to NoExecute taint"
"""What the condition of a pod says that had to leave because of a taint of its node, here as in Kubernetes."""


class Happening(msgspec.Struct, omit_defaults=True):
    """One thing that happened."""

    number: int
    at: float
    """Seconds since the epoch."""
    kind: str
    """placed, evicted, preempted, deleted, waiting, failed, taint, label, node."""
    subject: str
    """The pod (`default/web-1`) or the node."""
    text: str
    cause: str = ""
    owner: str = ""
    node: str = ""
    revision: int = 0
    """The revision of the placement after it."""


def owner_of(pod: Pod) -> str:
    """The workload of a pod: the Deployment rather than its ReplicaSet, whose name ends with the template's hash."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            suffix = "-" + pod.metadata.labels.get("pod-template-hash", "")
            if owner.kind == "ReplicaSet" and len(suffix) > 1 and owner.name.endswith(suffix):
                return f"Deployment/{owner.name.removesuffix(suffix)}"
            return f"{owner.kind}/{owner.name}"
    return ""


def state_of(pod: Pod) -> str:
    """The state of a pod in one word."""
    if pod.metadata.deletion_timestamp is not None:
        return "Terminating"
    if not pod.spec.node_name and pod.status.phase in ("", "Pending"):
        return _UNPLACED
    return pod.status.phase or "Pending"


class Timeline:
    """The last hour, newest last; bounded in number too."""

    def __init__(self, clock: Clock) -> None:
        self.happenings: deque[Happening] = deque(maxlen=HAPPENINGS_MAX)
        self._clock = clock
        self._number = 0
        self._waiting: set[str] = set()
        """The uids of the pods that are not placed."""
        self._samples: deque[tuple[float, int]] = deque(maxlen=int(KEPT_SECONDS / SAMPLE_SECONDS) + 1)

    def begin_with(self, happenings: Iterable[Happening]) -> None:
        """What happened before the first change that is noted here."""
        for happening in happenings:
            self._number += 1
            happening.number = self._number
            self.happenings.append(happening)

    def begin_with_pending(self, samples: Iterable[tuple[float, int]]) -> None:
        """How many pods waited before the first sample that is taken here."""
        first = self._samples[0][0] if self._samples else self._clock.now().timestamp()
        self._samples.extendleft(reversed([sample for sample in samples if sample[0] < first]))

    def last_hour(self) -> list[Happening]:
        """What happened in the last hour, the oldest first."""
        self._forget()
        return list(self.happenings)

    def since(self, revision: int) -> list[Happening]:
        """What happened after a revision."""
        newer: list[Happening] = []
        for happening in reversed(self.happenings):
            if happening.revision <= revision:
                break
            newer.append(happening)
        return newer[::-1]

    def pending_over_time(self) -> list[list[float]]:
        """How many pods waited for a node, and when."""
        self._sample()
        return [[at, float(number)] for at, number in self._samples]

    def node_changed(self, old: Node | None, new: Node | None, revision: int) -> None:
        """Note what happened to a node."""
        node = new or old
        assert node is not None
        name = node.metadata.name
        for kind, text in _node_changes(old, new):
            self._note(kind, name, text, revision, node=name)

    def pod_changed(
        self, old: Pod | None, new: Pod | None, revision: int, departure: Callable[[Pod], str], *, is_news: bool
    ) -> None:
        """Note what happened to a pod, unless it is the first that is known of it.

        `departure` says which taints one has to leave: the condition of an evicted pod does not.
        """
        pod = new or old
        assert pod is not None
        waits = new is not None and state_of(new) == _UNPLACED
        (self._waiting.add if waits else self._waiting.discard)(pod.metadata.uid)
        self._sample()
        for kind, text, said in _pod_changes(old, new) if is_news else ():
            cause = (departure(pod) if said == BY_TAINT else "") or said
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            self._note(kind, name, text, revision, cause=cause, owner=owner_of(pod), node=pod.spec.node_name)

    def _note(
        self, kind: str, subject: str, text: str, revision: int, *, cause: str = "", owner: str = "", node: str = ""
    ) -> None:
        now = self._forget()
        self._number += 1
        cause = cause[:TEXT_MAX]
        self.happenings.append(Happening(self._number, now, kind, subject, text, cause, owner, node, revision))

    def _forget(self) -> float:
        """Drop what happened more than an hour ago. Returns the time."""
        now = self._clock.now().timestamp()
        while self.happenings and self.happenings[0].at < now - KEPT_SECONDS:
            self.happenings.popleft()
        return now

    def _sample(self) -> None:
        now = self._clock.now().timestamp()
        sample = now, len(self._waiting)
        if self._samples and now - self._samples[-1][0] < SAMPLE_SECONDS:
            self._samples[-1] = self._samples[-1][0], sample[1]
        else:
            self._samples.append(sample)
        # The last one from before the hour says how many waited when it began.
        while len(self._samples) > 1 and self._samples[1][0] < now - KEPT_SECONDS:
            self._samples.popleft()


def _node_changes(old: Node | None, new: Node | None) -> Iterator[tuple[str, str]]:
    if old is None or new is None:
        yield "node", "added" if old is None else "removed"
        return
    before, after = {str(taint) for taint in old.spec.taints}, {str(taint) for taint in new.spec.taints}
    for taint in sorted(after - before):
        yield "taint", f"+ {taint}"
    for taint in sorted(before - after):
        yield "taint", f"− {taint}"
    labels, now = old.metadata.labels, new.metadata.labels
    for key in sorted({*labels, *now}):
        if labels.get(key) != now.get(key):
            yield "label", f"{key}={now[key]}" if key in now else f"− {key}"
    if old.spec.unschedulable != new.spec.unschedulable:
        yield "node", "cordoned" if new.spec.unschedulable else "uncordoned"


def _pod_changes(old: Pod | None, new: Pod | None) -> Iterator[tuple[str, str, str]]:
    if new is None:
        if old is not None and old.metadata.deletion_timestamp is None:
            yield _ending(old)
        return
    if new.spec.node_name and old is not None and not old.spec.node_name:
        yield "placed", f"on {new.spec.node_name}", ""
    if new.metadata.deletion_timestamp is not None and (old is None or old.metadata.deletion_timestamp is None):
        yield _ending(new)
    elif not new.spec.node_name:
        why = waits_for(new)
        if why and (old is None or not waits_for(old)):
            yield "waiting", "fits no node", why
    if new.status.phase == "Failed" and (old is None or old.status.phase != "Failed"):
        yield "failed", new.status.reason or "failed", new.status.message


def _ending(pod: Pod) -> tuple[str, str, str]:
    """Why a pod is being deleted: what its condition DisruptionTarget says, if it has one."""
    where = f"from {pod.spec.node_name}" if pod.spec.node_name else ""
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return "preempted" if condition.reason == _PREEMPTED else "evicted", where, condition.message
    return "deleted", where, ""


def waits_for(pod: Pod) -> str:
    """Why a pod is not placed, as the scheduler has written it; empty when it has not."""
    unmet = (each for each in pod.status.conditions if each.type == "PodScheduled" and each.status != "True")
    return next((each.message for each in unmet), "")
