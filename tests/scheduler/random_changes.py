"""Everything that may happen to a cluster, at random: nodes, taints, labels, pods, volumes, devices and claims."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from moorage.api import kinds
from moorage.client import Client, Conflict, Exists, Missing
from tests.plane import create, node, pod, read, read_all
from tests.scheduler.devices import devicekit as kit
from tests.scheduler.devices.claimreference import BIG, SMALL
from tests.scheduler.volumes.storage import affinity, claim_data, class_data, ephemeral, on, uses, volume_data

Data = dict[str, Any]
Need = Callable[[Data], Awaitable[list[Data]]]
"""Adds what a pod needs to its specification, and returns what is to be made after it."""
NODE, POD = kinds.row("v1", "Node"), kinds.row("v1", "Pod")
VOLUME, CLAIM = kinds.row("v1", "PersistentVolume"), kinds.row("v1", "PersistentVolumeClaim")
SLICE, RULE = kinds.row(kit.V1, "ResourceSlice"), kinds.row(kit.V1, "DeviceTaintRule")
DEVICE_CLAIM = kinds.row(kit.V1, "ResourceClaim")

NODES, VOLUMES, SLICES, RULES = 24, 30, 16, 4
FEWEST_PODS, MOST_PODS, MOST_CLAIMS = 50, 80, 16
TEMPLATES = 40
"""How many sorts of pods there are."""
NOW, WAIT, MADE = "now", "wait", "made"
"""Classes of storage: bound at once, bound when a pod comes, and made when a pod comes."""
MODES = ("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod")
TAINTS: tuple[list[Data], ...] = (
    *([],) * 10,
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
REACHES: tuple[Data, ...] = (
    {},
    affinity(on("zone", "a")), affinity(on("zone", "b", "c")), affinity(on("kernel", "6.0", operator="SemverGt")),
    affinity({"matchCELExpressions": ['node.labels["zone"] == "c"']}),
    *(affinity(on("kubernetes.io/hostname", f"node-{number}")) for number in range(0, NODES, 5)),
)  # fmt: skip
DEVICE_TAINTS: tuple[list[Data], ...] = (
    [], [], [], [], [kit.taint("100")], [kit.taint("9000")], [kit.taint("9000", "NoExecute")], [kit.taint("many")],
)  # fmt: skip
PLACES: tuple[Data, ...] = (
    {"allNodes": True}, {"nodeSelector": {"nodeSelectorTerms": [on("zone", "a")]}},
    {"nodeSelector": {"nodeSelectorTerms": [{"matchCELExpressions": ['node.labels["zone"] != "a"']}]}},
)  # fmt: skip
NEW: Data = {"tolerations": [{"key": "hours", "operator": "Lt", "value": "500"}]}
OLD: Data = {"tolerations": [{"key": "hours", "operator": "Gt", "value": "500", "effect": "NoSchedule"}]}
REQUESTS: tuple[list[Data], ...] = (
    [kit.request()], [kit.request()], [kit.request(selector=BIG)], [kit.request(selector=SMALL, **OLD)],
    [kit.request(count=2)], [kit.request(**NEW)], [kit.request("one"), kit.request("two", selector=SMALL)],
    [{"name": "any", "firstAvailable": [
        {"name": "big", "deviceClassName": "gpu", "selectors": [{"cel": {"expression": BIG}}], "count": 2},
        {"name": "old", "deviceClassName": "gpu", **OLD},
    ]}],
)  # fmt: skip


class RandomChanges:
    """Changes things. Names come from few numbers, so that what went comes again as another."""

    def __init__(self, client: Client, chance: random.Random) -> None:
        self.client, self.chance = client, chance
        self.pods: list[str] = []
        self.claims: list[str] = []
        self.device_claims: list[str] = []
        self._templates = [self._template() for _ in range(TEMPLATES)]
        self._later: list[Data] = []
        """Claims that pods wait for."""
        self._number = 0
        self._generation = 1
        self._steps: dict[Callable[[], Awaitable[None]], int] = {
            self.add_node: 4, self.remove_node: 1, self.change_node: 8,
            self.add_pod: 40, self.remove_pod: 32,
            self.add_volume: 6, self.remove_volume: 2, self.reclaim_volume: 8, self.remove_claim: 6,
            self.add_claim: 12,
            self.put_slice: 5, self.remove_slice: 2, self.put_rule: 3, self.remove_rule: 3, self.remove_device_claim: 5,
        }  # fmt: skip

    async def begin(self) -> None:
        """Make what stays, and some of what comes and goes."""
        for name, mode, provisioner in (
            (NOW, "Immediate", ""), (WAIT, "WaitForFirstConsumer", ""),
            (MADE, "WaitForFirstConsumer", "moorage.dev/hollow"),
        ):  # fmt: skip
            await create(self.client, class_data(name, mode, provisioner))
        await create(self.client, kit.device_class())
        template = {"apiVersion": kit.V1, "kind": "ResourceClaimTemplate", "metadata": {"name": "one-gpu"}}
        await create(self.client, template | {"spec": {"spec": kit.claim("")["spec"]}})
        for what in (self.add_node, self.add_volume, self.put_slice, self.add_pod, self.add_pod) * NODES:
            await self._try(what)

    async def step(self) -> None:
        """Let one thing happen."""
        await self._try(self.chance.choices(list(self._steps), list(self._steps.values()))[0])

    async def change(self) -> None:
        """Let one thing happen that pods may have waited for."""
        steps = {what: often for what, often in self._steps.items() if what != self.add_pod}
        await self._try(self.chance.choices(list(steps), list(steps.values()))[0])

    async def _try(self, what: Callable[[], Awaitable[None]]) -> None:
        """Do something, unless it is not possible now or somebody was faster."""
        with suppress(Missing, Exists, Conflict):
            await what()

    def _named(self, kind: str, number: int) -> str:
        return f"{kind}-{self.chance.randrange(number)}"

    def _new(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-{self._number}"

    async def add_node(self) -> None:
        """A node of which the size never changes, so that nobody is overcommitted by the change of a node."""
        name = self._named("node", NODES)
        size = int(name.rpartition("-")[2])
        labels = {"zone": self.chance.choice("abc"), "kernel": self.chance.choice(["5.15.0", "6.1", "custom"])}
        room = {"cpu": str(2 + size % 5), "pods": str(6 + size % 7)}
        taints = self.chance.choice(TAINTS)
        with suppress(Exists):
            await create(self.client, node(name, labels, taints, **room))
        await self.client.patch(NODE, "", name, {"spec": {"taints": taints}})

    async def remove_node(self) -> None:
        await self.client.delete(NODE, "", self._named("node", NODES))

    async def change_node(self) -> None:
        labels = {"zone": self.chance.choice("abc")}
        patch = {"metadata": {"labels": labels}, "spec": {"taints": self.chance.choice(TAINTS)}}
        await self.client.patch(NODE, "", self._named("node", NODES), patch)

    async def add_pod(self) -> None:
        """A pod, with its claims before it, after it, or never."""
        if len(self.pods) >= MOST_PODS:
            await self.remove_pod()
        name = self._new("pod")
        template, needs = self.chance.choice(self._templates)
        spec, later = dict(template), list[Data]()
        for add in needs:
            later += await add(spec)
        self.pods.append(name)
        await create(self.client, pod(name, **spec))
        self._later += later

    def _template(self) -> tuple[Data, tuple[Need, ...]]:
        spec = {
            "requests": {"cpu": self.chance.choice(["100m", "400m", "900m", "3"])},
            "tolerations": self.chance.choice(TOLERATIONS),
            **self.chance.choice(SELECTORS),
        }
        volumes = partial(self._volumes, self.chance.choices(("new", "two", "shared", "own"), (4, 2, 5, 2))[0])
        devices = partial(self._devices, self.chance.choices(("new", "two", "shared", "own"), (5, 2, 3, 4))[0])
        return spec, self.chance.choices(((), (volumes,), (devices,), (volumes, devices)), (5, 3, 3, 1))[0]

    async def remove_pod(self) -> None:
        if len(self.pods) > FEWEST_PODS:
            name = self.pods.pop(self.chance.randrange(len(self.pods)))
            await self.client.delete(POD, "default", name, grace=self.chance.choice([0, 0, 30]))

    async def add_claim(self) -> None:
        """A claim that a pod waits for."""
        if self._later:
            await create(self.client, self._later.pop(self.chance.randrange(len(self._later))))

    async def _made(self, manifest: Data) -> list[Data]:
        """Make something now, or have it made later."""
        if self.chance.random() < 0.3:
            return [manifest]
        await create(self.client, manifest)
        return []

    async def _volumes(self, kind: str, spec: Data) -> list[Data]:
        """Give a pod claims: one or two new ones, one that others have too, or one of its own."""
        if kind == "own":
            spec["volumes"] = [ephemeral("scratch", MADE)]
            return []
        if kind == "shared" and self.claims:
            spec["volumes"] = uses(self.chance.choice(self.claims))
            return []
        names = [self._new("claim") for _ in range(2 if kind == "two" else 1)]
        spec["volumes"] = uses(*names)
        while len(self.claims) > MOST_CLAIMS:
            await self.remove_claim()
        later: list[Data] = []
        for name in names:
            size, class_ = self.chance.choice(["1Gi", "4Gi"]), self.chance.choice((NOW, WAIT, WAIT, MADE))
            later += await self._made(claim_data(name, class_, size, accessModes=[self.chance.choice(MODES)]))
        self.claims += names
        return later

    async def add_volume(self) -> None:
        name = self._named("volume", VOLUMES)
        class_, size = self.chance.choice((NOW, WAIT)), self.chance.choice(["2Gi", "5Gi"])
        modes = {"accessModes": [self.chance.choice(MODES)]}
        await create(self.client, volume_data(name, class_, size, **modes, **self.chance.choice(REACHES)))

    async def remove_volume(self) -> None:
        await self.client.delete(VOLUME, "", self._named("volume", VOLUMES))

    async def reclaim_volume(self) -> None:
        """Give a volume that has lost its claim to whoever comes next."""
        for each in await read_all(self.client, "PersistentVolume"):
            metadata = each["metadata"]
            if each["status"].get("phase") == "Released" and each["spec"]["storageClassName"] != MADE:
                patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "spec": {"claimRef": None}}
                await self.client.patch(VOLUME, "", metadata["name"], patch)
                return

    async def remove_claim(self) -> None:
        if self.claims:
            name = self.claims.pop(self.chance.randrange(len(self.claims)))
            await self.client.delete(CLAIM, "default", name)

    async def _devices(self, kind: str, spec: Data) -> list[Data]:
        """Give a pod devices: by a new claim, by one that others have too, by both, or by one that is made for it."""
        if kind == "own":
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
            return []
        names = [self.chance.choice(self.device_claims)] if kind != "new" and self.device_claims else []
        later: list[Data] = []
        if kind != "shared" or not names:
            while len(self.device_claims) > MOST_CLAIMS:
                await self.remove_device_claim()
            names.append(self._new("device"))
            later = await self._made(kit.claim(names[-1], *self.chance.choice(REQUESTS)))
            self.device_claims.append(names[-1])
        spec.update(kit.using(*names))
        return later

    async def put_slice(self) -> None:
        """New devices, or other ones or other taints than before."""
        number = self.chance.randrange(SLICES)
        name = f"slice-{number}"
        self._generation += 1
        devices = [
            kit.device(f"gpu-{at}", *self.chance.choice(DEVICE_TAINTS), model=self.chance.choice(["big", "small"]))
            for at in range(self.chance.randrange(1, 4))
        ]
        place = self.chance.choice(PLACES) if number < 4 else {}
        home = "" if place else f"node-{number}"
        manifest = kit.resource_slice(home, *devices, name=name, pool=name, generation=self._generation, **place)
        try:
            await create(self.client, manifest)
        except Exists:
            old = await read(self.client, "ResourceSlice", name, api_version=kit.V1)
            old["spec"]["devices"] = manifest["spec"]["devices"]
            old["spec"]["pool"] = manifest["spec"]["pool"]
            await self.client.update(SLICE, old)

    async def remove_slice(self) -> None:
        await self.client.delete(SLICE, "", self._named("slice", SLICES))

    async def put_rule(self) -> None:
        name = self._named("rule", RULES)
        selector = {"driver": kit.DRIVER, "pool": self._named("slice", SLICES), "device": "gpu-0"}
        if self.chance.random() < 0.5:
            del selector["device"]
        taint = kit.taint("9000", self.chance.choice(["NoSchedule", "NoExecute"]))
        spec = {"deviceSelector": selector, "taint": taint}
        manifest = {"apiVersion": kit.V1, "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}
        await create(self.client, manifest)

    async def remove_rule(self) -> None:
        await self.client.delete(RULE, "", self._named("rule", RULES))

    async def remove_device_claim(self) -> None:
        if self.device_claims:
            name = self.device_claims.pop(self.chance.randrange(len(self.device_claims)))
            await self.client.delete(DEVICE_CLAIM, "default", name)
