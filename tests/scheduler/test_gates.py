"""Gates turned off and on again, in the API server and in the scheduler: nothing is widened, nothing needs repair."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moorage.client import Invalid
from moorage.features import ALL_ON, Gate, Gates
from moorage.scheduler.config import Configuration
from tests.plane import api_server, eventually
from tests.scheduler.stage import POD, Stage

Data = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Case(NamedTuple):
    """A node that a pod can go to only while a gate is on."""

    gate: Gate
    spec: Data
    labels: dict[str, str]
    taints: list[Data]
    refusal: str
    """What admission says of new pods while the gate is off."""

    @property
    def waits(self) -> str:
        """Why the pod waits while the gate is off."""
        if self.taints:
            taint = self.taints[0]
            return f"untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
        return "didn't match Pod's node affinity/selector"


def tainted(gate: Gate, toleration: Data, refusal: str, key: str, value: str = "") -> Case:
    return Case(
        gate, {"tolerations": [toleration]}, {}, [{"key": key, "value": value, "effect": "NoSchedule"}], refusal
    )


def selected(gate: Gate, term: Data, refusal: str, **labels: str) -> Case:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
    return Case(gate, {"affinity": affinity}, labels, [], refusal)


CASES = {
    "greater": tainted(
        Gate.COMPARISON, {"key": "sla", "operator": "Gt", "value": "950"},
        'spec.tolerations[0].operator: Unsupported value: "Gt"', "sla", "990",
    ),
    "less": tainted(
        Gate.COMPARISON, {"key": "cost", "operator": "Lt", "value": "10", "effect": "NoSchedule"},
        'spec.tolerations[0].operator: Unsupported value: "Lt"', "cost", "5",
    ),
    "version": tainted(
        Gate.SEMVER, {"key": "runtime", "operator": "SemverGt", "value": "2.0"},
        'spec.tolerations[0].operator: Unsupported value: "SemverGt"', "runtime", "2.1.4",
    ),
    "version of a label": selected(
        Gate.SEMVER, {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.15"]}]},
        "not a valid selector operator", kernel="6.1.0",
    ),
    "expression": tainted(
        Gate.CEL, {"expression": 'taint.key == "gpu" && taint.value.startsWith("a")'},
        "spec.tolerations[0].expression: Forbidden", "gpu", "a100",
    ),
    "expression over labels": selected(
        Gate.CEL, {"matchCELExpressions": ['node.labels["rack"].startsWith("us")']}, "Forbidden", rack="us-west",
    ),
    "expression beside a plain requirement": selected(
        Gate.CEL,
        {"matchExpressions": [{"key": "rack", "operator": "Exists"}], "matchCELExpressions": ["true"]},
        "Forbidden", rack="us-west",
    ),
    "wildcard": tainted(
        Gate.WILDCARD, {"key": "readiness.io/*", "operator": "Exists"}, "spec.tolerations[0].key", "readiness.io/cni",
    ),
}  # fmt: skip


@asynccontextmanager
async def running(directory: Path, api: Gates, scheduler: Gates) -> AsyncIterator[Stage]:
    """An API server and a scheduler, each with its own gates, on what others left."""
    async with api_server(directory, api) as server:
        here = Stage(server, scheduler, Configuration())
        await here.start()
        try:
            yield here
        finally:
            await here.stop()


async def failed(here: Stage, name: str, words: str) -> None:
    """Wait for the event that says why."""

    async def told() -> bool:
        return any(
            each["reason"] == "FailedScheduling" and words in each["message"] for each in await here.events(name)
        )

    assert await eventually(told)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_turning_a_gate_off_and_on_again(case: Case, tmp_path: Path) -> None:
    off = Gates(frozenset(Gate) - {case.gate})

    async with running(tmp_path, ALL_ON, ALL_ON) as here:
        await here.node("good", case.labels, case.taints)
        await here.pod("running", **case.spec)
        assert await here.node_of("running") == "good"

    async with running(tmp_path, ALL_ON, off) as here:
        await here.pod("pending", **case.spec)
        await here.unschedulable("pending", case.waits)
        await failed(here, "pending", case.waits)
        assert (await here.get("running"))["spec"]["nodeName"] == "good"

    async with running(tmp_path, off, off) as here:
        await here.unschedulable("pending", case.waits)
        with pytest.raises(Invalid) as raised:
            await here.pod("refused", **case.spec)
        assert case.refusal in str(raised.value)
        await here.client.patch(POD, "default", "pending", {"metadata": {"labels": {"team": "a"}}})
        await here.client.patch(POD, "default", "running", {"metadata": {"labels": {"team": "a"}}})
        await here.unschedulable("pending", case.waits)
        assert (await here.get("running"))["spec"]["nodeName"] == "good"

    async with running(tmp_path, off, ALL_ON) as here:
        assert await here.node_of("pending") == "good"
        with pytest.raises(Invalid):
            await here.pod("refused", **case.spec)

    async with running(tmp_path, ALL_ON, ALL_ON) as here:
        await here.pod("new", **case.spec)
        assert await here.node_of("new") == "good"
        for name in ("running", "pending"):
            assert (await here.get(name))["spec"]["nodeName"] == "good"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_the_scheduler_alone_follows_its_own_gate(case: Case, tmp_path: Path) -> None:
    off = Gates(frozenset(Gate) - {case.gate})
    async with running(tmp_path, ALL_ON, off) as here:
        await here.node("good", case.labels, case.taints)
        await here.pod("web", **case.spec)
        await here.unschedulable("web", case.waits)
        for gates, placed in ((Gates(frozenset()), False), (off, False), (ALL_ON, True)):
            await here.restart(gates)
            if placed:
                assert await here.node_of("web") == "good"
            else:
                await here.unschedulable("web", case.waits)
