"""Deployments, and what can be asked about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.client import Client
from moorage.client.client import STRATEGIC
from tests.controllers.small_cluster import becomes, change
from tests.controllers.waiting import eventually, read_all

APPS = "apps/v1"
DEPLOYMENT = kinds.row(APPS, "Deployment")
BROKEN = "webserver:404"


def deployment(replicas: int = 3, image: str = "web:1", **spec: Any) -> Data:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
    template["spec"] |= spec.pop("pod", {})
    whole = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": APPS, "kind": "Deployment", "metadata": {"name": "web"}, "spec": whole}


def replica_set(name: str, **annotations: str) -> Data:
    labels = {"app": "web", "pod": "old"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "old:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    return {"apiVersion": APPS, "kind": "ReplicaSet", "metadata": metadata, "spec": spec}


def rolling(surge: int | str, unavailable: int | str) -> Data:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def works(pod: Pod) -> bool:
    return pod.spec.containers[0].image != BROKEN


def condition(data: Data, type_: str) -> Data:
    return next((each for each in data["status"]["conditions"] if each["type"] == type_), {})


async def until(client: Client, check: Callable[[Data], Any]) -> Data:
    """Wait until the Deployment says so, about what it is now."""

    def is_so(data: Data) -> Any:
        seen = data.get("status", {}).get("observedGeneration", 0)
        return seen >= data["metadata"]["generation"] and check(data)

    return await becomes(client, "Deployment", "web", is_so, APPS)


def complete(data: Data) -> bool:
    status, replicas = data["status"], data["spec"]["replicas"]
    counts = {status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")}
    return counts == {replicas} and condition(data, "Progressing").get("reason") == "NewReplicaSetAvailable"


async def set_image(client: Client, image: str, **spec: Any) -> None:
    template = {"spec": {"containers": [{"name": "main", "image": image}]}}
    patch = {"spec": {"template": template, **spec}}
    await client.patch(DEPLOYMENT, "default", "web", patch, form=STRATEGIC)


async def change_web(client: Client, **spec: Any) -> None:
    await change(client, "Deployment", "web", {"spec": spec}, APPS)


async def sets(client: Client) -> list[Data]:
    """All ReplicaSets, by the image of their template."""
    replica_sets = await read_all(client, "ReplicaSet", api_version=APPS)
    return sorted(replica_sets, key=lambda each: str(image_of(each)))


def image_of(data: Data) -> str:
    image: str = data["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


async def sizes(client: Client) -> dict[str, int]:
    return {image_of(each): each["spec"]["replicas"] for each in await sets(client)}


async def sizes_become(client: Client, **wanted: int) -> None:
    spelled = {name.replace("_", ":"): size for name, size in wanted.items()}

    async def check() -> bool:
        return await sizes(client) == spelled

    await eventually(check)


async def images(client: Client) -> list[str]:
    pods = [each for each in await read_all(client, "Pod") if "deletionTimestamp" not in each["metadata"]]
    return sorted(each["spec"]["containers"][0]["image"] for each in pods)


async def sizes_are(client: Client, wanted: dict[str, int]) -> None:
    async def check() -> bool:
        return await sizes(client) == wanted

    await eventually(check)
