"""The smallest change, of a pod or of the cluster, that opens a node to the pod: each is tried out on the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage.api import wellknown
from moorage.api.meta import Object
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.features import Gates
from moorage.scheduler.asking import Asking, Inquiry, PluginRefusal
from moorage.scheduler.table.nodes import HOSTNAME, Index
from moorage.scheduler.table.shape import PodInfo
from moorage.tools.claimedits import device_edits, missing_claims
from moorage.tools.cluster import Cluster
from moorage.tools.edits import MAKE_ROOM, Alternatives, Depth, Edit, EditsOf
from moorage.tools.patches import delete_command, pod_command
from moorage.tools.settled import AskedPod

_TRIED = 12
"""How many candidates are tried out, the cheapest first."""
_ROOM_TRIED = 3
"""How many nodes are emptied in thought."""
_SORTS = 12
"""How many sorts of nodes are considered when one more could help."""
_PASSING = {
    wellknown.TAINT_NOT_READY, wellknown.TAINT_UNREACHABLE, wellknown.TAINT_UNSCHEDULABLE,
    wellknown.TAINT_MEMORY_PRESSURE, wellknown.TAINT_DISK_PRESSURE, wellknown.TAINT_PID_PRESSURE,
    wellknown.TAINT_NETWORK_UNAVAILABLE, wellknown.TAINT_OUT_OF_SERVICE,
}  # fmt: skip
"""The taints that say how a node is now, not what it is for."""
_replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class Remedy:
    """Edits that together open nodes to a pod, and which."""

    edits: tuple[str, ...]
    nodes: tuple[str, ...]
    commands: tuple[str, ...] = ()
    """How the edits are made, to be typed; empty when that is not done with kubectl."""
    is_of_pod: bool = False
    """Whether the pod is changed; otherwise only the cluster is."""

    def __str__(self) -> str:
        count = len(self.nodes)
        return f"{' and '.join(self.edits)} admits {count} node{'s' if count != 1 else ''}"


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Edits that may be made together for one row."""

    row: int
    edits: tuple[Edit, ...]
    room: tuple[PodInfo, ...] = ()
    """The pods that would have to leave."""


class Remedies:
    """Finds the smallest changes for pods of a cluster that fit nowhere."""

    def __init__(self, asking: Asking, gates: Gates, cluster: Cluster) -> None:
        self._asking, self._gates, self._cluster = asking, gates, cluster

    def smallest(self, asked: AskedPod, inquiry: Inquiry) -> tuple[Remedy, ...]:
        """The smallest change of all, and beside a change of the pod the smallest one of the cluster."""
        with self._asking.absent(asked.pod):
            finder = _Finder(self._asking, asked, inquiry, self._gates, self._cluster)
            if (every := finder.everywhere()) is None:
                return ()
            of_pod = finder.first(finder.candidates(every, lambda edit: edit.is_of_pod))
            of_cluster = finder.first(finder.candidates(every, lambda edit: not edit.is_of_pod, strict=True))
            if of_cluster is None and not every:
                of_cluster = self._one_more_node(asked.pod)
        found = [each for each in (of_pod, of_cluster) if each is not None]
        return tuple(found if of_pod is None or of_pod.is_of_pod else found[:1])

    @cached_property
    def _sorts(self) -> list[Node]:
        """One node of each sort."""
        sorts: dict[object, Node] = {}
        for node in self._asking.nodes:
            labels = tuple(sorted((key, value) for key, value in node.metadata.labels.items() if key != HOSTNAME))
            sorts.setdefault((labels, node.spec.taints, tuple(sorted(node.status.allocatable.items()))), node)
        return list(sorts.values())

    def _one_more_node(self, pod: Pod) -> Remedy | None:
        """A new node like one that there is, without pods and ready for use."""
        for node in self._sorts[:_SORTS]:
            new = like(node, f"{node.metadata.name}-like")
            with self._asking.changed([new]):
                if self._asking.fits(pod, new.metadata.name):
                    return Remedy((f"one more node like {node.metadata.name}",), (new.metadata.name,))
        return None


