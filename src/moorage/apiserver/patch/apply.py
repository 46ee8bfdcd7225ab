"""Server-side apply: merge a configuration into an object, so that each manager keeps what it owns."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from http import HTTPStatus
from itertools import groupby
from operator import itemgetter
from typing import Any

from moorage.api.meta import Data
from moorage.apiserver.patch import fieldset
from moorage.apiserver.patch.compare import changes, element, field_set, named_items
from moorage.apiserver.patch.errors import Cause, PatchError, bounded, malformed, same
from moorage.apiserver.patch.fieldset import LEAF, FieldSet
from moorage.apiserver.patch.managed import Entry, ManagedWrite, entries_of, metadata_of, released, with_entries
from moorage.gotext import quote
from moorage.registry.merging import PLAIN, MergeShape

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATION_BYTES = 256 * 1024
_FIRST = "before-first-apply"
_KUBECTL = "kubectl"
_SCALE_VERSION = "autoscaling/v1"
"""In a conflict about the scale of a workload, the owner of its replicas is named with this version."""

_ALWAYS: FieldSet = {"f:apiVersion": LEAF, "f:kind": LEAF, "f:metadata": LEAF}

Conflicts = list[tuple[Entry, FieldSet]]


class ConflictError(PatchError):
    """Other managers own fields that the configuration would change."""

    def __init__(self, conflicts: Conflicts) -> None:
        conflicts = sorted(conflicts, key=lambda conflict: conflict[0].identity)
        owners = [(_owner(entry), path) for entry, fields in conflicts for path in fieldset.paths(fields)]
        causes = [Cause("FieldManagerConflict", f"conflict with {owner}", path) for owner, path in owners]
        super().__init__(_message(owners), HTTPStatus.CONFLICT, causes)


@bounded
def apply(write: ManagedWrite, live: Data | None, config: Any, *, force: bool = False) -> Data:
    """The object after a manager applied its configuration; defaults are not set yet.

    `live` is what there is now, None when the object is to be created. Raises ConflictError when others own what would
    change, unless forced. When nothing changes, the result equals `live`.
    """
    config = _checked(write, config)
    was = live or {}
    entries = entries_of(was) or _unknown_owners(write, was)
    owned = fieldset.in_order(_owned(write, config))
    mine = Entry(write.manager, "Apply", write.api_version, write.subresource, write.time, owned)
    last = next((entry for entry in entries if entry.identity == mine.identity), None)
    others = [entry for entry in entries if entry is not last]

    new = _merged_map(was, config, write.shape)
    if last is not None and last.fields != mine.fields:
        new = _pruned_map(new, last.fields, _together([*others, mine]), write.shape)
        # Pruning also removes maps and lists that it emptied; the configuration may contain them empty.
        new = _merged_map(new, config, write.shape)
    changed, removed = changes(write.tracked(was), write.tracked(new), write.shape)
    # A field that the configuration sets to null is removed, which is a change that can conflict.
    taken = fieldset.union(changed, fieldset.intersection(removed, mine.fields))
    conflicts = [(entry, both) for entry in others if (both := fieldset.intersection(entry.fields, taken))]
    if not force:
        _check(write, was, conflicts)
    if last is not None and last.fields == mine.fields and last.api_version == mine.api_version and same(new, was):
        mine = last
    entries = released(others, taken, removed)
    return with_entries(_annotated(write, new, config), [*entries, mine] if mine.fields else entries)


def _checked(write: ManagedWrite, config: Any) -> Data:
    if not isinstance(config, dict) or not isinstance(config.get("metadata", {}), dict):
        raise malformed("error decoding patch: an applied configuration is an object with metadata")
    api_version, kind = config.get("apiVersion"), config.get("kind")
    if (api_version, kind) != (write.api_version, write.kind):
        group, _, version = str(api_version or "").rpartition("/")
        raise malformed(f"invalid object type: {group}/{version}, Kind={kind or ''}")
    if metadata_of(config).get("managedFields") is not None:
        raise malformed("metadata.managedFields must be nil")
    return write.sent(config)


def _owned(write: ManagedWrite, config: Data) -> FieldSet:
    try:
        return field_set(write.tracked(config), write.shape)
    except PatchError as error:
        metadata = metadata_of(config)
        group, _, version = write.api_version.rpartition("/")
        name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {group}/{version}, Kind={write.kind}"
        raise malformed(f"failed to create typed patch object ({name}): {error.message}") from None


def _unknown_owners(write: ManagedWrite, live: Data) -> list[Entry]:
    """The entry for the fields of an object that was not tracked so far: one unknown manager, by updates."""
    fields, _ = changes({}, write.tracked(live), write.shape)
    return [Entry(_FIRST, "Update", write.api_version, write.subresource, write.time, fields)] if fields else []


def _together(entries: Iterable[Entry]) -> FieldSet:
    """The fields that any manager owns, and those that every object has."""
    fields = _ALWAYS
    for entry in entries:
        fields = fieldset.union(fields, entry.fields)
    return fields


def _merged_map(live: Data, config: Data, shape: MergeShape) -> Data:
    merged = dict(live)
    for name, value in config.items():
        field, old = shape.fields.get(name, PLAIN), merged.get(name)
        if value is not None:
            merged[name] = _merged(old, value, field)
        elif not (old and _is_granular(old, field)):
            merged.pop(name, None)
    return merged


def _is_granular(value: Any, shape: MergeShape) -> bool:
    return shape.associative if isinstance(value, list) else isinstance(value, dict) and not shape.atomic


def _merged(live: Any, config: Any, shape: MergeShape) -> Any:
    if isinstance(config, dict) and not shape.atomic:
        return _merged_map(live if isinstance(live, dict) else {}, config, shape)
    if isinstance(config, list) and shape.associative:
        return _merged_list(live, config, shape)
    return config


def _merged_list(live: Any, config: list[Any], shape: MergeShape) -> list[Any]:
    """The items of both lists: those of the configuration in its order, the others after the items they followed."""
    theirs, ours = named_items(live, shape) or {}, named_items(config, shape) or {}
    pending = deque(ours)
    shared = iter([name for name in ours if name in theirs])
    anchor = next(shared, None)
    merged = []
    for item in live if theirs else ():
        name = element(item, shape)
        if name not in ours:
            merged.append(item)
        elif name == anchor:
            while pending[0] != anchor:
                merged.append(_merged_item([], ours[pending.popleft()], shape))
            merged.append(_merged_item(theirs[pending.popleft()], ours[anchor], shape))
            anchor = next(shared, None)
    return merged + [_merged_item(theirs.get(name, []), ours[name], shape) for name in pending]


def _merged_item(live: list[Any], config: list[Any], shape: MergeShape) -> Any:
    if shape.is_set:
        return config[0]
    return _merged_map(live[0] if len(live) == 1 else {}, config[0], shape)


def _pruned_map(value: Data, last: FieldSet, keep: FieldSet, shape: MergeShape) -> Data:
    """A map without the fields that its manager applied last time and no longer does, unless another owns them."""
    pruned = dict(value)
    for name in value:
        before, kept = last.get(f"f:{name}"), keep.get(f"f:{name}")
        if before is None:
            continue
        if kept is None:
            del pruned[name]
            continue
        rest = _pruned(value[name], before, kept, shape.fields.get(name, PLAIN))
        if rest or not value[name]:
            pruned[name] = rest
        else:
            del pruned[name]
    return pruned


def _pruned(value: Any, last: FieldSet, keep: FieldSet, shape: MergeShape) -> Any:
    if not last or not _is_granular(value, shape):
        return value
    return _pruned_map(value, last, keep, shape) if isinstance(value, dict) else _pruned_list(value, last, keep, shape)


def _pruned_list(items: list[Any], last: FieldSet, keep: FieldSet, shape: MergeShape) -> list[Any]:
    pruned = []
    for item in items:
        name = element(item, shape) or ""
        before, kept = last.get(name), keep.get(name)
        if before is not None and fieldset.is_member(before) and (kept is None or not fieldset.is_member(kept)):
            continue
        pruned.append(_pruned_map(item, before, kept or LEAF, shape) if before and isinstance(item, dict) else item)
    return pruned


def _check(write: ManagedWrite, live: Data, conflicts: Conflicts) -> None:
    """Raise the conflicts. Fields of an earlier client-side `kubectl apply` count as kubectl's own."""
    if conflicts and write.manager == _KUBECTL:
        allowed = _applied_by_client(write, live)
        conflicts = [(entry, rest) for entry, fields in conflicts if (rest := fieldset.difference(fields, allowed))]
    if write.subresource == "scale":
        conflicts = [(entry._replace(api_version=_SCALE_VERSION), fields) for entry, fields in conflicts]
    if conflicts:
        raise ConflictError(conflicts)


