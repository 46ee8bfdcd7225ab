"""The operations that a workload is made of, as scheduler_perf spells them."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args

import msgspec

from moorage.api.meta import Wire

NonNegative = Annotated[int, msgspec.Meta(ge=0)]
Params = dict[str, Any]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|us|µs|ns|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


class Operation(Wire, forbid_unknown_fields=True, tag_field="opcode"):
    """One step of a workload."""


class CreateNamespaces(Operation, tag="createNamespaces"):
    """Makes namespaces PREFIX-0, PREFIX-1 and so on."""

    prefix: str
    count: NonNegative
    namespace_template_path: str = ""


class AllocatableStrategy(Wire, forbid_unknown_fields=True):
    """What nodes can allocate, in addition to their template."""

    node_allocatable: dict[str, str] = {}
    csi_node_allocatable: dict[str, dict[str, int]] = {}
    migrated_plugins: list[str] = []


class LabelStrategy(Wire, forbid_unknown_fields=True):
    """A label whose values the nodes take in turn."""

    label_key: str
    label_values: Annotated[list[str], msgspec.Meta(min_length=1)]


class UniqueLabelStrategy(Wire, forbid_unknown_fields=True):
    """A label whose value each node has for itself."""

    label_key: str


class CreateNodes(Operation, tag="createNodes"):
    """Makes nodes that are ready for pods."""

    count: NonNegative
    node_template_path: str = ""
    node_allocatable_strategy: AllocatableStrategy | None = None
    label_node_prepare_strategy: LabelStrategy | None = None
    unique_node_label_strategy: UniqueLabelStrategy | None = None
    template_params: Params = {}


class CreatePods(Operation, tag="createPods"):
    """Makes pods, and waits until they are placed."""

    count: NonNegative
    steady_state: bool = False
    """Whether each pod that is placed is deleted and followed by another, until the duration is over."""
    duration: str = ""
    collect_metrics: bool = False
    namespace: str = ""
    pod_template_path: str = ""
    skip_wait_to_completion: bool = False
    persistent_volume_template_path: str = ""
    persistent_volume_claim_template_path: str = ""
    template_params: Params = {}
    signature_batch_size: Annotated[int, msgspec.Meta(ge=1)] = 1
    """How many pods in a row have the same `signature` label."""


class CreatePodSets(Operation, tag="createPodSets"):
    """Makes the same pods in namespaces PREFIX-0, PREFIX-1 and so on."""

    count: NonNegative
    namespace_prefix: str
    create_pods_op: Params


class DeletePods(Operation, tag="deletePods"):
    """Deletes the pods of a namespace, all at once or so many a second."""

    namespace: str
    label_selector: dict[str, str] = {}
    skip_wait_to_completion: bool = False
    delete_pods_per_second: NonNegative = 0


class Churn(Operation, tag="churn"):
    """Makes objects, and in the mode `recreate` deletes them again, in the background to the end of the workload."""

    mode: Literal["create", "recreate"]
    template_paths: Annotated[list[str], msgspec.Meta(min_length=1)]
    number: NonNegative = 0
    interval_milliseconds: NonNegative = 500
    namespace: str = ""


class Barrier(Operation, tag="barrier"):
    """Waits for the pods of operations that did not wait themselves."""

    namespaces: list[str] = []
    label_selector: dict[str, str] = {}
    stage_requirement: Literal["", "Scheduled", "Attempted"] = "Scheduled"


class Sleep(Operation, tag="sleep"):
    """Waits."""

    duration: str


class CreateAny(Operation, tag="createAny"):
    """Makes objects of any kind."""

    template_path: str
    namespace: str = ""
    count: NonNegative = 1
    template_params: Params = {}


class UpdateAny(Operation, tag="updateAny"):
    """Replaces objects of any kind, all at once or so many a second."""

    template_path: str
    namespace: str = ""
    count: NonNegative = 1
    update_per_second: NonNegative = 0
    subresources: list[str] = []


class CreateResourceDriver(Operation, tag="createResourceDriver"):
    """Offers devices on the nodes whose names match a pattern, as a driver would."""

    driver_name: Annotated[str, msgspec.Meta(min_length=1)]
    nodes: Annotated[str, msgspec.Meta(min_length=1)]
    max_claims_per_node: NonNegative


class CreateResourceClaims(Operation, tag="createResourceClaims"):
    """Makes claims on devices."""

    count: NonNegative
    namespace: Annotated[str, msgspec.Meta(min_length=1)]
    template_path: str


class AllocResourceClaims(Operation, tag="allocResourceClaims"):
    """Gives devices to the claims of a namespace, or of all, that have none: no pod uses them."""

    namespace: str = ""


class StartCollectingMetrics(Operation, tag="startCollectingMetrics"):
    """Measures from here on."""

    namespaces: Annotated[list[str], msgspec.Meta(min_length=1)]
    name: str = ""
    label_selector: dict[str, str] = {}


class StopCollectingMetrics(Operation, tag="stopCollectingMetrics"):
    """Measures up to here."""


AnyOperation = (
    CreateNamespaces | CreateNodes | CreatePods | CreatePodSets | DeletePods | Churn | Barrier | Sleep
    | CreateAny | UpdateAny | CreateResourceDriver | CreateResourceClaims | AllocResourceClaims
    | StartCollectingMetrics | StopCollectingMetrics
)  # fmt: skip
OPCODES = [str(each.__struct_config__.tag) for each in get_args(AnyOperation)]
PARAMETERS = {
    "countParam": "count",
    "durationParam": "duration",
    "maxClaimsPerNodeParam": "maxClaimsPerNode",
    "steadyStateParam": "steadyState",
    "signatureBatchSizeParam": "signatureBatchSize",
}
"""Fields that name a parameter of the workload, and the field that it is the value of."""


def seconds_of(duration: str) -> float:
    """The length of a time such as `1m30s`. Raises ValueError."""
    parts = _DURATION.findall(duration)
    if not parts or "".join(map("".join, parts)) != duration:
        raise ValueError(f"{duration!r} is not a duration: write 500ms, 10s or 1m30s")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
