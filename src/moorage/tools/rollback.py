"""What turning a gate off would do, before it is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.resource import ResourceClaim, ResourceClaimTemplate, ResourceSlice
from moorage.api.volume import PersistentVolume
from moorage.features import ALL_ON, Gate, Gates
from moorage.match.tolerations import NO_EXECUTE, Tolerations
from moorage.tools.cluster import Cluster, Item
from moorage.validation.gates import gates_needed

_ENDED = ("Succeeded", "Failed")


class Step(Enum):
    """The parts of the procedure, in the order in which they are to be done."""

    TEMPLATES = "Change the workloads whose pods the API server would refuse"
    EVICTED = "Move the running pods that would be evicted"
    PENDING = "Replace the pending pods that would be stuck"
    VOLUMES = "Change the volumes that no node could reach any more"
    CLAIMS = "Change the device claims that would lose their devices or get none"


@dataclass(frozen=True, slots=True)
class Finding:
    """One object that the gate matters to."""

    step: Step
    item: Item
    reason: str
    command: str
    """What to type."""

    @property
    def name(self) -> str:
        """How people name the object."""
        return self.item.name


class Rollback:
    """What would happen to the objects of a cluster if a gate was turned off."""

    def __init__(self, cluster: Cluster, gate: Gate) -> None:
        self.gate = gate
        self._cluster = cluster
        self._off = Gates(ALL_ON.on - {gate})
        self._nodes = {node.metadata.name: node for _, node in cluster.of(Node)}

    def findings(self) -> list[Finding]:
        """Everything that would break, in the order of the procedure."""
        using = [item for item in self._cluster.items if self.gate in gates_needed(item.object)]
        found = [finding for item in using for finding in self._of(item)]
        order = list(Step)
        return sorted(found, key=lambda each: (order.index(each.step), each.name))

    def procedure(self) -> list[str]:
        """What to do once the findings are dealt with: each component in its turn, the scheduler first."""
        off = f"{self.gate.value}=false"
        return [
            f"turn the gate off in the scheduler:   --scheduler-feature-gates {off}",
            f"then in the API server:               --apiserver-feature-gates {off}",
            f"then in the controllers:              --controllers-feature-gates {off}",
        ]

    def _of(self, item: Item) -> Iterator[Finding]:
        thing = item.object
        kind = kinds.of(thing)
        if isinstance(thing, Pod):
            yield from self._of_pod(item, thing)
        elif kind.pod_spec:
            # What another workload makes is changed there.
            if not any(owner.controller for owner in thing.metadata.owner_references):
                reason = "its template needs the gate: the API server refuses new pods, and updates and repairs stall"
                yield Finding(Step.TEMPLATES, item, reason, _edit(kind, item))
        elif isinstance(thing, PersistentVolume):
            reason = "its node affinity matches no node without the gate: pods that use it cannot be placed"
            yield Finding(Step.VOLUMES, item, reason, _replace(kind, item))
        elif isinstance(thing, ResourceSlice):
            reason = "its node selector matches no node without the gate: its devices cannot be given to any pod"
            yield Finding(Step.CLAIMS, item, reason, "change it in the driver that publishes it")
        elif isinstance(thing, ResourceClaim | ResourceClaimTemplate):
            yield from self._of_claim(item, kind)

    def _of_pod(self, item: Item, pod: Pod) -> Iterator[Finding]:
        if pod.status.phase in _ENDED or pod.metadata.deletion_timestamp is not None:
            return
        if not pod.spec.node_name:
            reason = "it is pending, and without the gate no toleration or term that needs it matches: it stays pending"
            yield Finding(Step.PENDING, item, reason, _delete_pod(pod))
        elif because := self._evicted(pod):
            yield Finding(Step.EVICTED, item, because, _delete_pod(pod))

    def _evicted(self, pod: Pod) -> str:
        """Why a running pod would have to leave sooner than it must now; empty when nothing changes for it."""
        node = self._nodes.get(pod.spec.node_name)
        if node is None:
            return ""
        now = Tolerations(pod.spec.tolerations, ALL_ON.for_eviction())
        then = Tolerations(pod.spec.tolerations, self._off.for_eviction())
        for taint in node.spec.taints:
            if taint.effect != NO_EXECUTE:
                continue
            before, after = now.grace_seconds((taint,)), then.grace_seconds((taint,))
            if after is not None and (before is None or after < before):
                when = f"after {after} seconds" if after else "at once"
                where = f"node {pod.spec.node_name} has the taint {taint}"
                return f"{where}, which it tolerates only with the gate: evicted {when}"
        return ""

    def _of_claim(self, item: Item, kind: Kind) -> Iterator[Finding]:
        thing = item.object
        allocated = isinstance(thing, ResourceClaim) and thing.status.allocation is not None
        evicts = self.gate in (Gate.CEL, Gate.WILDCARD)
        if allocated and evicts:
            reason = "it holds a device by a toleration that needs the gate: its pods are evicted by a NoExecute taint"
        elif allocated:
            return
        else:
            reason = "it asks for devices by a toleration that needs the gate: tainted devices are not given to it"
        yield Finding(Step.CLAIMS, item, reason, _replace(kind, item))


def _where(item: Item) -> str:
    namespace = item.object.metadata.namespace
    return f" -n {namespace}" if kinds.of(item.object).namespaced and namespace not in ("", "default") else ""


def _edit(kind: Kind, item: Item) -> str:
    return f"kubectl edit {kind.singular} {item.object.metadata.name}{_where(item)}"


def _replace(kind: Kind, item: Item) -> str:
    """What cannot be changed must be made anew."""
    name = item.object.metadata.name
    what = f"{kind.singular} {name}{_where(item)}"
    return f"kubectl get {what} -o yaml > {name}.yaml; $EDITOR {name}.yaml; kubectl replace --force -f {name}.yaml"


def _delete_pod(pod: Pod) -> str:
    namespace = pod.metadata.namespace
    where = f" -n {namespace}" if namespace not in ("", "default") else ""
    return f"kubectl delete pod {pod.metadata.name}{where}"
