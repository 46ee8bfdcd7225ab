"""How much of the nodes is requested, by group of nodes."""

from __future__ import annotations

from collections import defaultdict

from moorage.api.requests import CPU, MEMORY
from moorage.scheduler.table.nodes import NodeTable
from moorage.tools.simulation.result import GroupChange, GroupUse, ResourceShare

_GROUPS = (
    "karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool", "node.kubernetes.io/instance-type",
)  # fmt: skip
"""The labels that name the group of a node: the first one that any node has counts."""
_REST = "others"


def group_label(table: NodeTable) -> str:
    """The label that says to which group a node belongs; empty when no node has one."""
    nodes = [node for node in table.nodes if node is not None]
    return next((label for label in _GROUPS if any(label in node.metadata.labels for node in nodes)), "")


def utilization(table: NodeTable, label: str) -> dict[str, GroupUse]:
    """What is requested of the nodes of each group."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, node in enumerate(table.nodes):
        if node is not None:
            rows[node.metadata.labels.get(label, _REST) if label else "all nodes"].append(row)

    def share(resource: str, places: list[int]) -> ResourceShare:
        line = table.resources[resource]
        return ResourceShare(int(table.requested[line, places].sum()), int(table.allocatable[line, places].sum()))

    return {
        group: GroupUse(
            group, len(places), sum(len(table.pods[row]) for row in places), share(CPU, places), share(MEMORY, places)
        )
        for group, places in sorted(rows.items())
    }


def changes(before: dict[str, GroupUse], after: dict[str, GroupUse]) -> list[GroupChange]:
    """All groups, before and after."""
    return [GroupChange(name, before.get(name), after.get(name)) for name in sorted(before.keys() | after.keys())]
