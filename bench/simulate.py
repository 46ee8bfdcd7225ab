"""How long `moorage simulate` takes on a large cluster: a drain of many nodes whose pods have disruption budgets.

python bench/simulate.py [--nodes 5000] [--pods 50000] [--drained 100]
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

from moorage.api.decode import from_manifest
from moorage.features import NONE_ON
from moorage.garbage import collect_seldom
from moorage.tools.cluster import Cluster, ClusterObject
from moorage.tools.simulation.changes import DrainNodes
from moorage.tools.simulation.simulate import SimulationQuestion, simulate

Data = dict[str, Any]
REPLICAS = 50
CREATED = "2026-01-01T00:00:00Z"
ROOM = {"cpu": "16", "memory": "64Gi", "pods": "110"}
SPEC = {"containers": [{"name": "app", "image": "app:1", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]}
RUNNING = {
    "phase": "Running", "startTime": CREATED,
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": CREATED}],
}  # fmt: skip
STATUS = {"replicas": REPLICAS, "readyReplicas": REPLICAS, "availableReplicas": REPLICAS, "observedGeneration": 1}


def manifest(kind: str, name: str, owner: tuple[str, str] = ("", ""), api_version: str = "v1", **fields: Any) -> Data:
    metadata = {
        "name": name, "namespace": "default", "uid": f"{kind}-{name}", "creationTimestamp": CREATED, "generation": 1,
        **fields.pop("metadata", {}),
    }  # fmt: skip
    if owner[0]:
        above = {"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "uid": "-".join(owner)}
        metadata["ownerReferences"] = [{**above, "controller": True, "blockOwnerDeletion": True}]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def node(number: int, drained: int) -> Data:
    labels = {"kubernetes.io/hostname": f"node-{number}", "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    labels["drained"] = str(number < drained).lower()
    ready = [{"type": "Ready", "status": "True"}]
    status = {"capacity": ROOM, "allocatable": ROOM, "conditions": ready}
    return manifest("Node", f"node-{number}", metadata={"namespace": "", "labels": labels}, spec={}, status=status)


def workload(number: int, nodes: int) -> list[Data]:
    """A Deployment with its ReplicaSet, its pods and a disruption budget."""
    name, labels = f"app-{number}", {"app": f"app-{number}", "pod-template-hash": "x"}
    chosen = {"matchLabels": {"app": name}}
    template = {"metadata": {"labels": {"app": name}}, "spec": SPEC}
    hashed = {"metadata": {"labels": labels}, "spec": SPEC}
    body = {"replicas": REPLICAS, "selector": chosen, "template": template}
    owned = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": hashed}
    found = [
        manifest("Deployment", name, api_version="apps/v1", spec=body, status=STATUS | {"updatedReplicas": REPLICAS}),
        manifest("ReplicaSet", f"{name}-x", ("Deployment", name), "apps/v1", metadata={"labels": labels}, spec=owned,
                 status=STATUS),
        manifest("PodDisruptionBudget", name, api_version="policy/v1", spec={"maxUnavailable": 5, "selector": chosen}),
    ]  # fmt: skip
    for replica in range(REPLICAS):
        place = f"node-{(number * REPLICAS + replica) % nodes}"
        found.append(
            manifest("Pod", f"{name}-x-{replica}", ("ReplicaSet", f"{name}-x"),
                     metadata={"labels": labels, "generateName": f"{name}-x-"}, spec={**SPEC, "nodeName": place},
                     status=RUNNING)
        )  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--drained", type=int, default=100)
    given = parser.parse_args()
    objects = [node(number, given.drained) for number in range(given.nodes)]
    for number in range(given.pods // REPLICAS):
        objects += workload(number, given.nodes)
    items = [ClusterObject(each) for each in map(from_manifest, objects) if each is not None]
    del objects
    collect_seldom()
    start, cpu = time.perf_counter(), time.process_time()
    question = SimulationQuestion(Cluster(items, is_complete=True), NONE_ON, [DrainNodes("drained=true")])
    result = simulate(question)
    print(
        f"{given.nodes} nodes, {given.pods} pods, {given.drained} nodes drained: {len(result.after.moved)} pods moved"
    )
    print(f"{time.perf_counter() - start:.1f} s, {time.process_time() - cpu:.1f} s of CPU")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")


if __name__ == "__main__":
    main()
