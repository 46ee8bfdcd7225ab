"""The metadata of objects: what the server sets, what an update keeps, and validation."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.gotext import quote
from moorage.names import label_key_errors, label_value_errors
from moorage.registry import namesyntax, strategy
from moorage.registry.checks import IMMUTABLE
from moorage.validation.field import FieldError, forbidden, invalid, required, too_long

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_MAX_PREFIX_LENGTH = 63 - _SUFFIX_LENGTH
_MAX_ANNOTATIONS = 256 * 1024
_MAX_MANAGER = 128
_SERVER_OWNED = (
    "creationTimestamp",
    "uid",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "generation",
)
_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")

_NAMES: dict[tuple[str, str], namesyntax.Syntax] = {
    ("", "Namespace"): namesyntax.label,
    ("", "Service"): namesyntax.label,
    ("apps", "StatefulSet"): namesyntax.label,
    ("", "Event"): namesyntax.path_segment,
    ("policy", "PodDisruptionBudget"): namesyntax.path_segment,
    ("rbac.authorization.k8s.io", "Role"): namesyntax.path_segment,
    ("rbac.authorization.k8s.io", "RoleBinding"): namesyntax.path_segment,
    ("rbac.authorization.k8s.io", "ClusterRole"): namesyntax.path_segment,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): namesyntax.path_segment,
}
"""The name syntax of kinds whose names are not DNS subdomains."""
_ANY_FINALIZER = ("rbac.authorization.k8s.io", "coordination.k8s.io", "policy", "events.k8s.io")
"""Groups whose finalizers need no prefix."""
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


class MetadataError(ValueError):
    """The metadata contradicts the request. The message is that of a 400."""


def generated_name(prefix: str) -> str:
    """The prefix and five random characters without vowels, as in Kubernetes."""
    return prefix[:_MAX_PREFIX_LENGTH] + "".join(random.choices(_ALPHABET, k=_SUFFIX_LENGTH))


def prepare_create(kind: Kind, obj: Data, namespace: str, now: str, uid: str) -> None:
    """Set the metadata and the initial status of a new object in place.

    After defaults and admission, because the QoS class depends on them.
    """
    metadata = obj.setdefault("metadata", {})
    if metadata.get("resourceVersion"):
        raise MetadataError("resourceVersion should not be set on objects to be created")
    metadata.pop("resourceVersion", None)
    _settle_namespace(kind, metadata, namespace)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated_name(metadata["generateName"])
    for name in _SERVER_OWNED:
        metadata.pop(name, None)
    metadata["creationTimestamp"] = now
    metadata["uid"] = uid
    if kind.kind in strategy.GENERATIONS:
        metadata["generation"] = 1
    strategy.on_create(kind, obj, now)


def prepare_update(kind: Kind, new: Data, old: Data, subresource: str = "", now: str = "") -> None:
    """Keep, in place, what an update cannot change: metadata of the server, and the spec or the status.

    After defaults and admission of `new`, otherwise the generation would count changes that are none.
    """
    metadata, before = new.setdefault("metadata", {}), old["metadata"]
    _settle_namespace(kind, metadata, before.get("namespace", ""))
    if not metadata.get("name"):
        _copy(metadata, before, "name")
    metadata.pop("selfLink", None)
    _copy(metadata, before, "generation")
    strategy.on_update(kind, new, old, subresource, now)
    if not metadata.get("uid"):
        _copy(metadata, before, "uid")
    for name in ("creationTimestamp", "deletionTimestamp"):
        if before.get(name):
            metadata[name] = before[name]
    if metadata.get("deletionGracePeriodSeconds") is None:
        _copy(metadata, before, "deletionGracePeriodSeconds")


def metadata_errors(kind: Kind, obj: Data, old: Data | None = None) -> list[FieldError]:
    """Validate the metadata of a new object, or of an update of `old`."""
    metadata = obj.get("metadata", {})
    errors: list[FieldError] = []
    if old is None:
        errors += _name_errors(kind, metadata)
        errors += _namespace_errors(kind, metadata)
    for name, check in _CHECKS:
        if value := metadata.get(name):
            errors += check(f"metadata.{name}", value)
    if finalizers := metadata.get("finalizers"):
        errors += _finalizer_errors(kind, finalizers)
    if old is not None:
        errors += _update_errors(metadata, old["metadata"])
    return errors


def label_errors(path: str, labels: dict[str, str]) -> Iterator[FieldError]:
    """Validate labels."""
    for key, value in labels.items():
        for problem in label_key_errors(key):
            yield invalid(path, key, problem)
        for problem in label_value_errors(value):
            yield invalid(path, value, problem)


def annotation_errors(path: str, annotations: dict[str, str]) -> Iterator[FieldError]:
    """Validate annotations; their keys may have capitals."""
    size = 0
    for key, value in annotations.items():
        for problem in label_key_errors(key.lower()):
            yield invalid(path, key, problem)
        size += _size(key) + _size(value)
    if size > _MAX_ANNOTATIONS:
        yield too_long(path, _MAX_ANNOTATIONS)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _settle_namespace(kind: Kind, metadata: Data, namespace: str) -> None:
    own_namespace = metadata.get("namespace")
    if not kind.namespaced:
        metadata.pop("namespace", None)
    elif not own_namespace:
        metadata["namespace"] = namespace
    elif own_namespace != namespace:
        raise MetadataError("the namespace of the provided object does not match the namespace sent on the request")


def _copy(new: Data, old: Data, name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def _name_errors(kind: Kind, metadata: Data) -> Iterator[FieldError]:
    syntax = _NAMES.get((kind.group, kind.kind), namesyntax.subdomain)
    if prefix := metadata.get("generateName"):
        for problem in namesyntax.prefix(syntax, prefix):
            yield invalid("metadata.generateName", prefix, problem)
    name = metadata.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
        return
    for problem in syntax(name):
        yield invalid("metadata.name", name, problem)


def _namespace_errors(kind: Kind, metadata: Data) -> Iterator[FieldError]:
    namespace = metadata.get("namespace")
    if not kind.namespaced:
        if namespace:
            yield forbidden("metadata.namespace", "not allowed on this type")
    elif not namespace:
        yield required("metadata.namespace")
    else:
        for problem in namesyntax.label(namespace):
            yield invalid("metadata.namespace", namespace, problem)


def _owner_errors(path: str, owners: list[Data]) -> Iterator[FieldError]:
    controller = ""
    for owner in owners:
        group, _, version = owner.get("apiVersion", "").rpartition("/")
        if not version:
            yield invalid(f"{path}.apiVersion", owner.get("apiVersion", ""), "version must not be empty")
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield invalid(f"{path}.{name}", "", "must not be empty")
        if (group, version, owner.get("kind")) == ("", "v1", "Event"):
            yield invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            name = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {name}"
                )
                yield invalid(path, owners, detail)
            else:
                controller = name


def _finalizer_errors(kind: Kind, finalizers: list[str]) -> Iterator[FieldError]:
    path = "metadata.finalizers"
    for finalizer in finalizers:
        for problem in label_key_errors(finalizer):
            yield invalid(path, finalizer, problem)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        yield invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")
    if kind.group not in _ANY_FINALIZER:
        for index, finalizer in enumerate(finalizers):
            yield from unqualified_finalizer(f"{path}[{index}]", finalizer)


def unqualified_finalizer(path: str, finalizer: str) -> Iterator[FieldError]:
    """Validate that a finalizer has a prefix or is one of Kubernetes' own."""
    if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
        yield invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified")


