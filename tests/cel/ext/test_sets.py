from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cel.ext.sets import LIBRARY, contains, equivalent, intersects
from moorage.cel.library import Cost
from moorage.cel.values import UInt
from tests.cel.libraries import estimate, exactly, measure, up_to

items = st.one_of(st.integers(0, 2), st.booleans(), st.sampled_from(["a", "b", 1.0, 2.0, UInt(1), [1], [1.0]]))
lists = st.lists(items, max_size=5)


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        ([], [], (True, True, False)),
        ([], [1], (False, False, False)),
        ([1], [], (True, False, False)),
        ([1, 2, 3, 4], [2, 3], (True, False, True)),
        ([1, 2.0, UInt(3)], [1.0, UInt(2), 3], (True, True, True)),
        ([1], [1, 1], (True, True, True)),
        ([True], [1], (False, False, False)),
        (["a"], ["b", "a"], (False, False, True)),
        ([[1], [2, 3]], [[1, 2], [2, 3.0]], (False, False, True)),
    ],
)
def test_functions(a: list[Any], b: list[Any], want: tuple[bool, bool, bool]) -> None:
    assert (contains(a, b), equivalent(a, b), intersects(a, b)) == want


@given(lists, lists, lists)
def test_containment_is_an_order(a: list[Any], b: list[Any], c: list[Any]) -> None:
    assert contains(a, a)
    assert contains(a + b, b)
    assert equivalent(a, b) == (contains(a, b) and contains(b, a))
    if contains(a, b) and contains(b, c):
        assert contains(a, c)


@given(lists, lists)
def test_intersection_is_symmetric_and_follows_from_containment(a: list[Any], b: list[Any]) -> None:
    assert intersects(a, b) == intersects(b, a)
    assert not b or not contains(a, b) or intersects(a, b)


def test_costs() -> None:
    assert estimate(LIBRARY, "list_sets_contains_list", exactly(3), up_to(256)).cost == Cost(1, 769)
    assert estimate(LIBRARY, "list_sets_equivalent_list", exactly(3), exactly(4)).cost == Cost(25, 25)
    assert measure(LIBRARY, "list_sets_intersects_list", [1, 2], [3]) == 3
    assert measure(LIBRARY, "list_sets_equivalent_list", [1, 2], [3]) == 5
