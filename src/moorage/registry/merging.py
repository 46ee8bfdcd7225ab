"""How the fields of each kind merge: lists with keys, sets, and atomic maps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class MergeShape:
    """How the value of one field merges; for a list with keys, `fields` are those of its items.

    A field without a shape is plain: a map merges key by key, a list is atomic.
    """

    fields: Mapping[str, MergeShape] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    """The list map keys of server-side apply, in alphabetical order."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """The defaults of absent keys; an absent key without a default is left out of the item's name."""
    is_set: bool = False
    atomic: bool = False
    """A map that one manager owns as a whole."""
    by_value: bool = False
    """In Go not a pointer and thus always there, so nobody owns the field itself, only the fields in it."""
    merge_key: str = ""
    """The merge key of a strategic merge patch."""
    merges: bool = False
    """A strategic merge patch merges this list instead of replacing it."""
    replaces: bool = False
    """A strategic merge patch replaces this map instead of merging into it."""
    associative: bool = False
    """Managers own the items of this list separately."""


PLAIN = MergeShape()
ATOMIC = MergeShape(atomic=True)
SET = MergeShape(is_set=True, merges=True, associative=True)
UNPATCHED_SET = replace(SET, merges=False)


def pointer(**fields: MergeShape) -> MergeShape:
    """A struct that may be absent."""
    return MergeShape(fields)


def struct(**fields: MergeShape) -> MergeShape:
    """A struct that is always there."""
    return MergeShape(fields, by_value=True)


def keyed(*keys: str, item: MergeShape = PLAIN, **defaults: Any) -> MergeShape:
    """A list with keys, of which the first is also the merge key."""
    filled = {key: defaults.get(key, "") for key in keys if defaults.get(key, "") is not None}
    return MergeShape(item.fields, tuple(sorted(keys)), filled, merge_key=keys[0], merges=True, associative=True)


def unpatched(shape: MergeShape) -> MergeShape:
    """The same for server-side apply only: a strategic merge patch replaces it."""
    return replace(shape, merge_key="", merges=False)


def patched(merge_key: str) -> MergeShape:
    """A list with a merge key that is atomic in server-side apply."""
    return MergeShape(merge_key=merge_key, merges=True)


METADATA = struct(ownerReferences=keyed("uid"), finalizers=SET)
CONDITIONS = struct(conditions=keyed("type"))
HEALTH = keyed("status", "reason")


def shape(**fields: MergeShape) -> MergeShape:
    """The shape of a kind, of which only the fields that have one are given."""
    return MergeShape({"metadata": METADATA, "spec": struct(), "status": struct(), **fields})


OBJECT = shape()
"""The shape of kinds that have no merge keys of their own."""
