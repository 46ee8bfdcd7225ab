"""The objects of manifests or of a running cluster, typed, each with the file and line that it was read from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from moorage.api import kinds
from moorage.api.decode import DecodeError, from_manifest
from moorage.api.manifests import Document, ManifestError
from moorage.api.meta import Object

ObjectType = TypeVar("ObjectType", bound=Object)


@dataclass(frozen=True, slots=True)
class ClusterObject:
    """An object, and the document of the manifest that it was read from, if any."""

    object: Object
    document: Document | None = None

    @property
    def name(self) -> str:
        """How people name the object: `Pod default/web`."""
        meta = self.object.metadata
        kind = kinds.of(self.object)
        name = meta.name or (f"{meta.generate_name}…" if meta.generate_name else "(no name)")
        return f"{kind.kind} {meta.namespace or 'default'}/{name}" if kind.namespaced else f"{kind.kind} {name}"

    def place(self, path: str = "") -> str:
        """Where the object, or one of its fields, stands: `pods.yaml:12`."""
        return f"{self.document.file}:{self.line(path)}" if self.document else ""

    @property
    def file(self) -> str:
        """The file the object came from."""
        return self.document.file if self.document else ""

    def line(self, path: str = "") -> int:
        """The line on which the object, or one of its fields, stands."""
        if self.document is None:
            return 0
        return self.document.line_of(path) if path else self.document.line


@dataclass(slots=True)
class Cluster:
    """What the manifests describe."""

    items: list[ClusterObject] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """Unknown kinds, and how many objects of them there were."""
    problems: list[ManifestError] = field(default_factory=list)
    """Objects that cannot be decoded as the kind that they name."""

    def of(self, struct: type[ObjectType]) -> list[tuple[ClusterObject, ObjectType]]:
        """All objects of one type."""
        return [(item, item.object) for item in self.items if isinstance(item.object, struct)]

    def notes(self) -> list[str]:
        """What a person should know about how the manifests were read."""
        notes = [f"skipped {count} × {kind}: not a kind that Moorage knows" for kind, count in self.skipped.items()]
        names = Counter(item.name for item in self.items if item.object.metadata.name)
        notes += (
            f"{name} is given {count} times: applied, the last replaces the others"
            for name, count in names.items()
            if count > 1
        )
        return notes


def read_cluster(documents: Iterable[Document]) -> Cluster:
    """Decode documents; those of unknown kinds are counted, those that do not fit are reported with their line."""
    cluster = Cluster()
    for document in documents:
        try:
            item = from_manifest(document.data)
        except DecodeError as error:
            line = document.line_of(error.path)
            cluster.problems.append(ManifestError(str(error), document.file, document.index, line))
            continue
        if item is None:
            data = document.data
            cluster.skipped[f"{data['kind']} ({data['apiVersion']})"] += 1
        else:
            cluster.items.append(ClusterObject(item, document))
    return cluster
