"""DefaultPreemption: removes pods of lower priority where that does least harm, as few as necessary."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import numpy as np

from moorage.api import kinds
from moorage.api.decode import convert
from moorage.api.labels import from_struct
from moorage.api.meta import Object, Wire
from moorage.api.pod import Pod, PodDisruptionBudget
from moorage.client import ApiError, Missing
from moorage.client.client import STRATEGIC
from moorage.client.clock import timestamp
from moorage.client.events import NORMAL
from moorage.scheduler.framework import Cycle, Handle, Nomination, Plugin, Rejection
from moorage.scheduler.table.shape import PodInfo

_POD = kinds.row("v1", "Pod")
_BY_SCHEDULER = "PreemptionByScheduler"
_FAR = datetime.max.replace(tzinfo=UTC)
_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_NO_VICTIMS = "No preemption victims found for incoming pod"


class PreemptionCandidate(NamedTuple):
    """A node, and the pods that would have to leave it, the most important first."""

    node: str
    victims: list[PodInfo]
    violations: int
    """How many disruption budgets that would break."""

    @property
    def rank(self) -> tuple[float, ...]:
        """What candidates are compared by: smaller is better."""
        priorities = [victim.priority for victim in self.victims]
        highest = max(priorities)
        starts = [_start(victim) for victim in self.victims if victim.priority == highest]
        total = sum(priority + 2**31 for priority in priorities)
        return self.violations, highest, total, len(priorities), -min(starts).timestamp()


class PreemptionArgs(Wire):
    """The arguments of DefaultPreemption: how many nodes are considered, at least, before the best is chosen."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class DefaultPreemption(Plugin):
    """Compares candidates as kube-scheduler does: budgets, priorities, number of victims, start times."""

    name = "DefaultPreemption"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        preemption = convert(args, PreemptionArgs)
        self._share, self._least = preemption.min_candidate_nodes_percentage, preemption.min_candidate_nodes_absolute
        if not 0 <= self._share <= 100 or self._least < 0 or not self._share + self._least:
            raise ValueError("minCandidateNodesPercentage must be from 0 to 100, minCandidateNodesAbsolute not below 0")
        self._budgets = handle.informers.of(PodDisruptionBudget)
        self._pods = handle.informers.of(Pod)
        self._removing: set[str] = set()
        """The pods for which others are being removed right now."""

    def post_filter(self, cycle: Cycle, rejections: Mapping[str, list[Rejection]]) -> Nomination:
        """The node to nominate the pod to, and the pods to remove from it."""
        best = self.choose(cycle, rejections)
        if isinstance(best, Nomination):
            return best
        self._removing.add(cycle.pod.uid)
        return Nomination(best.node, act=lambda: self._remove(cycle, best))

    def choose(self, cycle: Cycle, rejections: Mapping[str, list[Rejection]]) -> PreemptionCandidate | Nomination:
        """The node where room is made with the least harm, or that there is none."""
        if why := self._not_eligible(cycle, rejections):
            return Nomination(message=f"preemption: {why}")
        rows = _resolvable(rejections)
        candidates, tried = self.candidates(cycle, rows)
        if not candidates:
            nodes = self.handle.table.count
            counts = dict(tried)
            if nodes > sum(counts.values()):
                counts[_NOT_HELPFUL] = nodes - sum(counts.values())
            reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
            return Nomination(message=f"preemption: 0/{nodes} nodes are available: {reasons}.", hopeless=True)
        return min(candidates, key=lambda candidate: candidate.rank)

    def _not_eligible(self, cycle: Cycle, rejections: Mapping[str, list[Rejection]]) -> str:
        pod = cycle.pod.pod
        if pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        if cycle.pod.uid in self._removing:
            return "waiting for the preemption for this pod to be finished"
        row = self.handle.table.rows.get(self.handle.nominations.node_of(cycle.pod.uid))
        if row is None or row not in _resolvable(rejections):
            return ""
        leaving = any(
            info.priority < cycle.pod.priority and _is_leaving(info.pod)
            for info in self.handle.table.pods[row].values()
        )
        return "not eligible due to a terminating pod on the nominated node." if leaving else ""

    def candidates(self, cycle: Cycle, rows: list[int]) -> tuple[list[PreemptionCandidate], dict[str, int]]:
        """Some nodes where room can be made, beginning anywhere; and why not on the others that were tried."""
        enough = min(len(rows), max(len(rows) * self._share // 100, self._least))
        begin = self.handle.random.randrange(len(rows)) if rows else 0
        candidates: list[PreemptionCandidate] = []
        tried: dict[str, int] = {}
        for row in (*rows[begin:], *rows[:begin]):
            if len(candidates) >= enough and any(not candidate.violations for candidate in candidates):
                break
            candidate = self._victims(cycle, row)
            if isinstance(candidate, str):
                tried[candidate] = tried.get(candidate, 0) + 1
            else:
                candidates.append(candidate)
        return candidates, tried

    def _victims(self, cycle: Cycle, row: int) -> PreemptionCandidate | str:
        """Remove all pods of lower priority, then bring back as many as possible, the most important first."""
        lower = [info for info in self.handle.table.pods[row].values() if info.priority < cycle.pod.priority]
        if not lower:
            return _NO_VICTIMS
        lower.sort(key=_importance)
        node = lower[0].node_name
        with self._without(lower) as removed:
            if not cycle.fitting.fits(cycle, row):
                return self._why_not(cycle, row)
            violating, others = self._by_budget(lower)
            violations = 0
            for info in (*violating, *others):
                removed.give_back(info)
                if not cycle.fitting.fits(cycle, row):
                    removed.take(info)
                    violations += info in violating
            victims = sorted(removed.taken, key=_importance)
        return PreemptionCandidate(node, victims, violations) if victims else _NO_VICTIMS

    def _why_not(self, cycle: Cycle, row: int) -> str:
        """Why the pod does not fit even without the pods of lower priority."""
        reasons = [
            rejection.reason for rejections in cycle.fitting.diagnose(cycle, row).values() for rejection in rejections
        ]
        return reasons[0] if reasons else _NO_VICTIMS

    @contextmanager
    def _without(self, pods: list[PodInfo]) -> Iterator[_Removed]:
        removed = _Removed(self.handle)
        try:
            for info in pods:
                removed.take(info)
            yield removed
        finally:
            for info in list(removed.taken):
                removed.give_back(info)

    def _by_budget(self, pods: list[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """The pods whose removal would break a disruption budget, and the others."""
        allowed = {budget.metadata.uid: budget.status.disruptions_allowed for budget in self._budgets}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for info in pods:
            broken = False
            for budget in self._budgets_of(info.pod):
                allowed[budget.metadata.uid] -= 1
                broken = broken or allowed[budget.metadata.uid] < 0
            (violating if broken else others).append(info)
        return violating, others

    def _budgets_of(self, pod: Pod) -> list[PodDisruptionBudget]:
        labels = pod.metadata.labels
        if not labels:
            return []
        return [
            budget
            for budget in self._budgets
            if budget.metadata.namespace == pod.metadata.namespace
            and budget.spec.selector is not None
            and (budget.spec.selector.match_labels or budget.spec.selector.match_expressions)
            and pod.metadata.name not in budget.status.disrupted_pods
            and from_struct(budget.spec.selector).matches(labels)
        ]

    async def _remove(self, cycle: Cycle, candidate: PreemptionCandidate) -> None:
        """Delete the victims, and end the nominations of pods of lower priority to the node."""
        try:
            for info in list(self.handle.nominations.by_node.get(candidate.node, {}).values()):
                if info.priority < cycle.pod.priority:
                    await self._release(info)
            await asyncio.gather(*(self._delete(cycle, victim) for victim in candidate.victims))
        finally:
            self._removing.discard(cycle.pod.uid)

    async def _release(self, info: PodInfo) -> None:
        self.handle.nominations.release(info.uid)
        patch = {"status": {"nominatedNodeName": None}}
        try:
            await self.handle.client.patch(_POD, *info.key, patch, subresource="status")
        except Missing:
            return

    async def _delete(self, cycle: Cycle, victim: PodInfo) -> None:
        scheduler = cycle.pod.pod.spec.scheduler_name or cycle.fitting.name
        condition = {
            "type": "DisruptionTarget", "status": "True", "reason": _BY_SCHEDULER,
            "message": f"{scheduler}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": timestamp(self.handle.clock.now()),
        }  # fmt: skip
        if victim.pod.metadata.deletion_timestamp is not None:
            return
        try:
            status = {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
            await self.handle.client.patch(_POD, *victim.key, status, subresource="status", form=STRATEGIC)
            gone = await self.handle.client.delete(_POD, *victim.key, uid=victim.uid)
        except Missing:
            return
        except ApiError:
            self.handle.recorder.event(cycle.pod.pod, "Warning", "FailedPreemption", f"{victim.key} was not deleted")
            raise
        message = f"Preempted by pod {cycle.pod.uid} on node {victim.node_name}"
        self.handle.recorder.event(victim.pod, NORMAL, "Preempted", message, "Preempting")
        # Until the informer has seen it, the next attempt would choose another victim.
        await self._pods.caught_up(msgspec.json.decode(gone, type=Object).metadata.resource_version)


class _Removed:
    """Pods that are taken out of the table for a what-if question."""

    def __init__(self, handle: Handle) -> None:
        self._table = handle.table
        self.taken: list[PodInfo] = []

    def take(self, info: PodInfo) -> None:
        """Take a pod out of the table."""
        self._table.remove_pod(info)
        self.taken.append(info)

    def give_back(self, info: PodInfo) -> None:
        """Put it back."""
        self.taken.remove(info)
        self._table.add_pod(info)


def _resolvable(rejections: Mapping[str, list[Rejection]]) -> list[int]:
    """The rows where the removal of pods could help: all reasons must be of that sort."""
    could: set[int] = set()
    never: set[int] = set()
    for of_plugin in rejections.values():
        for rejection in of_plugin:
            (could if rejection.resolvable else never).update(np.asarray(rejection.rows).tolist())
    return sorted(could - never)


def _importance(info: PodInfo) -> tuple[int, datetime]:
    """The most important first: by priority, then by how long it has run."""
    return -info.priority, _start(info)


def _start(info: PodInfo) -> datetime:
    return info.pod.status.start_time or _FAR


def _is_leaving(pod: Pod) -> bool:
    if pod.metadata.deletion_timestamp is None:
        return False
    return any(
        condition.type == "DisruptionTarget" and condition.reason == _BY_SCHEDULER
        for condition in pod.status.conditions
    )
