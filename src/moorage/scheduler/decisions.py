"""The answers of plugins that are kept: for each shape of pods which rows are feasible and how they score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import ref

import numpy as np

from moorage.api.node import Node
from moorage.bounded import Bounded
from moorage.scheduler.beside import Beside
from moorage.scheduler.framework import Cycle, Plugin, PluginStatus, Scope, overrides, timed
from moorage.scheduler.profile import Weighted
from moorage.scheduler.table.nodes import ALL, Index, Mask, NodeTable, Rows, Scores
from moorage.scheduler.table.shape import Shape
from moorage.scheduler.table.tops import Tops

SHAPES_MAX = 256
RANKS_MAX, RANKS_BYTES, _RANK_BYTES = 16_384, 16 << 20, 300
"""How many ranks are kept by room, of all shapes together; how many bytes they may take, and one beside its room."""
REJECTED = -1
"""The rank of a row that is not feasible."""


@dataclass(slots=True)
class Known:
    """What the plugins of scopes ROW and NODE say about the pods of one shape."""

    filters: list[Plugin]
    scores: list[Weighted]
    relative: list[Weighted]
    """The plugins of `scores` that normalise: their scores depend on the other feasible rows."""
    cluster_filters: list[Plugin]
    """The plugins of scope CLUSTER that apply to this shape."""
    cluster_scores: list[Weighted]
    statuses: tuple[PluginStatus, ...]
    """What is counted when a pod of this shape is placed and no plugin of scope CLUSTER took part."""
    by_room: bool
    """Whether rows whose nodes are accepted have the same rank when they have the same room."""
    position: int = 0
    epoch: int = -1
    nodes: list[Node | None] = field(default_factory=list)
    """The node of each row when the plugins of scope NODE were asked."""
    good: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Where there is a node that they accept."""
    rank: Scores = field(default_factory=lambda: np.zeros(0, np.int64))
    """The weighted scores of each row added up, REJECTED where the row will not do."""
    tops: Tops = field(default_factory=lambda: Tops(np.zeros(0, np.int64)))
    """The rows of the best rank."""
    beside: Beside | None = None
    """Where nominated pods leave no room."""
    raw: list[Scores] = field(default_factory=list)
    """The scores before they are normalised, of each plugin in `relative`."""
    uniform: list[bool] = field(default_factory=list)
    """Whether all nodes have the same, so that it makes no difference."""
    common: list[int] = field(default_factory=list)
    """What they all have, where they do."""

    @property
    def is_relative(self) -> bool:
        """Whether scores must be normalised before rows can be compared."""
        return not all(self.uniform)


class Ranks(Bounded[tuple[int, bytes], int]):
    """The ranks of rows by the number of a shape and by their room, where nothing else decides."""

    __slots__ = ()


