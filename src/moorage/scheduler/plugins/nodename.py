"""NodeName: keeps a pod that names its node to that node."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from moorage.scheduler.framework import Cycle, Plugin, Scope, Told
from moorage.scheduler.table.nodes import Mask, Rows
from moorage.scheduler.table.shape import Shape


class NodeName(Plugin):
    """Compares `spec.nodeName`, which an unbound pod has only when a user or a tool asks for that node."""

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

    def tell(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Told]:
        """The pod names another node."""
        yield Told("name", "nodeName", f"the pod is for node {cycle.shape.spec.node_name}", rows)
