"""NodePorts: keeps pods off nodes where a host port of theirs is in use."""

from __future__ import annotations

import numpy as np

from moorage.scheduler.framework import Cycle, Plugin
from moorage.scheduler.table.nodes import Mask, Rows
from moorage.scheduler.table.shape import Shape


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
