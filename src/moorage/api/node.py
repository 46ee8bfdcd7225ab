"""Nodes, their taints, and the selectors that match nodes."""

from __future__ import annotations

import msgspec

from moorage.api.meta import Int32, Int64, Object, ResourceList, Time, Wire


class Taint(Wire):
    """A mark on a node or a device that repels every pod that does not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Time | None = None

    def __str__(self) -> str:
        return f"{self.key}{self.value and '=' + self.value}:{self.effect}"


class NodeSelectorRequirement(Wire):
    """One condition on a label or a field of a node."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Wire):
    """Conditions that must all hold. A term without any picks no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()
    match_cel_expressions: tuple[str, ...] = ()


class NodeSelector(Wire):
    """Terms of which one must hold. No terms pick no node."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Wire):
    """A term that adds its weight to a node's score when all of it holds."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class ContainerImage(Wire):
    """An image that a node already has."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeCondition(Wire):
    """One observed aspect of a node's health."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_heartbeat_time: Time | None = None
    last_transition_time: Time | None = None


class NodeSpec(Wire):
    """The desired state of a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    provider_id: str = ""
    pod_cidr: str = ""


class NodeAddress(Wire):
    """Where a node can be reached."""

    type: str = ""
    address: str = ""


class NodeSystemInfo(Wire):
    """What a node runs on."""

    machine_id: str = ""
    system_uuid: str = msgspec.field(default="", name="systemUUID")
    boot_id: str = ""
    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    kubelet_version: str = ""
    kube_proxy_version: str = ""
    operating_system: str = ""
    architecture: str = ""


class NodeStatus(Wire):
    """What a node reports."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()


class Node(Object):
    """A machine that runs pods."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
