from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cel.errors import EvalError
from moorage.cel.ext.semver import LIBRARY
from moorage.cel.library import Cost
from moorage.cel.values import equal, type_of_value
from tests.cel.libraries import call, error, estimate, exactly, measure, overload, up_to

versions = st.builds("{}.{}.{}{}".format, *[st.integers(0, 3)] * 3, st.sampled_from(["", "-rc.1", "-2", "+build"]))


def parse(text: str) -> Any:
    return call(LIBRARY, "string_to_semver", text)


@pytest.mark.parametrize(
    ("text", "strict", "normalized"),
    [
        ("1.0.0", True, True),
        ("0.1.0-alpha.1+build.2", True, True),
        ("v1.0.0", False, True),
        ("1.0", False, True),
        ("01.01.01", False, True),
        (" 1.0.0", False, False),
        ("1.0.0\n", False, False),
        ("1.0-rc", False, False),
        ("vv1.0.0", False, False),
        ("200K", False, False),
        ("", False, False),
    ],
)
def test_what_is_a_version(text: str, strict: bool, normalized: bool) -> None:
    assert call(LIBRARY, "is_semver_string", text) is strict
    assert call(LIBRARY, "is_semver_string_bool", text, False) is strict
    assert call(LIBRARY, "is_semver_string_bool", text, True) is normalized


def test_errors() -> None:
    assert error(LIBRARY, "string_to_semver", "1.0") == "No Major.Minor.Patch elements found"
    assert error(LIBRARY, "string_to_semver", "1.x.0") == 'Invalid character(s) found in minor number "x"'
    assert error(LIBRARY, "string_bool_to_semver", " 1.0.0", True)


def test_numbers() -> None:
    version = call(LIBRARY, "string_bool_to_semver", "v01.2", True)
    numbers = [call(LIBRARY, f"semver_{part}", version) for part in ("major", "minor", "patch")]
    assert numbers == [1, 2, 0]
    assert error(LIBRARY, "semver_major", parse(f"{2**63}.0.0")) == "integer overflow"


@given(versions, versions)
def test_comparison(a: str, b: str) -> None:
    left, right = parse(a), parse(b)
    order = call(LIBRARY, "semver_compare_to", left, right)
    assert call(LIBRARY, "semver_compare_to", right, left) == -order
    assert call(LIBRARY, "semver_is_less_than", left, right) is (order < 0)
    assert call(LIBRARY, "semver_is_greater_than", left, right) is (order > 0)
    assert equal(left, right) is (order == 0)


def test_versions_have_a_type() -> None:
    assert type_of_value(parse("1.0.0")).name == "kubernetes.Semver"


@pytest.mark.parametrize(
    ("version", "constraint", "want"),
    [
        ("v3.27.2", ">=3.25.0", True),
        (" 3.27 ", ">=3.25.0", True),
        ("5.15.0-1034-aws", "<5.15", True),
        ("1.5.0", ">1.0 <2.0 || >3.0", True),
        ("2.5.0", ">1.0 <2.0 || >3.0", False),
        ("1.2.9", "1.2.x", True),
        ("1.3.0", "!1.2.x", True),
    ],
)
def test_compare_with_a_constraint(version: str, constraint: str, want: bool) -> None:
    assert call(LIBRARY, "semver_compare", version, constraint) is want
    bind = overload(LIBRARY, "semver_compare").bind
    assert bind is not None
    bound = bind({1: constraint})
    assert bound is not None
    assert bound(version) is want


def test_bad_input_of_a_comparison_is_an_error() -> None:
    assert error(LIBRARY, "semver_compare", "not-a-version", ">=1.0")
    assert error(LIBRARY, "semver_compare", "1.0.0", "~1.0")
    bind = overload(LIBRARY, "semver_compare").bind
    assert bind is not None
    assert bind({0: "1.0.0"}) is None
    with pytest.raises(EvalError):
        bind({1: ""})


def test_costs() -> None:
    assert estimate(LIBRARY, "semver_compare", up_to(63), exactly(14)).cost == Cost(2, 8)
    assert measure(LIBRARY, "semver_compare", "1.0.0", ">=1.0") == 1
    assert estimate(LIBRARY, "string_to_semver", up_to(63)).cost == Cost(0, 7)
