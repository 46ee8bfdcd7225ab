"""StatefulSets."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry import namesyntax, schema
from moorage.registry.checks import Errors, amount_of, at_most_100_percent, int_or_percent, nonnegative, syntax
from moorage.registry.defaulting import absent, fill
from moorage.registry.merging import ATOMIC, CONDITIONS, shape, struct
from moorage.registry.pod.claimspec import claim_spec_errors
from moorage.registry.pod.defaults import default_claim_spec
from moorage.registry.pod.merging import TEMPLATE_SHAPE
from moorage.registry.printing import cells
from moorage.registry.printing.columns import AGE, NAME, column
from moorage.registry.strategy import SPEC, Strategy
from moorage.registry.workload.templates import (
    default_template,
    selector_errors,
    template_columns,
    workload_template_errors,
)
from moorage.validation.field import forbidden, invalid, not_supported

_MUTABLE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip

_FORBIDDEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)

_OVERWRITTEN = ("hostname", "subdomain")


def _defaults(obj: Data, _: str) -> None:
    spec = obj.setdefault("spec", {})
    absent(spec, replicas=1, revisionHistoryLimit=10)
    fill(spec, (("podManagementPolicy", "OrderedReady"),))
    default_template(obj, "spec.template.spec")
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    fill(retention, (("whenDeleted", "Retain"), ("whenScaled", "Retain")))
    for claim in spec.get("volumeClaimTemplates", ()):
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        fill(claim.setdefault("status", {}), (("phase", "Pending"),))
        default_claim_spec(claim.setdefault("spec", {}))


def _errors(new: Data, old: Data | None) -> Errors:
    """Validate a StatefulSet, or an update of one."""
    spec = new.get("spec", {})
    policy = spec.get("podManagementPolicy")
    if policy not in ("OrderedReady", "Parallel"):
        yield invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _strategy_errors(spec.get("updateStrategy", {}))
    retention = spec.get("persistentVolumeClaimRetentionPolicy", {})
    for name in ("whenDeleted", "whenScaled"):
        if name in retention and retention[name] not in ("Retain", "Delete"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            yield not_supported(path, retention[name], ("Retain", "Delete"))
    yield from nonnegative("spec", spec, "replicas", "minReadySeconds")
    if spec.get("ordinals", {}).get("start", 0) < 0:
        yield invalid("spec.ordinals.start", spec["ordinals"]["start"], "must be greater than or equal to 0")
    if old is None:
        yield from _create_errors(spec)
    yield from selector_errors(spec, "statefulset", is_required=True)
    yield from workload_template_errors(_with_claim_volumes(spec), "StatefulSet")
    if old is not None:
        before = old.get("spec", {})
        kept = {name: spec[name] for name in spec if name not in _MUTABLE}
        old_kept = {name: before[name] for name in before if name not in _MUTABLE}
        if not schema.same(STATEFUL_SET.kind, {"spec": kept}, {"spec": old_kept}, "spec"):
            yield forbidden("spec", _FORBIDDEN)


def _create_errors(spec: Data) -> Errors:
    for index, claim in enumerate(spec.get("volumeClaimTemplates", ())):
        yield from claim_spec_errors(f"spec.volumeClaimTemplates[{index}].spec", claim.get("spec", {}))
    if name := spec.get("serviceName"):
        yield from syntax("spec.serviceName", name, namesyntax.label(name))


def _with_claim_volumes(spec: Data) -> Data:
    """The spec with the volumes of its claim templates, and without the pod fields that the controller sets."""
    pod = {name: value for name, value in spec.get("template", {}).get("spec", {}).items() if name not in _OVERWRITTEN}
    names = [claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates", ())]
    if names:
        claim_volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
        pod["volumes"] = claim_volumes + [
            volume for volume in pod.get("volumes", ()) if volume.get("name") not in names
        ]
    return {**spec, "template": {**spec.get("template", {}), "spec": pod}}


def _strategy_errors(strategy: Data) -> Errors:
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


STATEFUL_SET = Strategy(
    kind=kinds.row("apps/v1", "StatefulSet"),
    names=namesyntax.label,
    defaults=_defaults,
    errors=_errors,
    first_generation=1,
    counted=SPEC,
    merge=shape(spec=struct(selector=ATOMIC, template=TEMPLATE_SHAPE, updateStrategy=struct()), status=CONDITIONS),
    columns=(
        NAME,
        column("Ready", cells.ratio("status.readyReplicas", "spec.replicas"), "How many of its pods are ready."),
        AGE,
        *template_columns("spec.template.spec.containers"),
    ),
)
