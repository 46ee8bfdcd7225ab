"""A cluster under constant change, on a real API server: no overcommit, no forbidden placement, nobody forgotten."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.requests import amounts, pod_requests
from moorage.client import ApiError, Client, Missing
from moorage.features import ALL_ON
from moorage.scheduler.config import Configuration
from moorage.scheduler.scheduler import Scheduler
from tests.plane import create, eventually, node, pod, read_all
from tests.scheduler.reference import Reference
from tests.scheduler.stage import NODE, POD, Stage, stage
from tests.scheduler.test_columns import check_table

Data = dict[str, Any]
SECONDS = float(os.environ.get("MOORAGE_SOAK_SECONDS", "12"))
SEED = int(os.environ.get("MOORAGE_SOAK_SEED", "1"))
_LATE = 5.0
"""How many seconds a decision may be older than the binding that it led to."""
NODES = 24
TAINTS: tuple[list[Data], ...] = (
    [], [], [],
    [{"key": "gpu", "value": "a100", "effect": "NoSchedule"}],
    [{"key": "sla", "value": "990", "effect": "NoSchedule"}],
    [{"key": "sla", "value": "900", "effect": "NoExecute"}],
    [{"key": "sla", "value": "unknown", "effect": "NoSchedule"}],
    [{"key": "readiness.io/cni", "effect": "NoSchedule"}, {"key": "sla", "value": "5", "effect": "PreferNoSchedule"}],
    [{"key": "runtime", "value": "2.1.4", "effect": "NoSchedule"}],
)  # fmt: skip
TOLERATIONS: tuple[list[Data], ...] = (
    [], [], [],
    [{"key": "gpu", "operator": "Exists"}],
    [{"key": "sla", "operator": "Gt", "value": "950"}],
    [{"key": "sla", "operator": "Lt", "value": "950"}],
    [{"key": "readiness.io/*", "operator": "Exists"}],
    [{"key": "runtime", "operator": "SemverGt", "value": "2.0"}],
    [{"expression": 'taint.key == "sla" && taint.value != "unknown"'}],
)  # fmt: skip
SELECTORS: tuple[Data, ...] = (
    {}, {}, {},
    {"nodeSelector": {"zone": "a"}},
    {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["6.0"]}]},
        {"matchCELExpressions": ['node.labels["zone"] == "b"']},
    ]}}}},
)  # fmt: skip


class Witness:
    """Follows nodes and pods from outside, and judges every binding at the moment when it becomes known."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.truth = Reference(ALL_ON)
        self._past: dict[str, deque[tuple[float, Node]]] = {}
        """The states that each node had lately, and until when."""
        self.bound: dict[str, str] = {}
        self.count = 0

    async def run(self) -> None:
        await asyncio.gather(self._follow(NODE, self._node), self._follow(POD, self._pod))

    async def _follow(self, kind: Any, seen: Any) -> None:
        async for batch in self._client.watch(kind, after="0"):
            for change in batch:
                if change.type != "BOOKMARK":
                    seen(change.type, msgspec.json.decode(change.object, type=kind.struct))

    def _node(self, what: str, found: Node) -> None:
        name = found.metadata.name
        old = self.truth.nodes.pop(name, None)
        if old is not None:
            self._past.setdefault(name, deque(maxlen=64)).append((time.monotonic(), old))
        if what != "DELETED":
            self.truth.nodes[name] = found

    def _pod(self, what: str, found: Pod) -> None:
        uid, name = found.metadata.uid, found.spec.node_name
        if what == "DELETED":
            self.truth.pods.pop(uid, None)
        elif name and uid not in self.truth.pods:
            assert self.bound.setdefault(uid, name) == name, "bound twice"
            self.count += 1
            self._judge(found, name)
            self.truth.pods[uid] = name, found

    def _judge(self, found: Pod, name: str) -> None:
        """A binding must have been right for the node as it is, or as it was a moment ago."""
        recent = time.monotonic() - _LATE
        states = [state for until, state in self._past.get(name, ()) if until > recent]
        if now := self.truth.nodes.get(name):
            states.append(now)
        refusals = [self.truth.refusal(found, state) for state in states]
        assert None in refusals, f"{found.metadata.name} must not be on {name}: {refusals}"


