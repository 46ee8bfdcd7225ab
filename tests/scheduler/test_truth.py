"""Whatever happens in whatever order: no pod is bound twice, no room is lost or given twice, and none waits in vain."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal

import msgspec
import pytest

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.client.clock import Clock, Timer
from moorage.features import ALL_ON, Gates
from moorage.scheduler.config import Configuration
from moorage.scheduler.queue import Queued
from moorage.scheduler.scheduler import Scheduler
from tests.scheduler.in_memory_api import InMemoryAPI, Key
from tests.scheduler.profile_on_table import MINE, configured
from tests.scheduler.reference import Reference, Refusal
from tests.scheduler.test_columns import check_table

Data = dict[str, Any]
ROUNDS = int(os.environ.get("MOORAGE_ROUNDS", "8"))
"""How many random stories are played; the same ones each time."""


LONELY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"lonely": "yes"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


class Company(Reference):
    """The reference, which also knows that lonely pods do not share a node."""

    def refusal(self, pod: Pod, node: Node) -> Refusal | None:
        refusal = super().refusal(pod, node)
        pairs = [(pod, each) for each in self.on(node)] + [(each, pod) for each in self.on(node)]
        lonely = any(one.spec.affinity and "lonely" in other.metadata.labels for one, other in pairs)
        return Refusal("InterPodAffinity", (), True) if refusal is None and lonely else refusal


class Impatient(Clock):
    """A clock on which nobody waits: whenever it is read a moment has passed, and every timer is due at once."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def monotonic(self) -> float:
        self._seconds += 0.0001
        return self._seconds

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_soon(callback)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Slots(asyncio.Semaphore):
    """A semaphore that tells how many may still acquire it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    async def acquire(self) -> Literal[True]:
        await super().acquire()
        self.number -= 1
        return True

    def release(self) -> None:
        self.number += 1
        super().release()


class Recording(Scheduler):
    """A scheduler that writes down which pods it tries."""

    attempts: list[str]

    def attempt(self, entry: Queued) -> bool:
        self.attempts.append(entry.info.pod.metadata.name)
        return super().attempt(entry)


class Play:
    """A scheduler on an API in memory, step by step."""

    def __init__(self, gates: Gates = ALL_ON, configuration: Configuration | None = None, slots: int = 512) -> None:
        self.api = InMemoryAPI()
        self.gates, self.slots = gates, slots
        self.configuration = configuration or quick()
        self.task: asyncio.Task[None] | None = None
        self.attempts: list[str] = []
        self.begin()

    def begin(self) -> None:
        """Start a scheduler that knows nothing but what is there."""
        self.free_slots = Slots(self.slots)
        self.scheduler = Recording(
            self.api.client, self.gates, self.configuration, clock=Impatient(), seed=1, slots=self.free_slots
        )
        self.scheduler.attempts = self.attempts
        self.api.informers = [self.scheduler.handle.informers]
        self.api.news.clear()
        for (kind, _, _), data in list(self.api.objects.items()):
            self.api.put(kind, data)
        self.task = asyncio.create_task(self.scheduler.schedule())

    async def end(self) -> None:
        """Stop it in the middle of whatever it does."""
        assert self.task is not None
        self.task.cancel()
        works = list(self.scheduler.tasks)
        for work in works:
            work.cancel()
        results = await asyncio.gather(self.task, *works, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def turns(self, number: int) -> None:
        """Let the scheduler work for so many turns of the event loop."""
        for _ in range(number):
            await asyncio.sleep(0)
        assert self.task is not None
        if self.task.done():
            self.task.result()

    async def settle(self) -> None:
        """Pass all news on, until nothing happens any more."""
        quiet = 0
        for _ in range(20_000):
            self.api.tell()
            await self.turns(1)
            counts = self.scheduler.queue.counts()
            idle = not (self.api.news or self.scheduler.tasks or counts["active"] or self.scheduler.waking.pending)
            quiet = quiet + 1 if idle and not counts["backoff"] else 0
            if quiet > 3:
                return
        raise AssertionError(f"it does not come to rest: {self.scheduler.queue.counts()}")

    def node(self, name: str, cpu: str = "4", *taints: Data, pods: str = "10", **labels: str) -> None:
        """Create or change a node."""
        old = self.api.objects.get(("Node", "", name))
        labels["kubernetes.io/hostname"] = name
        metadata = {"name": name, "labels": labels, **({"uid": old["metadata"]["uid"]} if old else {})}
        status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": pods}}
        self.api.put("Node", {"metadata": metadata, "spec": {"taints": list(taints)}, "status": status})

    def pod(self, name: str, cpu: str = "1", **spec: Any) -> None:
        """Create a pod."""
        container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
        labels = {"lonely": "yes"} if spec.pop("labelled", False) or spec.get("affinity") else {}
        metadata = {"name": name, "namespace": "default", "labels": labels}
        self.api.put("Pod", {"metadata": metadata, "spec": {"containers": [container], **spec}, "status": {}})

    def where(self, name: str) -> str:
        """Where a pod is."""
        return str(self.api.objects["Pod", "default", name]["spec"].get("nodeName", ""))

    def finish(self, name: str) -> None:
        """A pod is gone for good."""
        self.api.remove("Pod", "default", name)

    def truth(self) -> Reference:
        """What the API has, for the reference to judge."""
        found = Company(self.gates)
        for (kind, _, name), data in self.api.objects.items():
            if kind == "Node":
                found.nodes[name] = msgspec.convert(data, Node)
        for each in self.api.pods():
            if each.spec.node_name and each.status.phase not in ("Succeeded", "Failed"):
                found.pods[each.metadata.uid] = each.spec.node_name, each
        return found

    def check(self) -> None:
        """What must be true whenever nothing happens any more."""
        truth = self.truth()
        check_table(self.scheduler.table, truth)
        uids = [uid for uid, _ in self.api.bindings]
        assert len(uids) == len(set(uids))
        assert set(self.scheduler.counted) == set(truth.pods)
        assert not self.scheduler.assumed
        assert self.free_slots.number == self.slots
        waiting = [each for each in self.api.pods() if not each.spec.node_name and not each.status.phase]
        assert set(self.scheduler.queue.pods) == {each.metadata.uid for each in waiting}
        nominated = {
            uid: (node, info.pod)
            for node, pods in self.scheduler.handle.nominations.by_node.items()
            for uid, info in pods.items()
        }
        if not self.api.lost:
            written = {each.metadata.uid: each.status.nominated_node_name for each in waiting}
            assert {uid: node for uid, (node, _) in nominated.items()} == {
                u: node for u, node in written.items() if node
            }
        for each in waiting:
            if not each.spec.scheduling_gates:
                assert not self.fits(truth, each, nominated), f"{each.metadata.name} would fit and waits"
                if each.metadata.uid not in nominated:
                    assert not self.fits(self.without(truth, each), each, nominated), "room could be made and is not"

    def without(self, truth: Reference, pod: Pod) -> Reference:
        """The cluster without pods of lower priority than this one."""
        rest = {
            uid: (node, each)
            for uid, (node, each) in truth.pods.items()
            if (each.spec.priority or 0) >= (pod.spec.priority or 0)
        }
        return Company(truth.gates, truth.args, truth.nodes, rest)

    def fits(self, truth: Reference, pod: Pod, nominated: dict[str, tuple[str, Pod]]) -> list[str]:
        """The nodes that a pod fits on, beside the pods that are nominated there."""
        found = []
        for feasible in truth.feasible(pod):
            name = feasible.metadata.name
            there = {
                uid: (node, each)
                for uid, (node, each) in nominated.items()
                if node == name and (each.spec.priority or 0) >= (pod.spec.priority or 0) and uid != pod.metadata.uid
            }
            beside = Company(truth.gates, truth.args, truth.nodes, {**truth.pods, **there})
            if beside.refusal(pod, feasible) is None:
                found.append(name)
        return found


def quick() -> Configuration:
    """Backoffs so short that nobody waits for them."""
    return replace(configured(plugins=(*MINE, "InterPodAffinity")), first_backoff=0.0005, last_backoff=0.001)


@asynccontextmanager
async def play(**given: Any) -> AsyncIterator[Play]:
    here = Play(**given)
    try:
        yield here
    finally:
        await here.end()


TAINTS: tuple[list[Data], ...] = (
    [], [], [], [{"key": "gpu", "effect": "NoSchedule"}], [{"key": "sla", "value": "990", "effect": "NoSchedule"}],
    [{"key": "sla", "value": "900", "effect": "NoSchedule"}], [{"key": "sla", "value": "good", "effect": "NoExecute"}],
)  # fmt: skip
TOLERATIONS: tuple[list[Data], ...] = (
    [], [], [{"key": "gpu", "operator": "Exists"}], [{"key": "sla", "operator": "Gt", "value": "950"}],
)  # fmt: skip
CPUS = ("500m", "1", "2", "3")
TROUBLES = ("", "", "", "", "", "refused", "lost before", "lost after")
NODES = ("red", "blue", "green", "black")
STEPS = (
    "node", "node", "node goes", "taint", "taint", "pod", "pod", "pod", "pod", "pod", "urgent pod", "urgent pod",
    "pod goes", "pod goes", "pod goes", "pod ends", "pod changes", "pod is deleted", "news", "news", "turns", "turns",
    "settle", "settle", "other scheduler binds", "restart", "gated pod", "lonely pod", "lonely pod", "lonely pod",
    "nomination is withdrawn",
)  # fmt: skip


class RandomChanges:
    """Random things that happen to a cluster."""

    def __init__(self, here: Play, chance: random.Random, trouble: bool) -> None:
        self.here, self.chance = here, chance
        self.number = 0
        if trouble:
            here.api.trouble = self._trouble

    def _trouble(self, verb: str, key: Key) -> str:
        return self.chance.choice(TROUBLES)

    def _some_pod(self, wanted: Callable[[Data], bool] = lambda _: True) -> Data | None:
        pods = [data for key, data in self.here.api.objects.items() if key[0] == "Pod" and wanted(data)]
        return self.chance.choice(pods) if pods else None

    async def step(self, what: str) -> None:
        here, chance, api = self.here, self.chance, self.here.api
        if what in ("node", "taint"):
            here.node(chance.choice(NODES), chance.choice(CPUS), *chance.choice(TAINTS), pods=chance.choice("39"))
        elif what == "node goes":
            nodes = [key for key in api.objects if key[0] == "Node"]
            if nodes:
                api.remove(*chance.choice(nodes))
        elif what in ("pod", "urgent pod", "gated pod", "lonely pod"):
            self.number += 1
            here.pod(
                f"pod-{self.number}",
                chance.choice(CPUS),
                tolerations=chance.choice(TOLERATIONS),
                priority=chance.choice([5, 10]) if what == "urgent pod" else chance.choice([0, 0, 0, 5]),
                terminationGracePeriodSeconds=chance.choice([0, 30]),
                schedulingGates=[{"name": "wait"}] if what == "gated pod" else [],
                **({"affinity": LONELY} if what == "lonely pod" else {}),
                labelled=chance.random() < 0.3,
            )
        elif what == "news":
            api.tell(chance.randrange(1, 4))
        elif what == "turns":
            await here.turns(chance.randrange(1, 6))
        elif what == "settle":
            await here.settle()
            here.check()
        elif what == "restart":
            await here.end()
            here.begin()
        else:
            self._with_pod(what)

    def _with_pod(self, what: str) -> None:
        api, chance = self.here.api, self.chance
        pod = self._some_pod()
        if pod is None:
            return
        if what == "pod goes":
            api.remove("Pod", "default", pod["metadata"]["name"])
            return
        if what == "pod ends" and pod["spec"].get("nodeName"):
            pod["status"]["phase"] = "Succeeded"
        elif what == "pod changes":
            tolerations = pod["spec"]["tolerations"]
            pod["spec"]["tolerations"] = [*tolerations, *chance.choice(TOLERATIONS)]
            pod["spec"]["schedulingGates"] = []
        elif what == "pod is deleted" and pod["spec"].get("nodeName"):
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        elif what == "other scheduler binds" and not pod["spec"].get("nodeName"):
            pod["spec"]["nodeName"] = chance.choice(NODES)
        elif what == "nomination is withdrawn" and not pod["spec"].get("nodeName"):
            pod["status"].pop("nominatedNodeName", None)
        else:
            return
        api.put("Pod", pod)


@pytest.mark.parametrize("slots", [1, 3, 512])
@pytest.mark.parametrize("trouble", [False, True], ids=["calm", "trouble"])
def test_no_pod_waits_in_vain_and_no_room_is_lost(trouble: bool, slots: int) -> None:
    async def run(seed: int) -> None:
        async with play(slots=slots) as here:
            churn = RandomChanges(here, random.Random(seed), trouble)
            for number in range(90):
                await churn.step("node" if number < 3 else churn.chance.choice(STEPS))
            here.api.trouble = lambda *_: ""
            await here.settle()
            here.check()

    for seed in range(ROUNDS):
        asyncio.run(run(seed))


async def test_while_some_pods_are_being_removed_no_others_are_sought() -> None:
    async with play() as here:
        for name in ("red", "blue"):
            here.node(name, "1")
            here.pod(f"low-{name}", terminationGracePeriodSeconds=0)
        await here.settle()
        whole, go = here.api.delete, asyncio.Event()

        async def slow(*given: Any, **more: Any) -> bytes:
            await go.wait()
            return await whole(*given, **more)

        here.api.delete = slow  # type: ignore[method-assign]
        here.pod("urgent", priority=10)
        for _ in range(20):
            here.api.tell()
            await here.turns(3)
            here.scheduler.handle.wake("NodeResourcesFit", None, None)
        assert here.attempts.count("urgent") > 3
        go.set()
        await here.settle()
        here.check()
        left = [each.metadata.name for each in here.api.pods() if each.metadata.name != "urgent"]
        assert len(left) == 1
        assert here.where("urgent") not in ("", here.where(left[0]))
