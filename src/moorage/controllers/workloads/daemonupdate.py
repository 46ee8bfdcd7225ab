"""How the pods of a DaemonSet are replaced by those of a newer template, a few at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from moorage.api.pod import Pod
from moorage.api.workload import DaemonSetSpec
from moorage.controllers.frame.pods import is_ending, ready_condition
from moorage.controllers.owners.podowner import is_available
from moorage.controllers.owners.replicas import scaled
from moorage.controllers.workloads.daemonplacement import DaemonFit

HASH, GENERATION = "controller-revision-hash", "pod-template-generation"
UpdateStep = tuple[list[Pod], list[str]]
"""Pods to delete, and nodes that need a new pod."""


def age(pod: Pod) -> tuple[bool, datetime, str]:
    """Sorts pods: those that have a node first, then the oldest."""
    created = pod.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)
    return not pod.spec.node_name, created, pod.metadata.name


@dataclass(frozen=True, slots=True)
class DaemonSetUpdate:
    """The pods of a DaemonSet at one moment, by node, and what its update strategy requires."""

    spec: DaemonSetSpec
    hash: str
    generation: str
    fits: Mapping[str, DaemonFit]
    pods: Mapping[str, list[Pod]]
    now: datetime

    def is_new(self, pod: Pod) -> bool:
        """Whether a pod was made from the newest template."""
        labels = pod.metadata.labels
        return labels.get(HASH) == self.hash or bool(self.generation and labels.get(GENERATION) == self.generation)

    @property
    def may_surge(self) -> bool:
        """Whether a node may have a new pod beside its old one."""
        return self._surge(1) > 0

    def excess(self, alive: list[Pod]) -> list[Pod]:
        """The pods of one node that are too many: all but the oldest, or but the oldest of each template."""
        if len(alive) < 2:
            return []
        alive = sorted(alive, key=age)
        if not self.may_surge:
            return alive[1:]
        new, old = [pod for pod in alive if self.is_new(pod)], [pod for pod in alive if not self.is_new(pod)]
        excess = new[1:] + old[1:]
        if new and old and (not ready_condition(old[0]) or self._is_available(new[0])):
            excess.append(old[0])
        return excess

    def next_step(self) -> UpdateStep:
        """What may be replaced now."""
        if all(self.is_new(pod) for pods in self.pods.values() for pod in pods if not is_ending(pod)):
            return [], []
        desired = sum(fit.runs for fit in self.fits.values())
        surge = self._surge(desired)
        if surge:
            return self._surging(surge, desired)
        rolling = self.spec.update_strategy.rolling_update
        return self._in_place(max(1, scaled(rolling.max_unavailable if rolling else 1, desired, up=True)))

    def _surge(self, desired: int) -> int:
        strategy = self.spec.update_strategy
        rolling = strategy.rolling_update if strategy.type == "RollingUpdate" else None
        return scaled(rolling.max_surge, desired, up=True) if rolling else 0

    def _in_place(self, max_unavailable: int) -> UpdateStep:
        """Delete old pods; what does not serve anyway first, and no more than may be missing."""
        unavailable = 0
        broken: list[Pod] = []
        candidates: list[Pod] = []
        for pods in self._each_node().values():
            new, old = self._split(pods)
            if len(new) + len(old) != 1:
                unavailable += 1
            elif new:
                unavailable += not self._is_available(new[0])
            elif self._is_available(old[0]):
                candidates.append(old[0])
            else:
                broken.append(old[0])
                unavailable += 1
        return broken + candidates[: max(0, max_unavailable - unavailable)], []

    def _surging(self, surge: int, desired: int) -> UpdateStep:
        """Make new pods beside the old ones; these go when the new ones serve."""
        surplus: list[Pod] = []
        sunset: list[Pod] = []
        at_once: list[str] = []
        candidates: list[str] = []
        surged = available = 0
        for node, pods in self._each_node().items():
            new, old = self._split(pods)
            if len(new) > 1 or len(old) > 1:
                surged += 1
                continue
            available += self._is_available((old or new)[0]) if old or new else 0
            if new and old:
                surged += not self._is_available(new[0])
                surplus += old if self._is_available(new[0]) else []
            elif old:
                serves, runs = self._is_available(old[0]), node in self.fits and self.fits[node].runs
                if runs:
                    (candidates if serves else at_once).append(node)
                else:
                    (sunset if serves else surplus).append(old[0])
        # Where no pod should run any more, the old one stays until enough others are available.
        surplus += sunset[: max(0, available - desired)]
        return surplus, at_once + candidates[: max(0, surge - surged)]

    def _each_node(self) -> dict[str, list[Pod]]:
        """The pods of each node that has or should have any."""
        empty: dict[str, list[Pod]] = {node: [] for node, fit in self.fits.items() if fit.runs}
        return empty | dict(self.pods)

    def _split(self, pods: list[Pod]) -> tuple[list[Pod], list[Pod]]:
        alive = [pod for pod in pods if not is_ending(pod)]
        return [pod for pod in alive if self.is_new(pod)], [pod for pod in alive if not self.is_new(pod)]

    def _is_available(self, pod: Pod) -> bool:
        return is_available(pod, self.spec.min_ready_seconds, self.now)
