"""Workloads: the objects that own pods and hold a template for them."""

from __future__ import annotations

from moorage.api.meta import Condition, Int32, Int64, IntOrString, LabelSelector, Object, ObjectMeta, Time, Wire
from moorage.api.pod import PodTemplateSpec
from moorage.api.volume import PersistentVolumeClaim


class RollingUpdate(Wire):
    """How many pods may be missing or surplus while a template is replaced."""

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None
    partition: Int32 | None = None


class Strategy(Wire):
    """How a new template replaces an old one."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class WorkloadStatus(Wire):
    """How far a workload has come."""

    observed_generation: Int64 = 0
    replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    updated_replicas: Int32 = 0
    conditions: tuple[Condition, ...] = ()


class DeploymentSpec(Wire):
    """What a Deployment is told to be."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: Strategy = Strategy()
    min_ready_seconds: Int32 = 0
    revision_history_limit: Int32 | None = None
    progress_deadline_seconds: Int32 | None = None
    paused: bool = False


class Deployment(Object):
    """Interchangeable pods that are replaced gradually."""

    spec: DeploymentSpec = DeploymentSpec()
    status: WorkloadStatus = WorkloadStatus()


class ReplicaSetSpec(Wire):
    """What a ReplicaSet is told to be."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    min_ready_seconds: Int32 = 0


class ReplicaSet(Object):
    """A number of interchangeable pods."""

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: WorkloadStatus = WorkloadStatus()


class StatefulSetSpec(Wire):
    """What a StatefulSet is told to be."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()
    service_name: str = ""
    pod_management_policy: str = ""
    update_strategy: Strategy = Strategy()
    min_ready_seconds: Int32 = 0


class StatefulSet(Object):
    """Pods with lasting names and volumes."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: WorkloadStatus = WorkloadStatus()


class DaemonSetSpec(Wire):
    """What a DaemonSet is told to be."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    update_strategy: Strategy = Strategy()
    min_ready_seconds: Int32 = 0


class DaemonSetStatus(Wire):
    """On how many nodes a DaemonSet runs."""

    observed_generation: Int64 = 0
    current_number_scheduled: Int32 = 0
    desired_number_scheduled: Int32 = 0
    number_available: Int32 = 0
    number_misscheduled: Int32 = 0
    number_ready: Int32 = 0
    updated_number_scheduled: Int32 = 0


class DaemonSet(Object):
    """One pod on each node that admits it."""

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class JobSpec(Wire):
    """What a Job is told to do."""

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    backoff_limit: Int32 | None = None
    active_deadline_seconds: Int64 | None = None
    ttl_seconds_after_finished: Int32 | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class JobStatus(Wire):
    """How far a Job has come."""

    active: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    start_time: Time | None = None
    completion_time: Time | None = None
    conditions: tuple[Condition, ...] = ()


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


class CronJob(Object):
    """Jobs by the clock."""

    spec: CronJobSpec = CronJobSpec()
