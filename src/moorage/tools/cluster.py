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
from moorage.features import Gates
from moorage.tools.embedded import embedded

ObjectType = TypeVar("ObjectType", bound=Object)


@dataclass(frozen=True, slots=True)
class ClusterObject:
    """An object, and the document of the manifest that it was read from, if any."""

    object: Object
    document: Document | None = None
    within: str = ""
    """The path of the pod specification, for an object of a kind that is not ours; `object` is then a PodTemplate."""

    @property
    def name(self) -> str:
        """How people name the object: `Pod default/web`."""
        meta = self.object.metadata
        kind = kinds.of(self.object)
        word = self.object.kind if self.within else kind.kind
        name = meta.name or (f"{meta.generate_name}…" if meta.generate_name else "(no name)")
        return f"{word} {meta.namespace or 'default'}/{name}" if kind.namespaced else f"{word} {name}"

    @property
    def key(self) -> str:
        """Namespace and name: `default/web`."""
        meta = self.object.metadata
        return f"{meta.namespace or 'default'}/{meta.name}" if kinds.of(self.object).namespaced else meta.name

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
        path = self.path(path)
        return self.document.line_of(path) if path else self.document.line

    def path(self, path: str) -> str:
        """Where a field of `object` stands in the document."""
        inside = kinds.of(self.object).pod_spec if self.within else ""
        return self.within + path.removeprefix(inside) if inside and path.startswith(inside) else path


@dataclass(slots=True)
class Cluster:
    """What the manifests describe."""

    items: list[ClusterObject] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """Unknown kinds, and how many objects of them there were."""
    problems: list[ManifestError] = field(default_factory=list)
    """Objects that cannot be decoded as the kind that they name."""
    is_complete: bool = False
    """Whether what is not here does not exist: so it is with a running cluster, not with manifests."""
    unread: dict[str, str] = field(default_factory=dict)
    """The resources of a running cluster that could not be read, and why."""
    gates: Gates | None = None
    """The gates by which its pods are placed and evicted; None when it does not say."""
    is_attached: bool = False
    """Whether these are not the gates of its API server, which does not know them, but those of attach mode."""

    def add(self, other: Cluster) -> None:
        """Add what was read from somewhere else."""
        self.items += other.items
        self.skipped += other.skipped
        self.problems += other.problems
        self.is_complete |= other.is_complete
        self.unread |= other.unread
        self.gates = other.gates or self.gates
        self.is_attached |= other.is_attached

    def of(self, struct: type[ObjectType]) -> list[tuple[ClusterObject, ObjectType]]:
        """All objects of one type."""
        return [(item, item.object) for item in self.items if isinstance(item.object, struct)]

    def notes(self) -> list[str]:
        """What a person should know about how the manifests were read."""
        unknown = "not a kind that Moorage knows, and there is no pod template in it"
        notes = [f"skipped {count} × {kind}: {unknown}" for kind, count in self.skipped.items()]
        names = Counter(item.name for item in self.items if item.object.metadata.name and not item.within)
        notes += (
            f"{name} is given {count} times: applied, the last replaces the others"
            for name, count in names.items()
            if count > 1
        )
        return notes


def read_cluster(documents: Iterable[Document]) -> Cluster:
    """Decode documents; those that do not fit are reported with their line.

    Of objects of unknown kinds the pod templates are taken, and those that have none are counted.
    """
    cluster = Cluster()
    for document in documents:
        try:
            item = from_manifest(document.data)
        except DecodeError as error:
            line = document.line_of(error.path)
            cluster.problems.append(ManifestError(str(error), document.file, document.index, line))
            continue
        if item is not None:
            cluster.items.append(ClusterObject(item, document))
            continue
        templates, problems = embedded(document)
        cluster.items += (ClusterObject(template, document, path) for path, template in templates)
        cluster.problems += problems
        if not templates and not problems:
            cluster.skipped[f"{document.data['kind']} ({document.data['apiVersion']})"] += 1
    return cluster
