"""A whole cluster for tests to play on: API server, scheduler, controllers, and nodes without machines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from moorage.client import Missing
from moorage.controllers.cluster.disruption import Disruption
from moorage.controllers.hollow import HollowNodes, ensure_nodes, overrides
from moorage.controllers.nodes.lifecycle import NodeLifecycle
from moorage.controllers.run import Controllers, prepare
from moorage.controllers.storage.volumebinder import VolumeBinder
from moorage.controllers.workloads.replicaset import ReplicaSetController, ReplicationControllers
from moorage.features import ALL_ON
from moorage.scheduler.config import Configuration
from tests.plane import api_server, create, eventually, read, read_all
from tests.scheduler.stage import NODE, Stage

Data = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"
FAKE = "example.com/fakecpu"
PRIORITIES = {"low": 1, "medium": 100, "high": 1000}


class Cluster(Stage):
    """A whole cluster: nodes come alive and pods run, without machines."""

    async def fake(self, name: str, amount: int, resource: str = FAKE) -> None:
        """A node has so much of something that no other pod of the cluster uses."""
        key = resource.replace("/", "~1")
        patch = [{"op": "add", "path": f"/status/{each}/{key}", "value": str(amount)} for each in
                 ("capacity", "allocatable")]  # fmt: skip
        await self.client.patch(NODE, "", name, patch, subresource="status", form="application/json-patch+json")

    async def label(self, name: str, **labels: str) -> None:
        await self.client.patch(NODE, "", name, {"metadata": {"labels": labels}})

    async def priorities(self, **values: int) -> None:
        for name, value in (values or PRIORITIES).items():
            await create(
                self.client,
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                },
            )

    async def run_pod(self, name: str, amount: int = 0, **given: Any) -> str:
        """Create a pod, and wait until it runs. Returns its node."""
        await self.make(name, amount, **given)
        return await self.runs(name)

    async def make(self, name: str, amount: int = 0, resource: str = FAKE, **given: Any) -> None:
        """Create a pod that asks for some of the fake resource; told to leave, it takes all the time that it has."""
        requests = {resource: str(amount)} if amount else {"cpu": "10m"}
        namespace = given.pop("namespace", "default")
        container = {
            "name": "main", "image": "pause:3.10", "ports": given.pop("ports", []),
            "resources": {"requests": requests, "limits": requests if amount else {}},
        }  # fmt: skip
        metadata = {"name": name, "namespace": namespace, "labels": given.pop("labels", {})}
        metadata["finalizers"] = given.pop("finalizers", [])
        if given.get("terminationGracePeriodSeconds"):
            metadata["annotations"] = {overrides.STOP_SECONDS: str(given["terminationGracePeriodSeconds"])}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **given}
        await create(self.client, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    async def runs(self, name: str, namespace: str = "default") -> str:
        async def running() -> str:
            found = await read(self.client, "Pod", name, namespace)
            return str(found["spec"]["nodeName"]) if found["status"].get("phase") == "Running" else ""

        return str(await eventually(running))

    async def replicas(self, name: str, number: int, labels: dict[str, str], **spec: Any) -> None:
        container = {"name": "main", "image": "pause:3.10", "resources": spec.pop("resources", {})}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
        }
        made = {"replicas": number, "selector": {"matchLabels": labels}, "template": template}
        manifest = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": made}
        await create(self.client, manifest)

    async def pods(self, prefix: str = "") -> list[Data]:
        return [each for each in await read_all(self.client, "Pod") if each["metadata"]["name"].startswith(prefix)]

    async def placed(self, prefix: str, number: int) -> bool:
        """Whether so many of these pods have a node."""
        return sum(bool(each["spec"].get("nodeName")) for each in await self.pods(prefix)) == number

    async def all_are_preempted(self, names: list[str]) -> None:
        async def preempted() -> bool:
            return all([await self.is_preempted(name) for name in names])

        assert await eventually(preempted)

    async def is_preempted(self, name: str) -> bool:
        try:
            return "deletionTimestamp" in (await self.get(name))["metadata"]
        except Missing:
            return True


@asynccontextmanager
async def cluster(directory: Path, nodes: int = 2) -> AsyncIterator[Cluster]:
    async with api_server(directory) as server:
        here = Cluster(server, ALL_ON, Configuration())
        made = (HollowNodes, NodeLifecycle, ReplicaSetController, ReplicationControllers, Disruption, VolumeBinder)
        controllers: Controllers = prepare(server.client("controllers"), ALL_ON, made)
        await controllers.start()
        await here.start()
        await ensure_nodes(here.client, nodes)

        async def ready() -> bool:
            found = await read_all(here.client, "Node")
            return len(found) == nodes and not any(each["spec"].get("taints") for each in found)

        try:
            await eventually(ready)
            yield here
        finally:
            await here.stop()
            await controllers.stop()


def only(name: str) -> Data:
    """Affinity to one node by its name."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": fields}]}}}


def matching(key: str, *values: str) -> Data:
    """Affinity to nodes whose label has one of these values."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


def spread(key: str, label: str, when: str = "DoNotSchedule") -> list[Data]:
    selector = {"matchExpressions": [{"key": label, "operator": "Exists"}]}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector}]
