"""Validation of pods: new ones, updates, and updates of the status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.api.wellknown import DEPRECATED_LABELS, LABEL_ARCH, LABEL_OS
from moorage.gotext import quote
from moorage.names import canonical_int64, label_key_errors
from moorage.quantity import Quantity
from moorage.registry import namesyntax, schema
from moorage.registry.checks import Errors, differences, syntax, unchanged
from moorage.registry.pod.containers import image_space_errors
from moorage.registry.pod.spec import pod_spec_errors
from moorage.validation.field import forbidden, invalid, required

_POD = kinds.row("v1", "Pod")
MIRROR = "kubernetes.io/config.mirror"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_MAX_INT32 = 2**31 - 1
_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
_JUDGED_ELSEWHERE = ("tolerations", "schedulingGates", "nodeSelector")
"""Fields whose changes `moorage.validation.update` validates."""


def pod_errors(new: Data, old: Data | None) -> Errors:
    """Validate a new pod, or an update of one; not its tolerations and node affinity."""
    if old is not None:
        yield from _update_errors(new, old)
        return
    spec = new.get("spec", {})
    yield from form_errors(new, spec)
    if spec.get("ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def pod_status_errors(new: Data, old: Data) -> Errors:
    """Validate an update of the status of a pod."""
    return _status_errors(new.get("status", {}), old.get("status", {}), old.get("spec", {}))


def form_errors(pod: Data, spec: Data) -> Errors:
    """Validate a pod as it is, new or updated."""
    metadata = pod.get("metadata", {})
    if annotations := metadata.get("annotations"):
        yield from _annotation_errors(annotations, spec)
    yield from pod_spec_errors("spec", spec, is_pod=True, name=metadata.get("name", ""))
    yield from image_space_errors("spec.containers", spec.get("containers", ()))
    yield from image_space_errors("spec.initContainers", spec.get("initContainers", ()))


def _annotation_errors(annotations: dict[str, str], spec: Data) -> Errors:
    if MIRROR in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(f"metadata.annotations[{MIRROR}]", annotations[MIRROR], detail)
    cost = annotations.get(_DELETION_COST)
    if cost is not None:
        number = canonical_int64(cost)
        if number is None or not -_MAX_INT32 - 1 <= number <= _MAX_INT32:
            yield invalid(f"metadata.annotations[{_DELETION_COST}]", cost, "must be a 32bit integer")


def _update_errors(new: Data, old: Data) -> Errors:
    yield from _annotation_update_errors(new, old)
    spec, before = new.get("spec", {}), old.get("spec", {})
    if spec == before:
        return
    yield from form_errors(new, spec)
    for field in ("containers", "initContainers"):
        if len(spec.get(field, ())) != len(before.get(field, ())):
            yield forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    deadline_errors = list(_deadline_errors(spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")))
    yield from deadline_errors
    if deadline_errors:
        return
    allowed = _without_allowed_changes(spec, before)
    if not schema.same(_POD, {"spec": allowed}, {"spec": before}, "spec"):
        lines = "\n".join(differences("spec", before, allowed))
        yield forbidden("spec", f"pod updates may not change fields other than {_UPDATABLE}\n{lines}")


def _without_allowed_changes(spec: Data, before: Data) -> Data:
    """The new spec, with every mutable field set back to its old value."""
    munged = dict(spec)
    for field in ("containers", "initContainers"):
        if field in spec:
            munged[field] = [
                _with(container, "image", old.get("image"))
                for container, old in zip(spec[field], before.get(field, ()), strict=True)
            ]
    for field in ("activeDeadlineSeconds", *_JUDGED_ELSEWHERE):
        munged = _with(munged, field, before.get(field))
    if before.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    affinity, old_affinity = spec.get("affinity"), before.get("affinity")
    if affinity != old_affinity:
        kept = _with(affinity or {}, "nodeAffinity", (old_affinity or {}).get("nodeAffinity"))
        munged = _with(munged, "affinity", kept if kept or old_affinity is not None else None)
    return munged


def _with(part: Data, name: str, value: Any) -> Data:
    changed = {key: other for key, other in part.items() if key != name}
    if value is not None:
        changed[name] = value
    return changed


def _deadline_errors(new: int | None, old: int | None) -> Errors:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield invalid(path, None, "must not update from a positive integer to nil value")
    elif not 0 <= new <= _MAX_INT32:
        yield invalid(path, new, f"must be between 0 and {_MAX_INT32}, inclusive")
    elif old is not None and old < new:
        yield invalid(path, new, "must be less than or equal to previous value")


def _annotation_update_errors(new: Data, old: Data) -> Errors:
    after, before = (pod["metadata"].get("annotations", {}) for pod in (new, old))
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) == after.get(key):
            continue
        what = "remove or update" if key in before else "add"
        if key.startswith(_APP_ARMOR):
            yield forbidden(f"metadata.annotations[{key}]", f"may not {what} AppArmor annotations")
        if key == MIRROR:
            yield forbidden(f"metadata.annotations[{key}]", f"may not {what} mirror pod annotation")


def _status_errors(new: Data, old: Data, spec: Data) -> Errors:
    for index, condition in enumerate(new.get("conditions", ())):
        name = condition.get("type", "")
        if name not in _SYSTEM_CONDITIONS:
            yield from syntax(f"status.conditions[{index}].Type", name, label_key_errors(name))
        if condition.get("observedGeneration", 0) < 0:
            detail = "must be a non-negative integer"
            yield invalid(f"status.conditions[{index}].observedGeneration", condition["observedGeneration"], detail)
    yield from _nomination_errors(new.get("nominatedNodeName"), old.get("nominatedNodeName"), spec.get("nodeName"))
    if new.get("observedGeneration", 0) < 0:
        yield invalid("status.observedGeneration", new["observedGeneration"], "must be a non-negative integer")
    yield from unchanged("status.qosClass", new.get("qosClass") or "", old.get("qosClass") or "")
    yield from _transition_errors(new.get("containerStatuses", ()), old.get("containerStatuses", ()), spec)
    for field in ("podIPs", "hostIPs"):
        old_addresses = [entry.get("ip") for entry in old.get(field, ())]
        for index, entry in enumerate(new.get(field, ())):
            address = entry.get("ip", "")
            if address not in old_addresses:
                yield from syntax(f"status.{field}[{index}]", address, namesyntax.address(address))
    yield from _claim_status_errors(new.get("resourceClaimStatuses", ()), spec)


def _nomination_errors(new: str | None, old: str | None, node: str | None) -> Errors:
    if not new or new == old:
        return
    yield from syntax("status.nominatedNodeName", new, namesyntax.subdomain(new))
    if node:
        yield forbidden("status.nominatedNodeName", "may not be set on pods that are already bound to a node")


def _transition_errors(new: Any, old: Any, spec: Data) -> Errors:
    """A container that has terminated and is not to be restarted must stay terminated."""
    policies = {container.get("name"): container.get("restartPolicy") for container in spec.get("containers", ())}
    running = {status.get("name") for status in new if "terminated" not in status.get("state", {})}
    for index, status in enumerate(old):
        ended = status.get("state", {}).get("terminated")
        if ended is None or status.get("name") not in running:
            continue
        policy = policies.get(status.get("name")) or spec.get("restartPolicy")
        if policy == "Never" or (policy == "OnFailure" and not ended.get("exitCode")):
            detail = "may not be transitioned to non-terminated state"
            yield forbidden(f"status.containerStatuses[{index}].state", detail)


def _claim_status_errors(statuses: Any, spec: Data) -> Errors:
    names = {claim.get("name") for claim in spec.get("resourceClaims", ())}
    for index, status in enumerate(statuses):
        here = f"status.resourceClaimStatuses[{index}].name"
        if not status.get("name"):
            yield required(here)
        elif status["name"] not in names:
            yield invalid(here, status["name"], "must match the name of an entry in `spec.resourceClaims`")


def pod_warnings(pod: Data) -> Iterator[str]:
    """The warnings of Kubernetes for a new pod: fields that are valid but hardly intended."""
    name, spec = pod.get("metadata", {}).get("name", ""), pod.get("spec", {})
    if problems := namesyntax.label(name):
        yield (
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label "
            f"is recommended: [{' '.join(problems)}]"
        )
    for label in spec.get("nodeSelector", {}):
        if label in _DEPRECATED_LABELS:
            yield f"spec.nodeSelector[{label}]: {_DEPRECATED_LABELS[label]}"
    for index, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
        if "labelSelector" not in constraint:
            path = f"spec.topologySpreadConstraints[{index}].labelSelector"
            yield f"{path}: a null labelSelector results in matching no pod"
    for index, secret in enumerate(spec.get("imagePullSecrets", ())):
        if not secret.get("name"):
            yield f'spec.imagePullSecrets[{index}].name: invalid empty name ""'
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field, ())):
            yield from _container_warnings(f"spec.{field}[{index}]", container)


_SINCE_1_14 = (LABEL_ARCH, LABEL_OS)
_DEPRECATED_LABELS = {
    old: f'deprecated since v1.{14 if new in _SINCE_1_14 else 17}; use "{new}" instead'
    for old, new in DEPRECATED_LABELS.items()
}


def _container_warnings(path: str, container: Data) -> Iterator[str]:
    for part in ("limits", "requests"):
        amounts = container.get("resources", {}).get(part, {})
        for name in ("memory", "ephemeral-storage"):
            if name in amounts and Quantity.of(amounts[name]).nano % 10**9:
                text = quote(str(amounts[name]))
                yield f"{path}.resources.{part}[{name}]: fractional byte value {text} is invalid, must be an integer"
    names: set[str] = set()
    for index, variable in enumerate(container.get("env", ())):
        name = variable.get("name", "")
        # A value that refers to the variable's earlier value is meant to replace it.
        if name in names and f"$({name})" not in variable.get("value", ""):
            hidden = f"hides previous definition of {quote(name)}, which may be dropped when using apply"
            yield f"{path}.env[{index}]: {hidden}"
        names.add(name)
    ports: dict[tuple[Any, ...], int] = {}
    for index, port in enumerate(container.get("ports", ())):
        key = tuple(port.get(field) for field in ("containerPort", "protocol", "hostPort", "hostIP"))
        if key in ports:
            yield f"{path}.ports[{index}]: duplicate port definition with {path}.ports[{ports[key]}]"
        ports.setdefault(key, index)
