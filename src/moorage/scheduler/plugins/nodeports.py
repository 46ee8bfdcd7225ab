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
        taken: set[int] = set()
        for port in cycle.shape.ports:
            taken.update(*(table.port_rows.get(each, ()) for each in port.needed))
            if len(taken) == len(table.ports):
                break
        mask[list(taken)] = False
        return mask[rows]

    def tell(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Told]:
        """Which port is taken, and by whom."""
        table = self.handle.table
        for row in rows.tolist():
            holders = {
                taken: info
                for info in reversed(table.pods[row].values())
                for port in info.shape.ports
                for taken in port.taken
            }
            for port in dict.fromkeys(cycle.shape.ports):
                taken_by = [holders[each] for each in port.needed if each in holders]
                if taken_by:
                    reason = f"is taken by pod {'/'.join(taken_by[0].key)}"
                    yield Told(port, f"port {port.port}/{port.protocol}", reason, np.array([row], np.intp))
