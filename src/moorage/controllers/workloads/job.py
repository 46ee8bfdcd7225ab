"""Jobs: pods that run until enough of them have succeeded or too many have failed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from functools import partial

import msgspec

from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.api.workload import Job
from moorage.client import ApiError, Missing
from moorage.client.client import STRATEGIC
from moorage.client.clock import timestamp
from moorage.client.events import NORMAL, WARNING
from moorage.client.informer import Key
from moorage.client.workqueue import WorkQueue, work
from moorage.controllers.frame.controller import Context, resource_version
from moorage.controllers.frame.gathering import gather_some, raise_first
from moorage.controllers.frame.pods import POD, controller_of, is_ending, ready_condition
from moorage.controllers.owners.podcontrol import OWNER, is_active, is_terminating
from moorage.controllers.owners.podowner import PodOwner, in_batches
from moorage.controllers.workloads.jobindexes import FAILURES, IGNORED_FAILURES, INDEX, failures, index_of
from moorage.controllers.workloads.jobpolicy import is_failed, meaning
from moorage.controllers.workloads.jobstate import FINALIZER, JobBackoff, JobOutcome, JobState, has_ended

_CONTROLLER = "kubernetes.io/job-controller"
_AT_ONCE = 500
_LONGEST_PREFIX = 58
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


class Jobs(PodOwner[Job]):
    """Counts how the pods of Jobs end, each once, and makes the pods that are still needed."""

    name = "job-controller"
    struct = Job

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._backoffs: dict[str, JobBackoff] = {}
        self._orphaned: WorkQueue[Key] = WorkQueue(context.clock, self.retries)
        self.pods.on_change(lambda _, new: self._enqueue_orphaned(new))
        self.owners.on_change(self._job_changed)

    @property
    def is_idle(self) -> bool:
        """Whether no Job is to be reconciled and no pod to be released now."""
        return super().is_idle and self._orphaned.is_idle

    async def run(self) -> None:
        """Reconcile Jobs, and release the pods of Jobs that are gone, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(super().run())
                tasks.create_task(work(self._orphaned, self._release_orphaned, self.failed))
        finally:
            self._orphaned.close()

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        job = new or old
        if job is not None and (new is None or has_ended(new)):
            self._backoffs.pop(job.metadata.uid, None)
            for pod in self.pods.by(OWNER, job.metadata.uid):
                self._enqueue_orphaned(pod)

    def _enqueue_orphaned(self, pod: Pod | None) -> None:
        if pod is not None and self._is_orphaned(pod):
            self._orphaned.add((pod.metadata.namespace, pod.metadata.name))

    def _is_orphaned(self, pod: Pod) -> bool:
        """Whether a pod has the tracking finalizer of a Job that will not count it any more."""
        if FINALIZER not in pod.metadata.finalizers:
            return False
        reference = controller_of(pod)
        if reference is None:
            return True
        if reference.kind != self.kind.kind:
            return False
        job = self.owners.get(pod.metadata.namespace, reference.name)
        if job is None or job.metadata.uid != reference.uid:
            return True
        return has_ended(job) and _is_ours(job)

    async def _release_orphaned(self, key: Key) -> None:
        pod = self.pods.get(*key)
        if pod is not None and self._is_orphaned(pod):
            await self._release(pod)

    async def _release(self, pod: Pod) -> None:
        """Remove the tracking finalizer of a pod that was counted, or need not be."""
        await self._patch(pod, {"$deleteFromPrimitiveList/finalizers": [FINALIZER]})

    async def _patch(self, pod: Pod, metadata: Data) -> None:
        patch = {"metadata": {"uid": pod.metadata.uid, **metadata}}
        with suppress(Missing):
            answer = await self.client.patch(POD, pod.metadata.namespace, pod.metadata.name, patch, form=STRATEGIC)
            await self.pods.caught_up(resource_version(answer))

    async def sync(self, owner: Job) -> None:
        """Count pods that have ended, create and delete pods, and write the status of a Job."""
        if has_ended(owner):
            await self._expire(owner)
            return
        if not _is_ours(owner):
            return
        if is_ending(owner):
            raise_first(await gather_some(map(self._release, filter(_is_tracked, self.owned(owner)))))
            return
        try:
            data: Data = msgspec.json.decode(await self.client.get(self.kind, *_key(owner)))
        except Missing:
            return
        job = msgspec.convert(data, Job)
        # What is newer than the informer's object will be reconciled when the informer has seen it.
        if job.metadata.uid == owner.metadata.uid and not has_ended(job) and not is_ending(job):
            await self._advance(data, job)

    async def _advance(self, data: Data, job: Job) -> None:
        now, status = self.clock.now(), dict(data.get("status") or {})
        if job.status.start_time is None and not job.spec.suspend:
            status["startTime"] = timestamp(now)
            job = msgspec.convert({**data, "status": status}, Job)
        known = self._backoffs.get(job.metadata.uid, JobBackoff())
        state = JobState(job, await self._tracked_pods(job), now, known)
        outcome, problem = state.outcome(), None
        if outcome is not None:
            await self.pod_control.delete_many(job, state.active)
        else:
            if (left := state.seconds_left()) is not None:
                self.queue.add_after(_key(job), left)
            try:
                await self._manage(state, data["spec"].get("template") or {})
            except ApiError as error:
                problem = error
            outcome = state.outcome_without(sum(map(is_active, self.owned(job))))
            if outcome is None:
                self._set_suspended(state, status)
        await self._track(data, status, state, outcome)
        if problem is not None:
            raise problem

    async def _tracked_pods(self, job: Job) -> list[Pod]:
        """The pods of a Job, after active ones without the tracking finalizer have got it."""
        pods = await self.claimed(job)
        untracked = [pod for pod in pods if is_active(pod) and not _is_tracked(pod)]
        raise_first(await gather_some(self._patch(pod, {"finalizers": [FINALIZER]}) for pod in untracked))
        return await self.claimed(job) if untracked else pods

    async def _manage(self, state: JobState, template: Data) -> None:
        """Delete pods that are too many, or make pods that are too few."""
        job = state.job
        if surplus := state.surplus()[:_AT_ONCE]:
            # Without the tracking finalizer they do not count as failed.
            raise_first(await gather_some(map(self._release, surplus)))
            await self.pod_control.delete_many(job, surplus)
            return
        count = min(_AT_ONCE, state.missing())
        wait = 0.0 if job.spec.backoff_limit_per_index is not None else state.backoff.remaining(state.now)
        if not count or wait:
            if count:
                self.queue.add_after(_key(job), wait)
            return
        if not state.is_indexed:
            metadata = {"generateName": f"{job.metadata.name}-", "finalizers": _finalizers(template)}
            await self.pod_control.create_many(job, template, [metadata] * count)
            return
        waits = {index: state.wait_for_index(index) for index in state.next_indexes(count)}
        if later := [wait for wait in waits.values() if wait]:
            self.queue.add_after(_key(job), min(later))
        due = [index for index, wait in waits.items() if not wait]
        template = _knowing_index(template)
        await in_batches([partial(self._create_indexed, state, template, index) for index in due])

    async def _create_indexed(self, state: JobState, template: Data, index: int) -> None:
        name, suffix = state.job.metadata.name, f"-{index}-"
        annotations = {INDEX: str(index)}
        if state.job.spec.backoff_limit_per_index is not None:
            annotations |= _failure_counts(state, index)
        metadata: Data = {
            "generateName": name[: _LONGEST_PREFIX - len(suffix)] + suffix,
            "labels": {INDEX: str(index)},
            "annotations": annotations,
            "finalizers": _finalizers(template),
        }
        spec = {**(template.get("spec") or {}), "hostname": f"{name}-{index}"}
        await self.pod_control.create(state.job, {**template, "spec": spec}, metadata)

    def _set_suspended(self, state: JobState, status: Data) -> None:
        now = timestamp(state.now)
        if state.is_suspended:
            if _set_condition(status, "Suspended", "True", "JobSuspended", "Job suspended", now):
                status.pop("startTime", None)
                self.recorder.event(state.job, NORMAL, "Suspended", "Job suspended")
        elif _set_condition(status, "Suspended", "False", "JobResumed", "Job resumed", now):
            status["startTime"] = now
            self.recorder.event(state.job, NORMAL, "Resumed", "Job resumed")

    async def _track(self, data: Data, status: Data, state: JobState, outcome: JobOutcome | None) -> None:
        """Count the pods that have ended: note uids, remove finalizers, count those without. So each counts once.

        The final condition of a Job is set when all are counted and none is left.
        """
        job = state.job
        uncounted = {part: list(getattr(state.uncounted, part)) for part in ("succeeded", "failed")}
        self._count(job, status, uncounted)
        freed = self._note(state, uncounted, outcome)
        if outcome is not None:
            kind = "SuccessCriteriaMet" if outcome.is_success else "FailureTarget"
            _set_condition(status, kind, "True", outcome.reason, outcome.message, timestamp(state.now))
        data = await self._write(data, self._described(state, status, uncounted))
        self._backoffs[job.metadata.uid] = state.backoff
        answers = await gather_some(map(self._release, freed))
        status = dict(data["status"])
        self._count(job, status, uncounted)
        status = self._described(state, status, uncounted)
        if outcome is not None and len(freed) < _AT_ONCE and not any(uncounted.values()) and not status["terminating"]:
            _finish(status, outcome, timestamp(self.clock.now()))
            await self._write(data, status)
            event = ("Completed", "Job completed") if outcome.is_success else (outcome.reason, outcome.message)
            self.recorder.event(job, NORMAL if outcome.is_success else WARNING, *event)
        else:
            await self._write(data, status)
        raise_first(answers)

    def _count(self, job: Job, status: Data, uncounted: dict[str, list[str]]) -> None:
        """Count the pods that were noted and have no finalizer any more."""
        tracked = {pod.metadata.uid for pod in self.owned(job) if _is_tracked(pod)}
        for part, uids in uncounted.items():
            left = [uid for uid in uids if uid in tracked]
            if len(left) < len(uids):
                status[part] = status.get(part, 0) + len(uids) - len(left)
                uncounted[part] = left

    def _note(self, state: JobState, uncounted: dict[str, list[str]], outcome: JobOutcome | None) -> list[Pod]:
        """Note the pods that are to be counted. Returns those whose finalizer is to be removed."""
        freed: list[Pod] = []
        delayed = {pod.metadata.uid for pod in state.delayed.values()}
        for pod in filter(_is_tracked, state.pods):
            has_failed = is_failed(state.job, pod)
            has_succeeded = pod.status.phase == "Succeeded" and pod.metadata.uid not in uncounted["failed"]
            if not (outcome or has_succeeded or (has_failed and pod.metadata.uid not in delayed)):
                continue
            freed.append(pod)
            if has_succeeded:
                if not state.is_indexed and pod.metadata.uid not in uncounted["succeeded"]:
                    uncounted["succeeded"].append(pod.metadata.uid)
            elif has_failed or (outcome and not outcome.is_success):
                index = index_of(pod)
                is_valid = not state.is_indexed or (index is not None and index < state.completions)
                if is_valid and meaning(state.job, pod).counts and pod.metadata.uid not in uncounted["failed"]:
                    uncounted["failed"].append(pod.metadata.uid)
            if len(freed) >= _AT_ONCE:
                break
        return freed

    def _described(self, state: JobState, status: Data, uncounted: dict[str, list[str]]) -> Data:
        """The status with how many pods there are of each sort, as of now."""
        pods = self.owned(state.job)
        active = [pod for pod in pods if is_active(pod)]
        numbers: Data = {
            "active": len(active),
            "ready": sum(ready_condition(pod) is not None for pod in active),
            "terminating": sum(map(is_terminating, pods)),
            "uncountedTerminatedPods": {part: uids for part, uids in uncounted.items() if uids},
        }
        if state.is_indexed:
            numbers |= {"succeeded": len(state.done), "completedIndexes": str(state.done)}
            if state.failed_indexes is not None:
                numbers["failedIndexes"] = str(state.failed_indexes)
        absent = {name for name in ("active", "succeeded", "completedIndexes") if not numbers.get(name, True)}
        return {name: value for name, value in {**status, **numbers}.items() if name not in absent}

    async def _write(self, data: Data, status: Data) -> Data:
        """Write the status if it is not so already; nobody else may have changed the Job meanwhile."""
        if status == data.get("status"):
            return data
        written: Data = msgspec.json.decode(
            await self.client.update(self.kind, {**data, "status": status}, subresource="status")
        )
        await self.owners.caught_up(written["metadata"]["resourceVersion"])
        return written

    async def _expire(self, job: Job) -> None:
        """Delete a Job that has been over for long enough."""
        seconds = job.spec.ttl_seconds_after_finished
        ends = [each.last_transition_time for each in job.status.conditions if each.type in ("Complete", "Failed")]
        if seconds is None or is_ending(job) or not ends or ends[0] is None:
            return
        left = (ends[0] + timedelta(seconds=seconds) - self.clock.now()).total_seconds()
        if left > 0:
            self.queue.add_after(_key(job), left)
            return
        with suppress(Missing):
            metadata = job.metadata
            await self.client.delete(
                self.kind, *_key(job), uid=metadata.uid, revision=metadata.resource_version, propagation="Foreground"
            )


