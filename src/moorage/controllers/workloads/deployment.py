"""Deployments: one ReplicaSet for each template they have had, and pods that move from the old to the new."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from moorage.api import kinds
from moorage.api.labels import selector_of
from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.api.workload import Deployment, ReplicaSet
from moorage.client import ApiError, Exists, Missing
from moorage.client.events import NORMAL, WARNING
from moorage.client.informer import Key
from moorage.client.workqueue import RETRIES
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.frame.pods import controller_of, is_finished
from moorage.controllers.owners.podcontrol import (
    ORPHANS,
    OWNER,
    claim,
    follow,
    index_by_owner,
    is_namespace_terminating,
    reference_to,
)
from moorage.controllers.owners.replicas import desired_replicas
from moorage.controllers.owners.templatehash import pod_template_hash
from moorage.controllers.workloads import rollouts
from moorage.controllers.workloads.deploymentrollout import DeploymentRollout
from moorage.controllers.workloads.rollouts import HASH, PROGRESSING, REVISION, ROLLBACK

DEPLOYMENT = kinds.row("apps/v1", "Deployment")
REPLICA_SET = kinds.row("apps/v1", "ReplicaSet")
_LAG = 30.0


class DeploymentController(Controller):
    """Creates a ReplicaSet for each new template, and moves pods to it as the strategy says."""

    name = "deployment-controller"
    retries = replace(RETRIES, last=30.0)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._deployments = context.informers.of(Deployment)
        self._sets = context.informers.of(ReplicaSet)
        self._pods = context.informers.of(Pod)
        index_by_owner(self._sets)
        index_by_owner(self._pods)
        self._templates: dict[str, tuple[int, Data]] = {}
        self._deployments.on_change(self._changed)
        self._sets.on_change(self._set_changed)
        self._pods.on_change(self._pod_changed)
        follow(self._sets, self._deployments, lambda owner: owner.spec.selector, self.queue.add, context.gradual)

    async def reconcile(self, key: Key) -> None:
        """Bring one Deployment nearer to its template and size."""
        try:
            body = await self.client.get(DEPLOYMENT, *key)
        except Missing:
            self.queue.cancel(key)
            return
        deployment = msgspec.json.decode(body, type=Deployment)
        candidates = (*self._sets.by(OWNER, deployment.metadata.uid), *self._sets.by(ORPHANS, key[0]))
        selector = selector_of(deployment.spec.selector)
        sets = await claim(self.client, self._sets, deployment, selector, candidates)
        rollout = await self._read_rollout(deployment, msgspec.json.decode(body), sets)
        try:
            await self._advance(rollout)
        except ApiError as error:
            if not is_namespace_terminating(error):
                raise

    def _changed(self, old: Deployment | None, new: Deployment | None) -> None:
        if changed := new or old:
            self.enqueue(changed)

    def _set_changed(self, old: ReplicaSet | None, new: ReplicaSet | None) -> None:
        if new is None and old is not None:
            self._templates.pop(old.metadata.uid, None)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Reconcile a Deployment of strategy Recreate, which waits for the last of its old pods to end."""
        if old is None or (new is not None and old.status.phase == new.status.phase):
            return
        parent = controller_of(old)
        if parent is None or parent.kind != REPLICA_SET.kind:
            return
        owner = self._sets.get(old.metadata.namespace, parent.name)
        above = controller_of(owner) if owner is not None else None
        deployment = self._deployments.get(old.metadata.namespace, above.name) if above is not None else None
        if deployment is not None and not rollouts.is_rolling(deployment):
            self.enqueue(deployment)

    async def _read_rollout(self, deployment: Deployment, data: Data, sets: Sequence[ReplicaSet]) -> DeploymentRollout:
        template, new = rollouts.comparable(data["spec"]["template"]), None
        for each in rollouts.by_age(sets):
            if new is None and await self._template(each) == template:
                new = each
        return DeploymentRollout(deployment, data, new, [each for each in sets if each is not new])

    async def _template(self, item: ReplicaSet) -> Data | None:
        """The template of a ReplicaSet as stored, ready to be compared; None when it is gone."""
        metadata = item.metadata
        known = self._templates.get(metadata.uid)
        if known is None or known[0] != metadata.generation:
            try:
                data = msgspec.json.decode(await self.client.get(REPLICA_SET, metadata.namespace, metadata.name))
            except Missing:
                return None
            known = data["metadata"]["generation"], rollouts.comparable(data["spec"]["template"])
            self._templates[metadata.uid] = known
        return known[1]

    async def _advance(self, rollout: DeploymentRollout) -> None:
        deployment = rollout.deployment
        if deployment.metadata.deletion_timestamp is not None:
            await self._report(rollout)
            return
        rollout.note_pause(self.clock.now())
        await self._annotate(rollout)
        if deployment.spec.paused:
            await self._rescale(rollout)
            await self._clean_up(rollout)
            await self._report(rollout)
        elif ROLLBACK in deployment.metadata.annotations:
            await self._roll_back(rollout)
        elif self._is_scaled(rollout):
            await self._rescale(rollout)
            await self._report(rollout)
        else:
            is_steady = await (self._roll(rollout) if rollouts.is_rolling(deployment) else self._recreate(rollout))
            if is_steady and rollouts.is_complete(deployment, rollout.status):
                await self._clean_up(rollout)
            rollout.note_progress(self.clock.now())
            await self._report(rollout)

    async def _roll(self, rollout: DeploymentRollout) -> bool:
        """Take one step of a rolling update: scale the new up, else the old down. Returns whether none was left."""
        new = rollout.new or await self._create(rollout)
        if new is None:
            return False
        deployment, total = rollout.deployment, sum(map(desired_replicas, rollout.sets))
        size = min(desired_replicas(deployment), rollouts.size_of_new(deployment, desired_replicas(new), total))
        if await self._resize(rollout, new, size):
            return False
        return not await self._shrink(rollout, new)

    async def _shrink(self, rollout: DeploymentRollout, new: ReplicaSet) -> bool:
        """Scale old ReplicaSets down as far as enough pods stay available: first pods that are not, then others."""
        fewest = rollouts.fewest(rollout.deployment)
        unavailable = desired_replicas(new) - new.status.available_replicas
        room = sum(map(desired_replicas, rollout.sets)) - fewest - unavailable
        has_shrunk = False
        for each in rollouts.by_age(rollouts.active(rollout.old)):
            if (broken := min(room, desired_replicas(each) - each.status.available_replicas)) > 0:
                has_shrunk |= await self._resize(rollout, each, desired_replicas(each) - broken)
                room -= broken
        if room <= 0:
            return has_shrunk
        spare = sum(each.status.available_replicas for each in rollout.sets) - fewest
        for each in rollouts.by_age(rollouts.active(rollout.old)):
            if (count := min(spare, desired_replicas(each))) > 0:
                has_shrunk |= await self._resize(rollout, each, desired_replicas(each) - count)
                spare -= count
        return has_shrunk

    async def _recreate(self, rollout: DeploymentRollout) -> bool:
        """Take one step of strategy Recreate: scale all the old down to zero, then the new up."""
        shrunk = [await self._resize(rollout, each, 0) for each in rollouts.active(rollout.old)]
        if any(shrunk) or self._has_old_pods(rollout):
            return False
        new = rollout.new or await self._create(rollout)
        if new is not None:
            await self._resize(rollout, new, desired_replicas(rollout.deployment))
        return new is not None

    def _has_old_pods(self, rollout: DeploymentRollout) -> bool:
        pods = (pod for each in rollout.old for pod in self._pods.by(OWNER, each.metadata.uid))
        return any(each.status.replicas for each in rollout.old) or not all(map(is_finished, pods))

    def _is_scaled(self, rollout: DeploymentRollout) -> bool:
        """Whether the size of the Deployment was changed since it was written to its ReplicaSets."""
        sizes = (
            rollouts.number(each.metadata.annotations.get(rollouts.DESIRED, ""))
            for each in rollouts.active(rollout.sets)
        )
        return any(size is not None and size != desired_replicas(rollout.deployment) for size in sizes)

    async def _rescale(self, rollout: DeploymentRollout) -> None:
        """Bring ReplicaSets to the size of the Deployment without moving the rollout on."""
        deployment = rollout.deployment
        if only := rollouts.active_or_latest(rollout.new, rollout.old):
            await self._resize(rollout, only, desired_replicas(deployment))
        elif rollouts.is_saturated(deployment, rollout.new):
            for each in rollouts.active(rollout.old):
                await self._resize(rollout, each, 0)
        elif rollouts.is_rolling(deployment):
            sizes = rollouts.proportions(deployment, rollouts.active(rollout.sets))
            for each in rollouts.active(rollout.sets):
                await self._resize(rollout, each, sizes[each.metadata.name], annotate=True)

    async def _resize(self, rollout: DeploymentRollout, item: ReplicaSet, size: int, *, annotate: bool = False) -> bool:
        """Scale a ReplicaSet; with `annotate`, write the Deployment's size to one that keeps its own size, too."""
        before, annotations = desired_replicas(item), rollouts.sizes(rollout.deployment)
        if before == size and (not annotate or annotations.items() <= item.metadata.annotations.items()):
            return False
        await self._change(rollout, item, {"metadata": {"annotations": annotations}, "spec": {"replicas": size}})
        if before == size:
            return False
        direction = "up" if before < size else "down"
        text = f"Scaled {direction} replica set {item.metadata.name} from {before} to {size}"
        self.recorder.event(rollout.deployment, NORMAL, "ScalingReplicaSet", text)
        return True

    async def _change(self, rollout: DeploymentRollout, item: ReplicaSet, patch: Data) -> None:
        """Patch a ReplicaSet as it was read, and wait until the informer has seen it."""
        patch.setdefault("metadata", {})["resourceVersion"] = item.metadata.resource_version
        answer = await self.client.patch(REPLICA_SET, item.metadata.namespace, item.metadata.name, patch)
        fresh = msgspec.json.decode(answer, type=ReplicaSet)
        await self._sets.caught_up(fresh.metadata.resource_version, _LAG)
        rollout.put(fresh)

    async def _annotate(self, rollout: DeploymentRollout) -> None:
        """Keep revision, annotations and minReadySeconds of the newest ReplicaSet up to date."""
        if rollout.new is None:
            return
        patch: Data = {}
        revision = max(map(rollouts.revision_of, rollout.old), default=0) + 1
        if new := rollouts.new_annotations(rollout.deployment, rollout.new.metadata.annotations, revision):
            patch["metadata"] = {"annotations": new}
        if rollout.new.spec.min_ready_seconds != rollout.deployment.spec.min_ready_seconds:
            patch["spec"] = {"minReadySeconds": rollout.deployment.spec.min_ready_seconds}
        if patch:
            await self._change(rollout, rollout.new, patch)
        if rollouts.has_deadline(rollout.deployment) and not rollouts.condition(rollout.conditions, PROGRESSING):
            text = f'Found new replica set "{rollout.new.metadata.name}"'
            rollout.set_condition(self.clock.now(), PROGRESSING, "True", "FoundNewReplicaSet", text)

    async def _create(self, rollout: DeploymentRollout) -> ReplicaSet | None:
        """Create the ReplicaSet of the newest template; None when its name is taken, so that another is tried next."""
        deployment, data = rollout.deployment, self._new_set(rollout)
        namespace, name = rollout.key[0], data["metadata"]["name"]
        try:
            body = await self.client.create(REPLICA_SET, data, namespace)
        except Exists:
            if not await self._is_ours(rollout, name):
                rollout.collisions = (rollout.collisions or 0) + 1
            return None
        except ApiError as error:
            await self._report_failure(rollout, f'Failed to create new replica set "{name}": {error}', error)
            raise
        rollout.new = msgspec.json.decode(body, type=ReplicaSet)
        await self._sets.caught_up(rollout.new.metadata.resource_version, _LAG)
        if size := desired_replicas(rollout.new):
            text = f"Scaled up replica set {name} from 0 to {size}"
            self.recorder.event(deployment, NORMAL, "ScalingReplicaSet", text)
        if rollouts.has_deadline(deployment):
            rollout.set_condition(
                self.clock.now(), PROGRESSING, "True", "NewReplicaSetCreated", f'Created new replica set "{name}"'
            )
        return rollout.new

    async def _is_ours(self, rollout: DeploymentRollout, name: str) -> bool:
        """Whether a ReplicaSet of this name is the one to be created, and the informer has not seen it yet."""
        try:
            body = await self.client.get(REPLICA_SET, rollout.key[0], name)
        except Missing:
            return True
        owner = controller_of(msgspec.json.decode(body, type=ReplicaSet))
        template = rollouts.comparable(msgspec.json.decode(body)["spec"]["template"])
        is_same = template == rollouts.comparable(rollout.data["spec"]["template"])
        return is_same and owner is not None and owner.uid == rollout.deployment.metadata.uid

    def _new_set(self, rollout: DeploymentRollout) -> Data:
        deployment, spec = rollout.deployment, rollout.data["spec"]
        hash_ = pod_template_hash(rollouts.comparable(spec["template"]), rollout.collisions or 0)
        template_metadata, selector = spec["template"].get("metadata") or {}, spec["selector"]
        labels = {**(template_metadata.get("labels") or {}), HASH: hash_}
        revision = max(map(rollouts.revision_of, rollout.old), default=0) + 1
        return {
            "metadata": {
                "name": rollouts.set_name(deployment, hash_),
                "labels": labels,
                "annotations": rollouts.new_annotations(deployment, {}, revision) | rollouts.sizes(deployment),
                "ownerReferences": [reference_to(deployment)],
            },
            "spec": {
                "replicas": rollouts.size_of_new(deployment, 0, sum(map(desired_replicas, rollout.old))),
                "minReadySeconds": deployment.spec.min_ready_seconds,
                "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: hash_}},
                "template": {**spec["template"], "metadata": {**template_metadata, "labels": labels}},
            },
        }

    async def _report_failure(self, rollout: DeploymentRollout, message: str, error: ApiError) -> None:
        if is_namespace_terminating(error):
            return
        self.recorder.event(rollout.deployment, WARNING, "ReplicaSetCreateError", message)
        if rollouts.has_deadline(rollout.deployment):
            rollout.set_condition(self.clock.now(), PROGRESSING, "False", "ReplicaSetCreateError", message)
        await self._report(rollout)

    async def _roll_back(self, rollout: DeploymentRollout) -> None:
        """Give the Deployment the template of an earlier revision, as the deprecated annotation asks."""
        deployment, data = rollout.deployment, rollout.data
        asked = deployment.metadata.annotations[ROLLBACK]
        revisions = sorted({rollouts.revision_of(each) for each in rollout.sets} - {0})
        last = revisions[-2] if len(revisions) > 1 else 0
        revision = (int(asked) or last) if re.fullmatch(r"[0-9]{1,19}", asked) else 0
        target = next((each for each in rollout.sets if revision and rollouts.revision_of(each) == revision), None)
        kept = dict(data["metadata"]["annotations"])
        del kept[ROLLBACK]
        if target is None:
            message = "Unable to find the revision to rollback to." if revision else "Unable to find last revision."
            event = WARNING, "DeploymentRollbackRevisionNotFound", message
        elif target is rollout.new:
            message = f'The rollback revision contains the same template as current deployment "{rollout.key[1]}"'
            event = WARNING, "DeploymentRollbackTemplateUnchanged", message
        else:
            event = NORMAL, "DeploymentRollback", f'Rolled back deployment "{rollout.key[1]}" to revision {revision}'
            template = msgspec.json.decode(await self.client.get(REPLICA_SET, rollout.key[0], target.metadata.name))
            data["spec"]["template"] = template["spec"]["template"]
            data["spec"]["template"]["metadata"]["labels"].pop(HASH, None)
            own = rollouts.OWN_ANNOTATIONS
            kept = {key: value for key, value in kept.items() if key in own}
            kept |= {key: value for key, value in target.metadata.annotations.items() if key not in own}
        data["metadata"]["annotations"] = kept
        await self.client.update(DEPLOYMENT, data)
        self.recorder.event(deployment, *event)

    async def _clean_up(self, rollout: DeploymentRollout) -> None:
        """Delete the oldest ReplicaSets without pods, beyond those that the history keeps."""
        limit = rollouts.history_limit(rollout.deployment)
        alive = [each for each in rollout.old if each.metadata.deletion_timestamp is None]
        if limit is None or len(alive) <= limit:
            return
        oldest = sorted(rollouts.by_age(alive), key=rollouts.revision_of)
        for each in oldest[: len(alive) - limit]:
            is_settled = each.status.observed_generation >= each.metadata.generation
            if desired_replicas(each) or each.status.replicas or not is_settled:
                continue
            try:
                await self.client.delete(
                    REPLICA_SET, each.metadata.namespace, each.metadata.name, uid=each.metadata.uid
                )
            except Missing:
                continue

    async def _report(self, rollout: DeploymentRollout) -> None:
        """Write the status and the revision when they have changed, and set the timer for the progress deadline."""
        deployment, now = rollout.deployment, self.clock.now()
        changed = rollout.changed_status(now)
        overdue = rollouts.deadline(deployment, rollout.conditions)
        if overdue is not None and not deployment.spec.paused:
            self.queue.add_after(rollout.key, (overdue - now).total_seconds() + 1)
        metadata: Data = {"resourceVersion": deployment.metadata.resource_version}
        revision = rollout.new.metadata.annotations.get(REVISION, "") if rollout.new is not None else ""
        if revision and deployment.metadata.annotations.get(REVISION) != revision:
            metadata["annotations"] = {REVISION: revision}
        if changed or "annotations" in metadata:
            patch = {"metadata": metadata, "status": changed}
            await self.client.patch(DEPLOYMENT, *rollout.key, patch, subresource="status")
