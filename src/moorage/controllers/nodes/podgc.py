"""Pod garbage collection: pods of nodes that are gone, pods that were never bound, and too many that have ended."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

from prometheus_client import Counter

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.wellknown import TAINT_OUT_OF_SERVICE
from moorage.client import ApiError, Missing
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Context, Controller
from moorage.controllers.frame.pods import DISRUPTION_TARGET, POD, is_finished
from moorage.controllers.nodes.nodepods import NODE, index_by_node, set_condition

_QUARANTINE, _PERIOD = 40.0, 20.0
"""Seconds for which a node may be gone, and after which surplus pods that ended are collected together."""
_ENDED_KEPT = 12_500
_AT_ONCE = 16
_SURPLUS = "", ""
_NODE = kinds.row("v1", "Node")
_NEVER = datetime.min.replace(tzinfo=UTC)
_NODE_GONE = {
    "type": DISRUPTION_TARGET, "status": "True", "reason": "DeletionByPodGC",
    "message": "PodGC: node no longer exists",
}  # fmt: skip


class PodGC(Controller):
    """Deletes pods by force when there is no kubelet to end them, or when too many have ended.

    Keys are pods, nodes that may be gone (without a namespace), and one for all pods that have ended.
    """

    name = "pod-garbage-collector-controller"

    def __init__(self, context: Context, ended_kept: int = _ENDED_KEPT) -> None:
        super().__init__(context)
        self._nodes = context.informers.of(Node)
        self._pods = context.informers.of(Pod)
        self._ended_kept = ended_kept
        self._ended: set[Key] = set()
        self._deletions = Counter(
            "pod_gc_collector_force_delete_pods", "Pods that were deleted by force.", ["namespace", "reason"],
            registry=context.registry,
        )  # fmt: skip
        self._errors = Counter(
            "pod_gc_collector_force_delete_pod_errors", "Pods that could not be deleted by force.",
            ["namespace", "reason"], registry=context.registry,
        )  # fmt: skip
        index_by_node(self._pods)
        self._pods.on_change(self._pod_changed)
        self._nodes.on_change(self._node_changed)

    async def reconcile(self, key: Key) -> None:
        """Collect the pods of a node that is gone, or a pod that no kubelet will end."""
        namespace, name = key
        if key == _SURPLUS:
            await self._collect_surplus()
        elif not namespace:
            await self._collect_orphans(name)
        elif (pod := self._pods.get(namespace, name)) and (reason := self._stranded(pod)):
            await self._collect(pod, reason)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        key = pod.metadata.namespace, pod.metadata.name
        if new is None or not is_finished(new):
            self._ended.discard(key)
        else:
            self._ended.add(key)
            if len(self._ended) > self._ended_kept:
                self.queue.add_after(_SURPLUS, _PERIOD)
        if new is None:
            return
        if self._stranded(new):
            self.queue.add(key)
        node = new.spec.node_name
        if node and (old is None or old.spec.node_name != node) and self._nodes.get("", node) is None:
            self.queue.add_after(("", node), _QUARANTINE)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self.queue.add_after(("", old.metadata.name), _QUARANTINE)
            return
        if old is None:
            self.queue.cancel(("", new.metadata.name))
        if _is_out_of_service(new) and not (old and _is_out_of_service(old)):
            for pod in self._pods.by(NODE, new.metadata.name):
                if self._stranded(pod):
                    self.enqueue(pod)

    def _stranded(self, pod: Pod) -> str:
        """Why nobody would end a pod that is being deleted; empty when somebody would, or when all was done already."""
        metadata = pod.metadata
        if metadata.deletion_timestamp is None:
            return ""
        if is_finished(pod) and not metadata.deletion_grace_period_seconds:
            return ""
        if not pod.spec.node_name:
            return "unscheduled"
        node = self._nodes.get("", pod.spec.node_name)
        return "out-of-service" if node is not None and _is_out_of_service(node) else ""

    async def _collect_orphans(self, node: str) -> None:
        orphans = list(self._pods.by(NODE, node))
        if not orphans or self._nodes.get("", node) is not None:
            return
        try:
            await self.client.get(_NODE, "", node)
        except Missing:
            await self._collect_all(orphans, "orphaned", _NODE_GONE)

    async def _collect_surplus(self) -> None:
        """Collect the oldest of the pods that ended, those that a kubelet evicted first."""
        ended = [pod for key in self._ended if (pod := self._pods.get(*key))]
        ended.sort(key=lambda pod: (pod.status.reason != "Evicted", _created(pod), pod.metadata.name))
        await self._collect_all(ended[: max(0, len(ended) - self._ended_kept)], "terminated")

    async def _collect_all(self, pods: list[Pod], reason: str, condition: Data | None = None) -> None:
        errors: list[ApiError] = []
        for start in range(0, len(pods), _AT_ONCE):
            batch = (self._try_to_collect(pod, reason, condition) for pod in pods[start : start + _AT_ONCE])
            errors += [each for each in await asyncio.gather(*batch) if each is not None]
        if errors:
            raise errors[0]

    async def _try_to_collect(self, pod: Pod, reason: str, condition: Data | None) -> ApiError | None:
        try:
            await self._collect(pod, reason, condition)
        except ApiError as error:
            return error
        return None

    async def _collect(self, pod: Pod, reason: str, condition: Data | None = None) -> None:
        metadata = pod.metadata
        try:
            with suppress(Missing):
                await self._mark_failed(pod, condition)
                await self.client.delete(POD, metadata.namespace, metadata.name, uid=metadata.uid, grace=0)
        except ApiError:
            self._errors.labels(metadata.namespace, reason).inc()
            raise
        self._deletions.labels(metadata.namespace, reason).inc()

    async def _mark_failed(self, pod: Pod, condition: Data | None) -> None:
        """Set a pod to Failed: there is no kubelet to do it, and its owner waits for it."""
        if is_finished(pod):
            return
        if condition is not None:
            await set_condition(self.client, pod, self.clock.now(), condition, phase="Failed")
            return
        metadata = pod.metadata
        patch = {"metadata": {"uid": metadata.uid}, "status": {"phase": "Failed"}}
        await self.client.patch(POD, metadata.namespace, metadata.name, patch, subresource="status")


def _created(pod: Pod) -> datetime:
    return pod.metadata.creation_timestamp or _NEVER


def _is_out_of_service(node: Node) -> bool:
    """Whether a node which is not ready has the out-of-service taint."""
    ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
    return not ready and any(each.key == TAINT_OUT_OF_SERVICE for each in node.spec.taints)
