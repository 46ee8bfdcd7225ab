"""Disruption budgets say how many pods may be evicted, and evictions keep to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.client import Client, TooManyRequests
from moorage.client.clock import ManualClock, timestamp
from moorage.controllers.cluster.disruption import Disruption
from moorage.controllers.cluster.staledisruptions import StaleDisruptions
from tests.controllers.small_cluster import becomes, change, cluster, remove
from tests.controllers.waiting import eventually, read, read_all
from tests.plane import create, pod

LABELS = {"app": "web"}
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "web"}]}}


def budget(**spec: Any) -> Data:
    whole = {"selector": {"matchLabels": LABELS}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": whole}


async def workload(client: Client, kind: str, name: str, replicas: int, owner: Data | None = None) -> Data:
    metadata: Data = {"name": name}
    if owner is not None:
        metadata["ownerReferences"] = [reference(owner)]
    is_oldest = kind == "ReplicationController"
    spec: Data = {"selector": LABELS if is_oldest else {"matchLabels": LABELS}, "template": TEMPLATE}
    if kind != "DaemonSet":
        spec["replicas"] = replicas
    api_version = "v1" if is_oldest else "apps/v1"
    return await create(client, {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})


def reference(owner: Data) -> Data:
    metadata = owner["metadata"]
    head = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    return {**head, "name": metadata["name"], "uid": metadata["uid"]}


async def member(client: Client, name: str, owner: Data | None = None, *, ready: bool = True) -> Data:
    data = pod(name, labels=LABELS, nodeName="node-1")
    if owner is not None:
        data["metadata"]["ownerReferences"] = [reference(owner)]
    return await create(client, data, phase="Running", conditions=[READY] if ready else [])


async def counts(client: Client, *numbers: int) -> Data:
    """Wait for healthy, desired, expected and allowed."""

    def same(data: Data) -> bool:
        status = data.get("status", {})
        names = ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed")
        return tuple(status.get(name) for name in names) == numbers

    counted = await becomes(client, "PodDisruptionBudget", "web", same, "policy/v1")
    status: Data = counted["status"]
    assert status["observedGeneration"] == counted["metadata"]["generation"]
    return status


async def evict(client: Client, name: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    await client.post(kinds.row("v1", "Pod"), "default", name, "eviction", body)


async def test_a_number_of_pods_stays_available(tmp_path: Path) -> None:
    async with cluster(tmp_path, Disruption) as client:
        await create(client, budget(minAvailable=2))
        status = await counts(client, 0, 2, 0, 0)
        assert (status["conditions"][0]["status"], status["conditions"][0]["reason"]) == ("False", "InsufficientPods")
        for name in ("a", "b", "c"):
            await member(client, name)
        await member(client, "unready", ready=False)
        status = await counts(client, 3, 2, 4, 1)
        (condition,) = status["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "DisruptionAllowed",
            "True",
            "SufficientPods",
        )
        await evict(client, "a")
        await counts(client, 2, 2, 4, 0)
        with pytest.raises(TooManyRequests, match="violate the pod's disruption budget"):
            await evict(client, "b")


@pytest.mark.parametrize(
    ("spec", "numbers"),
    [
        ({"maxUnavailable": 1}, (3, 4, 5, 0)),
        ({"maxUnavailable": 3}, (3, 2, 5, 1)),
        ({"maxUnavailable": "30%"}, (3, 3, 5, 0)),
        ({"maxUnavailable": "60%"}, (3, 2, 5, 1)),
        ({"minAvailable": "30%"}, (3, 2, 5, 1)),
        ({"minAvailable": "100%"}, (3, 5, 5, 0)),
        ({"minAvailable": 0}, (3, 0, 3, 3)),
    ],
)
async def test_percentages_are_of_what_the_owners_should_have(
    tmp_path: Path, spec: Data, numbers: tuple[int, ...]
) -> None:
    async with cluster(tmp_path, Disruption) as client:
        owner = await workload(client, "StatefulSet", "web", 5)
        for name in ("a", "b", "c"):
            await member(client, name, owner)
        await create(client, budget(**spec))
        await counts(client, *numbers)


async def test_a_replication_controller_says_how_many_are_expected(tmp_path: Path) -> None:
    async with cluster(tmp_path, Disruption) as client:
        await member(client, "a", await workload(client, "ReplicationController", "web", 4))
        await create(client, budget(minAvailable="50%"))
        await counts(client, 1, 2, 4, 0)


async def test_replica_sets_of_one_deployment_count_once_and_follow_its_scale(tmp_path: Path) -> None:
    async with cluster(tmp_path, Disruption) as client:
        deployment = await workload(client, "Deployment", "web", 4)
        old = await workload(client, "ReplicaSet", "old", 1, deployment)
        new = await workload(client, "ReplicaSet", "new", 4, deployment)
        await member(client, "a", old)
        for name in ("b", "c", "d"):
            await member(client, name, new)
        await create(client, budget(maxUnavailable="50%"))
        await counts(client, 4, 2, 4, 2)
        await change(client, "Deployment", "web", {"spec": {"replicas": 8}}, "apps/v1")
        await counts(client, 4, 4, 8, 0)


async def test_pods_without_an_owner_count_for_nothing_in_percentages_and_are_told(tmp_path: Path) -> None:
    async with cluster(tmp_path, Disruption) as client:
        await member(client, "alone")
        await create(client, budget(maxUnavailable=1))
        await counts(client, 1, 0, 0, 0)

        async def told() -> bool:
            return any(each["reason"] == "UnmanagedPods" for each in await read_all(client, "Event"))

        await eventually(told)


async def test_an_owner_without_a_scale_allows_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path, Disruption) as client:
        owner = await workload(client, "DaemonSet", "web", 0)
        await member(client, "a", owner)
        await create(client, budget(maxUnavailable=1))

        def failed(data: Data) -> bool:
            return bool(data.get("status", {}).get("conditions"))

        failing = await becomes(client, "PodDisruptionBudget", "web", failed, "policy/v1")
        assert failing["status"]["disruptionsAllowed"] == 0
        (condition,) = failing["status"]["conditions"]
        assert condition["reason"] == "SyncFailed"
        assert condition["message"] == "daemonsets.apps does not implement the scale subresource"


async def test_an_eviction_that_never_happened_is_forgotten_after_two_minutes(tmp_path: Path) -> None:
    clock = ManualClock(datetime.now(UTC))
    async with cluster(tmp_path, Disruption, clock=clock) as client:
        await create(client, budget(minAvailable=1))
        for name in ("a", "b"):
            await member(client, name)
        await counts(client, 2, 1, 2, 1)
        spent = {"status": {"disruptionsAllowed": 0, "disruptedPods": {"a": timestamp(clock.now())}}}
        await change(client, "PodDisruptionBudget", "web", spent, "policy/v1", "status")
        status = await counts(client, 1, 1, 2, 0)
        assert list(status["disruptedPods"]) == ["a"]
        clock.advance(130)
        status = await counts(client, 2, 1, 2, 1)
        assert not status.get("disruptedPods")


async def test_a_pod_that_is_gone_is_no_longer_about_to_be_disrupted(tmp_path: Path) -> None:
    async with cluster(tmp_path, Disruption) as client:
        await create(client, budget(minAvailable=1))
        for name in ("a", "b"):
            await member(client, name)
        await counts(client, 2, 1, 2, 1)
        await evict(client, "a")
        await remove(client, "Pod", "a", grace=0)
        status = await counts(client, 1, 1, 1, 0)
        assert not status.get("disruptedPods")


async def test_a_disruption_that_never_came_is_taken_back(tmp_path: Path) -> None:
    clock = ManualClock(datetime.now(UTC).replace(microsecond=0))
    async with cluster(tmp_path, StaleDisruptions, clock=clock) as client:
        await member(client, "a")
        since = timestamp(clock.now() - timedelta(seconds=30))
        target = {"type": "DisruptionTarget", "status": "True", "reason": "Preempted", "lastTransitionTime": since}
        patch = {"status": {"conditions": [READY, target]}}
        await change(client, "Pod", "a", patch, subresource="status")
        clock.advance(60)
        assert (await read(client, "Pod", "a"))["status"]["conditions"][1]["status"] == "True"

        async def taken_back() -> bool:
            clock.advance(10)
            conditions = (await read(client, "Pod", "a"))["status"]["conditions"]
            return [each["status"] for each in conditions] == ["True", "False"]

        await eventually(taken_back)
