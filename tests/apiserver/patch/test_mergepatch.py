from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.patch import mergepatch
from moorage.apiserver.patch.errors import PatchError, same
from tests.apiserver.json_values import NESTED, maps, refusal, untouched, values, without_nulls

RESULTS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({"a": [1]}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ({"a": 1}, {}, {"a": 1}),
    ({}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
]


@pytest.mark.parametrize(("document", "patch", "want"), RESULTS)
def test_results(document: dict[str, Any], patch: dict[str, Any], want: dict[str, Any]) -> None:
    with untouched(document, patch):
        assert same(mergepatch.apply(document, patch), want)


@pytest.mark.parametrize("patch", [None, 1, "x", [], [{}]])
def test_a_patch_is_an_object(patch: Any) -> None:
    with pytest.raises(PatchError, match="Invalid JSON Patch") as caught:
        mergepatch.apply({}, patch)
    assert caught.value.status == 400


def test_nesting_beyond_the_stack_is_an_error_of_the_patch() -> None:
    patch: dict[str, Any] = {}
    for _ in range(50_000):
        patch = {"a": patch}
    with pytest.raises(PatchError, match="nested too deeply"):
        mergepatch.apply({}, patch)
    assert mergepatch.apply({}, {"a": NESTED}) == {"a": NESTED}


@given(maps, maps)
def test_a_patch_applied_twice_is_applied_once(document: dict[str, Any], patch: dict[str, Any]) -> None:
    once = mergepatch.apply(document, patch)
    with untouched(once, patch):
        assert same(mergepatch.apply(once, patch), once)


@given(maps)
def test_an_empty_patch_changes_nothing(document: dict[str, Any]) -> None:
    assert same(mergepatch.apply(document, {}), document)


@given(maps, maps, maps)
def test_the_last_of_two_patches_wins(document: dict[str, Any], first: dict[str, Any], second: dict[str, Any]) -> None:
    both = mergepatch.apply(mergepatch.apply(document, first), second)
    for name, value in second.items():
        if not isinstance(value, dict):
            assert same(both.get(name), value)


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            patch[name] = difference(before, value)
        elif name not in old or not same(before, value):
            patch[name] = value
    return patch


@given(maps.map(without_nulls), maps.map(without_nulls))
def test_a_difference_applied_is_the_other_object(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert same(mergepatch.apply(old, difference(old, new)), new)


@given(maps, values | st.just(NESTED))
def test_garbage_is_refused_politely(document: dict[str, Any], patch: Any) -> None:
    error = refusal(lambda: mergepatch.apply(document, patch))
    assert error is None or error.status == 400
