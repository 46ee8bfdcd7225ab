"""Pods on nodes: the index by node, when a pod was bound, and conditions that node controllers set."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.client import Client, Informer
from moorage.client.client import STRATEGIC
from moorage.client.clock import timestamp
from moorage.controllers.frame.pods import POD, condition_of

NODE = "node"
"""The index of pods by the node that they are on."""
LONG_AGO = datetime.min.replace(tzinfo=UTC)
"""Before anything that happened to a pod."""


def index_by_node(pods: Informer[Pod]) -> None:
    """Keep pods by the node that they are on."""
    pods.index(NODE, lambda pod: [pod.spec.node_name] if pod.spec.node_name else ())


def bound_at(pod: Pod) -> datetime:
    """When a pod was bound to its node."""
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled is not None and scheduled.status == "True" and scheduled.last_transition_time is not None:
        return scheduled.last_transition_time
    return pod.metadata.creation_timestamp or LONG_AGO


async def set_condition(client: Client, pod: Pod, now: datetime, condition: Data, **status: Any) -> None:
    """Set a condition of exactly this pod, with other fields of its status, unless it is set already."""
    old = condition_of(pod, condition["type"])
    if old is not None and not status and all(getattr(old, name, value) == value for name, value in condition.items()):
        return
    changed: Data = (
        {} if old is not None and old.status == condition["status"] else {"lastTransitionTime": timestamp(now)}
    )
    if pod.metadata.generation:
        changed["observedGeneration"] = pod.metadata.generation
    patch = {"metadata": {"uid": pod.metadata.uid}, "status": {**status, "conditions": [{**condition, **changed}]}}
    metadata = pod.metadata
    await client.patch(POD, metadata.namespace, metadata.name, patch, subresource="status", form=STRATEGIC)
