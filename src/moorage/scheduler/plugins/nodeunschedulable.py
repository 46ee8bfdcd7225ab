"""NodeUnschedulable: keeps pods off nodes that are cordoned."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from moorage.api.node import Taint
from moorage.scheduler.framework import Cycle, Plugin, Scope, Told
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

    def tell(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Told]:
        """All are cordoned."""
        yield Told("cordoned", "node", "it is cordoned (spec.unschedulable)", rows)
