"""The fields of a kind that Kubernetes does not have are those of its struct."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moorage.api.kinds import KINDS, Kind
from moorage.api.meta import IntOrString, Object, QuantityText, Time, Wire
from moorage.registry.schema import field_table
from moorage.registry.structfields import TypeFields, add_kind

COARSER = {
    "Event.eventTime",
    "Event.series.lastObservedTime",
    "Lease.spec.acquireTime",
    "Lease.spec.renewTime",
    "Pod.status.ephemeralContainerStatuses",
    "ReplicaSet.status.updatedReplicas",
    "ReplicationController.status.updatedReplicas",
}
"""Where structs say less than Kubernetes: microseconds, a list of anything, and a status that several kinds share."""


class Window(Wire):
    """A part of the kind below."""

    opens: Time | None = None
    share: IntOrString = 0
    tags: tuple[str, ...] = ()


class Backup(Object):
    """A kind that Kubernetes does not have."""

    size: QuantityText = "0"
    windows: dict[str, Window] = {}
    is_paused: bool | None = None


class Odd(Object):
    """A kind with a field that no kind of Kubernetes has."""

    ratio: float = 0.0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.struct is not Object], ids=lambda kind: kind.kind)
def test_the_structs_of_kubernetes_kinds_have_the_types_that_kubernetes_gives_them(kind: Kind) -> None:
    derived: TypeFields = {}
    own, published = add_kind(derived, kind), field_table()["kinds"][f"{kind.group}/{kind.kind}"]
    assert set(differences(derived, own, published, kind.kind)) <= COARSER


def differences(derived: TypeFields, own: str, published: str, path: str) -> Iterator[str]:
    """The fields of a struct that the published type has otherwise, or not at all although it has the struct's name."""
    known = field_table()["types"][published]
    for name, code in derived[own].items():
        mine, theirs = bare(code), bare(known.get(name, ""))
        inner, outer = mine.lstrip("[{"), theirs.lstrip("[{")
        if not theirs and own.rsplit(".", maxsplit=1)[-1] != published.rsplit(".", maxsplit=1)[-1]:
            continue
        if inner in derived and outer in field_table()["types"] and mine[: -len(inner)] == theirs[: -len(outer)]:
            yield from differences(derived, inner, outer, f"{path}.{name}") if inner != own else ()
        elif mine != theirs:
            yield f"{path}.{name}"


def bare(code: str) -> str:
    """A code without what it is called in Go, and whether it is a pointer."""
    return code.partition("=")[0].replace("?", "")


def test_a_struct_says_the_type_of_every_field() -> None:
    types: TypeFields = {"v1.ObjectMeta": {}}
    assert add_kind(types, Kind("example.com", "v1alpha1", "Backup", "backups", Backup)) == "v1alpha1.Backup"
    assert types["v1alpha1.Backup"] == {
        "apiVersion": "s",
        "kind": "s",
        "metadata": "v1.ObjectMeta",
        "size": "q",
        "windows": "{v1alpha1.Window",
        "isPaused": "?b",
    }
    assert types["v1alpha1.Window"] == {"opens": "?t", "share": "x", "tags": "[s"}


def test_a_kind_named_as_another_has_a_type_of_its_own() -> None:
    types: TypeFields = {"v1.ObjectMeta": {}, "v1.Backup": {}}
    assert add_kind(types, Kind("fleet.example.com", "v1", "Backup", "backups", Backup)) == "fleet.v1.Backup"


def test_a_field_that_kubernetes_could_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Kubernetes has no type like FloatType.*: use str, Int32"):
        add_kind({}, Kind("example.com", "v1", "Odd", "odds", Odd))
