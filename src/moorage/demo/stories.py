"""The user stories of the four design documents, as data: actions, and the outcomes that are expected of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SLA = "node.kubernetes.io/sla"
THRESHOLDS, VERSIONS, EXPRESSIONS, KEYS = "KEP-5471", "KEP-5721", "KEP-5500", "KEP-5869"


@dataclass(frozen=True, slots=True)
class TaintNode:
    """Taint a node, in place of a taint of the same key and effect."""

    node: str
    taint: str
    """`key=value:effect`."""


@dataclass(frozen=True, slots=True)
class UntaintNode:
    """Remove all taints of a key from a node."""

    node: str
    key: str


@dataclass(frozen=True, slots=True)
class SetDeviceTaint:
    """A driver publishes another value of the taint of a device."""

    resource_slice: str
    device: int
    value: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the pods of a workload."""

    what: str


@dataclass(frozen=True, slots=True)
class Pass:
    """Let some time pass."""

    seconds: int


Action = TaintNode | UntaintNode | SetDeviceTaint | Delete | Pass


@dataclass(frozen=True, slots=True)
class Runs:
    """The pods of a workload run on one of some nodes; with `everywhere`, on each of them."""

    what: str
    on: tuple[str, ...]
    because: str
    everywhere: bool = False

    def __str__(self) -> str:
        return f"{self.what} runs on {(' and ' if self.everywhere else ' or ').join(self.on)}"


@dataclass(frozen=True, slots=True)
class Waits:
    """A pod is pending, and its condition says why."""

    what: str
    saying: str
    because: str

    def __str__(self) -> str:
        return f"{self.what} is pending"


@dataclass(frozen=True, slots=True)
class Evicted:
    """The pods of a workload that were last seen running have been evicted."""

    what: str
    because: str

    def __str__(self) -> str:
        return f"{self.what} is evicted"


@dataclass(frozen=True, slots=True)
class Stays:
    """The pods of a workload that were last seen running still do."""

    what: str
    because: str

    def __str__(self) -> str:
        return f"{self.what} stays"


@dataclass(frozen=True, slots=True)
class NotAdmitted:
    """A pod with some toleration is not admitted."""

    toleration: dict[str, Any]
    saying: str
    because: str

    @property
    def what(self) -> str:
        """What is refused."""
        return f"a toleration `{self.toleration['operator']} {self.toleration['value']}`"

    def __str__(self) -> str:
        return f"{self.what} is refused"


@dataclass(frozen=True, slots=True)
class Holds:
    """A claim has been given a device."""

    what: str
    device: str
    because: str

    def __str__(self) -> str:
        return f"claim {self.what} holds {self.device}"


Expectation = Runs | Waits | Evicted | Stays | NotAdmitted | Holds


@dataclass(frozen=True, slots=True)
class Story:
    """A user story: its manifests are applied, then these steps follow."""

    folder: str
    document: str
    number: int
    title: str
    steps: tuple[Action | Expectation, ...]