class Decisions:
    """Keeps what is known about the shapes that were asked for last."""

    def __init__(self, table: NodeTable, filters: Sequence[Plugin], scores: Sequence[Weighted]) -> None:
        self._table = table
        self._filters, self._scores = filters, scores
        self._known: Bounded[ref[Shape], Known] = Bounded(SHAPES_MAX)
        """What no pod asks for any more is forgotten with its shape."""
        self.ranks = Ranks(RANKS_MAX, RANKS_BYTES)

    def of(self, cycle: Cycle) -> Known:
        """What is known about the shape of a pod, with plugins asked again for the rows that have changed."""
        shape = cycle.pod.shape
        known = self._known.get(ref(shape))
        if known is None:
            known = self._begin(shape)
            self._known.put(ref(shape, self._known.pop), known)
        table = self._table
        position = table.position
        if known.epoch == table.epoch:
            if known.position == position:
                return known
            changed = table.changed_since(known.position)
            if changed is not None and len(changed) < 256:
                rows = [row for row in dict.fromkeys(changed) if not self._renew_by_room(known, shape, row)]
                if rows:
                    self._renew(known, cycle, np.array(rows, np.intp))
                    self._learn(known, shape, rows)
                known.position = position
                return known
        known.nodes, known.good = list(table.nodes), np.empty(table.size, np.bool_)
        known.rank = np.full(table.size, REJECTED, np.int64)
        known.tops = Tops(known.rank)
        known.raw = [np.empty(table.size, np.int64) for _ in known.relative]
        known.uniform, known.common = [False] * len(known.relative), [0] * len(known.relative)
        self._renew(known, cycle, ALL)
        known.epoch, known.position = table.epoch, position
        return known

    def _renew_by_room(self, known: Known, shape: Shape, row: int) -> bool:
        """Give a row the rank that another one with as much room has; False when plugins must be asked."""
        if not known.by_room or known.nodes[row] is not self._table.nodes[row]:
            return False
        if known.good[row]:
            rank = self.ranks.get((shape.number, self._table.room(row)))
            if rank is None:
                return False
            known.rank[row] = rank
            known.tops.changed((row,))
        if known.beside is not None:
            known.beside.changed((row,))
        return True

    def _learn(self, known: Known, shape: Shape, rows: Sequence[int]) -> None:
        """Keep what plugins have said of some rows, for others with as much room."""
        for row in rows if known.by_room else ():
            if known.good[row]:
                room = self._table.room(row)
                self.ranks.put((shape.number, room), int(known.rank[row]), len(room) + _RANK_BYTES)

    def accepting(self, cycle: Cycle, row: int) -> Known | None:
        """What is known about the shape of a pod when it may go to a row as that is now, else None.

        Only plugins that look at the row itself are asked, and none for a score: preemption tries row after row, and
        leaves each as it was.
        """
        known = self._known.get(ref(cycle.pod.shape))
        if known is None or known.epoch != self._table.epoch or known.nodes[row] is not self._table.nodes[row]:
            known = self.of(cycle)
            return None if known.rank[row] == REJECTED else known
        mask = self._filtered(known, cycle, np.array([row], np.intp), known.good[row : row + 1], Scope.ROW)
        return known if mask[0] else None

    def seen(self, shape: Shape, rows: Index) -> Mask:
        """Which of these rows were feasible when the shape was last asked for."""
        known = self._known.get(ref(shape))
        mask = np.zeros(len(rows), np.bool_)
        if known is not None:
            inside = rows < len(known.rank)
            mask[inside] = known.rank[rows[inside]] != REJECTED
        return mask

    def _begin(self, shape: Shape) -> Known:
        filters = [plugin for plugin in self._filters if plugin.applies(shape)]
        scores = [scorer for scorer in self._scores if scorer.plugin.applies(shape)]
        by_row = [scorer for scorer in scores if scorer.plugin.scope is not Scope.CLUSTER]
        absolute = [scorer for scorer in by_row if not overrides(type(scorer.plugin), "normalize")]
        relative = [scorer for scorer in by_row if overrides(type(scorer.plugin), "normalize")]
        deciding = [plugin for plugin in filters if plugin.scope is Scope.ROW] + [each.plugin for each in absolute]
        by_room = all(plugin.by_amounts for plugin in deciding)
        by_room = by_room and all(each.plugin.scope is Scope.NODE for each in relative)
        statuses = (
            *((plugin.name, "Filter", "Success") for plugin in filters if plugin.scope is not Scope.CLUSTER),
            *((scorer.plugin.name, "Score", "Success") for scorer in by_row),
        )
        return Known(
            [plugin for plugin in filters if plugin.scope is not Scope.CLUSTER],
            absolute,
            relative,
            [plugin for plugin in filters if plugin.scope is Scope.CLUSTER],
            [scorer for scorer in scores if scorer.plugin.scope is Scope.CLUSTER],
            statuses,
            by_room,
        )

    def _renew(self, known: Known, cycle: Cycle, rows: Rows) -> None:
        anew = rows if isinstance(rows, slice) else self._other_nodes(known, rows)
        if isinstance(anew, slice) or len(anew):
            known.good[anew] = self._filtered(known, cycle, anew, self._table.alive[anew], Scope.NODE)
        mask = self._filtered(known, cycle, rows, known.good[rows], Scope.ROW)
        total = np.zeros(mask.shape, np.int64)
        for plugin, weight in known.scores:
            total += weight * timed(cycle, "Score", plugin.name, plugin.score, cycle, rows)
        known.rank[rows] = np.where(mask, total, REJECTED)
        changed = rows if isinstance(rows, slice) else rows.tolist()
        known.tops.changed(changed)
        if known.beside is not None:
            known.beside.changed(changed)
        for number, (plugin, _) in enumerate(known.relative):
            asked = anew if plugin.scope is Scope.NODE else rows
            if isinstance(asked, slice) or len(asked):
                self._compare(known, cycle, number, asked)
        if not isinstance(anew, slice):
            for row in anew.tolist():
                known.nodes[row] = self._table.nodes[row]

    def _other_nodes(self, known: Known, rows: Index) -> Index:
        """Which of these rows have another node than before, or another state of it."""
        nodes = self._table.nodes
        return np.array([row for row in rows.tolist() if known.nodes[row] is not nodes[row]], np.intp)

    def _filtered(self, known: Known, cycle: Cycle, rows: Rows, mask: Mask, scope: Scope) -> Mask:
        for plugin in known.filters:
            if plugin.scope is scope:
                mask = mask & timed(cycle, "Filter", plugin.name, plugin.filter, cycle, rows)
        return mask

    def _compare(self, known: Known, cycle: Cycle, number: int, rows: Rows) -> None:
        """Ask one plugin for scores, and see whether they tell nodes apart."""
        plugin, raw, alive = known.relative[number].plugin, known.raw[number], self._table.alive
        raw[rows] = scores = timed(cycle, "Score", plugin.name, plugin.score, cycle, rows)
        if rows is ALL or not known.uniform[number] or (scores[alive[rows]] != known.common[number]).any():
            all_of_them = raw[alive]
            known.common[number] = int(all_of_them[0]) if len(all_of_them) else 0
            known.uniform[number] = bool((all_of_them == known.common[number]).all())
