"""New nodes like those that there are, with the devices that they bring."""

from __future__ import annotations

import msgspec

from moorage.api import wellknown
from moorage.api.meta import Object
from moorage.api.node import Node
from moorage.api.resource import ResourceSlice
from moorage.api.volume import CSINode
from moorage.scheduler.asking import Asking
from moorage.scheduler.table.nodes import HOSTNAME

_PASSING = {
    wellknown.TAINT_NOT_READY, wellknown.TAINT_UNREACHABLE, wellknown.TAINT_UNSCHEDULABLE,
    wellknown.TAINT_MEMORY_PRESSURE, wellknown.TAINT_DISK_PRESSURE, wellknown.TAINT_PID_PRESSURE,
    wellknown.TAINT_NETWORK_UNAVAILABLE, wellknown.TAINT_OUT_OF_SERVICE,
}  # fmt: skip
"""The taints that say how a node is now, not what it is for."""
_replace = msgspec.structs.replace


def sorts_of(asking: Asking) -> list[Node]:
    """One node of each sort, the most frequent first; nodes of a sort agree in labels, taints, devices and room."""
    devices: dict[str, tuple[bytes, ...]] = {}
    for item in asking.all_of(ResourceSlice):
        if item.spec.node_name:
            known = devices.get(item.spec.node_name, ())
            devices[item.spec.node_name] = (*known, msgspec.json.encode((item.spec.driver, item.spec.devices)))
    sorts: dict[object, list[Node]] = {}
    for node in asking.nodes:
        labels = tuple(sorted((key, value) for key, value in node.metadata.labels.items() if key != HOSTNAME))
        room = tuple(sorted(node.status.allocatable.items()))
        sorts.setdefault((labels, node.spec.taints, room, devices.get(node.metadata.name)), []).append(node)
    return [nodes[0] for nodes in sorted(sorts.values(), key=len, reverse=True)]


def new_node(asking: Asking, node: Node, name: str) -> list[Object]:
    """A node like another, empty and ready for use, and what comes with it: its devices, and its volume drivers."""
    labels = {**node.metadata.labels, **({HOSTNAME: name} if HOSTNAME in node.metadata.labels else {})}
    metadata = _replace(node.metadata, name=name, uid=f"new-{name}", labels=labels)
    taints = tuple(taint for taint in node.spec.taints if taint.key not in _PASSING)
    new = _replace(node, metadata=metadata, spec=_replace(node.spec, unschedulable=False, taints=taints))
    found: list[Object] = [new]
    for item in asking.all_of(ResourceSlice):
        if item.spec.node_name == node.metadata.name:
            named = _replace(item.metadata, name=f"{name}-{item.metadata.name}", uid=f"new-{name}-{item.metadata.name}")
            pool = _replace(item.spec.pool, name=f"{name}-{item.spec.pool.name}")
            found.append(_replace(item, metadata=named, spec=_replace(item.spec, node_name=name, pool=pool)))
    drivers = asking.get(CSINode, "", node.metadata.name)
    if drivers is not None:
        found.append(_replace(drivers, metadata=_replace(drivers.metadata, name=name, uid=f"new-{name}")))
    return found
