"""Clusters and changes at random, with room for all pods: no choice among equal nodes decides who ends where."""

from __future__ import annotations

import random
from typing import Any

from moorage.tools.simulation.changes import (
    AddNodes,
    ClusterChange,
    CordonNodes,
    DeleteObject,
    DrainNodes,
    LabelNodes,
    NamedObject,
    RemoveNodes,
    ScaleWorkload,
    TaintNodes,
)

Data = dict[str, Any]
ZONES = ("a", "b", "c")
TAINTS = (("gpu", "a100"), ("sla", "990"), ("sla", "900"), ("readiness.io/cni", ""), ("runtime", "2.1.4"))
EFFECTS = ("NoSchedule", "NoExecute", "NoExecute", "PreferNoSchedule")
TOLERATIONS: tuple[list[Data], ...] = (
    [], [], [],
    [{"key": "gpu", "operator": "Exists"}],
    [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 40}],
    [{"key": "sla", "operator": "Gt", "value": "950"}],
    [{"key": "sla", "operator": "Lt", "value": "950", "effect": "NoExecute", "tolerationSeconds": 20}],
    [{"key": "readiness.io/*", "operator": "Exists"}],
    [{"key": "runtime", "operator": "SemverGt", "value": "2.0"}],
    [{"expression": 'taint.key == "sla"'}],
    [{"operator": "Exists"}],
)  # fmt: skip
SELECTORS: tuple[Data, ...] = ({}, {}, {}, {"nodeSelector": {"zone": "a"}}, {"nodeSelector": {"zone": "nowhere"}})
SORTS = ("taint", "taint", "drain", "drain", "cordon", "remove", "add", "scale", "label", "delete")
WORKLOADS = ("Deployment", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod")


class RandomCluster:
    """A cluster, and changes to it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.nodes = [self._node(f"node-{number}") for number in range(self._random.randint(3, 6))]
        self.workloads = [self._workload(f"w{number}") for number in range(self._random.randint(3, 6))]
        self.budgets = [self._budget(each) for each in self.workloads if self._random.random() < 0.3]

    def _node(self, name: str) -> Data:
        room = {"cpu": "64", "memory": "64Gi", "pods": "110"}
        taints = [self._taint()] if self._random.random() < 0.3 else []
        labels = {"kubernetes.io/hostname": name, "zone": self._random.choice(ZONES)}
        return {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints}, "status": {"capacity": room, "allocatable": room},
        }  # fmt: skip

    def _taint(self) -> Data:
        key, value = self._random.choice(TAINTS)
        return {"key": key, "value": value, "effect": self._random.choice(EFFECTS)}

    def _workload(self, name: str) -> Data:
        choose = self._random.choice
        kind = choose(WORKLOADS)
        requests = {"cpu": choose(("100m", "100m", "100m", "99"))}
        spec = {
            "containers": [{"name": "app", "image": "pause:3.10", "resources": {"requests": requests}}],
            "tolerations": choose(TOLERATIONS), **choose(SELECTORS),
        }  # fmt: skip
        if kind == "Pod":
            return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}
        selector, template = {"matchLabels": {"app": name}}, {"metadata": {"labels": {"app": name}}, "spec": spec}
        more: Data = {} if kind == "DaemonSet" else {"replicas": self._random.randint(1, 6)}
        more |= {"serviceName": name, "podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
        body = {"selector": selector, "template": template, **more}
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}

    def _budget(self, workload: Data) -> Data:
        name = workload["metadata"]["name"]
        spec = {"selector": {"matchLabels": {"app": name}}, "minAvailable": self._random.randint(0, 3)}
        return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}

    def changes(self) -> list[ClusterChange]:
        """Some changes, of which each can be made after the others."""
        names = [each["metadata"]["name"] for each in self.nodes]
        self._random.shuffle(names)
        scaled = [each for each in self.workloads if "replicas" in each["spec"]]
        made: list[ClusterChange] = []
        for _ in range(self._random.randint(1, 3)):
            match self._random.choice(SORTS):
                case "taint":
                    taint = self._taint()
                    text = f"{taint['key']}={taint['value']}:{taint['effect']}"
                    made.append(TaintNodes.parse(names[0], text))
                case "drain":
                    made.append(DrainNodes(names[0]))
                case "cordon":
                    made.append(CordonNodes(names[0]))
                case "label":
                    made.append(LabelNodes(names[0], "zone", self._random.choice((*ZONES, None))))
                case "add":
                    made.append(AddNodes(self._random.randint(1, 2), names[0]))
                case "remove" if len(names) > 2:
                    made.append(RemoveNodes(names.pop(0)))
                case "scale" if scaled:
                    what = self._random.choice(scaled)
                    made.append(ScaleWorkload(_named(what), self._random.randint(0, 8)))
                case "delete" if scaled:
                    what = scaled.pop()
                    made.append(DeleteObject(_named(what)))
        return made


def _named(workload: Data) -> NamedObject:
    return NamedObject.parse(f"{workload['kind']}/{workload['metadata']['name']}", "default")
