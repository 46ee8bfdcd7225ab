from __future__ import annotations

import re
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cel.errors import EvalError
from moorage.cel.ext.regex import LIBRARY
from moorage.cel.library import Cost, Size
from moorage.cel.stdlib.patterns import pattern
from tests.cel.libraries import call, error, estimate, exactly, measure, overload, up_to


@pytest.mark.parametrize(
    ("text", "regex", "first", "every"),
    [
        ("abc 123", "[0-9]+", "123", ["123"]),
        ("abc 123", "xyz", "", []),
        ("123 abc 456", "[0-9]*", "123", ["123", "", "", "", "", "456"]),
        ("abc", "", "", ["", "", "", ""]),
        ("baaab", "a*", "", ["", "aaa", ""]),
        ("ta©o©αT", "©.", "©o", ["©o", "©α"]),
        ("aXbx", "(?i)x", "X", ["X", "x"]),
        ("k=v, l=w", r"(\w)=(\w)", "k=v", ["k=v", "l=w"]),
        ("٣3", r"\d", "3", ["3"]),
        ("a\nb", "a$", "", []),
        ("Ωα", r"\p{Greek}+", "Ωα", ["Ωα"]),
    ],
)
def test_functions(text: str, regex: str, first: str, every: list[str]) -> None:
    assert call(LIBRARY, "string_find_string", text, regex) == first
    assert call(LIBRARY, "string_find_all_string", text, regex) == every
    for limit in range(-1, 4):
        want = every if limit < 0 else every[:limit]
        assert call(LIBRARY, "string_find_all_string_int", text, regex, limit) == want


@pytest.mark.parametrize(
    ("regex", "problem"),
    [
        ("[", "missing closing ]: `[`"),
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2000}", "invalid repeat count: `{2000}`"),
        ("\\", "trailing backslash at end of expression"),
        ("\\8", "invalid escape sequence: `\\8`"),
        ("\\C", "invalid escape sequence: `\\C`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
    ],
)
def test_bad_patterns(regex: str, problem: str) -> None:
    assert error(LIBRARY, "string_find_string", "x", regex) == f"Illegal regex: error parsing regexp: {problem}"


def test_an_escaped_backslash_before_a_c_is_no_escape() -> None:
    assert call(LIBRARY, "string_find_string", "\\C", r"\\C") == "\\C"
    assert call(LIBRARY, "string_find_string", "\\C", r"\Q\C\E") == "\\C"


def test_a_constant_pattern_is_compiled_ahead_of_time() -> None:
    bind = overload(LIBRARY, "string_find_all_string_int").bind
    assert bind is not None
    assert bind({0: "x"}) is None
    bound = bind({1: "[0-9]"})
    assert bound is not None
    assert bound("1 2 3", 2) == ["1", "2"]
    with pytest.raises(EvalError):
        bind({1: "["})


def test_patterns_are_kept_and_shared_between_threads() -> None:
    compiled: list[object] = []
    threads = [threading.Thread(target=lambda: compiled.append(pattern("thread+s"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiled) == 8
    assert pattern("thread+s") is pattern("thread+s")
    assert pattern.cache_info().maxsize == 1024


def test_an_evil_pattern_takes_linear_time() -> None:
    assert call(LIBRARY, "string_find_string", "a" * 50_000 + "b", "^(a+)+$") == ""


@given(st.text(alphabet="ab©", max_size=10), st.sampled_from(["a", "b+", "a|©", "[^a]", "ab?"]))
def test_the_same_matches_as_pythons(text: str, regex: str) -> None:
    assert call(LIBRARY, "string_find_all_string", text, regex) == [match[0] for match in re.finditer(regex, text)]


def test_costs() -> None:
    estimated = estimate(LIBRARY, "string_find_all_string", up_to(317), exactly(6))
    assert estimated == (Cost(2, 64), Size(0, 317), Size(0, 317))
    assert estimate(LIBRARY, "string_find_string", exactly(3), exactly(6)) == (Cost(2, 2), Size(0, 3), None)
    assert estimate(LIBRARY, "string_find_all_string", exactly(3), exactly(0)).size == Size(0, 4)
    assert measure(LIBRARY, "string_find_string", "x" * 20, "[a-z]+") == 6
