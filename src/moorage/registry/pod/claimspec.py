"""The spec of a PersistentVolumeClaim, which pods and StatefulSets hold in templates."""

from __future__ import annotations

from moorage.api.meta import Data
from moorage.registry import namesyntax
from moorage.registry.checks import Errors, label_selector, positive_amount, syntax
from moorage.validation.field import forbidden, invalid, not_supported, required

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")


def access_mode_errors(path: str, modes: list[str]) -> Errors:
    """Validate access modes."""
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield not_supported(path, mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and any(mode != "ReadWriteOncePod" and mode in _ACCESS_MODES for mode in modes):
        yield forbidden(path, "may not use ReadWriteOncePod with other access modes")


def claim_spec_errors(path: str, spec: Data) -> Errors:
    """Validate the spec of a claim, also in templates of pods and StatefulSets."""
    modes = spec.get("accessModes", [])
    if not modes:
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    yield from label_selector(f"{path}.selector", spec.get("selector"))
    yield from access_mode_errors(f"{path}.accessModes", modes)
    size = spec.get("resources", {}).get("requests", {}).get("storage")
    if size is None:
        yield required(f"{path}.resources[storage]")
    else:
        yield from positive_amount(f"{path}.resources[storage]", size)
    for field in ("storageClassName", "volumeAttributesClassName"):
        if name := spec.get(field):
            yield from syntax(f"{path}.{field}", name, namesyntax.subdomain(name))
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        yield not_supported(f"{path}.volumeMode", mode, VOLUME_MODES)
    for field in ("dataSource", "dataSourceRef"):
        if (source := spec.get(field)) is not None:
            yield from _data_source_errors(f"{path}.{field}", source)


def _data_source_errors(path: str, source: Data) -> Errors:
    for name in ("name", "kind"):
        if not source.get(name):
            yield required(f"{path}.{name}")
    group = source.get("apiGroup", "")
    if not group and source.get("kind") != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield invalid(path, source.get("kind", ""), detail)
    elif group:
        yield from syntax(f"{path}.apiGroup", group, namesyntax.subdomain(group))
