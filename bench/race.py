"""How fast a control plane binds pods: nodes, then pods over HTTPS from 32 connections, until each has its node.

Beside the rate it prints the processor time a pod: of the server until all pods are bound, and from then until hollow
kubelets have them all running, with their events; and of this program, which runs on the same machine.

Kubernetes' own programs are raced in turn when they are at hand (on the PATH, or named in KUBE_APISERVER and
KUBE_SCHEDULER; etcd comes with the development dependencies). --rooms says which rooms of the code the processor time
went to, from samples: sampling itself takes some.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import ssl
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import aiohttp
import msgspec

from serving import Serving, apart, kubernetes, serving, waited_seconds

UPSTREAM = ("basic", "gt", "affinity")
"""What Kubernetes can do too."""
NODES, PODS, CONNECTIONS = 1000, 5000, 32
_ROOMS_SHOWN, _BUSY = 16, 0.05
SLA, CNI, KERNEL, ZONE = "example.com/sla", "example.com/cni", "example.com/kernel", "topology.kubernetes.io/zone"

Data = dict[str, Any]


def required(term: Data) -> Data:
    terms = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


VERSION = {"key": CNI, "operator": "SemverGt", "value": "v3.24.0", "effect": "NoSchedule"}
NEWER = f"taint.key == '{CNI}' && semver.compare(taint.value, '>=3.25.0')"
SPECS: dict[str, Data] = {
    "basic": {},
    "gt": {"tolerations": [{"key": SLA, "operator": "Gt", "value": "850", "effect": "NoSchedule"}]},
    "affinity": {
        "affinity": required({"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1", "z2", "z3"]}]})
    },
    "semver": {"tolerations": [VERSION]},
    "cel": {
        "tolerations": [{"expression": NEWER}],
        "affinity": required({"matchCELExpressions": [f"semver.compare(node.labels['{KERNEL}'], '>=5.12.0')"]}),
    },
    "wildcard": {"tolerations": [{"key": "readiness.example.com/*", "operator": "Exists"}]},
}
TAINTS: dict[str, Callable[[int], tuple[str, str]]] = {
    "gt": lambda number: (SLA, str(700 + number % 300)),
    "semver": lambda number: (CNI, f"v3.{20 + number % 10}.{number % 5}"),
    "cel": lambda number: (CNI, f"v3.{20 + number % 10}.{number % 5}"),
    "wildcard": lambda number: (f"readiness.example.com/check-{number % 12}", ""),
}


def node(number: int, case: str) -> Data:
    name = f"race-{number}"
    labels = {"kubernetes.io/hostname": name, ZONE: f"z{number % 10}", KERNEL: f"5.{10 + number % 10}.{number % 7}"}
    room = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "r"}
    taints = []
    if case in TAINTS:
        key, value = TAINTS[case](number)
        taints.append({"key": key, "value": value, "effect": "NoSchedule"})
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


def pod(number: int, case: str) -> Data:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}
    return {"metadata": {"name": f"race-{number}"}, "spec": {"containers": [container], **SPECS[case]}}


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec
    status: _Status


class _Line(msgspec.Struct):
    object: _Pod


_read_line = msgspec.json.Decoder(_Line).decode


class Timing(NamedTuple):
    """Seconds until all pods were created and until all were bound, and processor seconds: of the server's processes
    until all were bound, of all of them from then until all were running, of the load generator until all were bound.
    """

    created: float
    bound: float
    binding: Mapping[str, float]
    running: float
    load: float
    waited: float
    """Seconds until all were bound for which the server's event loop was ready to run and had no processor."""
    rooms: Sequence[Mapping[str, float]]
    """The shares of rooms in the two phases, when they were sampled."""


