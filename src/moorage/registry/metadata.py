"""The metadata of objects: what the server sets, what an update keeps, and validation."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.gotext import quote
from moorage.names import label_key_errors, label_value_errors
from moorage.registry import namesyntax
from moorage.registry.checks import IMMUTABLE
from moorage.registry.defaulting import keep
from moorage.registry.strategy import Strategy
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
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


class MetadataError(ValueError):
    """The metadata contradicts the request. The message is that of a 400."""


def generated_name(prefix: str) -> str:
    """The prefix and five random characters without vowels, as in Kubernetes."""
    return prefix[:_MAX_PREFIX_LENGTH] + "".join(random.choices(_ALPHABET, k=_SUFFIX_LENGTH))


def prepare_create(strategy: Strategy, obj: Data, namespace: str, now: str, uid: str) -> None:
    """Set the metadata of a new object in place."""
    metadata = obj.setdefault("metadata", {})
    if metadata.get("resourceVersion"):
        raise MetadataError("resourceVersion should not be set on objects to be created")
    metadata.pop("resourceVersion", None)
    settle_namespace(strategy.kind, metadata, namespace)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated_name(metadata["generateName"])
    for name in _SERVER_OWNED:
        metadata.pop(name, None)
    metadata["creationTimestamp"] = now
    metadata["uid"] = uid
    if strategy.first_generation:
        metadata["generation"] = strategy.first_generation


def prepare_update(strategy: Strategy, new: Data, old: Data) -> None:
    """Keep, in place, the metadata that an update cannot change."""
    metadata, before = new.setdefault("metadata", {}), old["metadata"]
    settle_namespace(strategy.kind, metadata, before.get("namespace", ""))
    if not metadata.get("name"):
        keep(metadata, before, ("name",))
    metadata.pop("selfLink", None)
    keep(metadata, before, ("generation",))
    if not metadata.get("uid"):
        keep(metadata, before, ("uid",))
    for name in ("creationTimestamp", "deletionTimestamp"):
        if before.get(name):
            metadata[name] = before[name]
    if metadata.get("deletionGracePeriodSeconds") is None:
        keep(metadata, before, ("deletionGracePeriodSeconds",))


def metadata_errors(strategy: Strategy, obj: Data, old: Data | None = None) -> list[FieldError]:
    """Validate the metadata of a new object, or of an update of `old`."""
    metadata = obj.get("metadata", {})
    errors: list[FieldError] = []
    if old is None:
        errors += _name_errors(strategy, metadata)
        errors += _namespace_errors(strategy.kind, metadata)
    elif prefix := metadata.get("generateName"):
        errors += _prefix_errors(strategy, "update", prefix)
    for name, check in _CHECKS:
        if value := metadata.get(name):
            errors += check(f"metadata.{name}", value)
    if finalizers := metadata.get("finalizers"):
        is_bare = ("create" if old is None else "update") in strategy.bare_finalizers
        errors += _finalizer_errors(finalizers, is_bare=is_bare)
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


def template_metadata_errors(path: str, metadata: Data) -> Iterator[FieldError]:
    """Validate the metadata that a template of claims gives them: labels and annotations, and nothing else."""
    yield from annotation_errors(f"{path}.annotations", metadata.get("annotations", {}))
    yield from label_errors(f"{path}.labels", metadata.get("labels", {}))
    for name, value in metadata.items():
        if value not in ("", 0) and name not in ("annotations", "labels"):
            yield forbidden(f"{path}.{name}", "cannot be set")


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def settle_namespace(kind: Kind, metadata: Data, namespace: str) -> None:
    """Put an object into the namespace of the request. Raises MetadataError when it says another."""
    own_namespace = metadata.get("namespace")
    if not kind.namespaced:
        metadata.pop("namespace", None)
    elif not own_namespace:
        metadata["namespace"] = namespace
    elif own_namespace != namespace:
        raise MetadataError("the namespace of the provided object does not match the namespace sent on the request")


def _name_errors(strategy: Strategy, metadata: Data) -> Iterator[FieldError]:
    syntax = strategy.names
    if prefix := metadata.get("generateName"):
        yield from _prefix_errors(strategy, "create", prefix)
    name = metadata.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
        return
    for problem in syntax(name):
        yield invalid("metadata.name", name, problem)


def _prefix_errors(strategy: Strategy, verb: str, prefix: str) -> Iterator[FieldError]:
    syntax = strategy.names if verb in strategy.prefix_checked else namesyntax.path_segment
    for problem in namesyntax.prefix(syntax, prefix):
        yield invalid("metadata.generateName", prefix, problem)


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


def _finalizer_errors(finalizers: list[str], *, is_bare: bool) -> Iterator[FieldError]:
    path = "metadata.finalizers"
    for finalizer in finalizers:
        for problem in label_key_errors(finalizer):
            yield invalid(path, finalizer, problem)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        yield invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")
    if not is_bare:
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
