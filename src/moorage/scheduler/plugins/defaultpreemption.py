"""DefaultPreemption: removes pods of lower priority where that does least harm, as few as necessary."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from moorage.api import kinds
from moorage.api.decode import convert
from moorage.api.meta import Object, Wire
from moorage.api.pod import Pod
from moorage.client import ApiError, Missing
from moorage.client.client import STRATEGIC
from moorage.client.clock import timestamp
from moorage.client.events import NORMAL
from moorage.scheduler.framework import Cycle, Handle, Nomination, Plugin, Rejection
from moorage.scheduler.pods.victims import PreemptionCandidate
from moorage.scheduler.pods.victimsearch import VictimSearches
from moorage.scheduler.table.nodes import Index
from moorage.scheduler.table.shape import PodInfo

_POD = kinds.row("v1", "Pod")
_BY_SCHEDULER = "PreemptionByScheduler"
_NOT_HELPFUL = "Preemption is not helpful for scheduling"


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
        self._searches = VictimSearches(handle, self._share, self._least)
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
        candidates, tried = self.candidates(cycle, self._resolvable(rejections))
        if not candidates:
            nodes = self.handle.table.count
            counts = dict(tried)
            if nodes > sum(counts.values()):
                counts[_NOT_HELPFUL] = nodes - sum(counts.values())
            reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
            return Nomination(message=f"preemption: 0/{nodes} nodes are available: {reasons}.", hopeless=True)
        return min(candidates, key=lambda candidate: candidate.rank)

    def _resolvable(self, rejections: Mapping[str, list[Rejection]]) -> Index:
        """The rows where the removal of pods could help: all reasons must be of that sort."""
        could, never = np.zeros(self.handle.table.size, np.bool_), np.zeros(self.handle.table.size, np.bool_)
        for of_plugin in rejections.values():
            for rejection in of_plugin:
                (could if rejection.resolvable else never)[rejection.rows] = True
        return (could & ~never).nonzero()[0]

    def _not_eligible(self, cycle: Cycle, rejections: Mapping[str, list[Rejection]]) -> str:
        pod = cycle.pod.pod
        if pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        if cycle.pod.uid in self._removing:
            return "waiting for the preemption for this pod to be finished"
        row = self.handle.table.rows.get(self.handle.nominations.node_of(cycle.pod.uid))
        if row is None or not (self._resolvable(rejections) == row).any():
            return ""
        leaving = any(
            info.priority < cycle.pod.priority and _is_leaving(info.pod)
            for info in self.handle.table.pods[row].values()
        )
        return "not eligible due to a terminating pod on the nominated node." if leaving else ""

    def search(self, cycle: Cycle, rejections: Mapping[str, list[Rejection]]) -> Iterator[None]:
        """Look for victims on some nodes at a time."""
        if not self._not_eligible(cycle, rejections):
            yield from self._searches.steps(cycle, self._resolvable(rejections))

    def candidates(self, cycle: Cycle, rows: Index) -> tuple[list[PreemptionCandidate], dict[str, int]]:
        """Some nodes where room can be made, beginning anywhere; and why not on the others that were tried."""
        return self._searches.of(cycle).finish(rows)

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


def _is_leaving(pod: Pod) -> bool:
    if pod.metadata.deletion_timestamp is None:
        return False
    return any(
        condition.type == "DisruptionTarget" and condition.reason == _BY_SCHEDULER
        for condition in pod.status.conditions
    )
