"""DaemonSets: one pod on each node that admits it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import NamedTuple

from moorage.api.meta import Data
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.workload import DaemonSet
from moorage.client import ApiError
from moorage.client.backoff import Backoff
from moorage.client.events import NORMAL, WARNING
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context
from moorage.controllers.frame.pods import is_ending, is_finished, ready_condition
from moorage.controllers.owners.podcontrol import seconds_to_availability
from moorage.controllers.owners.podowner import PodOwner, in_batches, is_available
from moorage.controllers.owners.revisions import Revisions
from moorage.controllers.workloads import daemonupdate
from moorage.controllers.workloads.daemonplacement import NOWHERE, DaemonFit, DaemonPlacement, bound_to, node_of
from moorage.controllers.workloads.daemonupdate import GENERATION, HASH, DaemonSetUpdate

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_KEPT_REVISIONS = 10
_BURST = 250
_PATIENCE_PER_NODE, _LONGEST_PATIENCE = 0.0002, 1.0
_REPLACEMENTS = Backoff(first=1.0, last=900.0)
"""How long a pod that failed on a node is left alone before it is replaced."""


class _Failures(NamedTuple):
    """How often in a row pods have failed on a node, and when the last one was replaced."""

    in_a_row: int
    replaced: datetime


@dataclass(frozen=True, slots=True)
class _Work:
    """A set, its template in the newest revision, and what each node is to it."""

    owner: DaemonSet
    placement: DaemonPlacement
    template: Data
    hash: str
    places: dict[str, DaemonFit]

    def update(self, pods: dict[str, list[Pod]], now: datetime) -> DaemonSetUpdate:
        generation = self.owner.metadata.annotations.get(_TEMPLATE_GENERATION, "")
        return DaemonSetUpdate(self.owner.spec, self.hash, generation, self.places, pods, now)


class DaemonSets(PodOwner[DaemonSet]):
    """Keeps a pod of each set on each node that admits it, and none on the others."""

    name = "daemonset-controller"
    struct = DaemonSet

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._revisions = Revisions(context, HASH)
        self._nodes = context.informers.of(Node)
        self._nodes.on_change(self._node_changed)
        self._placements: dict[str, tuple[Data, DaemonPlacement]] = {}
        self._failures: dict[tuple[str, int], dict[str, _Failures]] = {}
        self.owners.on_change(self._forget)

    def _forget(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        if old is not None and (new is None or new.metadata.generation != old.metadata.generation):
            self._failures.pop((old.metadata.uid, old.metadata.generation), None)
        if old is not None and new is None:
            self._placements.pop(old.metadata.uid, None)

    def pod_changed(self, key: Key) -> None:
        """Look at a set one of whose pods or nodes has changed; the more nodes, the more changes at a time."""
        self.queue.add_after(key, min(_LONGEST_PATIENCE, len(self._nodes) * _PATIENCE_PER_NODE))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """Look at the sets to which a node is something else now."""
        if old is not None and new is not None and _is_same(old, new):
            return
        for owner in self.owners:
            known = self._placements.get(owner.metadata.uid)
            if known is None or _place(known[1], old) != _place(known[1], new):
                self.pod_changed((owner.metadata.namespace, owner.metadata.name))

    def _placement(self, owner: DaemonSet, template: Data) -> DaemonPlacement:
        known = self._placements.get(owner.metadata.uid)
        if known is None or known[0] is not template:
            known = template, DaemonPlacement(template.get("spec") or {}, self.context.gates)
            self._placements[owner.metadata.uid] = known
        return known[1]

    async def sync(self, owner: DaemonSet) -> None:
        """Bring the pods of a set in line with the nodes, and its old pods nearer to the newest template."""
        if is_ending(owner):
            return
        await self.claimed(owner)
        template: Data = (await self.spec_of(owner))["template"]
        collisions = owner.status.collision_count or 0
        revision, collisions = await self._revisions.latest(owner, template, collisions)
        placement = self._placement(owner, template)
        places = {node.metadata.name: placement.place(node) for node in self._nodes}
        work = _Work(owner, placement, template, self._revisions.hash_of(revision), places)
        try:
            pods = await self._manage(work, self._by_node(owner))
            if owner.spec.update_strategy.type == "RollingUpdate":
                pods = await self._change(work, pods, *work.update(pods, self.clock.now()).next_step())
        except ApiError:
            await self._tell(work, self._by_node(owner), collisions)
            raise
        await self._tell(work, pods, collisions)
        hashes = {pod.metadata.labels.get(HASH, "") for pod in self.owned(owner)} | {work.hash}
        live = {each.metadata.name for each in self._revisions.of(owner) if self._revisions.hash_of(each) in hashes}
        limit = owner.spec.revision_history_limit
        await self._revisions.truncate(owner, _KEPT_REVISIONS if limit is None else limit, live)

    def _by_node(self, owner: DaemonSet) -> dict[str, list[Pod]]:
        """The pods of a set by the node that they are meant for, but for those that are as good as gone."""
        found: dict[str, list[Pod]] = {}
        for pod in self.owned(owner):
            if not (is_finished(pod) and is_ending(pod)) and (node := node_of(pod)):
                found.setdefault(node, []).append(pod)
        return found

    async def _manage(self, work: _Work, pods: dict[str, list[Pod]]) -> dict[str, list[Pod]]:
        """Delete pods where none should be, make pods where one should be. Returns the pods as they are then."""
        surplus: list[Pod] = []
        missing: list[str] = []
        update = work.update(pods, self.clock.now())
        for node, place in work.places.items():
            found = pods.get(node)
            if place.runs and not found:
                missing.append(node)
            elif found and place.stays:
                alive = [pod for pod in found if not is_ending(pod) and not is_finished(pod)]
                surplus += self._ended(work.owner, node, found)
                surplus += update.excess(alive)
                if place.runs and not alive and update.may_surge:
                    missing.append(node)
            elif found:
                surplus += (pod for pod in found if not is_ending(pod))
        for node in pods.keys() - work.places.keys():
            # A pod that was never placed has no kubelet, and no node that could take it along.
            surplus += (pod for pod in pods[node] if not pod.spec.node_name)
        return await self._change(work, pods, surplus, missing)

    def _ended(self, owner: DaemonSet, node: str, pods: Iterable[Pod]) -> Iterable[Pod]:
        """The pods of a node that have ended and may be deleted now, to be replaced."""
        for pod in pods:
            if is_ending(pod) or not is_finished(pod):
                continue
            where = f"daemon pod {pod.metadata.namespace}/{pod.metadata.name} on node {node}"
            if pod.status.phase == "Succeeded":
                self.recorder.event(
                    owner, NORMAL, "SucceededDaemonPod", f"Found succeeded {where}, will try to delete it"
                )
                yield pod
            elif self._may_replace(owner, node):
                self.recorder.event(owner, WARNING, "FailedDaemonPod", f"Found failed {where}, will try to kill it")
                yield pod

    def _may_replace(self, owner: DaemonSet, node: str) -> bool:
        """Whether a failed pod may be replaced now: later each time, or set and kubelet would fight."""
        now = self.clock.now()
        failures = self._failures.setdefault((owner.metadata.uid, owner.metadata.generation), {})
        last = failures.get(node)
        count, passed = (last.in_a_row, (now - last.replaced).total_seconds()) if last else (0, 0.0)
        if passed > 2 * _REPLACEMENTS.last:
            count = 0
        if count and passed < _REPLACEMENTS.delay(count):
            key = (owner.metadata.namespace, owner.metadata.name)
            self.queue.add_after(key, _REPLACEMENTS.delay(count) - passed)
            return False
        failures[node] = _Failures(count + 1, now)
        return True

    async def _change(
        self, work: _Work, pods: dict[str, list[Pod]], surplus: list[Pod], missing: list[str]
    ) -> dict[str, list[Pod]]:
        if not surplus and not missing:
            return pods
        owner = work.owner
        labels = {HASH: work.hash}
        if generation := owner.metadata.annotations.get(_TEMPLATE_GENERATION):
            labels[GENERATION] = generation
        metadata = {"generateName": f"{owner.metadata.name}-", "labels": labels}
        spec, given = work.placement.spec, work.template.get("metadata") or {}
        create = partial(self.pod_control.create, owner)
        make = [
            partial(create, {"metadata": given, "spec": bound_to(spec, node)}, metadata) for node in missing[:_BURST]
        ]
        try:
            await in_batches(make)
        finally:
            await self.pod_control.delete_many(owner, surplus[:_BURST])
        if max(len(surplus), len(missing)) > _BURST:
            self.enqueue(owner)
        return self._by_node(owner)

    async def _tell(self, work: _Work, pods: dict[str, list[Pod]], collisions: int) -> None:
        owner, now = work.owner, self.clock.now()
        seconds, update = owner.spec.min_ready_seconds, work.update(pods, now)
        firsts = {
            node: found[0] if len(found) == 1 else min(found, key=daemonupdate.age)
            for node, found in pods.items()
            if node in work.places
        }
        wanted = [node for node, place in work.places.items() if place.runs]
        there = [firsts[node] for node in wanted if node in firsts]
        ready = [pod for pod in there if ready_condition(pod)]
        available = sum(is_available(pod, seconds, now) for pod in ready)
        # Of all pods, for one that surges is not the first of its node and the old one waits for it.
        every = [pod for found in pods.values() for pod in found]
        waits = [wait for pod in every if (wait := seconds_to_availability(pod, seconds, now))]
        if waits:
            self.queue.add_after((owner.metadata.namespace, owner.metadata.name), min(waits))
        status = {
            "observedGeneration": owner.metadata.generation,
            "desiredNumberScheduled": len(wanted),
            "currentNumberScheduled": len(there),
            "numberMisscheduled": sum(not work.places[node].runs for node in firsts),
            "numberReady": len(ready),
            "updatedNumberScheduled": sum(map(update.is_new, there)),
            "numberAvailable": available,
            "numberUnavailable": len(wanted) - available,
        }
        if collisions:
            status["collisionCount"] = collisions
        await self.tell_status(owner, status)


def _place(placement: DaemonPlacement, node: Node | None) -> DaemonFit:
    return placement.place(node) if node is not None else NOWHERE


def _is_same(old: Node, new: Node) -> bool:
    return old.metadata.labels == new.metadata.labels and old.spec.taints == new.spec.taints
