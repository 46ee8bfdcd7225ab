"""Nominated pods: each keeps room on one node, which pods of lower priority may not take, until it is placed."""

from __future__ import annotations

from collections.abc import Callable

from moorage.scheduler.table.shape import PodInfo


class Nominations:
    """The nominated pods. A pod is nominated to one node at most."""

    __slots__ = ("_node_of", "by_node", "on_release", "version")

    def __init__(self) -> None:
        self.by_node: dict[str, dict[str, PodInfo]] = {}
        """The pods that are nominated to a node, by uid. A node without any has no entry."""
        self._node_of: dict[str, str] = {}
        self.version = 0
        """How often a nomination has changed."""
        self.on_release: Callable[[str], None] = lambda _: None
        """Called with the name of a node when a pod is no longer nominated to it."""

    def nominate(self, info: PodInfo, node: str) -> None:
        """Nominate a pod to a node, and to no other any more."""
        if self._node_of.get(info.uid, node) != node:
            self.release(info.uid)
        self.version += 1
        self._node_of[info.uid] = node
        self.by_node.setdefault(node, {})[info.uid] = info

    def release(self, uid: str) -> None:
        """End the nomination of a pod, if it has one."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return
        self.version += 1
        pods = self.by_node[node]
        del pods[uid]
        self.on_release(node)
        if not pods:
            del self.by_node[node]

    def node_of(self, uid: str) -> str:
        """The node that a pod is nominated to, or an empty string."""
        return self._node_of.get(uid, "")
