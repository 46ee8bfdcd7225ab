"""ReplicaSets and their predecessors, ReplicationControllers."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry import selectable
from moorage.registry.checks import Errors, nonnegative
from moorage.registry.defaulting import absent, fill
from moorage.registry.merging import ATOMIC, CONDITIONS, METADATA, pointer, shape, struct
from moorage.registry.pod.merging import POD_SPEC, TEMPLATE_SHAPE
from moorage.registry.printing import cells
from moorage.registry.printing.columns import wide
from moorage.registry.strategy import SPEC, Strategy
from moorage.registry.usage import Usage
from moorage.registry.workload.templates import (
    REPLICA_COLUMNS,
    default_template,
    same_selector,
    selector_errors,
    template_columns,
    workload_columns,
    workload_template_errors,
)
from moorage.validation.field import required


def _default_replica_set(obj: Data, _: str) -> None:
    absent(obj.setdefault("spec", {}), replicas=1)
    default_template(obj, "spec.template.spec")


def _default_controller(obj: Data, _: str) -> None:
    spec = obj.setdefault("spec", {})
    absent(spec, replicas=1)
    if "template" in spec:  # validation requires it
        default_template(obj, "spec.template.spec")
    if labels := spec.get("template", {}).get("metadata", {}).get("labels"):
        fill(spec, (("selector", dict(labels)),))
        fill(obj.setdefault("metadata", {}), (("labels", dict(labels)),))


def _replica_set_errors(new: Data, old: Data | None) -> Errors:
    """Validate a ReplicaSet, or an update of one."""
    spec = new.get("spec", {})
    yield from nonnegative("spec", spec, "replicas", "minReadySeconds")
    yield from selector_errors(spec, "deployment", is_required=True)
    yield from workload_template_errors(spec, "ReplicaSet")
    yield from same_selector(REPLICA_SET.kind, new, old)


def _controller_errors(new: Data, _: Data | None) -> Errors:
    """Validate a ReplicationController."""
    spec = new.get("spec", {})
    yield from nonnegative("spec", spec, "replicas", "minReadySeconds")
    labels = spec.get("selector")
    if not labels:
        yield required("spec.selector")
    if "template" not in spec:
        yield required("spec.template")
    else:
        yield from workload_template_errors(
            {**spec, "selector": {"matchLabels": labels or {}}}, "ReplicationController"
        )


REPLICA_SET = Strategy(
    kind=kinds.row("apps/v1", "ReplicaSet"),
    prefix_checked=("create",),
    defaults=_default_replica_set,
    errors=_replica_set_errors,
    first_generation=1,
    counted=SPEC,
    merge=shape(spec=struct(selector=ATOMIC, template=TEMPLATE_SHAPE), status=CONDITIONS),
    columns=(*REPLICA_COLUMNS, *workload_columns()),
)


REPLICATION_CONTROLLER = Strategy(
    kind=kinds.row("v1", "ReplicationController"),
    usage=Usage(alias="replicationcontrollers"),
    prefix_checked=("create",),
    defaults=_default_controller,
    errors=_controller_errors,
    first_generation=1,
    counted=SPEC,
    fields={**selectable.NAMES, "status.replicas": selectable.at("status.replicas", "0")},
    merge=shape(spec=struct(selector=ATOMIC, template=pointer(metadata=METADATA, spec=POD_SPEC)), status=CONDITIONS),
    columns=(
        *REPLICA_COLUMNS,
        *template_columns("spec.template.spec.containers"),
        wide("Selector", lambda row: cells.label_text(row.spec.get("selector")), "Which pods belong to it."),
    ),
)
