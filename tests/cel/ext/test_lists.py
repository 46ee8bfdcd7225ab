from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cel.ext.lists import LIBRARY
from moorage.cel.library import UNBOUNDED, Cost, Size
from moorage.cel.values import Duration, UInt, equal
from tests.cel.libraries import call, error, estimate, exactly, measure, number, overload, up_to

numbers = st.lists(st.integers(-5, 5), max_size=8)


@pytest.mark.parametrize(
    ("name", "args", "want"),
    [
        ("list_slice", ([1, 2, 3, 4], 1, 3), [2, 3]),
        ("list_slice", ([1, 2], 2, 2), []),
        ("list_flatten", ([[1], [2, [3]], []],), [1, 2, [3]]),
        ("list_flatten", ([1, [2]],), [1, 2]),
        ("list_flatten_int", ([1, [2, [3, [4]]]], 2), [1, 2, 3, [4]]),
        ("list_flatten_int", ([[1]], 0), [[1]]),
        ("list_flatten_int", ([[[[1]]]], 2**63 - 1), [1]),
        ("list_int_sort", ([3, 1, 2],), [1, 2, 3]),
        ("list_string_sort", (["b", "c", "a"],), ["a", "b", "c"]),
        ("list_bool_sort", ([True, False],), [False, True]),
        ("list_google.protobuf.Duration_sort", ([Duration(2), Duration(1)],), [Duration(1), Duration(2)]),
        ("list_int_sort", ([],), []),
        ("list_int_sortByAssociatedKeys", (["foo", "bar", "baz"], [3, 1, 2]), ["bar", "baz", "foo"]),
        ("lists_range", (3,), [0, 1, 2]),
        ("lists_range", (-3,), []),
        ("list_reverse", ([5, 3, 1],), [1, 3, 5]),
        ("list_distinct", ([1, 2, 2, 3, 3, 3],), [1, 2, 3]),
        ("list_distinct", (["b", "b", "c", "a", "c"],), ["b", "c", "a"]),
    ],
)
def test_functions(name: str, args: tuple[Any, ...], want: Any) -> None:
    assert call(LIBRARY, name, *args) == want


def test_distinct_follows_the_equality_of_cel() -> None:
    distinct = call(LIBRARY, "list_distinct", [1, UInt(1), 1.0, True, [1], [1.0], "1"])
    assert [repr(value) for value in distinct] == ["1", "True", "[1]", "'1'"]


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("list_slice", ([1], -1, 1), "cannot slice(-1, 1), negative indexes not supported"),
        ("list_slice", ([1], 1, 0), "cannot slice(1, 0), start index must be less than or equal to end index"),
        ("list_slice", ([1], 0, 2), "cannot slice(0, 2), list is length 1"),
        ("list_flatten_int", ([1], -1), "level must be non-negative"),
        ("list_int_sort", ([1, "b"],), "list elements must have the same type"),
        ("list_int_sort", ([1, True],), "list elements must have the same type"),
        ("list_int_sort", ([[1]],), "list elements must be comparable"),
        ("list_int_sort", ([None],), "list elements must be comparable"),
        ("lists_range", (2**40,), "lists.range(1099511627776): more than 1048576 elements"),
    ],
)
def test_errors(name: str, args: tuple[Any, ...], message: str) -> None:
    assert error(LIBRARY, name, *args) == message


@given(numbers)
def test_sorting_again_changes_nothing(items: list[int]) -> None:
    once = call(LIBRARY, "list_int_sort", items)
    assert list(call(LIBRARY, "list_int_sort", once)) == list(once)
    assert sorted(items) == list(once)


@given(numbers)
def test_reversing_twice_changes_nothing(items: list[int]) -> None:
    assert call(LIBRARY, "list_reverse", call(LIBRARY, "list_reverse", items)) == items


@given(numbers)
def test_sorting_by_keys_is_sorting_when_the_keys_are_the_elements(items: list[int]) -> None:
    assert list(call(LIBRARY, "list_int_sortByAssociatedKeys", items, items)) == sorted(items)


@given(st.lists(st.one_of(st.integers(0, 2), st.booleans(), st.sampled_from([0.0, 1.0]), st.just("a"))))
def test_distinct_elements_differ_and_cover_all(items: list[Any]) -> None:
    distinct = call(LIBRARY, "list_distinct", items)
    assert all(not equal(a, b) for index, a in enumerate(distinct) for b in distinct[:index])
    assert all(any(equal(item, one) for one in distinct) for item in items)


@given(st.lists(numbers, max_size=4), st.integers(0, 3))
def test_flatten_keeps_all_elements_in_order(lists: list[list[int]], depth: int) -> None:
    flat = call(LIBRARY, "list_flatten_int", lists, depth)
    assert flat == (lists if depth == 0 else [item for inner in lists for item in inner])


@pytest.mark.parametrize(
    ("name", "operands", "cost", "size"),
    [
        ("list_slice", (exactly(9), number(2), number(5)), Cost(14, 14), Size(3, 3)),
        ("list_slice", (up_to(9), exactly(1), exactly(1)), Cost(20, 20), Size(9, 9)),
        ("list_flatten", (exactly(3, element=Size(0, 4)),), Cost(14, 14), Size(0, 12)),
        ("list_flatten_int", (exactly(3, element=Size(0, 4)), number(0)), Cost(11, 11), Size(0, 3)),
        ("list_flatten_int", (exactly(3, element=Size(0, 4)), number(2)), Cost(17, 17), Size(0, UNBOUNDED)),
        ("list_int_sort", (exactly(3),), Cost(29, 29), Size(9, 9)),
        ("list_string_sort", (exactly(3),), Cost(30, 30), Size(9, 9)),
        ("list_string_sortByAssociatedKeys", (exactly(3), exactly(3)), Cost(30, 30), Size(9, 9)),
        ("lists_range", (number(3),), Cost(14, 14), Size(3, 3)),
        ("lists_range", (up_to(1),), Cost(UNBOUNDED, UNBOUNDED), Size(UNBOUNDED, UNBOUNDED)),
        ("list_reverse", (up_to(5),), Cost(11, 16), Size(0, 5)),
        ("list_distinct", (exactly(3),), Cost(29, 29), Size(9, 9)),
    ],
)
def test_estimates(name: str, operands: tuple[Any, ...], cost: Cost, size: Size) -> None:
    estimated = estimate(LIBRARY, name, *operands)
    assert (estimated.cost, estimated.size) == (cost, size)


@given(numbers)
def test_estimates_bound_what_happens(items: list[int]) -> None:
    for name in ("list_int_sort", "list_reverse", "list_distinct"):
        estimated = estimate(LIBRARY, name, exactly(len(items)))
        assert measure(LIBRARY, name, items) <= estimated.cost.max
        assert estimated.size is not None
        assert len(call(LIBRARY, name, items)) <= estimated.size.max


@given(st.lists(numbers, max_size=4))
def test_estimate_of_flatten_bounds_the_result(lists: list[list[int]]) -> None:
    longest = max(map(len, lists), default=0)
    estimated = estimate(LIBRARY, "list_flatten", exactly(len(lists), element=Size(0, longest)))
    assert estimated.size is not None
    assert len(call(LIBRARY, "list_flatten", lists)) <= estimated.size.max


def test_sort_by_is_a_macro_with_overloads_for_each_type_of_key() -> None:
    assert [(macro.name, macro.args) for macro in LIBRARY.macros] == [("sortBy", 2)]
    assert overload(LIBRARY, "list_google.protobuf.Timestamp_sortByAssociatedKeys").method
