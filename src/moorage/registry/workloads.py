"""What is wrong with the workloads that make pods: Deployments, ReplicaSets, StatefulSets and so on."""

from __future__ import annotations

from typing import Any

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.labels import selects
from moorage.registry import namesyntax, schema
from moorage.registry.checks import (
    IMMUTABLE,
    Errors,
    amount_of,
    at_most_100_percent,
    int_or_percent,
    label_selector,
    nonnegative,
    syntax,
)
from moorage.registry.pod.spec import template_errors
from moorage.registry.schema import Data
from moorage.registry.storage import claim_spec_errors
from moorage.validation.field import ErrorType, FieldError, forbidden, invalid, not_supported, required

_DEPLOYMENT, _REPLICA_SET, _STATEFUL_SET, _DAEMON_SET = (
    kinds.row("apps/v1", name) for name in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
)
_MISMATCH = "`selector` does not match template `labels`"
_STATEFUL_MUTABLE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_STATEFUL_FORBIDDEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def deployment_errors(new: Data, old: Data | None) -> Errors:
    """What is wrong with a Deployment, or with changing one."""
    spec = new.get("spec", {})
    yield from nonnegative("spec", spec, "replicas")
    yield from _selector_errors(spec, "deployment", is_required=True)
    yield from _template_errors(spec, "ReplicaSet")
    yield from _deployment_strategy_errors(spec.get("strategy", {}))
    yield from nonnegative("spec", spec, "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    yield from _same_selector(_DEPLOYMENT, new, old)


def replica_set_errors(new: Data, old: Data | None) -> Errors:
    """What is wrong with a ReplicaSet, or with changing one."""
    spec = new.get("spec", {})
    yield from nonnegative("spec", spec, "replicas", "minReadySeconds")
    yield from _selector_errors(spec, "deployment", is_required=True)
    yield from _template_errors(spec, "ReplicaSet")
    yield from _same_selector(_REPLICA_SET, new, old)


def replication_controller_errors(new: Data, _: Data | None) -> Errors:
    """What is wrong with a ReplicationController."""
    spec = new.get("spec", {})
    yield from nonnegative("spec", spec, "replicas", "minReadySeconds")
    labels = spec.get("selector")
    if not labels:
        yield required("spec.selector")
    if "template" not in spec:
        yield required("spec.template")
    else:
        yield from _template_errors({**spec, "selector": {"matchLabels": labels or {}}}, "ReplicationController")


def daemon_set_errors(new: Data, old: Data | None) -> Errors:
    """What is wrong with a DaemonSet, or with changing one."""
    spec = new.get("spec", {})
    yield from _selector_errors(spec, "daemonset", is_required=False)
    yield from _template_errors(spec, "DaemonSet", is_selected="selector" in spec)
    yield from nonnegative("spec", spec, "minReadySeconds", "revisionHistoryLimit")
    yield from _daemon_strategy_errors(spec.get("updateStrategy", {}))
    yield from _same_selector(_DAEMON_SET, new, old)


def stateful_set_errors(new: Data, old: Data | None) -> Errors:
    """What is wrong with a StatefulSet, or with changing one."""
    spec = new.get("spec", {})
    policy = spec.get("podManagementPolicy")
    if policy not in ("OrderedReady", "Parallel"):
        yield invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _stateful_strategy_errors(spec.get("updateStrategy", {}))
    retention = spec.get("persistentVolumeClaimRetentionPolicy", {})
    for name in ("whenDeleted", "whenScaled"):
        if name in retention and retention[name] not in ("Retain", "Delete"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            yield not_supported(path, retention[name], ("Retain", "Delete"))
    yield from nonnegative("spec", spec, "replicas", "minReadySeconds")
    if spec.get("ordinals", {}).get("start", 0) < 0:
        yield invalid("spec.ordinals.start", spec["ordinals"]["start"], "must be greater than or equal to 0")
    if old is None:
        yield from _new_stateful_set_errors(spec)
    yield from _selector_errors(spec, "statefulset", is_required=True)
    yield from _template_errors(_with_claim_volumes(spec), "StatefulSet")
    if old is not None:
        before = old.get("spec", {})
        kept = {name: spec[name] for name in spec if name not in _STATEFUL_MUTABLE}
        known = {name: before[name] for name in before if name not in _STATEFUL_MUTABLE}
        if not schema.same(_STATEFUL_SET, {"spec": kept}, {"spec": known}, "spec"):
            yield forbidden("spec", _STATEFUL_FORBIDDEN)


def _new_stateful_set_errors(spec: Data) -> Errors:
    for index, claim in enumerate(spec.get("volumeClaimTemplates", ())):
        yield from claim_spec_errors(f"spec.volumeClaimTemplates[{index}].spec", claim.get("spec", {}))
    if name := spec.get("serviceName"):
        yield from syntax("spec.serviceName", name, namesyntax.label(name))


def _with_claim_volumes(spec: Data) -> Data:
    """The specification with the volumes that its claim templates will become, and without what the pods are named."""
    pod = {name: value for name, value in spec.get("template", {}).get("spec", {}).items() if name not in _OVERWRITTEN}
    names = [claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates", ())]
    if names:
        made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
        pod["volumes"] = made + [volume for volume in pod.get("volumes", ()) if volume.get("name") not in names]
    return {**spec, "template": {**spec.get("template", {}), "spec": pod}}


_OVERWRITTEN = ("hostname", "subdomain")


def _same_selector(kind: Kind, new: Data, old: Data | None) -> Errors:
    if old is not None and not schema.same(kind, new, old, "spec", "selector"):
        yield invalid("spec.selector", new.get("spec", {}).get("selector"), IMMUTABLE)


def _selector_errors(spec: Data, kind: str, *, is_required: bool) -> Errors:
    selector = spec.get("selector")
    if selector is None:
        if is_required:
            yield required("spec.selector")
        return
    yield from label_selector("spec.selector", selector)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield invalid("spec.selector", selector, f"empty selector is invalid for {kind}")


def _template_errors(spec: Data, kind: str, *, is_selected: bool = True) -> Errors:
    template, selector = spec.get("template", {}), spec.get("selector") or {}
    labels = template.get("metadata", {}).get("labels", {})
    if (selector and not selects(selector, labels)) or not is_selected:
        yield invalid("spec.template.metadata.labels", labels or None, _MISMATCH)
    yield from template_errors("spec.template", template)
    pod = template.get("spec", {})
    if pod.get("restartPolicy") != "Always":
        yield not_supported("spec.template.spec.restartPolicy", pod.get("restartPolicy", ""), ("Always",))
    if "activeDeadlineSeconds" in pod:
        path = "spec.template.spec.activeDeadlineSeconds"
        yield forbidden(path, f"activeDeadlineSeconds in {kind} is not Supported")


def _unsupported(path: str, value: Any, allowed: tuple[str, ...]) -> FieldError:
    """Like an unsupported text, but what is shown is the whole strategy."""
    listed = ", ".join(f'"{each}"' for each in allowed)
    return FieldError(ErrorType.NOT_SUPPORTED, path, value, f"supported values: {listed}")


def _deployment_strategy_errors(strategy: Data) -> Errors:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    path = "spec.strategy"
    if kind == "Recreate":
        if rolling is not None:
            yield forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif kind == "RollingUpdate":
        yield from _rolling_errors(f"{path}.rollingUpdate", rolling or {})
    else:
        yield _unsupported(path, strategy, ("Recreate", "RollingUpdate"))


def _rolling_errors(path: str, rolling: Data) -> Errors:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    yield from int_or_percent(f"{path}.maxUnavailable", unavailable)
    yield from int_or_percent(f"{path}.maxSurge", surge)
    if amount_of(unavailable) == 0 and amount_of(surge) == 0:
        yield invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    yield from at_most_100_percent(f"{path}.maxUnavailable", unavailable)


def _daemon_strategy_errors(strategy: Data) -> Errors:
    kind = strategy.get("type")
    if kind == "RollingUpdate":
        path, rolling = "spec.updateStrategy.rollingUpdate", strategy.get("rollingUpdate", {})
        unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        for name, value in (("maxUnavailable", unavailable), ("maxSurge", surge)):
            yield from int_or_percent(f"{path}.{name}", value)
            yield from at_most_100_percent(f"{path}.{name}", value)
        if amount_of(unavailable) and amount_of(surge):
            yield invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
        if not amount_of(unavailable) and not amount_of(surge):
            yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif kind != "OnDelete":
        yield _unsupported("spec.updateStrategy", strategy, ("RollingUpdate", "OnDelete"))


def _stateful_strategy_errors(strategy: Data) -> Errors:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    path = "spec.updateStrategy"
    if kind == "OnDelete":
        if rolling is not None:
            yield invalid(f"{path}.rollingUpdate", rolling, "only allowed for updateStrategy 'RollingUpdate'")
    elif kind == "RollingUpdate":
        rolling = rolling or {}
        yield from nonnegative(f"{path}.rollingUpdate", rolling, "partition")
        if "maxUnavailable" in rolling:
            here, most = f"{path}.rollingUpdate.maxUnavailable", rolling["maxUnavailable"]
            yield from int_or_percent(here, most)
            if amount_of(most) == 0:
                yield invalid(here, most, "cannot be 0")
            yield from at_most_100_percent(here, most)
    else:
        yield invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'")
