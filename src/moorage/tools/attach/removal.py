"""How attach mode leaves a cluster: what `moorage attach manifests` prints is deleted; pods keep running."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import msgspec

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Data, Object
from moorage.api.rules import COVER
from moorage.client import Client, Missing
from moorage.client.clock import Clock
from moorage.client.errors import Forbidden
from moorage.scheduler.profile import ATTACHED_NAME
from moorage.tools.attach.covers import (
    Leader,
    RuledPod,
    covered_claims,
    expire_covers,
    forget_leases,
    leaders,
    ruled_pods,
    workloads_of,
)
from moorage.tools.attach.manifests import Installation, all_objects
from moorage.tools.attach.run import LABELS
from moorage.tools.attach.webhook.certificates import SECRET

_HELM, _HELM_NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
_FIRST = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "Deployment")
"""What must be gone before covers are touched: whoever would write them again, and who stands in the way of writes."""
_NAMESPACE = "Namespace"
_PASSING = ("Event", "Lease", "ControllerRevision", "CSIStorageCapacity")
_EVERYWHERE = (("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default"))
"""What Kubernetes itself puts into namespaces."""
_SHOWN = 3
_POLL_SECONDS, _POLLS = 1.0, 60


class RemovalError(Exception):
    """Why attach mode cannot leave a cluster; the sentence says what to do."""


class Removal:
    """The way out of a cluster, in the order in which nothing is in the way of anything else."""

    def __init__(
        self, client: Client, namespace: str, clock: Clock | None = None, scheduler_name: str = ATTACHED_NAME
    ) -> None:
        self._client = client
        self._scheduler_name = scheduler_name
        self._clock = clock or Clock()
        told = Installation(namespace=namespace, templates=True, monitoring=True)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": namespace}}
        self._objects = [secret, *all_objects(told)]

    async def lines(self, expire_after: int | None = None) -> AsyncIterator[str]:
        """Leave, saying each thing that is done. Raises RemovalError, before anything is done if it can be known then.

        `expire_after` is after how many seconds covers end; None is never.
        """
        found = await self._installed()
        await self._refuse(found)
        for line in await self._staying():
            yield line
        for kind, item in found:
            if kind.kind in _FIRST:
                yield await self._delete(kind, item)
        await self._wait()
        if expire_after is not None:
            covered = await self._covered()
            async for ruled in expire_covers(self._client, covered, expire_after):
                yield f"{ruled.name}: its cover ends after {expire_after} s"
            for ruled in filter(lambda each: each.is_endless, covered):
                yield f"{ruled.name}: its cover stays, because only tolerations of NoExecute alone can end"
        await forget_leases(self._client)
        for kind, item in found:
            if kind.kind == _NAMESPACE and (others := await self._others(item.metadata.name)):
                shown = ", ".join(others[:_SHOWN]) + (f" and {len(others) - _SHOWN} more" if others[_SHOWN:] else "")
                yield f"Namespace {item.metadata.name} stays, because there is more in it: {shown}"
            elif kind.kind not in _FIRST:
                yield await self._delete(kind, item)

    async def _staying(self) -> list[str]:
        """What stays, and what that leads to."""
        name = self._scheduler_name
        covered, workloads = await covered_claims(self._client), await workloads_of(self._client, name)
        waits = f"new pods of it wait for the scheduler {name}, until its template names another"
        return [
            *filter(None, map(_cover_line, await ruled_pods(self._client))),
            *(f"{each}: its allocation has a cover, until the claim is deleted" for each in covered),
            *(f"{each}: {waits}" for each in workloads),
        ]

    async def _installed(self) -> list[tuple[Kind, Object]]:
        """What there is of an installation, the namespace last."""
        found = [(_kind(data), item) for data in self._objects for item in await self._ours(data)]
        return sorted(found, key=lambda each: each[0].kind == _NAMESPACE)

    async def _refuse(self, found: Sequence[tuple[Kind, Object]]) -> None:
        for _, item in found:
            if release := item.metadata.annotations.get(_HELM):
                where = item.metadata.annotations.get(_HELM_NAMESPACE, "")
                raise RemovalError(f"Helm installed it: first `helm uninstall {release} -n {where}`")
        if not any(kind.kind == "Deployment" for kind, _ in found):
            await self._refuse_at_work()

    async def _refuse_at_work(self) -> None:
        """Refuse while somebody renews a lease. Who was stopped a moment ago may have left one that is to lapse."""
        before = await self._leaders()
        for _ in range(_POLLS):
            now = await self._leaders()
            if now != before or not any(each.is_held for each in now):
                break
            await self._clock.sleep(_POLL_SECONDS)
        if held := await self._held():
            raise RemovalError(f"Moorage is still at work: it holds {held}: stop it first")

    async def _others(self, namespace: str) -> list[str]:
        """What there is in a namespace beside us, by kind and name; not what belongs to something that is there."""
        found = []
        for kind in kinds.KINDS:
            if not kind.namespaced or kind.kind in _PASSING:
                continue
            try:
                listed = (await self._client.list(kind, namespace)).items
            except (Missing, Forbidden):
                continue
            for metadata in (msgspec.json.decode(each, type=Object).metadata for each in listed):
                is_known = metadata.labels.items() >= LABELS.items() or (kind.kind, metadata.name) in _EVERYWHERE
                if not is_known and not any(owner.controller for owner in metadata.owner_references):
                    found.append(f"{kind.kind} {metadata.name}")
        return found

    async def _covered(self) -> list[RuledPod]:
        return [each for each in await ruled_pods(self._client) if each.cover]

    async def _ours(self, data: Data) -> list[Object]:
        """The object as it is stored, if it is there and is ours."""
        metadata = data["metadata"]
        try:
            stored = await self._client.get(_kind(data), metadata.get("namespace", ""), metadata["name"])
        except Missing:
            return []
        item = msgspec.json.decode(stored, type=Object)
        return [item] if item.metadata.labels.items() >= LABELS.items() else []

    async def _delete(self, kind: Kind, item: Object) -> str:
        metadata = item.metadata
        with suppress(Missing):
            await self._client.delete(
                kind, metadata.namespace, metadata.name, uid=metadata.uid, propagation="Background"
            )
        return f"deleted {kind.kind} {metadata.namespace + '/' if metadata.namespace else ''}{metadata.name}"

    async def _leaders(self) -> list[Leader]:
        return await leaders(self._client, self._clock.now())

    async def _held(self) -> str:
        return " and ".join(each.name for each in await self._leaders() if each.is_held)

    async def _wait(self) -> None:
        """Until whoever was at work has stopped."""
        for _ in range(_POLLS):
            if not await self._held():
                return
            await self._clock.sleep(_POLL_SECONDS)
        raise RemovalError(f"Moorage is still at work: it holds {await self._held()}: stop it, and try again")


def _cover_line(ruled: RuledPod) -> str:
    if ruled.rules.cover is None:
        return f"{ruled.name}: {COVER} cannot be read, so its native tolerations stay as they are"
    cover = len(ruled.cover)
    return f"{ruled.name}: has a cover, {cover} of its native tolerations, recorded in {COVER}" if cover else ""


def _kind(data: Data) -> Kind:
    """The kind of an object, also of one that Moorage's own API server does not serve."""
    if known := kinds.find(data["apiVersion"], data["kind"]):
        return known
    group, _, version = data["apiVersion"].rpartition("/")
    singular = data["kind"].lower()
    plural = f"{singular.removesuffix('y')}ies" if singular.endswith("y") else f"{singular}s"
    return Kind(group, version, data["kind"], plural, namespaced="namespace" in data["metadata"])
