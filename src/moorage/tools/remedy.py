"""The smallest change, of a pod or of the cluster, that opens a node to the pod: each is tried out on the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

import msgspec

from moorage.api.meta import Object
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.features import Gates
from moorage.scheduler.asking import Asking, Inquiry, PluginRefusal
from moorage.scheduler.table.nodes import HOSTNAME
from moorage.scheduler.table.shape import PodInfo
from moorage.tools.cluster import Cluster
from moorage.tools.edits import Alternatives, Depth, Edit, EditsOf
from moorage.tools.patches import delete_command, pod_command
from moorage.tools.settled import AskedPod

_TRIED = 12
"""How many candidates are tried out, the cheapest first."""
_ROOM_TRIED = 3
"""How many nodes are emptied in thought."""
_SORTS = 12
"""How many sorts of nodes are considered when one more could help."""
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

    @property
    def order(self) -> tuple[int, int, list[tuple[int, tuple[int, ...], str]]]:
        return len(self.edits), sum(edit.depth for edit in self.edits), [edit.order for edit in self.edits]


class Remedies:
    """Finds the smallest changes for one pod that fits nowhere."""

    def __init__(self, asking: Asking, asked: AskedPod, inquiry: Inquiry, gates: Gates, cluster: Cluster) -> None:
        self._asking, self._asked, self._pod, self._inquiry = asking, asked, asked.pod, inquiry
        self._cluster = cluster
        self._edits = EditsOf(asked.pod, gates, asking.table)
        self._rooms = 0

    def smallest(self) -> tuple[Remedy, ...]:
        """The smallest change of all, and beside a change of the pod the smallest one of the cluster."""
        with self._asking.absent(self._pod):
            every = self._everywhere()
            if every is None:
                return ()
            problems = self._problems()
            of_pod = self._first(self._candidates(problems, every, lambda edit: edit.is_of_pod))
            of_cluster = self._first(self._candidates(problems, every, lambda edit: not edit.is_of_pod, strict=True))
            of_cluster = of_cluster or (None if every else self._one_more_node())
        found = [each for each in (of_pod, of_cluster) if each is not None]
        if len(found) > 1 and (not of_pod.is_of_pod if of_pod else False):
            found = found[:1]
        return tuple(found)

    def _everywhere(self) -> list[Alternatives] | None:
        """What must change whatever the node; None when nothing is known to help."""
        if self._inquiry.rejected:
            return None
        if self._inquiry.held_back and self._pod.spec.scheduling_gates:
            text = "no schedulingGates"
            return [(Edit(Depth.REMOVAL, (), text, spec=lambda spec: _replace(spec, scheduling_gates=())),)]
        return None if self._inquiry.held_back else []

    def _problems(self) -> dict[int, list[list[Alternatives] | None]]:
        """For each row what must change, by refusal; rows that agree in everything are one."""
        of_row: dict[int, tuple[PluginRefusal, ...]] = {}
        for refusal in self._inquiry.refusals:
            for row in refusal.told.rows.tolist():
                of_row[row] = (*of_row.get(row, ()), refusal)
        if not self._inquiry.refusals:
            return {row: [] for row in self._asking.table.alive.nonzero()[0][:1].tolist()}
        known = {id(refusal): self._edits.against(refusal) for refusal in self._inquiry.refusals}
        rows: dict[tuple[int, ...], int] = {}
        for row, refusals in of_row.items():
            rows.setdefault(tuple(map(id, refusals)), row)
        return {row: [known[each] for each in refusals] for refusals, row in rows.items()}

    def _candidates(
        self, problems: dict[int, list[list[Alternatives] | None]], every: list[Alternatives],
        wanted: Callable[[Edit], bool], *, strict: bool = False,
    ) -> list[_Candidate]:  # fmt: skip
        """The mildest wanted edits for each row, the cheapest row first; not `strict`: others where there are none."""
        found = []
        for row, refusals in problems.items():
            chosen: dict[str, Edit] = {}
            for alternatives in (*every, *(each for refusal in refusals for each in refusal or ((),))):
                fitting = [edit for edit in alternatives if wanted(edit)] or ([] if strict else list(alternatives))
                if not fitting:
                    break
                edit = min(fitting, key=lambda edit: edit.order)
                chosen[edit.text] = edit
            else:
                found.append(_Candidate(row, tuple(sorted(chosen.values(), key=lambda edit: edit.order))))
        return sorted(found, key=lambda candidate: candidate.order)

    def _first(self, candidates: Iterable[_Candidate]) -> Remedy | None:
        """The first candidate that holds what it promises, made as small as possible."""
        for candidate in islice(candidates, _TRIED):
            ready = self._with_room(candidate)
            if ready is not None and self._admitted(ready):
                return self._told(self._minimal(ready))
        return None

    def _minimal(self, candidate: _Candidate) -> _Candidate:
        """Without the edits that are not needed."""
        for edit in candidate.edits:
            rest = tuple(each for each in candidate.edits if each is not edit)
            smaller = _Candidate(candidate.row, rest, () if edit.makes_room else candidate.room)
            if rest and self._admitted(smaller):
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

    def _one_more_node(self) -> Remedy | None:
        """A new node like one that there is, without pods and ready for use."""
        sorts: dict[object, Node] = {}
        for node in self._asking.nodes:
            labels = tuple(sorted((key, value) for key, value in node.metadata.labels.items() if key != HOSTNAME))
            sorts.setdefault((labels, node.spec.taints, tuple(sorted(node.status.allocatable.items()))), node)
        for node in islice(sorts.values(), _SORTS):
            new = like(node, f"{node.metadata.name}-like")
            with self._asking.changed([new]):
                if self._asking.fits(self._pod, new.metadata.name):
                    return Remedy((f"one more node like {node.metadata.name}",), (new.metadata.name,))
        return None


def like(node: Node, name: str) -> Node:
    """A new node like another."""
    labels = {**node.metadata.labels, **({HOSTNAME: name} if HOSTNAME in node.metadata.labels else {})}
    metadata = _replace(node.metadata, name=name, uid=f"new-{name}", labels=labels)
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith("node.kubernetes.io/"))
    return _replace(node, metadata=metadata, spec=_replace(node.spec, unschedulable=False, taints=taints))


def _may_leave(pod: Pod) -> bool:
    """Whether it helps to delete a pod: one of a DaemonSet comes back at once."""
    return not any(owner.controller and owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owner_references)


def _listed(pods: tuple[PodInfo, ...]) -> str:
    names = ["/".join(info.key) for info in pods]
    shown = ", ".join(names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"pod{'' if len(names) == 1 else 's'} {shown}{more}"
