"""Topology spread constraints of pods, own or default ones, and which nodes count for each."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from moorage.api.decode import convert
from moorage.api.labels import NOTHING, LabelMatcher, Labels, Requirement, from_struct
from moorage.api.meta import Wire
from moorage.api.node import Node, Taint
from moorage.api.pod import Pod, TopologySpreadConstraint
from moorage.client import Informers
from moorage.scheduler.pods.owners import PodOwners
from moorage.scheduler.pods.terms import Pick
from moorage.scheduler.table.columns import Answers
from moorage.scheduler.table.nodes import ALL, HOSTNAME, ZONE, Mask, NodeTable
from moorage.scheduler.table.selection import RowSelection
from moorage.scheduler.table.shape import FINISHED, PodInfo, Shape

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
_SYSTEM = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SOFT, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SOFT, max_skew=5),
)
_SPREADS_MAX = 256


class SpreadConstraint(NamedTuple):
    """A constraint of a pod, with its selector read."""

    topology_key: str
    max_skew: int
    min_domains: int
    pick: Pick
    honors_affinity: bool
    honors_taints: bool


class Spread:
    """Constraints that pods of a shape have together, and which nodes count for each of them."""

    def __init__(self, constraints: tuple[SpreadConstraint, ...], shape: Shape, *, needs_all: bool) -> None:
        self.constraints = constraints
        self.needs_all = needs_all
        """Whether a node must have all of the labels to count for any of the constraints."""
        self._selector, self._tolerations = shape.selector, shape.tolerations
        selects = shape.selector.terms is not None or bool(shape.selector.always)
        self._selects = selects and any(each.honors_affinity for each in constraints)
        self._selection: RowSelection | None = None
        self._tolerated: Answers[tuple[Taint, ...]] | None = None
        self._made_for = (-1, -1)
        self.counted: list[Mask] = []
        """The rows that count, for each constraint."""
        self.values: list[NDArray[np.intp]] = []
        """The numbers of the label's values on these rows."""

    def renew(self, table: NodeTable) -> None:
        """Find out which nodes count, when they have changed."""
        now = table.places, table.epoch
        if self._made_for == now:
            return
        codes = [table.labels(each.topology_key).codes for each in self.constraints]
        base = table.alive
        for column in codes if self.needs_all else ():
            base = base & (column != 0)
        self.counted, self.values = [], []
        for constraint, column in zip(self.constraints, codes, strict=True):
            mask = base
            if constraint.honors_affinity and self._selects:
                mask = mask & self._selected(table)
            if constraint.honors_taints:
                mask = mask & self._untainted(table)
            self.counted.append(mask)
            self.values.append(np.flatnonzero(np.bincount(column[mask])))
        self._made_for = now

    def _selected(self, table: NodeTable) -> Mask:
        selector = self._selector
        if self._selection is None:
            self._selection = RowSelection(
                table,
                lambda labels, name: bool(selector.verdict(labels, name).matched),
                selector.keys,
                reads_name=selector.reads_name,
                cost=selector.cost,
            )
        return self._selection.answers(ALL).astype(np.bool_)

    def _untainted(self, table: NodeTable) -> Mask:
        tolerations = self._tolerations
        if self._tolerated is None or self._tolerated.column is not table.taints:
            self._tolerated = Answers(
                table.taints,
                lambda taints: tolerations.first_untolerated(taints) is None,
                np.bool_,
                tolerations.cost,
                len,
            )
        return self._tolerated[ALL].astype(np.bool_, copy=False)

    def counts_differently(self, old: Pod | None, new: Pod | None) -> bool:
        """Whether a change of a pod makes a difference to some constraint."""
        return any(_counts(each.pick, old) != _counts(each.pick, new) for each in self.constraints)

    def reads_differently(self, old: Node | None, new: Node | None) -> bool:
        """Whether a change of a node makes a difference to some constraint."""
        keys = {each.topology_key for each in self.constraints}
        before, after = (node is not None and node.metadata.labels.keys() >= keys for node in (old, new))
        if old is None or new is None or before != after:
            return before or after
        if not after:
            return False
        was, now = old.metadata.labels, new.metadata.labels
        if any(was[key] != now[key] for key in keys) or (self._selects and was != now):
            return True
        return old.spec.taints != new.spec.taints and any(each.honors_taints for each in self.constraints)


