"""The scheduler's rules once more, node by node and without any column: slow, plain, and what answers are held against.

Written from what kube-scheduler does. Only the matcher and the sums of requests are shared with the scheduler.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from moorage.api.decode import convert
from moorage.api.node import Node, Taint
from moorage.api.pod import NodeAffinity, Pod
from moorage.api.requests import HostPort, amounts, host_ports, pod_requests
from moorage.features import Gates
from moorage.match.selector import compile_pod_selector, compile_preferences, compile_selector
from moorage.match.tolerations import Tolerations

_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_NATIVE = ("cpu", "memory", "ephemeral-storage")
_SMALL = {"cpu": 100, "memory": 200 * 1024 * 1024}
_MEBIBYTE = 1024 * 1024
WEIGHTS = {
    "TaintToleration": 3, "NodeAffinity": 2, "NodeResourcesFit": 1, "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}  # fmt: skip


class Refusal(NamedTuple):
    """The plugin that refuses a node, its reasons, and whether the removal of pods could help."""

    plugin: str
    reasons: tuple[str, ...]
    resolvable: bool


@dataclass
class Reference:
    """Nodes, and the pods that are on them."""

    gates: Gates
    args: Mapping[str, Any] = field(default_factory=dict)
    """What plugins are told, by their names."""
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, tuple[str, Pod]] = field(default_factory=dict)
    """Pods by uid, each with the node that it is on."""

    def on(self, node: Node) -> list[Pod]:
        return [pod for name, pod in self.pods.values() if name == node.metadata.name]

    def requested(self, node: Node, missing: Mapping[str, int] | None = None) -> Counter[str]:
        total: Counter[str] = Counter()
        for pod in self.on(node):
            total.update(pod_requests(pod.spec, missing))
        return total

    def refusal(self, pod: Pod, node: Node) -> Refusal | None:
        """Who refuses a node first, and why."""
        names = _named(pod)
        if names is not None and node.metadata.name not in names:
            return Refusal("NodeAffinity", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",), False)
        tolerations = Tolerations(pod.spec.tolerations, self.gates)
        if node.spec.unschedulable and not tolerations.verdict(_UNSCHEDULABLE).matched:
            return Refusal("NodeUnschedulable", ("node(s) were unschedulable",), False)
        for taint in node.spec.taints:
            if taint.effect in ("NoSchedule", "NoExecute") and not tolerations.verdict(taint).matched:
                return Refusal("TaintToleration", ("node(s) had untolerated taint(s)",), False)
        if reason := self._unmatched(pod, node):
            return Refusal("NodeAffinity", (reason,), False)
        taken = [port for each in self.on(node) for port in host_ports(each.spec)]
        if any(_conflict(wanted, port) for wanted in host_ports(pod.spec) for port in taken):
            return Refusal("NodePorts", ("node(s) didn't have free ports for the requested pod ports",), True)
        return self._no_room(pod, node)

    def _unmatched(self, pod: Pod, node: Node) -> str:
        labels, name = node.metadata.labels, node.metadata.name
        required = self._added().required_during_scheduling_ignored_during_execution
        if required is not None and not compile_selector(required, self.gates).verdict(labels, name).matched:
            return "node(s) didn't match scheduler-enforced node affinity"
        if not compile_pod_selector(pod.spec, self.gates).verdict(labels, name).matched:
            return "node(s) didn't match Pod's node affinity/selector"
        return ""

    def _added(self) -> NodeAffinity:
        return convert(self.args.get("NodeAffinity", {}).get("addedAffinity") or {}, NodeAffinity)

    def _no_room(self, pod: Pod, node: Node) -> Refusal | None:
        args = self.args.get("NodeResourcesFit", {})
        room, used = amounts(node.status.allocatable), self.requested(node)
        reasons, resolvable = [], True
        if len(self.on(node)) + 1 > room.get("pods", 0):
            reasons.append("Too many pods")
        for name, asked in pod_requests(pod.spec).items():
            extended = "/" in name and "kubernetes.io/" not in name
            ignored = name in args.get("ignoredResources", ()) or name.split("/")[0] in args.get(
                "ignoredResourceGroups", ()
            )
            if not asked or name == "pods" or (extended and ignored):
                continue
            if asked > room.get(name, 0) - used[name]:
                reasons.append(f"Insufficient {name}")
                resolvable = resolvable and asked <= room.get(name, 0)
        return Refusal("NodeResourcesFit", tuple(reasons), resolvable) if reasons else None

    def feasible(self, pod: Pod) -> list[Node]:
        return [node for node in self.nodes.values() if self.refusal(pod, node) is None]

    def message(self, pod: Pod) -> str:
        """What is said when no node will do."""
        if not self.nodes:
            return "no nodes available to schedule pods"
        if _named(pod) == set():
            return f"0/{len(self.nodes)} nodes are available: pod affinity terms conflict."
        counts: Counter[str] = Counter()
        for node in self.nodes.values():
            refusal = self.refusal(pod, node)
            assert refusal is not None
            counts.update(refusal.reasons)
        told = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        return f"0/{len(self.nodes)} nodes are available: {told}."

    def best(self, pod: Pod) -> set[str]:
        """The nodes that a pod may be put on: those of the highest score."""
        nodes = self.feasible(pod)
        totals = Counter({node.metadata.name: 0 for node in nodes})
        for plugin, scores in self.scores(pod, nodes).items():
            for node, score in zip(nodes, scores, strict=True):
                totals[node.metadata.name] += WEIGHTS[plugin] * score
        highest = max(totals.values(), default=0)
        return {name for name, total in totals.items() if total == highest}

    def scores(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, list[int]]:
        """The normalised scores of nodes by plugin."""
        return {
            "TaintToleration": _normalized([self._unwanted(pod, node) for node in nodes], reverse=True),
            "NodeAffinity": _normalized([self._preferred(pod, node) for node in nodes], reverse=False),
            "NodeResourcesFit": [self._fit(pod, node) for node in nodes],
            "NodeResourcesBalancedAllocation": [self._balance(pod, node) for node in nodes],
            "ImageLocality": [self._images(pod, node) for node in nodes],
        }

    def _unwanted(self, pod: Pod, node: Node) -> int:
        counted = [each for each in pod.spec.tolerations if each.expression or each.effect in ("", "PreferNoSchedule")]
        tolerations = Tolerations(counted, self.gates)
        taints = [taint for taint in node.spec.taints if taint.effect == "PreferNoSchedule"]
        return sum(not tolerations.verdict(taint).matched for taint in taints)

    def _preferred(self, pod: Pod, node: Node) -> int:
        mine = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        total = 0
        for affinity in (mine, self._added()):
            terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
            total += compile_preferences(terms, self.gates).score(node.metadata.labels, node.metadata.name)
        return total

    def _usage(
        self, pod: Pod, node: Node, resources: Iterable[str], missing: Mapping[str, int] | None
    ) -> list[tuple[str, int, int, int]]:
        """Of each resource that counts: its name, how much there is, how much is used before and after."""
        room, used = amounts(node.status.allocatable), self.requested(node, missing)
        asked = pod_requests(pod.spec, missing)
        found = []
        for name in resources:
            counts = name in _NATIVE or asked.get(name, 0)
            if counts and room.get(name, 0):
                found.append((name, room[name], used[name], used[name] + asked.get(name, 0)))
        return found

    def _fit(self, pod: Pod, node: Node) -> int:
        strategy = self.args.get("NodeResourcesFit", {}).get("scoringStrategy") or {}
        weights = _weights(strategy.get("resources"))
        usage = self._usage(pod, node, weights, _SMALL)
        if strategy.get("type") == "RequestedToCapacityRatio":
            shape = [
                (each["utilization"], each["score"] * 10) for each in strategy["requestedToCapacityRatio"]["shape"]
            ]
            scored = [
                (name, _on_line(shape, after * 100 // room if after <= room else 100)) for name, room, _, after in usage
            ]
            scored = [(name, score) for name, score in scored if score > 0]
            number = sum(weights[name] for name, _ in scored)
            return math.floor(sum(weights[name] * score for name, score in scored) / number + 0.5) if number else 0
        most = strategy.get("type") == "MostAllocated"
        number = sum(weights[name] for name, *_ in usage)
        total = 0
        for name, room, _, after in usage:
            amount = min(after, room) if most else max(room - after, 0)
            total += weights[name] * (amount * 100 // room)
        return total // number if number else 0

    def _balance(self, pod: Pod, node: Node) -> int:
        weights = _weights(self.args.get("NodeResourcesBalancedAllocation", {}).get("resources"))
        if not any(pod_requests(pod.spec).get(name, 0) for name in weights):
            return 0
        usage = self._usage(pod, node, weights, None)
        before = _evenness([min(used / room, 1.0) for _, room, used, _ in usage])
        after = _evenness([min(used / room, 1.0) for _, room, _, used in usage])
        return 50 + (50 + after - before) // 2

    def _images(self, pod: Pod, node: Node) -> int:
        names = [_tagged(each.image) for each in (*pod.spec.init_containers, *pod.spec.containers)]
        total = 0
        for name in names:
            here = _size(node, name)
            if here is not None:
                share = sum(_size(each, name) is not None for each in self.nodes.values()) / len(self.nodes)
                total += int(here * share)
        least, most = 23 * _MEBIBYTE, 1000 * _MEBIBYTE * len(names)
        return 100 * (min(max(total, least), most) - least) // (most - least)


def _named(pod: Pod) -> set[str] | None:
    """The only nodes that a pod's terms leave, when every term has names."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    names: set[str] = set()
    for term in required.node_selector_terms if required else ():
        fields = [each for each in term.match_fields if (each.key, each.operator) == ("metadata.name", "In")]
        if not fields:
            return None
        names |= {name for name in fields[0].values if all(name in each.values for each in fields)}
    return names if required and required.node_selector_terms else None


