"""A Deployment moves its pods to the newest template, step by step, and says how far it has come."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from moorage.api import kinds
from moorage.api.meta import Object
from moorage.api.pod import Pod
from moorage.api.workload import ReplicaSet
from moorage.client import Client, Informers
from moorage.client.clock import ManualClock
from moorage.controllers.cluster.garbage import GarbageCollector
from moorage.controllers.frame.pods import controller_of
from moorage.controllers.workloads import rollouts
from moorage.controllers.workloads.deployment import DeploymentController
from moorage.controllers.workloads.replicaset import ReplicaSetController
from tests import plane
from tests.controllers.kubelet import kubelet
from tests.controllers.small_cluster import becomes, change, cluster, gone
from tests.controllers.waiting import eventually, read, read_all
from tests.controllers.workloads.deployments import (
    APPS,
    BROKEN,
    DEPLOYMENT,
    change_web,
    complete,
    condition,
    deployment,
    image_of,
    images,
    replica_set,
    rolling,
    set_image,
    sets,
    sizes,
    sizes_are,
    sizes_become,
    until,
    works,
)
from tests.plane import create

POD = kinds.row("v1", "Pod")
BOTH = ReplicaSetController, DeploymentController
START = datetime(2026, 1, 1, tzinfo=UTC)


async def test_a_deployment_makes_a_replica_set_named_for_its_template(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client, kubelet(client):
        manifest = deployment(2)
        applied = "kubectl.kubernetes.io/last-applied-configuration"
        manifest["metadata"]["annotations"] = {"test": "copied", applied: "not copied"}
        created = await create(client, manifest)
        data = await until(client, complete)
        (owned,) = await sets(client)
        hash_ = owned["metadata"]["labels"]["pod-template-hash"]
        assert owned["metadata"]["name"] == f"web-{hash_}"
        assert owned["metadata"]["labels"] == {"app": "web", "pod-template-hash": hash_}
        assert owned["metadata"]["ownerReferences"][0]["uid"] == created["metadata"]["uid"]
        assert owned["metadata"]["annotations"] == {
            "test": "copied",
            "deployment.kubernetes.io/revision": "1",
            "deployment.kubernetes.io/desired-replicas": "2",
            "deployment.kubernetes.io/max-replicas": "3",
        }
        assert owned["spec"]["selector"] == {"matchLabels": {"app": "web", "pod-template-hash": hash_}}
        for each in await read_all(client, "Pod"):
            assert each["metadata"]["labels"] == {"app": "web", "pod-template-hash": hash_}
            assert each["metadata"]["name"].startswith(f"web-{hash_}-")
        assert data["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
        assert data["metadata"]["generation"] == 1
        status = data["status"]
        assert (status["replicas"], status["readyReplicas"], status["terminatingReplicas"]) == (2, 2, 0)
        assert "unavailableReplicas" not in status
        available, progressing = condition(data, "Available"), condition(data, "Progressing")
        assert (available["status"], available["reason"]) == ("True", "MinimumReplicasAvailable")
        assert available["message"] == "Deployment has minimum availability."
        assert (progressing["status"], progressing["reason"]) == ("True", "NewReplicaSetAvailable")
        assert progressing["message"] == f'ReplicaSet "web-{hash_}" has successfully progressed.'


async def test_a_rolling_update_keeps_to_its_margins_and_replaces_all(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client, kubelet(client):
        await create(client, deployment(6, strategy=rolling(2, 1)))
        await until(client, complete)
        informers = Informers(client)
        pods, seen = informers.of(Pod), []

        def count() -> None:
            alive = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
            seen.append((len(alive), sum(pod.status.phase == "Running" for pod in alive)))

        pods.on_batch(count)
        await informers.start()
        await set_image(client, "web:2")
        await until(client, lambda data: complete(data) and data["status"]["updatedReplicas"] == 6)
        await sizes_become(client, web_1=0, web_2=6)
        assert await images(client) == ["web:2"] * 6
        await informers.stop()
        assert max(total for total, _ in seen) <= 8
        assert min(running for _, running in seen) >= 5


async def test_a_deployment_adopts_an_old_replica_set_and_continues_its_revisions(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client, kubelet(client):
        revision = {rollouts.REVISION: "3546343826724305832"}
        await create(client, replica_set("test-rolling-update-controller", **revision))
        await becomes(client, "Pod", (await _first_pod(client)), lambda data: data["status"]["phase"] == "Running")
        await create(client, deployment(1))
        data = await until(client, complete)
        assert data["metadata"]["annotations"][rollouts.REVISION] == "3546343826724305833"
        await sizes_become(client, old_1=0, web_1=1)
        uids = {each["metadata"]["ownerReferences"][0]["uid"] for each in await sets(client)}
        assert uids == {data["metadata"]["uid"]}


async def _first_pod(client: Client) -> str:
    pods = await eventually(lambda: read_all(client, "Pod"))
    return str(pods[0]["metadata"]["name"])


async def test_a_recreating_deployment_never_runs_old_and_new_together(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client, kubelet(client) as worker:
        await create(client, deployment(2, strategy={"type": "Recreate"}, pod={"nodeName": "node-1"}))
        await until(client, complete)
        informers = Informers(client)
        pods, together = informers.of(Pod), []
        pods.on_batch(lambda: together.append({pod.spec.containers[0].image for pod in pods}))
        await informers.start()
        worker.ends = lambda _: False
        await set_image(client, "web:2")
        await sizes_become(client, web_1=0)

        async def are_leaving() -> bool:
            return all("deletionTimestamp" in each["metadata"] for each in await read_all(client, "Pod"))

        await eventually(are_leaving)
        data = await until(client, lambda data: data["status"].get("terminatingReplicas") == 2)
        assert (data["status"].get("replicas", 0), data["status"].get("updatedReplicas", 0)) == (0, 0)
        worker.ends = lambda _: True
        worker.look_again()
        await until(client, complete)
        await informers.stop()
        assert all(len(seen) <= 1 for seen in together)
        assert await images(client) == ["web:2"] * 2


async def test_old_replica_sets_beyond_the_history_are_deleted(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client, kubelet(client):
        await create(client, replica_set("test-cleanup-controller"))
        await _first_pod(client)
        await create(client, deployment(1, revisionHistoryLimit=0))
        await gone(client, "ReplicaSet", "test-cleanup-controller", APPS)
        await change_web(client, revisionHistoryLimit=2)
        for number in range(2, 7):
            await set_image(client, f"web:{number}")
            await until(client, complete)
        await sizes_become(client, web_4=0, web_5=0, web_6=1)
        data = await read(client, "Deployment", "web", api_version=APPS)
        assert data["metadata"]["annotations"][rollouts.REVISION] == "6"


async def test_a_rollout_that_is_stuck_can_be_rolled_over(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client, kubelet(client) as worker:
        worker.runs = works
        await create(client, replica_set("test-rollover-controller"))
        await becomes(
            client, "ReplicaSet", "test-rollover-controller",
            lambda data: data.get("status", {}).get("availableReplicas") == 1, APPS,
        )  # fmt: skip
        await create(client, deployment(1, BROKEN, strategy=rolling(1, 0)))
        data = await until(client, lambda data: data["status"].get("updatedReplicas") == 1)
        assert data["metadata"]["annotations"][rollouts.REVISION] == "1"
        assert await sizes(client) == {"old:1": 1, BROKEN: 1}
        await set_image(client, "web:2")
        data = await until(client, complete)
        assert data["metadata"]["annotations"][rollouts.REVISION] == "2"
        assert await sizes(client) == {"old:1": 0, BROKEN: 0, "web:2": 1}


async def test_pods_that_never_worked_go_first(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client, kubelet(client) as worker:
        worker.runs = works
        await create(client, deployment(4, strategy=rolling(1, 1)))
        await until(client, complete)
        await set_image(client, BROKEN)
        await sizes_are(client, {"web:1": 3, BROKEN: 2})
        await set_image(client, "web:3")
        await until(client, complete)
        assert await images(client) == ["web:3"] * 4


async def test_a_deployment_scaled_in_the_middle_of_a_rollout_scales_its_sets_in_proportion(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client, kubelet(client) as worker:
        worker.runs = works
        await create(client, deployment(10, strategy=rolling(3, 2)))
        await until(client, complete)
        await set_image(client, BROKEN)
        await sizes_are(client, {"web:1": 8, BROKEN: 5})
        await until(client, lambda data: data["status"].get("availableReplicas") == 8)
        await change_web(client, replicas=30)
        await sizes_are(client, {"web:1": 20, BROKEN: 13})
        data = await until(client, lambda data: data["status"]["replicas"] == 33)
        assert data["status"]["unavailableReplicas"] >= 13
        for each in await sets(client):
            assert each["metadata"]["annotations"][rollouts.DESIRED] == "30"
            assert each["metadata"]["annotations"][rollouts.MAXIMUM] == "33"


async def test_the_scale_subresource_works(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client, kubelet(client):
        await create(client, deployment(1))
        await until(client, complete)
        for size in (4, 2, 0, 1):
            await client.patch(DEPLOYMENT, "default", "web", {"spec": {"replicas": size}}, subresource="scale")
            await until(client, complete)
        assert await sizes(client) == {"web:1": 1}


async def test_a_paused_deployment_scales_and_does_not_roll(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client, kubelet(client):
        await create(client, deployment(2))
        await until(client, complete)
        await change_web(client, paused=True)
        data = await until(client, lambda data: condition(data, "Progressing")["status"] == "Unknown")
        assert condition(data, "Progressing")["reason"] == "DeploymentPaused"
        assert condition(data, "Progressing")["message"] == "Deployment is paused"
        await set_image(client, "web:2", replicas=4)
        await until(client, lambda data: data["status"].get("availableReplicas") == 4)
        assert await sizes(client) == {"web:1": 4}
        await change_web(client, paused=False)
        await until(client, complete)
        await sizes_become(client, web_1=0, web_2=4)


async def test_an_earlier_template_is_taken_up_again_under_a_new_revision(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client, kubelet(client):
        await create(client, deployment(1))
        await until(client, complete)
        await set_image(client, "web:2")
        await until(client, complete)
        await set_image(client, "web:1")
        data = await until(client, complete)
        assert data["metadata"]["annotations"][rollouts.REVISION] == "3"
        first, second = await sets(client)
        assert first["metadata"]["annotations"][rollouts.REVISION] == "3"
        assert first["metadata"]["annotations"][rollouts.HISTORY] == "1"
        assert (first["spec"]["replicas"], second["spec"]["replicas"]) == (1, 0)


async def test_the_old_rollback_annotation_still_works(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client, kubelet(client):
        await create(client, deployment(1))
        await until(client, complete)
        ask = {"metadata": {"annotations": {rollouts.ROLLBACK: "0"}}}
        await change(client, "Deployment", "web", ask, APPS)
        await until(client, lambda data: rollouts.ROLLBACK not in data["metadata"]["annotations"])
        await set_image(client, "web:2")
        await until(client, complete)
        await change(client, "Deployment", "web", ask, APPS)
        data = await until(client, lambda data: complete(data) and image_of(data) == "web:1")
        assert rollouts.ROLLBACK not in data["metadata"]["annotations"]
        assert rollouts.HASH not in data["spec"]["template"]["metadata"]["labels"]
        await change(client, "Deployment", "web", {"metadata": {"annotations": {rollouts.ROLLBACK: "7"}}}, APPS)

        async def reasons() -> bool:
            told = {each["reason"] for each in await read_all(client, "Event")}
            return told >= {"DeploymentRollback", "DeploymentRollbackRevisionNotFound"}

        await eventually(reasons)


async def test_an_orphaned_replica_set_is_adopted_by_a_deployment_of_the_same_template(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH, GarbageCollector) as client, kubelet(client):
        await create(client, deployment(1))
        await until(client, complete)
        (before,) = await sets(client)
        await client.delete(DEPLOYMENT, "default", "web", propagation="Orphan")
        await becomes(
            client, "ReplicaSet", before["metadata"]["name"],
            lambda data: not data["metadata"].get("ownerReferences"), APPS,
        )  # fmt: skip
        await gone(client, "Deployment", "web", APPS)
        created = await create(client, deployment(1))
        await until(client, complete)
        (after,) = await sets(client)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["metadata"]["ownerReferences"][0]["uid"] == created["metadata"]["uid"]
        assert len(await images(client)) == 1


async def test_deleting_a_deployment_takes_its_sets_and_pods_along(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH, GarbageCollector) as client, kubelet(client):
        await create(client, deployment(2))
        await until(client, complete)
        await client.delete(DEPLOYMENT, "default", "web")

        async def nothing_left() -> bool:
            return not await sets(client) and not await read_all(client, "Pod")

        await eventually(nothing_left)


async def test_conditions_of_others_in_the_status_stay(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client, kubelet(client):
        await create(client, deployment(1))
        data = await until(client, complete)
        patched = {"type": "StatusPatched", "status": "True"}
        body = {"status": {"conditions": [*data["status"]["conditions"], patched]}}
        await change(client, "Deployment", "web", body, APPS, "status")
        await change_web(client, replicas=2)
        data = await until(client, complete)
        assert condition(data, "StatusPatched")["status"] == "True"


async def test_a_rollout_without_progress_is_called_overdue_and_recovers(tmp_path: Path) -> None:
    clock = ManualClock(START)
    async with cluster(tmp_path, *BOTH, clock=clock) as client, kubelet(client, clock) as worker:
        worker.runs = works
        await create(client, deployment(2, progressDeadlineSeconds=60))
        await until(client, complete)
        await set_image(client, BROKEN)
        data = await until(client, lambda data: data["status"].get("updatedReplicas") == 1)
        assert condition(data, "Progressing")["reason"] == "ReplicaSetUpdated"
        clock.advance(59)
        await change_web(client, minReadySeconds=1)
        data = await until(client, lambda data: True)
        assert condition(data, "Progressing")["reason"] == "ReplicaSetUpdated"
        clock.advance(3)
        data = await until(client, lambda data: condition(data, "Progressing")["status"] == "False")
        name = next(each["metadata"]["name"] for each in await sets(client) if image_of(each) == BROKEN)
        assert condition(data, "Progressing")["reason"] == "ProgressDeadlineExceeded"
        assert condition(data, "Progressing")["message"] == f'ReplicaSet "{name}" has timed out progressing.'
        assert condition(data, "Available")["status"] == "True"
        await set_image(client, "web:3", minReadySeconds=0)
        await until(client, complete)


async def test_new_pods_count_once_they_were_ready_for_long_enough(tmp_path: Path) -> None:
    clock = ManualClock(START)
    async with cluster(tmp_path, *BOTH, clock=clock) as client, kubelet(client, clock):
        await create(client, deployment(2, minReadySeconds=10, strategy=rolling(1, 0)))
        data = await until(client, lambda data: data["status"].get("readyReplicas") == 2)
        assert data["status"]["unavailableReplicas"] == 2
        assert condition(data, "Available")["reason"] == "MinimumReplicasUnavailable"
        clock.advance(10)
        await until(client, complete)
        await set_image(client, "web:2")
        await sizes_become(client, web_1=2, web_2=1)
        await until(client, lambda data: data["status"].get("readyReplicas") == 3)
        assert await sizes(client) == {"web:1": 2, "web:2": 1}
        for _ in range(2):
            clock.advance(11)
            await until(client, lambda data: data["status"].get("availableReplicas", 0) >= 2)
        await eventually(lambda: _advanced(client, clock))


async def _advanced(client: Client, clock: ManualClock) -> bool:
    clock.advance(1)
    return complete(await read(client, "Deployment", "web", api_version=APPS))


async def test_a_template_that_is_refused_shows_in_the_conditions(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client, kubelet(client):
        await create(client, deployment(2, pod={"priorityClassName": "nowhere"}))
        data = await until(client, lambda data: condition(data, "ReplicaFailure"))
        failure = condition(data, "ReplicaFailure")
        assert (failure["status"], failure["reason"]) == ("True", "FailedCreate")
        assert "no PriorityClass with name nowhere was found" in failure["message"]
        await change_web(client, template={"spec": {"priorityClassName": None}})
        await until(client, lambda data: complete(data) and not condition(data, "ReplicaFailure"))


async def test_a_name_that_is_taken_leads_to_another_hash(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client, kubelet(client):
        await create(client, deployment(1))
        await until(client, complete)
        (owned,) = await sets(client)
        await client.delete(DEPLOYMENT, "default", "web")
        other = {"metadata": {"labels": {"app": "other"}, "ownerReferences": None}}
        await change(client, "ReplicaSet", owned["metadata"]["name"], other, APPS)
        await create(client, deployment(1))
        data = await until(client, complete)
        assert data["status"]["collisionCount"] == 1
        names = {each["metadata"]["name"] for each in await sets(client)}
        assert len(names) == 2


async def test_a_label_or_annotation_of_the_deployment_starts_no_rollout(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client, kubelet(client):
        await create(client, deployment(1))
        await until(client, complete)
        note = {"metadata": {"labels": {"a": "b"}, "annotations": {"note": "copied"}}}
        await change(client, "Deployment", "web", note, APPS)

        async def copied() -> bool:
            (owned,) = await sets(client)
            return bool(owned["metadata"]["annotations"].get("note") == "copied")

        await eventually(copied)


async def test_random_rollouts_end_well(tmp_path: Path) -> None:
    chance = random.Random(5)
    async with cluster(tmp_path, *BOTH) as client, kubelet(client):
        await create(client, deployment(6, revisionHistoryLimit=2, pod={"terminationGracePeriodSeconds": 0}))
        for number in range(40):
            size = chance.randint(1, 9)
            match chance.randrange(5):
                case 0:
                    await set_image(client, f"web:{chance.randrange(6)}", replicas=size)
                case 1:
                    ask = {"metadata": {"annotations": {rollouts.ROLLBACK: "0"}}}
                    await change(client, "Deployment", "web", ask, APPS)
                case 2:
                    await change_web(client, replicas=size)
                case 3:
                    await change_web(client, paused=bool(number % 2), replicas=size)
                case _:
                    for each in await plane.read_all(client, "Pod"):
                        if chance.random() < 0.5:
                            await _delete(client, each["metadata"]["name"])
            for _ in range(chance.randrange(200)):
                await asyncio.sleep(0)
        await change_web(client, paused=False)
        data = await until(client, complete)
        assert await images(client) == [image_of(data)] * data["spec"]["replicas"]
        informers = Informers(client)
        owned = informers.of(ReplicaSet)
        await informers.start()
        assert {owner.uid for each in owned if (owner := controller_of(each))} == {data["metadata"]["uid"]}
        await informers.stop()


async def _delete(client: Client, name: str) -> None:
    try:
        await client.delete(POD, "default", name)
    except Exception as error:
        if getattr(error, "code", 0) not in (404, 409):
            raise


async def test_more_replicas_than_are_made_at_a_time_are_made_and_replaced(tmp_path: Path) -> None:
    async with cluster(tmp_path, *BOTH) as client:
        await create(client, deployment(600))

        async def pods() -> dict[str, str]:
            metadata = [msgspec.json.decode(each, type=Object).metadata for each in (await client.list(POD)).items]
            return {each.uid: each.name for each in metadata}

        async def all_made() -> bool:
            return len(await pods()) == 600

        await eventually(all_made)
        evicted = await pods()
        await asyncio.gather(*(client.delete(POD, "default", each, grace=0) for each in evicted.values()))
        await eventually(all_made)
        await until(client, lambda data: data["status"]["replicas"] == 600)
        assert not evicted.keys() & (await pods()).keys()
