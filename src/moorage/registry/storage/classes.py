"""StorageClasses."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.names import label_key_errors
from moorage.registry.checks import Errors, repeated, syntax, unchanged
from moorage.registry.defaulting import absent
from moorage.registry.printing import cells
from moorage.registry.printing.cells import PrintedRow
from moorage.registry.printing.columns import AGE, NAME_TEXT, column
from moorage.registry.strategy import Strategy
from moorage.validation.field import duplicate, invalid, not_supported, required, too_long

_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_MAX_PARAMETERS = 512
_MAX_PARAMETER_BYTES = 256 * 1024


def _defaults(obj: Data, _: str) -> None:
    absent(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _errors(new: Data, old: Data | None) -> Errors:
    """Validate a StorageClass, or an update of one."""
    if old is not None:
        for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            yield from unchanged(name, new.get(name) or None, old.get(name) or None)
    provisioner = new.get("provisioner", "")
    if not provisioner:
        yield required("provisioner")
    else:
        yield from syntax("provisioner", provisioner.lower(), label_key_errors(provisioner.lower()))
    parameters = new.get("parameters", {})
    if len(parameters) > _MAX_PARAMETERS:
        yield too_long("parameters", _MAX_PARAMETERS)
    elif sum(len(key) + len(value) for key, value in parameters.items()) > _MAX_PARAMETER_BYTES:
        yield too_long("parameters", _MAX_PARAMETER_BYTES)
    if "" in parameters:
        yield invalid("parameters", "", "field can not be empty.")
    policy, mode = new.get("reclaimPolicy"), new.get("volumeBindingMode")
    if policy and policy not in ("Delete", "Retain"):
        yield not_supported("reclaimPolicy", policy, ("Delete", "Retain"))
    if mode is None:
        yield required("volumeBindingMode")
    elif mode not in _BINDING_MODES:
        yield not_supported("volumeBindingMode", mode, _BINDING_MODES)
    yield from _topology_errors(new.get("allowedTopologies", ()))


def _topology_errors(terms: Sequence[Data]) -> Errors:
    seen: list[dict[str, set[str]]] = []
    for index, term in enumerate(terms):
        path = f"allowedTopologies[{index}].matchLabelExpressions"
        found: dict[str, set[str]] = {}
        for at, requirement in enumerate(term.get("matchLabelExpressions", ())):
            here, key, values = f"{path}[{at}]", requirement.get("key", ""), requirement.get("values", [])
            if not values:
                yield required(f"{here}.values")
            yield from repeated(f"{here}.values", values)
            yield from syntax(f"{here}.key", key, label_key_errors(key))
            if key in found:
                yield duplicate(f"{here}.key", key)
            found[key] = set(values)
        # Kubernetes takes a term without requirements for a repetition.
        if found in seen or not found:
            yield duplicate(path, "")
        seen.append(found)


_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _class_name(row: PrintedRow) -> str:
    """The name of a storage class, marked when it is the default."""
    annotations = row.metadata.get("annotations") or {}
    is_default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return f"{cells.name(row)} (default)" if is_default else cells.name(row)


STORAGE_CLASS = Strategy(
    kind=kinds.row("storage.k8s.io/v1", "StorageClass"),
    defaults=_defaults,
    errors=_errors,
    columns=(
        column("Name", _class_name, NAME_TEXT, format="name"),
        column("Provisioner", cells.at("provisioner"), "Who makes its volumes."),
        column("ReclaimPolicy", cells.at("reclaimPolicy", "Delete"), "What becomes of a volume after its claim."),
        column("VolumeBindingMode", cells.at("volumeBindingMode", "Immediate"), "When a claim gets its volume."),
        column("AllowVolumeExpansion", cells.at("allowVolumeExpansion", False), "Whether its volumes can grow."),
        AGE,
    ),
)
