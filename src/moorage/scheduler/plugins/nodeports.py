"""NodePorts: keeps pods off nodes where a host port of theirs is in use."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from moorage.scheduler.framework import Cycle, Plugin, Told
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

    def tell(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Told]:
        """Which port is taken, and by whom."""
        table = self.handle.table
        for row in rows.tolist():
            holders = [info for info in table.pods[row].values() if info.shape.ports]
            for port in dict.fromkeys(cycle.shape.ports):
                taken = [info for info in holders if any(port.conflicts(other) for other in info.shape.ports)]
                if taken:
                    reason = f"is taken by pod {'/'.join(taken[0].key)}"
                    yield Told(port, f"port {port.port}/{port.protocol}", reason, np.array([row], np.intp))