class Churn:
    """Everything that may happen, at random."""

    def __init__(self, here: Stage, chance: random.Random) -> None:
        self.here, self.chance = here, chance
        self.number = 0
        self.pods: list[str] = []

    def manifest(self, name: str) -> Data:
        """A node of which the size never changes, so that nobody is overcommitted by the change of a node."""
        size = int(name.rpartition("-")[2])
        labels = {"zone": self.chance.choice("abc"), "kernel": self.chance.choice(["5.15.0", "6.1", "custom"])}
        room = {"cpu": str(2 + size % 5), "pods": str(6 + size % 7)}
        return node(name, labels, self.chance.choice(TAINTS), **room)

    async def step(self) -> None:
        what = self.chance.choices(
            (self.add_node, self.remove_node, self.change_node, self.add_pod, self.remove_pod),
            (2, 1, 6, 40, 30 if len(self.pods) < 120 else 60),
        )[0]
        with suppress(Missing):
            await what()

    def _any_node(self) -> str:
        return f"node-{self.chance.randrange(NODES)}"

    async def add_node(self) -> None:
        name = self._any_node()
        manifest = self.manifest(name)
        with suppress(ApiError):
            await create(self.here.client, manifest)
        await self.here.taint(name, *manifest["spec"]["taints"])

    async def remove_node(self) -> None:
        await self.here.client.delete(NODE, "", self._any_node())

    async def change_node(self) -> None:
        labels = {"zone": self.chance.choice("abc")}
        patch = {"metadata": {"labels": labels}, "spec": {"taints": self.chance.choice(TAINTS)}}
        await self.here.client.patch(NODE, "", self._any_node(), patch)

    async def add_pod(self) -> None:
        self.number += 1
        name = f"pod-{self.number}"
        self.pods.append(name)
        spec = {
            "requests": {"cpu": self.chance.choice(["100m", "400m", "900m", "3"])},
            "tolerations": self.chance.choice(TOLERATIONS),
            **self.chance.choice(SELECTORS),
        }
        await create(self.here.client, pod(name, **spec))

    async def remove_pod(self) -> None:
        if len(self.pods) > 60:
            name = self.pods.pop(self.chance.randrange(len(self.pods)))
            await self.here.client.delete(POD, "default", name, grace=0)


async def fits_nowhere(here: Stage) -> bool:
    """Whether no pod waits that a node would do for, and the scheduler has counted what there is."""
    truth = await counted(here.client)
    waiting = [each for each in await pods(here.client) if not each.spec.node_name]
    for each in waiting:
        assert not truth.feasible(each), f"{each.metadata.name} would fit and waits"
    scheduler = here.scheduler
    assert set(scheduler.queue.pods) == {each.metadata.uid for each in waiting}
    assert not scheduler._assumed
    check_table(scheduler.table, truth)
    return True


async def pods(client: Client) -> list[Pod]:
    return [msgspec.convert(each, Pod) for each in await read_all(client, "Pod")]


async def counted(client: Client) -> Reference:
    """What the API has."""
    truth = Reference(ALL_ON)
    for data in await read_all(client, "Node"):
        truth.nodes[data["metadata"]["name"]] = msgspec.convert(data, Node)
    for each in await pods(client):
        if each.spec.node_name:
            truth.pods[each.metadata.uid] = each.spec.node_name, each
    return truth


def sizes(scheduler: Scheduler) -> dict[str, int]:
    """How much a scheduler keeps."""
    queue, table = scheduler.queue, scheduler.table
    return {
        "rows": table.size,
        "log": len(table._log),
        "taints": len(table.taints.values),
        "shapes": len(scheduler._shapes._shapes),
        "decisions": sum(len(each._decisions._known) for each in scheduler.profiles.values()),
        "queue": len(queue.pods),
        "active": len(queue._active),
        "backoff": len(queue._backoff),
        "evaluations": len(scheduler.metrics.evaluations),
        "promises": len(scheduler.handle.nominated),
    }


