"""A Job at one moment: what its pods add up to, whether it is over, and which pods it needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import NamedTuple

from moorage.api.pod import Pod
from moorage.api.workload import Job, UncountedTerminatedPods
from moorage.client.backoff import Backoff
from moorage.controllers.frame.pods import ready_condition
from moorage.controllers.owners.podcontrol import is_active, is_terminating
from moorage.controllers.workloads.jobindexes import Indexes, all_failures, failures, index_of
from moorage.controllers.workloads.jobpolicy import finished_at, is_failed, meaning, success_rule

FINALIZER = "batch.kubernetes.io/job-tracking"
"""What keeps a pod until it is counted."""
_REPLACEMENTS = Backoff(first=10.0, last=600.0)


class JobOutcome(NamedTuple):
    """That a Job is over, well (Complete) or not (Failed), and why."""

    is_success: bool
    reason: str
    message: str


_REACHED = JobOutcome(True, "CompletionsReached", "Reached expected number of succeeded pods")
_OVER_LIMIT = JobOutcome(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_OVER_DEADLINE = JobOutcome(False, "DeadlineExceeded", "Job was active longer than specified deadline")
_TOO_MANY_INDEXES = JobOutcome(
    False, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
_FAILED_INDEXES = JobOutcome(False, "FailedIndexes", "Job has failed indexes")


class JobBackoff(NamedTuple):
    """How often pods have failed since the last one that succeeded, and when the last one did."""

    failures: int = 0
    last: datetime | None = None

    def after(self, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> JobBackoff:
        """The same when some more pods have ended."""
        ends = sorted(finished_at(pod) for pod in failed)
        if successes := [finished_at(pod) for pod in succeeded]:
            ends = [end for end in ends if end > max(successes)]
            return JobBackoff(len(ends), ends[-1] if ends else None)
        return JobBackoff(self.failures + len(ends), ends[-1]) if ends else self

    def remaining(self, now: datetime) -> float:
        """How many seconds are left until a failed pod may be replaced."""
        if not self.failures or self.last is None:
            return 0.0
        return max(0.0, (self.last - now).total_seconds() + _REPLACEMENTS.delay(self.failures))


def has_ended(job: Job) -> bool:
    """Whether a Job is over."""
    return any(each.type in ("Complete", "Failed") and each.status == "True" for each in job.status.conditions)


@dataclass(slots=True)
class JobState:
    """A Job and its pods, judged."""

    job: Job
    pods: list[Pod]
    now: datetime
    known_backoff: JobBackoff
    active: list[Pod] = field(init=False)
    new_succeeded: list[Pod] = field(init=False)
    new_failed: list[Pod] = field(init=False)
    succeeded: int = field(init=False)
    failed: int = field(init=False)
    done: Indexes = field(init=False)
    """The indexes that have succeeded."""
    failed_indexes: Indexes | None = field(init=False)
    delayed: dict[int, Pod] = field(init=False)
    """The last failed pod of each index that has no pod: it stays until there is one that knows of its failures."""

    def __post_init__(self) -> None:
        status, uncounted = self.job.status, self.uncounted
        self.active = [pod for pod in self.pods if is_active(pod)]
        self.new_succeeded = [pod for pod in self._tracked(uncounted.succeeded) if pod.status.phase == "Succeeded"]
        self.new_failed = [pod for pod in self._tracked(uncounted.failed) if is_failed(self.job, pod)]
        counted = sum(meaning(self.job, pod).counts for pod in self.new_failed)
        self.succeeded = status.succeeded + len(self.new_succeeded) + len(uncounted.succeeded)
        self.failed = status.failed + counted + len(uncounted.failed)
        self.done, self.failed_indexes, self.delayed = Indexes(), None, {}
        if self.is_indexed:
            self._judge_indexes()

    @property
    def uncounted(self) -> UncountedTerminatedPods:
        """Pods that were about to be counted."""
        return self.job.status.uncounted_terminated_pods or UncountedTerminatedPods()

    @property
    def is_indexed(self) -> bool:
        """Whether each pod has an index."""
        return self.job.spec.completion_mode == "Indexed"

    @property
    def is_suspended(self) -> bool:
        """Whether the Job is to have no pods for now."""
        return bool(self.job.spec.suspend)

    @property
    def completions(self) -> int:
        """How many pods must succeed; only for Jobs that say so."""
        return self.job.spec.completions or 0

    @property
    def terminating(self) -> list[Pod]:
        """Pods that are being deleted and have not ended yet."""
        return [pod for pod in self.pods if is_terminating(pod)]

    @property
    def ready(self) -> int:
        """How many pods are ready."""
        return sum(ready_condition(pod) is not None for pod in self.active)

    @property
    def backoff(self) -> JobBackoff:
        """The failures that count against the creation of pods now."""
        return self.known_backoff.after(self.new_succeeded, self.new_failed)

    def _tracked(self, uncounted: Collection[str]) -> list[Pod]:
        """The pods that have not been counted."""
        return [
            pod
            for pod in self.pods
            if FINALIZER in pod.metadata.finalizers and pod.metadata.uid not in uncounted and self._is_valid(pod)
        ]

    def _is_valid(self, pod: Pod) -> bool:
        index = index_of(pod)
        return not self.is_indexed or (index is not None and index < self.completions)

    def _judge_indexes(self) -> None:
        tracked = self._tracked(())
        ended = [pod for pod in tracked if pod.status.phase == "Succeeded"]
        self.done = Indexes.parse(self.job.status.completed_indexes, self.completions).plus(_indexes(ended))
        self.succeeded = len(self.done)
        limit = self.job.spec.backoff_limit_per_index
        if limit is None:
            return
        failed = [pod for pod in tracked if is_failed(self.job, pod)]
        known = Indexes.parse(self.job.status.failed_indexes or "", self.completions)
        self.failed_indexes = known.plus(_indexes(pod for pod in failed if self._fails_index(pod, limit)))
        settled = (self.done | self.failed_indexes).plus(_indexes(self.active))
        for pod in sorted(failed, key=lambda each: (all_failures(each), finished_at(each))):
            (index,) = _indexes([pod])
            if index not in settled:
                self.delayed[index] = pod

    def _fails_index(self, pod: Pod, limit: int) -> bool:
        failure = meaning(self.job, pod)
        return failure.fails_index or (failure.counts and failures(pod) >= limit)

    def outcome(self) -> JobOutcome | None:
        """Whether the Job is over, whatever its pods still do."""
        for condition in self.job.status.conditions:
            if condition.type in ("SuccessCriteriaMet", "FailureTarget") and condition.status == "True":
                return JobOutcome(condition.type == "SuccessCriteriaMet", condition.reason, condition.message)
        failed = (pod for pod in self.pods if self.job.spec.pod_failure_policy and is_failed(self.job, pod))
        if message := next(filter(None, (meaning(self.job, pod).why_job_fails for pod in failed)), ""):
            return JobOutcome(False, "PodFailurePolicy", message)
        if self.failed > self._backoff_limit or self._has_restarted_too_often():
            return _OVER_LIMIT
        if (left := self.seconds_left()) is not None and left <= 0:
            return _OVER_DEADLINE
        return self._outcome_of_indexes()

    def _outcome_of_indexes(self) -> JobOutcome | None:
        if self.failed_indexes:
            most = self.job.spec.max_failed_indexes
            if most is not None and len(self.failed_indexes) > most:
                return _TOO_MANY_INDEXES
            if len(self.failed_indexes) + len(self.done) >= self.completions:
                return _FAILED_INDEXES
        rule = success_rule(self.job, self.done)
        return None if rule is None else JobOutcome(True, "SuccessPolicy", f"Matched rules at index {rule}")

    @property
    def _backoff_limit(self) -> int:
        limit = self.job.spec.backoff_limit
        return 6 if limit is None else limit

    def _has_restarted_too_often(self) -> bool:
        if self.job.spec.template.spec.restart_policy != "OnFailure":
            return False
        restarts = sum(
            container.restart_count
            for pod in self.pods
            if pod.status.phase in ("Running", "Pending")
            for container in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        )
        return restarts >= max(1, self._backoff_limit)

    def seconds_left(self) -> float | None:
        """How long the Job may go on; None when there is no deadline, or it is not running."""
        start, deadline = self.job.status.start_time, self.job.spec.active_deadline_seconds
        if start is None or deadline is None or self.is_suspended:
            return None
        return deadline - (self.now - start).total_seconds()

    def outcome_without(self, active: int) -> JobOutcome | None:
        """Whether the Job is over because enough pods have succeeded and so many still run."""
        if active:
            return None
        if self.job.spec.completions is None:
            return _REACHED if self.succeeded else None
        return _REACHED if self.succeeded >= self.completions else None

    def surplus(self) -> list[Pod]:
        """The pods that are too many, those that have come least far first."""
        if self.is_suspended:
            return self.active
        extra, rest = self._doubles() if self.is_indexed else ([], self.active)
        missing = len(self.active) - self._wanted - len(extra)
        return extra + sorted(rest, key=_progress)[: max(0, missing)]

    def _doubles(self) -> tuple[list[Pod], list[Pod]]:
        extra: list[Pod] = []
        best: dict[int, Pod] = {}
        for pod in sorted(self.active, key=_progress, reverse=True):
            index = index_of(pod)
            if index is None or not self._is_valid(pod) or index in best:
                extra.append(pod)
            else:
                best[index] = pod
        return extra, list(best.values())

    @property
    def _wanted(self) -> int:
        """How many pods should be active."""
        parallelism = 1 if self.job.spec.parallelism is None else self.job.spec.parallelism
        if self.job.spec.completions is None:
            return len(self.active) if self.succeeded else parallelism
        return max(0, min(parallelism, self.completions - self.succeeded))

    def missing(self) -> int:
        """How many pods are too few."""
        waits = self.terminating if self.job.spec.pod_replacement_policy == "Failed" else []
        return 0 if self.is_suspended else max(0, self._wanted - len(self.active) - len(waits))

    def next_indexes(self, count: int) -> list[int]:
        """The first indexes that need a pod."""
        taken = self.done.plus(_indexes(self.active))
        if self.job.spec.pod_replacement_policy == "Failed":
            taken = taken.plus(_indexes(self.terminating))
        if self.failed_indexes is not None:
            taken |= self.failed_indexes
        return taken.missing(count, self.completions)

    def wait_for_index(self, index: int) -> float:
        """How many seconds are left until the failed pod of an index may be replaced."""
        pod = self.delayed.get(index)
        return JobBackoff(all_failures(pod) + 1, finished_at(pod)).remaining(self.now) if pod else 0.0


def _indexes(pods: Iterable[Pod]) -> list[int]:
    return [index for pod in pods if (index := index_of(pod)) is not None]


def _progress(pod: Pod) -> tuple[bool, bool, bool, float, int, float, str]:
    """Sorts pods by how far they have come: those that serve since long, restart seldom and are old have the most."""
    ready = ready_condition(pod)
    restarts = max((each.restart_count for each in pod.status.container_statuses), default=0)
    return (
        bool(pod.spec.node_name), pod.status.phase == "Running", ready is not None,
        _youth(ready.last_transition_time if ready else None), -restarts, _youth(pod.metadata.creation_timestamp),
        pod.metadata.name,
    )  # fmt: skip


def _youth(moment: datetime | None) -> float:
    """Sorts the young before the old, and what has no time before both."""
    return -moment.timestamp() if moment is not None else -inf
