"""Claims get the volume that suits them, keep it while it is used, and let it go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moorage.api.claims import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from moorage.api.meta import Data
from moorage.client import Client
from moorage.controllers.storage.protection import ClaimProtection, VolumeProtection
from moorage.controllers.storage.provisioner import DRIVER, PROVISIONER, Provisioner
from moorage.controllers.storage.volumebinder import VolumeBinder
from tests.controllers.small_cluster import becomes, change, cluster, gone, remove
from tests.controllers.waiting import eventually, read, read_all
from tests.plane import create, node, pod


def volume(name: str, size: str = "5Gi", labels: dict[str, str] | None = None, **spec: Any) -> Data:
    given = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": "/data"},
        **spec,
    }
    metadata = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": given}


def claim(name: str, size: str = "1Gi", **spec: Any) -> Data:
    given = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": "",
        **spec,
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": given}


def storage_class(name: str, annotations: dict[str, str] | None = None, **more: Any) -> Data:
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    return {**head, "metadata": {"name": name, "annotations": annotations or {}}, "provisioner": PROVISIONER, **more}


def with_claim(name: str, claim_name: str, **spec: Any) -> Data:
    return pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}], **spec)


async def bound(client: Client, name: str) -> Data:
    return await becomes(client, "PersistentVolumeClaim", name, lambda data: data["status"].get("phase") == "Bound")


async def volume_is(client: Client, name: str, phase: str) -> Data:
    return await becomes(client, "PersistentVolume", name, lambda data: data["status"].get("phase") == phase)


async def event_message(client: Client, reason: str) -> str:
    async def check() -> str:
        events = await read_all(client, "Event")
        return next((each["message"] for each in events if each["reason"] == reason), "")

    message: str = await eventually(check)
    return message


async def test_a_claim_gets_the_smallest_volume_that_is_big_enough(tmp_path: Path) -> None:
    async with cluster(tmp_path, VolumeBinder) as client:
        for name, size in (("tiny", "512Mi"), ("huge", "1Ti"), ("fits", "2Gi")):
            await create(client, volume(name, size))
            await volume_is(client, name, "Available")
        await create(client, claim("mine", "1Gi"))
        mine = await bound(client, "mine")
        assert mine["spec"]["volumeName"] == "fits"
        assert mine["status"]["capacity"] == {"storage": "2Gi"}
        assert mine["status"]["accessModes"] == ["ReadWriteOnce"]
        assert mine["metadata"]["annotations"] == {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
        fits = await volume_is(client, "fits", "Bound")
        assert fits["spec"]["claimRef"]["uid"] == mine["metadata"]["uid"]
        assert fits["metadata"]["annotations"][BOUND_BY_CONTROLLER] == "yes"


async def test_class_access_mode_volume_mode_and_labels_must_suit(tmp_path: Path) -> None:
    async with cluster(tmp_path, VolumeBinder) as client:
        await create(client, volume("other-class", storageClassName="other"))
        await create(client, volume("read-only", accessModes=["ReadOnlyMany"]))
        await create(client, volume("block", volumeMode="Block"))
        await create(client, volume("unlabelled"))
        await create(client, claim("mine", selector={"matchLabels": {"tier": "gold"}}))
        message = await event_message(client, "FailedBinding")
        assert message == "no persistent volumes available for this claim and no storage class is set"
        await create(client, volume("gold", labels={"tier": "gold"}))
        assert (await bound(client, "mine"))["spec"]["volumeName"] == "gold"


async def test_many_claims_never_share_a_volume(tmp_path: Path) -> None:
    async with cluster(tmp_path, VolumeBinder) as client:
        for number in range(10):
            await create(client, claim(f"claim-{number}"))
        for number in range(10):
            await create(client, volume(f"volume-{number}"))
        volumes = {(await bound(client, f"claim-{number}"))["spec"]["volumeName"] for number in range(10)}
        assert len(volumes) == 10


async def test_a_volume_that_names_its_claim_waits_for_it(tmp_path: Path) -> None:
    async with cluster(tmp_path, VolumeBinder) as client:
        await create(client, volume("kept", "100Gi", claimRef={"namespace": "default", "name": "mine"}))
        await create(client, volume("free"))
        await volume_is(client, "kept", "Available")
        await create(client, claim("other"))
        await create(client, claim("mine"))
        assert (await bound(client, "other"))["spec"]["volumeName"] == "free"
        assert (await bound(client, "mine"))["spec"]["volumeName"] == "kept"


async def test_a_claim_that_names_its_volume_gets_it_when_it_suits(tmp_path: Path) -> None:
    async with cluster(tmp_path, VolumeBinder) as client:
        await create(client, claim("mine", volumeName="late"))
        await create(client, volume("late"))
        mine = await bound(client, "mine")
        assert BOUND_BY_CONTROLLER not in mine["metadata"]["annotations"]
        await create(client, claim("second", volumeName="late"))
        assert await event_message(client, "FailedBinding") == 'volume "late" already bound to a different claim.'
        await create(client, volume("small", "1Mi"))
        await create(client, claim("third", volumeName="small"))
        message = await event_message(client, "VolumeMismatch")
        assert message == 'Cannot bind to requested volume "small": requested PV is too small'


async def test_a_volume_outlives_its_claim_when_it_is_to_be_retained(tmp_path: Path) -> None:
    async with cluster(tmp_path, VolumeBinder) as client:
        await create(client, volume("kept"))
        await create(client, claim("mine"))
        await bound(client, "mine")
        await remove(client, "PersistentVolumeClaim", "mine")
        assert (await volume_is(client, "kept", "Released"))["spec"]["claimRef"]["name"] == "mine"
        await create(client, claim("mine"))
        await event_message(client, "FailedBinding")
        await change(client, "PersistentVolume", "kept", {"spec": {"claimRef": None}})
        await bound(client, "mine")


async def test_a_volume_that_nobody_can_delete_fails(tmp_path: Path) -> None:
    async with cluster(tmp_path, VolumeBinder) as client:
        await create(client, volume("there", persistentVolumeReclaimPolicy="Delete"))
        await create(client, claim("mine"))
        await bound(client, "mine")
        await remove(client, "PersistentVolumeClaim", "mine")
        assert "set its policy to Retain" in (await volume_is(client, "there", "Failed"))["status"]["message"]


async def test_a_claim_whose_volume_vanishes_is_lost(tmp_path: Path) -> None:
    async with cluster(tmp_path, VolumeBinder) as client:
        await create(client, volume("there"))
        await create(client, claim("mine"))
        await bound(client, "mine")
        await remove(client, "PersistentVolume", "there")
        await becomes(client, "PersistentVolumeClaim", "mine", lambda data: data["status"]["phase"] == "Lost")
        assert "Data on the volume is lost!" in await event_message(client, "ClaimLost")


async def test_a_claim_that_waits_for_its_consumer_is_bound_as_the_scheduler_says(tmp_path: Path) -> None:
    async with cluster(tmp_path, VolumeBinder) as client:
        await create(
            client,
            storage_class("local", volumeBindingMode="WaitForFirstConsumer")
            | {"provisioner": "kubernetes.io/no-provisioner"},
        )
        await create(client, volume("on-a", storageClassName="local"))
        await volume_is(client, "on-a", "Available")
        mine = await create(client, claim("mine", storageClassName="local"))
        assert await event_message(client, "WaitForFirstConsumer")
        assert (await read(client, "PersistentVolumeClaim", "mine"))["status"]["phase"] == "Pending"
        reference = {"namespace": "default", "name": "mine", "uid": mine["metadata"]["uid"]}
        promised = {"metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}, "spec": {"claimRef": reference}}
        await change(client, "PersistentVolume", "on-a", promised)
        assert (await bound(client, "mine"))["spec"]["volumeName"] == "on-a"


async def test_a_promise_to_a_claim_that_got_another_volume_is_taken_back(tmp_path: Path) -> None:
    async with cluster(tmp_path, VolumeBinder) as client:
        await create(client, volume("first"))
        await create(client, claim("mine"))
        uid = (await bound(client, "mine"))["metadata"]["uid"]
        reference = {"namespace": "default", "name": "mine", "uid": uid}
        marked = volume("second", claimRef=reference)
        marked["metadata"]["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        await create(client, marked)
        assert "claimRef" not in (await volume_is(client, "second", "Available"))["spec"]


async def test_a_claim_without_a_class_gets_the_default_one_later(tmp_path: Path) -> None:
    async with cluster(tmp_path, VolumeBinder, Provisioner) as client:
        early = claim("mine")
        del early["spec"]["storageClassName"]
        await create(client, early)
        await event_message(client, "FailedBinding")
        await create(client, storage_class("hollow", {"storageclass.kubernetes.io/is-default-class": "true"}))
        assert (await bound(client, "mine"))["spec"]["storageClassName"] == "hollow"


async def test_the_hollow_class_makes_volumes_and_deletes_them(tmp_path: Path) -> None:
    async with cluster(tmp_path, VolumeBinder, Provisioner, ClaimProtection, VolumeProtection) as client:
        await create(client, storage_class("hollow"))
        await create(client, claim("mine", "3Gi", storageClassName="hollow"))
        mine = await bound(client, "mine")
        provisioned = await volume_is(client, f"pvc-{mine['metadata']['uid']}", "Bound")
        assert provisioned["spec"]["capacity"] == {"storage": "3Gi"}
        assert provisioned["spec"]["csi"]["driver"] == DRIVER
        assert "nodeAffinity" not in provisioned["spec"]
        await remove(client, "PersistentVolumeClaim", "mine")
        await gone(client, "PersistentVolumeClaim", "mine")
        await gone(client, "PersistentVolume", provisioned["metadata"]["name"])


async def test_a_volume_is_made_on_the_node_that_the_scheduler_chose(tmp_path: Path) -> None:
    async with cluster(tmp_path, VolumeBinder, Provisioner) as client:
        await create(client, node("a"))
        await create(client, storage_class("hollow", volumeBindingMode="WaitForFirstConsumer"))
        await create(client, claim("mine", storageClassName="hollow"))
        await event_message(client, "WaitForFirstConsumer")
        assert not await read_all(client, "PersistentVolume")
        await change(client, "PersistentVolumeClaim", "mine", {"metadata": {"annotations": {SELECTED_NODE: "a"}}})
        provisioned = await read(client, "PersistentVolume", (await bound(client, "mine"))["spec"]["volumeName"])
        (term,) = provisioned["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]


async def test_a_node_outside_of_the_allowed_topologies_is_given_back(tmp_path: Path) -> None:
    async with cluster(tmp_path, VolumeBinder, Provisioner) as client:
        await create(client, node("a", {"zone": "west"}))
        east = [{"matchLabelExpressions": [{"key": "zone", "values": ["east"]}]}]
        manifest = storage_class("hollow", volumeBindingMode="WaitForFirstConsumer", allowedTopologies=east)
        await create(client, manifest)
        await create(client, claim("mine", storageClassName="hollow"))
        await event_message(client, "WaitForFirstConsumer")
        await change(client, "PersistentVolumeClaim", "mine", {"metadata": {"annotations": {SELECTED_NODE: "a"}}})
        assert 'node "a" is gone or not in the allowed topologies' in await event_message(client, "ProvisioningFailed")

        def is_free(data: Data) -> bool:
            return SELECTED_NODE not in data["metadata"].get("annotations", {})

        await becomes(client, "PersistentVolumeClaim", "mine", is_free)


async def test_an_immediate_volume_is_reached_from_the_allowed_topologies(tmp_path: Path) -> None:
    async with cluster(tmp_path, VolumeBinder, Provisioner) as client:
        east = [{"matchLabelExpressions": [{"key": "zone", "values": ["east"]}]}]
        await create(client, storage_class("hollow", allowedTopologies=east))
        await create(client, claim("mine", storageClassName="hollow"))
        provisioned = await read(client, "PersistentVolume", (await bound(client, "mine"))["spec"]["volumeName"])
        (term,) = provisioned["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": "zone", "operator": "In", "values": ["east"]}]


async def test_a_claim_in_use_is_kept_until_its_last_pod_is_gone(tmp_path: Path) -> None:
    async with cluster(tmp_path, ClaimProtection) as client:
        await create(client, claim("mine"))
        await becomes(client, "PersistentVolumeClaim", "mine", lambda data: data["metadata"].get("finalizers"))
        await create(client, with_claim("uses", "mine", nodeName="a"))
        await create(client, with_claim("pending", "mine"))
        await remove(client, "PersistentVolumeClaim", "mine")
        assert (await read(client, "PersistentVolumeClaim", "mine"))["metadata"]["deletionTimestamp"]
        await remove(client, "Pod", "uses", grace=0)
        await gone(client, "PersistentVolumeClaim", "mine")


async def test_a_bound_volume_is_kept_until_its_claim_is_gone(tmp_path: Path) -> None:
    async with cluster(tmp_path, VolumeBinder, ClaimProtection, VolumeProtection) as client:
        await create(client, volume("there"))
        await create(client, claim("mine"))
        await bound(client, "mine")
        await becomes(client, "PersistentVolume", "there", lambda data: data["metadata"].get("finalizers"))
        await remove(client, "PersistentVolume", "there")
        assert (await read(client, "PersistentVolume", "there"))["metadata"]["deletionTimestamp"]
        await remove(client, "PersistentVolumeClaim", "mine")
        await gone(client, "PersistentVolumeClaim", "mine")
        await gone(client, "PersistentVolume", "there")
