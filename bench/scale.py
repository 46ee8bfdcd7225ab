"""How a whole control plane grows with the number of nodes: hollow nodes until all are ready, at rest, and with pods.

python bench/scale.py [--nodes 1000 10000 50000 100000] [--pods 100000] [--rest 30]

Each size has a server of its own with a limit on its memory. Processor time is that of the server and its children.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
from typing import NamedTuple

from load import Cluster, until
from race import Timing, loading, pod
from serving import Serving, serving

NODES, PODS, REST, SETTLE = (1000, 10_000, 50_000, 100_000), 100_000, 30.0, 20.0
QUIET = 2.0
MOST_MEMORY = 6 << 30
_DECISIONS = "scheduler_scheduling_algorithm_duration_seconds_bucket"


class Grown(NamedTuple):
    nodes: int
    pods: int
    ready: float
    """Processor seconds until all nodes were ready."""
    ready_seconds: float
    rest: float
    """Share of a core that is used when nothing happens."""
    nodes_memory: float
    bound: float
    """Pods bound a second."""
    a_pod: float
    """Processor seconds of the server a pod, until all were bound."""
    p50: float
    p99: float
    memory: float


def samples(text: str, name: str) -> list[tuple[str, float]]:
    line = re.compile(rf"^{name}(?:\{{(.*?)\}})? (\S+)$", re.MULTILINE)
    return [(found[1], float(found[2])) for found in line.finditer(text)]


def is_ready(cluster: Cluster, nodes: int) -> bool:
    """Whether all nodes have a lease and have lost the taint of new nodes."""
    requests = samples(cluster.ask("GET", "/metrics").decode(), "apiserver_request_total")

    def count(resource: str, verb: str) -> float:
        return sum(n for labels, n in requests if f'resource="{resource}"' in labels and f'verb="{verb}"' in labels)

    return count("leases", "POST") > nodes and count("nodes", "PATCH") >= nodes


def is_quiet(server: Serving) -> bool:
    """Whether the server has nothing left to do: events are written a little later."""
    used = server.processor_seconds()
    time.sleep(QUIET)
    return server.processor_seconds() - used < QUIET / 4


def decisions(cluster: Cluster) -> list[tuple[float, float]]:
    """Upper bounds in seconds, and how many decisions took no longer."""
    text = cluster.ask("GET", "/metrics").decode()
    return [(float(labels.split('"')[1]), count) for labels, count in samples(text, _DECISIONS)]


def quantile(buckets: list[tuple[float, float]], share: float) -> float:
    """As Prometheus has it: within a bucket, values are taken to be spread evenly."""
    wanted, lower, below = buckets[-1][1] * share, 0.0, 0.0
    for bound, count in buckets:
        if count >= wanted:
            return lower + (bound - lower) * (wanted - below) / (count - below) if bound != float("inf") else lower
        lower, below = bound, count
    return lower


def grow(server: Serving, nodes: int, pods: int, rest: float) -> Grown:
    cluster = Cluster(server)
    start = time.perf_counter()
    # Asked for its metrics only when it is quiet: each time costs as much as some dozen nodes.
    until(lambda: is_quiet(server) and is_ready(cluster, nodes), 1800)
    ready, seconds, nodes_memory = server.processor_seconds(), time.perf_counter() - start, server.memory()
    print(f"  {nodes:,} nodes ready: {ready:.1f} s of CPU, {nodes_memory:,.0f} MB", flush=True)
    time.sleep(SETTLE)
    used = server.processor_seconds()
    time.sleep(rest)
    share = (server.processor_seconds() - used) / rest
    print(f"  at rest: {share:.1%} of a core", flush=True)
    timing = asyncio.run(bind(server, pods))
    buckets = decisions(cluster)
    return Grown(
        nodes, pods, ready, seconds, share, nodes_memory, pods / timing.bound, sum(timing.binding.values()) / pods,
        quantile(buckets, 0.5), quantile(buckets, 0.99), server.memory(),
    )  # fmt: skip


async def bind(server: Serving, pods: int) -> Timing:
    async with loading(server) as load:
        return await load.run_all(lambda number: pod(number, "basic"), pods, server, kubelets=False)


def row(grown: Grown) -> str:
    return (
        f"{grown.nodes:>8,} {grown.pods:>8,} {grown.ready:>9.1f} s {grown.rest:>8.1%} {grown.nodes_memory:>8,.0f} MB"
        f" {grown.bound:>8,.0f}/s {grown.a_pod * 1e6:>7.0f} µs {grown.p50 * 1e3:>6.2f} ms {grown.p99 * 1e3:>6.2f} ms"
        f" {grown.memory:>7,.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--rest", type=float, default=REST)
    given = parser.parse_args()
    head = f"{'nodes':>8} {'pods':>8} {'ready CPU':>11} {'at rest':>8} {'nodes':>11} {'bound':>10} {'CPU/pod':>10}"
    head += f" {'p50':>9} {'p99':>9} {'memory':>10}"
    rows = []
    for nodes in given.nodes:
        with serving("up", "--nodes", str(nodes), memory=MOST_MEMORY) as server:
            rows.append(grow(server, nodes, given.pods, given.rest))
        print(head, *map(row, rows), sep="\n", flush=True)


if __name__ == "__main__":
    main()
