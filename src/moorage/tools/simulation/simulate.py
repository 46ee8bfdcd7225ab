"""Runs a simulation from a snapshot to its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from moorage.features import Gates
from moorage.scheduler.config import Configuration
from moorage.tools.cluster import Cluster
from moorage.tools.simulation.changes import ClusterChange, World
from moorage.tools.simulation.diary import Diary
from moorage.tools.simulation.faults import noticing
from moorage.tools.simulation.loading import LoadedSnapshot, load
from moorage.tools.simulation.privatecluster import PrivateCluster
from moorage.tools.simulation.result import NotCreated, PendingPod, Simulation
from moorage.tools.simulation.utilization import changes as group_changes
from moorage.tools.simulation.utilization import group_label, utilization
from moorage.tools.simulation.virtualtime import VirtualClock, played

LONGEST = 15 * 60.0
"""Simulated seconds after which a simulation ends though something would still happen."""


@dataclass(frozen=True, slots=True)
class SimulationQuestion:
    """What is to be simulated."""

    cluster: Cluster
    gates: Gates
    changes: Sequence[ClusterChange] = ()
    configuration: Configuration = field(default_factory=Configuration)
    seconds: float = LONGEST
    assumptions: Sequence[str] = ()
    running: Gates | None = None
    """The gates that the components have from the beginning, when they are not those with which objects were stored."""


def simulate(question: SimulationQuestion) -> Simulation:
    """The answer. Raises CannotChange when a change cannot be made."""
    with noticing() as faults:
        result = played(_simulated(question, load(question.cluster, question.gates)))
    result.assumptions.extend(faults.notes())
    return result


async def _simulated(question: SimulationQuestion, snapshot: LoadedSnapshot) -> Simulation:
    clock = VirtualClock(snapshot.start)
    cluster = PrivateCluster(snapshot, await snapshot.store(), clock)
    diary = Diary(cluster)
    cluster.on_pod, cluster.on_event = diary.see_pod, diary.see_event
    try:
        gates = question.gates if question.running is None else question.running
        await cluster.start(gates, question.configuration)
        diary.turn_page()
        is_resting = await cluster.rest(question.seconds)
        table = cluster.scheduler.table
        label = group_label(table)
        use_before = utilization(table, label)
        before, still, timeline = diary.effects(), list[PendingPod](), list(diary.timeline)
        before.pending.extend(diary.pending())
        before.refused.extend(NotCreated(name, why) for name, why in snapshot.refused)
        after, seconds = before, clock.monotonic()
        if question.changes:
            diary.turn_page()
            begun = clock.monotonic()
            world = World(cluster, diary, question.configuration, begun + question.seconds)
            for change in question.changes:
                diary.say(f"$ {change.command}")
                await change.make(world)
            is_resting = await cluster.rest(world.until)
            seconds = clock.monotonic() - begun
            after, still, timeline = diary.effects(), diary.pending(), list(diary.timeline)
        table = cluster.scheduler.table
        return Simulation(
            changes=[change.command for change in question.changes],
            before=before, after=after, still_pending=still,
            utilization=group_changes(use_before, utilization(table, label)),
            seconds=round(seconds, 3), at_rest=is_resting,
            nodes=table.count, pods=len(cluster.pods),
            assumptions=[*question.assumptions, *snapshot.assumptions, *map(_strange, cluster.strange)],
            timeline=timeline,
        )  # fmt: skip
    finally:
        await cluster.stop()


def _strange(scheduler: str) -> str:
    return (
        f"the pods of the scheduler {scheduler} are placed as by Kubernetes' default profile, or the first of --config"
    )
