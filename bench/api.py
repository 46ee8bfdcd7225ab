"""How fast the API server takes pods over HTTPS, lists them, and tells watchers about them."""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import time
from typing import Any

import aiohttp
import uvloop

from serving import Serving, etcd, kube_apiserver, processor_seconds, serving

PODS = "/api/v1/namespaces/default/pods"
CONNECTIONS, COUNT, WATCHERS, WATCHED = 32, 10_000, 200, 200
ETCD_COUNT, ETCD_ROUNDS = 3_000, 3


def pod(name: str) -> bytes:
    container = {"name": "c", "image": "pause:3.10", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}
    toleration = {"key": "example.com/sla", "operator": "Gt", "value": "850", "effect": "NoSchedule"}
    spec = {"containers": [container], "tolerations": [toleration]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}).encode()


async def create(session: aiohttp.ClientSession, names: list[str]) -> list[float]:
    waiting, taken = iter(names), []

    async def worker() -> None:
        for name in waiting:
            start = time.perf_counter()
            async with session.post(PODS, data=pod(name)) as answer:
                await answer.read()
                assert answer.status == 201, answer.status
            taken.append(time.perf_counter() - start)

    await asyncio.gather(*(worker() for _ in range(CONNECTIONS)))
    return sorted(taken)


async def fan_out(session: aiohttp.ClientSession) -> float:
    """Seconds from the first of some creates until every watcher has heard of all."""
    async with session.get(f"{PODS}?limit=1") as answer:
        version = (await answer.json())["metadata"]["resourceVersion"]
    ready = asyncio.Semaphore(0)

    async def watcher() -> None:
        async with session.get(f"{PODS}?watch=1&resourceVersion={version}") as stream:
            ready.release()
            for _ in range(WATCHED):
                await stream.content.readline()

    watchers = [asyncio.create_task(watcher()) for _ in range(WATCHERS)]
    for _ in watchers:
        await ready.acquire()
    start = time.perf_counter()
    await create(session, [f"fan-{index}" for index in range(WATCHED)])
    await asyncio.gather(*watchers)
    return time.perf_counter() - start


async def measure_creates(server: Serving, etcd_process: int) -> None:
    """Creates a second and processor time a create, of a server on etcd."""
    async with connected(server) as session:
        await create(session, [f"warm-{index}" for index in range(500)])
        used, in_etcd = server.processor_seconds(), processor_seconds(etcd_process)
        start = time.perf_counter()
        taken = await create(session, [f"pod-{index}" for index in range(ETCD_COUNT)])
        seconds = time.perf_counter() - start
        used, in_etcd = server.processor_seconds() - used, processor_seconds(etcd_process) - in_etcd
    times = f"p50 {taken[ETCD_COUNT // 2] * 1000:.1f} ms, p99 {taken[int(ETCD_COUNT * 0.99)] * 1000:.1f} ms"
    print(f"{ETCD_COUNT / seconds:,.0f} creates/s, {times} from {CONNECTIONS} connections;", end=" ")
    each, etcd_each = used / ETCD_COUNT * 1e6, in_etcd / ETCD_COUNT * 1e6
    print(f"processor time a create: {each:,.0f} µs in the API server, {etcd_each:,.0f} µs in etcd")


def connected(server: Serving) -> aiohttp.ClientSession:
    tls = ssl.create_default_context(cafile=server.authority)
    head = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    pool = aiohttp.TCPConnector(ssl=tls, limit=0)
    never: Any = aiohttp.ClientTimeout(total=None)
    return aiohttp.ClientSession(server.url, headers=head, connector=pool, timeout=never)


async def measure(server: Serving) -> None:
    async with connected(server) as session:
        await create(session, [f"warm-{index}" for index in range(200)])
        before, used, own = server.memory(), server.processor_seconds(), time.process_time()
        start = time.perf_counter()
        taken = await create(session, [f"pod-{index}" for index in range(COUNT)])
        rate, p99 = COUNT / (time.perf_counter() - start), taken[int(COUNT * 0.99)] * 1000
        grown, used, own = server.memory() - before, server.processor_seconds() - used, time.process_time() - own
        met = rate >= 6000 and p99 < 15
        times = f"p50 {taken[COUNT // 2] * 1000:.1f} ms, p99 {p99:.1f} ms"
        print(f"create: {rate:,.0f} pods/s, {times} from {CONNECTIONS} connections", end=" ")
        print(f"(target: 6,000/s, p99 under 15 ms: {'met' if met else 'missed'})")
        print(f"processor time a create: {used / COUNT * 1e6:,.0f} µs here, {own / COUNT * 1e6:,.0f} µs in the client")
        start = time.perf_counter()
        async with session.get(PODS) as answer:
            size = len(await answer.read())
        seconds = time.perf_counter() - start
        print(f"list: {COUNT:,} pods ({size / 2**20:.1f} MiB) in {seconds:.2f} s (target: under 0.5 s: "
              f"{'met' if seconds < 0.5 else 'missed'})")  # fmt: skip
        print(f"memory: {grown:.0f} MB for {COUNT:,} pods")
        seconds = await fan_out(session)
        print(f"watch: {WATCHED} creates told to {WATCHERS} watchers in {seconds:.2f} s, "
              f"{WATCHED * WATCHERS / seconds:,.0f} events/s")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "etcd"), default="sqlite")
    parser.add_argument("--kube-apiserver", metavar="PROGRAM", help="with etcd: measure Kubernetes' server in turn")
    options = parser.parse_args()
    if options.store == "sqlite":
        with serving("apiserver") as server:
            uvloop.run(measure(server))
        return
    for _ in range(ETCD_ROUNDS):
        with etcd() as store, serving("apiserver", "--store", f"etcd://{store.endpoint}") as server:
            print("moorage apiserver:", end=" ", flush=True)
            uvloop.run(measure_creates(server, store.process))
        if options.kube_apiserver:
            with etcd() as store, kube_apiserver(options.kube_apiserver, store) as server:
                print("kube-apiserver:", end=" ", flush=True)
                uvloop.run(measure_creates(server, store.process))


if __name__ == "__main__":
    main()
