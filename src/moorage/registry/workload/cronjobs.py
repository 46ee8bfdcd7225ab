"""CronJobs."""

from __future__ import annotations

import re

from moorage.api import cron, kinds
from moorage.api.meta import Data
from moorage.registry.checks import Errors, nonnegative
from moorage.registry.defaulting import absent, fill
from moorage.registry.merging import METADATA, shape, struct
from moorage.registry.printing import cells
from moorage.registry.printing.cells import NONE
from moorage.registry.printing.columns import AGE, NAME, boolean, column, integer
from moorage.registry.strategy import SPEC, Strategy
from moorage.registry.workload.jobs import JOB_SPEC_SHAPE, default_failure_policy, job_spec_errors
from moorage.registry.workload.templates import default_template, workload_columns
from moorage.validation.field import ErrorType, FieldError, invalid, not_supported, required

_ZONE_PART = re.compile(r"(?!-|\.\.?$)[A-Za-z._0-9+-]{1,14}", re.ASCII)
_CONCURRENCY = ("Allow", "Forbid", "Replace")


def _defaults(obj: Data, _: str) -> None:
    spec = obj.setdefault("spec", {})
    absent(spec, suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    fill(spec, (("concurrencyPolicy", "Allow"),))
    default_template(obj, "spec.jobTemplate.spec.template.spec")
    default_failure_policy(spec["jobTemplate"]["spec"])


def _errors(new: Data, old: Data | None) -> Errors:
    """Validate a CronJob, or an update of one."""
    spec = new.get("spec", {})
    schedule, zone = spec.get("schedule", ""), spec.get("timeZone")
    before = old.get("spec", {}) if old is not None else {}
    if not schedule:
        yield required("spec.schedule")
    else:
        yield from _schedule_errors(schedule, zone, allow_zone="TZ" in before.get("schedule", ""))
    yield from nonnegative("spec", spec, "startingDeadlineSeconds")
    if zone is not None and zone != before.get("timeZone"):
        yield from _zone_errors(zone)
    policy = spec.get("concurrencyPolicy")
    if policy not in _CONCURRENCY:
        yield not_supported("spec.concurrencyPolicy", policy or "", _CONCURRENCY)
    job = spec.get("jobTemplate", {}).get("spec", {})
    yield from job_spec_errors("spec.jobTemplate.spec", job)
    if "selector" in job:
        yield invalid("spec.jobTemplate.spec.selector", job["selector"], "`selector` will be auto-generated")
    if job.get("manualSelector"):
        detail = 'supported values: "nil", "false"'
        yield FieldError(ErrorType.NOT_SUPPORTED, "spec.jobTemplate.spec.manualSelector", True, detail)
    yield from nonnegative("spec", spec, "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    name = new.get("metadata", {}).get("name", "")
    if old is None and len(name) > 52:
        yield invalid("metadata.name", name, "must be no more than 52 characters")


def _schedule_errors(schedule: str, zone: str | None, *, allow_zone: bool) -> Errors:
    try:
        cron.check(schedule)
    except cron.ScheduleError as error:
        yield invalid("spec.schedule", schedule, str(error))
    if "TZ" not in schedule:
        return
    if not allow_zone:
        yield invalid("spec.schedule", schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    elif zone is not None:
        yield invalid("spec.schedule", schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")


def _zone_errors(zone: str) -> Errors:
    if not zone:
        yield invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
    elif zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield invalid("spec.timeZone", zone, detail)
    elif not all(map(_ZONE_PART.fullmatch, zone.split("/"))) or not _is_zone(zone):
        yield invalid("spec.timeZone", zone, f"unknown time zone {zone}")


def _is_zone(name: str) -> bool:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # slow to import, and few schedules have a zone

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


CRON_JOB = Strategy(
    kind=kinds.row("batch/v1", "CronJob"),
    prefix_checked=("create",),
    defaults=_defaults,
    errors=_errors,
    first_generation=1,
    counted=SPEC,
    merge=shape(spec=struct(jobTemplate=struct(metadata=METADATA, spec=JOB_SPEC_SHAPE))),
    columns=(
        NAME,
        column("Schedule", cells.at("spec.schedule"), "When it makes a job."),
        column("Timezone", cells.value("spec.timeZone", NONE), "Whose clock the schedule means."),
        boolean("Suspend", cells.truth("spec.suspend"), "Whether it pauses."),
        integer("Active", cells.size("status.active"), "How many of its jobs run."),
        column("Last Schedule", cells.ago("status.lastScheduleTime", NONE), "How long ago it made a job."),
        AGE,
        *workload_columns("spec.jobTemplate.spec.selector", "spec.jobTemplate.spec.template.spec.containers"),
    ),
)
