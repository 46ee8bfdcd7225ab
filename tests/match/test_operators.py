"""An operator is one row: a new one matches, is validated, explained, covered and remedied without another line."""

from __future__ import annotations

from operator import ge

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.api.meta import ObjectMeta
from moorage.api.node import Node, NodeSpec, NodeStatus, Taint
from moorage.api.pod import Pod, PodSpec, Toleration
from moorage.features import ALL_ON, NONE_ON, Gate
from moorage.match import explain, tolerates
from moorage.match.cover import covers
from moorage.match.operators import COMPARISONS, INT64, Comparison
from moorage.tools.cluster import Cluster, ClusterObject
from moorage.tools.why import Explainer
from moorage.validation import admission_errors
from moorage.validation.advice import warnings
from moorage.validation.rules import context_of

GTE = Comparison("Gte", Gate.COMPARISON, INT64, ge, "less than", from_below=True, from_above=False, inclusive=True)
LOWEST, HIGHEST = -(2**63), 2**63 - 1


@pytest.fixture(autouse=True)
def gte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMPARISONS, "Gte", GTE)


def toleration(value: str | int, operator: str = "Gte") -> Toleration:
    return Toleration(key="sla", operator=operator, value=str(value), effect="NoSchedule")


def taint(value: str | int) -> Taint:
    return Taint(key="sla", value=str(value), effect="NoSchedule")


def pod(value: str | int) -> Pod:
    return Pod(spec=PodSpec(tolerations=(toleration(value),)))


def test_a_new_operator_matches_under_its_gate() -> None:
    assert [bool(tolerates(toleration(950), taint(value))) for value in (949, 950, 951)] == [False, True, True]
    assert not tolerates(toleration(950), taint(950), NONE_ON)
    assert tolerates(toleration(950), taint("high")).error == '"high" is not a decimal integer'


def test_a_new_operator_is_validated() -> None:
    assert admission_errors(pod(950), ALL_ON) == []
    assert [str(error) for error in admission_errors(pod("0950"), ALL_ON)] == [
        'spec.tolerations[0].value: Invalid value: "0950": must be a valid decimal integer in canonical form'
    ]
    (error,) = admission_errors(pod(950), NONE_ON)
    assert str(error) == ('spec.tolerations[0].operator: Unsupported value: "Gte": supported values: "Equal", "Exists"')
    (error,) = admission_errors(Pod(spec=PodSpec(tolerations=(toleration(1, "Foo"),))), ALL_ON)
    assert str(error).endswith('"Equal", "Exists", "Gt", "Gte", "Lt", "SemverEq", "SemverGt", "SemverLt"')


def test_a_new_operator_is_explained() -> None:
    node = Node(spec=NodeSpec(taints=(taint(900),)))
    assert explain(pod(950), node) == ["taint sla=900:NoSchedule: 900 is less than 950 (`Gte 950`)"]


def test_a_new_operator_is_covered() -> None:
    assert covers(toleration(950), toleration(950, "Gt"))
    assert not covers(toleration(950, "Gt"), toleration(950))
    assert covers(toleration(949, "Gt"), toleration(950))
    assert not covers(toleration(950), toleration(2000, "Lt"))


@given(*[st.sampled_from(["Gt", "Lt", "Gte", "SemverEq"]), st.integers(-3, 3)] * 2)
def test_what_covers_another_matches_all_that_it_matches(one: str, bound: int, other: str, limit: int) -> None:
    wide, narrow = toleration(bound, one), toleration(limit, other)
    if covers(wide, narrow):
        values = range(-5, 6)
        assert all(tolerates(wide, taint(value)) for value in values if tolerates(narrow, taint(value)))


def test_a_new_operator_is_remedied() -> None:
    room = NodeStatus(allocatable={"pods": "1"})
    node = Node(metadata=ObjectMeta(name="a"), spec=NodeSpec(taints=(taint(900),)), status=room)
    (answer,) = Explainer(Cluster([ClusterObject(node), ClusterObject(pod(950))]), ALL_ON).explain_all()
    assert str(answer.answer.remedies[0]) == "`Gte 900` instead of `Gte 950` admits 1 node"


def test_a_new_operator_is_advised_on() -> None:
    context = context_of((), ALL_ON)
    assert [warning.split(": ")[0] for warning in warnings(pod(LOWEST), context)] == ["spec.tolerations[0].value"]
    assert warnings(pod(HIGHEST), context) == []
    band = Pod(spec=PodSpec(tolerations=(toleration(1), toleration(5, "Lt"))))
    (warning,) = warnings(band, context)
    assert "`Gte 1` or `Lt 5`" in warning


@pytest.mark.parametrize("name", COMPARISONS)
@given(st.integers(0, 30), st.integers(0, 30))
def test_the_nearest_threshold_is_passed(name: str, value: int, bound: int) -> None:
    row = COMPARISONS[name]
    left, right = row.values.parse(str(value)), row.values.parse(str(bound))
    nearest = row.nearest(left)
    assert nearest is not None
    assert row.holds(left, row.values.parse(nearest))
    assert row.holds(left, right) or not row.covers(right, row, row.values.parse(nearest))
