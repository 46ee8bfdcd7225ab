"""The PersistentVolumeClaims of StatefulSets: one for each claim template and pod, kept or deleted as the set says."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data, Object, OwnerReference
from moorage.api.pod import Pod
from moorage.api.volume import PersistentVolumeClaim
from moorage.api.workload import ClaimRetention, StatefulSet
from moorage.client import ApiError, Exists
from moorage.client.client import STRATEGIC
from moorage.client.events import NORMAL, WARNING, Recorder
from moorage.controllers.frame.controller import Context, resource_version
from moorage.controllers.owners.podcontrol import reference_to

_CLAIM = kinds.row("v1", "PersistentVolumeClaim")
_DELETE = "Delete"


class ClaimEnding(Exception):
    """A claim that a pod needs is being deleted: it must be gone before there can be another."""


def claim_name(template: str, pod: str) -> str:
    """The name of the claim that a pod has from a template."""
    return f"{template}-{pod}"


class StatefulClaims:
    """Creates the claims of StatefulSets and sets their owners."""

    def __init__(self, context: Context, recorder: Recorder) -> None:
        self._client = context.client
        self._recorder = recorder
        self._claims = context.informers.of(PersistentVolumeClaim)

    async def provide(self, owner: StatefulSet, templates: list[Data], pod: str) -> None:
        """Make the claims that a pod needs and that are not there."""
        for template in templates:
            name = claim_name(template["metadata"]["name"], pod)
            claim = self._claims.get(owner.metadata.namespace, name)
            if claim is None:
                await self._create(owner, template, name, pod)
            elif claim.metadata.deletion_timestamp is not None:
                raise ClaimEnding(f"pvc {name} is being deleted")

    async def _create(self, owner: StatefulSet, template: Data, name: str, pod: str) -> None:
        template_metadata = template["metadata"]
        selector = owner.spec.selector.match_labels if owner.spec.selector else {}
        metadata = {"name": name, "labels": {**(template_metadata.get("labels") or {}), **selector}}
        if template_metadata.get("annotations"):
            metadata["annotations"] = template_metadata["annotations"]
        pod_in_set = f"Pod {pod} in StatefulSet {owner.metadata.name}"
        try:
            answer = await self._client.create(
                _CLAIM, {"metadata": metadata, "spec": template.get("spec") or {}}, owner.metadata.namespace
            )
        except Exists:
            return
        except ApiError as error:
            self._recorder.event(
                owner, WARNING, "FailedCreate", f"Create Claim {name} for {pod_in_set} failed error: {error}"
            )
            raise
        self._recorder.event(owner, NORMAL, "SuccessfulCreate", f"Create Claim {name} {pod_in_set} success")
        await self._claims.caught_up(resource_version(answer))

    def is_stale(self, owner: StatefulSet, pod: str) -> bool:
        """Whether a claim still belongs to an earlier pod of this name, and so will be deleted."""
        if _retention(owner).when_scaled != _DELETE:
            return False
        claims = (self._claims.get(owner.metadata.namespace, name) for name in _names(owner, pod))
        return any(_is(each, "Pod", pod) for claim in claims if claim for each in claim.metadata.owner_references)

    async def retain(self, owner: StatefulSet, pod: Pod, *, is_surplus: bool) -> None:
        """Have the claims of a pod deleted with the set, with the pod, or not at all, by the retention policy."""
        for name in _names(owner, pod.metadata.name):
            claim = self._claims.get(owner.metadata.namespace, name)
            if claim is not None:
                await self._own(claim, owner, pod, _claim_owner(owner, pod, is_surplus=is_surplus))

    async def _own(self, claim: PersistentVolumeClaim, owner: StatefulSet, pod: Pod, new_owner: Object | None) -> None:
        references = claim.metadata.owner_references
        ours = [each for each in references if _is(each, "StatefulSet", owner) or _is(each, "Pod", pod)]
        if any(each.uid not in (owner.metadata.uid, pod.metadata.uid) for each in ours):
            return  # it will be deleted with an earlier set or pod of the same name
        if new_owner is not None and any(each.controller for each in references if each not in ours):
            message = (
                f"PersistentVolumeClaim {claim.metadata.name} has a conflicting OwnerReference that acts as a "
                "managing controller, the retention policy is ignored for this claim"
            )
            self._recorder.event(owner, WARNING, "ConflictingController", message)
            new_owner = None
        desired = {new_owner.metadata.uid} if new_owner else set()
        if {each.uid for each in ours if each.controller} == desired and all(each.controller for each in ours):
            return
        references_patch: list[Data] = [
            {"$patch": "delete", "uid": each.uid} for each in ours if each.uid not in desired
        ]
        references_patch += [reference_to(new_owner)] if new_owner else []
        patch = {"metadata": {"uid": claim.metadata.uid, "ownerReferences": references_patch}}
        answer = await self._client.patch(_CLAIM, claim.metadata.namespace, claim.metadata.name, patch, form=STRATEGIC)
        await self._claims.caught_up(resource_version(answer))


def _names(owner: StatefulSet, pod: str) -> list[str]:
    return [claim_name(template.metadata.name, pod) for template in owner.spec.volume_claim_templates]


def _retention(owner: StatefulSet) -> ClaimRetention:
    return owner.spec.persistent_volume_claim_retention_policy or ClaimRetention()


def _claim_owner(owner: StatefulSet, pod: Pod, *, is_surplus: bool) -> Object | None:
    """What the claims of a pod are to be deleted with."""
    policy = _retention(owner)
    if is_surplus and policy.when_scaled == _DELETE:
        return pod
    return owner if policy.when_deleted == _DELETE else None


def _is(reference: OwnerReference, kind: str, named: Object | str) -> bool:
    name = named if isinstance(named, str) else named.metadata.name
    return reference.kind == kind and reference.name == name
