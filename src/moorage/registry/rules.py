"""Validation of all kinds but pods: a table with a function for each kind, and the shorter ones of these functions."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable

import msgspec

from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.api.wellknown import HIGHEST_USER_PRIORITY, SYSTEM_PRIORITIES
from moorage.names import label_key_errors
from moorage.registry import namesyntax
from moorage.registry.checks import (
    Errors,
    at_most_100_percent,
    int_or_percent,
    label_selector,
    nonnegative,
    one_of,
    syntax,
    unchanged,
)
from moorage.registry.devices import (
    device_class_errors,
    resource_claim_errors,
    resource_claim_template_errors,
    resource_slice_errors,
)
from moorage.registry.jobs import cron_job_errors, job_errors
from moorage.registry.metadata import unqualified_finalizer
from moorage.registry.pod.resources import amount_errors
from moorage.registry.pod.spec import template_errors
from moorage.registry.roles import binding_errors, cluster_role_errors, role_errors
from moorage.registry.runtimeclasses import runtime_class_errors
from moorage.registry.services import service_errors
from moorage.registry.storage import (
    attachment_errors,
    claim_errors,
    csi_driver_errors,
    csi_node_errors,
    storage_capacity_errors,
    storage_class_errors,
    volume_errors,
)
from moorage.registry.workloads import (
    daemon_set_errors,
    deployment_errors,
    replica_set_errors,
    replication_controller_errors,
    stateful_set_errors,
)
from moorage.validation.field import FieldError, duplicate, forbidden, invalid, not_supported, required, too_long

_MAX_DATA = 1024 * 1024
_RBAC = "rbac.authorization.k8s.io"
_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""The keys that Secrets of a type must have."""
_JSON_SECRETS = ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson")
_ACCOUNT_NAME = "kubernetes.io/service-account.name"
_FROZEN = "field is immutable when `immutable` is set"


def object_errors(kind: Kind, new: Data, old: Data | None = None) -> list[FieldError]:
    """Validate a new object, or an update of `old`, except for metadata, pods, tolerations and affinity."""
    rule = _RULES.get((kind.group, kind.kind))
    return [] if rule is None else list(rule(new, old))


def object_status_errors(kind: Kind, new: Data, old: Data) -> list[FieldError]:
    """Validate an update of the status."""
    rule = _STATUS_RULES.get((kind.group, kind.kind))
    return [] if rule is None else list(rule(new, old))


def _namespace(new: Data, _: Data | None) -> Errors:
    for finalizer in new.get("spec", {}).get("finalizers", ()):
        yield from syntax("spec.finalizers", finalizer, label_key_errors(finalizer))
        yield from unqualified_finalizer("spec.finalizers", finalizer)


def _namespace_status(new: Data, _: Data) -> Errors:
    phase = new.get("status", {}).get("phase")
    is_leaving = bool(new.get("metadata", {}).get("deletionTimestamp"))
    if is_leaving and phase != "Terminating":
        yield invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")
    if not is_leaving and phase != "Active":
        yield invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")


def _node(new: Data, old: Data | None) -> Errors:
    status, spec = new.get("status", {}), new.get("spec", {})
    for part in ("capacity", "allocatable"):
        for name, amount in status.get(part, {}).items():
            yield from amount_errors(f"status.{part}.{name}", name, amount)
    if old is None:
        return
    before = old.get("spec", {})
    if before.get("podCIDRs") and before["podCIDRs"] != spec.get("podCIDRs"):
        yield forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
    if before.get("providerID") and before["providerID"] != spec.get("providerID"):
        yield forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')


def _node_status(new: Data, old: Data) -> Errors:
    yield from _node(new, old)
    addresses = new.get("status", {}).get("addresses", [])
    for index, address in enumerate(addresses):
        if address in addresses[:index]:
            yield duplicate(f"status.addresses[{index}]", address)


def _config_map(new: Data, old: Data | None) -> Errors:
    data, binary = new.get("data", {}), new.get("binaryData", {})
    for path, keys in (("data", data), ("binaryData", binary)):
        for key in keys:
            yield from syntax(f"{path}[{key}]", key, namesyntax.config_key(key))
    for key in data:
        if key in binary:
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in data.values())
    if size + sum(map(_decoded_size, binary.values())) > _MAX_DATA:
        yield too_long("", _MAX_DATA)
    yield from _frozen_errors(new, old, "data", "binaryData")


def _secret(new: Data, old: Data | None) -> Errors:
    data, kind = new.get("data", {}), new.get("type", "")
    for key in data:
        yield from syntax(f"data[{key}]", key, namesyntax.config_key(key))
    if sum(map(_decoded_size, data.values())) > _MAX_DATA:
        yield too_long("data", _MAX_DATA)
    yield from _secret_type_errors(kind, data, new.get("metadata", {}).get("annotations", {}))
    if old is not None:
        yield from unchanged("type", kind, old.get("type", ""))
    yield from _frozen_errors(new, old, "data")


