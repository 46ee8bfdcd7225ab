"""What cel-go v0.26 with Kubernetes' options answers when it builds the program, recorded."""

from __future__ import annotations

import pytest

from moorage.cel.environments import NODE_ENV, TAINT_ENV
from moorage.cel.evaluate import evaluator

TO_INT, OVERFLOW, UNSIGNED = (
    "type conversion error from 'string' to 'int'",
    "integer overflow",
    "unsigned integer overflow",
)
TO_TIME = "type conversion error from 'string' to 'google.protobuf.Timestamp'"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("int('x') > 3", TO_INT),
        ("int('') == 0", TO_INT),
        ("int('9223372036854775808') == 0", TO_INT),
        ("int('0x1') == 1", TO_INT),
        ("int(' 1') == 1", TO_INT),
        ("uint('-1') == 0u", "type conversion error from 'string' to 'uint'"),
        ("double('1e999') == 0.0", "type conversion error from 'string' to 'double'"),
        ("bool('yes')", "type conversion error from 'string' to 'bool'"),
        ("string(b'\\xff') == ''", "invalid UTF-8 in bytes, cannot convert to string"),
        (
            "timestamp(string(1)) == taint.timeAdded",
            TO_TIME,
        ),
        ("duration(string(1)) == duration('1h')", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("int(1e300) == 0", OVERFLOW),
        ("int(18446744073709551615u) == 0", OVERFLOW),
        ("int(double('NaN')) == 0", OVERFLOW),
        ("uint(-1) == 0u", UNSIGNED),
        ("uint(int('-5')) == 0u", UNSIGNED),
        ("int(dyn('x')) == 1", TO_INT),
        ("int(string(bool('true'))) == 1", TO_INT),
        ("false && int('x') > 3", TO_INT),
        ("true || int('x') > 3", TO_INT),
        ("taint.key == '' ? int('x') > 1 : true", TO_INT),
        ("[1].exists(a, int('x') > a)", TO_INT),
        ("[int('x')].size() > 0", TO_INT),
        ("{'a': int('x')}.size() > 0", TO_INT),
        ("-int('x') == 1", TO_INT),
    ],
)
def test_a_conversion_that_always_fails_is_found_before_any_evaluation(text: str, problem: str) -> None:
    assert TAINT_ENV.compile(text).constants.problem == problem


@pytest.mark.parametrize(
    "text",
    [
        "int('12') == 12",
        "bool('t')",
        "int(taint.value) > 3",
        "int('x' + '') == 1",
        "int(['x'][0]) == 1",
        "int(1 == 1 ? 'x' : 'y') == 1",
        "1 / 0 == 1",
        "[1, 2][5] == 1",
        "{'a': 1}['b'] == 1",
        "{1: 1, 1: 2}.size() > 0",
        "quantity('x').isInteger()",
        "semver('x') == semver('1.0.0')",
        "ip('x') == ip('1.1.1.1')",
    ],
)
def test_what_cel_go_does_not_fold_is_left_to_the_evaluation(text: str) -> None:
    assert TAINT_ENV.compile(text).constants.problem == ""


def test_a_version_constraint_that_does_not_parse_is_found_before_any_evaluation() -> None:
    problem = TAINT_ENV.compile("semver.compare(taint.value, '>=banana')").constants.problem
    assert "banana" in problem
    assert TAINT_ENV.compile("semver.compare(taint.value, '>=1.2')").constants.problem == ""
    assert TAINT_ENV.compile("semver.compare('1.2', taint.value)").constants.problem == ""


def test_a_list_of_constants_is_made_once_however_often_it_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    """When every element fails, the tree is walked; the list in the loop must not be made anew each time."""
    numbers = ",".join(map(str, range(500)))
    program = NODE_ENV.compile(f"[{numbers}].exists(a, [{numbers}][a + 1000] == 1) || true")
    assert len(program.constants.values) == 2
    monkeypatch.setattr(evaluator, "make_list", lambda *_: pytest.fail("a list of constants was made again"))
    assert program.evaluate(None) is True
