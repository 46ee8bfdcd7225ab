"""Evaluation: native code and the evaluator that walks the tree must agree, and errors must say what cel-go's say."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from moorage.cel import types
from moorage.cel.ast import Call
from moorage.cel.env import KUBERNETES, Env
from moorage.cel.errors import EvalError
from moorage.cel.evaluate.evaluator import Evaluator
from moorage.cel.program import Program
from moorage.cel.types import DYN, INT, STRING
from moorage.cel.values import NONE, Duration, Optional, Timestamp, UInt
from tests.cel.inputs import Node, Taint, environment

TAINT = Taint("node.example/a", "v3.27.2", "NoSchedule")
AGED = Taint("b", "5", "NoExecute", Timestamp.parse("2026-01-02T03:04:05Z"))
NODE = Node({"rack": "us-west-2a", "cpu": "16", "empty": ""})
ENV = environment()
LOOSE = Env(KUBERNETES, {"x": DYN, "n": INT, "names": types.list_of(STRING)}, cross_type_comparison=True)


def outcome(program: Program, *values: Any) -> Any:
    """The value or error of native code, which must be the one that walking the tree gives."""

    def attempt(call: Any) -> tuple[str, Any]:
        try:
            return "value", call()
        except EvalError as error:
            return "error", str(error)

    native = attempt(lambda: program.evaluate(*values))
    walked = attempt(lambda: Evaluator(program.checked, values).eval(program.checked.expr))
    assert native == walked
    assert type(native[1]) is type(walked[1])
    return native


def value(text: str, *values: Any, env: Env = ENV) -> Any:
    kind, answer = outcome(env.compile(text), *values)
    assert kind == "value", answer
    return answer


def error(text: str, *values: Any, env: Env = ENV) -> str:
    kind, answer = outcome(env.compile(text), *values)
    assert kind == "error", answer
    assert isinstance(answer, str)
    return answer


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("taint.key.startsWith('node.example/')", True),
        ("taint.key.startsWith('')", True),
        ("taint.key.startsWith('node.examplf')", False),
        ("taint.key.startsWith('a\U0010ffff')", False),
        ("taint.key.endsWith('/a') && taint.key.contains('.ex')", True),
        ("'rack' in node.labels && node.labels['rack'] == 'us-west-2a'", True),
        ("node.labels.rack.matches('^us-(west|east)')", True),
        ("has(node.labels.nope) || has(taint.timeAdded)", False),
        ("taint.effect in ['NoSchedule', 'NoExecute']", True),
        ("taint.effect in [taint.key, 'NoSchedule']", True),
        ("3u in [1u, 3u]", True),
        ("node.labels.exists(k, node.labels[k] == '')", True),
        ("node.labels.all(k, v, k != v)", True),
        ("node.labels.exists_one(k, k.startsWith('c'))", True),
        ("node.labels.filter(k, k.size() == 4)", ["rack"]),
        ("node.labels.map(k, k.size() > 3, k + '!')", ["rack!", "empty!"]),
        ("node.labels.transformMap(k, v, v.size())", {"rack": 10, "cpu": 2, "empty": 0}),
        ("node.labels.transformMap(k, v, v != '', v.size())", {"rack": 10, "cpu": 2}),
        ("node.labels.transformMapEntry(k, v, {v: k})", {"us-west-2a": "rack", "16": "cpu", "": "empty"}),
        ("[true, false].transformMap(i, v, v)", {0: True, 1: False}),
        ("[[1, 2], [3]].map(a, a.map(b, b * 2))", [[2, 4], [6]]),
        ("[1, 2].all(a, [3, 4].exists(b, b == a + 2 && taint.key != ''))", True),
        ("[1, 2].all(a, [a].map(b, b + a).exists(c, c == 2 * a))", True),
        ("[1].exists(a, optional.of(a).optMap(b, b + a).value() == 2)", True),
        ("[3, 1, 2].sortBy(v, -v)", [3, 2, 1]),
        ("node.labels[?'cpu'].orValue('0')", "16"),
        ("node.labels[?'nope'].orValue(taint.key)", "node.example/a"),
        ("node.labels[?'nope'].or(optional.of('z')).value()", "z"),
        ("node.labels.?cpu.hasValue()", True),
        ("taint.?timeAdded", NONE),
        ("taint.?key", Optional("node.example/a")),
        ("[1, 2, 3][1] + [1, 2, 3].size()", 5),
        ("[1] + [2]", [1, 2]),
        ("7 / -2 * 2 + -7 % 2", -7),
        ("7u / 2u + 1u", UInt(4)),
        ("-(-3.5) + 0.5", 4.0),
        ("1.0 / 0.0 > 1.0", True),
        ("{'a': 1, 'b': taint.key.size()}['b']", 14),
        ("{1: 'a', 2: 'b'}[2]", "b"),
        ("{true: 'a'}[true]", "a"),
        ("b'a' + b'b' == b'ab'", True),
        ("timestamp('2026-01-01T00:00:00Z') + duration('1h') > timestamp(0)", True),
        ("duration('90m').getHours()", 1),
        ("type(taint.key) == string && type([]) == list && type(null) == null_type", True),
        ("dyn(taint).key", "node.example/a"),
        ("taint == taint && node.labels == {'a': 'b'}", False),
        ("dyn(1) == 1.0 && dyn(1u) < 2 && dyn([1, 2]).exists(v, v == 2)", True),
        ("dyn(node.labels).exists(k, v, v == '16')", True),
        ("semver.compare(taint.value, '>=3.25.0') && !semver.compare(taint.value, '<3')", True),
        ("quantity('10Gi').isGreaterThan(quantity('200Mi'))", True),
        ("taint.key.size() == 14 ? 'yes' : 'no'", "yes"),
        ("[?optional.none(), ?optional.of(1), 2]", [1, 2]),
        ("{?'a': optional.none(), 'b': 1}", {"b": 1}),
    ],
)
def test_values(text: str, want: Any) -> None:
    actual = value(text, TAINT, NODE)
    assert actual == want
    assert type(actual) is type(want)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("node.labels['nope'] == 'a'", "no such key: nope"),
        ("node.labels.nope == 'a'", "no such key: nope"),
        ("taint.timeAdded < timestamp(0)", "no such key: timeAdded"),
        ("dyn(taint).timeAdded == timestamp(0)", "no such key: timeAdded"),
        ("dyn(taint).nope == 1", "no such key: nope"),
        ("{1: 2}[3] == 2", "no such key: 3"),
        ("[1][5] == 1", "index out of bounds: 5"),
        ("[1][-1] == 1", "index out of bounds: -1"),
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("-9223372036854775808 / -1 == 0", "integer overflow"),
        ("0u - 1u == 0u", "unsigned integer overflow"),
        ("int(taint.key) == 1", "type conversion error from 'string' to 'int'"),
        ("duration(taint.key) == duration('1s')", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("0.0 / 0.0 < 1.0", "NaN values cannot be ordered"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("dyn(1).startsWith('a')", "no such overload"),
        ("dyn('a') && true", "no such overload"),
        ("[dyn('a'), dyn('b')].sum() == 1", "no such overload"),
        ("dyn(1) + 'a' == 'b'", "no such overload"),
        ("{'a': 1}.exists(k, dyn(1))", "no such overload"),
        ("dyn(1).exists(k, true)", "no such overload"),
        ("{taint.key: 1, taint.key: 2}.size() == 1", "Failed with repeated key"),
        ("{dyn(1.5): 1}.size() == 1", "unsupported key type: double"),
        ("{dyn(null): 1}.size() == 1", "unsupported key type: null_type"),
        ("['a', 'a'].transformMapEntry(i, v, {v: i}).size() == 1", "insert failed: key a already exists"),
        ("timestamp(0).getHours('Nowhere/Land') == 1", "unknown time zone Nowhere/Land"),
        ("taint.key.matches(taint.key + '(')", "error parsing regexp: missing closing ): `node.example/a(`"),
        ("kubernetes.Taint{key: 'a'} == taint", "unknown type: 'kubernetes.Taint'"),
    ],
)
def test_errors(text: str, want: str) -> None:
    assert error(text, TAINT, NODE) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1 / 0 == 1 || true", True),
        ("true || 1 / 0 == 1", True),
        ("1 / 0 == 1 && false", False),
        ("node.labels['nope'] == 'a' || node.labels['cpu'] == '16'", True),
        ("[0, 1].exists(v, 1 / v == 1)", True),
        ("[0, 2].all(v, 1 / v == 1)", False),
        ("(1 / 0 == 1 && false) ? 'a' : 'b'", "b"),
        ("[1 / 0 == 1 || true].size()", 1),
        ("dyn('horse') || true", True),
        ("dyn(1).all(v, v) && false", False),
    ],
)
def test_an_operand_that_decides_absorbs_the_error_of_the_other(text: str, want: Any) -> None:
    assert value(text, TAINT, NODE) == want


@pytest.mark.parametrize(
    "text", ["1 / 0 == 1 || false", "1 / 0 == 1 && true", "[0, 2].exists(v, 1 / v == 1)", "[0, 1].all(v, 1 / v == 1)"]
)
def test_an_operand_that_does_not_decide_absorbs_nothing(text: str) -> None:
    assert error(text, TAINT, NODE) == "division by zero"


@pytest.mark.parametrize("text", ["[0, 1].exists_one(v, 1 / v == 1)", "[0].map(v, 1 / v).size() == 0"])
def test_other_loops_absorb_nothing(text: str) -> None:
    assert error(text, TAINT, NODE) == "division by zero"


def test_a_present_time_can_be_read() -> None:
    assert value("has(taint.timeAdded) && taint.timeAdded.getFullYear() == 2026", AGED, NODE)


@pytest.mark.parametrize(
    ("text", "x", "want"),
    [
        ("x.a.b", {"a": {"b": 1}}, 1),
        ("x[0]", [7], 7),
        ("x[0.0]", (7,), 7),
        ("x[1u]", {1: "a"}, "a"),
        ("x + x", "a", "aa"),
        ("x + x", Duration(1), Duration(2)),
        ("x in [1, 2]", 2.0, True),
        ("'a' in x", {"a": None}, True),
        ("has(x.a)", {}, False),
        ("x.?a", {"a": 1}, Optional(1)),
        ("x.map(v, v)", {"a": 1}, ["a"]),
        ("x == [1, 'a', null]", [1, "a", None], True),
        ("x ? 1 : 2", True, 1),
        ("!x", False, True),
        ("x.size()", b"abc", 3),
        ("string(x)", UInt(3), "3"),
        ("type(x)", None, types.NULL),
    ],
)
def test_values_whose_types_are_known_only_when_they_arrive(text: str, x: Any, want: Any) -> None:
    assert value(text, x, 1, [], env=LOOSE) == want


def test_a_null_where_the_checker_expected_a_time() -> None:
    assert error("(n < 0 ? timestamp(0) : null) < timestamp(1)", None, 1, [], env=LOOSE) == "no such overload"


def test_lists_may_be_tuples() -> None:
    assert value("names == ['a', 'b'] && names + ['c'] == ['a', 'b', 'c']", None, 0, ("a", "b"), env=LOOSE)


def test_objects_are_read_by_attributes() -> None:
    assert value("taint.key", SimpleNamespace(key="k", value="", effect="", time_added=None), NODE) == "k"


def test_nested_loops_stay_native() -> None:
    nested = "[1].all(a, [2].map(b, a + b).exists(c, optional.of(c).optMap(d, d + a).hasValue() && c == 3))"
    program = ENV.compile(nested)

    def fail(*_: Any) -> None:
        raise AssertionError("native code gave up")

    program.evaluate.__globals__["recover"] = fail
    assert program.evaluate(TAINT, NODE) is True


def test_a_trace_has_what_every_part_gave() -> None:
    program = ENV.compile("taint.key == 'x' || semver.compare(taint.value, '>=9')")
    trace = program.trace(TAINT, NODE)
    expr = program.checked.expr
    assert isinstance(expr, Call)
    assert [trace[arg.id] for arg in expr.args] == [False, False]
    assert trace[expr.id] is False


def test_a_trace_has_errors_and_leaves_out_what_was_not_evaluated() -> None:
    program = ENV.compile("'nope' in node.labels && node.labels['nope'] == ''")
    expr = program.checked.expr
    assert isinstance(expr, Call)
    assert expr.args[1].id not in program.trace(TAINT, NODE)
    failed = ENV.compile("node.labels['nope'] == ''")
    assert str(failed.trace(TAINT, NODE)[failed.checked.expr.id]) == "no such key: nope"


def test_the_cost_uses_the_declared_sizes() -> None:
    assert ENV.compile("node.labels.exists(k, node.labels[k] == 'docker')").cost.max == 2307


def test_an_exhausted_stack_does_not_matter() -> None:
    text = "+".join(["1"] * 240) + " == 240"

    def deep(levels: int) -> Any:
        return deep(levels - 1) if levels else ENV.compile(text).evaluate(TAINT, NODE)

    assert deep(800) is True


def test_threads_evaluate_together() -> None:
    program = ENV.compile("node.labels.exists(k, node.labels[k].matches('^1[0-9]$')) || node.labels['nope'] == ''")
    results: list[bool] = []

    def work() -> None:
        results.extend(program.evaluate(TAINT, NODE) for _ in range(200))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 1600
