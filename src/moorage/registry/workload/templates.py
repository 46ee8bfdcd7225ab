"""What workloads with pod templates have in common."""

from __future__ import annotations

from typing import Any

from moorage.api.kinds import Kind
from moorage.api.labels import selects
from moorage.api.meta import Data
from moorage.registry import schema
from moorage.registry.checks import IMMUTABLE, Errors, label_selector
from moorage.registry.defaulting import fill
from moorage.registry.pod.defaults import default_pod_spec
from moorage.registry.pod.spec import template_errors
from moorage.registry.printing import cells
from moorage.registry.printing.columns import AGE, NAME, Columns, integer, wide
from moorage.validation.field import ErrorType, FieldError, forbidden, invalid, not_supported, required

_MISMATCH = "`selector` does not match template `labels`"


def default_template(obj: Data, path: str) -> None:
    """Set the defaults of the pod template at a path."""
    part = obj
    for name in path.split("."):
        part = part.setdefault(name, {})
    default_pod_spec(part)


def default_rolling(strategy: Data, defaults: Data) -> None:
    """Set the defaults of a rolling update."""
    fill(strategy, (("type", "RollingUpdate"),))
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        for name, value in defaults.items():
            rolling.setdefault(name, value)


def same_selector(kind: Kind, new: Data, old: Data | None) -> Errors:
    """The selector of a workload is immutable."""
    if old is not None and not schema.same(kind, new, old, "spec", "selector"):
        yield invalid("spec.selector", new.get("spec", {}).get("selector"), IMMUTABLE)


def selector_errors(spec: Data, kind: str, *, is_required: bool) -> Errors:
    """Validate the selector of a workload."""
    selector = spec.get("selector")
    if selector is None:
        if is_required:
            yield required("spec.selector")
        return
    yield from label_selector("spec.selector", selector)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield invalid("spec.selector", selector, f"empty selector is invalid for {kind}")


def workload_template_errors(spec: Data, kind: str, *, needs_selector: bool = True) -> Errors:
    """Validate the template of a workload whose pods run for ever.

    Without a selector nothing matches; with a selector that is wrong the template is not judged, except of DaemonSets.
    """
    template, selector = spec.get("template", {}), spec.get("selector")
    labels = template.get("metadata", {}).get("labels", {})
    is_wrong = kind != "ReplicationController" and any(label_selector("", selector))
    if is_wrong and needs_selector:
        yield invalid("spec.selector", selector, "invalid label selector")
    elif selector is None or (selector and not is_wrong and not selects(selector, labels)):
        yield invalid("spec.template.metadata.labels", labels or None, _MISMATCH)
    if not is_wrong or not needs_selector:
        yield from template_errors("spec.template", template)
    elif kind == "ReplicaSet":
        return
    pod = template.get("spec", {})
    if pod.get("restartPolicy") != "Always":
        yield not_supported("spec.template.spec.restartPolicy", pod.get("restartPolicy", ""), ("Always",))
    if "activeDeadlineSeconds" in pod:
        path = "spec.template.spec.activeDeadlineSeconds"
        yield forbidden(path, f"activeDeadlineSeconds in {kind} is not Supported")


def unsupported(path: str, value: Any, allowed: tuple[str, ...]) -> FieldError:
    """Like not_supported, but showing the whole strategy as the value."""
    listed = ", ".join(f'"{name}"' for name in allowed)
    return FieldError(ErrorType.NOT_SUPPORTED, path, value, f"supported values: {listed}")


def template_columns(containers: str) -> Columns:
    """The columns of a pod template."""
    return (
        wide("Containers", cells.items(containers, "name"), "The names of the containers."),
        wide("Images", cells.items(containers, "image"), "The images of the containers."),
    )


def workload_columns(selected_by: str = "spec.selector", containers: str = "spec.template.spec.containers") -> Columns:
    """The columns of a pod template and its selector."""
    return (*template_columns(containers), wide("Selector", cells.selector(selected_by), "Which pods belong to it."))


REPLICA_COLUMNS: Columns = (
    NAME,
    integer("Desired", cells.value("spec.replicas", 1), "How many pods it should have."),
    integer("Current", cells.number("status.replicas"), "How many pods it has."),
    integer("Ready", cells.number("status.readyReplicas"), "How many of its pods are ready."),
    AGE,
)
