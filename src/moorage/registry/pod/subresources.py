"""Validation of updates of the pod subresources ephemeralcontainers and resize."""

from __future__ import annotations

from typing import Any

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.gotext import quote
from moorage.registry import schema
from moorage.registry.checks import Errors, differences
from moorage.registry.defaulting import keep
from moorage.registry.pod.pods import MIRROR, form_errors
from moorage.registry.pod.qos import qos_class
from moorage.validation.field import forbidden, invalid

_POD = kinds.row("v1", "Pod")
_COMPUTE = ("cpu", "memory")
_KEPT = {
    "containers": ("spec", "only cpu and memory resources are mutable"),
    "initContainers": (
        "spec.initContainers[{}]",
        "only cpu and memory resources for init or sidecar containers are mutable",
    ),
}
"""Path and detail of the error when other fields of a container were changed than a resize may change."""


def with_ephemeral_containers(new: Data, old: Data) -> Data:
    """The old spec with the new ephemeral containers."""
    spec = dict(old)
    keep(spec, new, ("ephemeralContainers",))
    return spec


def resized(new: Data, old: Data) -> Data:
    """The old spec with the new resources."""
    spec = dict(old)
    keep(spec, new, ("resources",))
    for field in ("containers", "initContainers"):
        before, after = old.get(field, []), new.get(field, [])
        if [container.get("name") for container in before] != [container.get("name") for container in after]:
            return new  # validation reports it
        merged = [dict(container) for container in before]
        for container, resized in zip(merged, after, strict=True):
            keep(container, resized, ("resources", "resizePolicy"))
        if merged:
            spec[field] = merged
    return spec


def _is_mirror(pod: Data) -> bool:
    return MIRROR in pod["metadata"].get("annotations", {})


def ephemeral_errors(new: Data, old: Data) -> Errors:
    """Validate new ephemeral containers."""
    if _is_mirror(old):
        yield forbidden("", "static pods do not support ephemeral containers")
        return
    path, spec = "spec.ephemeralContainers", new.get("spec", {})
    yield from form_errors(new, spec)
    containers = {container.get("name"): container for container in spec.get("ephemeralContainers", ())}
    for before in old.get("spec", {}).get("ephemeralContainers", ()):
        name = before["name"]
        if name not in containers:
            yield forbidden(path, f"existing ephemeral containers {quote(name)} may not be removed")
        elif not _same("ephemeralContainers", [containers[name]], [before]):
            lines = "\n".join(differences(path, before, containers[name]))
            yield forbidden(path, f"existing ephemeral containers {quote(name)} may not be changed\n{lines}")


def resize_errors(new: Data, old: Data) -> Errors:
    """Validate new resources of containers."""
    spec, before = new.get("spec", {}), old.get("spec", {})
    if _is_mirror(old):
        yield forbidden("", "static pods cannot be resized")
        return
    if before.get("os", {}).get("name") == "windows":
        yield forbidden("", "windows pods cannot be resized")
        return
    yield from form_errors(new, spec)
    if qos_class(spec) != qos_class(before):
        qos = new.get("status", {}).get("qosClass", "")
        yield invalid("spec", qos, "Pod QOS Class may not change as a result of resizing")
    if not _is_resizable(old.get("status", {})):
        yield forbidden("spec", "Pod running on node without support for resize")
    yield from _pod_level_errors(spec.get("resources"), before.get("resources"))
    moved = [*_order_errors("containers", spec, before), *_order_errors("initContainers", spec, before)]
    yield from moved
    if not moved:
        yield from _container_errors("initContainers", spec, before)
        yield from _container_errors("containers", spec, before)


def _is_resizable(status: Data) -> bool:
    """Whether the kubelet reports the resources of running containers, as one does that supports resize."""
    running = [
        container for container in status.get("containerStatuses", ()) if "running" in container.get("state", {})
    ]
    return not running or "resources" in running[0]


def _pod_level_errors(new: Data | None, old: Data | None) -> Errors:
    if old is not None and new is None:
        yield forbidden("spec.resources", "pod-level resources cannot be removed")
        return
    for part in ("requests", "limits"):
        if _is_removed(new, old, part):
            yield forbidden(f"spec.resources.{part}", f"pod-level resource {part} cannot be removed")
    if not _same("resources", _as_before(new, old), old or {}):
        yield forbidden("spec", "only cpu and memory resources are mutable at pod-level")


def _order_errors(field: str, spec: Data, before: Data) -> Errors:
    new, old = spec.get(field, ()), before.get(field, ())
    if len(new) != len(old):
        yield forbidden(f"spec.{field}", f"{field} may not be added or removed on resize")
        return
    for index, (after, was) in enumerate(zip(new, old, strict=True)):
        if after.get("name") != was.get("name"):
            yield forbidden(f"spec.{field}[{index}].name", f"{field} may not be renamed or reordered on resize")


def _container_errors(field: str, spec: Data, before: Data) -> Errors:
    where, why = _KEPT[field]
    for index, (new, old) in enumerate(zip(spec.get(field, ()), before.get(field, ()), strict=True)):
        resources, before_resources = new.get("resources", {}), old.get("resources", {})
        for part in ("requests", "limits"):
            if _is_removed(resources, before_resources, part):
                yield forbidden(f"spec.{field}[{index}].resources.{part}", f"resource {part} cannot be removed")
        if not _same(field, [{**new, "resources": _as_before(resources, before_resources)}], [old]):
            yield forbidden(where.format(index), why)


def _is_removed(new: Data | None, old: Data | None, part: str) -> bool:
    return not (old or {}).get(part, {}).keys() <= (new or {}).get(part, {}).keys()


def _as_before(new: Data | None, old: Data | None) -> Data:
    """The new resources with the old CPU and memory."""
    resources = dict(new or {})
    for part in ("requests", "limits"):
        amounts, old_amounts = resources.get(part, {}), (old or {}).get(part, {})
        others = {name: amount for name, amount in amounts.items() if name not in _COMPUTE}
        resources[part] = others | {name: old_amounts[name] for name in _COMPUTE if name in old_amounts}
    return resources


def _same(field: str, new: Any, old: Any) -> bool:
    return schema.same(_POD, {"spec": {field: new}}, {"spec": {field: old}}, "spec", field)
