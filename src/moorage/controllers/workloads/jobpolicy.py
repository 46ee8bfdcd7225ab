"""What the end of a pod means to its Job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from moorage.api.pod import ContainerStatus, Pod
from moorage.api.workload import FailureRule, Job, OnExitCodes
from moorage.controllers.workloads.jobindexes import Indexes


class Failure(NamedTuple):
    """What a failed pod means."""

    counts: bool = True
    """Whether it uses up the backoff limit."""
    fails_index: bool = False
    why_job_fails: str = ""


_PARSED = 64
"""How many texts of success rules are kept parsed: a Job has 20 at most, of 64 KiB each."""
_COUNTED, _IGNORED = Failure(), Failure(counts=False)


def is_failed(job: Job, pod: Pod) -> bool:
    """Whether a pod counts as failed: when it is deleted, too, unless it must end by itself to be replaced."""
    if pod.status.phase == "Failed":
        return True
    if job.spec.pod_replacement_policy == "Failed":
        return False
    return pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"


def meaning(job: Job, pod: Pod) -> Failure:
    """What a failed pod means, by the first rule that is about it."""
    policy = job.spec.pod_failure_policy
    for number, rule in enumerate(policy.rules if policy else ()):
        if subject := _subject(rule, pod):
            if rule.action == "FailJob":
                return Failure(why_job_fails=f"{subject} matching FailJob rule at index {number}")
            if rule.action == "FailIndex":
                return Failure(fails_index=True)
            return _IGNORED if rule.action == "Ignore" else _COUNTED
    return _COUNTED


def _subject(rule: FailureRule, pod: Pod) -> str:
    """What of a pod a rule is about, in words; empty when it is not about this pod."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        for container in (*pod.status.container_statuses, *pod.status.init_container_statuses):
            if (code := _exit_code(container, rule.on_exit_codes)) is not None:
                return f"Container {container.name} for pod {name} failed with exit code {code}"
        return ""
    for condition in pod.status.conditions:
        if any((each.type, each.status) == (condition.type, condition.status) for each in rule.on_pod_conditions):
            return f"Pod {name} has condition {condition.type}"
    return ""


def _exit_code(container: ContainerStatus, rule: OnExitCodes) -> int | None:
    ended = container.state.terminated
    if ended is None or not ended.exit_code or rule.container_name not in (None, container.name):
        return None
    return ended.exit_code if (ended.exit_code in rule.values) == (rule.operator == "In") else None


_parsed = lru_cache(maxsize=_PARSED)(Indexes.parse)


def success_rule(job: Job, succeeded: Indexes) -> int | None:
    """The number of the first rule of the success policy that is fulfilled."""
    policy, completions = job.spec.success_policy, job.spec.completions or 0
    for number, rule in enumerate(policy.rules if policy else ()):
        count = rule.succeeded_count
        if rule.succeeded_indexes is None:
            if count is not None and len(succeeded) >= count:
                return number
            continue
        if not succeeded:
            continue
        indexes = _parsed(rule.succeeded_indexes, completions)
        common = len(indexes & succeeded)
        if len(indexes) and (common == len(indexes) or (count is not None and common >= count)):
            return number
    return None


def finished_at(pod: Pod) -> datetime:
    """When a pod ended, as far as that is known."""
    sidecars = {each.name for each in pod.spec.init_containers if each.restart_policy == "Always"}
    beside = [status for status in pod.status.init_container_statuses if status.name in sidecars]
    ends = [status.state.terminated for status in (*pod.status.container_statuses, *beside)]
    times = [end.finished_at for end in ends if end and end.finished_at]
    if times and len(times) == len(ends):
        return max(times)
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.status == "False" and condition.last_transition_time:
            return condition.last_transition_time
    metadata = pod.metadata
    if metadata.deletion_timestamp is not None:
        return metadata.deletion_timestamp - timedelta(seconds=metadata.deletion_grace_period_seconds or 0)
    return metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)