class _Finder:
    """Finds what would have to change for one pod."""

    def __init__(self, asking: Asking, asked: AskedPod, inquiry: Inquiry, gates: Gates, cluster: Cluster) -> None:
        self._asking, self._asked, self._pod, self._inquiry = asking, asked, asked.pod, inquiry
        self._cluster = cluster
        edits = EditsOf(asked.pod, gates, asking.table)
        self._gates = gates
        self._problems = [(refusal.told.rows, self._against(edits, refusal)) for refusal in inquiry.refusals]
        """Which rows are refused, and what must change for that to end: None when nothing is known to help."""
        self._rooms = 0

    def _against(self, edits: EditsOf, refusal: PluginRefusal) -> list[Alternatives] | None:
        if refusal.plugin != "DynamicResources":
            return edits.against(refusal)
        node = self._asking.table.nodes[int(refusal.told.rows[0])]
        moved = tuple(device_edits(self._asking, self._pod, node, self._gates)) if node else ()
        return [(*moved, MAKE_ROOM)]

    def everywhere(self) -> list[Alternatives] | None:
        """What must change whatever the node; None when nothing is known to help."""
        if self._inquiry.rejected:
            return missing_claims(self._asking, self._pod) or None
        if self._inquiry.held_back and self._pod.spec.scheduling_gates:
            text = "no schedulingGates"
            return [(Edit(Depth.REMOVAL, (), text, spec=lambda spec: _replace(spec, scheduling_gates=())),)]
        return None if self._inquiry.held_back else []

    def candidates(
        self, every: list[Alternatives], wanted: Callable[[Edit], bool], *, strict: bool = False
    ) -> Iterator[_Candidate]:
        """The mildest wanted edits for each row, the cheapest row first; not `strict`: others where there are none.

        Rows are compared by the number of edits, by their depth, and by their order among all edits.
        """
        table = self._asking.table
        chosen = [(rows, _chosen(problem, wanted, strict=strict)) for rows, problem in self._problems]
        general = _chosen(every, wanted, strict=strict)
        all_edits = {edit.order for _, edits in chosen for edit in edits or ()}
        places = {order: place for place, order in enumerate(sorted(all_edits))}
        cost: NDArray[np.int64] = np.zeros((3, table.size), np.int64)
        hopeless, room = ~table.alive, np.zeros(table.size, np.bool_)
        for rows, edits in chosen:
            if edits is None or general is None:
                hopeless[rows] = True
            for edit in edits or ():
                if edit.makes_room:
                    room[rows] = True
                else:
                    cost[0][rows] += 1
                    cost[1][rows] += edit.depth
                    cost[2][rows] += places[edit.order]
        cost[0] += room
        cost[1] += room * int(Depth.ROOM)
        order = np.lexsort((cost[2], cost[1], cost[0]))
        return self._distinct(order[~hopeless[order]], chosen, general or ())

    def _distinct(
        self, rows: Index, chosen: list[tuple[Index, tuple[Edit, ...] | None]], general: tuple[Edit, ...]
    ) -> Iterator[_Candidate]:
        """The edits of each of these rows; those that were given for an earlier one are left out."""
        seen: set[tuple[str, ...]] = set()
        for row in rows.tolist():
            of_row = [edit for of, edits in chosen if row in of for edit in edits or ()]
            edits = {edit.text: edit for edit in sorted((*general, *of_row), key=lambda edit: edit.order)}
            own = any(not edit.is_of_pod for edit in edits.values())
            key = (*edits, str(row) if own else "")
            if edits and key not in seen:
                seen.add(key)
                yield _Candidate(row, tuple(edits.values()))

    def first(self, candidates: Iterable[_Candidate]) -> Remedy | None:
        """The first candidate that holds what it promises, made as small as possible."""
        for candidate in islice(candidates, _TRIED):
            ready = self._with_room(candidate)
            if ready is not None and self._admitted(ready):
                return self._told(self._minimal(ready))
        return None

    def _minimal(self, candidate: _Candidate) -> _Candidate:
        """Without the edits that are not needed, and without the pods that need not leave: any node will do."""
        for smaller in _parts(candidate):
            if self._admitted(smaller):
                return self._minimal(smaller)
        return candidate

    @contextmanager
    def _made(self, candidate: _Candidate) -> Iterator[Pod]:
        """The edits made for a moment: the pod as it would be."""
        spec, node = self._pod.spec, self._asking.table.nodes[candidate.row]
        assert node is not None
        for edit in candidate.edits:
            spec = edit.spec(spec) if edit.spec else spec
            node = edit.node(node) if edit.node else node
        put: list[Object] = [each for edit in candidate.edits for each in edit.put]
        if node is not self._asking.table.nodes[candidate.row]:
            put.append(node)
        with self._asking.changed(put, [info.pod for info in candidate.room]):
            yield _replace(self._pod, spec=spec)

    def _admitted(self, candidate: _Candidate) -> tuple[str, ...]:
        """The nodes that the edits open."""
        with self._made(candidate) as pod:
            return tuple(map(self._asking.name, self._asking.feasible(pod).tolist()))

    def _with_room(self, candidate: _Candidate) -> _Candidate | None:
        """Find the pods that would have to leave, the least important first, and no more than necessary."""
        if not any(edit.makes_room for edit in candidate.edits):
            return candidate
        self._rooms += 1
        if self._rooms > _ROOM_TRIED:
            return None
        pods = [info for info in self._asking.table.pods[candidate.row].values() if _may_leave(info.pod)]
        pods.sort(key=lambda info: (info.priority, info.key))
        name = self._asking.name(candidate.row)
        with self._made(candidate) as changed:
            removed = self._asking.leaving(changed, name, pods)
        return None if removed is None else _Candidate(candidate.row, candidate.edits, tuple(removed))

    def _told(self, candidate: _Candidate) -> Remedy:
        name = self._asking.name(candidate.row)
        texts, commands = [], []
        for edit in candidate.edits:
            if edit.makes_room:
                texts.append(f"{_listed(candidate.room)} off node {name}")
                commands += [delete_command(info.pod) for info in candidate.room]
            else:
                texts.append(edit.text.replace("{node}", name))
                if edit.command:
                    commands.append(edit.command.replace("{node}", name))
        with self._made(candidate) as pod:
            if pod.spec != self._pod.spec:
                commands.insert(0, pod_command(self._asked, pod.spec, self._cluster))
        is_of_pod = any(edit.is_of_pod for edit in candidate.edits)
        return Remedy(tuple(texts), self._admitted(candidate), tuple(commands), is_of_pod)


