"""Preemption by a kubelet: the pods that it ends when a critical pod lacks resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moorage.api.pod import Pod
from moorage.api.requests import CPU, MEMORY, PODS, Amounts
from moorage.api.wellknown import CRITICAL_PRIORITY

_QUALITIES = ("BestEffort", "Burstable", "Guaranteed")


class Guest(NamedTuple):
    """A pod of a node, and what it takes."""

    pod: Pod
    amounts: Amounts

    def takes(self, resource: str) -> int:
        """How much of a resource would be free without it."""
        return 1 if resource == PODS else self.amounts.get(resource, 0)


class NoRoom(Exception):
    """A critical pod does not fit even if all pods that may be preempted are."""


def is_critical(pod: Pod) -> bool:
    """Whether a pod is critical to the system."""
    return (pod.spec.priority or 0) >= CRITICAL_PRIORITY


def victims(critical: Pod, guests: Iterable[Guest], missing: Mapping[str, int]) -> list[Guest]:
    """Pods that take as much as is missing: as few as may be, and of the quality of service that is lowest."""
    lower = [each for each in guests if _may_preempt(critical, each.pod)]
    if left := _left(missing, lower):
        short = "".join(f"(res: {resource}, q: {quantity}), " for resource, quantity in left.items())
        raise NoRoom(f"no set of running pods found to reclaim resources: [{short}]")
    best_effort, burstable, guaranteed = (
        [each for each in lower if each.pod.status.qos_class == quality] for quality in _QUALITIES
    )
    last = _nearest(guaranteed, _left(missing, best_effort + burstable))
    second = _nearest(burstable, _left(missing, best_effort + last))
    first = _nearest(best_effort, _left(missing, second + last))
    return first + second + last


def _may_preempt(critical: Pod, other: Pod) -> bool:
    return not is_critical(other) or (critical.spec.priority or 0) > (other.spec.priority or 0)


def _left(missing: Mapping[str, int], guests: Iterable[Guest]) -> dict[str, int]:
    """What would still be missing without some pods."""
    freed = list(guests)
    left = {name: quantity - sum(each.takes(name) for each in freed) for name, quantity in missing.items()}
    return {name: quantity for name, quantity in left.items() if quantity > 0}


def _nearest(guests: list[Guest], missing: Mapping[str, int]) -> list[Guest]:
    """Pods that together take what is missing, each time the one that comes nearest to it, the smaller of equals."""
    chosen: list[Guest] = []
    left = dict(missing)
    while left:
        others = [each for each in guests if each not in chosen]
        best = min(others, key=lambda each: (_distance(each, left), each.takes(MEMORY), each.takes(CPU)))
        chosen.append(best)
        left = _left(left, [best])
    return chosen


def _distance(guest: Guest, missing: Mapping[str, int]) -> float:
    return sum((max(0, quantity - guest.takes(resource)) / quantity) ** 2 for resource, quantity in missing.items())