def _secret_type_errors(kind: str, data: dict[str, str], annotations: dict[str, str]) -> Errors:
    if kind == "kubernetes.io/service-account-token" and not annotations.get(_ACCOUNT_NAME):
        yield required(f"metadata.annotations[{_ACCOUNT_NAME}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield required("data[username]")
        yield required("data[password]")
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data or (kind == "kubernetes.io/ssh-auth" and not data[key]):
            yield required(f"data[{key}]")
        elif kind in _JSON_SECRETS:
            try:
                msgspec.json.decode(b64decode(data[key]), type=dict)
            except (msgspec.MsgspecError, ValueError) as error:
                yield invalid(f"data[{key}]", "<secret contents redacted>", str(error))


def _decoded_size(text: str) -> int:
    return len(text) * 3 // 4 - text.count("=", -2)


def _frozen_errors(new: Data, old: Data | None, *fields: str) -> Errors:
    if old is None or not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield forbidden("immutable", _FROZEN)
    for field in fields:
        if new.get(field, {}) != old.get(field, {}):
            yield forbidden(field, _FROZEN)


def _event(new: Data, _: Data | None) -> Errors:
    namespace = new.get("metadata", {}).get("namespace", "")
    involved = new.get("involvedObject", {}).get("namespace", "")
    if "eventTime" in new:
        matches = bool(involved) or namespace in ("default", "kube-system")
    else:
        matches = involved == namespace or (not involved and namespace == "default")
    if not matches:
        yield invalid("involvedObject.namespace", involved, "does not match event.namespace")
    if "eventTime" not in new:
        return
    for name in ("reportingComponent", "reportingInstance", "action", "reason"):
        value = new.get(name, "")
        if not value:
            yield required(name)
        elif len(value) > 128:
            yield invalid(name, "", "can have at most 128 characters")
    if len(new.get("message", "")) > 1024:
        yield invalid("message", "", "can have at most 1024 characters")


def _controller_revision(new: Data, old: Data | None) -> Errors:
    if new.get("revision", 0) < 0:
        yield invalid("revision", new["revision"], "must be greater than or equal to 0")
    if old is not None:
        yield from unchanged("data", new.get("data"), old.get("data"))
    elif new.get("data") is None:
        yield required("data", "data is mandatory")
    elif not isinstance(new["data"], dict):
        yield required("data", "data must be a valid JSON object")


def _budget(new: Data, _: Data | None) -> Errors:
    spec = new.get("spec", {})
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for name in ("minAvailable", "maxUnavailable"):
        yield from int_or_percent(f"spec.{name}", spec.get(name))
        yield from at_most_100_percent(f"spec.{name}", spec.get(name))
    yield from label_selector("spec.selector", spec.get("selector"))
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        yield not_supported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))


def _budget_status(new: Data, _: Data) -> Errors:
    numbers = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    yield from nonnegative("status", new.get("status", {}), *numbers)


def _priority_class(new: Data, old: Data | None) -> Errors:
    name, value = new.get("metadata", {}).get("name", ""), new.get("value", 0)
    if old is not None:
        if value != old.get("value", 0):
            yield forbidden("value", "may not be changed in an update.")
        yield from unchanged("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))
        return
    if name.startswith("system-"):
        if problem := _system_class_problem(name, value, is_default=bool(new.get("globalDefault"))):
            detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
            yield forbidden("metadata.name", detail)
    elif value > HIGHEST_USER_PRIORITY:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")
    yield from one_of("preemptionPolicy", new.get("preemptionPolicy"), ("PreemptLowerPriority", "Never"))


def _system_class_problem(name: str, value: int, *, is_default: bool) -> str:
    if name not in SYSTEM_PRIORITIES:
        return f"{name} is not a known system priority class"
    if value != SYSTEM_PRIORITIES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


def _pod_template(new: Data, _: Data | None) -> Errors:
    yield from template_errors("template", new.get("template", {}))


def _lease(new: Data, _: Data | None) -> Errors:
    spec = new.get("spec", {})
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from nonnegative("spec", spec, "leaseTransitions")
    if spec.get("preferredHolder") and not spec.get("strategy"):
        yield forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined")


_RULES: dict[tuple[str, str], Callable[[Data, Data | None], Errors]] = {
    ("", "ConfigMap"): _config_map,
    ("", "Event"): _event,
    ("", "Namespace"): _namespace,
    ("", "Node"): _node,
    ("", "PersistentVolume"): volume_errors,
    ("", "PersistentVolumeClaim"): claim_errors,
    ("", "PodTemplate"): _pod_template,
    ("", "ReplicationController"): replication_controller_errors,
    ("", "Secret"): _secret,
    ("", "Service"): service_errors,
    ("apps", "ControllerRevision"): _controller_revision,
    ("apps", "DaemonSet"): daemon_set_errors,
    ("apps", "Deployment"): deployment_errors,
    ("apps", "ReplicaSet"): replica_set_errors,
    ("apps", "StatefulSet"): stateful_set_errors,
    ("batch", "CronJob"): cron_job_errors,
    ("batch", "Job"): job_errors,
    ("coordination.k8s.io", "Lease"): _lease,
    ("events.k8s.io", "Event"): _event,
    ("node.k8s.io", "RuntimeClass"): runtime_class_errors,
    ("policy", "PodDisruptionBudget"): _budget,
    (_RBAC, "ClusterRole"): cluster_role_errors,
    (_RBAC, "ClusterRoleBinding"): binding_errors,
    (_RBAC, "Role"): role_errors,
    (_RBAC, "RoleBinding"): binding_errors,
    ("resource.k8s.io", "DeviceClass"): device_class_errors,
    ("resource.k8s.io", "ResourceClaim"): resource_claim_errors,
    ("resource.k8s.io", "ResourceClaimTemplate"): resource_claim_template_errors,
    ("resource.k8s.io", "ResourceSlice"): resource_slice_errors,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("storage.k8s.io", "CSIDriver"): csi_driver_errors,
    ("storage.k8s.io", "CSINode"): csi_node_errors,
    ("storage.k8s.io", "CSIStorageCapacity"): storage_capacity_errors,
    ("storage.k8s.io", "StorageClass"): storage_class_errors,
    ("storage.k8s.io", "VolumeAttachment"): attachment_errors,
}

_STATUS_RULES: dict[tuple[str, str], Callable[[Data, Data], Errors]] = {
    ("", "Namespace"): _namespace_status,
    ("", "Node"): _node_status,
    ("policy", "PodDisruptionBudget"): _budget_status,
}