def _key(job: Job) -> Key:
    return job.metadata.namespace, job.metadata.name


def _is_ours(job: Job) -> bool:
    return job.spec.managed_by in (None, _CONTROLLER)


def _is_tracked(pod: Pod) -> bool:
    return FINALIZER in pod.metadata.finalizers


def _finalizers(template: Data) -> list[str]:
    inherited = (template.get("metadata") or {}).get("finalizers") or ()
    return [*(each for each in inherited if each != FINALIZER), FINALIZER]


def _knowing_index(template: Data) -> Data:
    """A template whose containers find their index in the environment, unless they have something else there."""
    spec = dict(template.get("spec") or {})
    for part in ("initContainers", "containers"):
        if part in spec:
            spec[part] = [{**each, "env": _with_index(each.get("env") or [])} for each in spec[part]]
    return {**template, "spec": spec}


def _with_index(env: list[Data]) -> list[Data]:
    if any(each.get("name") == _INDEX_VARIABLE for each in env):
        return env
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    return [*env, {"name": _INDEX_VARIABLE, "valueFrom": source}]


def _failure_counts(state: JobState, index: int) -> dict[str, str]:
    """The annotations by which a pod knows how many of its index have failed before it."""
    before = state.delayed.get(index)
    if before is None:
        return {FAILURES: "0"}
    counts = meaning(state.job, before).counts
    counted, ignored = failures(before) + counts, failures(before, IGNORED_FAILURES) + (not counts)
    return {FAILURES: str(counted), **({IGNORED_FAILURES: str(ignored)} if ignored else {})}


def _finish(status: Data, outcome: JobOutcome, now: str) -> None:
    kind = "Complete" if outcome.is_success else "Failed"
    _set_condition(status, kind, "True", outcome.reason, outcome.message, now)
    if outcome.is_success:
        status["completionTime"] = now


def _set_condition(status: Data, kind: str, value: str, reason: str, message: str, now: str) -> bool:
    """Set a condition. Returns whether that changed anything; one that was never there is not added as False."""
    condition = {"type": kind, "status": value, "reason": reason, "message": message}
    known = [each for each in status.get("conditions") or () if each.get("type") == kind]
    if (not known and value == "False") or any(condition.items() <= each.items() for each in known):
        return False
    others = [each for each in status.get("conditions") or () if each.get("type") != kind]
    status["conditions"] = [*others, {**condition, "lastProbeTime": now, "lastTransitionTime": now}]
    return True
