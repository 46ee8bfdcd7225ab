"""Nodes."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.api.wellknown import LABEL_NODE_ROLE, LABEL_NODE_ROLE_PREFIX, TAINT_NOT_READY
from moorage.registry import namesyntax, selectable
from moorage.registry.checks import Errors, syntax
from moorage.registry.defaulting import round_up
from moorage.registry.merging import SET, UNPATCHED_SET, keyed, pointer, shape, struct
from moorage.registry.pod.resources import amount_errors
from moorage.registry.printing import cells
from moorage.registry.printing.ages import UNKNOWN
from moorage.registry.printing.cells import NONE, Getter, PrintedRow
from moorage.registry.printing.columns import AGE, NAME, column, wide
from moorage.registry.state import State
from moorage.registry.strategy import Strategy
from moorage.validation.field import ErrorType, FieldError, duplicate, forbidden, invalid


def _defaults(obj: Data, _: str) -> None:
    status = obj.get("status", {})
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])
    for part in status.keys() & {"capacity", "allocatable"}:
        round_up(status[part])
    spec = obj.get("spec", {})
    first, ranges = spec.get("podCIDR"), spec.get("podCIDRs")
    if first and (not ranges or ranges[0] != first):
        spec["podCIDRs"] = [first]
    elif ranges and not first:
        spec["podCIDR"] = ranges[0]


def _errors(new: Data, old: Data | None) -> Errors:
    status, spec = new.get("status", {}), new.get("spec", {})
    for part in ("capacity", "allocatable"):
        for name, amount in status.get(part, {}).items():
            yield from amount_errors(f"status.{part}.{name}", name, amount)
    yield from _range_errors("spec.podCIDRs", spec.get("podCIDRs", []))
    if old is None:
        return
    addresses = status.get("addresses", [])
    for index, address in enumerate(addresses):
        if address in addresses[:index]:
            yield duplicate(f"status.addresses[{index}]", address)
    before = old.get("spec", {})
    if before.get("podCIDRs") and before["podCIDRs"] != spec.get("podCIDRs"):
        yield forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
    if before.get("providerID") and before["providerID"] != spec.get("providerID"):
        yield forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')


def _range_errors(path: str, ranges: list[str]) -> Errors:
    """Validate the ranges that pods get their addresses from: one, or one of each IP family."""
    problems = [namesyntax.address_range(each) for each in ranges]
    for index, each in enumerate(ranges):
        yield from syntax(f"{path}[{index}]", each, problems[index])
    if len(ranges) < 2:
        return
    if bad := next((each for each, found in zip(ranges, problems, strict=True) if found), ""):
        detail = f"invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR address: {bad}"
        yield FieldError(ErrorType.INTERNAL, path, None, detail)
    if bad or len(ranges) > 2 or len({":" in each for each in ranges}) < 2:
        yield invalid(path, ranges, "may specify no more than one CIDR for each IP family")


def _node_status(row: PrintedRow) -> str:
    """Whether the node is ready, and whether it takes new pods."""
    ready = cells.condition_status(row.status.get("conditions") or (), "Ready")
    words = ["Unknown" if not ready else "Ready" if ready == "True" else "NotReady"]
    if row.spec.get("unschedulable"):
        words.append("SchedulingDisabled")
    return cells.joined(words)


def _node_roles(row: PrintedRow) -> str:
    """The roles that labels give a node."""
    labels = row.metadata.get("labels") or {}
    roles = {key.removeprefix(LABEL_NODE_ROLE_PREFIX) for key in labels if key.startswith(LABEL_NODE_ROLE_PREFIX)}
    return cells.joined(sorted((roles | {labels.get(LABEL_NODE_ROLE, "")}) - {""}), otherwise=NONE)


def _node_address(type_: str) -> Getter:
    """The first address of a type."""
    return lambda row: next(
        (entry.get("address", "") for entry in row.status.get("addresses") or () if entry.get("type") == type_), NONE
    )


def _kernel(row: PrintedRow) -> str:
    """The kernel's version and the architecture."""
    info = row.status.get("nodeInfo") or {}
    architecture = info.get("architecture")
    return (info.get("kernelVersion") or UNKNOWN) + (f" ({architecture})" if architecture else "")


def _admit(node: Data, old: Data | None, _: State) -> None:
    """Keep pods off a new node until its kubelet has reported that it is ready."""
    if old is not None:
        return
    spec = node.setdefault("spec", {})
    taints = spec.get("taints") or []
    if not any(taint.get("key") == TAINT_NOT_READY for taint in taints):
        spec["taints"] = [*taints, {"key": TAINT_NOT_READY, "effect": "NoSchedule"}]


NODE = Strategy(
    kind=kinds.row("v1", "Node"),
    defaults=_defaults,
    keeps_status=True,
    admit=_admit,
    errors=_errors,
    status_errors=_errors,
    fields={**selectable.NAME, "spec.unschedulable": selectable.at("spec.unschedulable", "false")},
    merge=shape(
        spec=struct(podCIDRs=SET, podPreemptionPolicy=pointer(disableResizePreemption=UNPATCHED_SET)),
        status=struct(
            addresses=keyed("type"),
            conditions=keyed("type"),
            daemonEndpoints=struct(kubeletEndpoint=struct()),
            nodeInfo=struct(),
        ),
    ),
    columns=(
        NAME,
        column("Status", _node_status, "Whether it is ready, and whether it takes new pods."),
        column("Roles", _node_roles, "The roles that its labels give it."),
        AGE,
        column("Version", cells.at("status.nodeInfo.kubeletVersion"), "The version of its kubelet."),
        wide("Internal-IP", _node_address("InternalIP"), "Its address inside of the cluster."),
        wide("External-IP", _node_address("ExternalIP"), "Its address for the outside."),
        wide("OS-Image", cells.at("status.nodeInfo.osImage", UNKNOWN), "Its operating system."),
        wide("Kernel-Version", _kernel, "Its kernel and architecture."),
        wide(
            "Container-Runtime",
            cells.at("status.nodeInfo.containerRuntimeVersion", UNKNOWN),
            "What runs its containers.",
        ),
    ),
)
