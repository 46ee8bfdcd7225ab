"""How long `moorage why` takes on a large cluster: the first pod, each further one, and many that wait.

python bench/answers.py [--nodes 5000] [--pods 50000] [--pending 1000]
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from moorage.api import kinds
from moorage.api.decode import convert
from moorage.api.meta import Object
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.features import ALL_ON
from moorage.tools.cluster import Cluster, ClusterObject
from moorage.tools.snapshot import SnapshotWriter, reduce_page
from moorage.tools.why import Explainer

T = TypeVar("T")
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def node(number: int, chance: random.Random) -> dict[str, Any]:
    labels = {HOST: f"node-{number}", ZONE: f"zone-{number % 5}", "pool": f"pool-{number % 20}"}
    taints = [{"key": "sla", "value": str(chance.randrange(900, 1000)), "effect": "NoSchedule"}] if number % 4 else []
    room = {"cpu": str(chance.choice((8, 16, 32))), "memory": "64Gi", "pods": "110"}
    return {
        "metadata": {"name": f"node-{number}", "uid": f"node-{number}", "labels": labels, "resourceVersion": "1"},
        "spec": {"taints": taints},
        "status": {"allocatable": room, "capacity": room},
    }


def pod(name: str, app: int, node_name: str = "", **spec: Any) -> dict[str, Any]:
    requests = spec.pop("requests", {"cpu": f"{100 + 50 * (app % 20)}m", "memory": f"{128 + 64 * (app % 30)}Mi"})
    return {
        "metadata": {"name": name, "namespace": f"team-{app % 40}", "uid": name, "labels": {"app": f"app-{app}"},
                     "resourceVersion": "1"},
        "spec": {"containers": [{"name": "main", "image": "app:1", "resources": {"requests": requests}}],
                 "tolerations": [{"key": "sla", "operator": "Exists"}], "nodeName": node_name, **spec},
        "status": {"phase": "Running" if node_name else "Pending"},
    }  # fmt: skip


def waiting(number: int) -> dict[str, Any]:
    """A pod that waits, of one of some hundred sorts."""
    sort = number % 200
    spec: dict[str, Any] = {"tolerations": [{"key": "sla", "operator": "Gt", "value": str(990 + sort % 20)}]}
    if sort % 3 == 0:
        spec["nodeSelector"] = {"pool": f"pool-{sort % 25}"}
    if sort % 3 == 1:
        spec["requests"] = {"cpu": str(10 + sort % 60), "memory": "1Gi"}
    if sort % 5 == 0:
        spec["topologySpreadConstraints"] = [{
            "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": f"app-{sort}"}},
        }]  # fmt: skip
    return pod(f"waiting-{number}", sort, **spec)


def timed(what: str, work: Callable[[], T]) -> T:
    start, cpu = time.perf_counter(), time.process_time()
    result = work()
    print(f"{what:52} {time.perf_counter() - start:8.3f} s  {time.process_time() - cpu:8.3f} s of CPU")
    return result


def commands(raw_nodes: bytes, raw_pods: bytes) -> None:
    """The command itself, from a snapshot file: with the start of Python, imports and reading."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.gz"
        with file.open("wb") as stream:
            writer = SnapshotWriter(stream, datetime.now(UTC), ALL_ON)
            for kind, raw in (("Node", raw_nodes), ("Pod", raw_pods)):
                row = kinds.row("v1", kind)
                writer.add(row, reduce_page(row, b'{"metadata":{},"items":' + raw + b"}"))
            writer.end({})
        for what in (["waiting-1"], ["--pending"]):
            command = [sys.executable, "-m", "moorage", "why", *what, "-f", str(file)]
            start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
            seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"{'moorage why ' + ' '.join(what) + ' -f SNAPSHOT':52} {seconds:8.3f} s  {cpu:8.3f} s of CPU")
    print(f"memory: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MiB at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--pending", type=int, default=1000)
    given = parser.parse_args()
    chance = random.Random(1)
    nodes = [node(number, chance) for number in range(given.nodes)]
    pods = [pod(f"pod-{number}", number % 500, f"node-{number % given.nodes}") for number in range(given.pods)]
    pods += [waiting(number) for number in range(given.pending)]
    raw_nodes, raw_pods = (msgspec.json.encode(each) for each in (nodes, pods))
    del nodes, pods

    def decoded() -> Cluster:
        found: list[Object] = [*msgspec.json.decode(raw_nodes, type=list[Node])]
        found += msgspec.json.decode(raw_pods, type=list[Pod])
        return Cluster([ClusterObject(each) for each in found], is_complete=True)

    print(f"{given.nodes} nodes, {given.pods} pods, {given.pending} that wait")
    cluster = timed("decode", decoded)
    items = [item for item in cluster.items if isinstance(item.object, Pod) and not item.object.spec.node_name]
    hard = ClusterObject(convert(pod("hard", 7, requests={"cpu": "100"}), Pod))
    easy = ClusterObject(convert(pod("easy", 8), Pod))
    cluster.items += [hard, easy]
    explainer = timed("fill the scheduler", lambda: Explainer(cluster, ALL_ON, items=[easy, hard, *items]))
    answers = explainer.explain_all()
    timed("one pod that fits", lambda: next(answers))
    timed("one pod that fits nowhere, with the smallest change", lambda: next(answers))
    timed(f"{given.pending} pods that wait", lambda: list(answers))
    commands(raw_nodes, raw_pods)


if __name__ == "__main__":
    main()
