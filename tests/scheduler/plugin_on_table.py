"""One plugin alone on a node table, without a server: nodes and pods are put there, and it is asked."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
import numpy as np

from moorage.api.cluster import Namespace
from moorage.api.decode import convert
from moorage.api.meta import Object
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.client import Client, Informers
from moorage.client.events import Recorder
from moorage.features import ALL_ON
from moorage.scheduler.framework import Cycle, Fitting, Handle, Plugin, Reject, Skip
from moorage.scheduler.table.nodes import NodeTable
from moorage.scheduler.table.shape import PodInfo, Shapes

Data = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_numbers = itertools.count(1)


def exists(*keys: str) -> Data:
    """A selector of pods that have these labels."""
    return {"matchExpressions": [{"key": key, "operator": "Exists"} for key in keys]}


def one_of(key: str, *values: str, operator: str = "In") -> Data:
    """A selector of pods whose label has one of these values."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def term(key: str, selector: Data | None, **more: Any) -> Data:
    """A pod affinity term."""
    found = {"topologyKey": key, **more}
    return found if selector is None else found | {"labelSelector": selector}


def near(*terms: Data) -> Data:
    """Must be near."""
    return {"podAffinity": {REQUIRED: list(terms)}}


def far(*terms: Data) -> Data:
    """Must be far."""
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def weighted(*terms: tuple[int, Data]) -> Data:
    """Would like to be near, or, where the weight is below zero, far."""
    lists: dict[bool, list[Data]] = {True: [], False: []}
    for weight, each in terms:
        lists[weight > 0].append({"weight": abs(weight), "podAffinityTerm": each})
    found = {"podAffinity": {PREFERRED: lists[True]}, "podAntiAffinity": {PREFERRED: lists[False]}}
    return {name: value for name, value in found.items() if value[PREFERRED]}


def pod(labels: Mapping[str, str] | None = None, namespace: str = "default", node: str = "", **more: Any) -> Pod:
    """A pod; what is not metadata is its specification."""
    number = next(_numbers)
    metadata = {"name": f"pod-{number}", "uid": f"uid-{number}", "namespace": namespace, "labels": dict(labels or {})}
    metadata |= more.pop("metadata", {})
    return convert({"metadata": metadata, "spec": {"nodeName": node, **more}}, Pod)


def pods(text: str) -> list[Pod]:
    """Pods written as `node:label,label=value@namespace`; `!` at the end of one says that it is being deleted."""
    found = []
    for word in text.split():
        node, _, rest = word.rstrip("!").partition(":")
        names, _, namespace = rest.partition("@")
        labels = {key: value for key, _, value in (name.partition("=") for name in names.split(",") if name)}
        deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if word.endswith("!") else {}
        found.append(pod(labels, namespace or "default", node, metadata=deleted))
    return found


class PluginOnTable:
    """A plugin, the table, and what informers would tell."""

    def __init__(self, plugin: type[Plugin], nodes: Mapping[str, Mapping[str, str]] | None = None, **args: Any) -> None:
        client = cast(Client, None)
        self.table = NodeTable()
        self.shapes = Shapes(ALL_ON)
        self.woken: list[tuple[Object | None, Object | None]] = []
        self.handle = Handle(self.table, client, Informers(client), ALL_ON, cast(Recorder, None), wake=self._woken)
        self.plugin = plugin(self.handle, args)
        for name, labels in (nodes or {}).items():
            self.node(name, labels)

    def _woken(self, plugin: str, old: Object | None, new: Object | None) -> None:
        assert plugin == self.plugin.name
        self.woken.append((old, new))

    def node(self, name: str, labels: Mapping[str, str], *taints: Data) -> None:
        """Add or change a node."""
        data = {"metadata": {"name": name, "labels": dict(labels)}, "spec": {"taints": list(taints)}}
        node = convert(data, Node)
        self.told(node)
        self.table.set_node(node)

    def namespace(self, name: str, **labels: str) -> None:
        """Add or change a namespace."""
        self.told(convert({"metadata": {"name": name, "labels": labels}}, Namespace))

    def add(self, *given: Pod) -> list[PodInfo]:
        """Pods are on nodes now."""
        infos = [self.shapes.info(each) for each in given]
        for info in infos:
            self.table.replace_pod(info)
        return infos

    def told(self, item: Object) -> None:
        """An informer tells that an object is there or has changed."""
        version = msgspec.structs.replace(item.metadata, resource_version=str(next(_numbers)))
        self.handle.informers.of(type(item)).put(msgspec.structs.replace(item, metadata=version))

    def told_gone(self, item: Object) -> None:
        """An informer tells that an object is gone."""
        self.handle.informers.of(type(item)).remove(item)

    def cycle(self, given: Pod) -> Cycle:
        """An attempt to place a pod."""
        return Cycle(self.shapes.info(given), self.table, cast(Fitting, None))

    def reasons(self, given: Pod) -> dict[str, tuple[str, bool]]:
        """Why nodes will not do, and whether the removal of pods could help; nodes that will do are left out."""
        cycle = self.cycle(given)
        answer = self.plugin.pre_filter(cycle) if self.plugin.applies(cycle.shape) else Skip()
        if isinstance(answer, Reject):
            return {"": (answer.reason, answer.resolvable)}
        if isinstance(answer, Skip):
            return {}
        rows = self.table.alive.nonzero()[0]
        rejected = rows[~self.plugin.filter(cycle, rows)]
        found: dict[str, tuple[str, bool]] = {}
        for rejection in self.plugin.diagnose(cycle, rejected) if len(rejected) else ():
            for row in rejection.rows:
                assert found.setdefault(self.name(row), (rejection.reason, rejection.resolvable))[0] == rejection.reason
        assert sorted(found) == sorted(map(self.name, rejected))
        return found

    def scores(self, given: Pod, nodes: Iterable[str] = ()) -> dict[str, int] | None:
        """The normalised scores of nodes (all, unless some are named), or None when the plugin has nothing to say."""
        cycle = self.cycle(given)
        if not self.plugin.applies(cycle.shape) or isinstance(self.plugin.pre_score(cycle), Skip):
            return None
        named = [self.table.rows[name] for name in nodes]
        rows = np.array(named, np.intp) if named else self.table.alive.nonzero()[0]
        found = self.plugin.normalize(cycle, self.plugin.score(cycle, rows))
        return {self.name(row): int(score) for row, score in zip(rows, found, strict=True)}

    def name(self, row: int) -> str:
        """The node of a row."""
        node = self.table.nodes[row]
        assert node is not None
        return node.metadata.name
