"""Pods: where they may run and what they need."""

from __future__ import annotations

from moorage.api.meta import (
    Condition,
    Data,
    Int32,
    Int64,
    IntOrString,
    LabelSelector,
    Object,
    ObjectMeta,
    ResourceList,
    Time,
    Wire,
)
from moorage.api.node import NodeSelector, PreferredSchedulingTerm
from moorage.api.volume import (
    AWSElasticBlockStoreVolumeSource,
    GCEPersistentDiskVolumeSource,
    PersistentVolumeClaimSpec,
)


class Toleration(Wire):
    """What lets a pod stay where a matching taint would repel it."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None
    expression: str = ""


class NodeAffinity(Wire):
    """Which nodes a pod demands and which it prefers."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Wire):
    """The pods that a pod wants near or far, and the node label that defines near."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Wire):
    """A pod affinity term that only adds to the score."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Wire):
    """Which pods must or should be near (or, as an anti-affinity, far)."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Wire):
    """The node and pod affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Wire):
    """How evenly pods are spread over the values of a node label."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class ContainerPort(Wire):
    """A port that a container opens, on the node as well when host_port is set."""

    name: str = ""
    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = ""
    protocol: str = ""


class ResourceClaimUse(Wire):
    """A claim of the pod that a container uses."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Wire):
    """What a container asks for and what it may use at most."""

    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ResourceClaimUse, ...] = ()


class SleepAction(Wire):
    """A hook that does nothing for some seconds."""

    seconds: Int64 = 0


class LifecycleHandler(Wire):
    """What a hook does."""

    sleep: SleepAction | None = None


class Lifecycle(Wire):
    """What is run before a container is stopped."""

    pre_stop: LifecycleHandler | None = None


class Container(Wire):
    """One program of a pod."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    lifecycle: Lifecycle | None = None


class PersistentVolumeClaimVolumeSource(Wire):
    """A volume that a claim provides."""

    claim_name: str = ""
    read_only: bool = False


class PersistentVolumeClaimTemplate(Wire):
    """The claim that an ephemeral volume creates."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Wire):
    """A volume whose claim lives as long as the pod."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class ISCSIVolumeSource(Wire):
    """A disk that an iSCSI target offers, by the target's name."""

    iqn: str = ""
    read_only: bool = False


class RBDVolumeSource(Wire):
    """A block device of a Ceph cluster."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class ImageVolumeSource(Wire):
    """An image whose files a pod reads."""

    reference: str = ""


class Volume(Wire):
    """A volume of a pod; sources that do not matter to placement are ignored."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    image: ImageVolumeSource | None = None


class PodResourceClaim(Wire):
    """A device claim of a pod, existing or made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGate(Wire):
    """A reason not to schedule the pod yet."""

    name: str = ""


class PodReadinessGate(Wire):
    """A condition, set by another controller, without which a pod is not ready."""

    condition_type: str = ""


class PodOS(Wire):
    """The operating system that a pod is made for."""

    name: str = ""


class PodSpec(Wire):
    """The desired state of a pod."""

    tolerations: tuple[Toleration, ...] = ()
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    node_name: str = ""
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    runtime_class_name: str | None = None
    preemption_policy: str | None = None
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    host_network: bool = False
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None
    active_deadline_seconds: Int64 | None = None
    service_account_name: str = ""
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    os: PodOS | None = None


class PodCondition(Wire):
    """One observed aspect of a pod's state."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    observed_generation: Int64 = 0


class PodResourceClaimStatus(Wire):
    """The claim that was created from a claim template."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerStateTerminated(Wire):
    """How a container ended."""

    exit_code: Int32 = 0
    finished_at: Time | None = None


class ContainerState(Wire):
    """What a container does."""

    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Wire):
    """The observed state of a container."""

    name: str = ""
    restart_count: Int32 = 0
    state: ContainerState = ContainerState()


class PodStatus(Wire):
    """The observed state of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    nominated_node_name: str = ""
    host_ip: str = ""
    pod_ip: str = ""
    start_time: Time | None = None
    qos_class: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[Data, ...] = ()
    observed_generation: Int64 = 0


class Pod(Object):
    """Containers that run together on one node."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(Wire):
    """The pod that a workload makes copies of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class PodTemplate(Object):
    """A template of a pod, stored as an object of its own."""

    template: PodTemplateSpec = PodTemplateSpec()


class PodDisruptionBudgetSpec(Wire):
    """How many pods may be missing at a time."""

    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Wire):
    """How many pods may be disrupted now."""

    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    observed_generation: Int64 = 0
    disrupted_pods: dict[str, Time] = {}
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Object):
    """A limit on voluntary evictions."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class Overhead(Wire):
    """What a pod needs beside its containers."""

    pod_fixed: ResourceList = {}


class Scheduling(Wire):
    """The nodes that pods of a RuntimeClass can run on."""

    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(Object):
    """A container runtime, its overhead and the nodes that have it."""

    handler: str = ""
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None


class PriorityClass(Object):
    """A name for a priority."""

    value: Int32 = 0
    global_default: bool = False
    description: str = ""
    preemption_policy: str | None = None
