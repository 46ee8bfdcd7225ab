"""The small filters: nodes that are cordoned, nodes of another name, host ports that are taken."""

from __future__ import annotations

import numpy as np

from moorage.api.node import Taint
from moorage.scheduler.framework import Cycle, Plugin, Scope
from moorage.scheduler.table.nodes import Mask, Rows
from moorage.scheduler.table.shape import Shape

UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable(Plugin):
    """Keeps pods off nodes that are cordoned, unless they tolerate the taint that says so."""

    name = "NodeUnschedulable"
    scope = Scope.NODE
    reason = "node(s) were unschedulable"

    def applies(self, shape: Shape) -> bool:
        """Whether the pod minds."""
        return not shape.tolerations.verdict(UNSCHEDULABLE).matched

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """The node is not cordoned."""
        return ~self.handle.table.unschedulable[rows]


class NodeName(Plugin):
    """Keeps a pod that names its node to that node."""

    name = "NodeName"
    scope = Scope.NODE
    reason = "node(s) didn't match the requested node name"

    def applies(self, shape: Shape) -> bool:
        """Whether the pod names a node."""
        return bool(shape.spec.node_name)

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """The node has that name."""
        table = self.handle.table
        mask = np.zeros(table.size, np.bool_)
        if (row := table.rows.get(cycle.shape.spec.node_name)) is not None:
            mask[row] = True
        return mask[rows]


class NodePorts(Plugin):
    """Keeps pods off nodes where a host port of theirs is taken."""

    name = "NodePorts"
    reason = "node(s) didn't have free ports for the requested pod ports"
    resolvable = True

    def applies(self, shape: Shape) -> bool:
        """Whether the pod wants a host port."""
        return bool(shape.ports)

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """All host ports are free."""
        table = self.handle.table
        mask = np.ones(table.size, np.bool_)
        for row, used in table.ports.items():
            mask[row] = not any(port.conflicts(taken) for port in cycle.shape.ports for taken in used)
        return mask[rows]
