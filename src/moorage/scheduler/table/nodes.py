"""The nodes in columns, and the pods on them: what every plugin reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from moorage.api.node import Node, Taint
from moorage.api.requests import CPU, EPHEMERAL, MEMORY, MOST, PODS, HostPort, amounts, normalized_image
from moorage.scheduler.table.columns import Column
from moorage.scheduler.table.shape import PodInfo

Rows = slice | NDArray[np.intp]
"""Some rows of the table: all of them, or those of an index array."""
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]
Scores = NDArray[np.int64]
ALL = slice(None)
HOSTNAME = "kubernetes.io/hostname"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"

_NOWHERE = ""
_FIRST = (CPU, MEMORY, EPHEMERAL, PODS, _NOWHERE)
"""The resources with a line from the start; the last line is for all that no node has, and nothing is counted there."""
_PODS = _FIRST.index(PODS)
LOG_MAX = 65_536
FIRST_SIZE = 64


class PodObserver(Protocol):
    """Keeps counts of pods up to date."""

    def pod_added(self, row: int, info: PodInfo) -> None:
        """A pod is on a node now."""

    def pod_removed(self, row: int, info: PodInfo) -> None:
        """A pod is no longer on a node."""

    def table_grown(self, size: int) -> None:
        """The table has more rows now."""


class RowLog:
    """The rows that something has happened to, the last of them at least."""

    __slots__ = ("_first", "_rows")

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._first = 0

    @property
    def position(self) -> int:
        """How much has happened so far."""
        return self._first + len(self._rows)

    def note(self, row: int) -> None:
        """Something has happened to a row."""
        self._rows.append(row)
        if len(self._rows) > LOG_MAX:
            self._first += len(self._rows) - LOG_MAX // 2
            del self._rows[: -(LOG_MAX // 2)]

    def since(self, position: int) -> list[int] | None:
        """The rows that were noted after a position, perhaps some twice; None when that is no longer known."""
        return None if position < self._first else self._rows[position - self._first :]


class NodeTable:
    """One row a node. Rows of nodes that are gone are used again; `alive` tells which rows count.

    Everything that changes a row is noted in a log, so that whoever keeps answers can ask anew for just these rows:
    `changed_since(position)` gives them.
    """

    def __init__(self) -> None:
        self.size = FIRST_SIZE
        self.alive: Mask = np.zeros(FIRST_SIZE, np.bool_)
        self.unschedulable: Mask = np.zeros(FIRST_SIZE, np.bool_)
        self.taints: Column[tuple[Taint, ...]] = Column(FIRST_SIZE, ())
        self.resources: dict[str, int] = {name: number for number, name in enumerate(_FIRST)}
        """The place that a resource has in the matrices, which hold one line a resource and one column a node."""
        self.allocatable: Scores = np.zeros((len(_FIRST), FIRST_SIZE), np.int64)
        self.requested: Scores = np.zeros((len(_FIRST), FIRST_SIZE), np.int64)
        self.scored: Scores = np.zeros((len(_FIRST), FIRST_SIZE), np.int64)
        """What is requested as scores count it: a container that asks for no cpu or memory counts as a small one."""
        self.nodes: list[Node | None] = [None] * FIRST_SIZE
        self.pods: list[dict[str, PodInfo]] = [{} for _ in range(FIRST_SIZE)]
        """The pods of each row, by uid."""
        self.ports: dict[int, dict[HostPort, int]] = {}
        """What is taken of host ports, of the rows that have any, and how often."""
        self.port_rows: dict[HostPort, set[int]] = {}
        """The rows where a host port is taken."""
        self.images: dict[str, dict[int, int]] = {}
        """The size of each image in the rows that have it."""
        self.rows: dict[str, int] = {}
        """The row of each node, by name. A row may also wait for a node of which only pods are known yet."""
        self.priorities: Counter[int] = Counter()
        """How many pods of each priority there are."""
        self.observers: list[PodObserver] = []
        self.epoch = 0
        """Changes when everything that was kept about rows is void."""
        self.count = 0
        """How many nodes there are."""
        self.places = 0
        """Changes when a node comes or goes, or when its labels or taints change."""
        self._labels: dict[str, Column[str | None]] = {}
        self._label_keys: set[str] = set()
        """The labels that any node has had: only these have columns, whatever pods ask for."""
        self._unlabelled: Column[str | None] = Column(FIRST_SIZE, None)
        self._beyond: dict[tuple[bool, int, int], int] = {}
        """Sums that are larger than their places in `requested` and `scored` say."""
        self.free_rows = list(range(FIRST_SIZE - 1, -1, -1))
        self._log = RowLog()
        self.starts = RowLog()
        """The rows where a pod has started: nothing that plugins read has changed, but how long the pod has run."""

    @property
    def position(self) -> int:
        """How much has been changed so far."""
        return self._log.position

    @property
    def is_exact(self) -> bool:
        """Whether no sum of what pods ask for is beyond all bounds."""
        return not self._beyond

    def changed_since(self, position: int) -> list[int] | None:
        """The rows that were changed after a position, perhaps some twice; None when that is no longer known."""
        return self._log.since(position)

    def see_node(self, node: Node) -> None:
        """A node has changed in nothing that placement depends on."""
        row = self.rows.get(node.metadata.name)
        if row is not None and self.nodes[row] is not None:
            self.nodes[row] = node

    def touch(self, row: int) -> None:
        """Note that a row has changed."""
        self._log.note(row)

    def set_node(self, node: Node) -> int:
        """Add a node, or change what is known of it. Returns its row."""
        row = self._row(node.metadata.name)
        old = self.nodes[row]
        self.nodes[row] = node
        if old is None:
            self.alive[row] = True
            self.count += 1
        self.unschedulable[row] = node.spec.unschedulable
        if old is None or old.spec.taints != node.spec.taints:
            self.places += 1
            self.taints.set(row, node.spec.taints)
        if old is None or old.metadata.labels != node.metadata.labels:
            self.places += 1
            self._label_keys.update(node.metadata.labels)
            for key, column in self._labels.items():
                column.set(row, node.metadata.labels.get(key))
        if old is None or old.status.allocatable != node.status.allocatable:
            self._set_allocatable(row, amounts(node.status.allocatable))
        if (old.status.images if old else ()) != node.status.images:
            self._set_images(row, node)
        self._renew_stale_columns()
        self.touch(row)
        return row

    def remove_node(self, name: str) -> int | None:
        """Forget a node. Its pods stay known until they are removed themselves. Returns its row."""
        row = self.rows.get(name)
        if row is None or self.nodes[row] is None:
            return None
        for image in list(self.images):
            self.images[image].pop(row, None)
            if not self.images[image]:
                del self.images[image]
        self.nodes[row] = None
        self.alive[row] = False
        self.count -= 1
        self.places += 1
        self.allocatable[:, row] = 0
        self.taints.set(row, ())
        for column in self._labels.values():
            column.set(row, None)
        self.touch(row)
        self._release(name, row)
        return row

    def _set_allocatable(self, row: int, room: Mapping[str, int]) -> None:
        for name in room:
            if name not in self.resources:
                self._add_line(name)
        self.allocatable[:, row] = 0
        for name, value in room.items():
            self.allocatable[self.resources[name], row] = value

    def _set_images(self, row: int, node: Node) -> None:
        for rows in self.images.values():
            rows.pop(row, None)
        for image in node.status.images:
            for name in image.names:
                self.images.setdefault(normalized_image(name), {})[row] = image.size_bytes
        for name in [name for name, rows in self.images.items() if not rows]:
            del self.images[name]

    def _renew_stale_columns(self) -> None:
        """Values that no row has any more are forgotten now and then; all that was kept by number is void then."""
        if self.taints.is_stale(self.size):
            self.taints = Column(self.size, ())
            for row in self.rows.values():
                node = self.nodes[row]
                self.taints.set(row, node.spec.taints if node else ())
            self.epoch += 1
        for key in [key for key, column in self._labels.items() if column.is_stale(self.size)]:
            del self._labels[key]
            self.epoch += 1
            self.epoch += 1

    def labels(self, key: str) -> Column[str | None]:
        """The values of a label; None where a node has none."""
        column = self._labels.get(key)
        if column is None:
            if key not in self._label_keys:
                return self._unlabelled
            column = self._labels[key] = Column(self.size, None)
            for row in self.rows.values():
                node = self.nodes[row]
                column.set(row, node.metadata.labels.get(key) if node else None)
        return column

    def room(self, row: int) -> bytes:
        """How much a row has of each resource and how much is asked for, as a key."""
        amounts = self.allocatable[:, row], self.requested[:, row], self.scored[:, row]
        return b"".join([each.tobytes() for each in amounts])

    def line_of(self, resource: str) -> int:
        """The line of a resource in the matrices; all that no node has share one, where there is nothing."""
        return self.resources.get(resource, self.resources[_NOWHERE])

    def _add_line(self, resource: str) -> None:
        """Make a line for a resource that a node has, and count what pods ask for of it."""
        line = self.resources[resource] = len(self.resources)
        more = np.zeros((1, self.size), np.int64)
        self.allocatable = np.vstack([self.allocatable, more])
        self.requested = np.vstack([self.requested, more])
        self.scored = np.vstack([self.scored, more])
        for row in self.rows.values():
            for info in self.pods[row].values():
                self._add(self.requested, line, row, info.shape.requests.get(resource, 0))
                self._add(self.scored, line, row, info.shape.scored.get(resource, 0))

    def add_pod(self, info: PodInfo) -> int:
        """Count a pod on its node. Returns the row."""
        row = self._row(info.node_name)
        self.pods[row][info.uid] = info
        self._count(row, info, 1)
        for observer in self.observers:
            observer.pod_added(row, info)
        self.touch(row)
        return row

    def remove_pod(self, info: PodInfo) -> int | None:
        """Count a pod no more, as it was counted. Returns the row."""
        row = self.rows.get(info.node_name)
        if row is None:
            return None
        counted = self.pods[row].pop(info.uid, None)
        if counted is None:
            return None
        self._count(row, counted, -1)
        for observer in self.observers:
            observer.pod_removed(row, counted)
        self.touch(row)
        self._release(info.node_name, row)
        return row

    def replace_pod(self, info: PodInfo) -> int | None:
        """A pod is known better now. Returns the row when what it takes has changed, None when nothing has."""
        row = self.rows.get(info.node_name)
        old = self.pods[row].get(info.uid) if row is not None else None
        if row is None or old is None:
            return self.add_pod(info)
        same = old.shape is info.shape and old.key == info.key and old.pod.metadata.labels == info.pod.metadata.labels
        if same and old.pod.metadata.deletion_timestamp == info.pod.metadata.deletion_timestamp:
            self.pods[row][info.uid] = info
            if old.pod.status.start_time != info.pod.status.start_time:
                self.starts.note(row)
            return None
        self.remove_pod(old)
        return self.add_pod(info)

    def _count(self, row: int, info: PodInfo, sign: int) -> None:
        shape = info.shape
        for matrix, amounts_of_pod in ((self.requested, shape.requests), (self.scored, shape.scored)):
            for name, value in amounts_of_pod.items():
                line = self.resources.get(name)
                if line is not None:
                    self._add(matrix, line, row, sign * value)
        self.requested[_PODS, row] += sign
        self.priorities[info.priority] += sign
        if not self.priorities[info.priority]:
            del self.priorities[info.priority]
        if shape.ports:
            self._count_ports(row, shape.ports, sign)

    def _add(self, matrix: Scores, line: int, row: int, value: int) -> None:
        """Add to a sum. One that is beyond all bounds is kept beside the matrix, so that it can come down again."""
        total = matrix.item(line, row) + value
        if total > MOST or self._beyond:
            cell = (matrix is self.requested, line, row)
            total = self._beyond.pop(cell, matrix.item(line, row)) + value
            if total > MOST:
                self._beyond[cell], total = total, MOST
        matrix[line, row] = total

    def _count_ports(self, row: int, ports: Iterable[HostPort], sign: int) -> None:
        used = self.ports.setdefault(row, {})
        for taken in chain.from_iterable([port.taken for port in ports]):
            used[taken] = used.get(taken, 0) + sign
            if used[taken]:
                self.port_rows.setdefault(taken, set()).add(row)
                continue
            del used[taken]
            self.port_rows[taken].discard(row)
            if not self.port_rows[taken]:
                del self.port_rows[taken]
        if not used:
            del self.ports[row]

    def _row(self, name: str) -> int:
        row = self.rows.get(name)
        if row is None:
            if not self.free_rows:
                self._grow()
            row = self.rows[name] = self.free_rows.pop()
        return row

    def _release(self, name: str, row: int) -> None:
        """A row that has neither a node nor pods may be used again."""
        if self.nodes[row] is None and not self.pods[row]:
            del self.rows[name]
            self.free_rows.append(row)

    def _grow(self) -> None:
        more = self.size
        self.alive = np.concatenate([self.alive, np.zeros(more, np.bool_)])
        self.unschedulable = np.concatenate([self.unschedulable, np.zeros(more, np.bool_)])
        width = len(self.resources)
        self.allocatable = np.hstack([self.allocatable, np.zeros((width, more), np.int64)])
        self.requested = np.hstack([self.requested, np.zeros((width, more), np.int64)])
        self.scored = np.hstack([self.scored, np.zeros((width, more), np.int64)])
        self.nodes += [None] * more
        self.pods += [{} for _ in range(more)]
        self.free_rows = list(range(self.size + more - 1, self.size - 1, -1))
        self.size += more
        self.taints.grow(self.size)
        for column in (self._unlabelled, *self._labels.values()):
            column.grow(self.size)
        for observer in self.observers:
            observer.table_grown(self.size)
        self.epoch += 1
