from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.match.glob import compile_glob
from tests.match import naive

MATCHING = [
    ("readiness.k8s.io/*", "readiness.k8s.io/cni"),
    ("readiness.k8s.io/*", "readiness.k8s.io/"),
    ("*", "sla"),
    ("*", ""),
    ("**", "sla"),
    ("*/*", "example.com/sla"),
    ("*.example.com/sla", "eu.west.example.com/sla"),
    ("*middle*", "a-middle-b"),
    ("*middle*", "middle"),
    ("a*b*c", "a-b-b-c"),
    ("gpu-*-*", "gpu--"),
    ("sla", "sla"),
    ("", ""),
]
NOT_MATCHING = [
    ("readiness.k8s.io/*", "readiness.k8s.io"),
    ("readiness.k8s.io/*", "readiness.k8s.io/a/b"),
    ("readiness.k8s.io*", "readiness.k8s.io/cni"),
    ("*", "example.com/sla"),
    ("**", "example.com/sla"),
    ("*middle*", "a/middle"),
    ("*/*", "sla"),
    ("a*a", "a"),
    ("ab*ba", "aba"),
    ("a*b*c", "a-c-b"),
    ("sla", "SLA"),
    ("sla", "sla2"),
    ("a.b", "axb"),
    ("*", "\n/"),
    ("", "a"),
]


@pytest.mark.parametrize(("pattern", "key"), MATCHING)
def test_a_wildcard_stands_for_any_run_of_characters(pattern: str, key: str) -> None:
    assert compile_glob(pattern)(key)


@pytest.mark.parametrize(("pattern", "key"), NOT_MATCHING)
def test_a_wildcard_stands_for_no_slash_and_for_nothing_else(pattern: str, key: str) -> None:
    assert not compile_glob(pattern)(key)


@given(st.text(st.sampled_from("ab/*"), max_size=9), st.text(st.sampled_from("ab/"), max_size=9))
def test_the_answer_is_that_of_the_plain_recursive_reading(pattern: str, key: str) -> None:
    assert compile_glob(pattern)(key) == naive.glob(pattern, key)


@given(st.text(st.sampled_from("ab/."), max_size=8), st.lists(st.integers(0, 8), max_size=4))
def test_a_key_matches_itself_with_any_stretch_between_slashes_made_a_wildcard(key: str, cuts: list[int]) -> None:
    pattern = "".join("*" if index in cuts and char != "/" else char for index, char in enumerate(key))
    assert compile_glob(pattern)(key)


@given(st.text(st.characters(exclude_characters="*")), st.text(st.characters(exclude_characters="*")))
def test_without_a_wildcard_only_the_same_key_matches(pattern: str, key: str) -> None:
    assert compile_glob(pattern)(pattern)
    assert compile_glob(pattern)(key) == (pattern == key)


HOSTILE = [
    ("a*" * 200 + "b", "a" * 20_000),
    ("*a" * 200 + "*b", "a" * 20_000),
    ("*" * 20_000 + "b", "a" * 20_000),
    (("a*" * 100 + "b/") * 20 + "x", ("a" * 1_000 + "/") * 20 + "y"),
]


@pytest.mark.parametrize(("pattern", "key"), HOSTILE, ids=["stars between", "stars around", "only stars", "segments"])
def test_a_hostile_pattern_does_not_try_every_way_to_match(pattern: str, key: str) -> None:
    # A backtracking matcher would not come back from any of these.
    assert not compile_glob(pattern)(key)
