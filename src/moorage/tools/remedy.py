"""The smallest change to a pod that would open a node to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from moorage.api.node import NodeSelectorRequirement, NodeSelectorTerm, Taint
from moorage.api.pod import PodSpec, Toleration
from moorage.features import Gates
from moorage.match.operators import COMPARISONS, Comparison, comparison
from moorage.match.selector import Term, compile_term
from moorage.match.tolerations import NO_EXECUTE, NO_SCHEDULE, Tolerations
from moorage.names import lenient_int64
from moorage.tools.nodes import UNSCHEDULABLE, GroupTable, Marks, NodeView

_EMPTY = NodeSelectorTerm()


class Depth(IntEnum):
    """How far an edit departs from what the author meant."""

    THRESHOLD = 1
    ADDITION = 2
    REMOVAL = 3
    NODE = 4


class Edit(NamedTuple):
    """One change. Of two, the milder sorts first: by depth, then by how far a threshold moves."""

    depth: Depth
    distance: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Remedy:
    """Edits that together open nodes to a pod, and which."""

    edits: tuple[str, ...]
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        count = len(self.nodes)
        return f"{' and '.join(self.edits)} admits {count} node{'s' if count != 1 else ''}"


class _Edits(NamedTuple):
    """Edits that are made together, ordered by their number, then by their depth."""

    number: int
    depth: int
    edits: tuple[Edit, ...]


def _edits(edits: Iterable[Edit]) -> _Edits:
    ordered = tuple(sorted(edits))
    return _Edits(len(ordered), sum(edit.depth for edit in ordered), ordered)


def smallest_change(spec: PodSpec, table: GroupTable, gates: Gates) -> Remedy | None:
    """The fewest and mildest edits that admit some node; None when no small change helps."""
    finder = _Finder(spec, gates)
    by_marks = [_edits(finder.toleration_edits(marks)) for marks in table.marks]
    by_view = [finder.selector_edits(view) for view in table.views]
    best: tuple[int, int, _Edits, _Edits] | None = None
    nodes: list[str] = []
    for marks, view, names in table.groups:
        first, second = by_marks[marks], by_view[view]
        if second is None or (best and first.number + second.number > best[0]):
            continue
        candidate = (first.number + second.number, first.depth + second.depth, first, second)
        if best is None or candidate < best:
            best, nodes = candidate, []
        if candidate == best:
            nodes += names
    return Remedy(tuple(edit.text for edit in best[2].edits + best[3].edits), tuple(nodes)) if best else None


class _Finder:
    """Finds what would have to change in one pod."""

    def __init__(self, spec: PodSpec, gates: Gates) -> None:
        self._spec = spec
        self._gates = gates
        self._tolerations = Tolerations(spec.tolerations, gates)
        self._terms = self._split(spec)

    def selector_edits(self, view: NodeView) -> _Edits | None:
        """What would have to change for the labels of a node; None when no small change can help."""
        affinity = self._affinity_edits(view)
        return None if affinity is None else _edits((*self._label_edits(view), *affinity.edits))

    def toleration_edits(self, marks: Marks) -> Iterator[Edit]:
        """What would have to change for the taints of a node."""
        if marks.cordoned and not self._tolerations.verdict(UNSCHEDULABLE).matched:
            yield Edit(Depth.NODE, (), "`kubectl uncordon` of the node")
        for taint in marks.taints:
            if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not self._tolerations.verdict(taint).matched:
                moves = filter(None, (self._moved(taint, toleration) for toleration in self._spec.tolerations))
                value = f'="{taint.value}"' if taint.value else ""
                text = f"a toleration of {taint.key}{value} with effect {taint.effect}"
                yield min(moves, default=Edit(Depth.ADDITION, (), text))

    def _moved(self, taint: Taint, toleration: Toleration) -> Edit | None:
        compared = comparison(toleration.operator, self._gates)
        if compared is None or toleration.key != taint.key or toleration.effect not in ("", taint.effect):
            return None
        return _moved(compared, compared.values.value, taint.value, toleration.value, "")

    def _label_edits(self, view: NodeView) -> Iterator[Edit]:
        for key, value in self._spec.node_selector.items():
            label = view.labels.get(key)
            if label is None:
                yield Edit(Depth.REMOVAL, (), f"no `{key}: {value}` in nodeSelector")
            elif label != value:
                yield Edit(Depth.ADDITION, (), f"`{key}: {label}` instead of `{key}: {value}` in nodeSelector")

    def _affinity_edits(self, view: NodeView) -> _Edits | None:
        if self._terms is None:
            return _edits(())
        ways = [
            _edits(
                _requirement_edit(requirement, view)
                for requirement, term in requirements
                if not term.verdict(view.labels, view.name).matched
            )
            for fixed, requirements in self._terms
            if fixed is None or fixed.verdict(view.labels, view.name).matched
        ]
        return min(ways, default=None)

    def _split(self, spec: PodSpec) -> list[tuple[Term | None, list[tuple[NodeSelectorRequirement, Term]]]] | None:
        """Each term as the part that no edit is proposed for (fields, expressions), and its requirements one by one."""
        affinity = spec.affinity and spec.affinity.node_affinity
        required = affinity and affinity.required_during_scheduling_ignored_during_execution
        if not required:
            return None
        split = []
        for term in required.node_selector_terms:
            if term == _EMPTY:
                continue
            fixed = NodeSelectorTerm(match_fields=term.match_fields, match_cel_expressions=term.match_cel_expressions)
            singles = [(single, self._compiled(NodeSelectorTerm((single,)))) for single in term.match_expressions]
            split.append((None if fixed == _EMPTY else self._compiled(fixed), singles))
        return split

    def _compiled(self, term: NodeSelectorTerm) -> Term:
        return compile_term(term, self._gates)


def _requirement_edit(requirement: NodeSelectorRequirement, view: NodeView) -> Edit:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    label = view.labels.get(key)
    compared = COMPARISONS.get(operator)
    if label is not None and len(values) == 1 and compared:
        # Kubernetes' own Gt and Lt of node selectors read numbers more leniently.
        read = compared.values.value if compared.in_selectors else lenient_int64
        if edit := _moved(compared, read, label, values[0], f"{key} "):
            return edit
    if label is not None and operator == "In":
        return Edit(Depth.ADDITION, (), f"{label} among the values of `{key} In`")
    return Edit(Depth.REMOVAL, (), f"no requirement `{' '.join((key, operator, *values))}`")


def _moved(compared: Comparison, read: Callable[[str], Any], actual: str, bound: str, subject: str) -> Edit | None:
    """The edit to the nearest threshold that the actual value of a taint or label would pass."""
    value, old = read(actual), read(bound)
    nearest = None if value is None else compared.nearest(value)
    if nearest is None or old is None:
        return None
    name, distance = compared.name, compared.values.distance(value, old)
    return Edit(Depth.THRESHOLD, distance, f"`{subject}{name} {nearest}` instead of `{subject}{name} {bound}`")
