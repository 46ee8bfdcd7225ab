"""Two scheduler configurations on the same snapshot: which pods go elsewhere, and which wait."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from moorage.api.pod import Pod, PodStatus
from moorage.controllers.frame.pods import controller_of, is_ending, is_finished
from moorage.features import Gates
from moorage.scheduler.config import Configuration
from moorage.tools.cluster import Cluster, ClusterObject
from moorage.tools.simulation.diary import Diary
from moorage.tools.simulation.faults import noticing
from moorage.tools.simulation.loading import LoadedSnapshot, load
from moorage.tools.simulation.privatecluster import PrivateCluster
from moorage.tools.simulation.result import Configured, Difference, SchedulerComparison
from moorage.tools.simulation.utilization import group_label, utilization
from moorage.tools.simulation.virtualtime import VirtualClock, played

_STAYING = ("DaemonSet", "Node")
"""The owners of pods that belong to one node."""


@dataclass(frozen=True, slots=True)
class CompareQuestion:
    """What is to be compared."""

    cluster: Cluster
    gates: Gates
    first: Configuration
    second: Configuration
    names: tuple[str, str]
    seconds: float
    anew: bool = False
    """Whether all pods are placed anew, or only those without a node."""


def compare(question: CompareQuestion) -> SchedulerComparison:
    """The answer."""
    cluster = _unbound(question.cluster) if question.anew else question.cluster
    snapshot = load(cluster, question.gates)
    with noticing() as faults:
        results = [
            played(_placed(snapshot, question, each, name))
            for each, name in zip((question.first, question.second), question.names, strict=True)
        ]
    (first, places), (second, others) = results
    differences = [
        Difference(name, places.get(name, ""), others.get(name, ""))
        for name in sorted(places.keys() | others.keys())
        if places.get(name, "") != others.get(name, "")
    ]
    return SchedulerComparison(
        pods=len(places.keys() | others.keys()),
        first=first, second=second, differences=differences,
        assumptions=[*snapshot.assumptions, *faults.notes()],
    )  # fmt: skip


async def _placed(
    snapshot: LoadedSnapshot, question: CompareQuestion, configuration: Configuration, name: str
) -> tuple[Configured, dict[str, str]]:
    """What a configuration leads to, and the nodes of the pods that it had to place."""
    cluster = PrivateCluster(snapshot, await snapshot.store(), VirtualClock(snapshot.start))
    diary = Diary(cluster)
    cluster.on_pod, cluster.on_event = diary.see_pod, diary.see_event
    try:
        await cluster.start(question.gates, configuration)
        diary.turn_page()
        await cluster.rest(question.seconds)
        effects, waiting = diary.effects(), diary.pending()
        table = cluster.scheduler.table
        places = {each.pod: each.node for each in effects.placed} | {each.pod: "" for each in waiting}
        use = utilization(table, group_label(table))
        return Configured(name, [*effects.pending, *waiting], list(use.values())), places
    finally:
        await cluster.stop()


def _unbound(cluster: Cluster) -> Cluster:
    """A cluster whose pods have no node, but for those that belong to one."""
    return replace(cluster, items=[_without_node(item) for item in cluster.items])


def _without_node(item: ClusterObject) -> ClusterObject:
    pod = item.object
    if not isinstance(pod, Pod) or not pod.spec.node_name or is_ending(pod) or is_finished(pod):
        return item
    owner = controller_of(pod)
    if owner is not None and owner.kind in _STAYING:
        return item
    spec = msgspec.structs.replace(pod.spec, node_name="")
    free = msgspec.structs.replace(pod, spec=spec, status=PodStatus(phase="Pending"))
    document = item.document
    if document is not None:
        data = document.data
        kept = {name: value for name, value in data["spec"].items() if name != "nodeName"}
        document = replace(document, data={**data, "spec": kept, "status": {"phase": "Pending"}})
    return replace(item, object=free, document=document)
