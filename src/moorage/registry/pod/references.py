"""Validation of references to fields of a pod and to resources of its containers."""

from __future__ import annotations

from collections.abc import Collection

from moorage.api.meta import Data
from moorage.names import label_key_errors
from moorage.quantity import Quantity
from moorage.registry.checks import Errors, syntax
from moorage.validation.field import invalid, not_supported, required

_LABELS = ("metadata.annotations", "metadata.labels")
_KNOWN = (
    *_LABELS, "metadata.name", "metadata.namespace", "metadata.uid", "spec.host", "spec.nodeName",
    "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs",
    "status.phase", "status.podIP", "status.podIPs",
)  # fmt: skip
_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
    "requests.memory",
)  # fmt: skip
_HUGE_PAGES = ("requests.hugepages-", "limits.hugepages-")
_BYTES = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def field_ref_errors(path: str, reference: Data, fields: Collection[str]) -> Errors:
    """Validate a reference to one of the fields, or to a label or an annotation."""
    version, name = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version:
        yield required(f"{path}.apiVersion")
        return
    if not name:
        yield required(f"{path}.fieldPath")
        return
    place, subscript, key = name.removesuffix("']").partition("['") if name.endswith("']") else (name, "", "")
    if problem := _unknown(version, name, place if subscript else ""):
        yield invalid(f"{path}.fieldPath", name, f"error converting fieldPath: {problem}")
    elif subscript:
        key = key.lower() if place == "metadata.annotations" else key
        yield from syntax(path, key, label_key_errors(key))
    elif name not in fields:
        yield not_supported(f"{path}.fieldPath", name, sorted(fields))


def _unknown(version: str, name: str, place: str) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if place:
        return "" if place in _LABELS else f"field label does not support subscript: {name}"
    return "" if name in _KNOWN else f"field label not supported: {name}"


def resource_ref_errors(path: str, reference: Data, *, is_file: bool) -> Errors:
    """Validate a reference to a resource of a container, which a file must name."""
    resource = reference.get("resource", "")
    if is_file and not reference.get("containerName"):
        yield required(f"{path}.containerName")
    elif not resource:
        yield required(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        yield not_supported(f"{path}.resource", resource, _RESOURCES)
    divisor = reference.get("divisor", "0")
    what = resource.partition(".")[2]
    if Quantity.of(divisor).nano == 0 or not (resource in _RESOURCES or resource.startswith(_HUGE_PAGES)):
        return
    if what == "cpu" and divisor not in ("1m", "1"):
        detail = "only divisor's values 1m and 1 are supported with the cpu resource"
        yield invalid(f"{path}.divisor", resource, detail)
    elif what != "cpu" and divisor not in _BYTES:
        named = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(what, "hugepages")
        detail = f"only divisor's values {', '.join(_BYTES)} are supported with the {named} resource"
        yield invalid(f"{path}.divisor", resource, detail)
