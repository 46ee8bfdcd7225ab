"""The managedFields of an object: who owns which fields, and how a create or update changes that."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from moorage.api.meta import Data
from moorage.apiserver.patch import fieldset
from moorage.apiserver.patch.compare import changes
from moorage.apiserver.patch.errors import bounded
from moorage.apiserver.patch.fieldset import FieldSet
from moorage.bounded import remember_short
from moorage.registry.merging import MergeShape
from moorage.registry.table import shape_of, strategy_named

MAX_UPDATE_MANAGERS = 10
MAX_NAME_BYTES = 128
_ANCIENT = "ancient-changes"

_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)

_UNTRACKED = frozenset(("apiVersion", "kind"))
_UNTRACKED_METADATA = frozenset(
    (
        "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
        "resourceVersion",
    )
)  # fmt: skip
_RESETS = {"": "status", "status": "spec"}
"""The top-level field that a write to the object, or to a subresource, does not change."""


@dataclass(frozen=True, slots=True)
class ManagedWrite:
    """The manager, the kind, the subresource and the time of a write: `2025-01-31T12:00:00Z`."""

    api_version: str
    kind: str
    manager: str
    time: str
    subresource: str = ""

    @property
    def group(self) -> str:
        """The group of the kind."""
        return self.api_version.rpartition("/")[0]

    @property
    def shape(self) -> MergeShape:
        """How the kind merges."""
        return shape_of(self.group, self.kind)

    def tracked(self, item: Data) -> Data:
        """The part of an object whose fields this write can own."""
        top, inner = _ignored(self.group, self.kind, self.subresource)
        part = {name: value for name, value in item.items() if name not in top}
        metadata = part.pop("metadata", None)
        if isinstance(metadata, dict):
            metadata = {name: value for name, value in metadata.items() if name not in inner}
            if metadata:
                part["metadata"] = metadata
        return part

    def sent(self, config: Data) -> Data:
        """The part of a configuration that this write can change, without nulls for fields of the server."""
        top, inner = _ignored(self.group, self.kind, self.subresource)
        part = {name: value for name, value in config.items() if name not in top or name in _UNTRACKED}
        part["metadata"] = {
            name: value
            for name, value in metadata_of(config).items()
            if (value is not None if name in _UNTRACKED_METADATA else name not in inner and "metadata" not in top)
        }
        return part


@cache
def _ignored(group: str, kind: str, subresource: str) -> tuple[frozenset[str], frozenset[str]]:
    top, inner = _UNTRACKED | {_RESETS.get(subresource, "")}, _UNTRACKED_METADATA
    strategy = strategy_named(group, kind)
    if subresource == "status" and strategy is not None:
        inner |= frozenset(strategy.status_keeps)
        if not strategy.status_owns_metadata:
            top |= {"metadata"}
    return top, inner


class Entry(NamedTuple):
    """The fields that one manager owns by one operation."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str
    fields: FieldSet

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Entries with the same identity are joined. That of an applier does not depend on the version."""
        return self.manager, self.operation, "" if self.operation == "Apply" else self.api_version, self.subresource

    @property
    def wire(self) -> dict[str, Any]:
        """The entry as it stands in the object."""
        return {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            **({"time": self.time} if self.time else {}),
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields,
            **({"subresource": self.subresource} if self.subresource else {}),
        }


def manager_name(field_manager: str, user_agent: str) -> str:
    """The name of the manager of a write: its fieldManager, or else the name of its client."""
    return field_manager or _agent_name(user_agent)


@remember_short(1024)
def _agent_name(user_agent: str) -> str:
    name = "".join(char for char in user_agent.partition("/")[0] if char.isprintable())
    return name.encode("utf-8", "replace")[:MAX_NAME_BYTES].decode("utf-8", "ignore") or "unknown"


@bounded
def track(write: ManagedWrite, live: Data | None, new: Data) -> Data:
    """The new object with its managedFields updated. `live` is the one that it replaces, None for a create."""
    was = live or {}
    entries = _entries(write, was, new)
    if not entries and metadata_of(was).get("uid"):
        # Nobody owns anything: the object was created untracked, or a client reset it. Tracking begins when it is
        # applied.
        return with_entries(new, ())
    changed, removed = changes(write.tracked(was), write.tracked(new), write.shape)
    if changed or removed:
        entries = released(entries, changed, removed)
    if changed:
        entries = _capped(claimed(entries, Entry(*_identity(write, "Update"), write.time, changed)))
    return with_entries(new, entries)


def _identity(write: ManagedWrite, operation: str) -> tuple[str, str, str, str]:
    return write.manager or "unknown", operation, write.api_version, write.subresource


def released(entries: Iterable[Entry], *taken: FieldSet) -> list[Entry]:
    """The entries without fields that another manager took or that are removed; empty entries are dropped."""
    kept = []
    for entry in entries:
        fields = entry.fields
        for lost in taken:
            fields = fieldset.difference(fields, lost)
        if fields:
            kept.append(entry._replace(fields=fields))
    return kept


def claimed(entries: Iterable[Entry], new: Entry) -> list[Entry]:
    """The entries with a new one, which is joined with the one of the same identity."""
    others = []
    for entry in entries:
        if entry.identity == new.identity:
            new = new._replace(fields=fieldset.union(entry.fields, new.fields))
        else:
            others.append(entry)
    return [*others, new._replace(fields=fieldset.in_order(new.fields))]


def _capped(entries: list[Entry]) -> list[Entry]:
    """The entries, with the oldest updates joined when there are too many."""
    updates = [entry for entry in entries if entry.operation == "Update"]
    excess = len(updates) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return entries
    updates.sort(key=lambda entry: (entry.manager != _ANCIENT, entry.time, entry.identity))
    joined: dict[str, list[Entry]] = {}
    for entry in updates:
        if excess <= 0:
            break
        same = joined.setdefault(entry.api_version, [])
        excess -= bool(same)
        same.append(entry)
    joined = {version: same for version, same in joined.items() if len(same) > 1}
    gone = {id(entry) for same in joined.values() for entry in same}
    ancient = [
        Entry(_ANCIENT, "Update", version, "", same[-1].time, fieldset.union_of([each.fields for each in same]))
        for version, same in joined.items()
    ]
    return [entry for entry in entries if id(entry) not in gone] + ancient


def with_entries(item: Data, entries: Sequence[Entry]) -> Data:
    """An object with these managedFields."""
    metadata = {name: value for name, value in metadata_of(item).items() if name != "managedFields"}
    if entries:
        ordered = sorted(entries, key=lambda entry: (entry.operation, entry.time, entry.manager, entry.identity))
        metadata["managedFields"] = [entry.wire for entry in ordered]
    return {**item, "metadata": metadata}


def metadata_of(item: Data) -> dict[str, Any]:
    """The metadata of an object, empty when it has none."""
    metadata = item.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _entries(write: ManagedWrite, live: Data, new: Data) -> list[Entry]:
    """The entries before this write. A client may send its own, but not through a subresource."""
    stored, sent = metadata_of(live).get("managedFields"), metadata_of(new).get("managedFields")
    if write.subresource or sent is None or sent == stored:
        return entries_of(live)
    if sent in ([], [{}]):
        return []
    return decoded(sent) or entries_of(live)


def entries_of(item: Data) -> list[Entry]:
    """The entries of a stored object."""
    entries = metadata_of(item).get("managedFields")
    if not isinstance(entries, list):
        return []
    try:
        return [
            Entry(
                entry.get("manager", ""),
                entry["operation"],
                entry["apiVersion"],
                entry.get("subresource", ""),
                entry.get("time", ""),
                entry["fieldsV1"],
            )
            for entry in entries
        ]
    except (KeyError, TypeError, AttributeError):
        return decoded(entries) or []


def decoded(entries: Any) -> list[Entry] | None:
    """The entries that a client sends; None when one of them is invalid."""
    if not isinstance(entries, list):
        return None
    by_identity: dict[tuple[str, ...], Entry] = {}
    for raw in entries:
        entry = _decoded(raw)
        if entry is None:
            return None
        by_identity[entry.identity] = entry
    return [entry for entry in by_identity.values() if entry.fields]


def _decoded(raw: Any) -> Entry | None:
    if (
        not isinstance(raw, dict)
        or raw.get("operation") not in ("Apply", "Update")
        or raw.get("fieldsType") != "FieldsV1"
    ):
        return None
    texts = [raw.get(name) or "" for name in ("manager", "operation", "apiVersion", "subresource")]
    if not all(isinstance(text, str) for text in texts) or not texts[2]:
        return None
    time, fields = _utc_seconds(raw.get("time") or ""), fieldset.canonical(raw.get("fieldsV1") or {})
    if time is None or fields is None:
        return None
    return Entry(texts[0], texts[1], texts[2], texts[3], time, fields)


def _utc_seconds(time: Any) -> str | None:
    if not isinstance(time, str):
        return None
    if not time or _SECONDS.fullmatch(time):
        return time
    try:
        moment = datetime.fromisoformat(time)
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
