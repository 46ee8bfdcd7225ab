"""How long one decision takes, with nothing around it: by number of nodes and by what the pods ask for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import msgspec

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.client import Client, Informers
from moorage.features import ALL_ON, NONE_ON, Gates
from moorage.scheduler.config import Configuration
from moorage.scheduler.cycle import CycleRunner
from moorage.scheduler.framework import Handle
from moorage.scheduler.profile import DEFAULT_NAME
from moorage.scheduler.table.nodes import NodeTable
from moorage.scheduler.table.shape import PodInfo, Shapes

CASES: dict[str, dict[str, Any]] = {
    "basic": {},
    "numeric": {"tolerations": [{"key": "sla", "operator": "Gt", "value": "850", "effect": "NoSchedule"}]},
    "semver": {"tolerations": [{"key": "cni", "operator": "SemverGt", "value": "v3.24.0", "effect": "NoSchedule"}]},
    "wildcard": {"tolerations": [{"key": "readiness.example.com/*", "operator": "Exists"}]},
    "CEL toleration": {
        "tolerations": [{"expression": "taint.key == 'cni' && semver.compare(taint.value, '>=3.25.0')"}],
    },
    "CEL affinity": {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchCELExpressions": ["semver.compare(node.labels['kernel'], '>=5.12.0')"]},
        ]}}},
    },
}  # fmt: skip
TAINTS: dict[str, Callable[[int], tuple[str, str]]] = {
    "numeric": lambda number: ("sla", str(700 + number % 300)),
    "semver": lambda number: ("cni", f"v3.{20 + number % 10}.{number % 5}"),
    "CEL toleration": lambda number: ("cni", f"v3.{20 + number % 10}.{number % 5}"),
    "wildcard": lambda number: (f"readiness.example.com/check-{number % 12}", ""),
}
PODS = 2000


def node(number: int, case: str) -> Node:
    labels = {
        "kubernetes.io/hostname": f"n{number}",
        "zone": f"z{number % 10}",
        "kernel": f"5.{10 + number % 10}.{number % 7}",
    }
    taints = []
    if case in TAINTS:
        key, value = TAINTS[case](number)
        taints = [{"key": key, "value": value, "effect": "NoSchedule"}]
    room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    data = {
        "metadata": {"name": f"n{number}", "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": room},
    }
    return msgspec.convert(data, Node)


def pod(number: int, case: str) -> Pod:
    requests = {"cpu": "100m", "memory": "100Mi"}
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}], **CASES[case]}
    return msgspec.convert(
        {"metadata": {"name": f"p{number}", "namespace": "d", "uid": f"u{number}"}, "spec": spec}, Pod
    )


async def measure(case: str, nodes: int, gates: Gates = ALL_ON) -> list[float]:
    """Seconds of each decision, sorted; each pod is counted on its node before the next is decided."""
    client = cast(Client, None)
    table = NodeTable()
    handle = Handle(table, client, Informers(client), gates, cast(Any, None))
    runner = CycleRunner(Configuration().profiles(handle)[DEFAULT_NAME], handle)
    shapes = Shapes(gates)
    for number in range(nodes):
        table.set_node(node(number, case))
    taken = []
    for number in range(PODS):
        info = shapes.info(pod(number, case))
        start = time.perf_counter()
        placement = runner.place(runner.start(info))
        taken.append(time.perf_counter() - start)
        assert placement.node
        table.add_pod(PodInfo(info.pod, info.shape, placement.node))
    return sorted(taken[1:])


async def main() -> None:
    print(f"{'decision':16}{'nodes':>8}{'p50 µs':>10}{'p99 µs':>10}")
    for nodes in (500, 5000, 50_000):
        for case in CASES:
            taken = await measure(case, nodes)
            print(f"{case:16}{nodes:8}{taken[len(taken) // 2] * 1e6:10.0f}{taken[int(len(taken) * 0.99)] * 1e6:10.0f}")
    pairs = [(sum(await measure("basic", 5000, ALL_ON)), sum(await measure("basic", 5000, NONE_ON))) for _ in range(5)]
    ratio = min(on for on, _ in pairs) / min(off for _, off in pairs)
    print(f"all gates on / off, pods that use none of them: {ratio:.3f} (target within 1.03)")


if __name__ == "__main__":
    asyncio.run(main())
