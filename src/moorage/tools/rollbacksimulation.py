"""What turning a gate off would do to the pods that are there, played: with the gate on, and with it off."""

from __future__ import annotations

from dataclasses import dataclass

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.resource import ResourceClaim
from moorage.features import ALL_ON, Gates
from moorage.tools.cluster import ClusterObject
from moorage.tools.rollback import Rollback, RollbackFinding, RollbackStep, pod_command
from moorage.tools.simulation.result import Effects, EvictedPod, Simulation
from moorage.tools.simulation.simulate import SimulationQuestion, simulate

_SIMULATED = (RollbackStep.EVICTED, RollbackStep.PENDING)


@dataclass(frozen=True, slots=True)
class SimulatedRollback:
    """The findings about templates, volumes and claims as they are analysed, those about pods as they are played."""

    plan: Rollback

    def findings(self) -> tuple[list[RollbackFinding], Effects | None]:
        """Everything that would break, in the order of the procedure, and what happens with the gate off.

        Nothing is played when nothing uses the gate, or when there are no nodes to play it on.
        """
        analysed = self.plan.findings()
        if not analysed or not self.plan.cluster.of(Node):
            return analysed, None
        off = Gates(ALL_ON.on - {self.plan.gate})
        on, result = self._played(ALL_ON), self._played(off)
        now, then = on.after, result.after
        found = [each for each in analysed if each.step not in _SIMULATED]
        known = {(each.step, each.item.key): each for each in analysed if each.step in _SIMULATED}
        items = {item.key: item for item, _ in self.plan.cluster.of(Pod)}
        found += self._evicted(now, then, known, items, _users(found))
        found += self._pending(now, then, known, items)
        # What an API server would not take cannot be played, and some evictions come later than is waited for.
        refused, played = {each.object for each in then.refused}, {(each.step, each.item.key) for each in found}
        for place, each in known.items():
            is_later = each.step is RollbackStep.EVICTED and not result.at_rest
            if place not in played and (each.name in refused or is_later):
                found.append(each)
        order = list(RollbackStep)
        return sorted(found, key=lambda each: (order.index(each.step), each.name)), then

    def _played(self, gates: Gates) -> Simulation:
        return simulate(SimulationQuestion(self.plan.cluster, ALL_ON, running=gates))

    def _evicted(
        self, now: Effects, then: Effects, known: dict[tuple[RollbackStep, str], RollbackFinding],
        items: dict[str, ClusterObject], reported: set[str],
    ) -> list[RollbackFinding]:  # fmt: skip
        """The pods that have to leave with the gate off, and stay or leave later with the gate on."""
        before = {each.pod: each.at for each in now.evicted}
        waiting = {each.replaces: each.reason for each in then.pending if each.replaces}
        found = []
        for each in {each.pod: each for each in reversed(then.evicted)}.values():
            item = items.get(each.pod)
            if item is None or each.pod in reported or before.get(each.pod, each.at + 1) <= each.at:
                continue
            finding = known.get((RollbackStep.EVICTED, each.pod))
            reason = finding.reason if finding is not None else f"evicted after {each.at:g} seconds: {each.cause}"
            found.append(
                RollbackFinding(RollbackStep.EVICTED, item, f"{reason}{_then(each, waiting)}", pod_command(item))
            )
        return found

    def _pending(
        self, now: Effects, then: Effects, known: dict[tuple[RollbackStep, str], RollbackFinding],
        items: dict[str, ClusterObject],
    ) -> list[RollbackFinding]:  # fmt: skip
        """The pods that wait with the gate off and have a node with the gate on, or lose some of their nodes."""
        before = {each.pod for each in now.pending}
        found = []
        for each in then.pending:
            item, finding = items.get(each.pod), known.get((RollbackStep.PENDING, each.pod))
            if item is None or each.replaces:
                continue
            if finding is not None:
                found.append(finding)
            elif each.pod not in before:
                reason = f"it is pending, and without the gate it stays so: {each.reason}"
                found.append(RollbackFinding(RollbackStep.PENDING, item, reason, pod_command(item)))
        return found


def _users(findings: list[RollbackFinding]) -> set[str]:
    """The pods that findings about claims speak of already."""
    claims = [each.item.object for each in findings if isinstance(each.item.object, ResourceClaim)]
    return {
        f"{each.metadata.namespace or 'default'}/{user.name}" for each in claims for user in each.status.reserved_for
    }


def _then(evicted: EvictedPod, waiting: dict[str, str]) -> str:
    """What becomes of a pod that is evicted."""
    if evicted.pod in waiting:
        return "; its replacement stays pending"
    return f"; {evicted.replaced_by} replaces it" if evicted.replaced_by else "; nothing replaces it"