class Spreads(NamedTuple):
    """The hard and the soft constraints of a pod."""

    hard: Spread | None
    soft: Spread | None


NONE = Spreads(None, None)


class PodTopologySpreadArgs(Wire):
    """The arguments of PodTopologySpread."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"


class Constraints:
    """The constraints of pods; pods of a service or workload without any get the default ones."""

    def __init__(self, informers: Informers, args: Mapping[str, Any]) -> None:
        spread_args = convert(dict(args), PodTopologySpreadArgs)
        _check(spread_args)
        self._is_system = spread_args.defaulting_type == "System"
        self._defaults = _SYSTEM if self._is_system else spread_args.default_constraints
        self._owners = PodOwners(informers) if self._defaults else None
        self._known: WeakKeyDictionary[Shape, dict[Hashable, Spreads]] = WeakKeyDictionary()

    def may_have(self, shape: Shape) -> bool:
        """Whether pods of a shape can have constraints."""
        return bool(shape.spec.topology_spread_constraints or self._defaults)

    def of(self, info: PodInfo) -> Spreads:
        """The constraints of a pod. Raises SelectorError."""
        own = info.shape.spec.topology_spread_constraints
        metadata = info.pod.metadata
        selector = None
        if own:
            alike = (metadata.labels.get(key) for each in own for key in each.match_label_keys)
            key: Hashable = (metadata.namespace, *alike)
        else:
            selector = self._owners.selector(info.pod) if self._owners else None
            if selector is None:
                return NONE
            key = metadata.namespace, selector
        known = self._known.setdefault(info.shape, {})
        spreads = known.get(key)
        if spreads is None:
            if len(known) >= _SPREADS_MAX:
                known.clear()
            spreads = known[key] = Spreads(self._read(info, HARD, selector), self._read(info, SOFT, selector))
        return spreads

    def _read(self, info: PodInfo, action: str, selector: LabelMatcher | None) -> Spread | None:
        own = info.shape.spec.topology_spread_constraints
        metadata = info.pod.metadata
        constraints = tuple(
            SpreadConstraint(
                each.topology_key,
                each.max_skew,
                1 if each.min_domains is None else each.min_domains,
                Pick.of([metadata.namespace], selector or _selector(each, metadata.labels)),
                each.node_affinity_policy in (None, "Honor"),
                each.node_taints_policy == "Honor",
            )
            for each in own or self._defaults
            if each.when_unsatisfiable == action
        )
        return Spread(constraints, info.shape, needs_all=bool(own) or not self._is_system) if constraints else None


def _check(args: PodTopologySpreadArgs) -> None:
    if args.defaulting_type not in ("System", "List"):
        raise ValueError(f"defaultingType: {args.defaulting_type!r} is neither System nor List")
    if args.defaulting_type == "System" and args.default_constraints:
        raise ValueError("defaultConstraints: must be empty unless defaultingType is List")
    for number, each in enumerate(args.default_constraints):
        problems = {
            "maxSkew: must be greater than 0": each.max_skew <= 0,
            "topologyKey: must be given": not each.topology_key,
            f"whenUnsatisfiable: must be {HARD} or {SOFT}": each.when_unsatisfiable not in (HARD, SOFT),
            "labelSelector: must not be set, what the pod belongs to selects": each.label_selector is not None,
        }
        for problem, is_there in problems.items():
            if is_there:
                raise ValueError(f"defaultConstraints[{number}].{problem}")


def _selector(constraint: TopologySpreadConstraint, labels: Labels) -> LabelMatcher:
    """The selector of a constraint, with the pod's own values of `matchLabelKeys`."""
    selector = from_struct(constraint.label_selector)
    alike = [Requirement(key, "=", (labels[key],)) for key in constraint.match_label_keys if key in labels]
    if selector is NOTHING or not alike:
        return selector
    return LabelMatcher([*alike, *selector.requirements])


def _counts(pick: Pick, pod: Pod | None) -> bool:
    """Whether a pod is picked, runs somewhere and is not about to end."""
    if pod is None or not pod.spec.node_name or pod.status.phase in FINISHED:
        return False
    metadata = pod.metadata
    return metadata.deletion_timestamp is None and pick.matches(metadata.namespace, metadata.labels)
