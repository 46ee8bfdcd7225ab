"""What becomes of manifests once a server has stored them and controllers have seen them: what the scheduler reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

import msgspec

from moorage.api import kinds
from moorage.api.claims import BIND_COMPLETED, NO_PROVISIONER, claims_of, class_of, is_for, waits_for_consumer
from moorage.api.decode import convert
from moorage.api.meta import Data, Object, ObjectMeta, ObjectReference, OwnerReference
from moorage.api.node import Node
from moorage.api.pod import Pod, PodResourceClaimStatus, PodTemplate, PriorityClass
from moorage.api.requests import CPU, EPHEMERAL, MEMORY, MOST, PODS
from moorage.api.resource import ResourceClaim, ResourceClaimTemplate
from moorage.api.volume import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
)
from moorage.api.workload import Deployment, ReplicaSet, ReplicaSetSpec, StatefulSet
from moorage.controllers.storage.volumes import best_match, mismatch
from moorage.controllers.workloads.daemonplacement import daemon_spec
from moorage.controllers.workloads.statefulclaims import claim_name
from moorage.features import Gates
from moorage.tools.admission import ManifestAdmission
from moorage.tools.cluster import Cluster, ClusterObject

_POD = kinds.row("v1", "Pod")
_ENOUGH = {CPU: str(MOST // 1000), MEMORY: str(MOST), EPHEMERAL: str(MOST), PODS: str(MOST)}
_replace = msgspec.structs.replace
T = TypeVar("T", bound=Object)


class AskedPod(NamedTuple):
    """A pod that is asked about, or a pod of a template, and what admission would say to it."""

    item: ClusterObject
    pod: Pod
    refusals: tuple[str, ...]


class Settled:
    """The objects of a cluster as the scheduler would find them.

    Objects of a running cluster stay as they are. Those of manifests get the defaults of the API server; claims are
    made and bound as controllers would do it.
    """

    def __init__(self, cluster: Cluster, gates: Gates, *, assume_room: bool = True) -> None:
        """`assume_room`: nodes that do not say what they can hold can hold enough; otherwise nothing."""
        self._admission = ManifestAdmission(cluster.items, gates)
        self._number = 0
        self.notes: list[str] = []
        """What had to be assumed."""
        self._objects: dict[tuple[type[Object], str, str], Object] = {}
        """By type, namespace and name; the last of several of one name counts, as when they are applied in turn."""
        self._written: set[tuple[type[Object], str, str]] = set()
        """Those that were written by hand: no controller has seen them."""
        self._made: dict[tuple[type[Object], str, str], None] = {}
        """The objects that were put here since somebody last looked."""
        self._pods: dict[int, Pod] = {}
        """The pods, by the identity of their items."""
        pods = []
        for item in cluster.items:
            if item.within:
                continue
            if isinstance(item.object, Pod):
                pods.append(item)
            else:
                self._put(self._stored(item), by_hand=is_by_hand(item))
        for item in pods:
            self._put_pod(item)
        self._note_silent(assume_room=assume_room)

    def objects(self) -> Iterable[Object]:
        """All objects; ask for pods first, because claims are made for pods of templates."""
        self._bind_volumes()
        return self._objects.values()

    def asked(self, item: ClusterObject) -> AskedPod:
        """An item as a pod to ask about: itself, or a pod of its template."""
        trial = self._admission.trial(item)
        refusals = [trial.unreadable] if trial.unreadable else trial.refusals
        told = tuple(str(refusal._replace(path=item.path(refusal.path))) for refusal in refusals)
        if isinstance(item.object, Pod):
            return AskedPod(item, self._pods[id(item)], told)
        pod, problems = self._pod_of(item)
        return AskedPod(item, pod, told or problems)

    def another(self, asked: AskedPod, number: int) -> tuple[Pod, list[Object]]:
        """One more pod like one that is asked about, and the claims that are made for it."""
        self._made.clear()
        if isinstance(asked.item.object, StatefulSet):
            pod = self._pod_of(asked.item)[0]
            self._put(pod, by_hand=True)
        else:
            metadata = _replace(asked.pod.metadata, name=f"{asked.pod.metadata.name}-{number}", uid="")
            spec = _replace(asked.pod.spec, node_name="")
            pod = self._with_claims(self._numbered(Pod("v1", "Pod", metadata, spec)))
        if any(struct is PersistentVolumeClaim for struct, _, _ in self._made):
            self._bind_volumes()
        return pod, [self._objects[key] for key in self._made if key[0] is not Pod]

    def _put_pod(self, item: ClusterObject) -> None:
        pod, by_hand = self._stored(item), is_by_hand(item)
        assert isinstance(pod, Pod)
        self._pods[id(item)] = pod = self._with_claims(pod) if by_hand else pod
        self._put(pod, by_hand=by_hand)

    def _put(self, item: Object, *, by_hand: bool) -> None:
        key = _key(item)
        self._objects[key] = item
        self._made[key] = None
        (self._written.add if by_hand else self._written.discard)(key)

    def _stored(self, item: ClusterObject) -> Object:
        """An object as the server would store it; a node as it is, because kubelets take the first taints away."""
        found = _in_namespace(item.object)
        if is_by_hand(item) and not isinstance(found, Node):
            stored = self._admission.trial(item).stored
            if stored is not None:
                return convert(stored, type(found))
        return found if found.metadata.uid else self._numbered(found)

    def _numbered(self, item: T) -> T:
        self._number += 1
        uid = f"00000000-0000-0000-0001-{self._number:012}"
        return _replace(item, metadata=_replace(item.metadata, uid=uid))

    def _note_silent(self, *, assume_room: bool) -> None:
        """Nodes that were written by hand may not say what they can hold."""
        silent = [item for item in self._of(Node) if _key(item) in self._written and not item.status.allocatable]
        for node in silent if assume_room else ():
            self._objects[_key(node)] = _replace(node, status=_replace(node.status, allocatable=_ENOUGH))
        if silent:
            one = len(silent) == 1
            who = f"node {silent[0].metadata.name} does" if one else f"{len(silent)} nodes do"
            assumed = "enough is assumed" if assume_room else "nothing is placed there"
            self.notes.append(f"{who} not say what can be allocated (status.allocatable): {assumed}")

    def _of(self, struct: type[T]) -> list[T]:
        return [item for item in self._objects.values() if isinstance(item, struct)]

    def _pod_of(self, item: ClusterObject) -> tuple[Pod, tuple[str, ...]]:
        """A pod of a template, and what admission would say to it."""
        owner = _in_namespace(item.object) if item.within else self._objects[_key(_in_namespace(item.object))]
        data = self._template(item, owner)
        claims = list(self._stateful_claims(owner, data)) if isinstance(owner, StatefulSet) else []
        trial = None if item.within else self._admission.created(_POD, data)
        stored = data if trial is None or trial.stored is None else trial.stored
        pod = self._with_priority(self._numbered(convert(stored, Pod)))
        for claim in claims:
            self._put(claim, by_hand=True)
        # Of an object of a running cluster, which was taken already, not all fields may be known here.
        refusals = trial.refusals if trial is not None and item.document else ()
        return self._with_claims(pod), tuple(f"its pods are refused: {refusal}" for refusal in refusals)

    def _with_priority(self, pod: Pod) -> Pod:
        """A pod with the priority of its class, which admission gives it."""
        found = self._objects.get((PriorityClass, "", pod.spec.priority_class_name))
        if pod.spec.priority is not None or not isinstance(found, PriorityClass):
            return pod
        return _replace(pod, spec=_replace(pod.spec, priority=found.value))

    def _template(self, item: ClusterObject, owner: Object) -> Data:
        kind = kinds.of(owner)
        whole: Data = msgspec.json.decode(msgspec.json.encode(owner))
        if not item.within and item.document and (stored := self._admission.trial(item).stored):
            whole = stored
        template: Data = whole
        for name in kind.pod_spec.split(".")[:-1]:
            template = template.get(name) or {}
        given = template.get("metadata") or {}
        spec = template.get("spec") or {}
        metadata = {
            "name": owner.metadata.name or owner.metadata.generate_name or "pod",
            "namespace": owner.metadata.namespace,
            **{name: given[name] for name in ("labels", "annotations") if given.get(name)},
        }
        if not isinstance(owner, PodTemplate) and owner.metadata.uid:
            maker = self._replica_set(owner) if isinstance(owner, Deployment) else owner
            of = kinds.of(maker)
            metadata["ownerReferences"] = [
                {"apiVersion": of.api_version, "kind": of.kind, "name": maker.metadata.name,
                 "uid": maker.metadata.uid, "controller": True}
            ]  # fmt: skip
        spec = daemon_spec(spec) if kind.kind == "DaemonSet" else spec
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _replica_set(self, owner: Deployment) -> ReplicaSet:
        """The newest ReplicaSet of a Deployment, whose pods are spread; or the one that would be made."""
        made = [each for each in self._of(ReplicaSet) if _is_of(each, owner)]
        if made:
            return max(made, key=_created)
        reference = OwnerReference("apps/v1", "Deployment", owner.metadata.name, owner.metadata.uid, controller=True)
        metadata = ObjectMeta(
            name=f"{owner.metadata.name}-new", namespace=owner.metadata.namespace, owner_references=(reference,)
        )
        spec = ReplicaSetSpec(selector=owner.spec.selector)
        replica_set = self._numbered(ReplicaSet("apps/v1", "ReplicaSet", metadata, spec))
        self._put(replica_set, by_hand=True)
        return replica_set

    def _stateful_claims(self, owner: StatefulSet, data: Data) -> Iterator[PersistentVolumeClaim]:
        """Name the claims of the next pod of a set in its specification; those that there are not yet are made."""
        number, namespace, name = 0, owner.metadata.namespace, owner.metadata.name
        while (Pod, namespace, f"{name}-{number}") in self._objects:
            number += 1
        data["metadata"]["name"] = pod_name = f"{name}-{number}"
        volumes = list(data["spec"].get("volumes") or ())
        for template in owner.spec.volume_claim_templates:
            claim = claim_name(template.metadata.name, pod_name)
            source = {"name": template.metadata.name, "persistentVolumeClaim": {"claimName": claim}}
            volumes = [each for each in volumes if each["name"] != template.metadata.name] + [source]
            if (PersistentVolumeClaim, namespace, claim) not in self._objects:
                made = _replace(template, metadata=ObjectMeta(name=claim, namespace=namespace))
                yield self._numbered(made)
        data["spec"] = {**data["spec"], "volumes": volumes}

    def _with_claims(self, pod: Pod) -> Pod:
        """A pod with the claims that controllers make for it: for ephemeral volumes, and from claim templates."""
        namespace = pod.metadata.namespace
        owner = OwnerReference("v1", "Pod", pod.metadata.name, pod.metadata.uid, controller=True)
        sources = {volume.name: volume.ephemeral for volume in pod.spec.volumes if volume.ephemeral}
        for use in claims_of(pod):
            template = (source := sources.get(use.volume)) and source.volume_claim_template
            if template and (PersistentVolumeClaim, namespace, use.claim) not in self._objects:
                metadata = ObjectMeta(name=use.claim, namespace=namespace, owner_references=(owner,))
                made = PersistentVolumeClaim("v1", "PersistentVolumeClaim", metadata, template.spec)
                self._put(self._numbered(made), by_hand=True)
        statuses = {status.name: status for status in pod.status.resource_claim_statuses}
        for entry in pod.spec.resource_claims:
            found = self._objects.get((ResourceClaimTemplate, namespace, entry.resource_claim_template_name or ""))
            if entry.name not in statuses and isinstance(found, ResourceClaimTemplate):
                name = f"{pod.metadata.name}-{entry.name}"
                metadata = ObjectMeta(name=name, namespace=namespace, owner_references=(owner,))
                claim = ResourceClaim("resource.k8s.io/v1", "ResourceClaim", metadata, found.spec.spec)
                self._put(self._numbered(claim), by_hand=True)
                statuses[entry.name] = PodResourceClaimStatus(entry.name, name)
        return _replace(pod, status=_replace(pod.status, resource_claim_statuses=tuple(statuses.values())))

    def _bind_volumes(self) -> None:
        """Bind claims and volumes that were written by hand, as the volume controller would."""
        for volume in self._of(PersistentVolume):
            if _key(volume) in self._written and not volume.spec.claim_ref:
                status = PersistentVolumeStatus(phase="Available")
                self._objects[_key(volume)] = _replace(volume, status=status)
        classes = {each.metadata.name: each for each in self._of(StorageClass)}
        for claim in self._of(PersistentVolumeClaim):
            if _key(claim) not in self._written or BIND_COMPLETED in claim.metadata.annotations:
                continue
            found = self._volume_for(claim, classes)
            if found is not None:
                self._bind(claim, found)

    def _volume_for(self, claim: PersistentVolumeClaim, classes: dict[str, StorageClass]) -> PersistentVolume | None:
        volumes = self._of(PersistentVolume)
        if claim.spec.volume_name:
            named = [each for each in volumes if each.metadata.name == claim.spec.volume_name]
            for volume in named:
                if is_for(volume, claim) or not (volume.spec.claim_ref or mismatch(volume, claim)):
                    return volume
            return None
        storage_class = classes.get(class_of(claim))
        waits = waits_for_consumer(storage_class)
        free = [each for each in volumes if each.spec.claim_ref or not waits]
        if (best := best_match(free, claim)) is not None:
            return best
        if waits or storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            return None
        metadata = ObjectMeta(name=f"pvc-{claim.metadata.uid}")
        spec = PersistentVolumeSpec(
            claim.spec.resources.requests, claim.spec.access_modes, storage_class_name=class_of(claim)
        )
        return PersistentVolume("v1", "PersistentVolume", metadata, spec)

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        own = claim.metadata
        reference = ObjectReference("v1", "PersistentVolumeClaim", own.namespace, own.name, own.uid)
        bound = _replace(
            volume,
            spec=_replace(volume.spec, claim_ref=reference),
            status=PersistentVolumeStatus(phase="Bound"),
        )
        self._put(bound, by_hand=True)
        annotations = {**own.annotations, BIND_COMPLETED: "yes"}
        self._objects[_key(claim)] = _replace(
            claim,
            metadata=_replace(own, annotations=annotations),
            spec=_replace(claim.spec, volume_name=volume.metadata.name),
            status=PersistentVolumeClaimStatus(phase="Bound"),
        )


def _is_of(item: Object, owner: Object) -> bool:
    return any(each.controller and each.uid == owner.metadata.uid for each in item.metadata.owner_references)


def _created(item: Object) -> float:
    time = item.metadata.creation_timestamp
    return time.timestamp() if time else 0.0


def is_by_hand(item: ClusterObject) -> bool:
    """Whether an object has never been on a server."""
    return item.document is not None and not item.object.metadata.uid


def _in_namespace(item: T) -> T:
    if item.metadata.namespace or not kinds.of(item).namespaced:
        return item
    return _replace(item, metadata=_replace(item.metadata, namespace="default"))


def _key(item: Object) -> tuple[type[Object], str, str]:
    return type(item), item.metadata.namespace, item.metadata.name
