"""A whole control plane under load: hollow nodes and Deployments, at rest, and when a tenth of the nodes is tainted."""

from __future__ import annotations

import argparse
import json
import os
import re
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from serving import Serving, serving

NODES, PODS, DEPLOYMENTS = 1000, 20_000, 20
REST, SETTLE, POLL = 30.0, 15.0, 0.5
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments"
TAINT = {"key": "example.com/broken", "value": "yes", "effect": "NoExecute"}
Data = dict[str, Any]


class Cluster:
    def __init__(self, server: Serving) -> None:
        self._server = server
        self._trust = ssl.create_default_context(cafile=server.authority)

    def ask(self, method: str, path: str, body: Data | None = None) -> bytes:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._server.token}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._server.url + path, data, headers, method=method)
        with urlopen(request, context=self._trust, timeout=120) as answer:
            content: bytes = answer.read()
            return content

    def items(self, path: str) -> list[Data]:
        items: list[Data] = json.loads(self.ask("GET", path))["items"]
        return items

    def deploy(self, number: int, replicas: int) -> None:
        labels = {"app": f"load-{number}"}
        container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        self.ask("POST", DEPLOYMENT, {"metadata": {"name": f"load-{number}"}, "spec": spec})

    def ready_nodes(self) -> int:
        nodes = self.items("/api/v1/nodes")
        return sum(not node["spec"].get("taints") for node in nodes)

    def ready_pods(self) -> int:
        return sum(each.get("status", {}).get("readyReplicas", 0) for each in self.items(DEPLOYMENT))

    def evicted(self) -> float:
        """How many pods have been evicted so far."""
        text = self.ask("GET", "/metrics").decode()
        found = re.search(r"^taint_eviction_controller_pod_deletions_total (\S+)", text, re.MULTILINE)
        return float(found[1]) if found else 0

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._server.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> str:
        return f"{self._server.memory():,.0f} MB"


def until(reached: Callable[[], bool], seconds: float) -> float:
    """Seconds until something is so."""
    start = time.perf_counter()
    while not reached():
        if time.perf_counter() - start > seconds:
            raise TimeoutError(f"not within {seconds:.0f} s")
        time.sleep(POLL)
    return time.perf_counter() - start


def run(cluster: Cluster, nodes: int, pods: int) -> None:
    took = until(lambda: cluster.ready_nodes() == nodes, 300)
    print(f"{nodes:,} hollow nodes ready after {took:.1f} s, {cluster.memory()}", flush=True)
    for number in range(DEPLOYMENTS):
        cluster.deploy(number, pods // DEPLOYMENTS)
    took = until(lambda: cluster.ready_pods() == pods, 900)
    print(f"{pods:,} pods running after {took:.1f} s ({pods / took:,.0f} a second), {cluster.memory()}", flush=True)

    time.sleep(SETTLE)
    begun = cluster.cpu_seconds()
    time.sleep(REST)
    share = (cluster.cpu_seconds() - begun) / REST
    met = "met" if share < 0.2 else "missed"
    print(f"at rest: {share:.1%} of one core (target: under 20 %: {met}), {cluster.memory()}", flush=True)

    tainted = {f"node-{number}" for number in range(1, nodes // 10 + 1)}
    there = sum(pod["spec"].get("nodeName") in tainted for pod in cluster.items("/api/v1/pods"))
    begun = time.perf_counter()
    for name in tainted:
        cluster.ask("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": [TAINT]}})
    until(lambda: cluster.evicted() >= there, 600)
    evicted = time.perf_counter() - begun
    until(lambda: cluster.ready_pods() == pods, 600)
    replaced = time.perf_counter() - begun
    left = sum(pod["spec"].get("nodeName") in tainted for pod in cluster.items("/api/v1/pods"))
    print(
        f"{len(tainted)} nodes tainted, {there:,} pods on them: all evicted after {evicted:.1f} s, "
        f"all replaced after {replaced:.1f} s, {left} left, {cluster.memory()}"
    )
    assert left == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pods", type=int, default=PODS)
    given = parser.parse_args()
    with serving("up", "--nodes", str(given.nodes)) as server:
        run(Cluster(server), given.nodes, given.pods)


if __name__ == "__main__":
    main()
