"""Hollow nodes: a kubelet without containers, one for all nodes of a cluster that have no real one."""

from moorage.controllers.hollow.kubelet import HollowNodes
from moorage.controllers.hollow.nodestatus import ensure_nodes

__all__ = ["HollowNodes", "ensure_nodes"]
