"""CronJobs: Jobs at the right time, not too many of them, and none twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from moorage.api import cron, kinds
from moorage.api.meta import Data
from moorage.client import Client
from moorage.client.clock import ManualClock, timestamp
from moorage.controllers.cluster.garbage import GarbageCollector
from moorage.controllers.workloads.cronjob import CronJobs, due
from tests.controllers.small_cluster import becomes, change, cluster, gone, remove
from tests.controllers.waiting import eventually, read, read_all
from tests.plane import create

CRON = ("CronJob", "tick")
JOB = kinds.row("batch/v1", "Job")


def cron_job(schedule: str = "* * * * *", **spec: Any) -> Data:
    container = {"name": "main", "image": "work:1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job_template = {"metadata": {"labels": {"app": "tick"}, "annotations": {"a": "b"}}, "spec": {"template": template}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick"},
        "spec": {"schedule": schedule, "jobTemplate": job_template, **spec},
    }


class World:
    """A client and a clock."""

    def __init__(self, client: Client, clock: ManualClock) -> None:
        self.client, self.clock = client, clock

    async def jobs(self, count: int) -> list[str]:
        """Wait until there are so many Jobs, and give their names."""
        names: list[str] = []

        async def check() -> bool:
            names[:] = sorted(job["metadata"]["name"] for job in await read_all(self.client, "Job", "", "batch/v1"))
            return len(names) == count

        await eventually(check)
        return names

    async def active(self, *names: str) -> Data:
        def is_so(data: Data) -> bool:
            active = data.get("status", {}).get("active") or ()
            return sorted(each["name"] for each in active) == sorted(names)

        return await becomes(self.client, *CRON, is_so, "batch/v1")

    async def end(self, name: str, kind: str = "Complete") -> None:
        now = timestamp(self.clock.now())
        status: Data = {"startTime": now, "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now}]}
        if kind == "Complete":
            status["completionTime"] = now
        await self.client.patch(JOB, "default", name, {"status": status}, subresource="status")

    async def event(self, reason: str) -> Data:
        async def check() -> Data | None:
            events = await read_all(self.client, "Event", "default")
            return next((each for each in events if each["reason"] == reason), None)

        event: Data = await eventually(check)
        return event

    async def reasons(self) -> set[str]:
        return {each["reason"] for each in await read_all(self.client, "Event", "default")}


@asynccontextmanager
async def world(directory: Path) -> AsyncIterator[World]:
    # Half a minute before the next minute, so that no schedule is due by chance.
    clock = ManualClock(datetime.now(UTC).replace(second=30, microsecond=0) + timedelta(minutes=1))
    async with cluster(directory, CronJobs, GarbageCollector, clock=clock) as client:
        yield World(client, clock)


async def test_jobs_start_at_each_time_of_the_schedule(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        begin = here.clock.now()
        await create(here.client, cron_job(startingDeadlineSeconds=20))
        await here.jobs(0)
        here.clock.advance(30)
        (first,) = await here.jobs(1)
        minute = int((begin + timedelta(seconds=30)).timestamp()) // 60
        assert first == f"tick-{minute}"
        started_job = await read(here.client, "Job", first, api_version="batch/v1")
        assert started_job["metadata"]["labels"]["app"] == "tick"
        when = started_job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        assert datetime.fromisoformat(when) == begin + timedelta(seconds=30)
        assert started_job["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
        status = (await here.active(first))["status"]
        assert status["lastScheduleTime"] == timestamp(begin + timedelta(seconds=30))
        here.clock.advance(60)
        await here.jobs(2)
        await here.active(f"tick-{minute}", f"tick-{minute + 1}")
        await here.end(first)
        done = await here.active(f"tick-{minute + 1}")
        assert done["status"]["lastSuccessfulTime"] == timestamp(here.clock.now())
        assert await here.reasons() <= {"SuccessfulCreate", "SawCompletedJob"}


async def test_a_suspended_schedule_starts_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await create(here.client, cron_job(suspend=True))
        here.clock.advance(600)
        other = cron_job()
        other["metadata"]["name"] = "other"
        await create(here.client, other)
        (name,) = await here.jobs(1)
        assert name.startswith("other-")
        await change(here.client, *CRON, {"spec": {"suspend": False}}, "batch/v1")
        await here.jobs(2)


async def test_forbid_waits_for_the_job_before(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await create(here.client, cron_job(concurrencyPolicy="Forbid"))
        here.clock.advance(30)
        (first,) = await here.jobs(1)
        await here.active(first)
        here.clock.advance(120)
        await here.event("JobAlreadyActive")
        assert await here.jobs(1) == [first]
        await here.end(first)
        await here.jobs(2)


async def test_a_job_that_somebody_else_started_stands_in_nobodys_way(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        owner = await create(here.client, cron_job(concurrencyPolicy="Forbid", startingDeadlineSeconds=20))
        reference = {
            "apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": owner["metadata"]["uid"],
            "controller": True,
        }  # fmt: skip
        metadata = {"name": "by-hand", "ownerReferences": [reference]}
        spec = owner["spec"]["jobTemplate"]["spec"]
        await create(here.client, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
        event = await here.event("UnexpectedJob")
        assert event["message"] == "Saw a job that the controller did not create or forgot: by-hand"
        here.clock.advance(30)
        names = await here.jobs(2)
        await here.active(*(name for name in names if name != "by-hand"))


async def test_replace_ends_the_job_before(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await create(here.client, cron_job(concurrencyPolicy="Replace"))
        here.clock.advance(30)
        (first,) = await here.jobs(1)
        await here.active(first)
        here.clock.advance(60)
        await gone(here.client, "Job", first, "batch/v1")
        (second,) = await here.jobs(1)
        assert second != first
        await here.active(second)


async def test_a_clock_that_jumps_starts_one_job(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await create(here.client, cron_job())
        here.clock.advance(30)
        (first,) = await here.jobs(1)
        await here.active(first)
        here.clock.advance(98 * 24 * 3600)
        both = await here.jobs(2)
        await here.active(*both)
        assert (await here.event("TooManyMissedTimes"))["message"].startswith("too many missed start times")
        last = max(int(name.rpartition("-")[2]) for name in both)
        assert last == int(here.clock.now().timestamp()) // 60


async def test_what_is_too_late_is_left_out(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        begin = here.clock.now()
        await create(here.client, cron_job("0 0 1 1 *", startingDeadlineSeconds=60))
        await change(
            here.client, *CRON, {"status": {"lastScheduleTime": timestamp(begin - timedelta(days=800))}}, "batch/v1",
            subresource="status",
        )  # fmt: skip
        other = cron_job()
        other["metadata"]["name"] = "other"
        await create(here.client, other)
        here.clock.advance(30)
        (name,) = await here.jobs(1)
        assert name.startswith("other-")


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
async def test_a_status_with_the_first_or_the_last_day_that_there_is_stops_nothing(
    tmp_path: Path, zone: str, time: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path) as here:
        await create(here.client, cron_job("0 0 1 1 *", timeZone=zone, suspend=True), lastScheduleTime=time)
        await change(here.client, *CRON, {"spec": {"suspend": False}}, "batch/v1")
        other = cron_job()
        other["metadata"]["name"] = "other"
        await create(here.client, other)
        here.clock.advance(60)
        was_due = time < "2000"
        assert len(await here.jobs(1 + was_due)) == 1 + was_due
        assert "Reconciling failed" not in caplog.text


async def test_old_jobs_are_deleted_beyond_the_limits(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await create(here.client, cron_job(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=1))
        here.clock.advance(30)
        ended: list[str] = []
        for end in ("Complete", "Failed", "Complete", "Failed"):
            (name,) = [each for each in await here.jobs(min(len(ended), 2) + 1) if each not in ended]
            await here.active(name)
            await here.end(name, end)
            ended.append(name)
            await here.active()
            if len(ended) > 2:
                await gone(here.client, "Job", ended[-3], "batch/v1")
            here.clock.advance(60)
        assert len(await here.jobs(3)) == 3


async def test_a_job_that_vanishes_is_no_longer_active(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await create(here.client, cron_job(concurrencyPolicy="Forbid"))
        here.clock.advance(30)
        (first,) = await here.jobs(1)
        await here.active(first)
        await remove(here.client, "Job", first, "batch/v1")
        await here.active()
        assert first in (await here.event("MissingJob"))["message"]


async def test_active_jobs_without_a_name_are_dropped(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await create(here.client, cron_job(concurrencyPolicy="Forbid"))
        nameless = {"status": {"active": [{"kind": "Job"}]}}
        await change(here.client, CRON[0], CRON[1], nameless, "batch/v1", subresource="status")
        here.clock.advance(30)
        (first,) = await here.jobs(1)

        def is_active(data: Data) -> bool:
            return [each.get("name") for each in data["status"].get("active") or ()] == [first]

        await becomes(here.client, *CRON, is_active, "batch/v1")


async def test_a_controller_that_forgot_does_not_start_a_job_twice(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await create(here.client, cron_job())
        here.clock.advance(30)
        (first,) = await here.jobs(1)
        await here.active(first)
        patch = {"status": {"active": None, "lastScheduleTime": None}}
        await change(here.client, *CRON, patch, "batch/v1", subresource="status")
        await here.active(first)
        assert await here.jobs(1) == [first]


async def test_the_schedule_is_read_in_its_time_zone(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        soon = (here.clock.now() + timedelta(seconds=30)).astimezone(ZoneInfo("Asia/Tokyo"))
        await create(here.client, cron_job(f"{soon.minute} {soon.hour} * * *", timeZone="Asia/Tokyo"))
        here.clock.advance(30)
        (name,) = await here.jobs(1)
        started_job = await read(here.client, "Job", name, api_version="batch/v1")
        when = started_job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        assert when == soon.isoformat()


async def test_a_schedule_may_change(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await create(here.client, cron_job("0 0 1 1 *"))
        await change(here.client, *CRON, {"spec": {"schedule": "* * * * *"}}, "batch/v1")
        here.clock.advance(31)
        await here.jobs(1)


NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
MISSED: list[tuple[str, timedelta, str, bool]] = [
    ("* * * * *", timedelta(minutes=1), "12:00", False),
    ("* * * * *", timedelta(hours=3), "12:00", True),
    ("0 * * * *", timedelta(hours=3), "12:00", False),
    ("30 6-16/4 * * 1-5", timedelta(days=1), "10:30", False),
    ("0,1 9 * * *", timedelta(days=3), "09:01", True),
    ("@every 7m", timedelta(minutes=30), "11:58", False),
]


@pytest.mark.parametrize(("schedule", "ago", "time", "is_one_of_many"), MISSED)
def test_of_all_missed_times_the_last_one_counts(
    schedule: str, ago: timedelta, time: str, is_one_of_many: bool
) -> None:
    missed = due(cron.parse(schedule), NOON - ago, NOON)
    assert missed is not None
    assert (f"{missed.time:%H:%M}", missed.is_one_of_many) == (time, is_one_of_many)


def test_nothing_is_due_before_its_time() -> None:
    assert due(cron.parse("1 12 * * *"), NOON - timedelta(hours=1), NOON) is None
    assert due(cron.parse("0 0 31 2 *"), NOON - timedelta(hours=1), NOON) is None
    assert due(cron.parse("* * * * *"), NOON + timedelta(days=1), NOON) is None, "the clock went back"