def _conflict(wanted: HostPort, taken: HostPort) -> bool:
    same = (wanted.port, wanted.protocol) == (taken.port, taken.protocol)
    return same and (wanted.address == taken.address or "0.0.0.0" in (wanted.address, taken.address))


def _normalized(scores: list[int], *, reverse: bool) -> list[int]:
    highest = max(scores, default=0)
    if highest == 0:
        return [100] * len(scores) if reverse else scores
    scaled = [100 * score // highest for score in scores]
    return [100 - score for score in scaled] if reverse else scaled


def _weights(resources: Iterable[Mapping[str, Any]] | None) -> dict[str, int]:
    if not resources:
        return {"cpu": 1, "memory": 1}
    return {each["name"]: each.get("weight", 1) for each in resources}


def _on_line(shape: list[tuple[int, int]], used: int) -> int:
    """The value of a broken line, with divisions that go towards zero as Go's do."""
    if used <= shape[0][0]:
        return shape[0][1]
    for (x0, y0), (x1, y1) in pairwise(shape):
        if used <= x1:
            return y0 + int((y1 - y0) * (used - x0) / (x1 - x0))
    return shape[-1][1]


def _evenness(fractions: list[float]) -> int:
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = sum(fractions) / len(fractions)
        deviation = math.sqrt(sum((each - mean) * (each - mean) for each in fractions) / len(fractions))
    return int((1 - deviation) * 100)


def _tagged(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _size(node: Node, image: str) -> int | None:
    found = None
    for each in node.status.images:
        if image in (_tagged(name) for name in each.names):
            found = each.size_bytes
    return found
