"""Nodes in groups: of nodes that a pod's constraints cannot tell apart, only one is matched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from moorage.api.node import Node, Taint

UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""The taint that a cordoned node is treated as having, even before the node controller adds it."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What repels pods: the taints of a node, and whether it is cordoned."""

    taints: tuple[Taint, ...]
    cordoned: bool


@dataclass(frozen=True, slots=True, eq=False)
class NodeView:
    """What selectors see of a node: its labels and its name."""

    labels: Mapping[str, str]
    name: str


class NodeGroup(NamedTuple):
    """Nodes that share marks and, for the labels asked about, a view; both are indexes into the GroupTable."""

    marks: int
    view: int
    names: list[str]


@dataclass(frozen=True, slots=True)
class GroupTable:
    """Groups of nodes, and the distinct marks and views that they are made of."""

    marks: list[Marks]
    views: list[NodeView]
    groups: list[NodeGroup]


class Nodes:
    """The nodes of a cluster, grouped anew for each set of labels that is asked about."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        # The last of several nodes of one name counts, as it would when they are applied in turn.
        self.by_name = {node.metadata.name: node for node in nodes}
        self._tables: dict[tuple[frozenset[str] | None, bool, bool], GroupTable] = {}

    def __len__(self) -> int:
        return len(self.by_name)

    def grouped(self, keys: frozenset[str] | None, *, by_name: bool, by_time: bool) -> GroupTable:
        """Groups that agree on these labels (None: on all), on the name and on the age of taints when these count."""
        question = (keys, by_name, by_time)
        if question not in self._tables:
            self._tables[question] = self._table(keys, by_name=by_name, by_time=by_time)
        return self._tables[question]

    def _table(self, keys: frozenset[str] | None, *, by_name: bool, by_time: bool) -> GroupTable:
        marks_places: dict[Marks, int] = {}
        view_places: dict[object, int] = {}
        views: list[NodeView] = []
        groups: dict[tuple[int, int], NodeGroup] = {}
        read = sorted(keys or ())
        for name, node in self.by_name.items():
            labels = node.metadata.labels
            marks = _marks(node, timed=by_time)
            marks_place = marks_places.setdefault(marks, len(marks_places))
            seen = tuple(sorted(labels.items())) if keys is None else tuple(map(labels.get, read))
            view_place = view_places.setdefault((seen, name if by_name else ""), len(views))
            if view_place == len(views):
                views.append(NodeView(labels, name))
            place = marks_place, view_place
            if place not in groups:
                groups[place] = NodeGroup(*place, [])
            groups[place].names.append(name)
        return GroupTable(list(marks_places), views, list(groups.values()))


def _marks(node: Node, *, timed: bool) -> Marks:
    taints = node.spec.taints
    if not timed and any(taint.time_added for taint in taints):
        taints = tuple(msgspec.structs.replace(taint, time_added=None) for taint in taints)
    return Marks(taints, node.spec.unschedulable)
