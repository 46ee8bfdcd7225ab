"""Why a pod was not placed, in the words that people search for."""

from __future__ import annotations

from collections import Counter

from moorage.scheduler.profile import Placement


def message_of(nodes: int, placement: Placement, afterthought: str = "") -> str:
    """`0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint {gpu: }. preemption: …`."""
    if nodes == 0:
        return "no nodes available to schedule pods"
    message = f"0/{nodes} nodes are available:"
    if placement.rejected is not None:
        message += f" {placement.rejected.reason}."
    elif placement.refused:
        message = f"0/1 nodes are available: 1 {placement.refused[1]}."
    else:
        counts: Counter[str] = Counter()
        for rejections in placement.rejections.values():
            for rejection in rejections:
                counts[rejection.reason] += len(rejection.rows)
        message += f" {', '.join(sorted(f'{count} {reason}' for reason, count in counts.items()))}."
    return f"{message} {afterthought}" if afterthought else message
