"""Why a pod was not placed: the message of the event and of the condition, in Kubernetes' words."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from moorage.api.pod import Pod
from moorage.client.clock import timestamp
from moorage.scheduler.cycle import Placement


def message_of(nodes: int, placement: Placement, afterthought: str = "", why: str = "") -> str:
    """`0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s). preemption: … Why: …`."""
    if nodes == 0:
        return "no nodes available to schedule pods"
    message = f"0/{nodes} nodes are available:"
    if placement.rejected is not None:
        message += f" {placement.rejected.reason}."
    elif placement.not_reserved:
        message = f"0/1 nodes are available: 1 {placement.not_reserved[1]}."
    else:
        counts: Counter[str] = Counter()
        for rejections in placement.rejections.values():
            for rejection in rejections:
                counts[rejection.reason] += len(rejection.rows)
        message += f" {', '.join(sorted(f'{count} {reason}' for reason, count in counts.items()))}."
    message = f"{message} {afterthought}" if afterthought else message
    return f"{message} Why: {why}." if why else message


def unschedulable_status(pod: Pod, message: str, nominated: str, now: datetime) -> dict[str, Any]:
    """What must change in the status of a pod that was not placed; empty when it says all that already."""
    status: dict[str, Any] = {}
    old = next((condition for condition in pod.status.conditions if condition.type == "PodScheduled"), None)
    if old is None or (old.status, old.reason, old.message) != ("False", "Unschedulable", message):
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        if old is None or old.status != "False":
            condition["lastTransitionTime"] = timestamp(now)
        status["conditions"] = [condition]
    if nominated != pod.status.nominated_node_name:
        status["nominatedNodeName"] = nominated or None
    return status
