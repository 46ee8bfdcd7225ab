"""ResourceClaims of pods: created from templates, reserved, and deallocated when they are not in use any more."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data, Object
from moorage.api.pod import Pod, PodResourceClaim, PodResourceClaimStatus
from moorage.api.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate
from moorage.client import ApiError, Client, Informer, Missing
from moorage.client.events import WARNING
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.frame.pods import POD, controller_of, is_finished
from moorage.controllers.owners.podcontrol import OWNER, index_by_owner

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
FINALIZER = "resource.kubernetes.io/delete-protection"
_CLAIM = kinds.row("resource.k8s.io/v1", "ResourceClaim")
_TEMPLATE = kinds.row("resource.k8s.io/v1", "ResourceClaimTemplate")
_USERS, _WAITING = "resource claims", "resource claim templates"
_LONGEST_BASE = 57
"""What a generated name of 63 characters leaves for the names of pod and claim."""
_MOST_USERS = 256
_WORKERS = 50
"""Writes of many claims are on their way at a time, as in Kubernetes."""


def status_of(pod: Pod, entry: PodResourceClaim) -> PodResourceClaimStatus | None:
    """The status of the claim that was created for an entry of a pod."""
    return next((each for each in pod.status.resource_claim_statuses if each.name == entry.name), None)


def claim_name(pod: Pod, entry: PodResourceClaim) -> str:
    """The claim of an entry of a pod; empty while there is none or when none is needed."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    status = status_of(pod, entry)
    return (status.resource_claim_name or "") if status is not None else ""


def claims_of(pod: Pod) -> list[str]:
    """The names of the claims that a pod uses."""
    return [name for entry in pod.spec.resource_claims if (name := claim_name(pod, entry))]


def is_done(pod: Pod) -> bool:
    """Whether a pod no longer needs its claims, or never will."""
    is_unplaced = pod.metadata.deletion_timestamp is not None and not pod.spec.node_name
    return is_finished(pod) or is_unplaced


def _index_by_claim(pods: Informer[Pod]) -> None:
    pods.index(_USERS, lambda pod: _claim_keys(pod) if pod.spec.resource_claims else ())


def _claim_keys(pod: Pod) -> list[str]:
    return [f"{pod.metadata.namespace}/{name}" for name in claims_of(pod)]


class PodClaims(Controller):
    """Creates the claims of pods from templates, and reserves claims for pods that were bound without the scheduler."""

    name = "pod-resourceclaims"
    component = "resource_claim"
    workers = _WORKERS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = context.informers.of(Pod)
        self._claims = context.informers.of(ResourceClaim)
        _index_by_claim(self._pods)
        self._pods.index(_WAITING, lambda pod: _templates_of(pod) if pod.spec.resource_claims else ())
        index_by_owner(self._claims)
        self._pods.on_change(self._pod_changed)
        self._claims.on_change(self._claim_changed)
        context.informers.of(ResourceClaimTemplate).on_change(self._template_changed)

    def _pod_changed(self, _: Pod | None, new: Pod | None) -> None:
        if new is not None and new.spec.resource_claims:
            self.enqueue(new)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        item = new or old
        assert item is not None
        for pod in self._pods.by(_USERS, f"{item.metadata.namespace}/{item.metadata.name}"):
            # Until its pod is bound, the scheduler looks after a claim that exists.
            if new is None or pod.spec.node_name:
                self.enqueue(pod)

    def _template_changed(self, old: ResourceClaimTemplate | None, new: ResourceClaimTemplate | None) -> None:
        if old is None and new is not None:
            for pod in self._pods.by(_WAITING, f"{new.metadata.namespace}/{new.metadata.name}"):
                self.enqueue(pod)

    async def reconcile(self, key: Key) -> None:
        """Create and reserve the claims of one pod."""
        pod = self._pods.get(*key)
        if pod is None or pod.metadata.deletion_timestamp is not None or is_finished(pod):
            return
        names = {}
        for entry in pod.spec.resource_claims:
            try:
                if entry.resource_claim_template_name is not None and await self._is_missing(pod, entry):
                    names[entry.name] = await self._make(pod, entry, entry.resource_claim_template_name)
            except ApiError as error:
                message = f"PodResourceClaim {entry.name}: {error}"
                self.recorder.event(pod, WARNING, "FailedResourceClaimCreation", message)
                raise
        if names:
            known = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
            # This controller alone writes them, so that it may write all of them.
            statuses = [
                {"name": name, "resourceClaimName": claim} for name, claim in sorted({**known, **names}.items())
            ]
            patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"resourceClaimStatuses": statuses}}
            with suppress(Missing):
                await self.client.patch(POD, *key, patch, subresource="status")
        elif pod.spec.node_name:
            await self._reserve(pod)

    async def _is_missing(self, pod: Pod, entry: PodResourceClaim) -> bool:
        """Whether a claim has to be created, for the first time or because it was deleted by accident."""
        status = status_of(pod, entry)
        if status is None:
            return True
        if not status.resource_claim_name:
            return False
        claim = self._claims.get(pod.metadata.namespace, status.resource_claim_name)
        if claim is None:
            try:
                body = await self.client.get(_CLAIM, pod.metadata.namespace, status.resource_claim_name)
            except Missing:
                return True
            claim = msgspec.json.decode(body, type=ResourceClaim)
        return not _is_of(claim, pod)

    async def _make(self, pod: Pod, entry: PodResourceClaim, template_name: str) -> str:
        """Create the claim for an entry of a pod, or find one that was created and not written to the pod's status."""
        for claim in self._claims.by(OWNER, pod.metadata.uid):
            is_ending = claim.metadata.deletion_timestamp is not None
            if claim.metadata.annotations.get(POD_CLAIM_NAME) == entry.name and not is_ending:
                return claim.metadata.name
        namespace = pod.metadata.namespace
        template: Data = msgspec.json.decode(await self.client.get(_TEMPLATE, namespace, template_name))["spec"]
        metadata = template.get("metadata") or {}
        owner = {
            "apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid, "controller": True,
        }  # fmt: skip
        data = {
            "metadata": {
                "generateName": _base(pod.metadata.name, entry.name),
                "labels": metadata.get("labels") or {},
                "annotations": {**(metadata.get("annotations") or {}), POD_CLAIM_NAME: entry.name},
                "ownerReferences": [owner],
                # It is to have devices soon: the scheduler need not write this first.
                "finalizers": [FINALIZER],
            },
            "spec": template.get("spec") or {},
        }
        made = msgspec.json.decode(await self.client.create(_CLAIM, data, namespace), type=Object)
        await self._claims.caught_up(made.metadata.resource_version)
        return made.metadata.name

    async def _reserve(self, pod: Pod) -> None:
        """Reserve allocated claims for a pod that is bound already."""
        metadata = pod.metadata
        for name in claims_of(pod):
            claim = self._claims.get(metadata.namespace, name)
            if claim is None or claim.status.allocation is None:
                continue
            users = claim.status.reserved_for
            if len(users) < _MOST_USERS and all(each.uid != metadata.uid for each in users):
                user = ResourceClaimConsumerReference(resource="pods", name=metadata.name, uid=metadata.uid)
                await _write_status(self.client, claim, {"reservedFor": msgspec.to_builtins([*users, user])})