def _manager_errors(path: str, entries: list[Data]) -> Iterator[FieldError]:
    for index, entry in enumerate(entries):
        here = f"{path}[{index}]"
        if entry.get("operation") not in ("Apply", "Update"):
            yield invalid(f"{here}.operation", entry.get("operation", ""), "must be `Apply` or `Update`")
        if entry.get("fieldsType") not in (None, "", "FieldsV1"):
            yield invalid(f"{here}.fieldsType", entry["fieldsType"], "must be `FieldsV1`")
        if _size(entry.get("manager", "")) > _MAX_MANAGER:
            yield too_long(f"{here}.manager", _MAX_MANAGER)


_CHECKS: tuple[tuple[str, Callable[[str, Any], Iterator[FieldError]]], ...] = (
    ("labels", label_errors),
    ("annotations", annotation_errors),
    ("ownerReferences", _owner_errors),
    ("managedFields", _manager_errors),
)


def _update_errors(new: Data, old: Data) -> Iterator[FieldError]:
    if old.get("deletionTimestamp"):
        added = sorted(set(new.get("finalizers", ())) - set(old.get("finalizers", ())))
        if added:
            listed = ", ".join(map(quote, added))
            yield forbidden(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{listed}}}",
            )
    for name in _IMMUTABLE:
        if (new.get(name) or None) != (old.get(name) or None):
            yield invalid(f"metadata.{name}", new.get(name), IMMUTABLE)