def _chosen(
    problem: list[Alternatives] | None, wanted: Callable[[Edit], bool], *, strict: bool
) -> tuple[Edit, ...] | None:
    """The mildest wanted edit of each list of alternatives; None when there is none."""
    if problem is None:
        return None
    found = []
    for alternatives in problem:
        fitting = [edit for edit in alternatives if wanted(edit)] or ([] if strict else list(alternatives))
        if not fitting:
            return None
        found.append(min(fitting, key=lambda edit: edit.order))
    return tuple(found)


def _parts(candidate: _Candidate) -> Iterator[_Candidate]:
    """A candidate with one thing less."""
    for edit in candidate.edits if len(candidate.edits) > 1 else ():
        rest = tuple(each for each in candidate.edits if each is not edit)
        yield _Candidate(candidate.row, rest, () if edit.makes_room else candidate.room)
    for info in candidate.room if len(candidate.room) > 1 else ():
        yield _Candidate(candidate.row, candidate.edits, tuple(each for each in candidate.room if each is not info))


def like(node: Node, name: str) -> Node:
    """A new node like another."""
    labels = {**node.metadata.labels, **({HOSTNAME: name} if HOSTNAME in node.metadata.labels else {})}
    metadata = _replace(node.metadata, name=name, uid=f"new-{name}", labels=labels)
    taints = tuple(taint for taint in node.spec.taints if taint.key not in _PASSING)
    return _replace(node, metadata=metadata, spec=_replace(node.spec, unschedulable=False, taints=taints))


def _may_leave(pod: Pod) -> bool:
    """Whether it helps to delete a pod: one of a DaemonSet comes back at once."""
    return not any(owner.controller and owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owner_references)


def _listed(pods: tuple[PodInfo, ...]) -> str:
    names = ["/".join(info.key) for info in pods]
    shown = ", ".join(names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"pod{'' if len(names) == 1 else 's'} {shown}{more}"
