"""What could be changed of a pod, or of a node, so that one refusal is no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec

from moorage.api.meta import Object
from moorage.api.node import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint
from moorage.api.pod import Affinity, Pod, PodAffinity, PodSpec, Toleration
from moorage.api.requests import CPU, PODS, amount, pod_requests
from moorage.api.wellknown import TAINT_UNSCHEDULABLE
from moorage.features import Gates
from moorage.match.operators import COMPARISONS, Comparison, comparison
from moorage.match.selector import compile_term
from moorage.match.tolerations import NO_EXECUTE, NO_SCHEDULE, Tolerations
from moorage.names import lenient_int64
from moorage.scheduler.asking import PluginRefusal
from moorage.scheduler.pods.spread import HARD, SOFT
from moorage.scheduler.table.nodes import NodeTable

_replace = msgspec.structs.replace
_EMPTY = NodeSelectorTerm()
_PORTS = range(1024, 65536)
_FAR = (2**63,)


class Depth(IntEnum):
    """How far an edit departs from what the author meant."""

    THRESHOLD = 1
    ADDITION = 2
    REMOVAL = 3
    NODE = 4
    ROOM = 5
    MORE_NODES = 6


class Edit(NamedTuple):
    """One change. Of two, the milder sorts first: by depth, then by how far a threshold moves."""

    depth: Depth
    distance: tuple[int, ...]
    text: str
    spec: Callable[[PodSpec], PodSpec] | None = None
    """What becomes of the pod's specification."""
    node: Callable[[Node], Node] | None = None
    """What becomes of the node."""
    command: str = ""
    """How a change of the cluster is made; `{node}` stands for the name of the node."""
    makes_room: bool = False
    """Whether pods have to leave the node; which ones is found out when the other edits are known."""
    put: tuple[Object, ...] = ()
    """Objects to add."""

    @property
    def order(self) -> tuple[int, tuple[int, ...], str]:
        """What edits are compared by."""
        return self.depth, self.distance, self.text

    @property
    def is_of_pod(self) -> bool:
        """Whether the pod is changed, and not the cluster."""
        return self.spec is not None


MAKE_ROOM = Edit(Depth.ROOM, (), "pods off node {node}", makes_room=True)
Alternatives = tuple[Edit, ...]
"""Edits of which each is a remedy against one refusal."""


