"""Pods that fail again and again in the same place: each replacement waits twice as long as the one before."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from moorage.api.meta import Object
from moorage.api.pod import Pod
from moorage.client.backoff import Backoff

REJECTIONS = Backoff(first=1.0, last=60.0)
"""How long to wait after pods were rejected, by how often in a row they were: Kubernetes creates the next at once."""
_REJECTED = "Pod was rejected: "
"""What the message of a pod begins with that a kubelet has not admitted."""


def is_rejected(pod: Pod) -> bool:
    """Whether a kubelet did not take a pod, so that the next one would fare no better."""
    return pod.status.phase == "Failed" and pod.status.message.startswith(_REJECTED)


class _Failures(NamedTuple):
    """How often in a row pods have failed in a place, and when the last one was replaced."""

    in_a_row: int
    replaced: datetime


class ReplacementBackoff:
    """When pods that failed may be replaced, by the place that they have in their owner: a node, or a name."""

    def __init__(self, backoff: Backoff, now: Callable[[], datetime]) -> None:
        self._backoff, self._now = backoff, now
        self._failures: dict[tuple[str, int], dict[str, _Failures]] = {}

    def seconds_to_wait(self, owner: Object, place: str) -> float:
        """How long to wait before the pod in a place is replaced; 0 when that is done now, which counts."""
        now = self._now()
        failures = self._failures.setdefault((owner.metadata.uid, owner.metadata.generation), {})
        last = failures.get(place)
        count, passed = (last.in_a_row, (now - last.replaced).total_seconds()) if last else (0, 0.0)
        if passed > 2 * self._backoff.last:
            count = 0
        if count and (wait := self._backoff.delay(count) - passed) > 0:
            return wait
        failures[place] = _Failures(count + 1, now)
        return 0.0

    def forget(self, old: Object | None, new: Object | None) -> None:
        """An owner is gone, or specifies something else, which may not fail."""
        if old is not None and (new is None or new.metadata.generation != old.metadata.generation):
            self._failures.pop((old.metadata.uid, old.metadata.generation), None)
