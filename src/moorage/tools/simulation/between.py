"""What stands between workloads and their pods: the revisions of their templates, and the ReplicaSets of Deployments.

A snapshot may lack them, or hold templates with fewer fields than the cluster: then no hash would fit, and controllers
would begin to replace pods that are as they should be.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.labels import selector_of
from moorage.api.meta import Data, Object, OwnerReference
from moorage.api.pod import Pod
from moorage.api.workload import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from moorage.controllers.frame.pods import controller_of

_REPLICA_SET, _REVISION = kinds.row("apps/v1", "ReplicaSet"), kinds.row("apps/v1", "ControllerRevision")
_HASH, _REVISION_HASH = "pod-template-hash", "controller-revision-hash"
_STATEFUL_HASH = "controller.kubernetes.io/hash"
_DESIRED, _ROLLOUT = "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/revision"
_NEVER = datetime.min.replace(tzinfo=UTC)


class Restored(NamedTuple):
    """An object that is put into the snapshot, in the place of one of the same name if there is one."""

    kind: Kind
    data: Data


class Between:
    """Restores what is missing from the objects that are there, and from the data as they are stored."""

    def __init__(self, objects: Sequence[Object]) -> None:
        self._children: dict[str, list[Object]] = defaultdict(list)
        """Objects by the uid of their controller."""
        self._workloads: list[Object] = []
        for each in objects:
            if (owner := controller_of(each)) is not None:
                self._children[owner.uid].append(each)
            if isinstance(each, Deployment | StatefulSet | DaemonSet) and each.metadata.uid:
                self._workloads.append(each)
        self._uids = {each.metadata.uid for each in objects}

    @property
    def workloads(self) -> list[Object]:
        """The workloads about which to ask."""
        return self._workloads

    def of(self, workload: Object, data: Data) -> Iterator[Restored]:
        """What stands between a workload, whose stored form is given, and its pods."""
        if isinstance(workload, Deployment):
            if not any(isinstance(each, ReplicaSet) for each in self._children[workload.metadata.uid]):
                yield from self._replica_sets(workload, data)
        elif name := self._revision_name(workload):
            yield Restored(_REVISION, _revision(workload, data, name))

    def _revision_name(self, workload: Object) -> str:
        """The name of the newest revision, by the revisions that are there or by the labels of pods."""
        owned = self._children[workload.metadata.uid]
        revisions = [each for each in owned if isinstance(each, ControllerRevision)]
        if revisions:
            return max(revisions, key=lambda each: each.revision).metadata.name
        hashes = Counter(
            label for each in owned if isinstance(each, Pod) and (label := each.metadata.labels.get(_REVISION_HASH))
        )
        if not hashes:
            return ""
        ((label, _),) = hashes.most_common(1)
        return label if isinstance(workload, StatefulSet) else f"{workload.metadata.name}-{label}"

    def _replica_sets(self, deployment: Deployment, data: Data) -> Iterator[Restored]:
        """The ReplicaSet of the newest pods that a deployment selects."""
        selector, namespace = selector_of(deployment.spec.selector), deployment.metadata.namespace
        newest: tuple[datetime, OwnerReference, Pod] | None = None
        count: Counter[str] = Counter()
        for uid, children in self._children.items():
            if uid in self._uids or not isinstance(pod := children[0], Pod):
                continue
            owner = controller_of(pod)
            if owner is None or owner.kind != "ReplicaSet" or pod.metadata.namespace != namespace:
                continue
            if selector.matches(pod.metadata.labels):
                count[uid] = len(children)
                created = max(each.metadata.creation_timestamp or _NEVER for each in children)
                if newest is None or created > newest[0]:
                    newest = created, owner, pod
        if newest is not None:
            _, owner, pod = newest
            yield Restored(_REPLICA_SET, _replica_set(deployment, data, owner, pod, count[owner.uid]))


def _revision(workload: Object, data: Data, name: str) -> Data:
    label = name.removeprefix(f"{workload.metadata.name}-")
    key = _STATEFUL_HASH if isinstance(workload, StatefulSet) else _REVISION_HASH
    metadata = _metadata(workload, name, f"revision-{workload.metadata.uid}", {key: label})
    template = {**data["spec"]["template"], "$patch": "replace"}
    return {**_head(_REVISION), "metadata": metadata, "data": {"spec": {"template": template}}, "revision": 1 << 30}


def _replica_set(deployment: Deployment, data: Data, owner: OwnerReference, pod: Pod, count: int) -> Data:
    spec, template = data["spec"], data["spec"]["template"]
    hashed = {_HASH: pod.metadata.labels.get(_HASH, "")} if _HASH in pod.metadata.labels else {}
    labels = {**(template.get("metadata", {}).get("labels") or {}), **hashed}
    metadata = _metadata(deployment, owner.name, owner.uid, labels)
    replicas = spec.get("replicas", 1)
    metadata["annotations"] = {_DESIRED: str(replicas), _ROLLOUT: deployment.metadata.annotations.get(_ROLLOUT, "1")}
    match = spec.get("selector") or {}
    body = {
        "replicas": count,
        "selector": {**match, "matchLabels": {**(match.get("matchLabels") or {}), **hashed}},
        "template": {**template, "metadata": {**template.get("metadata", {}), "labels": labels}},
    }
    return {**_head(_REPLICA_SET), "metadata": metadata, "spec": body, "status": {"replicas": count}}


def _head(kind: Kind) -> Data:
    return {"apiVersion": kind.api_version, "kind": kind.kind}


def _metadata(owner: Object, name: str, uid: str, labels: dict[str, str]) -> Data:
    kind = kinds.of(owner)
    reference = {
        "apiVersion": kind.api_version, "kind": kind.kind, "name": owner.metadata.name, "uid": owner.metadata.uid,
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    return {
        "name": name, "namespace": owner.metadata.namespace or "default", "uid": uid, "labels": labels,
        "ownerReferences": [reference], "generation": 1,
    }  # fmt: skip
