"""Gates turned off and on again, in the API server and in the scheduler: nothing is widened, nothing needs repair."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from moorage.api.claims import BIND_COMPLETED
from moorage.client import Invalid
from moorage.features import ALL_ON, NONE_ON, Gate, Gates
from moorage.scheduler.config import Configuration
from tests.plane import api_server, create, eventually
from tests.scheduler.devices import devicekit as kit
from tests.scheduler.stage import POD, Stage
from tests.scheduler.volumes.storage import affinity, claim_data, uses, volume_data

Data = dict[str, Any]
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
UNMATCHED = "didn't match Pod's node affinity/selector"
UNREACHED = "didn't match PersistentVolume's node affinity"
NO_DEVICES = "cannot allocate all claims"
DEVICES = 8


@dataclass(frozen=True)
class Case:
    """A node that a pod can go to only while a gate is on."""

    gate: Gate
    refusal: str
    """What admission says of new pods, or of what they need, while the gate is off."""
    waits: str
    """Why the pod waits while the gate is off."""
    spec: Callable[[str], Data]
    """What is special about a pod, by its name."""
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Data, ...] = ()
    beside: tuple[Data, ...] = ()
    """What there is beside the node."""
    needs: Callable[[str], list[Data]] = lambda _: []
    """What a pod needs, by its name."""

    @property
    def off(self) -> Gates:
        return Gates(frozenset(Gate) - {self.gate})

    async def pod(self, here: Stage, name: str) -> None:
        """Make a pod, and what it needs first."""
        for manifest in self.needs(name):
            await create(here.client, manifest)
        await here.pod(name, **self.spec(name))


def tainted(gate: Gate, toleration: Data, refusal: str, key: str, value: str = "") -> Case:
    taint = {"key": key, "value": value, "effect": "NoSchedule"}
    return Case(gate, refusal, "untolerated taint(s)", lambda _: {"tolerations": [toleration]}, taints=(taint,))


def selected(gate: Gate, term: Data, refusal: str, **labels: str) -> Case:
    required = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}
    return Case(gate, refusal, UNMATCHED, lambda _: required, labels)


def stored(gate: Gate, term: Data, refusal: str, **labels: str) -> Case:
    """A pod whose volume can be reached from the node."""

    def bound(name: str) -> list[Data]:
        reference: Data = {"claimRef": {"namespace": "default", "name": name}}
        claim = claim_data(name, volumeName=name)
        claim["metadata"]["annotations"] = {BIND_COMPLETED: "yes"}
        return [volume_data(name, **reference, **affinity(term)), claim]

    return Case(gate, refusal, UNREACHED, lambda name: {"volumes": uses(name)}, labels, needs=bound)


def equipped(gate: Gate, toleration: Data, refusal: str, key: str, value: str = "") -> Case:
    """A pod that needs one of the devices of the node."""
    devices = [kit.device(f"gpu-{number}", kit.taint(value, key=key)) for number in range(DEVICES)]
    beside = kit.device_class(), kit.resource_slice("good", *devices)
    return Case(
        gate, refusal, NO_DEVICES, kit.using, beside=beside,
        needs=lambda name: [kit.claim(name, kit.request(tolerations=[toleration]))],
    )  # fmt: skip


GREATER, LESS = ({"operator": operator, "value": "950"} for operator in ("Gt", "Lt"))
VERSION = {"operator": "SemverGt", "value": "2.0"}
EXPRESSION = {"expression": 'taint.key == "gpu" && taint.value.startsWith("a")'}
FAMILY = {"key": "readiness.io/*", "operator": "Exists"}
VERSION_TERM = {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.15"]}]}
EXPRESSION_TERM = {"matchCELExpressions": ['node.labels["rack"].startsWith("us")']}
MIXED_TERM = {"matchExpressions": [{"key": "rack", "operator": "Exists"}], "matchCELExpressions": ["true"]}

CASES = {
    "greater": tainted(
        Gate.COMPARISON, {"key": "sla", **GREATER}, 'spec.tolerations[0].operator: Unsupported value: "Gt"',
        "sla", "990",
    ),
    "less": tainted(
        Gate.COMPARISON, {"key": "cost", **LESS, "effect": "NoSchedule"},
        'spec.tolerations[0].operator: Unsupported value: "Lt"', "cost", "5",
    ),
    "version": tainted(
        Gate.SEMVER, {"key": "runtime", **VERSION}, 'spec.tolerations[0].operator: Unsupported value: "SemverGt"',
        "runtime", "2.1.4",
    ),
    "version of a label": selected(Gate.SEMVER, VERSION_TERM, "not a valid selector operator", kernel="6.1.0"),
    "version for a volume": stored(Gate.SEMVER, VERSION_TERM, "not a valid selector operator", kernel="6.1.0"),
    "expression": tainted(Gate.CEL, EXPRESSION, "spec.tolerations[0].expression: Forbidden", "gpu", "a100"),
    "expression over labels": selected(Gate.CEL, EXPRESSION_TERM, "Forbidden", rack="us-west"),
    "expression beside a plain requirement": selected(Gate.CEL, MIXED_TERM, "Forbidden", rack="us-west"),
    "expression for a volume": stored(Gate.CEL, EXPRESSION_TERM, "Forbidden", rack="us-west"),
    "wildcard": tainted(Gate.WILDCARD, FAMILY, "spec.tolerations[0].key", "readiness.io/cni"),
    "greater of a device": equipped(
        Gate.COMPARISON, {"key": "hours", **GREATER}, 'Unsupported value: "Gt"', "hours", "990"
    ),
    "version of a device": equipped(
        Gate.SEMVER, {"key": "driver", **VERSION}, 'Unsupported value: "SemverGt"', "driver", "2.1.4"
    ),
    "expression about a device": equipped(Gate.CEL, EXPRESSION, "expression: Forbidden", "gpu", "a100"),
    "wildcard for a device": equipped(Gate.WILDCARD, FAMILY, "tolerations[0].key: Invalid value", "readiness.io/cni"),
}  # fmt: skip

CORNERS = ((True, True), (True, False), (False, False), (False, True), (True, True))
"""Whether the API server and the scheduler have the gate: down from the scheduler on, and up from either side."""


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
async def test_in_every_corner_old_pods_stay_and_new_ones_are_told(case: Case, tmp_path: Path) -> None:
    placed: list[str] = []
    waiting: list[str] = []
    for number, (in_api, in_scheduler) in enumerate(CORNERS):
        gates = (ALL_ON if each else case.off for each in (in_api, in_scheduler))
        async with running(tmp_path, *gates) as here:
            if number == 0:
                await here.node("good", case.labels, list(case.taints))
                for manifest in case.beside:
                    await create(here.client, manifest)
            name = f"pod-{number}"
            if in_api:
                await case.pod(here, name)
                waiting.append(name)
            else:
                with pytest.raises(Invalid) as raised:
                    await case.pod(here, name)
                assert case.refusal in str(raised.value)
            for old in (*placed, *waiting):
                await here.client.patch(POD, "default", old, {"metadata": {"labels": {"seen": name}}})
            for old in waiting:
                if in_scheduler:
                    assert await here.node_of(old) == "good"
                else:
                    await here.unschedulable(old, case.waits)
                    await failed(here, old, case.waits)
            if in_scheduler:
                placed += waiting
                waiting.clear()
            for old in placed:
                assert (await here.get(old))["spec"]["nodeName"] == "good"
    assert len(placed) == 3


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_the_scheduler_alone_follows_its_own_gate(case: Case, tmp_path: Path) -> None:
    async with running(tmp_path, ALL_ON, case.off) as here:
        await here.node("good", case.labels, list(case.taints))
        for manifest in case.beside:
            await create(here.client, manifest)
        await case.pod(here, "web")
        await here.unschedulable("web", case.waits)
        for gates, placed in ((NONE_ON, False), (case.off, False), (ALL_ON, True)):
            await here.restart(gates)
            if placed:
                assert await here.node_of("web") == "good"
            else:
                await here.unschedulable("web", case.waits)


def preferring(term: Data) -> Data:
    return {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 100, "preference": term}]}}}


WISHES = {
    "greater": (Gate.COMPARISON, {"tolerations": [{"key": "sla", **GREATER}]}),
    "version": (Gate.SEMVER, {"tolerations": [{"key": "runtime", **VERSION}]}),
    "version of a label": (Gate.SEMVER, preferring(VERSION_TERM)),
    "expression": (Gate.CEL, {"tolerations": [EXPRESSION]}),
    "expression over labels": (Gate.CEL, preferring(EXPRESSION_TERM)),
    "expression beside a plain requirement": (Gate.CEL, preferring(MIXED_TERM)),
    "wildcard": (Gate.WILDCARD, {"tolerations": [FAMILY]}),
}
UNWANTED = {"greater": ("sla", "990"), "version": ("runtime", "2.1.4"), "expression": ("gpu", "a100")}


@pytest.mark.parametrize("wish", WISHES)
async def test_wishes_count_only_while_the_gate_is_on(wish: str, tmp_path: Path) -> None:
    """What is merely preferred keeps nobody waiting: without the gate it counts for nothing, never for something."""
    gate, spec = WISHES[wish]
    key, value = UNWANTED.get(wish, ("readiness.io/cni", ""))
    async with running(tmp_path, ALL_ON, ALL_ON) as here:
        if "tolerations" in spec:
            # The one that is not wanted has more room, which counts once the taint does not.
            await here.node("good", taints=[{"key": key, "value": value, "effect": "PreferNoSchedule"}], cpu="64")
            await here.node("plain", cpu="2")
        else:
            await here.node("good", {"kernel": "6.1.0", "rack": "us-west"}, cpu="2")
            await here.node("plain", cpu="64")
        for number, on in enumerate((True, False, True)):
            await here.restart(ALL_ON if on else Gates(frozenset(Gate) - {gate}))
            await here.pod(f"pod-{number}", **spec)
            assert await here.node_of(f"pod-{number}") == ("good" if on else "plain")
