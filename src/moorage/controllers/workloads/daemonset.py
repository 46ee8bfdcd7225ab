"""DaemonSets: one pod on each node that admits it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

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
from moorage.controllers.owners.replacements import ReplacementBackoff
from moorage.controllers.owners.revisions import Revisions
from moorage.controllers.workloads import daemonupdate
from moorage.controllers.workloads.daemonplacement import (
    NOWHERE,
    DaemonFit,
    DaemonPlacement,
    bound_to,
    node_of,
    places_alike,
)
from moorage.controllers.workloads.daemonupdate import GENERATION, HASH, DaemonSetUpdate
from moorage.match.deferral import NotReady, deferring
from moorage.match.evaluations import Parked

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_BURST = 250
_PATIENCE_PER_NODE, _LONGEST_PATIENCE = 0.0002, 1.0
_REPLACEMENTS = Backoff(first=1.0, last=900.0)
"""How long a pod that failed on a node is left alone before it is replaced."""


@dataclass(frozen=True, slots=True)
class _Work:
    """A DaemonSet, its template in the newest revision, and whether its pods may run on each node."""

    owner: DaemonSet
    placement: DaemonPlacement
    template: Data
    hash: str
    fits: dict[str, DaemonFit]

    def update(self, pods: dict[str, list[Pod]], now: datetime) -> DaemonSetUpdate:
        generation = self.owner.metadata.annotations.get(_TEMPLATE_GENERATION, "")
        return DaemonSetUpdate(self.owner.spec, self.hash, generation, self.fits, pods, now)


class DaemonSets(PodOwner[DaemonSet]):
    """Keeps a pod of each DaemonSet on each node that admits it, and none on the others."""

    name = "daemonset-controller"
    struct = DaemonSet

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._revisions = Revisions(context, HASH)
        self._nodes = context.informers.of(Node)
        self._nodes.on_change(self._node_changed)
        self._placements: dict[str, tuple[Data, DaemonPlacement]] = {}
        self._parked = Parked(self.queue.add)
        """The DaemonSets whose expressions take long to be evaluated."""
        self._replacements = ReplacementBackoff(_REPLACEMENTS, self.clock.now)
        self.owners.on_change(self._replacements.forget)
        self.owners.on_change(self._forget)

    def _forget(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        if old is not None and new is None:
            self._placements.pop(old.metadata.uid, None)
            self._parked.forget((old.metadata.namespace, old.metadata.name))

    def pod_changed(self, key: Key) -> None:
        """Reconcile a DaemonSet whose pods or nodes have changed; the more nodes, the longer changes are gathered."""
        self.queue.add_after(key, min(_LONGEST_PATIENCE, len(self._nodes) * _PATIENCE_PER_NODE))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """Reconcile the DaemonSets whose pods may run, or no longer run, on a node that has changed."""
        if old is not None and new is not None and places_alike(old, new):
            return
        for owner in self.owners:
            known = self._placements.get(owner.metadata.uid)
            if known is None or _fits_otherwise(known[1], old, new):
                self.pod_changed((owner.metadata.namespace, owner.metadata.name))

    def _placement(self, owner: DaemonSet, template: Data) -> DaemonPlacement:
        known = self._placements.get(owner.metadata.uid)
        if known is None or known[0] is not template:
            known = template, DaemonPlacement(template, self.context.gates)
            self._placements[owner.metadata.uid] = known
        return known[1]

    async def sync(self, owner: DaemonSet) -> None:
        """Create and delete pods as the nodes require, and replace pods of older templates."""
        if is_ending(owner):
            return
        await self.claimed(owner)
        template: Data = (await self.spec_of(owner))["template"]
        collisions = owner.status.collision_count or 0
        revision, collisions = await self._revisions.latest(owner, template, collisions)
        try:
            with deferring():
                placement = self._placement(owner, template)
                fits = placement.fits(self._nodes)
        except NotReady as later:
            self._parked.park((owner.metadata.namespace, owner.metadata.name), later.work)
            return
        work = _Work(owner, placement, template, self._revisions.hash_of(revision), fits)
        try:
            pods = await self._manage(work, self._by_node(owner))
            if owner.spec.update_strategy.type == "RollingUpdate":
                pods = await self._change(work, pods, *work.update(pods, self.clock.now()).next_step())
        except ApiError:
            await self._write_status(work, self._by_node(owner), collisions)
            raise
        await self._write_status(work, pods, collisions)
        hashes = {pod.metadata.labels.get(HASH, "") for pod in self.owned(owner)} | {work.hash}
        live = {each.metadata.name for each in self._revisions.of(owner) if self._revisions.hash_of(each) in hashes}
        await self._revisions.truncate(owner, owner.spec.revision_history_limit, live)

    def _by_node(self, owner: DaemonSet) -> dict[str, list[Pod]]:
        """The pods of a DaemonSet by the node that they are made for, without those that only wait for deletion."""
        by_node: dict[str, list[Pod]] = {}
        for pod in self.owned(owner):
            if not (is_finished(pod) and is_ending(pod)) and (node := node_of(pod)):
                by_node.setdefault(node, []).append(pod)
        return by_node

    async def _manage(self, work: _Work, pods: dict[str, list[Pod]]) -> dict[str, list[Pod]]:
        """Delete pods where none should be, create pods where one should be. Returns the pods as they are then."""
        surplus: list[Pod] = []
        missing: list[str] = []
        update = work.update(pods, self.clock.now())
        for node, fit in work.fits.items():
            node_pods = pods.get(node)
            if fit.runs and not node_pods:
                missing.append(node)
            elif node_pods and fit.stays:
                alive = [pod for pod in node_pods if not is_ending(pod) and not is_finished(pod)]
                surplus += self._ended(work.owner, node, node_pods)
                surplus += update.excess(alive)
                if fit.runs and not alive and update.may_surge:
                    missing.append(node)
            elif node_pods:
                surplus += (pod for pod in node_pods if not is_ending(pod))
        for node in pods.keys() - work.fits.keys():
            # A pod that was never placed has no kubelet, and no node that could take it along.
            surplus += (pod for pod in pods[node] if not pod.spec.node_name)
        return await self._change(work, pods, surplus, missing)

    def _ended(self, owner: DaemonSet, node: str, pods: Iterable[Pod]) -> Iterable[Pod]:
        """The pods of a node that have ended and may be replaced now."""
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
        """Whether a failed pod may be replaced now: with back-off, or controller and kubelet would fight."""
        if wait := self._replacements.seconds_to_wait(owner, node):
            self.queue.add_after((owner.metadata.namespace, owner.metadata.name), wait)
        return not wait

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
        spec, template_metadata = work.placement.spec, work.template.get("metadata") or {}
        create = partial(self.pod_control.create, owner)
        creations = [
            partial(create, {"metadata": template_metadata, "spec": bound_to(spec, node)}, metadata)
            for node in missing[:_BURST]
        ]
        try:
            await in_batches(creations)
        finally:
            await self.pod_control.delete_many(owner, surplus[:_BURST])
        if max(len(surplus), len(missing)) > _BURST:
            self.enqueue(owner)
        return self._by_node(owner)

    async def _write_status(self, work: _Work, pods: dict[str, list[Pod]], collisions: int) -> None:
        owner, now = work.owner, self.clock.now()
        seconds, update = owner.spec.min_ready_seconds, work.update(pods, now)
        firsts = {
            node: node_pods[0] if len(node_pods) == 1 else min(node_pods, key=daemonupdate.age)
            for node, node_pods in pods.items()
            if node in work.fits
        }
        desired = [node for node, fit in work.fits.items() if fit.runs]
        present = [firsts[node] for node in desired if node in firsts]
        ready = [pod for pod in present if ready_condition(pod)]
        available = sum(is_available(pod, seconds, now) for pod in ready)
        # All pods, because a surging pod is not the first of its node, and the old one waits for it.
        all_pods = [pod for node_pods in pods.values() for pod in node_pods]
        waits = [wait for pod in all_pods if (wait := seconds_to_availability(pod, seconds, now))]
        if waits:
            self.queue.add_after((owner.metadata.namespace, owner.metadata.name), min(waits))
        status = {
            "observedGeneration": owner.metadata.generation,
            "desiredNumberScheduled": len(desired),
            "currentNumberScheduled": len(present),
            "numberMisscheduled": sum(not work.fits[node].runs for node in firsts),
            "numberReady": len(ready),
            "updatedNumberScheduled": sum(map(update.is_new, present)),
            "numberAvailable": available,
            "numberUnavailable": len(desired) - available,
        }
        if collisions:
            status["collisionCount"] = collisions
        await self.write_status(owner, status)


def _fits_otherwise(placement: DaemonPlacement, old: Node | None, new: Node | None) -> bool:
    """Whether pods may run on a node that has changed where they did not, or the reverse; also when that takes long."""
    try:
        with deferring():
            return _fit(placement, old) != _fit(placement, new)
    except NotReady:
        return True


def _fit(placement: DaemonPlacement, node: Node | None) -> DaemonFit:
    return placement.fit(node) if node is not None else NOWHERE
