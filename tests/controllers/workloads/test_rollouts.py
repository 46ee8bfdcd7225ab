"""The arithmetic of rollouts, case by case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.api.meta import Data
from moorage.api.workload import Deployment, ReplicaSet
from moorage.controllers.owners.replicas import scaled
from moorage.controllers.owners.templatehash import controller_revision_hash, pod_template_hash
from moorage.controllers.workloads import rollouts


def deployment(replicas: int, surge: Any = None, unavailable: Any = None, **more: Any) -> Deployment:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {k: v for k, v in rolling.items() if v is not None}}
    return msgspec.convert({"spec": {"replicas": replicas, "strategy": strategy}, **more}, Deployment)


def replica_set(name: str, replicas: int, before: int = 0, age: int = 0) -> ReplicaSet:
    annotations = {rollouts.MAXIMUM: str(before)} if before else {}
    created = f"2026-01-01T00:{59 - age:02}:00Z"
    metadata = {"name": name, "annotations": annotations, "creationTimestamp": created}
    return msgspec.json.decode(
        msgspec.json.encode({"metadata": metadata, "spec": {"replicas": replicas}}), type=ReplicaSet
    )


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "margins"),
    [
        (10, "25%", "25%", (3, 2)),
        (10, 3, 2, (3, 2)),
        (1, "25%", "25%", (1, 0)),
        (4, "100%", "0%", (4, 0)),
        (3, 0, 0, (0, 1)),
        (3, "0%", "10%", (0, 1)),
        (3, None, None, (0, 1)),
        (2, 1, 5, (1, 2)),
        (0, "25%", "25%", (0, 0)),
    ],
)
def test_a_surge_is_rounded_up_and_what_may_be_missing_is_rounded_down(
    replicas: int, surge: Any, unavailable: Any, margins: tuple[int, int]
) -> None:
    assert rollouts.margins(deployment(replicas, surge, unavailable)) == margins


@pytest.mark.parametrize(
    ("current", "total", "size"), [(0, 0, 10), (0, 10, 3), (3, 13, 3), (3, 11, 5), (9, 9, 10), (4, 20, 4)]
)
def test_the_newest_set_grows_as_far_as_the_surge_allows(current: int, total: int, size: int) -> None:
    assert rollouts.size_of_new(deployment(10, 3, 2), current, total) == size


@pytest.mark.parametrize(
    ("wanted", "surge", "sets", "sizes"),
    [
        (30, 3, {"first": (8, 13), "second": (5, 13)}, {"first": 20, "second": 13}),
        (0, 3, {"first": (8, 13), "second": (5, 13)}, {"first": 0, "second": 0}),
        (10, 3, {"first": (8, 13), "second": (5, 13)}, {"first": 8, "second": 5}),
        (5, 0, {"first": (5, 10), "second": (5, 10)}, {"first": 2, "second": 3}),
        (11, 0, {"first": (5, 10), "second": (5, 10)}, {"first": 5, "second": 6}),
        (20, 0, {"first": (7, 0), "second": (3, 0)}, {"first": 14, "second": 6}),
    ],
)
def test_sets_are_scaled_in_proportion(
    wanted: int, surge: int, sets: dict[str, tuple[int, int]], sizes: dict[str, int]
) -> None:
    # The older of two sets of one size shrinks first, the newer grows first.
    replica_sets = [replica_set(name, *given, age=9 - number) for number, (name, given) in enumerate(sets.items())]
    total = sum(size for size, _ in sets.values())
    scaled = deployment(wanted, surge, 1, status={"replicas": total})
    assert rollouts.proportions(scaled, replica_sets) == sizes


@given(
    st.lists(st.integers(1, 50), min_size=2, max_size=5), st.integers(0, 200), st.integers(0, 10), st.integers(0, 10)
)
def test_sets_scaled_in_proportion_add_up_to_what_is_allowed(
    sizes: list[int], wanted: int, surge: int, past_surge: int
) -> None:
    replica_sets = [
        replica_set(f"set-{number}", size, sum(sizes) + past_surge, number) for number, size in enumerate(sizes)
    ]
    scaled = deployment(wanted, surge, 1, status={"replicas": sum(sizes)})
    proportions = rollouts.proportions(scaled, replica_sets)
    allowed = wanted + surge if wanted else 0
    assert all(size >= 0 for size in proportions.values())
    assert sum(proportions.values()) == allowed


TEMPLATE: Data = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ({"metadata": {"labels": {"app": "web", "pod-template-hash": "x"}}}, True),
        ({"metadata": {"labels": {"app": "web"}, "annotations": {}, "creationTimestamp": None}}, True),
        ({"spec": {**TEMPLATE["spec"], "tolerations": []}}, True),
        ({"metadata": {"labels": {"app": "web"}, "annotations": {"restarted": "now"}}}, False),
        ({"spec": {**TEMPLATE["spec"], "unknown": {"field": 1}}}, False),
        ({"spec": {**TEMPLATE["spec"], "tolerations": [{"expression": "true"}]}}, False),
        ({"spec": {**TEMPLATE["spec"], "affinity": {}}}, False),
    ],
)
def test_templates_are_compared_as_written_but_for_the_hash(other: Data, is_same: bool) -> None:
    changed = {**TEMPLATE, **other}
    assert (rollouts.comparable(TEMPLATE) == rollouts.comparable(changed)) is is_same


@pytest.mark.parametrize("hash_of", [pod_template_hash, controller_revision_hash])
def test_a_hash_does_not_depend_on_the_order_of_fields_and_changes_with_a_collision(
    hash_of: Callable[[Data, int], str],
) -> None:
    turned = dict(reversed(TEMPLATE.items()))
    assert hash_of(turned, 0) == hash_of(TEMPLATE, 0)
    assert hash_of(TEMPLATE, 1) != hash_of(TEMPLATE, 0)


def test_hashes_are_those_that_stored_objects_carry() -> None:
    template = {
        "metadata": {"labels": {"app": "web", "pod-template-hash": "x"}, "creationTimestamp": None},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    }
    compared = rollouts.comparable(template)
    assert [pod_template_hash(compared, collisions) for collisions in (0, 1)] == ["bpbtfk5c9d", "w6xsdbt2q8"]
    assert [controller_revision_hash(template, collisions) for collisions in (0, 1)] == ["bvknqj247g", "kbsscgjxpf"]


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [(None, 0, 0), (3, 3, 3), ("25%", 2, 1), ("100%", 7, 7), ("0%", 0, 0), ("25", 0, 0), ("%", 0, 0), ("x%", 0, 0)],
)
def test_a_percentage_is_rounded_and_what_is_neither_number_nor_percentage_is_none(
    value: int | str | None, up: int, down: int
) -> None:
    assert (scaled(value, 7, up=True), scaled(value, 7, up=False)) == (up, down)


def test_a_set_remembers_its_past_revisions_and_not_all_of_them_for_ever() -> None:
    owner = msgspec.convert({"metadata": {"annotations": {"note": "x", rollouts.REVISION: "9"}}}, Deployment)
    assert rollouts.new_annotations(owner, {}, 1) == {"note": "x", rollouts.REVISION: "1"}
    assert rollouts.new_annotations(owner, {"note": "x", rollouts.REVISION: "4"}, 4) == {}
    again = rollouts.new_annotations(owner, {"note": "x", rollouts.REVISION: "4", rollouts.HISTORY: "1,2"}, 7)
    assert again == {rollouts.REVISION: "7", rollouts.HISTORY: "1,2,4"}
    long = ",".join(map(str, range(1000, 1400)))
    history = rollouts.new_annotations(owner, {rollouts.REVISION: "1400", rollouts.HISTORY: long}, 1401)
    assert history[rollouts.HISTORY] == ",".join(map(str, range(1001, 1401)))


def test_a_very_long_name_leaves_room_for_the_hash() -> None:
    owner = msgspec.convert({"metadata": {"name": "d" * 253}}, Deployment)
    assert rollouts.set_name(owner, "0123456789") == "d" * 242 + "-0123456789"
