"""ReplicaSets and ReplicationControllers: as many pods as they specify."""

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
from moorage.api.meta import Condition, Data
from moorage.api.pod import Pod
from moorage.api.workload import ReplicaSet, ReplicaSetStatus, ReplicationController, ReplicationControllerStatus
from moorage.client import ApiError, Informer, Missing
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller, resource_version
from moorage.controllers.frame.pods import controller_of, ready_condition
from moorage.controllers.owners.podcontrol import (
    ORPHANS,
    OWNER,
    PodControl,
    claim,
    follow,
    index_by_owner,
    is_active,
    is_namespace_terminating,
    is_terminating,
    seconds_to_availability,
)
from moorage.controllers.owners.replacements import REJECTIONS, is_rejected
from moorage.controllers.owners.replicas import desired_replicas

REPLICA_FAILURE = "ReplicaFailure"
_BURST = 500
_PAUSE, _LONGEST_PAUSE = 5e-4, 1.0
"""Seconds for each pod of a set in which further changes are gathered: each reconciliation goes through all pods."""
_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}

Owner = ReplicaSet | ReplicationController


class ReplicaSetController(Controller):
    """Creates the pods that are missing, deletes those that are too many, and reports how many there are."""

    name = "replicaset-controller"
    struct: type[Owner] = ReplicaSet

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._sets: Informer[Owner] = context.informers.of(self.struct)
        self._pods = context.informers.of(Pod)
        index_by_owner(self._sets)
        index_by_owner(self._pods)
        self._pod_control = PodControl.of(self, self._pods)
        self._sets.on_change(self._changed)
        follow(self._pods, self._sets, lambda owner: owner.spec.selector, self._enqueue_later, context.gradual)

    async def reconcile(self, key: Key) -> None:
        """Create or delete pods of one owner, and write its status."""
        owner = self._sets.get(*key)
        if owner is None:
            self.queue.cancel(key)
            return
        candidates = (*self._pods.by(OWNER, owner.metadata.uid), *self._pods.by(ORPHANS, key[0]))
        selector = selector_of(owner.spec.selector)
        pods = await claim(self.client, self._pods, owner, selector, filter(is_active, candidates))
        if owner.metadata.deletion_timestamp is not None:
            await self._report(owner, None)
            return
        is_waiting = self._pod_control.seconds_to_wait(owner) > 0
        problem = await self._scale(owner, pods)
        await self._report(owner, problem)
        if problem is None:
            return
        if not (wait := self._pod_control.seconds_to_wait(owner)):
            raise problem
        if not (is_waiting or is_namespace_terminating(problem)):
            self.failed(key, problem)
        self.queue.add_after(key, wait)

    def _changed(self, old: Owner | None, new: Owner | None) -> None:
        if old is not None and new is not None and old.metadata.generation == new.metadata.generation:
            self._enqueue_later((new.metadata.namespace, new.metadata.name))
        elif changed := new or old:
            self.enqueue(changed)

    def _enqueue_later(self, key: Key) -> None:
        """Reconcile a set soon; the more pods it has, the longer changes are gathered."""
        owner = self._sets.get(*key)
        if owner is not None:
            self.queue.add_after(key, min(owner.status.replicas * _PAUSE, _LONGEST_PAUSE))

    async def _scale(self, owner: Owner, pods: Sequence[Pod]) -> ApiError | None:
        surplus = len(pods) - desired_replicas(owner)
        if surplus < 0 and (wait := self._seconds_after_rejections(owner)) > 0:
            self.queue.add_after((owner.metadata.namespace, owner.metadata.name), wait)
            return None
        try:
            if surplus < 0:
                await self._create(owner, min(-surplus, _BURST))
            elif surplus > 0:
                await self._pod_control.delete_many(owner, self._least_missed(owner, pods)[: min(surplus, _BURST)])
        except ApiError as error:
            return error
        return None

    def _seconds_after_rejections(self, owner: Owner) -> float:
        """How long to wait before pods are replaced that kubelets have rejected: each time twice as long."""
        owned = self._pods.by(OWNER, owner.metadata.uid)
        created = {pod.metadata.creation_timestamp for pod in owned if is_rejected(pod)} - {None}
        newest = max(filter(None, created), default=None)
        if newest is None:
            return 0.0
        return REJECTIONS.delay(len(created)) - (self.clock.now() - newest).total_seconds()

    async def _create(self, owner: Owner, count: int) -> None:
        metadata = owner.metadata
        try:
            data: Data = msgspec.json.decode(await self.client.get(self._sets.kind, metadata.namespace, metadata.name))
        except Missing:
            return
        if data["metadata"]["uid"] == metadata.uid:
            named = {"generateName": f"{metadata.name}-"}
            await self._pod_control.create_many(owner, data["spec"]["template"], [named] * count)

    def _least_missed(self, owner: Owner, pods: Sequence[Pod]) -> list[Pod]:
        above = controller_of(owner)
        siblings = self._sets.by(OWNER, above.uid) if above is not None else (owner,)
        family = [pod for each in siblings for pod in self._pods.by(OWNER, each.metadata.uid)]
        return least_missed(pods, family, self.clock.now())

    async def _report(self, owner: Owner, problem: ApiError | None) -> None:
        """Write the status, and set the timer for the next pod that becomes available."""
        matches = selector_of(owner.spec.selector).matches
        owned = [pod for pod in self._pods.by(OWNER, owner.metadata.uid) if matches(pod.metadata.labels)]
        now = self.clock.now()
        waits = [
            wait
            for pod in owned
            if is_active(pod) and (wait := seconds_to_availability(pod, owner.spec.min_ready_seconds, now)) is not None
        ]
        if remaining := [wait for wait in waits if wait > 0]:
            self.queue.add_after((owner.metadata.namespace, owner.metadata.name), min(remaining))
        status = self._status(owner, owned, waits, problem)
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
        await self._sets.caught_up(resource_version(answer))

    def _status(
        self, owner: Owner, owned: Sequence[Pod], waits: Sequence[float], problem: ApiError | None
    ) -> ReplicationControllerStatus:
        active = [pod for pod in owned if is_active(pod)]
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
            return ReplicationControllerStatus(**counts, conditions=conditions)
        return ReplicaSetStatus(**counts, conditions=conditions, terminating_replicas=sum(map(is_terminating, owned)))

    def _conditions(self, owner: Owner, active: int, problem: ApiError | None) -> tuple[Condition, ...]:
        others = tuple(each for each in owner.status.conditions if each.type != REPLICA_FAILURE)
        if problem is None or is_namespace_terminating(problem):
            return others
        reason, message = "FailedCreate" if active < desired_replicas(owner) else "FailedDelete", str(problem)
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
def _fields(struct: type[ReplicationControllerStatus]) -> tuple[str, ...]:
    """The fields of a status, as they are spelt in JSON."""
    named = msgspec.structs.fields(struct)
    return tuple(field.encode_name for field in named if field.name != "updated_replicas")


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
