"""Jobs: pods until enough have succeeded, each counted once, whatever becomes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.client import Client
from moorage.client.clock import ManualClock, timestamp
from moorage.controllers.cluster.garbage import GarbageCollector
from moorage.controllers.workloads.job import Jobs
from moorage.controllers.workloads.jobindexes import Indexes
from tests.controllers.kubelet import POD, Kubelet, kubelet, ready
from tests.controllers.small_cluster import becomes, change, cluster, gone, remove
from tests.controllers.waiting import eventually, read, read_all
from tests.plane import create

JOB = ("Job", "work")
FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}


def job(pod: Data | None = None, **spec: Any) -> Data:
    container = {"name": "main", "image": "work:1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **(pod or {})}}
    metadata = {"name": "work"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template, **spec}}


def indexed(completions: int, **spec: Any) -> Data:
    return job(completionMode="Indexed", completions=completions, **{"parallelism": completions, **spec})


class World:
    """A client, a kubelet and a clock."""

    def __init__(self, client: Client, node: Kubelet, clock: ManualClock) -> None:
        self.client, self.node, self.clock = client, node, clock

    async def make(self, manifest: Data) -> Data:
        return await create(self.client, manifest)

    async def has(self, **status: Any) -> Data:
        """Wait until the status says so."""

        def is_so(data: Data) -> bool:
            known = data.get("status", {})
            return all(known.get(name, type(value)()) == value for name, value in status.items())

        return await becomes(self.client, *JOB, is_so, "batch/v1")

    async def condition(self, kind: str, status: str = "True") -> Data:
        def is_so(data: Data) -> bool:
            conditions = data.get("status", {}).get("conditions", ())
            return any((each["type"], each["status"]) == (kind, status) for each in conditions)

        data = await becomes(self.client, *JOB, is_so, "batch/v1")
        found: Data = next(each for each in data["status"]["conditions"] if each["type"] == kind)
        return found

    async def pods(self) -> list[Data]:
        found = await read_all(self.client, "Pod", "default")
        return sorted(found, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    async def running(self, count: int) -> list[str]:
        """Wait until so many pods run, and give their names."""
        names: list[str] = []

        async def check() -> bool:
            names[:] = [
                pod["metadata"]["name"]
                for pod in await self.pods()
                if pod["status"]["phase"] == "Running" and not pod["metadata"].get("deletionTimestamp")
            ]
            return len(names) == count

        await eventually(check)
        return names

    async def by_index(self, count: int) -> dict[int, str]:
        names = await self.running(count)
        return {
            int(pod["metadata"]["annotations"][INDEX]): pod["metadata"]["name"]
            for pod in await self.pods()
            if pod["metadata"]["name"] in names
        }

    async def reasons(self) -> set[str]:
        return {each["reason"] for each in await read_all(self.client, "Event", "default")}


@asynccontextmanager
async def world(directory: Path) -> AsyncIterator[World]:
    clock = ManualClock(datetime.now(UTC))
    async with (
        cluster(directory, Jobs, GarbageCollector, clock=clock) as client,
        kubelet(client, clock) as node,
    ):
        yield World(client, node, clock)


async def test_a_job_ends_when_enough_pods_have_succeeded(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        created = await here.make(job(parallelism=2, completions=3))
        first, second = await here.running(2)
        await here.has(active=2, ready=2)
        pod = await read(here.client, "Pod", first)
        uid = created["metadata"]["uid"]
        assert pod["metadata"]["labels"] == {
            "job-name": "work",
            "batch.kubernetes.io/job-name": "work",
            "controller-uid": uid,
            "batch.kubernetes.io/controller-uid": uid,
        }
        assert pod["metadata"]["finalizers"] == [FINALIZER]
        await here.node.finish(first)
        await here.node.finish(second)
        (third,) = await here.running(1)
        await here.has(active=1, succeeded=2)
        await here.node.finish(third)
        done = await here.condition("Complete")
        assert (done["reason"], done["message"]) == ("CompletionsReached", "Reached expected number of succeeded pods")
        status = (await here.has(succeeded=3, active=0, ready=0, terminating=0, uncountedTerminatedPods={}))["status"]
        assert [each["type"] for each in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
        assert status["startTime"] <= status["completionTime"]
        assert not any(pod["metadata"].get("finalizers") for pod in await here.pods()), "ended pods are kept, and free"
        assert len(await here.pods()) == 3


async def test_without_completions_one_success_ends_a_job(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job(parallelism=2))
        first, second = await here.running(2)
        await here.node.finish(first)
        await here.has(active=1, succeeded=1)
        await here.node.finish(second)
        await here.condition("Complete")


async def test_a_failed_pod_is_replaced_later_and_later(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job())
        for failures, wait in ((1, 10), (2, 20), (3, 40)):
            (name,) = await here.running(1)
            await here.node.fail(name)
            await here.has(failed=failures, active=0)
            here.clock.advance(wait - 1)
            assert len(await here.pods()) == failures
            here.clock.advance(2)
        (name,) = await here.running(1)
        await here.node.finish(name)
        await here.condition("Complete")


async def test_a_job_fails_when_its_backoff_limit_is_used_up(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job(backoffLimit=1, parallelism=2, completions=4))
        first, second = await here.running(2)
        await here.node.fail(first)
        await here.has(failed=1)
        await here.node.fail(second)
        failed = await here.condition("Failed")
        assert failed["reason"] == "BackoffLimitExceeded"
        assert failed["message"] == "Job has reached the specified backoff limit"
        await here.has(failed=2, active=0)


async def test_restarts_in_place_count_against_the_backoff_limit(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job({"restartPolicy": "OnFailure"}, backoffLimit=2))
        (name,) = await here.running(1)
        state = {"name": "main", "image": "x", "imageID": "", "ready": True, "restartCount": 2, "state": {}}
        await here.node.set_status(name, containerStatuses=[state])
        assert (await here.condition("Failed"))["reason"] == "BackoffLimitExceeded"


async def test_active_pods_are_ended_when_the_deadline_is_over(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job(parallelism=2, completions=2, activeDeadlineSeconds=30))
        await here.running(2)
        await here.has(active=2)
        here.clock.advance(31)
        assert (await here.condition("Failed"))["reason"] == "DeadlineExceeded"
        await here.has(failed=2, active=0)
        assert await here.pods() == []


async def test_a_suspended_job_has_no_pods_and_loses_none_of_its_limit(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job(parallelism=2, completions=2, suspend=True, backoffLimit=0))
        assert (await here.condition("Suspended"))["reason"] == "JobSuspended"
        assert await here.pods() == []
        await change(here.client, *JOB, {"spec": {"suspend": False}}, "batch/v1")
        await here.running(2)
        assert (await here.condition("Suspended", "False"))["reason"] == "JobResumed"
        await change(here.client, *JOB, {"spec": {"suspend": True}}, "batch/v1")
        await here.condition("Suspended")
        suspended = await here.has(active=0, failed=0)
        assert "startTime" not in suspended["status"]
        assert await here.pods() == []
        await change(here.client, *JOB, {"spec": {"suspend": False}}, "batch/v1")
        for name in await here.running(2):
            await here.node.finish(name)
        await here.condition("Complete")


async def test_a_job_is_deleted_some_time_after_it_has_ended(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job(ttlSecondsAfterFinished=60))
        (name,) = await here.running(1)
        await here.node.finish(name)
        await here.condition("Complete")
        here.clock.advance(30)
        assert await read(here.client, *JOB, api_version="batch/v1")
        here.clock.advance(31)
        await gone(here.client, *JOB, "batch/v1")
        await gone(here.client, "Pod", name)


async def test_a_job_that_another_controller_has_ended_is_deleted_too(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job(managedBy="example.com/other", ttlSecondsAfterFinished=60))
        now = timestamp(here.clock.now())
        reached = {"status": "True", "lastTransitionTime": now}
        conditions = [{"type": kind, **reached} for kind in ("SuccessCriteriaMet", "Complete")]
        status = {"startTime": now, "completionTime": now, "conditions": conditions}
        await change(here.client, *JOB, {"status": status}, "batch/v1", subresource="status")
        # Who is given more time meanwhile has it.
        await change(here.client, *JOB, {"spec": {"ttlSecondsAfterFinished": 120}}, "batch/v1")
        here.clock.advance(61)
        other = job()
        other["metadata"]["name"] = "other"
        await here.make(other)
        await here.running(1)
        assert await read(here.client, *JOB, api_version="batch/v1")
        here.clock.advance(60)
        await gone(here.client, *JOB, "batch/v1")


async def test_each_pod_of_an_indexed_job_has_its_index(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(indexed(4, parallelism=2))
        pods = await here.by_index(2)
        assert sorted(pods) == [0, 1]
        pod = await read(here.client, "Pod", pods[1])
        assert pod["metadata"]["name"].startswith("work-1-")
        assert (pod["spec"]["hostname"], pod["metadata"]["labels"][INDEX]) == ("work-1", "1")
        await here.node.finish(pods[1])
        pods = await here.by_index(2)
        assert sorted(pods) == [0, 2]
        await here.has(completedIndexes="1", succeeded=1)
        await here.node.fail(pods[0])
        await here.has(failed=1)
        here.clock.advance(11)
        pods = await here.by_index(2)
        assert sorted(pods) == [0, 2]
        for name in pods.values():
            await here.node.finish(name)
        pods = await here.by_index(1)
        await here.node.finish(pods[3])
        await here.condition("Complete")
        await here.has(completedIndexes="0-3", succeeded=4, failed=1)


async def test_containers_find_their_index_in_the_environment(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        manifest = indexed(1)
        mine = {"name": "JOB_COMPLETION_INDEX", "value": "mine"}
        spec = manifest["spec"]["template"]["spec"]
        spec["initContainers"] = [{"name": "setup", "image": "setup:1", "env": [{"name": "A", "value": "b"}]}]
        spec["containers"].append({"name": "other", "image": "other:1", "env": [mine]})
        await here.make(manifest)
        pod = await read(here.client, "Pod", (await here.by_index(1))[0])
        source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
        variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
        assert pod["spec"]["initContainers"][0]["env"] == [{"name": "A", "value": "b"}, variable]
        assert [each["env"] for each in pod["spec"]["containers"]] == [[variable], [mine]]


async def test_indexes_fail_one_by_one_when_each_has_its_own_limit(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(indexed(3, backoffLimitPerIndex=1))
        pods = await here.by_index(3)
        await here.node.finish(pods[0])
        await here.node.finish(pods[2])
        await here.node.fail(pods[1])
        await here.has(succeeded=2, completedIndexes="0,2")
        here.clock.advance(11)
        again = await here.by_index(1)
        pod = await read(here.client, "Pod", again[1])
        assert pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "1"
        await here.node.fail(again[1])
        failed = await here.condition("Failed")
        assert failed["reason"] == "FailedIndexes"
        await here.has(failedIndexes="1", completedIndexes="0,2", failed=2, succeeded=2)


async def test_too_many_failed_indexes_end_a_job(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(indexed(4, backoffLimitPerIndex=0, maxFailedIndexes=1))
        pods = await here.by_index(4)
        await here.node.fail(pods[0])
        await here.has(failedIndexes="0", active=3)
        await here.node.fail(pods[1])
        assert (await here.condition("Failed"))["reason"] == "MaxFailedIndexesExceeded"
        await here.has(failedIndexes="0,1", active=0)


RULES: list[tuple[Data, list[int], str]] = [
    ({"succeededIndexes": "0,2"}, [0, 2], "0,2"),
    ({"succeededCount": 1}, [3], "3"),
    ({"succeededIndexes": "1-3", "succeededCount": 2}, [1, 3], "1,3"),
]


@pytest.mark.parametrize(("rule", "indexes", "completed"), RULES)
async def test_a_success_policy_ends_a_job_early(
    tmp_path: Path, rule: Data, indexes: list[int], completed: str
) -> None:
    async with world(tmp_path) as here:
        await here.make(indexed(4, successPolicy={"rules": [rule]}))
        pods = await here.by_index(4)
        for index in indexes:
            assert (await read(here.client, *JOB, api_version="batch/v1"))["status"].get("conditions") is None
            await here.node.finish(pods[index])
        done = await here.condition("Complete")
        assert (done["reason"], done["message"]) == ("SuccessPolicy", "Matched rules at index 0")
        await here.has(completedIndexes=completed, active=0, failed=0)


def policy(action: str, **rule: Any) -> Data:
    return {"podFailurePolicy": {"rules": [{"action": action, **rule}]}}


ON_DISRUPTION = {"onPodConditions": [{"type": "DisruptionTarget"}]}
ON_42 = {"onExitCodes": {"operator": "In", "values": [42]}}


async def test_an_exit_code_can_fail_a_job_at_once(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job(parallelism=2, completions=2, **policy("FailJob", **ON_42)))
        first, _ = await here.running(2)
        await here.node.fail(first, 42)
        failed = await here.condition("Failed")
        assert failed["reason"] == "PodFailurePolicy"
        assert failed["message"] == (
            f"Container main for pod default/{first} failed with exit code 42 matching FailJob rule at index 0"
        )
        await here.has(failed=2, active=0)


async def test_pods_that_are_disrupted_do_not_use_up_the_limit(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job(backoffLimit=0, **policy("Ignore", **ON_DISRUPTION)))
        (name,) = await here.running(1)
        await here.node.fail(name, 137, DISRUPTED)
        await here.has(active=0)
        here.clock.advance(11)
        (again,) = await here.running(1)
        assert again != name
        assert (await here.has(active=1))["status"].get("failed", 0) == 0
        await here.node.fail(again, 1)
        assert (await here.condition("Failed"))["reason"] == "BackoffLimitExceeded"


async def test_an_index_can_fail_at_once(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(indexed(2, backoffLimitPerIndex=3, **policy("FailIndex", **ON_42)))
        pods = await here.by_index(2)
        await here.node.fail(pods[0], 42)
        await here.has(failedIndexes="0", active=1)
        await here.node.finish(pods[1])
        assert (await here.condition("Failed"))["reason"] == "FailedIndexes"


async def test_pods_are_replaced_only_when_they_have_ended_if_the_job_says_so(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job(podReplacementPolicy="Failed"))
        (name,) = await here.running(1)
        pod = await read(here.client, "Pod", name)
        here.node.ends = lambda _: False
        await here.client.bind("default", name, pod["metadata"]["uid"], "n1")
        await here.client.delete(POD, "default", name)
        await here.has(active=0, terminating=1)
        here.clock.advance(60)
        assert len(await here.pods()) == 1
        await here.node.fail(name)
        await here.has(failed=1)
        here.clock.advance(11)
        assert (await here.running(1)) != [name]


async def test_pods_that_vanish_are_counted_once_and_replaced(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job(parallelism=3, completions=3))
        first, second, _ = await here.running(3)
        await here.node.finish(first)
        await remove(here.client, "Pod", first)
        await remove(here.client, "Pod", second)
        await here.has(succeeded=1, failed=1, uncountedTerminatedPods={})
        here.clock.advance(11)
        for name in await here.running(2):
            await here.node.finish(name)
        await here.condition("Complete")
        await here.has(succeeded=3, failed=1)


async def test_fewer_pods_run_when_parallelism_is_lowered(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job(parallelism=3, completions=5))
        first, *others = await here.running(3)
        # Those that serve for longer are kept.
        here.clock.advance(100)
        for name in others:
            await here.node.set_status(name, conditions=[ready(here.clock)])
        await change(here.client, *JOB, {"spec": {"parallelism": 1}}, "batch/v1")
        assert await here.running(1) == [first]
        await here.has(active=1, failed=0)


async def test_matching_orphans_are_adopted_and_others_released(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job(parallelism=2, completions=2))
        name, _ = await here.running(2)
        await change(here.client, "Pod", name, {"metadata": {"ownerReferences": None}})
        adopted = await becomes(here.client, "Pod", name, lambda data: data["metadata"].get("ownerReferences"))
        assert adopted["metadata"]["ownerReferences"][0]["kind"] == "Job"
        await becomes(here.client, "Pod", name, lambda data: data["metadata"].get("finalizers") == [FINALIZER])
        await change(here.client, "Pod", name, {"metadata": {"labels": None}})
        await becomes(
            here.client,
            "Pod",
            name,
            lambda data: not data["metadata"].get("ownerReferences") and not data["metadata"].get("finalizers"),
        )
        await here.running(3)


async def test_pods_go_with_their_job_even_when_nobody_counts_them(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job(parallelism=2, completions=2))
        names = await here.running(2)
        await remove(here.client, *JOB, "batch/v1", propagation="Background")
        for name in names:
            await gone(here.client, "Pod", name)
        await here.make(job())
        (name,) = await here.running(1)
        await remove(here.client, *JOB, "batch/v1", propagation="Foreground")
        await gone(here.client, "Pod", name)
        await gone(here.client, *JOB, "batch/v1")


async def test_a_job_that_another_controller_manages_is_left_alone(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job(managedBy="example.com/other"))
        other = job()
        other["metadata"]["name"] = "ours"
        await here.make(other)
        await here.running(1)
        assert not (await read(here.client, *JOB, api_version="batch/v1")).get("status")


async def test_what_others_say_in_the_status_is_kept(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.make(job())
        (name,) = await here.running(1)
        await here.has(active=1, ready=1)
        condition = {"type": "Custom", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        patch = {"status": {"conditions": [condition]}}
        await here.client.patch(kinds.row("batch/v1", "Job"), "default", "work", patch, subresource="status")
        await here.node.finish(name)
        await here.condition("Complete")
        assert await here.condition("Custom") == condition


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.integers(0, 20))
def test_indexes_are_sets_that_are_written_short(some: set[int], others: set[int], count: int) -> None:
    mine, theirs = Indexes().plus(some), Indexes().plus(others)
    assert len(mine) == len(some)
    assert {index for index in range(61) if index in mine} == some
    assert str(Indexes.parse(str(mine), 61)) == str(mine)
    assert str(mine | theirs) == str(Indexes().plus(some | others))
    assert str(mine & theirs) == str(Indexes().plus(some & others))
    assert mine.missing(count, 61) == [index for index in range(61) if index not in some][:count]
    assert len(Indexes.parse(str(mine), 30)) == len([index for index in some if index < 30])
