"""The oracle of recipes for new nodes, leases and claims is the long way: the same answers over random ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from moorage.client.clock import ManualClock, timestamp
from tests.apiserver.verbs.twins import START, twins

Data = dict[str, Any]
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
NODES, LEASES = "/api/v1/nodes", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
PODS = "/api/v1/namespaces/default/pods"
SENDERS = ("", "?fieldManager=kubelet", "?fieldValidation=Strict", "?dryRun=All")
COMPARED = {
    "metadata": {"name": "compares"},
    "spec": {
        "containers": [{"name": "c", "image": "pause"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Gt", "values": ["1"]}]}
        ]}}},
    },
}  # fmt: skip


class Objects:
    """Makes nodes, leases and claims that are mostly alike, with few values, so that some of them are equal."""

    def __init__(self, seed: int, clock: ManualClock) -> None:
        self.random = random.Random(seed)
        self._clock = clock

    def name(self) -> str:
        return self.random.choice(
            ("node", "v1", "True", "Ready", "Node-1", "x" * 70, *(f"node-{n}" for n in range(40)))
        )

    def time(self, micro: bool = False) -> str:
        good = timestamp(self._clock.now(), micro=micro)
        return self.random.choice((good, good, good, good, "2026-01-01T00:00:00Z", "2026-02-30T00:00:00Z"))

    def node(self) -> Data:
        name, now = self.name(), self.time()
        uid = str(UUID(int=self.random.randrange(1, 9)))
        hostname = self.random.choice((name, name, name, name, "node-1", "a_b"))
        node: Data = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": hostname, "zone": "a"}},
            "status": {
                "capacity": {"cpu": "16", "memory": "64Gi"},
                "conditions": [
                    {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
                ],
                "addresses": [
                    {"type": "InternalIP", "address": f"10.0.0.{self.random.randrange(5)}"},
                    {"type": "Hostname", "address": name},
                ],
                "nodeInfo": {"machineID": uid.replace("-", ""), "systemUUID": uid, "bootID": uid},
            },
        }
        if self.random.random() < 0.2:
            place, value = self.random.choice(
                (
                    ("spec", {"taints": [{"key": "name", "value": "node-1", "effect": "NoSchedule"}]}),
                    ("metadata", node["metadata"] | {"annotations": {"a": "b"}}),
                    ("metadata", {"generateName": "web-"}),
                    ("unknown", {"name": "web"}),
                    ("status", {"capacity": {"cpu": "-1"}}),
                )
            )
            node[place] = value
        return node

    def lease(self) -> Data:
        name = self.name()
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": str(UUID(int=self.random.randrange(1, 4)))}
        lease: Data = {
            "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]},
            "spec": {
                "holderIdentity": self.random.choice((name, name, name, "other")),
                "leaseDurationSeconds": self.random.choice((40, 40, 40, 0)),
                "renewTime": self.time(micro=True),
            },
        }
        if self.random.random() < 0.2:
            lease["metadata"] = self.random.choice(
                (
                    lease["metadata"] | {"labels": {"name": "a"}},
                    lease["metadata"] | {"ownerReferences": [owner, owner]},
                    lease["metadata"] | {"ownerReferences": None},
                    lease["metadata"] | {"namespace": "other"},
                    {"name": name},
                )
            )
        return lease

    def claim(self) -> Data:
        pod = self.name()
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": str(UUID(int=self.random.randrange(1, 4)))}
        requests = [{"name": self.random.choice(("gpu", "gpu", "gpu", pod)), "exactly": {"deviceClassName": "gpu"}}]
        claim: Data = {
            "metadata": {
                "generateName": self.random.choice(("web-", "web-", "web-", "Web-", "a.web-")),
                "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
                "ownerReferences": [owner | {"controller": True}],
                "finalizers": ["resource.kubernetes.io/delete-protection"],
            },
            "spec": {"devices": {"requests": requests}},
        }
        if self.random.random() < 0.3:
            place, value = self.random.choice(
                (
                    ("metadata", {"name": pod}),
                    ("metadata", {"name": pod, "generateName": "web-"}),
                    ("metadata", claim["metadata"] | {"labels": {"a": "b"}}),
                    ("metadata", claim["metadata"] | {"ownerReferences": [owner, owner]}),
                    ("metadata", claim["metadata"] | {"annotations": {"moorage.dev/device-tolerations": "["}}),
                    ("spec", {"devices": {"requests": requests * 2}}),
                    ("spec", {"devices": {"requests": requests, "constraints": [{"requests": ["gpu"]}]}}),
                    ("unknown", {"name": "web"}),
                )
            )
            claim[place] = value
        return claim


@pytest.mark.seeded
@pytest.mark.parametrize("seed", range(2))
async def test_a_recipe_makes_of_a_new_object_what_the_long_way_makes_of_it(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(START)
    objects = Objects(seed, clock)
    async with twins(tmp_path, monkeypatch, clock) as both:
        for number in range(600):
            if number == 300:  # from now on, people are warned of some labels
                assert await both("POST", PODS, COMPARED) == 201
            clock.advance(objects.random.choice((0, 0, 0, 1)))
            place, made = objects.random.choice(
                ((NODES, objects.node()), (LEASES, objects.lease()), (CLAIMS, objects.claim()))
            )
            sender = objects.random.choice((*SENDERS, *[""] * 20))
            if await both("POST", place + sender, made) == 201 and "name" in made["metadata"] and not sender:
                await both("GET", f"{place}/{made['metadata']['name']}", None)
                if objects.random.random() < 0.8:
                    await both("DELETE", f"{place}/{made['metadata']['name']}", None)
    assert both.replayed > 50
