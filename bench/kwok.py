"""Hollow nodes beside kwok: seconds until nodes are ready and pods run, processor time and memory of all processes.

python bench/kwok.py --kwok PATH --kube-apiserver PATH --kube-scheduler PATH --kube-controller-manager PATH
    --stages FILE... [--nodes 1000 5000] [--pods 20000]

kwok plays the kubelets of Kubernetes' own API server on etcd, with kube-scheduler, and of kube-controller-manager the
node lifecycle controller, without which no node gets pods. Nodes and pods are created alike, over HTTPS from 32
connections. `--stages` are the files of kwok's own stages: those of nodes and pods that are fast, and the heartbeat.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec

from race import Data, loading, pod
from serving import Serving, kubeconfig_of, kubernetes, memory, running, serving

NODES, PODS = (1000, 5000), 20_000
NODE_PATH, POD_PATH = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
Check = Callable[[Data], bool]


class Played(NamedTuple):
    who: str
    nodes: int
    nodes_ready: float
    nodes_processor: float
    pods: int
    pods_running: float
    pods_processor: float
    memory: float

    def __str__(self) -> str:
        return (
            f"{self.who:24}{self.nodes:7,} nodes ready {self.nodes_ready:7.1f} s {self.nodes_processor:7.1f} s of CPU"
            f"{self.pods:9,} pods running {self.pods_running:7.1f} s {self.pods_processor:7.1f} s of CPU"
            f"{self.memory:8,.0f} MB"
        )


def is_ready(node: Data) -> bool:
    ready = {"type": "Ready", "status": "True"}
    conditions = node.get("status", {}).get("conditions", ())
    return not node["spec"].get("taints") and any(ready.items() <= each.items() for each in conditions)


def is_running(pod: Data) -> bool:
    return bool(pod["status"].get("phase") == "Running")


async def reached(server: Serving, path: str, count: int, check: Check, ready: asyncio.Event) -> None:
    """Watch until so many objects pass a check."""
    pool = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=server.authority))
    head, never = {"Authorization": f"Bearer {server.token}"}, aiohttp.ClientTimeout(total=None)
    passed = set[str]()
    async with aiohttp.ClientSession(
        server.url, headers=head, connector=pool, timeout=never, read_bufsize=1 << 20
    ) as session:
        async with session.get(f"{path}?limit=1") as answer:
            since = msgspec.json.decode(await answer.read())["metadata"]["resourceVersion"]
        while len(passed) < count:
            async with session.get(f"{path}?watch=1&resourceVersion={since}") as stream:
                ready.set()
                async for line in stream.content:
                    seen: Any = msgspec.json.decode(line)["object"]
                    since = seen["metadata"]["resourceVersion"]
                    if check(seen):
                        passed.add(seen["metadata"]["name"])
                    if len(passed) >= count:
                        return


async def made(
    server: Serving, path: str, count: int, make: Callable[[int], Data], check: Check
) -> tuple[float, float]:
    """Seconds and processor seconds until so many objects are made and pass a check."""
    ready = asyncio.Event()
    watching = asyncio.create_task(reached(server, path, count, check, ready))
    await ready.wait()
    start, used = time.perf_counter(), server.processor_seconds()
    async with loading(server) as load:
        await load.send("POST", ((path, make(number)) for number in range(count)))
    await asyncio.wait_for(watching, 900)
    return time.perf_counter() - start, server.processor_seconds() - used


async def play(who: str, server: Serving, nodes: int, pods: int) -> Played:
    def node(number: int) -> Data:
        name = f"node-{number}"
        return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}

    nodes_ready = await made(server, NODE_PATH, nodes, node, is_ready)
    pods_running = await made(server, POD_PATH, pods, lambda number: pod(number, "basic"), is_running)
    held = sum(memory(process) for process in (server.process, *server.beside.values()))
    return Played(who, nodes, *nodes_ready, pods, *pods_running, held)


@contextmanager
def kwok(given: argparse.Namespace) -> Iterator[Serving]:
    with kubernetes(given.kube_apiserver, given.kube_scheduler) as server, tempfile.TemporaryDirectory() as folder:
        file = kubeconfig_of(server, Path(folder))
        manager = [given.kube_controller_manager, f"--kubeconfig={file}", "--leader-elect=false", "--secure-port=0"]
        manager += ["--controllers=node-lifecycle-controller", "--kube-api-qps=1000", "--kube-api-burst=1000", "--v=0"]
        player = [given.kwok, f"--kubeconfig={file}", "--manage-all-nodes", "--cidr=10.0.0.0/8"]
        player += ["--node-lease-duration-seconds=40", "-v=ERROR", *(f"--config={file}" for file in given.stages)]
        with running(manager) as managing, running(player) as playing:
            yield replace(server, beside={**server.beside, "kube-controller-manager": managing, "kwok": playing})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    programs = ("--kwok", "--kube-apiserver", "--kube-scheduler", "--kube-controller-manager")
    for program in programs:
        parser.add_argument(program, default="")
    parser.add_argument("--stages", nargs="+", default=())
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--pods", type=int, default=PODS)
    given = parser.parse_args()
    for nodes in given.nodes:
        with serving("up", "--nodes", "0") as server:
            print(asyncio.run(play("Moorage", server, nodes, given.pods)), flush=True)
        if all(getattr(given, program[2:].replace("-", "_")) for program in programs):
            with kwok(given) as server:
                print(asyncio.run(play("Kubernetes with kwok", server, nodes, given.pods)), flush=True)


if __name__ == "__main__":
    main()
