"""What turning a gate off would do, before it is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meaning import meant_object
from moorage.api.meta import Object
from moorage.api.node import Node, NodeSelector, Taint
from moorage.api.placementrules import terms_of, tolerations_of
from moorage.api.pod import Pod, PodSpec
from moorage.api.resource import (
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from moorage.api.rules import TolerationList
from moorage.api.volume import PersistentVolume
from moorage.api.workload import Job
from moorage.features import ALL_ON, Gate, Gates
from moorage.match.selector import compile_pod_selector, compile_selector
from moorage.match.tolerations import NO_EXECUTE, Tolerations
from moorage.tools.cluster import Cluster, ClusterObject
from moorage.validation.attached import judged_tolerations
from moorage.validation.gates import gates_needed, term_gates, toleration_gates

_ENDED = ("Succeeded", "Failed")
_DONE = ("Complete", "Failed")
_EXAMPLES = 3


class RollbackStep(Enum):
    """The parts of the procedure, in the order in which they are to be done: pods last, what they are made of first."""

    TEMPLATES = "Change the workloads whose pods the API server would refuse"
    RULES = "Change the workloads whose rules in annotations would match nothing"
    VOLUMES = "Change the volumes that no node could reach any more"
    CLAIMS = "Change the device claims that would lose their devices or get none"
    EVICTED = "Move the running pods that would be evicted"
    PENDING = "Replace the pending pods that would be stuck"


@dataclass(frozen=True, slots=True)
class RollbackFinding:
    """One object that turning the gate off would break."""

    step: RollbackStep
    item: ClusterObject
    reason: str
    command: str
    """The shell command that fixes it; empty when there is none."""

    @property
    def name(self) -> str:
        """The kind, namespace and name of the object."""
        return self.item.name


class Rollback:
    """What would happen to the objects of a cluster if a gate was turned off."""

    def __init__(self, cluster: Cluster, gate: Gate) -> None:
        self.gate = gate
        self.cluster = cluster
        self._off = Gates(ALL_ON.on - {gate})
        self._nodes = {node.metadata.name: node for _, node in cluster.of(Node)}

    def findings(self) -> list[RollbackFinding]:
        """Everything that would break, in the order of the procedure."""
        meant = ((item, meant_object(item.object)) for item in self.cluster.items)
        using = [(item, thing) for item, thing in meant if self.gate in gates_needed(thing)]
        findings = [finding for item, thing in using for finding in self._of(item, thing)]
        order = list(RollbackStep)
        return sorted(findings, key=lambda finding: (order.index(finding.step), finding.name))

    def procedure(self) -> list[str]:
        """What to do once the findings are dealt with: each component in its turn, the scheduler first."""
        off = f"{self.gate.value}=false"
        attached = any(meant_object(item.object) is not item.object for item in self.cluster.items)
        return [
            f"in the scheduler:        --scheduler-feature-gates GATES,{off}",
            f"then in the API server:  --apiserver-feature-gates GATES,{off}",
            f"then in the controllers: --controllers-feature-gates GATES,{off}",
            *([f"or in attach mode:       moorage attach run --feature-gates {off}"] if attached else ()),
        ]

    def _of(self, item: ClusterObject, thing: Object) -> Iterator[RollbackFinding]:
        """The findings about an object; `thing` is it as it is meant."""
        if isinstance(thing, Pod):
            yield from self._of_pod(item, thing)
        elif kinds.of(thing).pod_spec:
            yield from self._of_template(item)
        elif isinstance(thing, PersistentVolume):
            yield from self._of_volume(item, thing)
        elif isinstance(thing, ResourceSlice):
            reason = "its node selector matches no node without the gate: change it in the driver that publishes it"
            yield RollbackFinding(RollbackStep.CLAIMS, item, reason, "")
        elif isinstance(thing, ResourceClaim | ResourceClaimTemplate):
            yield from self._of_claim(item, thing)

    def _of_template(self, item: ClusterObject) -> Iterator[RollbackFinding]:
        thing = item.object
        # An owned workload is changed through its owner, and a finished Job creates no more pods.
        if _is_owned(thing) or _is_done(thing):
            return
        if self.gate in gates_needed(thing):
            step = RollbackStep.TEMPLATES
            reason = "its template needs the gate: the API server refuses new pods, and updates and repairs stall"
        else:
            step = RollbackStep.RULES
            reason = "rules in the annotations of its template need the gate: they match nothing without it"
        # The template of a Job that runs cannot be changed.
        command = _renew_job(item) if isinstance(thing, Job) else _edit(kinds.of(thing), item)
        yield RollbackFinding(step, item, reason, command)

    def _of_pod(self, item: ClusterObject, pod: Pod) -> Iterator[RollbackFinding]:
        if pod.status.phase in _ENDED or pod.metadata.deletion_timestamp is not None:
            return
        if pod.spec.node_name:
            judged = item.object
            assert isinstance(judged, Pod)  # as `pod` is, which is what it means
            tolerations = judged_tolerations(judged.spec, judged.metadata.annotations)
            step, reason = RollbackStep.EVICTED, self._evicted(pod.spec.node_name, tolerations)
        else:
            step, reason = RollbackStep.PENDING, self._stuck(pod)
        if reason:
            yield RollbackFinding(step, item, reason, pod_command(item))

    def _stuck(self, pod: Pod) -> str:
        """Why a pending pod would have fewer nodes to go to; empty when it has as many as now."""
        now, then = self._admitting(pod.spec, ALL_ON), self._admitting(pod.spec, self._off)
        if then:
            lost = sorted(now - then)
            return f"it is pending, and without the gate may no longer go to {_named(lost)}" if lost else ""
        if not now and not self._is_needed(pod):
            return ""
        return "it is pending, and without the gate no node will do: it stays pending"

    def _admitting(self, spec: PodSpec, gates: Gates) -> set[str]:
        """The nodes whose taints and labels admit a pod."""
        tolerations, selector = Tolerations(spec.tolerations, gates), compile_pod_selector(spec, gates)
        return {
            name
            for name, node in self._nodes.items()
            if tolerations.first_untolerated(node.spec.taints) is None and selector.verdict(node.metadata.labels, name)
        }

    def _is_needed(self, pod: Pod) -> bool:
        """Whether more than a preference of a pod needs the gate."""
        required = [term for path, term in terms_of(pod) if not path.endswith(".preference")]
        tolerations = [toleration for _, listed in tolerations_of(pod) for toleration in listed]
        return any(self.gate in term_gates(term) for term in required) or any(
            self.gate in toleration_gates(toleration) for toleration in tolerations
        )

    def _evicted(self, node_name: str, tolerations: TolerationList) -> str:
        """Why a running pod would have to leave sooner than it must now; empty when nothing changes for it."""
        node = self._nodes.get(node_name)
        if node is None:
            return ""
        now = Tolerations(tolerations, ALL_ON.for_eviction())
        then = Tolerations(tolerations, self._off.for_eviction())
        for taint in node.spec.taints:
            if taint.effect != NO_EXECUTE:
                continue
            before, after = now.grace_seconds((taint,)), then.grace_seconds((taint,))
            if after is not None and (before is None or after < before):
                where = f"node {node_name} has the taint {taint}"
                return f"{where}, which it tolerates only with the gate: evicted {_when(after)}"
        return ""

    def _of_volume(self, item: ClusterObject, volume: PersistentVolume) -> Iterator[RollbackFinding]:
        affinity = volume.spec.node_affinity
        required = affinity.required if affinity else None
        lost = sorted(self._reaching(required, ALL_ON) - self._reaching(required, self._off))
        if all(self.gate in term_gates(term) for _, term in terms_of(volume)):
            reason = "its node affinity matches no node without the gate: pods that use it cannot be placed"
        elif lost:
            reason = f"without the gate its node affinity leaves out {_named(lost)}"
        else:
            return
        yield RollbackFinding(
            RollbackStep.VOLUMES, item, reason, _renew_bound(item) if volume.spec.claim_ref else _replace(item)
        )

    def _reaching(self, selector: NodeSelector | None, gates: Gates) -> set[str]:
        compiled = compile_selector(selector, gates)
        return {name for name, node in self._nodes.items() if compiled.verdict(node.metadata.labels, name)}

    def _of_claim(self, item: ClusterObject, claim: ResourceClaim | ResourceClaimTemplate) -> Iterator[RollbackFinding]:
        if isinstance(claim, ResourceClaimTemplate) or claim.status.allocation is None:
            reason = "it asks for devices by a toleration that needs the gate: tainted devices are not given to it"
            yield RollbackFinding(RollbackStep.CLAIMS, item, reason, _renew_claim(item))
            return
        losses = [self._lost_device(result) for result in claim.status.allocation.devices.results]
        for taint, seconds in filter(None, losses):
            pods = _named([user.name for user in claim.status.reserved_for]) or "no pod"
            where = f"its device has the taint {taint}"
            reason = f"{where}, which it tolerates only with the gate: evicts {pods} {_when(seconds)}"
            yield RollbackFinding(RollbackStep.CLAIMS, item, reason, _renew_claim(item))

    def _lost_device(self, result: DeviceRequestAllocationResult) -> tuple[Taint, int] | None:
        """The first taint of a device that would evict its users, or do so sooner, and after how many seconds."""
        now = Tolerations(result.tolerations, ALL_ON.for_eviction())
        then = Tolerations(result.tolerations, self._off.for_eviction())
        for taint in self._device_taints(result):
            if taint.effect == NO_EXECUTE:
                before, after = now.device_grace_seconds(taint), then.device_grace_seconds(taint)
                if after is not None and (before is None or after < before):
                    return taint, after
        return None

    def _device_taints(self, result: DeviceRequestAllocationResult) -> Iterator[Taint]:
        place = result.driver, result.pool, result.device
        for _, resource_slice in self.cluster.of(ResourceSlice):
            spec = resource_slice.spec
            for device in spec.devices:
                if (spec.driver, spec.pool.name, device.name) == place:
                    yield from device.taints
        for _, rule in self.cluster.of(DeviceTaintRule):
            if selector := rule.spec.device_selector:
                selected = selector.driver, selector.pool, selector.device
                if all(name in (None, actual) for name, actual in zip(selected, place, strict=True)):
                    yield rule.spec.taint


def pod_command(item: ClusterObject) -> str:
    """The command that renews a pod: its workload recreates it from the changed template; a bare one is replaced."""
    return _delete(item, item.object.metadata.name) if _is_owned(item.object) else _replace(item)


def _named(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    listed = list(names)
    rest = f" and {len(listed) - _EXAMPLES} more" if len(listed) > _EXAMPLES else ""
    return ", ".join(listed[:_EXAMPLES]) + rest


def _is_owned(thing: Object) -> bool:
    return any(owner.controller for owner in thing.metadata.owner_references)


def _is_done(thing: Object) -> bool:
    return isinstance(thing, Job) and any(
        each.type in _DONE and each.status == "True" for each in thing.status.conditions
    )


def _where(item: ClusterObject) -> str:
    namespace = item.object.metadata.namespace
    return f" -n {namespace}" if kinds.of(item.object).namespaced and namespace not in ("", "default") else ""


def _edit(kind: Kind, item: ClusterObject) -> str:
    singular = item.object.kind.lower() if item.within else kind.singular
    return f"kubectl edit {singular} {item.object.metadata.name}{_where(item)}"


def _replace(item: ClusterObject, *before: str, only: str = "") -> str:
    """The commands that delete an object whose fields are immutable and create it again."""
    name = item.object.metadata.name
    what = f"{kinds.of(item.object).singular} {name}{_where(item)}"
    read = f"kubectl get {what} -o yaml{only} > {name}.yaml"
    return "; ".join((read, f"$EDITOR {name}.yaml", *before, f"kubectl replace --force -f {name}.yaml"))


def _renew_job(item: ClusterObject) -> str:
    """The commands that recreate a Job, without the uid by which the old one selects its pods."""
    return _replace(item, only=" | grep -v controller-uid")


def _renew_bound(item: ClusterObject) -> str:
    """The commands that recreate a bound volume: its finalizer is removed, and its claim waits for the new one."""
    name = item.object.metadata.name
    freed = f'kubectl patch pv {name} -p \'{{"metadata":{{"finalizers":null}}}}\''
    return _replace(item, f"kubectl delete pv {name} --wait=false", freed)


def _renew_claim(item: ClusterObject) -> str:
    """The commands that recreate a claim: first the pods that hold it go; one that a pod owns comes from a template."""
    claim = item.object
    if not isinstance(claim, ResourceClaim):
        return _replace(item)
    pods = [user.name for user in claim.status.reserved_for]
    if _is_owned(claim):
        return _delete(item, *(owner.name for owner in claim.metadata.owner_references if owner.controller))
    return _replace(item, *([_delete(item, *pods)] if pods else []))


def _delete(item: ClusterObject, *pods: str) -> str:
    # A workload whose template was changed may have deleted the pod already. Where a StatefulSet replaces it at once,
    # kubectl would wait for the new pod of the same name.
    return f"kubectl delete pod {' '.join(pods)}{_where(item)} --ignore-not-found --wait=false"


def _when(seconds: int) -> str:
    return f"after {seconds} seconds" if seconds else "at once"
