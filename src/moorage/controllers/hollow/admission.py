"""Admission of pods to a node, as a kubelet decides it: resources, labels, ports, and NoExecute taints."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from moorage.api.meaning import meaning
from moorage.api.node import Node
from moorage.api.pod import Pod, PodSpec
from moorage.api.requests import PODS, Amounts, HostPort, amounts, host_ports, pod_requests
from moorage.api.wellknown import LABEL_OS
from moorage.features import ALL_ON, Gates
from moorage.match.selector import compile_pod_selector
from moorage.match.tolerations import NO_EXECUTE, Tolerations

_ORDER = {"cpu": 0, "memory": 1, "ephemeral-storage": 2}


class Need(NamedTuple):
    """What a pod takes of a node."""

    amounts: Amounts
    ports: tuple[HostPort, ...] = ()
    taken: frozenset[HostPort] = frozenset()
    """What it takes of host ports."""


class Refusal(NamedTuple):
    """Why a node rejects a pod."""

    reason: str
    message: str
    resource: str = ""
    """What the node is short of, if it is for that."""
    missing: int = 0
    """How much of it."""


def refusals(pod: Pod, need: Need, node: Node, others: Collection[Need], gates: Gates) -> Iterator[Refusal]:
    """Why a node rejects a pod beside the others that it has: the first reason is the one that is reported."""
    spec, system = pod.spec, node.metadata.labels.get(LABEL_OS, "linux")
    if attached := meaning(spec, pod.metadata.annotations):
        spec, gates = attached.spec, ALL_ON  # gates are for native fields: who writes a rule means it
    if pod.metadata.labels.get(LABEL_OS, system) != system:
        message = f"Failed to admit pod as the `{LABEL_OS}` label doesn't match node label"
        yield Refusal("PodOSSelectorNodeLabelDoesNotMatch", message)
    if spec.os is not None and spec.os.name != system:
        yield Refusal("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    yield from _shortages(need.amounts, node, others)
    if (spec.node_selector or spec.affinity) and not compile_pod_selector(spec, gates).verdict(
        node.metadata.labels, node.metadata.name
    ):
        yield _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    needed = {each for port in need.ports for each in port.needed}
    if needed and not all(needed.isdisjoint(other.taken) for other in others):
        yield _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    taints = [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE]
    if taints and Tolerations(spec.tolerations, gates).first_untolerated(taints):
        yield _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def need_of(spec: PodSpec) -> Need:
    """What a pod takes."""
    ports = host_ports(spec)
    return Need(pod_requests(spec), ports, frozenset(each for port in ports for each in port.taken))


def _shortages(asked_for: Amounts, node: Node, others: Collection[Need]) -> Iterator[Refusal]:
    allocatable = amounts(node.status.allocatable)
    room = allocatable.get(PODS, 0)
    if len(others) + 1 > room:
        yield _short(PODS, 1, len(others), room)
    for name in sorted(asked_for, key=lambda each: (_ORDER.get(each, len(_ORDER)), each)):
        asked = asked_for[name]
        # A kubelet ignores resources that its node does not report: they may be of the cluster or of a device claim.
        if not asked or (_is_extended(name) and name not in allocatable):
            continue
        used = sum(other.amounts.get(name, 0) for other in others)
        if asked > allocatable.get(name, 0) - used:
            yield _short(name, asked, used, allocatable.get(name, 0))


def _short(name: str, asked: int, used: int, room: int) -> Refusal:
    message = f"Node didn't have enough resource: {name}, requested: {asked}, used: {used}, capacity: {room}"
    return Refusal(f"OutOf{name}", message, name, asked - (room - used))


def _failed(predicate: str, why: str) -> Refusal:
    return Refusal(predicate, f"Predicate {predicate} failed: {why}")


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name
