"""Pods get their device claims from templates and give them back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.client import Client
from moorage.controllers.cluster.garbage import GarbageCollector
from moorage.controllers.storage.resourceclaims import FINALIZER, PodClaims, ResourceClaims
from tests.controllers.small_cluster import becomes, change, cluster, gone, remove
from tests.controllers.waiting import eventually, read, read_all
from tests.plane import create, pod

V1 = "resource.k8s.io/v1"
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]}}
DEVICE = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
TEMPLATE = {
    "apiVersion": V1,
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one-gpu"},
    "spec": {"metadata": {"labels": {"made": "from-template"}}, "spec": SPEC},
}


def from_template(name: str, **spec: Any) -> Data:
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}], **spec)


def claim(name: str, **metadata: Any) -> Data:
    return {"apiVersion": V1, "kind": "ResourceClaim", "metadata": {"name": name, **metadata}, "spec": SPEC}


async def claim_of(client: Client, name: str) -> Data:
    served = await becomes(client, "Pod", name, lambda data: data["status"].get("resourceClaimStatuses"))
    (status,) = served["status"]["resourceClaimStatuses"]
    assert status["name"] == "gpu"
    return await read(client, "ResourceClaim", status["resourceClaimName"], api_version=V1)


async def allocate(client: Client, name: str, *users: Data) -> None:
    """Do as the scheduler does."""
    await change(client, "ResourceClaim", name, {"metadata": {"finalizers": [FINALIZER]}}, V1)
    reserved = [{"resource": "pods", **{key: user["metadata"][key] for key in ("name", "uid")}} for user in users]
    status = {"allocation": {"devices": {"results": [DEVICE]}}, "reservedFor": reserved}
    await change(client, "ResourceClaim", name, {"status": status}, V1, "status")


async def test_a_pod_gets_a_claim_of_its_own_from_a_template(tmp_path: Path) -> None:
    async with cluster(tmp_path, PodClaims) as client:
        await create(client, TEMPLATE)
        one, two = await create(client, from_template("one")), await create(client, from_template("two"))
        created = await claim_of(client, "one")
        assert created["metadata"]["name"].startswith("one-gpu-")
        assert created["metadata"]["labels"] == {"made": "from-template"}
        assert created["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
        assert created["metadata"]["finalizers"] == [FINALIZER]
        (owner,) = created["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", one["metadata"]["uid"], True)
        assert created["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpus"
        other = await claim_of(client, "two")
        assert other["metadata"]["ownerReferences"][0]["uid"] == two["metadata"]["uid"]
        assert len(await read_all(client, "ResourceClaim", api_version=V1)) == 2


async def test_a_template_may_come_later(tmp_path: Path) -> None:
    async with cluster(tmp_path, PodClaims) as client:
        await create(client, from_template("early"))
        events = await eventually(lambda: read_all(client, "Event"))
        assert events[0]["reason"] == "FailedResourceClaimCreation"
        assert events[0]["message"].startswith('PodResourceClaim gpu: resourceclaimtemplates.resource.k8s.io "one-gpu"')
        await create(client, TEMPLATE)
        await claim_of(client, "early")


async def test_a_claim_that_was_deleted_by_accident_is_made_again(tmp_path: Path) -> None:
    async with cluster(tmp_path, PodClaims, ResourceClaims) as client:
        await create(client, TEMPLATE)
        await create(client, from_template("one"))
        first = (await claim_of(client, "one"))["metadata"]["name"]
        await remove(client, "ResourceClaim", first, V1)
        await becomes(
            client, "Pod", "one", lambda data: data["status"]["resourceClaimStatuses"][0]["resourceClaimName"] != first
        )


async def test_long_names_are_shortened_alike(tmp_path: Path) -> None:
    async with cluster(tmp_path, PodClaims) as client:
        await create(client, TEMPLATE)
        long = from_template("p" * 100)
        long["spec"]["resourceClaims"][0]["name"] = "c" * 50
        await create(client, long)
        (made,) = await eventually(lambda: read_all(client, "ResourceClaim", api_version=V1))
        assert len(made["metadata"]["name"]) <= 63
        assert made["metadata"]["name"].startswith("p" * 37 + "-" + "c" * 18 + "-")


async def test_a_claim_is_free_again_when_its_pod_is_done(tmp_path: Path) -> None:
    async with cluster(tmp_path, PodClaims, ResourceClaims) as client:
        await create(client, claim("shared"))
        entry = [{"name": "gpu", "resourceClaimName": "shared"}]
        user = await create(client, pod("user", resourceClaims=entry, nodeName="node-1"))
        other = await create(client, pod("other", resourceClaims=entry, nodeName="node-1"))
        await allocate(client, "shared", user, other)
        await change(client, "Pod", "user", {"status": {"phase": "Succeeded"}}, subresource="status")

        def only_the_other(data: Data) -> bool:
            return [each["name"] for each in data["status"]["reservedFor"]] == ["other"]

        held = await becomes(client, "ResourceClaim", "shared", only_the_other, V1)
        assert held["status"]["allocation"]
        await remove(client, "Pod", "other", grace=0)
        free = await becomes(client, "ResourceClaim", "shared", lambda data: not data["metadata"].get("finalizers"), V1)
        assert not free.get("status", {}).get("allocation")
        assert not free.get("status", {}).get("reservedFor")


async def test_a_claim_that_was_made_for_a_pod_goes_when_the_pod_is_done(tmp_path: Path) -> None:
    async with cluster(tmp_path, PodClaims, ResourceClaims) as client:
        await create(client, TEMPLATE)
        await create(client, from_template("job", nodeName="node-1"))
        claim_name = (await claim_of(client, "job"))["metadata"]["name"]
        await allocate(client, claim_name, await read(client, "Pod", "job"))
        await change(client, "Pod", "job", {"status": {"phase": "Failed"}}, subresource="status")
        await gone(client, "ResourceClaim", claim_name, V1)
        assert await read(client, "Pod", "job")


async def test_a_claim_that_was_made_for_a_pod_goes_with_it(tmp_path: Path) -> None:
    async with cluster(tmp_path, PodClaims, ResourceClaims, GarbageCollector) as client:
        await create(client, TEMPLATE)
        await create(client, from_template("short", nodeName="node-1"))
        claim_name = (await claim_of(client, "short"))["metadata"]["name"]
        await allocate(client, claim_name, await read(client, "Pod", "short"))
        await remove(client, "Pod", "short", grace=0)
        await gone(client, "ResourceClaim", claim_name, V1)


async def test_a_pod_placed_by_hand_gets_its_reservation(tmp_path: Path) -> None:
    async with cluster(tmp_path, PodClaims, ResourceClaims) as client:
        await create(client, claim("shared"))
        entry = [{"name": "gpu", "resourceClaimName": "shared"}]
        await create(client, pod("by-hand", resourceClaims=entry, nodeName="node-1"))
        await allocate(client, "shared")
        await becomes(client, "ResourceClaim", "shared", lambda data: data["status"].get("reservedFor"), V1)


async def test_a_reservation_for_something_that_is_no_pod_is_kept(tmp_path: Path) -> None:
    async with cluster(tmp_path, ResourceClaims) as client:
        await create(client, claim("shared"))
        await change(client, "ResourceClaim", "shared", {"metadata": {"finalizers": [FINALIZER]}}, V1)
        widget = {"apiGroup": "example.com", "resource": "widgets", "name": "it", "uid": "1"}
        gone_pod = {"resource": "pods", "name": "gone", "uid": "2"}
        status = {"allocation": {"devices": {"results": [DEVICE]}}, "reservedFor": [gone_pod, widget]}
        row = kinds.row(V1, "ResourceClaim")
        await client.patch(row, "default", "shared", {"status": status}, subresource="status")
        kept = await becomes(
            client, "ResourceClaim", "shared", lambda data: len(data["status"]["reservedFor"]) == 1, V1
        )
        assert kept["status"]["reservedFor"] == [widget]
        assert kept["status"]["allocation"]
