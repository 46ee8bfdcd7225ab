"""Workloads: the objects that own pods and hold a template for them."""

from __future__ import annotations

import msgspec

from moorage.api.meta import (
    Condition,
    Int32,
    Int64,
    IntOrString,
    LabelSelector,
    Object,
    ObjectMeta,
    ObjectReference,
    Time,
    Wire,
)
from moorage.api.pod import PodTemplateSpec
from moorage.api.volume import PersistentVolumeClaim


class RollingUpdate(Wire):
    """How many pods may be missing or surplus while a template is replaced."""

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None
    partition: Int32 | None = None


class UpdateStrategy(Wire):
    """How a new template replaces an old one."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class WorkloadStatus(Wire):
    """The observed state of a workload."""

    observed_generation: Int64 = 0
    replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    updated_replicas: Int32 = 0
    conditions: tuple[Condition, ...] = ()


class DeploymentSpec(Wire):
    """The desired state of a Deployment."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: Int32 = 0
    revision_history_limit: Int32 | None = None
    progress_deadline_seconds: Int32 | None = None
    paused: bool = False


class Deployment(Object):
    """Interchangeable pods that are replaced gradually."""

    spec: DeploymentSpec = DeploymentSpec()
    status: WorkloadStatus = WorkloadStatus()


class ReplicaSetSpec(Wire):
    """The desired state of a ReplicaSet."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    min_ready_seconds: Int32 = 0


class ReplicationControllerSpec(Wire):
    """The desired state of a ReplicationController."""

    replicas: Int32 | None = None
    labels: dict[str, str] = msgspec.field(name="selector", default_factory=dict)
    template: PodTemplateSpec = PodTemplateSpec()
    min_ready_seconds: Int32 = 0

    @property
    def selector(self) -> LabelSelector | None:
        """Its selector as a LabelSelector, as other workloads have it."""
        return LabelSelector(match_labels=self.labels) if self.labels else None


class ReplicationControllerStatus(WorkloadStatus):
    """The observed state of a ReplicationController."""

    fully_labeled_replicas: Int32 = 0


class ReplicationController(Object):
    """A number of interchangeable pods; the predecessor of ReplicaSets."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicationControllerStatus = ReplicationControllerStatus()


class ReplicaSetStatus(ReplicationControllerStatus):
    """The observed state of a ReplicaSet."""

    terminating_replicas: Int32 | None = None


class ReplicaSet(Object):
    """A number of interchangeable pods."""

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class Ordinals(Wire):
    """How the pods of a StatefulSet are numbered."""

    start: Int32 = 0


class ClaimRetention(Wire):
    """What becomes of the claims of a StatefulSet: Retain or Delete."""

    when_deleted: str = ""
    when_scaled: str = ""


class StatefulSetSpec(Wire):
    """The desired state of a StatefulSet."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()
    service_name: str = ""
    pod_management_policy: str = ""
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: Int32 = 0
    revision_history_limit: Int32 | None = None
    ordinals: Ordinals | None = None
    persistent_volume_claim_retention_policy: ClaimRetention | None = None


class StatefulSetStatus(WorkloadStatus):
    """The observed state of a StatefulSet."""

    current_replicas: Int32 = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: Int32 | None = None


class StatefulSet(Object):
    """Pods with lasting names and volumes."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSetSpec(Wire):
    """The desired state of a DaemonSet."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: Int32 = 0
    revision_history_limit: Int32 | None = None


class DaemonSetStatus(Wire):
    """On how many nodes a DaemonSet runs."""

    observed_generation: Int64 = 0
    current_number_scheduled: Int32 = 0
    desired_number_scheduled: Int32 = 0
    number_available: Int32 = 0
    number_misscheduled: Int32 = 0
    number_ready: Int32 = 0
    updated_number_scheduled: Int32 = 0
    number_unavailable: Int32 = 0
    collision_count: Int32 | None = None


class DaemonSet(Object):
    """One pod on each node that admits it."""

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ControllerRevision(Object):
    """A template that a StatefulSet or DaemonSet has had, numbered."""

    revision: Int64 = 0


class OnExitCodes(Wire):
    """Exit codes that a rule is about: In or NotIn some values."""

    container_name: str | None = None
    operator: str = ""
    values: tuple[Int32, ...] = ()


class OnPodCondition(Wire):
    """A condition of pods that a rule is about."""

    type: str = ""
    status: str = ""


class FailureRule(Wire):
    """What a failed pod means: FailJob, FailIndex, Ignore or Count."""

    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnPodCondition, ...] = ()


class FailurePolicy(Wire):
    """What failed pods mean to a Job; the first rule that matches counts."""

    rules: tuple[FailureRule, ...] = ()


class SuccessRule(Wire):
    """Indexes that must succeed, or how many of them."""

    succeeded_indexes: str | None = None
    succeeded_count: Int32 | None = None


class SuccessPolicy(Wire):
    """When an indexed Job has succeeded before all of its indexes have."""

    rules: tuple[SuccessRule, ...] = ()


class JobSpec(Wire):
    """The desired state of a Job."""

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    backoff_limit: Int32 | None = None
    active_deadline_seconds: Int64 | None = None
    ttl_seconds_after_finished: Int32 | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    pod_failure_policy: FailurePolicy | None = None
    pod_replacement_policy: str | None = None
    success_policy: SuccessPolicy | None = None
    managed_by: str | None = None


class UncountedTerminatedPods(Wire):
    """Pods that have ended and are not counted yet."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Wire):
    """The observed state of a Job."""

    active: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    start_time: Time | None = None
    completion_time: Time | None = None
    conditions: tuple[Condition, ...] = ()
    ready: Int32 | None = None
    terminating: Int32 | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None


class Job(Object):
    """Pods that run until their work is done."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateSpec(Wire):
    """The Job that a CronJob makes copies of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(Wire):
    """When a CronJob makes a Job, and which."""

    schedule: str = ""
    time_zone: str | None = None
    concurrency_policy: str = ""
    suspend: bool | None = None
    starting_deadline_seconds: Int64 | None = None
    job_template: JobTemplateSpec = JobTemplateSpec()
    successful_jobs_history_limit: Int32 | None = None
    failed_jobs_history_limit: Int32 | None = None


class CronJobStatus(Wire):
    """What a CronJob has done last."""

    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: Time | None = None
    last_successful_time: Time | None = None


class CronJob(Object):
    """Jobs on a schedule."""

    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