class Load:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def send(self, method: str, requests: Iterable[tuple[str, Data]]) -> None:
        waiting = iter(requests)

        async def worker() -> None:
            for path, data in waiting:
                async with self._session.request(method, path, data=msgspec.json.encode(data)) as answer:
                    assert answer.status in (200, 201), await answer.text()
                    await answer.read()

        await asyncio.gather(*(worker() for _ in range(CONNECTIONS)))

    async def ready_nodes(self, case: str, count: int) -> None:
        """Make nodes, and clear the taint that admission puts on new ones, as kubelets would."""
        await self.send("POST", (("/api/v1/nodes", node(number, case)) for number in range(count)))
        async with self._session.get("/api/v1/nodes") as answer:
            nodes = msgspec.json.decode(await answer.read())["items"]
        for each in nodes:
            taints = each["spec"].get("taints", ())
            each["spec"]["taints"] = [taint for taint in taints if "not-ready" not in taint["key"]]
        wanted = [each for each in nodes if each["metadata"]["name"].startswith("race-")]
        for each in wanted:
            each["metadata"].pop("resourceVersion")
        await self.send("PUT", ((f"/api/v1/nodes/{each['metadata']['name']}", each) for each in wanted))

    async def run_all(
        self,
        make: Callable[[int], Data],
        count: int,
        server: Serving,
        *,
        kubelets: bool = True,
        rooms: Callable[[], Mapping[str, float]] = dict,
    ) -> Timing:
        """Create pods, and wait until all of them have a node, and with kubelets until all of them run."""
        path = "/api/v1/namespaces/default/pods"
        async with self._session.get(f"{path}?limit=1") as answer:
            version = msgspec.json.decode(await answer.read())["metadata"]["resourceVersion"]
        ready, all_bound, bound, running = asyncio.Event(), asyncio.Event(), set[str](), set[str]()

        async def watch() -> None:
            # A server ends the watch of whoever does not keep up: it goes on where it was.
            since = version
            while len(running if kubelets else bound) < count:
                async with self._session.get(f"{path}?watch=1&resourceVersion={since}") as stream:
                    ready.set()
                    async for line in stream.content:
                        pod = _read_line(line).object
                        since = pod.metadata.resource_version
                        if pod.spec.node_name:
                            bound.add(pod.metadata.name)
                        if pod.status.phase == "Running":
                            running.add(pod.metadata.name)
                        if len(bound) >= count:
                            all_bound.set()
                        if len(running if kubelets else bound) >= count:
                            return

        watching = asyncio.create_task(watch())
        watching.add_done_callback(lambda _: all_bound.set())
        await ready.wait()
        rooms()
        start, used, own = time.perf_counter(), server.by_process(), time.process_time()
        waited = waited_seconds(server.process)
        await self.send("POST", ((path, make(number)) for number in range(count)))
        created = time.perf_counter() - start
        await asyncio.wait_for(all_bound.wait(), 300)
        seconds, bound_at, own = time.perf_counter() - start, server.by_process(), time.process_time() - own
        waited = waited_seconds(server.process) - waited if kubelets else 0.0
        shares = rooms()
        await asyncio.wait_for(watching, 600)
        binding = {name: bound_at[name] - used[name] for name in used}
        later = server.processor_seconds() - sum(bound_at.values()) if kubelets else 0.0
        return Timing(created, seconds, binding, later, own, waited, (shares, rooms()))


@asynccontextmanager
async def loading(server: Serving) -> AsyncIterator[Load]:
    """Connections to a server."""
    head = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    pool = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=server.authority), limit=CONNECTIONS + 4)
    never: Any = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(server.url, headers=head, connector=pool, timeout=never) as session:
        yield Load(session)


async def race(server: Serving, case: str, nodes: int, pods: int, **options: Any) -> Timing:
    """Make nodes, then pods, and wait until they are bound and, unless there are no kubelets, running."""
    async with loading(server) as load:
        await load.ready_nodes(case, nodes)
        await asyncio.sleep(2)
        return await load.run_all(lambda number: pod(number, case), pods, server, **options)


