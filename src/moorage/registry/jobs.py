"""What is wrong with Jobs and CronJobs."""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from moorage.api import cron, kinds
from moorage.api.labels import selects
from moorage.registry import namesyntax, schema
from moorage.registry.checks import IMMUTABLE, Errors, label_selector, nonnegative
from moorage.registry.pod.spec import template_errors
from moorage.registry.schema import Data
from moorage.validation.field import ErrorType, FieldError, invalid, not_supported, required, too_many

_JOB = kinds.row("batch/v1", "Job")
_COUNTS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_IMMUTABLE = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_SCHEDULING = ("nodeSelector", "tolerations", "schedulingGates")
_MAX_INDEXED = 100_000
_CONCURRENCY = ("Allow", "Forbid", "Replace")
_GENERATED = {"controller-uid": "uid", "batch.kubernetes.io/controller-uid": "uid"}
_GENERATED_NAMES = {"job-name": "name", "batch.kubernetes.io/job-name": "name"}


def job_errors(new: Data, old: Data | None) -> Errors:
    """What is wrong with a Job, or with changing one."""
    spec, metadata = new.get("spec", {}), new.get("metadata", {})
    if not spec.get("manualSelector") and "selector" in spec:
        yield from _generated_errors(spec, metadata)
    yield from _spec_errors("spec", spec)
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
    else:
        yield from label_selector("spec.selector", selector)
        labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
        if not selects(selector, labels):
            yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if spec.get("completionMode") == "Indexed" and spec.get("completions", 0) > 0 and old is None:
        last = f"{metadata.get('name', '')}-{spec['completions'] - 1}"
        if namesyntax.label(last):
            detail = f"will not able to create pod with invalid DNS label: {last}"
            yield invalid("metadata.name", metadata.get("name", ""), detail)
    if old is not None:
        yield from _update_errors(new, old)


def _generated_errors(spec: Data, metadata: Data) -> Errors:
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
    expected = {label: metadata.get(field, "") for label, field in (_GENERATED | _GENERATED_NAMES).items()}
    for label, value in expected.items():
        path = f"spec.template.metadata.labels[{label}]"
        if label not in labels:
            yield required(path, f"must be '{value}'")
        elif labels[label] != value:
            yield invalid(path, labels, f"must be '{value}'")
    if not selects(spec["selector"], expected):
        yield invalid("spec.selector", spec["selector"], "`selector` not auto-generated")


def _spec_errors(path: str, spec: Data) -> Errors:
    yield from nonnegative(path, spec, *_COUNTS)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in ("NonIndexed", "Indexed"):
        yield not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        yield from _indexed_errors(path, spec)
    elif mode == "NonIndexed":
        for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if name in spec:
                yield invalid(f"{path}.{name}", spec[name], "requires indexed completion mode")
    yield from _policy_errors(path, spec)
    yield from template_errors(f"{path}.template", spec.get("template", {}))
    yield from _restart_errors(path, spec)


def _indexed_errors(path: str, spec: Data) -> Errors:
    completions, failures = spec.get("completions"), spec.get("maxFailedIndexes", 0)
    if completions is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
    if spec.get("parallelism", 0) > _MAX_INDEXED:
        detail = f"must be less than or equal to {_MAX_INDEXED} when completion mode is Indexed"
        yield invalid(f"{path}.parallelism", spec["parallelism"], detail)
    if completions is not None and failures > completions:
        yield invalid(f"{path}.maxFailedIndexes", failures, "must be less than or equal to completions")
    if failures > _MAX_INDEXED:
        yield invalid(f"{path}.maxFailedIndexes", failures, f"must be less than or equal to {_MAX_INDEXED}")


def _policy_errors(path: str, spec: Data) -> Errors:
    replacement = spec.get("podReplacementPolicy")
    allowed = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    if replacement is not None and replacement not in allowed:
        yield not_supported(f"{path}.podReplacementPolicy", replacement, allowed)
    rules = spec.get("podFailurePolicy", {}).get("rules", ())
    if len(rules) > 20:
        yield too_many(f"{path}.podFailurePolicy.rules", len(rules), 20)
    for index, rule in enumerate(rules):
        action = rule.get("action", "")
        here = f"{path}.podFailurePolicy.rules[{index}].action"
        if not action:
            yield required(here)
        elif action not in ("Count", "FailIndex", "FailJob", "Ignore"):
            yield not_supported(here, action, ("Count", "FailIndex", "FailJob", "Ignore"))


def _restart_errors(path: str, spec: Data) -> Errors:
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy", "")
    here = f"{path}.template.spec.restartPolicy"
    if policy in ("", "Always"):
        yield required(here, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(here, policy, ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and policy != "Never":
        yield invalid(here, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _update_errors(new: Data, old: Data) -> Errors:
    spec, before = new.get("spec", {}), old.get("spec", {})
    completions = spec.get("completions")
    if completions != before.get("completions"):
        if spec.get("completionMode") != "Indexed":
            yield invalid("spec.completions", completions, IMMUTABLE)
        elif completions is not None and completions != spec.get("parallelism"):
            yield invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")
    yield from _template_update_errors(spec.get("template", {}), before, old.get("status", {}))
    for name in _IMMUTABLE:
        if not schema.same(_JOB, new, old, "spec", name):
            yield invalid(f"spec.{name}", spec.get(name), IMMUTABLE)


def _template_update_errors(template: Data, before: Data, status: Data) -> Errors:
    """The template is fixed, but for where its pods may run as long as the job waits and none has started."""
    known = before.get("template", {})
    if before.get("suspend") and "startTime" not in status:
        known = _with_new_placement(known, template)
    if not schema.same(_JOB, {"spec": {"template": template}}, {"spec": {"template": known}}, "spec"):
        yield invalid("spec.template", template, IMMUTABLE)


def _with_new_placement(known: Data, template: Data) -> Data:
    spec, wanted = dict(known.get("spec", {})), template.get("spec", {})
    for name in _SCHEDULING:
        _take(spec, wanted, name)
    affinity = dict(spec.get("affinity", {}))
    _take(affinity, wanted.get("affinity", {}), "nodeAffinity")
    if affinity or "affinity" in wanted:
        spec["affinity"] = affinity
    else:
        spec.pop("affinity", None)
    for field in ("containers", "initContainers"):
        if [each.get("name") for each in spec.get(field, ())] == [each.get("name") for each in wanted.get(field, ())]:
            pairs = zip(spec.get(field, ()), wanted.get(field, ()), strict=True)
            spec[field] = [{**old, "resources": new.get("resources", {})} for old, new in pairs]
    metadata = dict(known.get("metadata", {}))
    for name in ("annotations", "labels"):
        _take(metadata, template.get("metadata", {}), name)
    return {**known, "metadata": metadata, "spec": spec}


def _take(part: Data, wanted: Data, name: str) -> None:
    if name in wanted:
        part[name] = wanted[name]
    else:
        part.pop(name, None)


def cron_job_errors(new: Data, old: Data | None) -> Errors:
    """What is wrong with a CronJob, or with changing one."""
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
    yield from _spec_errors("spec.jobTemplate.spec", job)
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
    elif not _is_zone(zone):
        yield invalid("spec.timeZone", zone, f"unknown time zone {zone}")


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
