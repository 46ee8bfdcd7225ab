"""StatefulSets: pods with lasting names and claims, made, replaced and removed in the order of their numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from itertools import islice

from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.api.volume import PersistentVolumeClaim
from moorage.api.workload import ControllerRevision, RollingUpdate, StatefulSet
from moorage.client.client import STRATEGIC
from moorage.controllers.frame.controller import Context
from moorage.controllers.frame.pods import POD, is_ending, is_finished, ready_condition
from moorage.controllers.owners.podcontrol import EventMessages, seconds_to_availability
from moorage.controllers.owners.podowner import PodOwner, in_batches, is_available
from moorage.controllers.owners.replacements import REJECTIONS, ReplacementBackoff, is_rejected
from moorage.controllers.owners.replicas import desired_replicas, scaled
from moorage.controllers.owners.revisions import Revisions
from moorage.controllers.workloads.statefulclaims import ClaimEnding, StatefulClaims, claim_name

_HASH = "controller.kubernetes.io/hash"
_REVISION = "controller-revision-hash"
_POD_NAME, _POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"
BURST = 500
"""How many pods are made in one reconciliation: the next one makes more."""
_NUMBERED = re.compile(r"(.*)-(\d+)", re.ASCII)


def _ordinal(owner: StatefulSet, name: str) -> int | None:
    """The number of a pod of a set, by its name."""
    match = _NUMBERED.fullmatch(name)
    return int(match[2]) if match and match[1] == owner.metadata.name and str(int(match[2])) == match[2] else None


@dataclass(frozen=True, slots=True)
class _Work:
    """A StatefulSet, its specification as stored, and its current and its update revision."""

    owner: StatefulSet
    spec: Data
    current: ControllerRevision
    update: ControllerRevision

    @property
    def ordinals(self) -> range:
        start = self.owner.spec.ordinals.start if self.owner.spec.ordinals else 0
        return range(start, start + desired_replicas(self.owner))

    @property
    def is_ordered(self) -> bool:
        return self.owner.spec.pod_management_policy != "Parallel"

    @property
    def rolling(self) -> RollingUpdate | None:
        return self.owner.spec.update_strategy.rolling_update

    @property
    def partition(self) -> int:
        return (self.rolling.partition or 0) if self.rolling else 0

    @property
    def max_unavailable(self) -> int | None:
        value = self.rolling.max_unavailable if self.rolling else None
        return None if value is None else max(1, scaled(value, len(self.ordinals), up=False))

    @property
    def claim_templates(self) -> list[Data]:
        return self.spec.get("volumeClaimTemplates") or []

    def revision_of(self, ordinal: int) -> ControllerRevision:
        """The revision in which a pod is made: those below the partition stay as they were."""
        if self.rolling is not None:
            kept = self.partition
        elif self.owner.spec.update_strategy.type == "RollingUpdate":
            kept = self.owner.status.current_replicas
        else:
            kept = 0
        return self.current if ordinal < self.ordinals.start + kept else self.update

    def is_old(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(_REVISION) != self.update.metadata.name


class StatefulSets(PodOwner[StatefulSet]):
    """Keeps exactly one pod for each ordinal of a StatefulSet."""

    name = "statefulset-controller"
    struct = StatefulSet
    messages = EventMessages(
        created="Create Pod {pod} in StatefulSet {owner} successful",
        deleted="Delete Pod {pod} in StatefulSet {owner} successful",
        not_created="Create Pod {pod} in StatefulSet {owner} failed error: {error}",
        not_deleted="Delete Pod {pod} in StatefulSet {owner} failed error: {error}",
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._revisions = Revisions(context, _HASH)
        self._claims = StatefulClaims(context, self.recorder)
        context.informers.of(PersistentVolumeClaim).on_change(self._claim_changed)
        self._replacements = ReplacementBackoff(REJECTIONS, self.clock.now)
        self.owners.on_change(self._replacements.forget)

    def is_member(self, owner: StatefulSet, pod: Pod) -> bool:
        """Whether a pod has the name of one of a set's."""
        return _ordinal(owner, pod.metadata.name) is not None

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        """A claim that is gone may be one that a pod waits for."""
        if old is None or new is not None:
            return
        for owner in self.owners:
            if owner.metadata.namespace == old.metadata.namespace and any(
                old.metadata.name.startswith(claim_name(template.metadata.name, owner.metadata.name))
                for template in owner.spec.volume_claim_templates
            ):
                self.enqueue(owner)

    async def sync(self, owner: StatefulSet) -> None:
        """Take the next step that the order allows, and write the status."""
        if is_ending(owner):
            return
        pods = await self.claimed(owner)
        spec = await self.spec_of(owner)
        update, collisions = await self._revisions.latest(owner, spec["template"], owner.status.collision_count or 0)
        current = next(
            (each for each in self._revisions.of(owner) if each.metadata.name == owner.status.current_revision), update
        )
        work = _Work(owner, spec, current, update)
        try:
            await self._advance(work, pods)
        except ClaimEnding:
            pass  # the informer will report its deletion
        finally:
            await self._write_status(work, collisions)
        live = {pod.metadata.labels.get(_REVISION, "") for pod in self.owned(owner)}
        live |= {current.metadata.name, update.metadata.name, owner.status.current_revision}
        await self._revisions.truncate(owner, owner.spec.revision_history_limit, live)

    async def _advance(self, work: _Work, pods: list[Pod]) -> None:
        numbered = {number: pod for pod in pods if (number := _ordinal(work.owner, pod.metadata.name)) is not None}
        replicas = {number: numbered[number] for number in sorted(numbered) if number in work.ordinals}
        surplus = [numbered[number] for number in sorted(numbered.keys() - replicas.keys(), reverse=True)]
        if work.is_ordered:
            for number in work.ordinals:
                if not await self._sync_pod(work, number, replicas.get(number)):
                    return
        else:
            missing = islice((number for number in work.ordinals if number not in replicas), BURST)
            due = sorted([*replicas, *missing])
            await in_batches([partial(self._sync_pod, work, number, replicas.get(number)) for number in due])
        for pod in surplus:
            await self._claims.retain(work.owner, pod, is_surplus=True)
        if surplus and work.is_ordered:
            await self._remove_last(work, surplus)
            return
        await self.pod_control.delete_many(work.owner, [pod for pod in surplus if not is_ending(pod)])
        if work.owner.spec.update_strategy.type == "RollingUpdate":
            await self._update(work, replicas)

    async def _sync_pod(self, work: _Work, number: int, pod: Pod | None) -> bool:
        """Create or repair one pod. Returns whether an ordered set may go on to the next ordinal."""
        owner = work.owner
        if pod is None:
            await self._create(work, number)
            return False
        if is_finished(pod):
            if not is_ending(pod) and self._may_replace(owner, pod):
                await self.pod_control.delete(owner, pod)
            return False
        if pod.status.phase == "Pending":
            await self._claims.provide(owner, work.claim_templates, pod.metadata.name)
            await self._claims.retain(owner, pod, is_surplus=False)
        if work.is_ordered and not self._serves(work, pod):
            return False
        await self._claims.retain(owner, pod, is_surplus=False)
        await self._identify(pod, number)
        return True

    def _may_replace(self, owner: StatefulSet, pod: Pod) -> bool:
        """Whether a pod that has ended may be replaced now: with back-off when kubelets reject it again and again."""
        wait = self._replacements.seconds_to_wait(owner, pod.metadata.name) if is_rejected(pod) else 0.0
        if wait:
            self.queue.add_after((owner.metadata.namespace, owner.metadata.name), wait)
        return not wait

    async def _create(self, work: _Work, number: int) -> None:
        owner, name = work.owner, f"{work.owner.metadata.name}-{number}"
        if self._claims.is_stale(owner, name):
            return
        await self._claims.provide(owner, work.claim_templates, name)
        revision = work.revision_of(number)
        template = await self._revisions.template(revision)
        metadata = {"name": name, "labels": _identity(name, number) | {_REVISION: revision.metadata.name}}
        await self.pod_control.create(owner, {**template, "spec": _pod_spec(template, work, name)}, metadata)
        pod = self.pods.get(owner.metadata.namespace, name)
        if pod is not None:
            await self._claims.retain(owner, pod, is_surplus=False)

    async def _identify(self, pod: Pod, number: int) -> None:
        """Give a pod that was adopted the labels that it would have been made with."""
        labels = _identity(pod.metadata.name, number)
        if any(pod.metadata.labels.get(name) != value for name, value in labels.items()):
            patch = {"metadata": {"uid": pod.metadata.uid, "labels": labels}}
            await self.client.patch(POD, pod.metadata.namespace, pod.metadata.name, patch, form=STRATEGIC)

    async def _remove_last(self, work: _Work, surplus: list[Pod]) -> None:
        """Delete the pod with the highest ordinal, unless it is unavailable and so is one with a lower ordinal."""
        last = surplus[0]
        sick = [pod for pod in surplus if not self._serves(work, pod)]
        if not is_ending(last) and (last not in sick or last is sick[-1]):
            await self.pod_control.delete(work.owner, last)

    async def _update(self, work: _Work, replicas: dict[int, Pod]) -> None:
        """Delete pods of old revisions, from the highest number down to the partition, one or a few at a time."""
        least = work.ordinals.start + work.partition
        changing = {number: replicas[number] for number in reversed(replicas) if number >= least}
        if work.max_unavailable is None:
            await self.pod_control.delete_many(work.owner, self._next_old(work, changing))
            return
        serving = {number for number, pod in replicas.items() if self._serves(work, pod)}
        old = {number: pod for number, pod in changing.items() if work.is_old(pod) and not is_ending(pod)}
        budget = max(0, work.max_unavailable - (len(work.ordinals) - len(serving)))
        # In a parallel set, old pods that are unavailable anyway are replaced at once.
        broken = [] if work.is_ordered else [pod for number, pod in old.items() if number not in serving]
        others = [pod for number, pod in old.items() if work.is_ordered or number in serving]
        await self.pod_control.delete_many(work.owner, broken + others[:budget])

    def _next_old(self, work: _Work, replicas: dict[int, Pod]) -> list[Pod]:
        """The pod of an old revision with the highest number, unless one above it does not serve yet."""
        for number, pod in zip(reversed(work.ordinals), replicas.values(), strict=False):
            if replicas.get(number) is not pod:
                break  # a pod with a higher number is missing
            if work.is_old(pod) and not is_ending(pod):
                return [pod]
            if not self._serves(work, pod):
                break
        return []

    def _serves(self, work: _Work, pod: Pod) -> bool:
        return not is_ending(pod) and self._is_available(work, pod)

    def _is_available(self, work: _Work, pod: Pod) -> bool:
        return pod.status.phase == "Running" and is_available(pod, work.owner.spec.min_ready_seconds, self.clock.now())

    async def _write_status(self, work: _Work, collisions: int) -> None:
        owner = work.owner
        pods = [pod for pod in self.owned(owner) if _ordinal(owner, pod.metadata.name) is not None]
        revisions = [pod.metadata.labels.get(_REVISION) for pod in pods if not is_ending(pod)]
        ready = [pod for pod in pods if pod.status.phase == "Running" and ready_condition(pod)]
        current, update = work.current.metadata.name, work.update.metadata.name
        status = {
            "observedGeneration": owner.metadata.generation,
            "replicas": len(pods),
            "readyReplicas": len(ready),
            "availableReplicas": sum(self._is_available(work, pod) for pod in ready),
            "currentReplicas": revisions.count(current),
            "updatedReplicas": revisions.count(update),
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": collisions,
        }
        is_rolling = owner.spec.update_strategy.type == "RollingUpdate"
        counts = {status["updatedReplicas"], status["readyReplicas"], status["replicas"]}
        if is_rolling and counts == {len(work.ordinals)}:
            status |= {"currentReplicas": status["updatedReplicas"], "currentRevision": update}
        self._wait_for(work, ready)
        await self.write_status(owner, status)

    def _wait_for(self, work: _Work, ready: list[Pod]) -> None:
        now, seconds = self.clock.now(), work.owner.spec.min_ready_seconds
        waits = [wait for pod in ready if (wait := seconds_to_availability(pod, seconds, now))]
        if waits:
            self.queue.add_after((work.owner.metadata.namespace, work.owner.metadata.name), min(waits))


def _identity(name: str, number: int) -> dict[str, str]:
    return {_POD_NAME: name, _POD_INDEX: str(number)}


def _pod_spec(template: Data, work: _Work, name: str) -> Data:
    """The specification of one pod: its own host name, and its own claims for the volumes that have a template."""
    spec = {**(template.get("spec") or {}), "hostname": name}
    if work.owner.spec.service_name:
        spec["subdomain"] = work.owner.spec.service_name
    claims = {each["metadata"]["name"]: each for each in work.claim_templates}
    if claims:
        volumes = [{"name": each, "persistentVolumeClaim": {"claimName": claim_name(each, name)}} for each in claims]
        spec["volumes"] = volumes + [each for each in spec.get("volumes") or () if each["name"] not in claims]
    return spec
