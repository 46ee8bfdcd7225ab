"""The cluster of the page on high availability goes on, whichever of its parts dies, and loses nothing."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.api import kinds
from moorage.client import Client
from moorage.client.errors import ApiError, Expired
from moorage.client.https import HTTPSTransport
from moorage.client.kubeconfig import load
from tests.live.machines import Balancer, Machines, machines
from tests.plane import PATIENCE, create, eventually, pod, read, read_all
from tests.store.backends import folder_in_memory
from tests.store.cluster import WHY_SKIPPED, binary

Data = dict[str, Any]
WRITERS, NODES, REPLICAS, ENOUGH = 2, 3, 4, 20
LEASES = {"moorage scheduler": "moorage-scheduler", "moorage controllers": "moorage-controllers"}
_CONFIG_MAP, _POD = kinds.row("v1", "ConfigMap"), kinds.row("v1", "Pod")
_DEPLOYMENT = kinds.row("apps/v1", "Deployment")


@dataclass
class Writers:
    """Clients that create and change objects all the time, and note what was acknowledged."""

    client: Client
    acknowledged: dict[str, int] = field(default_factory=dict)
    """The number in each object as it was last acknowledged."""
    longest: float = 0
    """The most seconds between two acknowledged writes."""
    _last: float = 0
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def write(self, prefix: str) -> None:
        for number in count():
            name = f"{prefix}-{number}"
            data: Data = {"metadata": {"name": name}, "data": {"number": "1"}}
            try:
                created = msgspec.json.decode(await self.client.create(_CONFIG_MAP, data, "default"))
                await self._note(name, 1)
                await self.client.update(_CONFIG_MAP, {**created, "data": {"number": "2"}})
                await self._note(name, 2)
            except ApiError:
                # Without an answer nobody knows what became of an object: on with the next one.
                await asyncio.sleep(0.01)

    async def more(self) -> None:
        """Wait until some more writes are acknowledged."""
        target = len(self.acknowledged) + ENOUGH
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: len(self.acknowledged) >= target)

    def begin(self) -> None:
        """Measure anew."""
        self.longest, self._last = 0, time.monotonic()

    async def _note(self, name: str, number: int) -> None:
        self.acknowledged[name] = number
        now = time.monotonic()
        self.longest, self._last = max(self.longest, now - self._last), now
        async with self._news:
            self._news.notify_all()


@dataclass
class Witness:
    """Follows all pods, whichever server tells of them, and notes what must never happen."""

    client: Client
    nodes: dict[str, str] = field(default_factory=dict)
    """The node of each pod, by its uid."""
    names: dict[str, str] = field(default_factory=dict)
    sins: list[str] = field(default_factory=list)

    async def follow(self) -> None:
        revision = ""
        while True:
            try:
                if not revision:
                    listing = await self.client.list(_POD, "default")
                    for item in listing.items:
                        self._note(msgspec.json.decode(item))
                    revision = listing.revision
                async for batch in self.client.watch(_POD, "default", after=revision):
                    for event in batch:
                        data: Data = msgspec.json.decode(bytes(event.object))
                        revision = data["metadata"]["resourceVersion"]
                        if event.type != "BOOKMARK":
                            self._note(data)
            except Expired:
                revision = ""
            except ApiError:
                await asyncio.sleep(0.01)

    def bound(self, name: str) -> bool:
        """Whether a pod has its node."""
        return any(self.names[uid] == name for uid, node in self.nodes.items() if node)

    def _note(self, data: Data) -> None:
        metadata, node = data["metadata"], data["spec"].get("nodeName", "")
        before = self.nodes.get(metadata["uid"], "")
        if before not in ("", node):
            self.sins.append(f"{metadata['name']} was on {before} and is on {node}")
        self.nodes[metadata["uid"]], self.names[metadata["uid"]] = node, metadata["name"]


@pytest.fixture
def folder() -> Any:
    if binary() is None:
        pytest.skip(WHY_SKIPPED)
    for program in ("openssl", "kubectl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not on PATH")
    with folder_in_memory() as name:
        yield Path(name)


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[tuple[Machines, Client]]:
    """Everything that the page starts, and an administrator. Those on the first machine lead."""
    with machines(folder) as all_machines:
        *preparations, look = all_machines.scripts
        for script in preparations:
            await asyncio.to_thread(all_machines.run, script)
        for name in ("etcd", "moorage apiserver"):
            await asyncio.to_thread(all_machines.start, name)
        balancer = Balancer(all_machines.balanced)
        await balancer.start(all_machines.balancer, 6443)
        client = Client(HTTPSTransport(load(folder / "pki" / "admin.kubeconfig"), "test"))
        try:
            for machine in range(2):
                processes = [all_machines.processes[name][machine] for name in LEASES]
                for process in processes:
                    process.start()
                for process in processes:
                    await asyncio.to_thread(process.wait)
                for lease in LEASES.values():
                    await leader(client, lease)
            shown = await asyncio.to_thread(all_machines.run, look)
            assert all(lease in shown for lease in LEASES.values())
            yield all_machines, client
        finally:
            await client.close()
            await balancer.stop()


async def leader(client: Client, lease: str) -> str:
    """Who leads, once somebody does."""

    async def holder() -> str:
        data = await read(client, "Lease", lease, "kube-system", "coordination.k8s.io/v1")
        found: str = data["spec"].get("holderIdentity", "")
        return found

    found: str = await answered(holder)
    return found


async def answered(ask: Callable[[], Awaitable[Any]]) -> Any:
    """Ask until there is an answer."""

    async def asked() -> Any:
        try:
            return await ask()
        except ApiError as error:
            raise AssertionError(str(error)) from error

    return await eventually(asked)


async def ask_directly(folder: Path, server: str) -> list[Data]:
    """What one of the API servers answers, past the balancer."""
    text = (folder / "pki" / "admin.kubeconfig").read_text()
    (folder / "direct.kubeconfig").write_text(re.sub(r"https://[\d.]+:", f"https://{server}:", text))
    client = Client(HTTPSTransport(load(folder / "direct.kubeconfig"), "test"))
    try:
        return await read_all(client, "Node")
    finally:
        await client.close()


async def placed(client: Client, witness: Witness, name: str) -> float:
    """Create a pod; the seconds until it is bound."""
    start = time.monotonic()
    await answered(lambda: create(client, pod(name)))
    await eventually(lambda: _said(witness.bound(name)))
    return time.monotonic() - start


async def scaled(client: Client, replicas: int) -> float:
    """Change how many pods there should be; the seconds until they run, no more and no fewer."""
    start = time.monotonic()
    await answered(lambda: client.patch(_DEPLOYMENT, "default", "web", {"spec": {"replicas": replicas}}))

    async def running() -> bool:
        pods = [each for each in await read_all(client, "Pod", "default") if each["metadata"].get("labels")]
        return len(pods) == replicas and all(each["status"]["phase"] == "Running" for each in pods)

    await answered(running)
    return time.monotonic() - start


def tell(what: str, writers: Writers, seconds: float) -> None:
    print(f"{what}: longest wait for a write {writers.longest:.1f} s, a pod was bound in {seconds:.1f} s")


async def _said(truth: bool) -> bool:
    return truth


async def furnish(client: Client) -> None:
    """Make nodes, and a workload that runs on them."""
    for number in range(NODES):
        await create(client, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}})
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("web")["spec"]}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    await create(client, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
    await scaled(client, REPLICAS)


async def hang_a_member(cluster: Machines, folder: Path, writers: Writers, witness: Witness) -> None:
    member, server = cluster.processes["etcd"][0], cluster.balanced[0][0]  # which names this member first
    member.send(signal.SIGSTOP)
    start = time.monotonic()
    await answered(lambda: ask_directly(folder, server))
    print(f"etcd member stopped: the API server that used it answered in {time.monotonic() - start:.1f} s")
    await writers.more()
    seconds = await placed(writers.client, witness, "during-the-partition")
    tell("etcd member stopped", writers, seconds)
    member.send(signal.SIGCONT)


async def kill_the_leaders(cluster: Machines, writers: Writers, witness: Witness) -> None:
    client = writers.client
    before = {lease: await leader(client, lease) for lease in LEASES.values()}
    for name in LEASES:
        cluster.processes[name][0].kill()
    times = await asyncio.gather(placed(client, witness, "after-the-scheduler"), scaled(client, REPLICAS + 2))
    print(f"leaders killed: scheduler replaced in {times[0]:.1f} s, controllers in {times[1]:.1f} s")
    for lease in LEASES.values():
        assert await leader(client, lease) != before[lease]


async def kill_one(cluster: Machines, name: str, number: int, writers: Writers, witness: Witness) -> None:
    writers.begin()
    cluster.processes[name][number].kill()
    await writers.more()
    seconds = await placed(writers.client, witness, f"after-{name.replace(' ', '-')}")
    tell(f"{name} killed", writers, seconds)
    await scaled(writers.client, REPLICAS)


async def test_whichever_part_dies_the_others_go_on(folder: Path) -> None:
    async with started(folder) as (cluster, client), asyncio.TaskGroup() as group:
        await furnish(client)
        published = await answered(lambda: read(client, "ConfigMap", "kube-root-ca.crt"))
        assert published["data"]["ca.crt"] == (folder / "pki" / "ca.crt").read_text()
        writers, witness = Writers(client), Witness(client)
        load_tasks = [group.create_task(writers.write(f"writer-{number}")) for number in range(WRITERS)]
        load_tasks.append(group.create_task(witness.follow()))
        await writers.more()
        writers.begin()

        await hang_a_member(cluster, folder, writers, witness)
        await kill_the_leaders(cluster, writers, witness)
        await kill_one(cluster, "moorage apiserver", 0, writers, witness)
        # It does not come back: the member that hung must have caught up.
        await kill_one(cluster, "etcd", 1, writers, witness)

        for task in load_tasks:
            task.cancel()
        await asyncio.wait(load_tasks)
        there = {each["metadata"]["name"]: each["data"] for each in await read_all(client, "ConfigMap", "default")}
        for name, number in writers.acknowledged.items():
            assert int(there[name]["number"]) >= number
        assert not witness.sins
        print(f"{len(writers.acknowledged)} objects written, {len(witness.nodes)} pods placed")
