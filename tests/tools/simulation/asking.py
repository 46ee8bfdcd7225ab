"""Asks for simulations of small clusters, which are written as manifests or given as they were stored."""

from __future__ import annotations

import io
from typing import Any

import yaml

from moorage.api import manifests
from moorage.api.decode import from_manifest
from moorage.features import NONE_ON, Gates
from moorage.tools.cluster import Cluster, ClusterObject, read_cluster
from moorage.tools.simulation.changes import ClusterChange
from moorage.tools.simulation.result import Simulation
from moorage.tools.simulation.simulate import LONGEST, SimulationQuestion, simulate

Data = dict[str, Any]
ROOM = {"cpu": "4", "memory": "8Gi", "pods": "20"}


def node(name: str, *taints: Data, ready: str = "True", **labels: str) -> Data:
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": f"node-{name}", "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {"taints": list(taints)},
        "status": {"capacity": ROOM, "allocatable": ROOM, "conditions": conditions},
    }  # fmt: skip


def taint(key: str, effect: str = "NoExecute", value: str = "") -> Data:
    return {"key": key, "value": value, "effect": effect}


def spec(cpu: str = "1", **more: Any) -> Data:
    return {"containers": [{"name": "app", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}], **more}


def pod(name: str, on: str = "", *, owner: Data | None = None, labels: Data | None = None, **more: Any) -> Data:
    """A pod as it is stored: running when it is on a node."""
    metadata: Data = {"name": name, "namespace": "default", "uid": f"pod-{name}", "labels": labels or {}}
    metadata |= {"creationTimestamp": "2026-01-01T00:00:00Z"} | ({"ownerReferences": [owner]} if owner else {})
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status: Data = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [ready]}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": spec(**more) | ({"nodeName": on} if on else {}),
        "status": status if on else {"phase": "Pending"},
    }  # fmt: skip


def owned_by(kind: str, name: str, api_version: str = "apps/v1") -> Data:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"{kind}-{name}", "controller": True}


def deployment(name: str, replicas: int, kind: str = "Deployment", **more: Any) -> Data:
    """A workload that is written by hand."""
    template = {"metadata": {"labels": {"app": name}}, "spec": spec(**more)}
    selector = {"matchLabels": {"app": name}}
    count = {} if kind == "DaemonSet" else {"replicas": replicas}
    body = {**count, "selector": selector, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def budget(name: str, **spec: Any) -> Data:
    selector = {"selector": {"matchLabels": {"app": name}}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": selector | spec,
    }


def cluster_of(*objects: Data) -> Cluster:
    """A cluster as it is read from manifests."""
    text = io.BytesIO(yaml.safe_dump_all(objects).encode())
    return read_cluster(manifests.read(["-"], text))


def structs_of(*objects: Data) -> Cluster:
    """A cluster as it is read from a server: structs, without what they do not know."""
    found = (from_manifest(data) for data in objects)
    return Cluster([ClusterObject(each) for each in found if each is not None], is_complete=True)


def asked(cluster: Cluster, *changes: ClusterChange, gates: Gates = NONE_ON, seconds: float = LONGEST) -> Simulation:
    """The answer."""
    return simulate(SimulationQuestion(cluster, gates, changes, seconds=seconds))
