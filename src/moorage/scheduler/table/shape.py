"""Pods as plugins see them: a shape shared by all pods of one template, and the pod itself."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakValueDictionary

import msgspec

from moorage.api.meaning import Meaning, meaning
from moorage.api.pod import Pod, PodSpec
from moorage.api.requests import CPU, DEFAULT_MEMORY, DEFAULT_MILLI_CPU, MEMORY, host_ports, images_of, pod_requests
from moorage.bounded import Bounded
from moorage.features import Gates
from moorage.match.deferral import NotReady, spend
from moorage.match.selector import Preferences, Selector, compile_pod_selector, compile_preferences
from moorage.match.tolerations import Tolerations

_MISSING = {CPU: DEFAULT_MILLI_CPU, MEMORY: DEFAULT_MEMORY}
_SHAPES_MAX, _SHAPES_BYTES = 1024, 2 << 20
"""How many shapes are kept that no pod has any more, and how long their signatures are together: what is worked out of
a specification takes up to 60 times as much.
"""
_LABEL_COST = 40
"""What it takes to compile a label of a nodeSelector: some microseconds."""
FINISHED = ("Succeeded", "Failed")
"""The phases of pods that run no more and take no room."""
_encode = msgspec.json.Encoder(order="sorted").encode


class Shape:
    """Everything about a pod's specification, worked out once for all pods that have the same."""

    __slots__ = (
        "__weakref__", "_gates", "_rules", "attached", "has_claims", "images", "number", "ports", "repels", "requests",
        "scored", "spec",
    )  # fmt: skip

    def __init__(self, number: int, spec: PodSpec, gates: Gates, attached: Meaning | None = None) -> None:
        self.number = number
        self.spec = spec
        """The specification of one of the pods as it is meant, without what differs between them: names of claims."""
        self.attached = attached
        """The rules in the annotations of the pods, if they have any."""
        self.requests = {name: value for name, value in pod_requests(spec).items() if value}
        counted = pod_requests(spec, _MISSING)
        self.scored = {**self.requests, CPU: counted.get(CPU, 0), MEMORY: counted.get(MEMORY, 0)}
        """The same as scores count it: a container that asks for no cpu or memory counts as a small one."""
        self._gates = gates
        self._rules: _Rules | None = None
        self.has_claims = bool(spec.resource_claims) or any(volume.persistent_volume_claim for volume in spec.volumes)
        """Whether its pods use claims, of which each may have its own."""
        anti_affinity = spec.affinity and spec.affinity.pod_anti_affinity
        self.repels = bool(anti_affinity and anti_affinity.required_during_scheduling_ignored_during_execution)
        """Whether its pods keep others away from where they are."""
        self.ports = host_ports(spec)
        self.images = images_of(spec)

    @property
    def tolerations(self) -> Tolerations:
        """Its tolerations, compiled."""
        return (self._rules or self._compiled()).tolerations

    @property
    def selector(self) -> Selector:
        """What it demands of a node's labels and name."""
        return (self._rules or self._compiled()).selector

    @property
    def preferences(self) -> Preferences:
        """What it prefers."""
        return (self._rules or self._compiled()).preferences

    def _compiled(self) -> _Rules:
        """Made when a pod is first tried: of pods that are on their node already it is never asked."""
        try:
            spend(_LABEL_COST * len(self.spec.node_selector), self._compiled)
            self._rules = _Rules(self.spec, self._gates)
        except NotReady:
            raise NotReady(self._compiled) from None
        return self._rules


class _Rules:
    """The tolerations and the node affinity of a specification, compiled."""

    __slots__ = ("preferences", "selector", "tolerations")

    def __init__(self, spec: PodSpec, gates: Gates) -> None:
        affinity = spec.affinity and spec.affinity.node_affinity
        preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
        self.tolerations = Tolerations(spec.tolerations, gates)
        self.selector: Selector = compile_pod_selector(spec, gates)
        self.preferences: Preferences = compile_preferences(preferred, gates)


class PodInfo:
    """A pod, with its shape at hand."""

    __slots__ = ("key", "node_name", "pod", "priority", "shape", "uid")

    def __init__(self, pod: Pod, shape: Shape, node_name: str = "") -> None:
        self.pod = pod
        self.shape = shape
        self.uid = pod.metadata.uid
        self.key = (pod.metadata.namespace, pod.metadata.name)
        self.priority = pod.spec.priority or 0
        self.node_name = node_name or pod.spec.node_name
        """Where it runs, or where it is assumed to run soon."""

    def __repr__(self) -> str:
        return f"PodInfo({'/'.join(self.key)})"


class Shapes:
    """The shapes of pods, by what is written in their specification."""

    def __init__(self, gates: Gates) -> None:
        self._gates = gates
        self._in_use: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
        self._recent: Bounded[bytes, Shape] = Bounded(_SHAPES_MAX, _SHAPES_BYTES)
        self._number = 0

    def info(self, pod: Pod) -> PodInfo:
        """A pod that is to be placed, with its shape. If it names a node, it is to be placed on that one."""
        return PodInfo(pod, self._shape(pod.spec, pod.metadata.annotations))

    def assigned(self, pod: Pod) -> PodInfo:
        """A pod that is on its node already, with the shape of its template: the same whichever node that is."""
        return PodInfo(pod, self._shape(msgspec.structs.replace(pod.spec, node_name=""), pod.metadata.annotations))

    @property
    def bytes(self) -> int:
        """How many bytes the specifications have that are kept, whether a pod has them or not."""
        return self._recent.bytes

    def _shape(self, spec: PodSpec, annotations: Mapping[str, str]) -> Shape:
        if spec.volumes or spec.resource_claims:
            spec = _without_names(spec)
        attached = meaning(spec, annotations) if annotations else None
        if attached is not None:
            spec = attached.spec
        signature = _encode(spec if attached is None else attached)
        shape = self._recent.get(signature)
        if shape is None:
            shape = self._in_use.get(signature)
            if shape is None:
                self._number += 1
                shape = self._in_use[signature] = Shape(self._number, spec, self._gates, attached)
            self._recent.put(signature, shape, len(signature))
        return shape


def _without_names(spec: PodSpec) -> PodSpec:
    """A specification without the names of claims, which differ between the pods of a StatefulSet."""
    replace = msgspec.structs.replace
    volumes = tuple(
        replace(volume, persistent_volume_claim=replace(volume.persistent_volume_claim, claim_name=""))
        if volume.persistent_volume_claim
        else volume
        for volume in spec.volumes
    )
    claims = tuple(
        replace(claim, resource_claim_name="") if claim.resource_claim_name else claim for claim in spec.resource_claims
    )
    return replace(spec, volumes=volumes, resource_claims=claims)
