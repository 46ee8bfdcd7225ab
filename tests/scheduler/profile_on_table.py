"""A profile on a node table, without a server and without a queue: nodes and pods are put there, and it decides."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
import numpy as np

from moorage.api.decode import convert
from moorage.api.meta import Object
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.client import Client, Informers
from moorage.client.events import Recorder
from moorage.features import ALL_ON, Gates
from moorage.scheduler.config import Configuration
from moorage.scheduler.cycle import CycleRunner, Evaluation, Placement
from moorage.scheduler.failures import message_of
from moorage.scheduler.framework import Cycle, Handle, Nomination, Skip, overrides
from moorage.scheduler.table.nodes import Index, NodeTable
from moorage.scheduler.table.shape import PodInfo, Shapes

Data = dict[str, Any]
ROOM = {"cpu": "4", "memory": "8Gi", "pods": "10"}
MINE = (
    "SchedulingGates", "PrioritySort", "NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts",
    "NodeResourcesFit", "DefaultPreemption", "NodeResourcesBalancedAllocation", "ImageLocality", "DefaultBinder",
)  # fmt: skip
"""The plugins that look at one node at a time."""
_numbers = itertools.count(1)


def node(
    name: str,
    labels: Mapping[str, str] | None = None,
    *taints: Data,
    room: Mapping[str, str] | None = None,
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
) -> Node:
    """A node; images are given by name, each with its size."""
    return convert(
        {
            "metadata": {"name": name, "labels": dict(labels or {})},
            "spec": {"taints": list(taints), "unschedulable": unschedulable},
            "status": {
                "allocatable": dict(ROOM if room is None else room),
                "images": [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()],
            },
        },
        Node,
    )


def pod(requests: Mapping[str, str] | None = None, **spec: Any) -> Pod:
    """A pod of one container that asks for so much; what else is given is its specification."""
    number = next(_numbers)
    metadata = {"name": f"pod-{number}", "namespace": "default", "uid": f"uid-{number}", **spec.pop("metadata", {})}
    container = {"name": "main", "image": "app", "resources": {"requests": dict(requests or {})}}
    status = spec.pop("status", {})
    return convert({"metadata": metadata, "spec": {"containers": [container], **spec}, "status": status}, Pod)


def configured(args: Mapping[str, Data] | None = None, plugins: tuple[str, ...] = MINE) -> Configuration:
    """A configuration with just these plugins, told so much."""
    return Configuration.of(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "plugins": {
                        "multiPoint": {"enabled": [{"name": each} for each in plugins], "disabled": [{"name": "*"}]}
                    },
                    "pluginConfig": [{"name": name, "args": given} for name, given in (args or {}).items()],
                }
            ],
        }
    )


class ProfileOnTable:
    """Decides about pods, and tells between which nodes chance decided."""

    def __init__(self, gates: Gates = ALL_ON, configuration: Configuration | None = None) -> None:
        client = cast(Client, None)
        self.table = NodeTable()
        self.shapes = Shapes(gates)
        self.handle = Handle(self.table, client, Informers(client), gates, cast(Recorder, None))
        self.handle.random.seed(1)
        self.profile = (configuration or configured()).profiles(self.handle)["default-scheduler"]
        self.runner = CycleRunner(self.profile, self.handle)
        self.tied: list[str] = []
        self.runner.pick = self._pick

    def _pick(self, rows: Index | Sequence[int]) -> int:
        self.tied = [self.name(int(row)) for row in rows]
        return int(rows[self.handle.random.randrange(len(rows))])

    def name(self, row: int) -> str:
        """The node of a row."""
        found = self.table.nodes[row]
        assert found is not None
        return found.metadata.name

    def info(self, given: Pod, on: str = "") -> PodInfo:
        """A pod with its shape, on a node if one is named."""
        info = self.shapes.info(given)
        return PodInfo(info.pod, info.shape, on)

    def told(self, item: Object) -> None:
        """An informer tells of an object."""
        version = msgspec.structs.replace(item.metadata, resource_version=str(next(_numbers)))
        self.handle.informers.of(type(item)).put(msgspec.structs.replace(item, metadata=version))

    def cycle(self, given: Pod) -> Cycle:
        """An attempt to place a pod."""
        return self.runner.start(self.info(given))

    def place(self, given: Pod) -> Placement:
        """What becomes of a pod."""
        self.tied = []
        return self.runner.place(self.cycle(given))

    def best(self, given: Pod) -> set[str]:
        """The nodes that a pod may be put on."""
        placement = self.place(given)
        if not placement.node:
            return set()
        assert not self.tied or placement.node in self.tied
        return set(self.tied or [placement.node])

    def message(self, given: Pod) -> str:
        """Why a pod cannot be placed."""
        return message_of(self.table.count, self.place(given))

    def nomination(self, given: Pod) -> Nomination:
        """How room would be made for a pod."""
        cycle = self.cycle(given)
        placement = self.runner.place(cycle)
        assert not placement.node
        return self.runner.post_filter(cycle, placement)[0]

    def evaluate(self, given: Pod) -> Evaluation:
        """What the plugins say about a pod and every node."""
        return self.runner.evaluate(self.info(given))


class AskedPlugin:
    """One plugin of a profile, on nodes with pods on them."""

    def __init__(
        self,
        plugin: str,
        nodes: Sequence[Node],
        there: Mapping[str, Sequence[Pod]] | None = None,
        args: Data | None = None,
        gates: Gates = ALL_ON,
    ) -> None:
        self.engine = ProfileOnTable(gates, configured({plugin: args or {}}))
        scores = [each.plugin for each in self.engine.profile.scores]
        self.plugin = next(each for each in (*self.engine.profile.filters, *scores) if each.name == plugin)
        for each in nodes:
            self.engine.table.set_node(each)
        for name, pods in (there or {}).items():
            for each_pod in pods:
                self.engine.table.add_pod(self.engine.info(each_pod, name))
        self.rows = np.array([self.engine.table.rows[each.metadata.name] for each in nodes], np.intp)

    def scores(self, given: Pod) -> list[int] | None:
        """The normalised scores of the nodes; None when the plugin has nothing to say about the pod."""
        cycle = self.engine.cycle(given)
        if not self.plugin.applies(cycle.shape) or isinstance(self.plugin.pre_score(cycle), Skip):
            return None
        found = self.plugin.score(cycle, self.rows)
        if overrides(type(self.plugin), "normalize"):
            found = self.plugin.normalize(cycle, found)
        return [int(each) for each in found]

    def refusals(self, given: Pod) -> list[tuple[list[str], bool]]:
        """Of each node: why it will not do, and whether the removal of pods could help."""
        cycle = self.engine.cycle(given)
        if not self.plugin.applies(cycle.shape):
            return [([], True) for _ in self.rows]
        rejected = self.rows[~self.plugin.filter(cycle, self.rows)]
        found = list(self.plugin.diagnose(cycle, rejected)) if len(rejected) else []
        return [
            (
                [each.reason for each in found if row in each.rows],
                all(each.resolvable for each in found if row in each.rows),
            )
            for row in self.rows
        ]

    def reasons(self, given: Pod) -> list[list[str]]:
        """Of each node: why it will not do."""
        return [reasons for reasons, _ in self.refusals(given)]
