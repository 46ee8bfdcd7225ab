"""A ReplicaSet keeps as many pods as it says, and gives up those that are missed least."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.client import Client
from moorage.client.client import STRATEGIC
from moorage.client.clock import ManualClock, timestamp
from moorage.controllers.workloads.replicaset import ReplicaSetController, ReplicationControllers, least_missed
from tests.controllers.kubelet import kubelet
from tests.controllers.small_cluster import becomes, change, cluster
from tests.controllers.waiting import eventually, read, read_all, settle
from tests.plane import create, pod

_SETS = "apps/v1"
_POD = kinds.row("v1", "Pod")
_SET = kinds.row("apps/v1", "ReplicaSet")
_CONTROLLER = kinds.row("v1", "ReplicationController")


def replica_set(name: str = "web", replicas: int = 3, labels: dict[str, str] | None = None, **spec: Any) -> Data:
    labels = labels or {"name": name}
    container = {"name": "main", "image": "pause:3.10"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec.pop("pod", {})}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": _SETS, "kind": "ReplicaSet", "metadata": {"name": name, "labels": labels}, "spec": spec}


async def until(client: Client, name: str, check: Callable[[Data], Any]) -> Data:
    """Wait until a ReplicaSet says so in its status, about what it is now."""
    return await becomes(
        client,
        "ReplicaSet",
        name,
        lambda data: (
            data.get("status", {}).get("observedGeneration") == data["metadata"]["generation"] and check(data["status"])
        ),
        _SETS,
    )


async def names(client: Client) -> set[str]:
    """The names of all pods that are not on their way out."""
    return {each["metadata"]["name"] for each in await read_all(client, "Pod") if not _is_leaving(each)}


def _is_leaving(each: Data) -> bool:
    return "deletionTimestamp" in each["metadata"]


async def test_each_replica_runs_and_belongs_to_its_set(tmp_path: Path) -> None:
    async with cluster(tmp_path, ReplicaSetController) as client, kubelet(client):
        created = await create(client, replica_set(replicas=2))
        data = await until(client, "web", lambda status: status.get("availableReplicas") == 2)
        assert data["status"] == {
            "observedGeneration": 1, "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2,
            "availableReplicas": 2, "terminatingReplicas": 0,
        }  # fmt: skip
        for each in await read_all(client, "Pod"):
            metadata = each["metadata"]
            assert metadata["name"].startswith("web-")
            assert metadata["generateName"] == "web-"
            assert metadata["labels"] == {"name": "web"}
            assert metadata["ownerReferences"] == [
                {
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": created["metadata"]["uid"],
                    "controller": True, "blockOwnerDeletion": True,
                }
            ]  # fmt: skip


async def test_a_replication_controller_does_the_same_for_the_labels_it_names(tmp_path: Path) -> None:
    async with cluster(tmp_path, ReplicationControllers) as client, kubelet(client):
        await create(client, pod("found", labels={"name": "web"}, nodeName="node-1"))
        template = replica_set()["spec"]["template"]
        spec = {"replicas": 2, "template": template}
        manifest = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "web"}, "spec": spec}
        await create(client, manifest)
        data = await becomes(
            client, "ReplicationController", "web", lambda data: data.get("status", {}).get("availableReplicas") == 2
        )
        assert data["spec"]["selector"] == data["metadata"]["labels"] == {"name": "web"}
        assert data["status"] == {
            "observedGeneration": 1, "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2,
            "availableReplicas": 2,
        }  # fmt: skip
        owners = [each["metadata"]["ownerReferences"][0] for each in await read_all(client, "Pod")]
        assert [(owner["apiVersion"], owner["kind"], owner["uid"]) for owner in owners] == [
            ("v1", "ReplicationController", data["metadata"]["uid"])
        ] * 2
        await client.patch(_CONTROLLER, "default", "web", {"spec": {"replicas": 0}}, subresource="scale")

        async def is_empty() -> bool:
            return not await names(client)

        await eventually(is_empty)


async def test_pods_are_made_from_the_template_as_it_was_written(tmp_path: Path) -> None:
    hook = {"postStart": {"exec": {"command": ["true"]}}}
    container = {"name": "main", "image": "pause", "lifecycle": hook}
    async with cluster(tmp_path, ReplicaSetController) as client:
        await create(client, replica_set(replicas=1, pod={"containers": [container]}))
        (made,) = await eventually(lambda: read_all(client, "Pod"))
        assert made["spec"]["containers"][0]["lifecycle"] == hook


async def test_orphans_are_adopted_and_pods_that_no_longer_match_are_released_and_replaced(tmp_path: Path) -> None:
    async with cluster(tmp_path, ReplicaSetController) as client:
        await create(client, pod("adopted", labels={"name": "web"}))
        created = await create(client, replica_set(replicas=1))
        uid = created["metadata"]["uid"]
        await becomes(client, "Pod", "adopted", lambda data: _owners(data) == [uid])
        assert await names(client) == {"adopted"}

        await change(client, "Pod", "adopted", {"metadata": {"labels": {"name": "not-matching"}}})
        await becomes(client, "Pod", "adopted", lambda data: _owners(data) == [])

        async def replaced() -> bool:
            return len(await names(client)) == 2

        assert await eventually(replaced)
        await until(client, "web", lambda status: status["replicas"] == 1)


async def test_an_orphan_that_comes_later_is_adopted_and_one_pod_is_given_up(tmp_path: Path) -> None:
    async with cluster(tmp_path, ReplicaSetController) as client:
        uid = (await create(client, replica_set(replicas=2)))["metadata"]["uid"]
        await until(client, "web", lambda status: status["replicas"] == 2)
        await create(client, pod("late", labels={"name": "web"}))

        async def settled() -> bool:
            pods = await read_all(client, "Pod")
            return len(pods) == 2 and all(_owners(each) == [uid] for each in pods)

        await eventually(settled)


def _owners(data: Data) -> list[str]:
    return [each["uid"] for each in data["metadata"].get("ownerReferences", ())]


async def test_pods_that_end_or_are_deleted_are_replaced(tmp_path: Path) -> None:
    async with cluster(tmp_path, ReplicaSetController) as client, kubelet(client):
        await create(client, replica_set(replicas=2))
        await until(client, "web", lambda status: status.get("availableReplicas") == 2)
        first, second = sorted(await names(client))
        await change(client, "Pod", first, {"status": {"phase": "Failed"}}, subresource="status")
        await client.delete(_POD, "default", second)

        async def replaced() -> bool:
            running_now = {
                each["metadata"]["name"]
                for each in await read_all(client, "Pod")
                if each["status"].get("phase") == "Running" and not _is_leaving(each)
            }
            return len(running_now) == 2 and not running_now & {first, second}

        await eventually(replaced)
        assert first in await names(client)


async def test_a_pod_on_its_way_out_counts_as_terminating(tmp_path: Path) -> None:
    async with cluster(tmp_path, ReplicaSetController) as client, kubelet(client) as worker:
        worker.ends = lambda _: False
        await create(client, replica_set(replicas=1, pod={"nodeName": "node-1"}))
        await until(client, "web", lambda status: status.get("availableReplicas") == 1)
        (name,) = await names(client)
        await client.delete(_POD, "default", name)
        await until(
            client,
            "web",
            lambda status: (
                (status["terminatingReplicas"], status["replicas"], status.get("readyReplicas")) == (1, 1, 1)
            ),
        )


async def test_the_scale_subresource_works(tmp_path: Path) -> None:
    async with cluster(tmp_path, ReplicaSetController) as client, kubelet(client):
        await create(client, replica_set(replicas=1))
        await until(client, "web", lambda status: status.get("availableReplicas") == 1)
        patch = {"spec": {"replicas": 4}}
        await client.patch(_SET, "default", "web", patch, subresource="scale")
        await until(client, "web", lambda status: status.get("availableReplicas") == 4)
        await client.patch(_SET, "default", "web", {"spec": {"replicas": 0}}, subresource="scale")
        await until(client, "web", lambda status: status["replicas"] == 0)


async def test_a_patch_of_size_and_template_together_is_followed(tmp_path: Path) -> None:
    async with cluster(tmp_path, ReplicaSetController) as client, kubelet(client):
        await create(client, replica_set(replicas=1))
        await until(client, "web", lambda status: status.get("availableReplicas") == 1)
        container = {"name": "main", "image": "other"}
        patch = {
            "metadata": {"labels": {"test-rs": "patched"}},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [container]}}},
        }
        await client.patch(_SET, "default", "web", patch, form=STRATEGIC)
        await until(client, "web", lambda status: status.get("availableReplicas") == 3)
        images = sorted(each["spec"]["containers"][0]["image"] for each in await read_all(client, "Pod"))
        assert images == ["other", "other", "pause:3.10"]


async def test_conditions_of_others_in_the_status_stay(tmp_path: Path) -> None:
    async with cluster(tmp_path, ReplicaSetController) as client:
        await create(client, replica_set(replicas=1))
        await until(client, "web", lambda status: status["replicas"] == 1)
        patch = {"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}}
        await change(client, "ReplicaSet", "web", patch, _SETS, "status")
        await change(client, "ReplicaSet", "web", {"spec": {"replicas": 2}}, _SETS)
        data = await until(client, "web", lambda status: status["replicas"] == 2)
        assert [each["type"] for each in data["status"]["conditions"]] == ["StatusPatched"]


async def test_a_pod_is_available_when_it_was_ready_for_long_enough(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    async with cluster(tmp_path, ReplicaSetController, clock=clock) as client, kubelet(client, clock=clock):
        await create(client, replica_set(replicas=2, minReadySeconds=10))
        data = await until(client, "web", lambda status: status.get("readyReplicas") == 2)
        assert "availableReplicas" not in data["status"]
        clock.advance(9)
        await change(client, "ReplicaSet", "web", {"metadata": {"labels": {"looked": "again"}}}, _SETS)
        data = await until(client, "web", lambda status: status.get("readyReplicas") == 2)
        assert "availableReplicas" not in data["status"]
        clock.advance(1)
        await until(client, "web", lambda status: status.get("availableReplicas") == 2)


async def test_a_set_that_is_being_deleted_leaves_its_pods_alone(tmp_path: Path) -> None:
    async with cluster(tmp_path, ReplicaSetController) as client:
        await create(client, replica_set(replicas=2))
        await until(client, "web", lambda status: status["replicas"] == 2)
        await client.delete(_SET, "default", "web", propagation="Foreground")
        first, second = sorted(await names(client))
        await client.delete(_POD, "default", first, grace=0)
        await until(client, "web", lambda status: status["replicas"] == 1)
        assert await names(client) == {second}


async def test_five_hundred_are_made_at_once_and_no_more_than_wanted(tmp_path: Path) -> None:
    async with cluster(tmp_path, ReplicaSetController) as client:
        await create(client, replica_set(replicas=600))
        await until(client, "web", lambda status: status["replicas"] == 600)
        assert len(await names(client)) == 600
        await change(client, "ReplicaSet", "web", {"spec": {"replicas": 5}}, _SETS)
        await until(client, "web", lambda status: status["replicas"] == 5)
        assert len(await names(client)) == 5


async def test_a_refused_template_that_is_corrected_is_tried_at_once(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    async with cluster(tmp_path, ReplicaSetController, clock=clock) as client:
        await create(client, replica_set(replicas=2, pod={"priorityClassName": "nowhere"}))
        await until(client, "web", lambda status: status.get("conditions"))
        await change(client, "ReplicaSet", "web", {"spec": {"template": {"spec": {"priorityClassName": None}}}}, _SETS)
        data = await until(client, "web", lambda status: status["replicas"] == 2)
        assert not data["status"].get("conditions")


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_pod(name: str, **parts: Any) -> Pod:
    """A pod that has run on a node of its own for an hour, but for what is said."""
    ready_for, age = parts.get("ready_for", timedelta(hours=1)), parts.get("age", timedelta(hours=1))
    conditions = []
    if ready_for is not None:
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": timestamp(NOW - ready_for)}]
    data = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "uid": parts.get("uid", name),
            "creationTimestamp": timestamp(NOW - age),
            "annotations": {"controller.kubernetes.io/pod-deletion-cost": parts.get("cost", "0")},
        },
        "spec": {
            "nodeName": parts.get("node", f"node-of-{name}"),
            "initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "init"}],
        },
        "status": {
            "phase": parts.get("phase", "Running"),
            "conditions": conditions,
            "containerStatuses": [{"name": "main", "restartCount": parts.get("restarts", 0)}],
            "initContainerStatuses": [
                {"name": "side", "restartCount": parts.get("side_restarts", 0)},
                {"name": "init", "restartCount": parts.get("init_restarts", 0)},
            ],
        },
    }
    return msgspec.json.decode(msgspec.json.encode(data), type=Pod)


FIRST_GIVEN_UP = {
    "unassigned": ({"node": ""}, {"phase": "Pending", "ready_for": None}),
    "pending before unknown": ({"phase": "Pending"}, {"phase": "Unknown"}),
    "unknown before running": ({"phase": "Unknown", "ready_for": timedelta(days=9)}, {"ready_for": None}),
    "not ready": ({"ready_for": None}, {"cost": "-5"}),
    "lower cost": ({"cost": "-5"}, {"ready_for": timedelta(seconds=1)}),
    "a cost that is no number counts as none": ({"cost": "-1"}, {"cost": "+7"}),
    "shorter ready": ({"ready_for": timedelta(minutes=1)}, {"restarts": 9}),
    "ready without a time": ({"ready_for": timedelta(0)}, {"ready_for": timedelta(seconds=2)}),
    "more restarts": ({"restarts": 2}, {"age": timedelta(seconds=1), "restarts": 1}),
    "more restarts of a sidecar": ({"side_restarts": 2}, {"side_restarts": 1}),
    "younger": ({"age": timedelta(minutes=1)}, {"init_restarts": 5}),
    "about the same age goes by uid": (
        {"age": timedelta(minutes=61), "uid": "a"},
        {"age": timedelta(minutes=60), "uid": "b"},
    ),
}


@pytest.mark.parametrize(("first", "second"), FIRST_GIVEN_UP.values(), ids=FIRST_GIVEN_UP)
def test_pods_are_given_up_in_the_order_of_kubernetes(first: Data, second: Data) -> None:
    pods = [a_pod("one", **first), a_pod("two", **second)]
    for given in (pods, pods[::-1]):
        assert [each.metadata.name for each in least_missed(given, given, NOW)] == ["one", "two"]


def test_pods_on_a_node_with_others_of_the_family_are_given_up_first() -> None:
    alone = a_pod("alone", ready_for=timedelta(seconds=1))
    doubled = a_pod("doubled", node="crowded")
    family = [alone, doubled, a_pod("sibling", node="crowded")]
    assert [each.metadata.name for each in least_missed([alone, doubled], family, NOW)] == ["doubled", "alone"]


async def test_a_pod_of_higher_deletion_cost_survives_scaling_down(tmp_path: Path) -> None:
    async with cluster(tmp_path, ReplicaSetController) as client, kubelet(client):
        await create(client, replica_set(replicas=3))
        await until(client, "web", lambda status: status.get("availableReplicas") == 3)
        dear = min(await names(client))
        annotations = {"controller.kubernetes.io/pod-deletion-cost": "100"}
        await change(client, "Pod", dear, {"metadata": {"annotations": annotations}})
        await change(client, "ReplicaSet", "web", {"spec": {"replicas": 1}}, _SETS)
        await until(client, "web", lambda status: (status["replicas"], status["terminatingReplicas"]) == (1, 0))
        assert await names(client) == {dear}


async def test_fifty_sets_do_not_disturb_each_other(tmp_path: Path) -> None:
    async with cluster(tmp_path, ReplicaSetController) as client:
        await asyncio.gather(*(create(client, replica_set(f"set-{number}", 2)) for number in range(50)))

        async def all_there() -> bool:
            sets = await read_all(client, "ReplicaSet", api_version=_SETS)
            return len(sets) == 50 and all(each.get("status", {}).get("replicas") == 2 for each in sets)

        await eventually(all_there)
        assert len(await names(client)) == 100
        assert (await read(client, "ReplicaSet", "set-7", api_version=_SETS))["status"]["fullyLabeledReplicas"] == 2


async def test_pods_that_kubelets_reject_are_replaced_later_each_time(tmp_path: Path) -> None:
    clock = ManualClock(datetime.now(UTC))
    async with cluster(tmp_path, ReplicaSetController, clock=clock) as client:
        await create(client, replica_set(replicas=1))
        await until(client, "web", lambda status: status.get("replicas") == 1)
        (first,) = await names(client)
        rejected = {"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: no room"}}
        await change(client, "Pod", first, rejected, subresource="status")
        await settle()
        assert await names(client) == {first}
        clock.advance(3)

        async def replaced() -> bool:
            return len(await names(client)) == 2

        await eventually(replaced)
