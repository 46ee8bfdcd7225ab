"""A snapshot holds what placement depends on, as it was stored, and nothing else."""

from __future__ import annotations

import gzip
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.api.pod import Pod
from moorage.api.workload import ControllerRevision
from moorage.features import ALL_ON, Gates
from moorage.registry.schema import field_table
from moorage.tools.cluster import Cluster
from moorage.tools.snapshot import KINDS, SnapshotError, SnapshotWriter, load_snapshot, reduce_page

_ALLOWED = Path(__file__).with_name("snapshot_fields.txt")
_TAKEN = datetime(2026, 1, 1, tzinfo=UTC)
_PODS = kinds.row("v1", "Pod")


def _written(pages: dict[Kind, list[Data]], gates: Gates | None = None, unread: dict[str, str] | None = None) -> bytes:
    stream = io.BytesIO()
    writer = SnapshotWriter(stream, _TAKEN, gates)
    for kind, items in pages.items():
        writer.add(kind, reduce_page(kind, _listed(items)))
    writer.end(unread or {})
    return stream.getvalue()


def _listed(items: list[Data]) -> bytes:
    return json.dumps(
        {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}
    ).encode()


def _loaded(content: bytes) -> Cluster:
    return load_snapshot(io.BytesIO(content), "cluster.gz")


class _Canaries:
    """Objects with a value of its own in every field that Kubernetes has, and which of the values came through."""

    def __init__(self) -> None:
        self._types = field_table()["types"]
        self._fields: dict[str, str] = {}
        self._numbers = iter(range(100_000, 1_000_000))

    def object(self, kind: Kind) -> Data:
        """An object of a kind with all of its fields."""
        made = self._struct(field_table()["kinds"][f"{kind.group}/{kind.kind}"], ())
        return made | {"apiVersion": kind.api_version, "kind": kind.kind}

    def surviving(self, text: str) -> set[str]:
        """The fields, as `v1.Container.image`, whose values are in a text."""
        return {field for canary, field in self._fields.items() if canary in text}

    @property
    def fields(self) -> set[str]:
        """All fields that have a value."""
        return set(self._fields.values())

    def _struct(self, name: str, within: tuple[str, ...]) -> Data:
        if within.count(name) > 1:  # some types hold themselves
            return {}
        return {
            field: self._value(code.lstrip("?"), f"{name}.{field}", (*within, name))
            for field, code in self._types[name].items()
        }

    def _value(self, code: str, field: str, within: tuple[str, ...]) -> Any:
        if code.startswith("["):
            return [self._value(code[1:].lstrip("?"), field, within)]
        if code.startswith("{"):
            key = f"{self._kept_key(field)}{self._text(field + '{key}')}"
            return {key: self._value(code[1:].lstrip("?"), field, within)}
        if code in self._types:
            return self._struct(code, within)
        if field == "v1.ControllerRevision.data":
            return {"spec": {"template": self._struct("v1.PodTemplateSpec", within)}, self._text(field): 1}
        return self._leaf(code.partition("=")[0], field)

    def _kept_key(self, field: str) -> str:
        return "elsewhere.example.com/" if field.endswith(".annotations") else ""

    def _text(self, field: str) -> str:
        return self._noted(f"canary-{next(self._numbers)}", field)

    def _noted(self, canary: str, field: str) -> str:
        self._fields[canary] = field
        return canary

    def _leaf(self, code: str, field: str) -> Any:
        if code == "b":
            return True
        if code in ("i", "l"):
            return int(self._noted(str(next(self._numbers)), field))
        if code in ("t", "m"):
            return self._noted(f"2031-01-01T00:00:00.{next(self._numbers)}Z", field)
        return self._text(field)


def test_a_canary_in_every_other_field_does_not_come_through() -> None:
    canaries = _Canaries()
    content = _written({kind: [canaries.object(kind)] for kind in KINDS})
    allowed = set(_ALLOWED.read_text().split())
    came = canaries.surviving(gzip.decompress(content).decode())
    assert came - allowed == set(), "not in tests/tools/snapshot_fields.txt: is it something that placement reads?"
    assert allowed - came == set(), "is no longer in a snapshot"
    assert len(canaries.fields) > 2 * len(allowed)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource)
def test_what_is_in_a_snapshot_is_loaded(kind: Kind) -> None:
    canaries = _Canaries()
    cluster = _loaded(_written({kind: [canaries.object(kind)]}))
    assert not cluster.problems
    (item,) = cluster.items
    assert kinds.of(item.object) == kind
    assert item.object.metadata.uid.startswith("canary-")