def report(name: str, timing: Timing, pods: int, server: Serving) -> float:
    """Pods bound a second, after everything that was measured is printed."""
    rate = pods / timing.bound
    print(f"{name:22}{pods / timing.created:8,.0f} created/s{rate:8,.0f} bound/s{server.memory():8.0f} MB")
    micro = 1e6 / pods
    parts = [f"create → bound {sum(timing.binding.values()) * micro:.0f} µs"]
    if len(timing.binding) > 1:
        parts[0] += f" ({', '.join(f'{each} {used * micro:.0f}' for each, used in timing.binding.items())})"
    if timing.running:
        parts.append(f"bound → Running {timing.running * micro:.0f} µs")
    print(f"{'':22}processor time a pod: {'  '.join(parts)}  (load generator {timing.load * micro:.0f} µs until bound)")
    if (share := timing.waited / timing.bound) > _BUSY:
        print(f"{'':22}the machine was busy: for {share:.0%} of the time the server's event loop had no processor")
    for phase, shares, used in zip(
        ("create → bound", "bound → Running"), timing.rooms, (sum(timing.binding.values()), timing.running), strict=True
    ):
        if shares:
            print(f"{'':22}{phase} by room, µs a pod:")
            for room, share in sorted(shares.items(), key=lambda each: -each[1])[:_ROOMS_SHOWN]:
                print(f"{'':24}{share * used * micro:5.0f}  {room}")
    sys.stdout.flush()
    return rate


@contextmanager
def sampled(server: Serving, file: Path) -> Iterator[Callable[[], Mapping[str, float]]]:
    """Ask a server that runs in bench/rooms.py for the shares of rooms since the last time."""

    def shares() -> Mapping[str, float]:
        file.unlink(missing_ok=True)
        os.kill(server.process, signal.SIGUSR1)
        while not file.exists() or not file.stat().st_size:
            time.sleep(0.01)
        counts: dict[str, int] = msgspec.json.decode(file.read_bytes())
        return {room: count / sum(counts.values()) for room, count in counts.items()}

    yield shares


def run_ours(case: str, given: argparse.Namespace) -> float:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        file = Path(folder, "rooms.json")
        program = (str(Path(__file__).with_name("rooms.py")), str(file)) if given.rooms else ("-m", "moorage")
        whole = apart() if given.apart else serving("up", "--nodes", "0", program=program)
        server = stack.enter_context(whole)
        options = {"rooms": stack.enter_context(sampled(server, file))} if given.rooms else {}
        return report(case, asyncio.run(race(server, case, given.nodes, given.pods, **options)), given.pods, server)


def run_theirs(case: str, programs: Sequence[str], given: argparse.Namespace) -> float:
    with kubernetes(*programs) as server:
        timing = asyncio.run(race(server, case, given.nodes, given.pods, kubelets=False))
        return report(f"{case} on Kubernetes", timing, given.pods, server)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(SPECS), help="which cases to run (all)")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--runs", type=int, default=1, help="how often each case is run; the ratios are of medians")
    parser.add_argument("--rooms", action="store_true", help="say which rooms of the code the time went to")
    parser.add_argument("--apart", action="store_true", help="run API server, scheduler and controllers as processes")
    given = parser.parse_args()
    named = (("KUBE_APISERVER", "kube-apiserver"), ("KUBE_SCHEDULER", "kube-scheduler"))
    programs = [found for variable, name in named if (found := os.environ.get(variable) or shutil.which(name))]
    print(f"{given.nodes:,} nodes, {given.pods:,} pods, {CONNECTIONS} connections")
    ours: dict[str, list[float]] = defaultdict(list)
    theirs: dict[str, list[float]] = defaultdict(list)
    for _ in range(given.runs):
        for case in given.cases:
            ours[case].append(run_ours(case, given))
            if case in UPSTREAM and len(programs) == len(named):
                theirs[case].append(run_theirs(case, programs, given))
    for case, rates in ours.items():
        middle = median(rates)
        ratios = [f"{middle / median(theirs[case]):.1f} × Kubernetes"] if case in theirs else []
        if case != "basic" and "basic" in ours:
            ratios.append(f"{middle / median(ours['basic']):.2f} of basic")
        print(f"{case:22}{middle:8,.0f} bound/s in the median of {len(rates)}  {'  '.join(ratios)}")


if __name__ == "__main__":
    main()
