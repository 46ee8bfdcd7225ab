"""The other objects that decide about a write, handed in by whoever asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from moorage.api.kinds import Kind
from moorage.api.meta import Data


class Dependency(NamedTuple):
    """Objects of a kind on which the outcome of a write depends."""

    kind: Kind
    in_namespace: bool = False
    """Whether only those in the namespace of the object matter."""
    updates: tuple[str, ...] = ()
    """The sub-resources whose updates depend on them too; the empty one is the object itself."""


class Denied(Exception):
    """Other objects forbid this write. The message is that of a 403."""


class AbsentObject(Exception):
    """An object that must exist does not. The message is that of a 404."""

    def __init__(self, kind: Kind, name: str) -> None:
        super().__init__(f'{kind.resource} "{name}" not found')
        self.kind = kind
        self.name = name


@dataclass(frozen=True, slots=True)
class State:
    """Objects by kind. They are read only: those who hold them share them."""

    objects: Mapping[str, Sequence[Data]] = field(default_factory=dict)
    """By the resource name of their kind, such as `priorityclasses.scheduling.k8s.io`."""
    is_complete: bool = True
    """Whether what is not here does not exist; otherwise it is only unknown."""
    plugins: frozenset[str] = frozenset()
    """The admission plugins that are on though they are off by default."""

    def all(self, kind: Kind) -> Sequence[Data]:
        """The objects of a kind."""
        return self.objects.get(kind.resource, ())

    def inside(self, kind: Kind, namespace: str) -> Sequence[Data]:
        """The objects of a kind in a namespace."""
        return [item for item in self.all(kind) if item["metadata"].get("namespace") == namespace]

    def find(self, kind: Kind, name: str) -> Data | None:
        """The object of a kind with a name."""
        return next((item for item in self.all(kind) if item["metadata"].get("name") == name), None)