@pytest.mark.parametrize("word", ["env", "envFrom", "command", "args", "managedFields", "data", "secret", "configMap"])
def test_no_field_of_the_list_is_one_of_those_that_tell_secrets(word: str) -> None:
    names = {line.rpartition(".")[2] for line in _ALLOWED.read_text().split()}
    assert word not in names


def test_annotations_are_kept_when_components_read_them() -> None:
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": "{}", "example.com/owner": "jane",
        "controller.kubernetes.io/pod-deletion-cost": "7", "moorage.dev/tolerations": "[]",
    }  # fmt: skip
    cluster = _loaded(_written({_PODS: [{"metadata": {"name": "web", "annotations": annotations}}]}))
    assert cluster.items[0].object.metadata.annotations == {
        "controller.kubernetes.io/pod-deletion-cost": "7", "moorage.dev/tolerations": "[]",
    }  # fmt: skip


def test_volumes_that_do_not_matter_to_placement_are_left_out() -> None:
    spec = {"volumes": [
        {"name": "a", "secret": {"secretName": "s"}}, {"name": "b", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "d", "emptyDir": {}},
    ]}  # fmt: skip
    cluster = _loaded(_written({_PODS: [{"metadata": {"name": "web"}, "spec": spec}]}))
    pod = cluster.items[0].object
    assert isinstance(pod, Pod)
    assert [each.name for each in pod.spec.volumes] == ["b"]


def test_a_revision_keeps_its_template_as_its_workload_does() -> None:
    template = {
        "metadata": {"labels": {"app": "db"}, "creationTimestamp": None},
        "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "secret"}]}]},
    }
    sets, revisions = kinds.row("apps/v1", "StatefulSet"), kinds.row("apps/v1", "ControllerRevision")
    cluster = _loaded(_written({
        sets: [{"metadata": {"name": "db"}, "spec": {"template": template}}],
        revisions: [
            {"metadata": {"name": "db-1"}, "revision": 1, "data": {"spec": {"template": {**template, "$patch": "x"}}}},
            {"metadata": {"name": "other"}, "revision": 2, "data": {"anything": ["else"]}},
        ],
    }))  # fmt: skip
    workload, first, second = (json.loads(msgspec.json.encode(item.object)) for item in cluster.items)
    assert first["data"]["spec"]["template"] == workload["spec"]["template"]
    assert "secret" not in str(first)
    assert not second.get("data")
    assert all(isinstance(item.object, ControllerRevision) for item in cluster.items[1:])


def test_gates_and_what_could_not_be_read_are_in_it() -> None:
    cluster = _loaded(_written({}, ALL_ON, {"secrets": "may not be listed"}))
    assert cluster.gates == ALL_ON
    assert cluster.unread == {"secrets": "may not be listed"}
    assert cluster.is_complete
    assert _loaded(_written({})).gates is None


def test_an_object_that_does_not_fit_is_named_and_the_others_are_kept() -> None:
    page = reduce_page(_PODS, _listed([{"metadata": {"name": "a"}}, {"metadata": 7}, {"metadata": {"name": "b"}}]))
    assert page.size == 2
    assert [str(each) for each in page.problems] == ["pods: Expected `object | null`, got `int` - at `$.metadata`"]


def _zipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _line(**header: Any) -> bytes:
    return _zipped(json.dumps(header).encode() + b"\n")


_HEADER = {"apiVersion": "moorage.dev/v1", "kind": "Snapshot", "version": 1}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (_line(**_HEADER | {"version": 2}), "is a snapshot of version 2, but version 1 is read: take it again"),
        (_line(apiVersion="v1", kind="Pod"), "is no snapshot: take one with `moorage snapshot -o FILE`"),
        (_zipped(b"kind: Pod\n"), "is no snapshot: JSON is malformed"),
        (_zipped(b""), "is no snapshot: Input data was truncated"),
        (_line(**_HEADER), "is cut off: take it again"),
        (_line(**_HEADER)[:-9], "is cut off: take it again"),
        (_line(**_HEADER)[:-4] + b"\0\0\0\0", "is damaged: "),
        (_line(**_HEADER | {"gates": "Nope=true"}), "gates: unknown feature gate 'Nope'"),
        (
            _zipped(json.dumps(_HEADER).encode() + b'\n{"apiVersion": "v9", "kind": "NewList", "items": []}\n'),
            "holds NewList of v9, which is unknown: take it again",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_snapshot_is_one_sentence(content: bytes, sentence: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        _loaded(content)
    assert str(caught.value).startswith(f"cluster.gz: {sentence}")
