"""Creates the claims of ephemeral volumes, which belong to their pod and are deleted with it."""

from __future__ import annotations

import msgspec

from moorage.api import kinds
from moorage.api.claims import ClaimUse, claims_of, not_made_for
from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.api.volume import PersistentVolumeClaim
from moorage.client import ApiError, Exists, Missing
from moorage.client.events import WARNING
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.frame.pods import POD
from moorage.controllers.owners.podcontrol import reference_to
from moorage.controllers.storage.volumes import USERS, index_by_claim

_CLAIM = kinds.row("v1", "PersistentVolumeClaim")


class ClaimNotCreated(Exception):
    """A claim cannot be created; the message says why."""


class EphemeralVolumes(Controller):
    """Keys are pods. The owner reference of a claim has it deleted with its pod."""

    name = "ephemeral-volume"
    component = "ephemeral_volume"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = context.informers.of(Pod)
        self._claims = context.informers.of(PersistentVolumeClaim)
        index_by_claim(self._pods)
        self._pods.on_change(self._pod_changed)
        self._claims.on_change(self._claim_changed)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None and new is not None and any(each.ephemeral for each in new.spec.volumes):
            self.enqueue(new)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if old is not None and new is None:
            for pod in self._pods.by(USERS, f"{old.metadata.namespace}/{old.metadata.name}"):
                self._pod_changed(None, pod)

    async def reconcile(self, key: Key) -> None:
        """Create the claims that a pod lacks."""
        pod = self._pods.get(*key)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return
        missing = [use for use in claims_of(pod) if use.ephemeral]
        templates = await self._templates(pod) if any(self._claim_of(pod, use) is None for use in missing) else {}
        for use in missing:
            try:
                await self._make(pod, use, templates.get(use.volume))
            except (ClaimNotCreated, ApiError) as error:
                self.recorder.event(pod, WARNING, "FailedBinding", f"ephemeral volume {use.volume}: {error}")
                raise

    def failed(self, key: Key, error: Exception) -> None:
        """Log other errors than those that an event has reported."""
        if not isinstance(error, ClaimNotCreated):
            super().failed(key, error)

    def _claim_of(self, pod: Pod, use: ClaimUse) -> PersistentVolumeClaim | None:
        return self._claims.get(pod.metadata.namespace, use.claim)

    async def _make(self, pod: Pod, use: ClaimUse, template: Data | None) -> None:
        namespace, claim = pod.metadata.namespace, self._claim_of(pod, use)
        if claim is None:
            if template is None:
                return
            try:
                await self.client.create(_CLAIM, _claim(pod, use, template), namespace)
            except Exists:
                body = await self.client.get(_CLAIM, namespace, use.claim)
                claim = msgspec.json.decode(body, type=PersistentVolumeClaim)
            except ApiError as error:
                raise ClaimNotCreated(f"create PVC {use.claim}: {error}") from error
        if claim is not None and (problem := not_made_for(pod, claim)):
            raise ClaimNotCreated(problem)

    async def _templates(self, pod: Pod) -> dict[str, Data]:
        """The claim templates of volumes as stored, by the names of the volumes; none when the pod is gone."""
        try:
            data: Data = msgspec.json.decode(await self.client.get(POD, pod.metadata.namespace, pod.metadata.name))
        except Missing:
            return {}
        if data["metadata"]["uid"] != pod.metadata.uid:
            return {}
        volumes = (each for each in data["spec"]["volumes"] if each.get("ephemeral"))
        return {each["name"]: each["ephemeral"]["volumeClaimTemplate"] for each in volumes}


def _claim(pod: Pod, use: ClaimUse, template: Data) -> Data:
    inherited = template.get("metadata") or {}
    return {
        "metadata": {
            "name": use.claim,
            "ownerReferences": [reference_to(pod)],
            "labels": inherited.get("labels") or {},
            "annotations": inherited.get("annotations") or {},
        },
        "spec": template["spec"],
    }
