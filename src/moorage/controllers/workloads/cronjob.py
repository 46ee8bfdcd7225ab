"""CronJobs: Jobs on a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from moorage.api import cron, kinds
from moorage.api.cron import Schedule, ScheduleError
from moorage.api.meta import Data
from moorage.api.workload import CronJob, Job
from moorage.client import ApiError, Exists, Missing
from moorage.client.clock import timestamp
from moorage.client.events import NORMAL, WARNING
from moorage.client.informer import Key
from moorage.client.workqueue import RETRIES
from moorage.controllers.frame.controller import Context, Controller, resource_version
from moorage.controllers.frame.pods import controller_of
from moorage.controllers.owners.podcontrol import OWNER, index_by_owner, is_namespace_terminating, reference_to

_JOB, _CRON_JOB = kinds.row("batch/v1", "Job"), kinds.row("batch/v1", "CronJob")
_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_LONGEST_WAIT = 600.0
"""Timers do not notice when the clock is set, so every CronJob is reconciled at least this often."""
_MANY = 100
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
"""No Job is due since an earlier time: a status may hold the first or the last day that there is."""
_LONGEST_DEADLINE = 1_000_000_000
"""Thirty years: a date cannot be moved by all the seconds that an int64 holds."""


class Due(NamedTuple):
    """The last time of a schedule for which no Job was started."""

    time: datetime
    is_one_of_many: bool


def due(schedule: Schedule, after: datetime, now: datetime) -> Due | None:
    """The last time of a schedule after a moment and not after now: of all that were missed only this one counts."""
    first = schedule.next(after)
    if first is None or first > now:
        return None
    second = schedule.next(first)
    if second is None or second > now:
        return Due(first, is_one_of_many=False)
    missed = (now - first) // (second - first) + 1
    return Due(schedule.last(first, now), missed > _MANY)


class CronJobs(Controller):
    """Starts a Job at each time of a schedule, and deletes Jobs that ended beyond the history limits."""

    name = "cronjob-controller"
    retries = replace(RETRIES, last=60.0)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._owners = context.informers.of(CronJob)
        self._owners.on_change(self._owner_changed)
        self._jobs = context.informers.of(Job)
        index_by_owner(self._jobs)
        self._jobs.on_change(self._job_changed)

    def _owner_changed(self, old: CronJob | None, new: CronJob | None) -> None:
        if owner := new or old:
            self.enqueue(owner)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        for job in filter(None, (old, new)):
            owner = controller_of(job)
            if owner is not None and owner.kind == "CronJob":
                self.queue.add((job.metadata.namespace, owner.name))

    async def reconcile(self, key: Key) -> None:
        """Start the Job that is due, and set the timer for the next one."""
        owner = self._owners.get(*key)
        if owner is None:
            self.queue.cancel(key)
            return
        status = _Status(owner)
        jobs = list(self._jobs.by(OWNER, owner.metadata.uid))
        try:
            await self._update_active(owner, jobs, status)
            await self._delete_old(owner, jobs)
            if owner.metadata.deletion_timestamp is None and not owner.spec.suspend:
                await self._start(owner, status)
        finally:
            await self._write_status(owner, status)

    async def _update_active(self, owner: CronJob, jobs: list[Job], status: _Status) -> None:
        """Remove Jobs that have ended or are gone from the active ones."""
        for job in jobs:
            name, end = job.metadata.name, _end_of(job)
            is_known = status.has(job.metadata.uid)
            if end and is_known:
                status.remove(job.metadata.uid)
                self._event(owner, NORMAL, "SawCompletedJob", f"Saw completed job: {name}, condition: {end}")
            elif not end and not is_known:
                message = f"Saw a job that the controller did not create or forgot: {name}"
                self._event(owner, WARNING, "UnexpectedJob", message)
            if end == "Complete" and job.status.completion_time is not None:
                status.succeeded(job.status.completion_time)
        uids = {job.metadata.uid for job in jobs}
        for reference in [each for each in status.active if each["uid"] not in uids]:
            if not await self._is_there(owner, reference["name"]):
                status.remove(reference["uid"])
                self._event(owner, NORMAL, "MissingJob", f"Active job went missing: {reference['name']}")

    async def _is_there(self, owner: CronJob, name: str) -> bool:
        try:
            return bool(name and await self.client.get(_JOB, owner.metadata.namespace, name))
        except Missing:
            return False

    async def _delete_old(self, owner: CronJob, jobs: Sequence[Job]) -> None:
        """Delete the oldest Jobs that have ended, beyond the history limits."""
        limits = {"Complete": owner.spec.successful_jobs_history_limit, "Failed": owner.spec.failed_jobs_history_limit}
        for end, limit in limits.items():
            ended = [job for job in jobs if _end_of(job) == end and job.metadata.deletion_timestamp is None]
            if limit is not None and len(ended) > limit:
                for job in sorted(ended, key=_age)[: len(ended) - limit]:
                    await self._delete(owner, job.metadata.name, job.metadata.uid)

    async def _delete(self, owner: CronJob, name: str, uid: str) -> None:
        with suppress(Missing):
            try:
                await self.client.delete(_JOB, owner.metadata.namespace, name, uid=uid, propagation="Background")
            except ApiError as error:
                if not isinstance(error, Missing):
                    self._event(owner, WARNING, "FailedDelete", f"Deleted job: {error}")
                raise
            self._event(owner, NORMAL, "SuccessfulDelete", f"Deleted job {name}")

    async def _start(self, owner: CronJob, status: _Status) -> None:
        """Start the Job that is due, if the concurrency policy allows it."""
        schedule = self._schedule(owner)
        if schedule is None:
            return
        now, deadline = self.clock.now(), owner.spec.starting_deadline_seconds
        after = min(max(status.last_scheduled or owner.metadata.creation_timestamp or now, _EARLIEST), now)
        if deadline is not None:
            after = max(after, now - timedelta(seconds=min(deadline, _LONGEST_DEADLINE)))
        self._set_timer(owner, schedule, now)
        missed = due(schedule, after, now)
        if missed is None:
            return
        if missed.is_one_of_many:
            message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self._event(owner, WARNING, "TooManyMissedTimes", message)
        if status.active and owner.spec.concurrency_policy == "Forbid":
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._event(owner, NORMAL, "JobAlreadyActive", message)
            return
        if owner.spec.concurrency_policy == "Replace":
            for reference in list(status.active):
                await self._delete(owner, reference["name"], reference["uid"])
                status.remove(reference["uid"])
        await self._create(owner, missed.time, status)

    def _schedule(self, owner: CronJob) -> Schedule | None:
        spec = owner.spec
        if spec.time_zone is not None and _zone(spec.time_zone) is None:
            message = f'invalid timeZone: "{spec.time_zone}": unknown time zone {spec.time_zone}'
            self._event(owner, WARNING, "UnknownTimeZone", message)
            return None
        try:
            return cron.parse(spec.schedule, spec.time_zone or "")
        except ScheduleError as error:
            self._event(owner, WARNING, "UnparseableSchedule", f'unparseable schedule: "{spec.schedule}" : {error}')
            return None

    def _set_timer(self, owner: CronJob, schedule: Schedule, now: datetime) -> None:
        following = schedule.next(now)
        if following is not None:
            wait = min((following - now).total_seconds(), _LONGEST_WAIT)
            self.queue.add_after((owner.metadata.namespace, owner.metadata.name), wait)

    async def _create(self, owner: CronJob, time: datetime, status: _Status) -> None:
        namespace = owner.metadata.namespace
        body = await self.client.get(_CRON_JOB, namespace, owner.metadata.name)
        template: Data = msgspec.json.decode(body)["spec"]["jobTemplate"]
        name = f"{owner.metadata.name}-{int(time.timestamp()) // 60}"
        try:
            answer = await self.client.create(_JOB, _job(owner, template, name, time), namespace)
            self._event(owner, NORMAL, "SuccessfulCreate", f"Created job {name}")
        except Exists:
            answer = await self.client.get(_JOB, namespace, name)
        except ApiError as error:
            if is_namespace_terminating(error):
                return
            # Without the time in the name it is the same event each time.
            self._event(
                owner, WARNING, "FailedCreate", f"Error creating job: {error}".replace(name, owner.metadata.name)
            )
            raise
        job = msgspec.json.decode(answer, type=Job)
        reference = controller_of(job)
        if reference is not None and reference.uid == owner.metadata.uid:
            await self._jobs.caught_up(job.metadata.resource_version)
            if not status.has(job.metadata.uid) and not _end_of(job):
                status.add(job)
            status.last_scheduled = time

    async def _write_status(self, owner: CronJob, status: _Status) -> None:
        if changed := status.changes():
            metadata = owner.metadata
            patch = {"metadata": {"uid": metadata.uid}, "status": changed}
            with suppress(Missing):
                answer = await self.client.patch(
                    _CRON_JOB, metadata.namespace, metadata.name, patch, subresource="status"
                )
                await self._owners.caught_up(resource_version(answer))

    def _event(self, owner: CronJob, kind: str, reason: str, message: str) -> None:
        self.recorder.event(owner, kind, reason, message)


class _Status:
    """The status of a CronJob, and what has changed in it."""

    def __init__(self, owner: CronJob) -> None:
        self._owner, self._known = owner, owner.status
        self.active = _references(owner)
        self.last_scheduled = owner.status.last_schedule_time
        self.last_succeeded = owner.status.last_successful_time

    def has(self, uid: str) -> bool:
        return any(each["uid"] == uid for each in self.active)

    def add(self, job: Job) -> None:
        metadata = job.metadata
        reference = {
            "apiVersion": _JOB.api_version, "kind": _JOB.kind, "namespace": metadata.namespace,
            "name": metadata.name, "uid": metadata.uid, "resourceVersion": metadata.resource_version,
        }  # fmt: skip
        self.active.append(reference)

    def remove(self, uid: str) -> None:
        self.active = [each for each in self.active if each["uid"] != uid]

    def succeeded(self, time: datetime) -> None:
        self.last_succeeded = time if self.last_succeeded is None else max(time, self.last_succeeded)

    def changes(self) -> Data:
        changed: Data = {}
        if self.active != _references(self._owner):
            changed["active"] = self.active or None
        if self.last_scheduled is not None and self.last_scheduled != self._known.last_schedule_time:
            changed["lastScheduleTime"] = timestamp(self.last_scheduled)
        if self.last_succeeded is not None and self.last_succeeded != self._known.last_successful_time:
            changed["lastSuccessfulTime"] = timestamp(self.last_succeeded)
        return changed


def _references(owner: CronJob) -> list[Data]:
    """The active Jobs that a status names; somebody else may have written it without names."""
    return [{"name": "", "uid": "", **msgspec.to_builtins(each)} for each in owner.status.active]


def _job(owner: CronJob, template: Data, name: str, time: datetime) -> Data:
    inherited = template.get("metadata") or {}
    zone = _zone(owner.spec.time_zone or "UTC") or UTC
    scheduled = time.astimezone(zone).isoformat().replace("+00:00", "Z")
    metadata = {
        "name": name,
        "labels": inherited.get("labels") or {},
        "annotations": {**(inherited.get("annotations") or {}), _SCHEDULED: scheduled},
        "ownerReferences": [reference_to(owner)],
    }
    return {"metadata": metadata, "spec": template.get("spec") or {}}


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _end_of(job: Job) -> str:
    """The condition that a Job has ended with: Complete or Failed; empty when it has not."""
    return next(
        (each.type for each in job.status.conditions if each.type in ("Complete", "Failed") and each.status == "True"),
        "",
    )


def _age(job: Job) -> tuple[bool, datetime, str]:
    start = job.status.start_time
    return start is None, start or datetime.max.replace(tzinfo=UTC), job.metadata.name
