"""Every corner of docs/skew.md: a gate that is on in some components and off in others does what the table says."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moorage.api import kinds
from moorage.client import Client, Invalid, Missing
from moorage.client.clock import FastClock
from moorage.controlplane import ControlPlane, Settings
from moorage.features import ALL_ON, NONE_ON, Gate
from tests.live.conftest import ROOT
from tests.plane import api_server, create, eventually, node, pod, read

Data = dict[str, Any]
NODE, POD = kinds.row("v1", "Node"), kinds.row("v1", "Pod")
KEY = "example.com/tier"
COMPONENTS = ("apiserver", "scheduler", "controllers", "kubelet")


class Use(NamedTuple):
    """A pod that needs a gate on a node with a taint of this value, or with this label."""

    gate: Gate
    value: str
    spec: Data

    @property
    def tolerates(self) -> bool:
        return "tolerations" in self.spec

    @property
    def is_evicted(self) -> bool:
        """Whether the controllers evict it when they lose the gate."""
        return self.tolerates and self.gate in (Gate.CEL, Gate.WILDCARD)


def tolerating(**toleration: str) -> Data:
    return {"tolerations": [toleration]}


def requiring(term: Data) -> Data:
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": terms}}


NEWER = {"key": KEY, "operator": "SemverGt", "values": ["1.30.0"]}
USES = {
    "gt": Use(Gate.COMPARISON, "990", tolerating(key=KEY, operator="Gt", value="950")),
    "lt": Use(Gate.COMPARISON, "900", tolerating(key=KEY, operator="Lt", value="950")),
    "semver": Use(Gate.SEMVER, "v1.31.0", tolerating(key=KEY, operator="SemverGt", value="1.30.0")),
    "semver-affinity": Use(Gate.SEMVER, "v1.31.0", requiring({"matchExpressions": [NEWER]})),
    "cel": Use(Gate.CEL, "gold", tolerating(expression=f"taint.key == '{KEY}' && taint.value == 'gold'")),
    "cel-affinity": Use(Gate.CEL, "gold", requiring({"matchCELExpressions": [f"node.labels['{KEY}'] == 'gold'"]})),
    "wildcard": Use(Gate.WILDCARD, "any", tolerating(key="example.com/*", operator="Exists")),
}


class Corner(NamedTuple):
    """A row of the table."""

    on: tuple[bool, ...]
    new: str
    waits: str
    starts: str
    runs: str


def _corners() -> Iterator[Corner]:
    for line in (ROOT / "docs" / "skew.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and {*cells[:4]} <= {"on", "off"}:
            yield Corner(tuple(cell == "on" for cell in cells[:4]), *cells[4:])


CORNERS = list(_corners())


def bound(name: str, use: Use, where: str) -> Data:
    return pod(name, nodeName=where, nodeSelector={"place": where}, **use.spec)


async def furnished(client: Client) -> None:
    """What is there when the gates change: nodes, and pods that wait, are placed, and run."""
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for name, use in USES.items():
        for place, effect in ((f"{name}-strict", "NoExecute"), (f"{name}-lax", "NoSchedule")):
            taints = [{"key": KEY, "value": use.value, "effect": effect}] if use.tolerates else []
            await create(client, node(place, {KEY: use.value, "place": place}))
            await client.patch(NODE, "", place, {"spec": {"taints": taints}})  # without the one of a node that is new
        await create(client, bound(f"{name}-runs", use, f"{name}-strict"), **ready)
        await create(client, bound(f"{name}-starts", use, f"{name}-strict"))
        await create(client, pod(f"{name}-waits", nodeSelector={"place": f"{name}-lax"}, **use.spec))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory from before the gates change."""
    directory = tmp_path_factory.mktemp("skew") / "data"

    async def fill() -> None:
        async with api_server(directory, ALL_ON) as server:
            await furnished(server.client("test"))

    asyncio.run(fill())
    return directory


