"""StatefulSets: names and claims that last, and an order in all that happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from moorage.api.meta import Data
from moorage.client import Client
from moorage.client.clock import Clock, ManualClock
from moorage.controllers.cluster.garbage import GarbageCollector
from moorage.controllers.owners.podowner import in_batches
from moorage.controllers.owners.templatehash import controller_revision_hash
from moorage.controllers.workloads import statefulset
from moorage.controllers.workloads.statefulset import StatefulSets
from tests.controllers.kubelet import Kubelet, kubelet
from tests.controllers.small_cluster import becomes, change, cluster, gone, remove
from tests.controllers.waiting import eventually, read, read_all, settle, started
from tests.plane import api_server, create

SET = ("StatefulSet", "web")
REVISION = "controller-revision-hash"


def stateful_set(replicas: int = 3, image: str = "web:1", **spec: Any) -> Data:
    container = {"name": "main", "image": image}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
            **spec,
        },
    }


def image(text: str) -> Data:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": text}]}}}}


CLAIMS = [
    {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
]


@asynccontextmanager
async def running(directory: Path, clock: Clock | None = None) -> AsyncIterator[tuple[Client, Kubelet]]:
    async with (
        cluster(directory, StatefulSets, GarbageCollector, clock=clock) as client,
        kubelet(client, clock) as node,
    ):
        yield client, node


async def pods(client: Client) -> list[Data]:
    found = await read_all(client, "Pod", "default")
    return sorted(found, key=lambda pod: int(pod["metadata"]["name"].rpartition("-")[2]))


async def names(client: Client) -> list[str]:
    return [pod["metadata"]["name"] for pod in await pods(client)]


async def settled(client: Client, replicas: int, **status: Any) -> Data:
    """Wait until a set has all its pods, ready, in the newest revision."""

    def is_settled(data: Data) -> bool:
        known = data.get("status", {})
        numbers = {known.get(name, 0) for name in ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")}
        return (
            known.get("observedGeneration") == data["metadata"]["generation"]
            and numbers == {replicas}
            and known["currentRevision"] == known["updateRevision"]
            and all(known.get(name) == value for name, value in status.items())
        )

    return await becomes(client, *SET, is_settled, "apps/v1")


async def images(client: Client) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in await pods(client)]


async def test_pods_have_lasting_names_labels_and_claims(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, _):
        await create(client, stateful_set(2, volumeClaimTemplates=CLAIMS))
        done = await settled(client, 2, currentReplicas=2, collisionCount=0)
        first, second = await pods(client)
        assert [first["metadata"]["name"], second["metadata"]["name"]] == ["web-0", "web-1"]
        assert second["metadata"]["labels"] == {
            "app": "web",
            "statefulset.kubernetes.io/pod-name": "web-1",
            "apps.kubernetes.io/pod-index": "1",
            REVISION: done["status"]["updateRevision"],
        }
        assert (second["spec"]["hostname"], second["spec"]["subdomain"]) == ("web-1", "web")
        assert second["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "data-web-1"
        claims = await read_all(client, "PersistentVolumeClaim", "default")
        assert sorted(claim["metadata"]["name"] for claim in claims) == ["data-web-0", "data-web-1"]
        assert {claim["metadata"]["labels"]["app"] for claim in claims} == {"web"}
        assert [owner["kind"] for owner in first["metadata"]["ownerReferences"]] == ["StatefulSet"]


async def test_each_pod_waits_for_the_one_before_it_in_both_directions(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, node):
        node.runs = lambda pod: pod.metadata.name != "web-1"
        await create(client, stateful_set(3))
        await becomes(client, "Pod", "web-1", bool)
        await becomes(client, *SET, lambda data: data["status"].get("replicas") == 2, "apps/v1")
        assert await names(client) == ["web-0", "web-1"]
        node.runs = lambda _: True
        node.look_again()
        await settled(client, 3)

        await node.unready("web-0")
        await change(client, *SET, {"spec": {"replicas": 1}}, "apps/v1")
        await becomes(client, *SET, lambda data: data["status"]["observedGeneration"] == 2, "apps/v1")
        assert await names(client) == ["web-0", "web-1", "web-2"], "nothing goes while one is not well"
        deleted: list[str] = []
        node.pods.on_change(lambda old, new: deleted.append(old.metadata.name) if old and not new else None)
        await node.set_status("web-0", conditions=[{"type": "Ready", "status": "True"}])
        await settled(client, 1)
        assert deleted == ["web-2", "web-1"]


async def test_a_parallel_set_does_not_wait_for_unhealthy_pods(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, node):
        node.runs = lambda _: False
        await create(client, stateful_set(3, podManagementPolicy="Parallel"))

        async def has(count: int) -> bool:
            return len(await names(client)) == count

        await eventually(lambda: has(3))
        await change(client, *SET, {"spec": {"replicas": 0}}, "apps/v1")
        await eventually(lambda: has(0))


async def test_a_new_template_rolls_from_the_highest_number_and_back_again(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, node):
        await create(client, stateful_set(3))
        before = await settled(client, 3)
        deleted: list[str] = []
        node.pods.on_change(lambda old, new: deleted.append(old.metadata.name) if old and not new else None)
        await change(client, *SET, image("web:2"), "apps/v1")
        after = await settled(client, 3, currentReplicas=3)
        assert after["status"]["currentRevision"] != before["status"]["currentRevision"]
        assert await images(client) == ["web:2"] * 3
        assert deleted == ["web-2", "web-1", "web-0"]
        await change(client, *SET, image("web:1"), "apps/v1")
        again = await settled(client, 3)
        assert again["status"]["currentRevision"] == before["status"]["currentRevision"]
        assert await images(client) == ["web:1"] * 3
        revisions = await read_all(client, "ControllerRevision", "default", "apps/v1")
        assert sorted(each["revision"] for each in revisions) == [2, 3]


async def test_a_partition_keeps_lower_numbers_as_they_were_even_when_they_are_replaced(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, _):
        canary = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        await create(client, stateful_set(3, updateStrategy=canary))
        await settled(client, 3)
        await change(client, *SET, image("web:2"), "apps/v1")
        await becomes(
            client,
            *SET,
            lambda data: (data["status"]["updatedReplicas"], data["status"]["readyReplicas"]) == (1, 3),
            "apps/v1",
        )
        assert await images(client) == ["web:1", "web:1", "web:2"]
        old = await read(client, "Pod", "web-0")
        await remove(client, "Pod", "web-0")
        await becomes(client, "Pod", "web-0", lambda data: data["metadata"]["uid"] != old["metadata"]["uid"])
        await becomes(client, *SET, lambda data: data["status"]["readyReplicas"] == 3, "apps/v1")
        assert await images(client) == ["web:1", "web:1", "web:2"]
        await change(client, *SET, {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}, "apps/v1")
        await settled(client, 3)
        assert await images(client) == ["web:2"] * 3


async def test_on_delete_replaces_only_what_somebody_deletes(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, _):
        await create(client, stateful_set(2, updateStrategy={"type": "OnDelete"}))
        await settled(client, 2)
        await change(client, *SET, image("web:2"), "apps/v1")
        await becomes(client, *SET, lambda data: data["status"]["observedGeneration"] == 2, "apps/v1")
        assert await images(client) == ["web:1"] * 2
        await remove(client, "Pod", "web-1")
        await becomes(client, "Pod", "web-1", lambda data: data["spec"]["containers"][0]["image"] == "web:2")
        assert await images(client) == ["web:1", "web:2"]
        await remove(client, "Pod", "web-0")
        updated = await becomes(client, *SET, lambda data: data["status"].get("updatedReplicas") == 2, "apps/v1")
        assert updated["status"]["currentRevision"] != updated["status"]["updateRevision"]


async def test_a_parallel_set_is_updated_from_the_top_whatever_its_lower_pods_do(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, node):
        await create(client, stateful_set(3, podManagementPolicy="Parallel"))
        await settled(client, 3)
        await node.unready("web-0")
        await becomes(client, *SET, lambda data: data["status"].get("readyReplicas") == 2, "apps/v1")
        node.runs = lambda pod: pod.metadata.name != "web-1"
        deleted: list[str] = []
        node.pods.on_change(lambda old, new: deleted.append(old.metadata.name) if old and not new else None)
        await change(client, *SET, image("web:2"), "apps/v1")

        async def stuck() -> bool:
            return deleted == ["web-2", "web-1"]

        await eventually(stuck)
        await becomes(client, *SET, lambda data: data["status"].get("updatedReplicas") == 2, "apps/v1")
        assert deleted == ["web-2", "web-1"]
        node.runs = lambda _: True
        node.look_again()
        await settled(client, 3)
        assert deleted == ["web-2", "web-1", "web-0"]


async def test_what_is_done_is_told_in_the_words_of_kubernetes(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, _):
        await create(client, stateful_set(1, volumeClaimTemplates=CLAIMS))
        await settled(client, 1)
        await change(client, *SET, {"spec": {"replicas": 0}}, "apps/v1")

        async def events_are_right() -> bool:
            events = [each for each in await read_all(client, "Event") if each["involvedObject"]["name"] == "web"]
            assert {each["source"]["component"] for each in events} == {"statefulset-controller"}
            return {(each["reason"], each["message"]) for each in events} == {
                ("SuccessfulCreate", "Create Claim data-web-0 Pod web-0 in StatefulSet web success"),
                ("SuccessfulCreate", "Create Pod web-0 in StatefulSet web successful"),
                ("SuccessfulDelete", "Delete Pod web-0 in StatefulSet web successful"),
            }

        await eventually(events_are_right)


async def test_max_unavailable_lets_several_pods_be_replaced_at_a_time(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, node):
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
        await create(client, stateful_set(4, updateStrategy=rolling, podManagementPolicy="Parallel"))
        await settled(client, 4)
        node.runs = lambda _: False
        await change(client, *SET, image("web:2"), "apps/v1")

        async def two() -> bool:
            return sorted(await images(client)) == ["web:1", "web:1", "web:2", "web:2"]

        await eventually(two)
        assert await images(client) == ["web:1", "web:1", "web:2", "web:2"]
        node.runs = lambda _: True
        node.look_again()
        await settled(client, 4)


async def test_failed_evicted_and_deleted_pods_are_replaced_by_name(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, node):
        await create(client, stateful_set(2))
        await settled(client, 2)
        for end in ("Failed", "Succeeded"):
            await node.set_status("web-0", phase=end, reason="Evicted")
            await becomes(client, "Pod", "web-0", lambda data: data["status"].get("reason") != "Evicted")
            await settled(client, 2)
        old = await read(client, "Pod", "web-1")
        await remove(client, "Pod", "web-1")
        await becomes(client, "Pod", "web-1", lambda data: data["metadata"]["uid"] != old["metadata"]["uid"])
        await settled(client, 2)


async def test_pods_that_kubelets_reject_are_replaced_later_each_time(tmp_path: Path) -> None:
    clock = ManualClock(datetime.now(UTC))
    rejected = {"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: no room"}}
    async with cluster(tmp_path, StatefulSets, clock=clock) as client:
        await create(client, stateful_set(1))

        async def reject(after: str) -> str:
            new = await becomes(client, "Pod", "web-0", lambda data: data["metadata"]["uid"] != after)
            await change(client, "Pod", "web-0", rejected, subresource="status")
            await settle()
            return str(new["metadata"]["uid"])

        last = await reject(await reject(""))
        for seconds in (1, 2, 4, 8):
            clock.advance(seconds * 0.9)
            await settle()
            assert (await read(client, "Pod", "web-0"))["metadata"]["uid"] == last
            clock.advance(seconds * 0.1 + 0.01)
            last = await reject(last)


async def test_matching_orphans_are_adopted_and_others_released(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, _):
        await create(client, stateful_set(1))
        await settled(client, 1)
        old = await read(client, "Pod", "web-0")
        await change(client, "Pod", "web-0", {"metadata": {"ownerReferences": None}})
        await becomes(client, "Pod", "web-0", lambda data: data["metadata"].get("ownerReferences"))
        await change(client, "Pod", "web-0", {"metadata": {"labels": {"app": "other"}}})
        await becomes(client, "Pod", "web-0", lambda data: not data["metadata"].get("ownerReferences"))
        await change(client, "Pod", "web-0", {"metadata": {"labels": {"app": "web"}}})
        again = await becomes(client, "Pod", "web-0", lambda data: data["metadata"].get("ownerReferences"))
        assert again["metadata"]["uid"] == old["metadata"]["uid"]


async def test_numbers_begin_where_the_set_says(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, _):
        await create(client, stateful_set(2, ordinals={"start": 2}))
        await settled(client, 2)
        assert await names(client) == ["web-2", "web-3"]
        await change(client, *SET, {"spec": {"ordinals": {"start": 4}}}, "apps/v1")
        await settled(client, 2)
        assert await names(client) == ["web-4", "web-5"]
        await change(client, *SET, {"spec": {"ordinals": None}}, "apps/v1")
        await settled(client, 2)
        assert await names(client) == ["web-0", "web-1"]


async def test_claims_stay_unless_the_set_says_otherwise(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, _):
        await create(client, stateful_set(2, volumeClaimTemplates=CLAIMS))
        await settled(client, 2)
        await change(client, *SET, {"spec": {"replicas": 1}}, "apps/v1")
        await settled(client, 1)
        kept = await read(client, "PersistentVolumeClaim", "data-web-1")
        assert not kept["metadata"].get("ownerReferences")
        policy = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}}
        await change(client, *SET, {"spec": {"replicas": 2, **policy}}, "apps/v1")
        await settled(client, 2)

        def belongs_to_the_set(data: Data) -> bool:
            return [owner["kind"] for owner in data["metadata"].get("ownerReferences", ())] == ["StatefulSet"]

        await becomes(client, "PersistentVolumeClaim", "data-web-1", belongs_to_the_set)
        await change(client, *SET, {"spec": {"replicas": 1}}, "apps/v1")
        await gone(client, "PersistentVolumeClaim", "data-web-1")
        await settled(client, 1)
        await remove(client, *SET, "apps/v1")
        await gone(client, "PersistentVolumeClaim", "data-web-0")
        await gone(client, "Pod", "web-0")


async def test_a_claim_that_another_controls_is_left_alone(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, _):
        made = await create(client, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "boss"}})
        boss = {
            "apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": made["metadata"]["uid"], "controller": True,
        }  # fmt: skip
        claim = {"metadata": {"name": "data-web-0", "ownerReferences": [boss]}, "spec": CLAIMS[0]["spec"]}
        await create(client, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim})
        policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
        await create(client, stateful_set(1, volumeClaimTemplates=CLAIMS, persistentVolumeClaimRetentionPolicy=policy))
        await settled(client, 1)
        kept = await read(client, "PersistentVolumeClaim", "data-web-0")
        assert [owner["name"] for owner in kept["metadata"]["ownerReferences"]] == ["boss"]


async def test_a_missing_claim_of_a_pending_pod_is_made_again(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, node):
        node.runs = lambda _: False
        await create(client, stateful_set(1, volumeClaimTemplates=CLAIMS))
        await becomes(client, "Pod", "web-0", bool)
        old = await read(client, "PersistentVolumeClaim", "data-web-0")
        await remove(client, "PersistentVolumeClaim", "data-web-0")
        await becomes(
            client,
            "PersistentVolumeClaim",
            "data-web-0",
            lambda data: data["metadata"]["uid"] != old["metadata"]["uid"],
        )


async def test_a_pod_counts_as_available_after_min_ready_seconds(tmp_path: Path) -> None:
    clock = ManualClock(datetime.now(UTC))
    async with running(tmp_path, clock) as (client, _):
        await create(client, stateful_set(2, minReadySeconds=30))
        await becomes(client, *SET, lambda data: data["status"].get("readyReplicas") == 1, "apps/v1")
        first = await read(client, *SET, api_version="apps/v1")
        assert first["status"]["availableReplicas"] == 0
        assert await names(client) == ["web-0"], "the next one waits"
        clock.advance(31)
        await becomes(client, *SET, lambda data: data["status"].get("readyReplicas") == 2, "apps/v1")
        clock.advance(31)
        await settled(client, 2)


async def test_scale_is_a_part_of_its_own(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, _):
        await create(client, stateful_set(1))
        await settled(client, 1)
        await change(client, *SET, {"spec": {"replicas": 2}}, "apps/v1", subresource="scale")
        await settled(client, 2)


async def test_old_revisions_are_forgotten(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, _):
        await create(client, stateful_set(1, revisionHistoryLimit=1))
        await settled(client, 1)
        for number in range(2, 5):
            await change(client, *SET, image(f"web:{number}"), "apps/v1")
            await settled(client, 1)

        async def two() -> bool:
            revisions = await read_all(client, "ControllerRevision", "default", "apps/v1")
            return sorted(each["revision"] for each in revisions) == [3, 4]

        await eventually(two)


async def test_a_revision_whose_name_is_taken_gets_another_and_one_that_is_nobodys_is_used(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        client = server.client("test")
        created = await create(client, stateful_set(1))
        template = created["spec"]["template"]
        other: Data = {"spec": {"template": {"spec": {"containers": []}}}}
        for collisions, data in ((0, other), (1, {"spec": {"template": {**template, "$patch": "replace"}}})):
            name = f"web-{controller_revision_hash(template, collisions)}"
            revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": name}}
            await create(client, {**revision, "data": data, "revision": 5})
        async with started(server.client("sets"), None, StatefulSets):
            updated = await becomes(client, *SET, lambda data: data["status"].get("updateRevision"), "apps/v1")
            assert updated["status"]["collisionCount"] == 1
            assert updated["status"]["updateRevision"] == name
            adopted = await read(client, "ControllerRevision", name, api_version="apps/v1")
            assert [owner["name"] for owner in adopted["metadata"]["ownerReferences"]] == ["web"]


@pytest.mark.parametrize("strategy", [{}, {"rollingUpdate": {"maxUnavailable": "50%"}}])
async def test_a_set_of_two_billion_looks_at_the_pods_that_it_has_and_at_a_few_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: Data
) -> None:
    looked_at: list[int] = []

    async def counted(tasks: Any) -> None:
        looked_at.append(len(tasks))
        await in_batches(tasks)

    monkeypatch.setattr(statefulset, "BURST", 4)
    monkeypatch.setattr(statefulset, "in_batches", counted)
    async with running(tmp_path) as (client, _):
        await create(client, stateful_set(2**31 - 1, podManagementPolicy="Parallel", updateStrategy=strategy))
        await becomes(client, *SET, lambda data: data.get("status", {}).get("replicas", 0) >= 12, "apps/v1")
        await change(client, *SET, {"spec": {"replicas": 2}}, "apps/v1")
        await settled(client, 2)
        assert await names(client) == ["web-0", "web-1"]
    assert all(count <= 4 * turn for turn, count in enumerate(looked_at, 1))
    assert max(looked_at) >= 12
