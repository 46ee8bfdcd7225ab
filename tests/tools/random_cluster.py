"""Small clusters at random, as a server would have them: nodes, volumes, claims, devices and pods."""

from __future__ import annotations

import random
from typing import Any

from moorage.api import kinds
from moorage.api.decode import convert
from moorage.api.meta import Object
from moorage.tools.cluster import Cluster, ClusterObject
from tests.plane import node, pod
from tests.scheduler.devices import devicekit as kit
from tests.scheduler.volumes.storage import affinity, claim_data, class_data, on, volume_data

Data = dict[str, Any]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
TAINTS: tuple[list[Data], ...] = (
    [], [], [], [], [],
    [{"key": "sla", "value": "900", "effect": "NoSchedule"}],
    [{"key": "sla", "value": "990", "effect": "NoExecute"}],
    [{"key": "sla", "value": "high", "effect": "NoSchedule"}],
    [{"key": "gpu", "value": "a100", "effect": "NoSchedule"}, {"key": "old", "effect": "PreferNoSchedule"}],
)  # fmt: skip
TOLERATIONS: tuple[list[Data], ...] = (
    [], [], [{"key": "gpu", "operator": "Exists"}], [{"key": "sla", "operator": "Gt", "value": "950"}],
    [{"key": "sla", "operator": "Lt", "value": "950", "effect": "NoSchedule"}, {"key": "gpu", "operator": "Exists"}],
    [{"operator": "Exists"}],
)  # fmt: skip


class RandomCluster:
    """Objects by kind and name, made from a seed."""

    def __init__(self, seed: int, nodes: int = 6, pods: int = 8) -> None:
        self.random = random.Random(seed)
        self.objects: list[Data] = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "uid": "ns", "labels": {}}},
            class_data("wait"), class_data("made", provisioner="example.com/disk"), kit.device_class(),
        ]  # fmt: skip
        self.nodes = [self._node(number) for number in range(nodes)]
        self.objects += self.nodes
        self._storage(nodes)
        self._devices(nodes)
        for number in range(pods):
            placed = self.pod(f"placed-{number}", claims=False)
            placed["spec"]["nodeName"] = self.random.choice(self.nodes)["metadata"]["name"]
            placed["status"] = {"phase": "Running"}
            self.objects.append(placed)
        if self.random.random() < 0.3:
            waiting = self.pod("nominated", claims=False)
            waiting["spec"]["priority"] = 50
            waiting["status"] = {"nominatedNodeName": self.random.choice(self.nodes)["metadata"]["name"]}
            self.objects.append(waiting)
        for number, data in enumerate(self.objects):
            data["metadata"].setdefault("uid", f"uid-{number}")
            data["metadata"]["resourceVersion"] = str(number + 1)
            if kinds.row(data["apiVersion"], data["kind"]).namespaced:
                data["metadata"].setdefault("namespace", "default")

    def _node(self, number: int) -> Data:
        pick = self.random.choice
        labels = {ZONE: pick("abc"), "disk": pick(("ssd", "hdd"))}
        if self.random.random() < 0.1:
            del labels[ZONE]
        made = node(f"node-{number}", labels, [*pick(TAINTS)], cpu=pick(("2", "4", "8")), memory=pick(("4Gi", "16Gi")),
                    pods=pick(("4", "20")))  # fmt: skip
        made["spec"]["unschedulable"] = self.random.random() < 0.1
        return made

    def _storage(self, nodes: int) -> None:
        pick = self.random.choice
        for number in range(3):
            reach = pick(({}, affinity(on(ZONE, pick("abc"))), affinity(on(HOST, f"node-{pick(range(nodes))}"))))
            volume = volume_data(f"volume-{number}", size=pick(("1Gi", "5Gi")), **reach)
            claim = claim_data(f"claim-{number}", pick(("wait", "wait", "made")), pick(("1Gi", "2Gi")))
            claim["status"] = {"phase": "Pending"}
            volume["status"] = {"phase": "Available"}
            claim["spec"]["accessModes"] = [pick(("ReadWriteOnce", "ReadWriteOncePod"))]
            if pick((True, False)):
                claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
                claim["spec"] |= {"volumeName": f"volume-{number}", "storageClassName": "wait"}
                claim["metadata"]["uid"] = f"uid-claim-{number}"
                volume["spec"]["claimRef"] = {"namespace": "default", "name": f"claim-{number}",
                                              "uid": f"uid-claim-{number}"}  # fmt: skip
                volume["status"] = {"phase": "Bound"}
            self.objects += [volume, claim]

    def _devices(self, nodes: int) -> None:
        pick = self.random.choice
        for number in range(0, nodes, 2):
            devices = [kit.device(f"gpu-{at}", *pick(([], [], [kit.taint("100")]))) for at in range(pick((1, 2)))]
            self.objects.append(kit.resource_slice(f"node-{number}", *devices))
        for number in range(2):
            wants = kit.request(**pick(({}, {"count": 2}, {"tolerations": [
                {"key": "hours", "operator": "Gt", "value": "50", "effect": "NoSchedule"}]})))  # fmt: skip
            wants["exactly"].setdefault("allocationMode", "ExactCount")
            wants["exactly"].setdefault("count", 1)
            self.objects.append(kit.claim(f"devices-{number}", wants))

    def pod(self, name: str, *, claims: bool = True) -> Data:
        """A pod at random."""
        pick, chance = self.random.choice, self.random.random
        labels = {"app": pick(("web", "db"))}
        spec: Data = {
            "tolerations": [*pick(TOLERATIONS)],
            "priority": pick((0, 0, 10, 100)),
            "preemptionPolicy": "Never",
        }
        if chance() < 0.25:
            spec["nodeSelector"] = {"disk": pick(("ssd", "hdd"))}
        affinities: Data = {}
        if chance() < 0.2:
            terms = [on(ZONE, pick("abc")), on("disk", pick(("ssd", "none")))]
            affinities["nodeAffinity"] = {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms[: pick((1, 2))]}
            }
        for which, likely in (("podAffinity", 0.1), ("podAntiAffinity", 0.15)):
            if chance() < likely:
                selector = {"matchLabels": {"app": pick(("web", "db"))}}
                term = {"labelSelector": selector, "topologyKey": pick((ZONE, HOST))}
                affinities[which] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        if affinities:
            spec["affinity"] = affinities
        if chance() < 0.25:
            spec["topologySpreadConstraints"] = [
                {"maxSkew": pick((1, 2)), "topologyKey": pick((ZONE, HOST)), "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": labels}}
            ]  # fmt: skip
        if claims and chance() < 0.3:
            used = {"claimName": pick(("claim-0", "claim-1", "claim-2", "missing"))}
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": used}]
        if claims and chance() < 0.2:
            spec |= kit.using(pick(("devices-0", "devices-1")))
        requests = {"cpu": pick(("100m", "500m", "3")), "memory": pick(("64Mi", "64Mi", "3Gi"))}
        made = pod(name, labels=labels, requests=requests, **spec)
        if chance() < 0.2:
            port = pick((8080, 9090))
            made["spec"]["containers"][0]["ports"] = [{"hostPort": port, "containerPort": port, "protocol": "TCP"}]
        made["metadata"]["uid"] = f"uid-{name}"
        return made


def cluster_of(objects: list[Data]) -> Cluster:
    """Objects as they would be read from a running cluster."""
    return Cluster([ClusterObject(typed(data)) for data in objects], is_complete=True)


def typed(data: Data) -> Object:
    """An object of its kind's struct."""
    return convert(data, kinds.row(data["apiVersion"], data["kind"]).struct)
