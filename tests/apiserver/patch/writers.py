"""Managers that write objects, and what they own afterwards in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.api.meta import Data
from moorage.apiserver.patch import fieldset
from moorage.apiserver.patch.apply import apply
from moorage.apiserver.patch.compare import named_items
from moorage.apiserver.patch.managed import ManagedWrite, track
from moorage.registry.merging import PLAIN, MergeShape

GROUPS = {
    "Pod": "v1",
    "ConfigMap": "v1",
    "Service": "v1",
    "Node": "v1",
    "Deployment": "apps/v1",
    "ResourceClaim": "resource.k8s.io/v1",
}


def at(second: int) -> str:
    return f"2025-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


def write(manager: str, kind: str = "Pod", *, second: int = 0, subresource: str = "") -> ManagedWrite:
    return ManagedWrite(GROUPS[kind], kind, manager, at(second), subresource)


def body(kind: str = "Pod", /, *, metadata: Mapping[str, Any] | None = None, **fields: Any) -> Data:
    """What a client sends: an object with a name."""
    return {"apiVersion": GROUPS[kind], "kind": kind, "metadata": {"name": "x", **(metadata or {})}, **fields}


class Cluster:
    """One object and the server's part of a write: a uid at the first, and a clock that ticks with each."""

    def __init__(self, kind: str = "Pod") -> None:
        self.kind = kind
        self.live: Data | None = None
        self.second = 0

    def create(self, manager: str, **fields: Any) -> Data:
        assert self.live is None
        return self._store(track(self._write(manager), None, body(self.kind, **fields)))

    def update(self, manager: str, *, subresource: str = "", **fields: Any) -> Data:
        """Change whole top-level fields; None removes."""
        assert self.live is not None
        new = {name: value for name, value in {**self.live, **fields}.items() if value is not None}
        return self._store(track(self._write(manager, subresource), self.live, new))

    def apply(self, manager: str, *, force: bool = False, subresource: str = "", **fields: Any) -> Data:
        config = body(self.kind, **fields)
        return self._store(apply(self._write(manager, subresource), self.live, config, force=force))

    def _write(self, manager: str, subresource: str = "") -> ManagedWrite:
        self.second += 1
        return write(manager, self.kind, second=self.second, subresource=subresource)

    def _store(self, item: Data) -> Data:
        self.live = {**item, "metadata": {**item["metadata"], "uid": "1"}}
        return self.live

    @property
    def owners(self) -> dict[str, list[str]]:
        """What each manager owns; who has several entries has the operation and subresource after the name."""
        assert self.live is not None
        owned = {}
        for entry in self.live["metadata"].get("managedFields", []):
            name = " ".join([entry["manager"], entry["operation"], entry.get("subresource", "")]).strip()
            owned[name] = list(fieldset.paths(entry["fieldsV1"]))
        return owned

    def bare(self) -> Data:
        """The object as a client thinks of it."""
        assert self.live is not None
        metadata = {
            name: value for name, value in self.live["metadata"].items() if name not in ("managedFields", "uid")
        }
        return {**self.live, "metadata": metadata}


def holds(item: Any, config: Any, shape: MergeShape) -> bool:
    """Whether an object has all that a configuration says, whatever else it has."""
    if isinstance(config, dict) and not shape.atomic:
        return isinstance(item, dict) and all(
            name in item and holds(item[name], value, shape.fields.get(name, PLAIN)) for name, value in config.items()
        )
    if isinstance(config, list) and shape.associative:
        ours, theirs = named_items(config, shape) or {}, named_items(item, shape) or {}
        inner = MergeShape(shape.fields)
        return all(name in theirs and holds(theirs[name][0], items[0], inner) for name, items in ours.items())
    return bool(item == config)
