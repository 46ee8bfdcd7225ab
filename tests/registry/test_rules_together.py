"""Whatever a client sends, it is answered: filled in, refused in words, and never with a crash."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moorage.api.kinds import KINDS, Kind, row
from moorage.apiserver.request import strictness
from moorage.features import Gates
from moorage.registry import metadata, schema
from moorage.registry.judge import judge
from moorage.registry.prepare import prepare_create, prepare_update
from moorage.registry.state import State
from moorage.registry.table import strategy_of
from tests.registry.generated import kinds, part, shaped, unshaped

NOW, UID = "2026-01-01T00:00:00Z", "00000000-0000-0000-0000-000000000001"
POD, JOB = row("v1", "Pod"), row("batch/v1", "Job")
ANYTHING = State(is_complete=False)
UNHURRIED = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def admit(kind: Kind, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    """All that is done to an object between decoding and storing, and what is wrong with it."""
    strictness.check(kind, obj, strictness.Level.WARN)
    strategy = strategy_of(kind)
    if old is None:
        prepare_create(strategy, obj, "default", ANYTHING, NOW, UID)
        strategy.generate(obj)
    else:
        prepare_update(strategy, obj, old, "", ANYTHING, NOW)
    errors, _ = judge(strategy, obj, old, ANYTHING, Gates())
    return [str(error) for error in errors]


@UNHURRIED
@given(st.data())
def test_an_object_of_the_right_shape_is_filled_in_and_judged(data: st.DataObject) -> None:
    kind = data.draw(kinds)
    obj, other = data.draw(shaped(kind)), data.draw(shaped(kind))
    try:
        admit(kind, obj)
        other["metadata"].pop("namespace", None)
        admit(kind, other, obj)
    except metadata.MetadataError:
        return
    msgspec.json.encode(obj)


@UNHURRIED
@given(
    st.lists(part("v1.Container"), min_size=1, max_size=2),
    st.lists(part("v1.Container"), max_size=1),
    st.lists(part("v1.Volume"), max_size=2),
    st.lists(part("v1.TopologySpreadConstraint"), max_size=2),
    part("v1.Affinity"),
)
def test_any_containers_and_volumes_are_judged(
    containers: list[Any], starting: list[Any], volumes: list[Any], spread: list[Any], affinity: dict[str, Any]
) -> None:
    spec = {
        "containers": containers,
        "initContainers": starting,
        "volumes": volumes,
        "topologySpreadConstraints": spread,
        "affinity": affinity,
    }
    old: dict[str, Any] = {"metadata": {"name": "a", "labels": {"a": "b"}}, "spec": spec}
    new = copy.deepcopy(old)
    admit(POD, old)
    new["spec"]["containers"] = new["spec"]["containers"][::-1]
    admit(POD, new, old)


@UNHURRIED
@given(part("v1.JobSpec"), part("v1.JobSpec"))
def test_any_change_of_a_suspended_job_is_judged(before: dict[str, Any], after: dict[str, Any]) -> None:
    old = {"metadata": {"name": "a"}, "spec": {**before, "suspend": True}}
    admit(JOB, old)
    admit(JOB, {"metadata": {"name": "a"}, "spec": after}, old)


@UNHURRIED
@given(st.data())
def test_a_status_of_the_right_shape_is_judged(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([kind for kind in KINDS if "status" in kind.subresources]))
    old, new = data.draw(shaped(kind)), data.draw(shaped(kind))
    for obj in (old, new):
        schema.read(kind, obj)
        strategy_of(kind).defaults(obj, NOW)
        obj["metadata"].pop("namespace", None)
    before = copy.deepcopy(old)
    prepare_update(strategy_of(kind), new, old, "status", ANYTHING, NOW)
    errors = list(strategy_of(kind).status_errors(new, old))
    assert all(error.field.startswith(("status", "spec", "metadata")) for error in errors)
    assert old == before
    assert new.get("spec") == old.get("spec")


@UNHURRIED
@given(st.data())
def test_an_object_of_any_shape_is_read_or_refused_in_words(data: st.DataObject) -> None:
    kind = data.draw(kinds)
    obj = data.draw(unshaped(kind))
    obj["metadata"] = {"name": "a"}
    refused = ""
    try:
        admit(kind, obj)
    except strictness.BodyError as error:
        refused = str(error)
    assert not refused or refused.startswith(f'{kind.kind} in version "v1" cannot be handled as a {kind.kind}: ')


@UNHURRIED
@given(st.data())
def test_reading_twice_changes_nothing(data: st.DataObject) -> None:
    kind = data.draw(kinds)
    obj = data.draw(shaped(kind))
    schema.read(kind, obj)
    once = copy.deepcopy(obj)
    assert schema.read(kind, obj) == []
    assert obj == once


@UNHURRIED
@given(st.data())
def test_filling_in_twice_changes_nothing(data: st.DataObject) -> None:
    kind = data.draw(kinds)
    obj = data.draw(shaped(kind))
    schema.read(kind, obj)
    strategy_of(kind).defaults(obj, NOW)
    once = copy.deepcopy(obj)
    strategy_of(kind).defaults(obj, "2027-01-01T00:00:00Z")
    assert obj == once
    assert schema.read(kind, obj) == []


def kept(before: Any, after: Any, path: str = "") -> list[str]:
    """The places where something was given and is gone or different now."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [place for name in before for place in kept(before[name], after.get(name), f"{path}.{name}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [place for each in zip(before, after, strict=True) for place in kept(*each, f"{path}[]")]
    return [] if before == after or not before else [path]


REWRITTEN = (
    ".spec.terminationGracePeriodSeconds", ".stringData", ".sessionAffinityConfig", ".metadata.labels", "podIPs",
    "podCIDRs", ".data", "serviceAccount", ".apiVersion", ".kind", "limits", "requests", "capacity", "allocat",
    "overhead",
)  # fmt: skip
"""What Kubernetes settles on its own: negative grace, plain text of secrets, fields that say the same, thousandths."""


@UNHURRIED
@given(st.data())
def test_filling_in_keeps_what_was_given(data: st.DataObject) -> None:
    kind = data.draw(kinds)
    obj = data.draw(shaped(kind))
    schema.read(kind, obj)
    before = copy.deepcopy(obj)
    strategy_of(kind).defaults(obj, NOW)
    assert [place for place in kept(before, obj) if not any(word in place for word in REWRITTEN)] == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource)
def test_every_kind_has_its_fields_in_the_table(kind: Kind) -> None:
    assert schema.read(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a"}}) == []
