"""The claims of ephemeral volumes are made for their pod, and only for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.client import Client
from moorage.controllers.storage.ephemeralvolumes import EphemeralVolumes
from tests.controllers.small_cluster import becomes, cluster, gone, remove
from tests.controllers.waiting import eventually, read, read_all
from tests.plane import create, pod

SPEC = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "fast",
    "dataSource": {"kind": "VolumeSnapshot", "name": "snap", "apiGroup": "snapshot.storage.k8s.io"},
}


def with_scratch(name: str, *volumes: str) -> Data:
    metadata = {"labels": {"app": "web"}, "annotations": {"note": "kept"}}
    template = {"metadata": metadata, "spec": SPEC}
    entries = [{"name": each, "ephemeral": {"volumeClaimTemplate": template}} for each in volumes]
    return pod(name, volumes=[*entries, {"name": "tmp", "emptyDir": {}}])


async def claim(client: Any, name: str) -> Data:
    return await becomes(client, "PersistentVolumeClaim", name, lambda data: True)


async def test_each_ephemeral_volume_gets_a_claim_that_the_pod_owns(tmp_path: Path) -> None:
    async with cluster(tmp_path, EphemeralVolumes) as client:
        web = await create(client, with_scratch("web", "one", "two"))
        for name in ("web-one", "web-two"):
            created = await claim(client, name)
            (owner,) = created["metadata"]["ownerReferences"]
            assert owner == {
                "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": web["metadata"]["uid"],
                "controller": True, "blockOwnerDeletion": True,
            }  # fmt: skip
            assert created["metadata"]["labels"] == {"app": "web"}
            assert created["metadata"]["annotations"] == {"note": "kept"}
            assert created["spec"]["dataSource"] == SPEC["dataSource"]
            assert created["spec"]["storageClassName"] == "fast"


async def test_a_claim_that_somebody_deletes_is_made_again(tmp_path: Path) -> None:
    async with cluster(tmp_path, EphemeralVolumes) as client:
        await create(client, with_scratch("web", "data"))
        first = await claim(client, "web-data")
        await remove(client, "PersistentVolumeClaim", "web-data", uid=first["metadata"]["uid"])
        await becomes(
            client, "PersistentVolumeClaim", "web-data",
            lambda data: data["metadata"]["uid"] != first["metadata"]["uid"],
        )  # fmt: skip


async def test_somebody_elses_claim_of_that_name_is_left_alone_and_said(tmp_path: Path) -> None:
    async with cluster(tmp_path, EphemeralVolumes) as client:
        theirs = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "web-data"}, "spec": SPEC}
        await create(client, theirs)
        await create(client, with_scratch("web", "data"))

        async def said() -> list[str]:
            events = await read_all(client, "Event")
            return [each["message"] for each in events if each["reason"] == "FailedBinding"]

        why = "PVC default/web-data was not created for pod default/web (pod is not owner)"
        assert await eventually(said) == [f"ephemeral volume data: {why}"]
        assert "ownerReferences" not in (await read(client, "PersistentVolumeClaim", "web-data"))["metadata"]
        await remove(client, "PersistentVolumeClaim", "web-data")
        await becomes(client, "PersistentVolumeClaim", "web-data", lambda data: "ownerReferences" in data["metadata"])


async def test_a_pod_without_ephemeral_volumes_gets_no_claims(tmp_path: Path) -> None:
    async with cluster(tmp_path, EphemeralVolumes) as client:
        await create(client, with_scratch("plain"))
        await create(client, with_scratch("web", "data"))
        await claim(client, "web-data")
        await gone(client, "PersistentVolumeClaim", "plain-data")
        assert len(await read_all(client, "PersistentVolumeClaim")) == 1


async def test_a_pod_is_read_once_for_all_its_volumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    get = Client.get

    async def counting(self: Client, kind: Kind, namespace: str, name: str, **more: Any) -> bytes:
        reads.append(kind.kind)
        return await get(self, kind, namespace, name, **more)

    async with cluster(tmp_path, EphemeralVolumes) as client:
        monkeypatch.setattr(Client, "get", counting)
        await create(client, with_scratch("web", *(f"v{number}" for number in range(50))))

        async def made() -> bool:
            return len(await read_all(client, "PersistentVolumeClaim")) == 50

        await eventually(made)
        assert reads.count("Pod") == 1