class ResourceClaims(Controller):
    """Releases claims of pods that are done or gone, and deletes those that were created for them."""

    name = "resourceclaims"
    workers = _WORKERS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = context.informers.of(Pod)
        self._claims = context.informers.of(ResourceClaim)
        self._pods.on_change(self._pod_changed)
        self._claims.on_change(lambda _, new: self.enqueue(new) if new is not None else None)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        item = new or old
        assert item is not None
        if item.spec.resource_claims and (new is None or is_done(new)):
            for name in claims_of(item):
                self.queue.add((item.metadata.namespace, name))

    async def reconcile(self, key: Key) -> None:
        """Remove users that are done from one claim, and deallocate it after the last one."""
        if (claim := self._claims.get(*key)) is None:
            return
        users = claim.status.reserved_for
        left = [each for each in users if await self._is_in_use(claim.metadata.namespace, each)]
        with suppress(Missing):
            if len(left) < len(users):
                status: Data = {"reservedFor": msgspec.to_builtins(left) or None}
                # A claim is allocated anew for its next user, perhaps elsewhere.
                await self._free(claim, status | ({} if left else _DEALLOCATED))
            elif not left and claim.metadata.deletion_timestamp is not None and FINALIZER in claim.metadata.finalizers:
                await self._free(claim, _DEALLOCATED)
            if not left:
                await self._delete_unneeded(claim)

    async def _is_in_use(self, namespace: str, user: ResourceClaimConsumerReference) -> bool:
        """Whether a user still needs a claim; users that are no pods are taken to."""
        if user.api_group or user.resource != "pods":
            return True
        pod = self._pods.get(namespace, user.name)
        if pod is None:
            try:
                pod = msgspec.json.decode(await self.client.get(POD, namespace, user.name), type=Pod)
            except Missing:
                return False
        return pod.metadata.uid == user.uid and not is_done(pod)

    async def _free(self, claim: ResourceClaim, status: Data) -> None:
        claim = await _write_status(self.client, claim, status)
        metadata = claim.metadata
        if claim.status.allocation is None and FINALIZER in metadata.finalizers:
            left = [each for each in metadata.finalizers if each != FINALIZER]
            patch = {"metadata": {"resourceVersion": metadata.resource_version, "finalizers": left or None}}
            await self.client.patch(_CLAIM, metadata.namespace, metadata.name, patch)

    async def _delete_unneeded(self, claim: ResourceClaim) -> None:
        """Delete a claim that was created for a pod that is done; those of pods that are gone are garbage."""
        metadata = claim.metadata
        owner = controller_of(claim)
        if owner is None or owner.kind != "Pod" or metadata.deletion_timestamp is not None:
            return
        pod = self._pods.get(metadata.namespace, owner.name)
        if pod is not None and (pod.metadata.uid != owner.uid or is_done(pod)):
            await self.client.delete(_CLAIM, metadata.namespace, metadata.name, uid=metadata.uid)


_DEALLOCATED: Data = {"allocation": None, "devices": None}


async def _write_status(client: Client, claim: ResourceClaim, status: Data) -> ResourceClaim:
    metadata = claim.metadata
    patch = {"metadata": {"resourceVersion": metadata.resource_version}, "status": status}
    answer = await client.patch(_CLAIM, metadata.namespace, metadata.name, patch, subresource="status")
    return msgspec.json.decode(answer, type=ResourceClaim)


def _is_of(claim: ResourceClaim, pod: Pod) -> bool:
    owner = controller_of(claim)
    return owner is not None and owner.uid == pod.metadata.uid


def _templates_of(pod: Pod) -> list[str]:
    templates = (each.resource_claim_template_name for each in pod.spec.resource_claims)
    return [f"{pod.metadata.namespace}/{name}" for name in templates if name]


def _base(pod: str, entry: str) -> str:
    """The generateName of a claim: the names of pod and entry, shortened in proportion when they are too long."""
    whole = f"{pod}-{entry}-"
    if len(whole) <= _LONGEST_BASE:
        return whole
    kept, rest = (text[: len(text) * _LONGEST_BASE // len(whole)] for text in (pod, entry))
    return f"{kept}-{rest}-"
