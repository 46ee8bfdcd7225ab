"""Where the pods of a DaemonSet may run: its template, judged once for each distinct set of taints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from moorage.api.meaning import meaning
from moorage.api.meta import Data
from moorage.api.node import Node, Taint
from moorage.api.pod import Pod, PodSpec
from moorage.api.wellknown import (
    TAINT_DISK_PRESSURE,
    TAINT_MEMORY_PRESSURE,
    TAINT_NETWORK_UNAVAILABLE,
    TAINT_NOT_READY,
    TAINT_PID_PRESSURE,
    TAINT_UNREACHABLE,
    TAINT_UNSCHEDULABLE,
)
from moorage.features import ALL_ON, Gates
from moorage.match.deferral import one_by_one
from moorage.match.selector import NAME_FIELD, compile_pod_selector
from moorage.match.tolerations import NO_EXECUTE, NO_SCHEDULE, Tolerations

_REMEMBERED = 4096
_TOLERATED = (
    (TAINT_NOT_READY, NO_EXECUTE),
    (TAINT_UNREACHABLE, NO_EXECUTE),
    (TAINT_DISK_PRESSURE, NO_SCHEDULE),
    (TAINT_MEMORY_PRESSURE, NO_SCHEDULE),
    (TAINT_PID_PRESSURE, NO_SCHEDULE),
    (TAINT_UNSCHEDULABLE, NO_SCHEDULE),
)
"""Taints that all daemon pods tolerate, as in Kubernetes."""
_HOST_NETWORK = ((TAINT_NETWORK_UNAVAILABLE, NO_SCHEDULE),)


class DaemonFit(NamedTuple):
    """Whether the pods of a DaemonSet may run on a node."""

    runs: bool
    """Whether there should be a pod."""
    stays: bool
    """Whether a pod that runs there may continue."""


NOWHERE = DaemonFit(runs=False, stays=False)


def daemon_spec(spec: Data) -> Data:
    """The specification of daemon pods: that of the template, with the tolerations of all daemon pods."""
    tolerations = list(spec.get("tolerations") or ())
    for key, effect in _TOLERATED + (_HOST_NETWORK if spec.get("hostNetwork") else ()):
        added = {"key": key, "operator": "Exists", "effect": effect}
        same = [number for number, each in enumerate(tolerations) if _without_seconds(each) == added]
        if same:
            tolerations[same[0]] = added
        else:
            tolerations.append(added)
    return {**spec, "tolerations": tolerations}


def _without_seconds(toleration: Data) -> Data:
    return {
        name: value for name, value in toleration.items() if name != "tolerationSeconds" and value not in ("", None)
    }


def bound_to(spec: Data, node: str) -> Data:
    """A specification that the scheduler can place on one node only."""
    term = {"matchFields": [{"key": NAME_FIELD, "operator": "In", "values": [node]}]}
    affinity = spec.get("affinity") or {}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {**spec, "affinity": {**affinity, "nodeAffinity": {**(affinity.get("nodeAffinity") or {}), **required}}}


def node_of(pod: Pod) -> str:
    """The node that a daemon pod is on, or is made for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    for term in required.node_selector_terms if required else ():
        for field in term.match_fields:
            if field.key == NAME_FIELD and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""


class DaemonPlacement:
    """A template of daemon pods, ready to be asked about many nodes."""

    def __init__(self, template: Data, gates: Gates) -> None:
        self.spec = daemon_spec(template.get("spec") or {})
        annotations = (template.get("metadata") or {}).get("annotations") or {}
        typed = msgspec.convert(self.spec, PodSpec)
        if attached := meaning(typed, annotations):
            typed, gates = attached.spec, ALL_ON  # gates are for native fields: who writes a rule means it
        self._node_name = typed.node_name
        self._selector = compile_pod_selector(typed, gates)
        self._tolerations = Tolerations(typed.tolerations, gates)
        # Pods that run may continue when a comparison gate is turned off.
        self._lasting_selector = compile_pod_selector(typed, gates.for_eviction())
        self._lasting_tolerations = Tolerations(typed.tolerations, gates.for_eviction())
        # Only an expression can tell taints of different age apart.
        self._reads_age = any(each.expression for each in typed.tolerations)
        self._known: dict[tuple[object, ...], DaemonFit] = {}
        self._cost = 2 * (self._selector.cost + self._tolerations.cost)
        self._fits: dict[str, tuple[Node, DaemonFit]] = {}
        """Of each node as it was when it was asked about, by name."""

    def fits(self, nodes: Iterable[Node]) -> dict[str, DaemonFit]:
        """Whether pods of this template may run on all nodes, by name. NotReady when that takes long."""
        before, self._fits = self._fits, {}
        asked = list(nodes)
        for node in asked:
            known = before.get(node.metadata.name)
            if known is not None and places_alike(known[0], node):
                self._fits[node.metadata.name] = known
        one_by_one([node for node in asked if node.metadata.name not in self._fits], self._keep, self._cost)
        return {name: fit for name, (_, fit) in self._fits.items()}

    def _keep(self, node: Node) -> None:
        self._fits[node.metadata.name] = node, self.fit(node)

    def fit(self, node: Node) -> DaemonFit:
        """Whether pods of this template may run on a node."""
        if self._node_name and self._node_name != node.metadata.name:
            return NOWHERE
        labels, name = node.metadata.labels, node.metadata.name
        fit = self._judged(node.spec.taints)
        if self._selector.verdict(labels, name).matched:
            return fit
        return DaemonFit(runs=False, stays=fit.stays and self._lasting_selector.verdict(labels, name).matched)

    def _judged(self, taints: tuple[Taint, ...]) -> DaemonFit:
        if not taints:
            return DaemonFit(runs=True, stays=True)
        key = taints if self._reads_age else tuple((each.key, each.value, each.effect) for each in taints)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[key] = self._judge(taints)
        return known

    def _judge(self, taints: tuple[Taint, ...]) -> DaemonFit:
        if self._tolerations.first_untolerated(taints) is None:
            return DaemonFit(runs=True, stays=True)
        lasting = (each for each in taints if each.effect == NO_EXECUTE)
        return DaemonFit(runs=False, stays=self._lasting_tolerations.first_untolerated(lasting) is None)


def places_alike(old: Node, new: Node) -> bool:
    """Whether nothing of a node has changed that daemon pods depend on."""
    return old is new or (old.metadata.labels == new.metadata.labels and old.spec.taints == new.spec.taints)
