from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cel.ext.k8s_lists import LATEST, LIBRARY
from moorage.cel.library import Cost, Size
from moorage.cel.types import INT, STRING, list_of
from moorage.cel.values import INT_MAX, UINT_MAX, Duration, Timestamp, UInt
from tests.cel.libraries import call, error, estimate, exactly, measure, up_to

NAN = float("nan")
numbers = st.lists(st.integers(-9, 9), max_size=8)
texts = st.lists(st.text(max_size=40), max_size=5)


@pytest.mark.parametrize(
    ("name", "args", "want"),
    [
        ("list_int_is_sorted_bool", ([1, 2, 3],), True),
        ("list_int_is_sorted_bool", ([3, 1],), False),
        ("list_string_is_sorted_bool", (["a", "b", "b"],), True),
        ("list_int_is_sorted_bool", ([],), True),
        ("list_double_is_sorted_bool", ([1.0, NAN, 0.5],), True),
        ("list_int_sum_int", ([1, 3],), 4),
        ("list_int_sum_int", ([],), 0),
        ("list_double_sum_double", ([0.1, 0.2, 0.3],), 0.1 + 0.2 + 0.3),
        ("list_duration_sum_duration", ([Duration(1), Duration(2)],), Duration(3)),
        ("list_int_min_int", ([3, 1, 2],), 1),
        ("list_string_max_string", (["a", "c", "b"],), "c"),
        ("list_timestamp_max_timestamp", ([Timestamp(1), Timestamp(2)],), Timestamp(2)),
        ("list_bool_min_bool", ([True, False],), False),
        ("list_a_index_of_int", ([1, 2, 2, 3], 2), 1),
        ("list_a_index_of_int", ([1.0], 1.1), -1),
        ("list_a_index_of_int", ([True, 1], 1), 1),
        ("list_a_last_index_of_int", (["a", "b", "b", "c"], "b"), 2),
        ("list_a_last_index_of_int", ([], "b"), -1),
    ],
)
def test_functions(name: str, args: tuple[Any, ...], want: Any) -> None:
    assert call(LIBRARY, name, *args) == want


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("list_int_min_int", ([],), "min called on empty list"),
        ("list_int_max_int", ([],), "max called on empty list"),
        ("list_int_sum_int", ([INT_MAX, 1, -1],), "integer overflow"),
        ("list_uint_sum_uint", ([UInt(UINT_MAX), UInt(1)],), "unsigned integer overflow"),
        ("list_duration_sum_duration", ([Duration(INT_MAX), Duration(1)],), "duration overflow"),
        ("list_int_sum_int", ([1, 1.0],), "no such overload"),
        ("list_double_sum_double", ([1.0, 1],), "no such overload"),
        ("list_int_is_sorted_bool", ([[1], [2]],), "no such overload"),
    ],
)
def test_errors(name: str, args: tuple[Any, ...], message: str) -> None:
    assert error(LIBRARY, name, *args) == message


def test_the_sum_of_uints_is_a_uint() -> None:
    assert type(call(LIBRARY, "list_uint_sum_uint", [UInt(1), UInt(2)])) is UInt


@pytest.mark.parametrize(
    ("target", "item", "want"),
    [([1, 2, 3], 2, True), ([1, 2, 3], 4, False), ("model-a", "model-a", True), ("model-a", "model-b", False)],
)
def test_includes_comes_with_the_latest_version(target: Any, item: Any, want: bool) -> None:
    assert call(LATEST, "list_includes_dyn_dyn", target, item) is want
    assert not any(function.name == "includes" for function in LIBRARY.functions)


@given(numbers)
def test_a_list_is_sorted_when_its_elements_are(items: list[int]) -> None:
    assert call(LIBRARY, "list_int_is_sorted_bool", items) == (items == sorted(items))
    if items:
        assert call(LIBRARY, "list_int_min_int", items) == min(items)
        assert call(LIBRARY, "list_int_max_int", items) == max(items)


def test_strings_are_read_when_they_are_compared() -> None:
    words = exactly(4, element=Size(0, 63), type=list_of(STRING))
    assert estimate(LIBRARY, "list_string_is_sorted_bool", words).cost == Cost(4, 32)
    assert estimate(LIBRARY, "list_int_sum_int", up_to(4, type=list_of(INT))).cost == Cost(0, 4)


def test_the_largest_string_is_no_longer_than_the_longest() -> None:
    words = exactly(4, element=Size(0, 63), type=list_of(STRING))
    assert estimate(LIBRARY, "list_string_max_string", words).size == Size(0, 63)


@given(texts)
def test_estimates_bound_what_happens(words: list[str]) -> None:
    longest = Size(0, max(map(len, words), default=0))
    estimated = estimate(
        LIBRARY, "list_string_is_sorted_bool", exactly(len(words), element=longest, type=list_of(STRING))
    )
    assert measure(LIBRARY, "list_string_is_sorted_bool", words) <= estimated.cost.max
