"""How many more pods fit: they are placed one after the other, as the scheduler would, until one does not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.features import Gates
from moorage.scheduler.asking import Asking, Placed
from moorage.scheduler.config import Configuration
from moorage.scheduler.table.nodes import HOSTNAME, Index
from moorage.tools.cluster import Cluster, ClusterObject
from moorage.tools.remedy import like
from moorage.tools.settled import AskedPod, Settled

MOST = 1_000_000
"""After so many pods nobody counts any further."""


class WantedPods(NamedTuple):
    """A pod or template, and how many of its pods belong to each set."""

    item: ClusterObject
    share: int = 1


class Shortage(NamedTuple):
    """What keeps the next pod from nodes that took pods like it before."""

    subject: str
    example: str
    nodes: int


class Growth(NamedTuple):
    """How many nodes like one that there is are needed beside the others."""

    like: str
    nodes: int


@dataclass(slots=True)
class CapacityAnswer:
    """How many more pods fit, where, and what runs out."""

    sets: int = 0
    """How many whole sets of pods fit: of one pod, simply how many."""
    is_bounded: bool = True
    """Whether no more fit; otherwise nobody counted any further."""
    where: dict[str, Counter[str]] = field(default_factory=dict)
    """How many pods of each item go to a node, by the name of the node."""
    stops_at: str = ""
    """The item whose pod does not fit any more."""
    open_nodes: int = 0
    """How many nodes that pod could go to in the beginning."""
    shortages: list[Shortage] = field(default_factory=list)
    """Why it can go there no more, what keeps it from most nodes first."""
    rejected: str = ""
    """Why it is refused whatever the node."""
    growth: list[Growth] = field(default_factory=list)
    """Ways to have room for as many sets as are wanted, the fewest nodes first."""


class Capacity:
    """Fills a cluster in thought."""

    def __init__(
        self, cluster: Cluster, gates: Gates, wanted: Sequence[WantedPods], configuration: Configuration | None = None
    ) -> None:
        self._settled = Settled(cluster, gates, assume_room=False)
        self._wanted = [(self._settled.asked(item), share) for item, share in wanted]
        self._asking = Asking(gates, configuration or Configuration(), self._settled.objects())
        self._number = 0
        self.notes = self._settled.notes
        """What had to be assumed about the cluster."""

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return self._asking.table.count

    def refusals(self) -> list[str]:
        """Why the API server would not take the pods."""
        return [refusal for asked, _ in self._wanted for refusal in asked.refusals]

    def fill(self, growth: int = 0) -> CapacityAnswer:
        """Place sets of pods until one does not fit, and see how many nodes more sets would need."""
        answer = CapacityAnswer()
        open_rows = {id(asked): self._asking.feasible(self._another(asked)) for asked, _ in self._wanted}
        while answer.sets * len(self._wanted) < MOST:
            placed, failed = self._place_set()
            if failed is not None:
                answer.stops_at = failed.item.name
                self._explain(answer, failed, open_rows[id(failed)])
                for _, there in reversed(placed):
                    self._asking.take_back(there)
                break
            answer.sets += 1
            for asked, there in placed:
                answer.where.setdefault(there.node, Counter())[asked.item.name] += 1
        else:
            answer.is_bounded = False
        if growth > answer.sets:
            answer.growth = self._grow(growth - answer.sets)
        return answer

    def _place_set(self) -> tuple[list[tuple[AskedPod, Placed]], AskedPod | None]:
        """Place one set of pods; the first that does not fit ends it."""
        placed: list[tuple[AskedPod, Placed]] = []
        for asked, share in self._wanted:
            for _ in range(share):
                found = self._place(asked)
                if found is None:
                    return placed, asked
                placed.append((asked, found))
        return placed, None

    def _place(self, asked: AskedPod) -> Placed | None:
        return self._asking.place(self._another(asked))

    def _another(self, asked: AskedPod) -> Pod:
        """One more pod, with claims of its own."""
        self._number += 1
        pod, claims = self._settled.another(asked, self._number)
        self._asking.fill(claims)
        return pod

    def _explain(self, answer: CapacityAnswer, failed: AskedPod, rows: Index) -> None:
        """What keeps the pod from the nodes that were open to it in the beginning."""
        inquiry = self._asking.ask(self._another(failed), preempt=False)
        answer.open_nodes = len(rows)
        answer.rejected = inquiry.held_back or next((reason for _, reason in inquiry.rejected), "")
        nodes: Counter[tuple[str, object]] = Counter()
        examples: dict[tuple[str, object], tuple[str, str]] = {}
        for plugin, told in inquiry.refusals:
            number = int(np.isin(told.rows, rows).sum())
            if number:
                nodes[plugin, told.kind] += number
                examples.setdefault((plugin, told.kind), (told.subject, told.reason))
        answer.shortages = [Shortage(*examples[kind], number) for kind, number in nodes.most_common()]

    def _grow(self, missing: int) -> list[Growth]:
        """For each sort of node how many more there must be for so many more sets."""
        found = [Growth(node.metadata.name, number) for node in self._sorts() if (number := self._with(node, missing))]
        return sorted(found, key=lambda growth: growth.nodes)

    def _sorts(self) -> list[Node]:
        """One node of each sort: those that agree in labels, taints and what they can hold."""
        sorts: dict[object, Node] = {}
        for node in self._asking.nodes:
            labels = tuple(sorted((key, value) for key, value in node.metadata.labels.items() if key != HOSTNAME))
            sorts.setdefault((labels, node.spec.taints, tuple(sorted(node.status.allocatable.items()))), node)
        return list(sorts.values())

    def _with(self, sort: Node, missing: int) -> int:
        """How many nodes of a sort make room for so many sets; 0 when no number of them does."""
        nodes: list[Node] = []
        placed: list[Placed] = []
        idle = False
        try:
            while missing:
                of_set, failed = self._place_set()
                placed += [each for _, each in of_set]
                if failed is None:
                    missing, idle = missing - 1, False
                    continue
                for _, each in reversed(of_set):
                    self._asking.take_back(each)
                    placed.pop()
                if idle and not of_set:
                    return 0
                idle = not of_set
                nodes.append(like(sort, f"{sort.metadata.name}-like-{len(nodes) + 1}"))
                self._asking.fill(nodes[-1:])
            return len(nodes)
        finally:
            for each in reversed(placed):
                self._asking.take_back(each)
            for node in nodes:
                self._asking.remove(node)