STORIES = (
    Story("thresholds-1-spot-nodes", THRESHOLDS, 1, "Keep workloads from spot nodes unless they opt in", (
        Runs("cost-optimized-workload", ("spot-node-1", "ondemand-node-1"),
             "`Gt 750` tolerates 800 and 940; \"high\" is no number, so it does not tolerate that"),
        Runs("flexible-sla-workload", ("ondemand-node-1",), "`Equal 900` or `Gt 900`: 940 will do, 800 will not"),
        Waits("critical-workload", "is not greater than 950", "no node is above 950"),
        NotAdmitted({"key": SLA, "operator": "Gt", "value": "95.5", "effect": "NoSchedule"},
                "must be a valid decimal integer in canonical form", "thresholds are integers"),
        TaintNode("ondemand-node-1", f"{SLA}=990:NoSchedule"),
        Runs("critical-workload", ("ondemand-node-1",), "990 is above 950, and the scheduler sees the change at once"),
        Stays("flexible-sla-workload", "NoSchedule never moves a pod that runs"),
    )),
    Story("thresholds-2-inference-slo", THRESHOLDS, 2, "Move inference when the SLA of its node drops", (
        Runs("inference-service", ("inference-node-2",), "990 is above 950; 950 is not"),
        Runs("inference-service-fixed", ("inference-node-2",), "the same threshold, without tolerationSeconds"),
        Pass(30),
        Evicted("inference-service", "the trap: tolerationSeconds 30 bounds the stay on good nodes too"),
        Runs("inference-service", ("inference-node-2",), "its replacement comes to the same node, for 30 s again"),
        Stays("inference-service-fixed", "it tolerates 990 for good"),
        TaintNode("inference-node-1", f"{SLA}=995:NoExecute"),
        TaintNode("inference-node-2", f"{SLA}=900:NoExecute"),
        Evicted("inference-service-fixed", "900 is not above 950"),
        Runs("inference-service-fixed", ("inference-node-1",), "995 is"),
    )),
    Story("thresholds-3-training", THRESHOLDS, 3, "Train on spot GPUs, keep the parameter server safe", (
        Runs("parameter-server", ("gpu-ondemand-1",), "9995 is above 999, 850 is not"),
        Runs("training-worker", ("gpu-ondemand-1", "gpu-spot-1"), "both are above 800, and both have 4 GPUs left"),
    )),
    Story("thresholds-4-gpu-claims", THRESHOLDS, 4, "Claim GPUs by the SLA that their driver publishes", (
        Runs("dra-workload", ("gpu-node-01",), "the node's taint 980 is above the pod's 950"),
        Holds("gpu-claim-high-sla", "gpu-node-01-device-0", "the device's taint 980 is above the claim's 950"),
    )),
    Story("thresholds-5-error-budget", THRESHOLDS, 5, "Give devices away by what is left of their error budget", (
        Runs("batch-training", ("gpu-node-02",), "batch work takes what has more than 1 hour left"),
        Holds("training-gpu-claim", "gpu-node-02-device-0", "8 hours are left of this one, 0 of the other"),
        Waits("critical-inference", "cannot allocate all claims", "it wants more than 24 hours"),
        SetDeviceTaint("gpu-node-02-slice", 1, "72"),
        Holds("inference-gpu-claim", "gpu-node-02-device-1", "the driver has replaced the board: 72 hours"),
        Runs("critical-inference", ("gpu-node-02",), "its device is there"),
    )),
    Story("versions-1-kubelet", VERSIONS, 1, "Only where the kubelet is new enough", (
        Runs("modern-app", ("upgraded-node",), "v1.32.4 is newer than v1.31.99; v1.31.9 and no label are not"),
    )),
    Story("versions-2-old-cni", VERSIONS, 2, "Tolerate nodes that still run an older CNI", (
        Runs("tolerant-pod", ("old-cni-node-1",), "v3.27.2 is older than v3.28.0"),
        TaintNode("old-cni-node-1", "cni.projectcalico.org/version=v3.28.0:NoExecute"),
        Evicted("tolerant-pod", "v3.28.0 is not older than itself, and this taint is NoExecute"),
    )),
    Story("versions-3-container-runtime", VERSIONS, 3, "User namespaces need a recent container runtime", (
        Runs("modern-app-userns", ("containerd-2",), "2.1.4 is newer than 2.0.0; `containerd-2.1.4` is no version"),
    )),
    Story("versions-4-volume-by-kernel", VERSIONS, 4, "A volume that only new kernels can attach", (
        Runs("database", ("new-kernel-node",), "the pod follows its volume: 6.1.0 is newer than 5.10.0"),
    )),
    Story("expressions-1-cni-version", EXPRESSIONS, 1, "Key, version and effect in one expression", (
        Runs("compatible-workload", ("calico-node-1",), "v3.27.2 is at least 3.25.0, v3.24.1 is not"),
    )),
    Story("expressions-2-rack-prefix", EXPRESSIONS, 2, "Racks of one datacenter, by the prefix of their name", (
        Runs("regional-app", ("rack-west",), "its rack starts with us-west-2; a node without the label never matches"),
    )),
    Story("expressions-3-kubelet-version", EXPRESSIONS, 3, "Compare versions in an expression", (
        Runs("modern-app-cel", ("kubelet-new",), "v1.31.2 is at least 1.30.0, v1.29.8 is not"),
    )),
    Story("expressions-4-volume", EXPRESSIONS, 4, "A volume for new kernels on nodes made for storage", (
        Runs("analytics", ("storage-node-1",), "both expressions of the volume must be true"),
    )),
    Story("expressions-5-taint-family", EXPRESSIONS, 5, "All taints below one prefix", (
        Runs("family-workload", ("many-taints-node-1",), "each of the four keys starts with node.example/"),
    )),
    Story("keys-1-readiness", KEYS, 1, "Agents that make a node ready run before it is", (
        Runs("cni-agent", ("new-node", "ready-node"), "`readiness.k8s.io/*` covers every readiness taint",
             everywhere=True),
        Runs("ordinary-app", ("ready-node",), "it tolerates no readiness taint"),
        TaintNode("ready-node", "readiness.k8s.io/dns-ready=:NoSchedule"),
        Delete("cni-agent"),
        Runs("cni-agent", ("new-node", "ready-node"), "also under a readiness taint that nobody had heard of",
             everywhere=True),
        UntaintNode("ready-node", "readiness.k8s.io/dns-ready"),
        Stays("ordinary-app", "NoSchedule does not move it"),
    )),
    Story("keys-2-vendor", KEYS, 2, "One toleration for all GPUs of a vendor", (
        Runs("gpu-monitor", ("a100-node", "h100-node"), "`gpu.vendor.com/*` covers both models", everywhere=True),
        TaintNode("h100-node", "gpu.vendor.com/model-h200=:NoSchedule"),
        Delete("gpu-monitor"),
        Runs("gpu-monitor", ("a100-node", "h100-node"), "and models that come later", everywhere=True),
    )),
)  # fmt: skip