def _annotations(item: Data) -> dict[str, Any]:
    annotations = metadata_of(item).get("annotations")
    return annotations if isinstance(annotations, dict) else {}


def _applied_by_client(write: ManagedWrite, live: Data) -> FieldSet:
    """The fields of the last-applied annotation that still have the value that was applied."""
    try:
        applied = json.loads(_annotations(live)[LAST_APPLIED])
        if applied.get("apiVersion") != write.api_version:
            return LEAF
        fields = field_set(write.tracked(applied), write.shape)
    except (KeyError, TypeError, ValueError, AttributeError, PatchError):
        return LEAF
    for differing in changes(write.tracked(applied), write.tracked(live), write.shape):
        fields = fieldset.difference(fields, differing)
    return fields


def _annotated(write: ManagedWrite, new: Data, config: Data) -> Data:
    """Keep the last-applied annotation up to date, in case the user goes back to client-side apply."""
    annotations = _annotations(new)
    if write.manager != _KUBECTL or not annotations.get(LAST_APPLIED):
        return new
    own = {name: value for name, value in _annotations(config).items() if name != LAST_APPLIED}
    metadata = {name: value for name, value in metadata_of(config).items() if name != "annotations"}
    plain = {**config, "metadata": {**metadata, **({"annotations": own} if own else {})}}
    annotations = {
        **annotations,
        LAST_APPLIED: json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":")) + "\n",
    }
    if (
        sum(len(name.encode()) + len(str(value).encode()) for name, value in annotations.items())
        > _MAX_ANNOTATION_BYTES
    ):
        del annotations[LAST_APPLIED]
    return {**new, "metadata": {**metadata_of(new), "annotations": annotations}}


def _owner(entry: Entry) -> str:
    text = quote(entry.manager)
    if entry.subresource:
        text += f" with subresource {quote(entry.subresource)}"
    return text if entry.operation == "Apply" else f"{text} using {entry.api_version}"


def _message(owners: list[tuple[str, str]]) -> str:
    if len(owners) == 1:
        return f"Apply failed with 1 conflict: conflict with {owners[0][0]}: {owners[0][1]}"
    lines = []
    for owner, group in groupby(owners, key=itemgetter(0)):
        lines += [f"conflicts with {owner}:", *(f"- {path}" for _, path in group)]
    return f"Apply failed with {len(owners)} conflicts: " + "\n".join(lines)