@asynccontextmanager
async def plane(directory: Path, corner: Corner) -> AsyncIterator[Client]:
    gates: Data = {f"{name}_gates": ALL_ON if on else NONE_ON for name, on in zip(COMPONENTS, corner.on, strict=True)}
    clock = FastClock()
    running = await ControlPlane.start(Settings(directory, port=0, nodes=0, clock=clock, **gates))
    try:
        await clock.run_fast(2)  # until nodes come to life
        yield running.server.client("test")
    finally:
        await running.stop()


async def new(client: Client, name: str, use: Use) -> str:
    try:
        await client.create(POD, pod(f"{name}-new", nodeSelector={"place": "nowhere"}, **use.spec), "default")
    except Invalid:
        return "refused"
    return "admitted"


async def waits(client: Client, name: str) -> str:
    found = await read(client, "Pod", f"{name}-waits")
    if found["spec"].get("nodeName"):
        return "placed"
    messages = [each.get("message", "") for each in found["status"].get("conditions", ())]
    is_off = f"needs the feature gate {USES[name].gate.value}, which is off"
    return "stays pending" if any(is_off in each for each in messages) else ""


async def starts(client: Client, name: str) -> str:
    found = await left(client, f"{name}-starts")
    if found is None:
        return "evicted"
    phase, reason = found["status"].get("phase"), found["status"].get("reason")
    if phase == "Failed":
        assert reason == ("TaintToleration" if USES[name].tolerates else "NodeAffinity")
    return {"Running": "runs", "Failed": "rejected"}.get(phase, "")


async def runs(client: Client, name: str) -> str:
    return "stays" if await left(client, f"{name}-runs") else "evicted"


async def left(client: Client, name: str) -> Data | None:
    """A pod, unless it is gone or being deleted."""
    try:
        found = await read(client, "Pod", name)
    except Missing:
        return None
    return None if found["metadata"].get("deletionTimestamp") else found


async def evicted(client: Client, name: str, use: Use) -> None:
    """Wait until a pod is evicted that tolerates nothing: then the others on its node have been judged."""
    if use.tolerates:
        intruder = f"{name}-intruder"
        await create(client, pod(intruder, nodeName=f"{name}-strict"))

        async def gone() -> bool:
            return await left(client, intruder) is None

        await eventually(gone)


def told(cell: str, use: Use) -> set[str]:
    """What a cell says of a use; what is both rejected and evicted shows as one of them."""
    said, _, evicted = cell.partition(", E ")
    if not (evicted and use.is_evicted):
        return {said}
    return {evicted, said} if said == "rejected" else {evicted}


def test_the_table_has_every_corner_once() -> None:
    assert len({corner.on for corner in CORNERS}) == len(CORNERS) == 2 ** len(COMPONENTS)


async def agrees(ask: Callable[[], Awaitable[str]], expected: set[str]) -> bool:
    outcome = await ask()
    assert outcome in expected
    return True


async def check(corner: Corner, directory: Path) -> None:
    async with plane(directory, corner) as client:

        async def judge(name: str, use: Use) -> None:
            await evicted(client, name, use)
            assert await new(client, name, use) in told(corner.new, use), (corner, name)
            for ask, cell in ((waits, corner.waits), (starts, corner.starts), (runs, corner.runs)):
                await eventually(partial(agrees, partial(ask, client, name), told(cell, use)))

        await asyncio.gather(*(judge(name, use) for name, use in USES.items()))


@pytest.mark.parametrize("scheduler", [True, False], ids=["scheduler-on", "scheduler-off"])
@pytest.mark.parametrize("apiserver", [True, False], ids=["apiserver-on", "apiserver-off"])
async def test_each_corner_is_as_the_table_says(apiserver: bool, scheduler: bool, data: Path, tmp_path: Path) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number, corner in enumerate(CORNERS):
            if corner.on[:2] == (apiserver, scheduler):
                directory = shutil.copytree(data, tmp_path / f"{number}")
                tasks.create_task(check(corner, directory))