@pytest.mark.parametrize("restarts", [False, True], ids=["steady", "restarted"])
async def test_a_cluster_under_constant_change(tmp_path: Path, restarts: bool) -> None:
    async with stage(tmp_path, configuration=Configuration(first_backoff=0.05, last_backoff=0.2)) as here:
        chance = random.Random(SEED)
        churn, witness = Churn(here, chance), Witness(here.server.client("witness"))
        watching = asyncio.create_task(witness.run())
        for number in range(NODES // 2):
            manifest = churn.manifest(f"node-{number}")
            await create(here.client, manifest)
            await here.taint(f"node-{number}", *manifest["spec"]["taints"])
        end = time.monotonic() + SECONDS / 2
        while time.monotonic() < end:
            await asyncio.gather(*(churn.step() for _ in range(8)))
            if watching.done():
                watching.result()
            if restarts and chance.random() < 0.02:
                await here.restart()
            elif chance.random() < 0.02:
                await eventually(lambda: fits_nowhere(here))
        await eventually(lambda: fits_nowhere(here), 20)
        assert not watching.done() or watching.result() is None
        watching.cancel()
        assert witness.count > 10 * SECONDS / 2

        async def quiet() -> bool:
            return not here.scheduler._tasks

        await eventually(quiet)
        kept = sizes(here.scheduler)
        limits = {
            "rows": 64, "log": 65_536, "taints": 4 * 64 + 1024, "shapes": 1024, "decisions": 256,
            "queue": 200, "active": 200, "backoff": 200, "evaluations": 200, "promises": 0,
        }  # fmt: skip
        assert {name: (kept[name], most) for name, most in limits.items() if kept[name] > most} == {}
        assert sum(len(rows) for rows in here.scheduler.table.images.values()) == 0


async def test_a_scheduler_that_is_stopped_again_and_again_under_load_binds_each_pod_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        chance = random.Random(SEED)
        witness = Witness(here.server.client("witness"))
        watching = asyncio.create_task(witness.run())
        for number in range(10):
            await here.node(f"node-{number}", cpu="8", pods="30")
        names = [f"pod-{number}" for number in range(200)]

        async def make(name: str) -> None:
            await here.pod(name, requests={"cpu": "300m"})

        making = asyncio.gather(*(make(name) for name in names))
        for _ in range(12):
            await asyncio.sleep(chance.random() * 0.05)
            await here.restart()
        await making

        async def all_bound() -> bool:
            return all(each.spec.node_name for each in await pods(here.client))

        assert await eventually(all_bound, 20)
        await eventually(lambda: fits_nowhere(here))
        assert not watching.done() or watching.result() is None
        watching.cancel()
        assert len(witness.bound) == 200
        room = {name: amounts(each.status.allocatable)["cpu"] for name, each in witness.truth.nodes.items()}
        for where, each in witness.truth.pods.values():
            room[where] -= pod_requests(each.spec)["cpu"]
        assert min(room.values()) >= 0


async def test_a_node_that_vanishes_between_decision_and_binding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage(tmp_path) as here:
        await here.node("only", cpu="1")
        whole = Client.bind
        asked: list[str] = []

        async def slow(client: Client, namespace: str, name: str, uid: str, node: str) -> None:
            asked.append(node)
            if len(asked) == 1:
                await here.client.delete(NODE, "", "only")
                await eventually(lambda: gone(here))
            await whole(client, namespace, name, uid, node)

        async def gone(here: Stage) -> bool:
            return here.scheduler.table.count == 0

        monkeypatch.setattr(Client, "bind", slow)
        await here.pod("web", requests={"cpu": "900m"})

        async def asked_once() -> bool:
            return bool(asked) and here.scheduler.table.count == 0 and not here.scheduler._assumed

        assert await eventually(asked_once)
        await here.node("only", cpu="1")
        placed = (await here.get("web"))["spec"].get("nodeName")
        if not placed:
            assert await here.node_of("web") == "only"
        await eventually(lambda: fits_nowhere(here))
        await here.delete("web")
        await eventually(lambda: fits_nowhere(here))
        assert here.scheduler.table.requested.sum() == 0


async def test_a_pod_that_is_deleted_while_it_is_being_bound_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage(tmp_path) as here:
        await here.node("only", cpu="1")
        whole = Client.bind
        began, go = asyncio.Event(), asyncio.Event()

        async def slow(client: Client, namespace: str, name: str, uid: str, node: str) -> None:
            if name == "doomed":
                began.set()
                await go.wait()
            await whole(client, namespace, name, uid, node)

        monkeypatch.setattr(Client, "bind", slow)
        doomed = await here.pod("doomed", requests={"cpu": "900m"})
        await began.wait()
        await here.delete("doomed")
        again = await here.pod("doomed", requests={"cpu": "800m"})
        go.set()
        assert again["metadata"]["uid"] != doomed["metadata"]["uid"]
        assert await here.node_of("doomed") == "only"
        await eventually(lambda: fits_nowhere(here))
        assert here.scheduler.table.requested[0].sum() == 800


async def test_a_pod_that_changes_while_its_binding_fails_is_judged_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage(tmp_path, configuration=Configuration(first_backoff=0.01, last_backoff=0.01)) as here:
        await here.node("first")
        whole = Client.bind
        began, go = asyncio.Event(), asyncio.Event()

        async def fails_once(client: Client, namespace: str, name: str, uid: str, node: str) -> None:
            if not began.is_set():
                began.set()
                await go.wait()
                raise ApiError(400, "BadRequest", "not this time")
            await whole(client, namespace, name, uid, node)

        monkeypatch.setattr(Client, "bind", fails_once)
        await here.pod("web")
        await began.wait()
        await here.taint("first", {"key": "gpu", "effect": "NoSchedule"})
        tolerations = [*(await here.get("web"))["spec"]["tolerations"], {"key": "gpu", "operator": "Exists"}]
        await here.client.patch(POD, "default", "web", {"spec": {"tolerations": tolerations}})
        await eventually(lambda: seen(here))
        go.set()
        assert await here.node_of("web") == "first"


async def seen(here: Stage) -> bool:
    """Whether the scheduler has heard of the toleration."""
    found = here.scheduler._pods.get("default", "web")
    return found is not None and any(each.key == "gpu" for each in found.spec.tolerations)
