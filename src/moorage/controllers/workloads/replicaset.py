"""ReplicaSets and ReplicationControllers: as many pods as they say, no more and no fewer."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache, cmp_to_key
from typing import NamedTuple

import msgspec

from moorage.api.labels import selector_of
from moorage.api.meta import Condition, Object
from moorage.api.pod import Pod
from moorage.api.workload import ReplicaSet, ReplicaSetStatus, ReplicationController, ReplicationControllerStatus
from moorage.client import ApiError, Informer, Missing
from moorage.client.client import Data
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.frame.timers import Alarms
from moorage.controllers.owners.podcontrol import (
    ORPHANS,
    OWNER,
    Children,
    claim,
    controller_of,
    follow,
    index_by_owner,
    is_active,
    is_terminating,
    namespace_ends,
    ready_condition,
    seconds_to_availability,
)

REPLICA_FAILURE = "ReplicaFailure"
_BURST = 500
_PAUSE, _LONGEST_PAUSE = 5e-4, 1.0
"""How many seconds for each pod it has a set waits for further changes: each look is a look at all of them."""
_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}

Owner = ReplicaSet | ReplicationController
Status = ReplicationControllerStatus


class ReplicaSetController(Controller):
    """Creates the pods that are missing, deletes those that are too many, and says how many there are."""

    name = "replicaset-controller"
    struct: type[Owner] = ReplicaSet

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._sets: Informer[Owner] = context.informers.of(self.struct)
        self._pods = context.informers.of(Pod)
        index_by_owner(self._sets)
        index_by_owner(self._pods)
        self._children = Children.of(self, self._pods)
        self._alarms = Alarms(self.clock, self.queue.add)
        self._sets.on_change(self._changed)
        follow(self._pods, self._sets, lambda owner: owner.spec.selector, self._wake)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        try:
            await super().run()
        finally:
            self._alarms.close()

    async def reconcile(self, key: Key) -> None:
        """Bring the number of pods of one owner in order."""
        owner = self._sets.get(*key)
        if owner is None:
            self._alarms.cancel(key)
            return
        found = (*self._pods.by(OWNER, owner.metadata.uid), *self._pods.by(ORPHANS, key[0]))
        selector = selector_of(owner.spec.selector)
        pods = await claim(self.client, self._pods, owner, selector, filter(is_active, found))
        if owner.metadata.deletion_timestamp is not None:
            await self._report(owner, None)
            return
        is_waiting = self._children.seconds_to_wait(owner) > 0
        problem = await self._scale(owner, pods)
        await self._report(owner, problem)
        if problem is None:
            return
        if not (wait := self._children.seconds_to_wait(owner)):
            raise problem
        if not (is_waiting or namespace_ends(problem)):
            self.failed(key, problem)
        self._alarms.set(key, wait)

    def _changed(self, old: Owner | None, new: Owner | None) -> None:
        if old is not None and new is not None and old.metadata.generation == new.metadata.generation:
            self._wake((new.metadata.namespace, new.metadata.name))
        elif changed := new or old:
            self.enqueue(changed)

    def _wake(self, key: Key) -> None:
        """Look at a set soon, but not for each pod that changes when they are many."""
        owner = self._sets.get(*key)
        if owner is not None:
            self.queue.add_after(key, min(owner.status.replicas * _PAUSE, _LONGEST_PAUSE))

    async def _scale(self, owner: Owner, pods: Sequence[Pod]) -> ApiError | None:
        surplus = len(pods) - _wanted(owner)
        try:
            if surplus < 0:
                await self._create(owner, min(-surplus, _BURST))
            elif surplus > 0:
                await self._children.delete_many(owner, self._least_missed(owner, pods)[: min(surplus, _BURST)])
        except ApiError as error:
            return error
        return None

    async def _create(self, owner: Owner, count: int) -> None:
        metadata = owner.metadata
        try:
            data: Data = msgspec.json.decode(await self.client.get(self._sets.kind, metadata.namespace, metadata.name))
        except Missing:
            return
        if data["metadata"]["uid"] == metadata.uid:
            named = {"generateName": f"{metadata.name}-"}
            await self._children.create_many(owner, data["spec"]["template"], [named] * count)

    def _least_missed(self, owner: Owner, pods: Sequence[Pod]) -> list[Pod]:
        above = controller_of(owner)
        siblings = self._sets.by(OWNER, above.uid) if above is not None else (owner,)
        family = [pod for each in siblings for pod in self._pods.by(OWNER, each.metadata.uid)]
        return least_missed(pods, family, self.clock.now())

    async def _report(self, owner: Owner, problem: ApiError | None) -> None:
        """Say in the status what is there now, and look again when the next pod becomes available."""
        matches = selector_of(owner.spec.selector).matches
        mine = [pod for pod in self._pods.by(OWNER, owner.metadata.uid) if matches(pod.metadata.labels)]
        now = self.clock.now()
        waits = [
            wait
            for pod in mine
            if is_active(pod) and (wait := seconds_to_availability(pod, owner.spec.min_ready_seconds, now)) is not None
        ]
        if later := [wait for wait in waits if wait > 0]:
            self._alarms.set((owner.metadata.namespace, owner.metadata.name), min(later))
        status = self._status(owner, mine, waits, problem)
        if status == owner.status:
            return
        written = msgspec.to_builtins(status)
        patch = {name: written.get(name) for name in _fields(type(status))} | {"replicas": status.replicas}
        kind, metadata = self._sets.kind, owner.metadata
        body = {"metadata": {"resourceVersion": metadata.resource_version}, "status": patch}
        try:
            answer = await self.client.patch(kind, metadata.namespace, metadata.name, body, subresource="status")
        except Missing:
            return
        await self._sets.caught_up(msgspec.json.decode(answer, type=Object).metadata.resource_version)

    def _status(self, owner: Owner, mine: Sequence[Pod], waits: Sequence[float], problem: ApiError | None) -> Status:
        active = [pod for pod in mine if is_active(pod)]
        template = owner.spec.template.metadata.labels.items()
        counts = {
            "observed_generation": owner.metadata.generation,
            "replicas": len(active),
            "fully_labeled_replicas": sum(template <= pod.metadata.labels.items() for pod in active),
            "ready_replicas": len(waits),
            "available_replicas": waits.count(0.0),
        }
        conditions = self._conditions(owner, len(active), problem)
        if isinstance(owner, ReplicationController):
            return Status(**counts, conditions=conditions)
        return ReplicaSetStatus(**counts, conditions=conditions, terminating_replicas=sum(map(is_terminating, mine)))

    def _conditions(self, owner: Owner, active: int, problem: ApiError | None) -> tuple[Condition, ...]:
        others = tuple(each for each in owner.status.conditions if each.type != REPLICA_FAILURE)
        if problem is None or namespace_ends(problem):
            return others
        reason, message = "FailedCreate" if active < _wanted(owner) else "FailedDelete", str(problem)
        for old in owner.status.conditions:
            if (old.type, old.reason, old.message) == (REPLICA_FAILURE, reason, message):
                return owner.status.conditions
        now = self.clock.now().replace(microsecond=0)
        return (*others, Condition(REPLICA_FAILURE, "True", reason, message, now))


class ReplicationControllers(ReplicaSetController):
    """The same for ReplicationControllers."""

    name = "replication-controller"
    struct = ReplicationController


@cache
def _fields(struct: type[Status]) -> tuple[str, ...]:
    """What a status says, as it is written."""
    named = msgspec.structs.fields(struct)
    return tuple(field.encode_name for field in named if field.name != "updated_replicas")


def _wanted(owner: Owner) -> int:
    return 1 if owner.spec.replicas is None else owner.spec.replicas


class _Worth(NamedTuple):
    """What a pod is worth to its owner, the most important first; the rest only counts among equals."""

    rank: tuple[bool, int, bool, int, int]
    ready: datetime | None
    restarts: tuple[int, int]
    created: datetime | None
    uid: str


def least_missed(pods: Iterable[Pod], family: Iterable[Pod], now: datetime) -> list[Pod]:
    """Pods in the order in which they are given up.

    First those that have not come as far; then those of lower deletion cost; then those that share their node with
    more pods of the family; then those that were ready for less time, restarted more often, or are younger. Ages
    count as powers of two, and pods of about the same age go in no order that could be foreseen.
    """
    crowd = Counter(pod.spec.node_name for pod in family if is_active(pod))

    def compare(one: tuple[_Worth, Pod], other: tuple[_Worth, Pod]) -> int:
        return _compare(one[0], other[0], now)

    ordered = sorted(((_worth(pod, crowd[pod.spec.node_name]), pod) for pod in pods), key=cmp_to_key(compare))
    return [pod for _, pod in ordered]


def _worth(pod: Pod, neighbours: int) -> _Worth:
    ready = ready_condition(pod)
    rank = (
        bool(pod.spec.node_name), _PHASES.get(pod.status.phase, 0), ready is not None,
        _deletion_cost(pod.metadata.annotations.get(_COST, "")), -neighbours,
    )  # fmt: skip
    sidecars = {each.name for each in pod.spec.init_containers if each.restart_policy == "Always"}
    restarts = max((each.restart_count for each in pod.status.container_statuses), default=0)
    sidecar_restarts = max(
        (each.restart_count for each in pod.status.init_container_statuses if each.name in sidecars), default=0
    )
    ready_since = ready.last_transition_time if ready is not None else None
    return _Worth(
        rank, ready_since, (restarts, sidecar_restarts), pod.metadata.creation_timestamp, pod.metadata.uid
    )  # fmt: skip


def _compare(one: _Worth, other: _Worth, now: datetime) -> int:
    if one.rank != other.rank:
        return -1 if one.rank < other.rank else 1
    if one.ready != other.ready:
        return _compare_ages(one.ready, other.ready, now) or _compare_text(one.uid, other.uid)
    if one.restarts != other.restarts:
        return -1 if one.restarts > other.restarts else 1
    if one.created != other.created:
        return _compare_ages(one.created, other.created, now) or _compare_text(one.uid, other.uid)
    return 0


def _compare_ages(one: datetime | None, other: datetime | None, now: datetime) -> int:
    """Below zero when the first is younger, on a logarithmic scale; what has no time is the youngest."""
    if one is None or other is None:
        return -1 if one is None else 1
    return _magnitude(now - one) - _magnitude(now - other)


def _magnitude(age: timedelta) -> int:
    nanoseconds = age.total_seconds() * 1e9
    return int(math.log2(nanoseconds)) if nanoseconds >= 1 else -1


def _compare_text(one: str, other: str) -> int:
    return (one > other) - (one < other)


def _deletion_cost(text: str) -> int:
    """The cost that an annotation names; one that is no 32-bit number counts as none."""
    if not re.fullmatch(r"0|-?[1-9][0-9]{0,9}", text, re.ASCII):
        return 0
    cost = int(text)
    return cost if -(2**31) <= cost < 2**31 else 0