class EditsOf:
    """The edits that could help one pod."""

    def __init__(self, pod: Pod, gates: Gates, table: NodeTable) -> None:
        self._spec, self._gates, self._table = pod.spec, gates, table
        self._tolerations = Tolerations(pod.spec.tolerations, gates)
        self._by_plugin: dict[str, Callable[[PluginRefusal, Node], Iterator[Alternatives]]] = {
            "TaintToleration": self._against_taint,
            "NodeUnschedulable": self._against_cordon,
            "NodeAffinity": self._against_labels,
            "NodeResourcesFit": self._against_shortage,
            "NodePorts": self._against_ports,
            "PodTopologySpread": self._against_spread,
            "InterPodAffinity": self._against_affinity,
        }

    def against(self, refusal: PluginRefusal) -> list[Alternatives] | None:
        """For each thing that must change the ways to do so; None when nothing is known to help."""
        node = self._table.nodes[int(refusal.told.rows[0])]
        finder = self._by_plugin.get(refusal.plugin)
        if node is None:
            return None
        found: list[Alternatives] = list(finder(refusal, node)) if finder else [(MAKE_ROOM,)]
        return found if all(found) else None

    def _against_cordon(self, _: PluginRefusal, __: Node) -> Iterator[Alternatives]:
        text = "`kubectl uncordon` of the node"
        yield (Edit(Depth.NODE, (), text, node=_uncordoned, command="kubectl uncordon {node}"),)

    def _against_taint(self, refusal: PluginRefusal, node: Node) -> Iterator[Alternatives]:
        for taint in node.spec.taints:
            if refusal.told.subject != f"taint {taint}" or taint.effect not in (NO_SCHEDULE, NO_EXECUTE):
                continue
            moves = [edit for number in range(len(self._spec.tolerations)) if (edit := self._moved(taint, number))]
            value = f'="{taint.value}"' if taint.value else ""
            text = f"a toleration of {taint.key}{value} with effect {taint.effect}"
            added = Toleration(taint.key, "Equal", taint.value, taint.effect) if taint.value else (
                Toleration(taint.key, "Exists", effect=taint.effect)
            )  # fmt: skip
            add = Edit(Depth.ADDITION, (), text, spec=_tolerating(added))
            yield (*moves, add, *self._node_edits(taint))

    def _moved(self, taint: Taint, number: int) -> Edit | None:
        toleration = self._spec.tolerations[number]
        compared = comparison(toleration.operator, self._gates)
        if compared is None or toleration.key != taint.key or toleration.effect not in ("", taint.effect):
            return None
        moved = nearest(compared, compared.values.value, taint.value, toleration.value)
        if moved is None:
            return None
        bound, distance = moved
        text = f"`{compared.name} {bound}` instead of `{compared.name} {toleration.value}`"

        def change(spec: PodSpec) -> PodSpec:
            tolerations = list(spec.tolerations)
            tolerations[number] = _replace(tolerations[number], value=bound)
            return _replace(spec, tolerations=tuple(tolerations))

        return Edit(Depth.THRESHOLD, distance, text, spec=change)

    def _node_edits(self, taint: Taint) -> Iterator[Edit]:
        """The taint with the nearest value that is tolerated, or without."""
        for toleration in self._spec.tolerations:
            if toleration.key != taint.key or toleration.effect not in ("", taint.effect) or toleration.expression:
                continue
            value, distance = self._tolerated_value(toleration, taint)
            other = _replace(taint, value=value)
            if other != taint and self._tolerations.verdict(other).matched:
                text = f"taint {other} instead of {taint} on node {{node}}"
                command = f"kubectl taint node {{node}} {other} --overwrite"
                yield Edit(Depth.NODE, distance, text, node=_retainting(taint, other), command=command)
        mark = f"{taint.key}:{taint.effect}-"
        text = f"no taint {taint} on node {{node}}"
        command = f"kubectl taint node {{node}} {mark}"
        yield Edit(Depth.NODE, _FAR, text, node=_retainting(taint, None), command=command)

    def _tolerated_value(self, toleration: Toleration, taint: Taint) -> tuple[str, tuple[int, ...]]:
        """The value nearest to that of a taint that a toleration is for, and how far it is away."""
        compared = comparison(toleration.operator, self._gates)
        if compared is None:
            return (toleration.value if toleration.operator in ("", "Equal") else taint.value), ()
        value, read = _passing(compared, toleration.value), compared.values.value
        if value is None:
            return taint.value, ()
        old = read(taint.value)
        return value, _FAR if old is None else compared.values.distance(read(value), old)

    def _against_labels(self, refusal: PluginRefusal, node: Node) -> Iterator[Alternatives]:
        if refusal.told.subject != "node affinity":
            yield ()
            return
        labels = node.metadata.labels
        for key, value in self._spec.node_selector.items():
            label = labels.get(key)
            if label == value:
                continue
            if label is None:
                edit = Edit(Depth.REMOVAL, (), f"no `{key}: {value}` in nodeSelector", spec=_selecting(key, None))
            else:
                text = f"`{key}: {label}` instead of `{key}: {value}` in nodeSelector"
                edit = Edit(Depth.ADDITION, (), text, spec=_selecting(key, label))
            yield edit, _labelled(key, value, label)
        yield from self._against_terms(node)

    def _against_terms(self, node: Node) -> Iterator[Alternatives]:
        """The fewest and mildest edits of one term; no edit is proposed for fields and expressions."""
        affinity = self._spec.affinity and self._spec.affinity.node_affinity
        required = affinity and affinity.required_during_scheduling_ignored_during_execution
        if not required:
            return
        labels, name, ways = node.metadata.labels, node.metadata.name, []
        for number, term in enumerate(required.node_selector_terms):
            fixed = NodeSelectorTerm(match_fields=term.match_fields, match_cel_expressions=term.match_cel_expressions)
            if term == _EMPTY or (
                fixed != _EMPTY and not compile_term(fixed, self._gates).verdict(labels, name).matched
            ):
                continue
            ways.append([
                self._requirement_edits(number, requirement, node)
                for requirement in term.match_expressions
                if not compile_term(NodeSelectorTerm((requirement,)), self._gates).verdict(labels, name).matched
            ])  # fmt: skip
        yield from min(ways, key=_difficulty, default=[()])

    def _requirement_edits(self, term: int, requirement: NodeSelectorRequirement, node: Node) -> Alternatives:
        key, operator, values = requirement.key, requirement.operator, requirement.values
        label = node.metadata.labels.get(key)
        text = f"no requirement `{' '.join((key, operator, *values))}`"
        edits = [Edit(Depth.REMOVAL, (), text, spec=_requiring(term, requirement, None))]
        compared = COMPARISONS.get(operator)
        if label is not None and len(values) == 1 and compared:
            # Kubernetes' own Gt and Lt of node selectors read numbers more leniently.
            read = compared.values.value if compared.in_selectors else lenient_int64
            if moved := nearest(compared, read, label, values[0]):
                text = f"`{key} {operator} {moved[0]}` instead of `{key} {operator} {values[0]}`"
                other = _replace(requirement, values=(moved[0],))
                edits.append(Edit(Depth.THRESHOLD, moved[1], text, spec=_requiring(term, requirement, other)))
            if (value := _passing(compared, values[0])) is not None:
                edits.append(_labelled(key, value, label))
        elif label is not None and operator == "In":
            other = _replace(requirement, values=(*values, label))
            text = f"{label} among the values of `{key} In`"
            edits.append(Edit(Depth.ADDITION, (), text, spec=_requiring(term, requirement, other)))
        if operator in ("In", "Exists"):
            edits.append(_labelled(key, values[0] if values else "true", label))
        return tuple(edits)

    def _against_shortage(self, refusal: PluginRefusal, _: Node) -> Iterator[Alternatives]:
        resource, row = refusal.told.subject, int(refusal.told.rows[0])
        line = self._table.line_of(resource)
        free = int(self._table.allocatable[line][row] - self._table.requested[line][row])
        if resource == PODS:
            yield (MAKE_ROOM,)
            return
        asked = pod_requests(self._spec).get(resource, 0)
        lowered = self._lowered(resource, asked, free)
        yield (lowered, MAKE_ROOM) if lowered else (MAKE_ROOM,)

    def _lowered(self, resource: str, asked: int, free: int) -> Edit | None:
        """The largest request of a container lowered until the pod fits into what is free."""
        amounts = [amount(resource, each.resources.requests.get(resource, 0)) for each in self._spec.containers]
        if not any(amounts) or self._spec.resources is not None:
            return None
        place = amounts.index(max(amounts))
        text = _written(resource, amounts[place] - (asked - free))
        if free <= 0 or text is None:
            return None
        container = self._spec.containers[place]
        old = container.resources.requests[resource]

        def change(spec: PodSpec) -> PodSpec:
            containers = list(spec.containers)
            resources = containers[place].resources
            requests = {**resources.requests, resource: text}
            containers[place] = _replace(containers[place], resources=_replace(resources, requests=requests))
            return _replace(spec, containers=tuple(containers))

        words = f"`{resource}: {text}` instead of `{resource}: {old}` in the requests of container {container.name}"
        return Edit(Depth.ADDITION, (1000 * (asked - free) // asked,), words, spec=change)

    def _against_ports(self, refusal: PluginRefusal, _: Node) -> Iterator[Alternatives]:
        row, spec = int(refusal.told.rows[0]), self._spec
        taken = {port.port for port in self._table.ports.get(row, {})}
        own = {port.host_port for container in spec.containers for port in container.ports}
        for number, container in enumerate(spec.containers):
            for place, port in enumerate(container.ports):
                if refusal.told.subject == f"port {port.host_port}/{port.protocol or 'TCP'}":
                    other = next((each for each in _PORTS if each > port.host_port and each not in taken | own), None)
                    moved = (_on_port(number, place, port.host_port, other),) if other else ()
                    yield (*moved, MAKE_ROOM)

    def _against_spread(self, refusal: PluginRefusal, _: Node) -> Iterator[Alternatives]:
        for number, constraint in enumerate(self._spec.topology_spread_constraints):
            key = constraint.topology_key
            if constraint.when_unsatisfiable == HARD and _is_about(refusal, key):
                text = f"`whenUnsatisfiable: {SOFT}` for the topology spread by {key}"
                yield Edit(Depth.REMOVAL, (), text, spec=_spreading_softly(number)), MAKE_ROOM

    def _against_affinity(self, refusal: PluginRefusal, _: Node) -> Iterator[Alternatives]:
        affinity, found = self._spec.affinity or Affinity(), False
        for field, subject in (("pod_affinity", "pod affinity"), ("pod_anti_affinity", "pod anti-affinity")):
            terms = (getattr(affinity, field) or PodAffinity()).required_during_scheduling_ignored_during_execution
            for term in terms:
                if refusal.told.subject == subject and _is_about(refusal, term.topology_key):
                    found = True
                    text = f"no required {subject} by {term.topology_key}"
                    edit = Edit(Depth.REMOVAL, (), text, spec=_without_term(field, term))
                    yield (edit, MAKE_ROOM) if subject != "pod affinity" else (edit,)
        if not found:
            yield (MAKE_ROOM,)


def _difficulty(problems: list[Alternatives]) -> tuple[int, int]:
    return len(problems), sum(min(edit.depth for edit in edits) for edits in problems)


def _is_about(refusal: PluginRefusal, key: str) -> bool:
    return isinstance(refusal.told.kind, tuple) and key in refusal.told.kind


def nearest(
    compared: Comparison, read: Callable[[str], Any], actual: str, bound: str
) -> tuple[str, tuple[int, ...]] | None:
    """The nearest threshold that the actual value of a taint or label would pass, and how far it is moved."""
    value, old = read(actual), read(bound)
    nearest = None if value is None else compared.nearest(value)
    return None if nearest is None or old is None else (nearest, compared.values.distance(value, old))


def _passing(compared: Comparison, bound: str) -> str | None:
    """The nearest value that passes a threshold."""
    value = compared.values.value(bound)
    if value is None or compared.inclusive:
        return None if value is None else bound
    return compared.values.above(value) if compared.from_below else compared.values.below(value)


def _written(resource: str, value: int) -> str | None:
    """An amount as a quantity, rounded down; None when nothing is left of it."""
    if value <= 0:
        return None
    if resource == CPU:
        return f"{value}m"
    return f"{value >> 20}Mi" if value >> 20 else str(value)


def _tolerating(toleration: Toleration) -> Callable[[PodSpec], PodSpec]:
    return lambda spec: _replace(spec, tolerations=(*spec.tolerations, toleration))


def _uncordoned(node: Node) -> Node:
    taints = tuple(taint for taint in node.spec.taints if taint.key != TAINT_UNSCHEDULABLE)
    return _replace(node, spec=_replace(node.spec, unschedulable=False, taints=taints))


def _retainting(taint: Taint, other: Taint | None) -> Callable[[Node], Node]:
    def change(node: Node) -> Node:
        taints = tuple(other if each == taint else each for each in node.spec.taints if other or each != taint)
        return _replace(node, spec=_replace(node.spec, taints=tuple(each for each in taints if each is not None)))

    return change


def _labelled(key: str, value: str, old: str | None) -> Edit:
    def change(node: Node) -> Node:
        labels = {**node.metadata.labels, key: value}
        return _replace(node, metadata=_replace(node.metadata, labels=labels))

    overwrite = " --overwrite" if old is not None else ""
    command = f"kubectl label node {{node}} {key}={value}{overwrite}"
    return Edit(Depth.NODE, (), f"label {key}={value} on node {{node}}", node=change, command=command)


def _selecting(key: str, value: str | None) -> Callable[[PodSpec], PodSpec]:
    def change(spec: PodSpec) -> PodSpec:
        selector = {name: each for name, each in spec.node_selector.items() if name != key}
        return _replace(spec, node_selector=selector if value is None else {**spec.node_selector, key: value})

    return change


def _requiring(
    term: int, old: NodeSelectorRequirement, new: NodeSelectorRequirement | None
) -> Callable[[PodSpec], PodSpec]:
    """Another requirement in a term, or none; a term that demands nothing more is left out, with all others."""

    def change(spec: PodSpec) -> PodSpec:
        assert spec.affinity is not None
        assert spec.affinity.node_affinity is not None
        required = spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
        assert required is not None
        terms = list(required.node_selector_terms)
        kept = (new if each == old else each for each in terms[term].match_expressions)
        terms[term] = _replace(terms[term], match_expressions=tuple(each for each in kept if each is not None))
        selector: NodeSelector | None = NodeSelector(tuple(terms))
        if terms[term] == _EMPTY:
            selector = None
        node_affinity = _replace(
            spec.affinity.node_affinity, required_during_scheduling_ignored_during_execution=selector
        )
        return _replace(spec, affinity=_replace(spec.affinity, node_affinity=node_affinity))

    return change


def _on_port(container: int, place: int, old: int, new: int) -> Edit:
    def change(spec: PodSpec) -> PodSpec:
        containers = list(spec.containers)
        ports = list(containers[container].ports)
        inside = new if ports[place].container_port == old and spec.host_network else ports[place].container_port
        ports[place] = _replace(ports[place], host_port=new, container_port=inside)
        containers[container] = _replace(containers[container], ports=tuple(ports))
        return _replace(spec, containers=tuple(containers))

    return Edit(Depth.ADDITION, (new - old,), f"`hostPort: {new}` instead of `hostPort: {old}`", spec=change)


def _spreading_softly(number: int) -> Callable[[PodSpec], PodSpec]:
    def change(spec: PodSpec) -> PodSpec:
        constraints = list(spec.topology_spread_constraints)
        constraints[number] = _replace(constraints[number], when_unsatisfiable=SOFT)
        return _replace(spec, topology_spread_constraints=tuple(constraints))

    return change


def _without_term(field: str, term: Any) -> Callable[[PodSpec], PodSpec]:
    name = "required_during_scheduling_ignored_during_execution"

    def change(spec: PodSpec) -> PodSpec:
        assert spec.affinity is not None
        part = getattr(spec.affinity, field)
        left = tuple(each for each in getattr(part, name) if each != term)
        return _replace(spec, affinity=_replace(spec.affinity, **{field: _replace(part, **{name: left})}))

    return change
