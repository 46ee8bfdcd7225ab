"""What plays the nodes of a snapshot: kubelets that change no node, and nodes that stay as ready as they are."""

from __future__ import annotations

import math
from datetime import datetime

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.controllers.frame.controller import Context
from moorage.controllers.hollow.kubelet import HollowNodes
from moorage.controllers.hollow.overrides import RUN_SECONDS
from moorage.controllers.hollow.podlifecycle import PodAction
from moorage.controllers.nodes.lifecycle import NodeLifecycle


class SteadyNodes(NodeLifecycle):
    """Node lifecycle where no node falls silent: nodes are as ready as their conditions say, for ever."""

    patience = first_patience = math.inf


class SnapshotKubelets(HollowNodes):
    """Starts and ends pods on every ready node. A pod that ran when the snapshot was taken goes on as it was."""

    def __init__(self, context: Context, found: set[str]) -> None:
        """`found` are the uids of the pods that ran."""
        super().__init__(context)
        self._found = found

    def next_action(self, pod: Pod, now: datetime) -> PodAction | datetime | None:
        """What to do with a pod: with one that was found running, nothing until it is deleted."""
        goes_on = pod.metadata.deletion_timestamp is None and RUN_SECONDS not in pod.metadata.annotations
        return None if goes_on and pod.metadata.uid in self._found else super().next_action(pod, now)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        assert node is not None
        name = node.metadata.name
        if new is None:
            self._node_addresses.release(("", name))
        if new is None or not _is_ready(new):
            self._up.discard(name)
        elif name not in self._up:
            self._up.add(name)
            for key in self._guests.get(name, ()):
                self.queue.add(key)


def _is_ready(node: Node) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
