from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from moorage import cel

EVENT = {
    "example.Event": {
        "name": cel.Field(cel.STRING, "name"),
        "tags": cel.Field(cel.list_of(cel.STRING), "tags"),
        "when": cel.Field(cel.TIMESTAMP, "time", optional=True),
        "cause": cel.Field(cel.object_of("example.Event"), "cause", optional=True),
    }
}


@pytest.mark.parametrize(
    ("kind", "value", "expression"),
    [
        (cel.TIMESTAMP, datetime(2026, 1, 2, tzinfo=UTC), "x == timestamp('2026-01-02T00:00:00Z')"),
        (cel.TIMESTAMP, "2026-01-02T00:00:00Z", "x.getDayOfMonth() == 1"),
        (cel.DURATION, timedelta(minutes=90), "x == duration('1h30m')"),
        (cel.DURATION, "90m", "x == duration('1h30m')"),
        (cel.DYN, timedelta(seconds=-1), "x == duration('-1s')"),
        (cel.UINT, 3, "x == 3u"),
        (cel.DOUBLE, 1, "type(x) == double"),
        (cel.INT, 1, "type(x) == int"),
        (cel.list_of(cel.UINT), (1, 2), "x == [1u, 2u]"),
        (cel.map_of(cel.STRING, cel.DURATION), {"a": "1m"}, "x.a == duration('60s')"),
        (cel.map_of(cel.BOOL, cel.STRING), {True: "yes"}, "x[true] == 'yes'"),
        (cel.DYN, {"a": [{"b": None}]}, "x.a[0].b == null"),
        (cel.object_of("example.Event"), {"name": "n"}, "x.name == 'n' && x.tags == [] && !has(x.when)"),
        (cel.object_of("example.Event"), {"when": "2026-01-02T00:00:00Z"}, "x.when.getFullYear() == 2026"),
        (cel.object_of("example.Event"), {"cause": {"tags": ["a"]}}, "x.cause.tags[0] == 'a'"),
        (cel.object_of("example.Event"), SimpleNamespace(name="n"), "x.name == 'n'"),
    ],
)
def test_plain_data_becomes_what_was_declared(kind: cel.Type, value: Any, expression: str) -> None:
    program = cel.kubernetes({"x": kind}, EVENT).compile(expression)
    assert program(x=value) is True


@pytest.mark.parametrize("values", [{}, {"x": 1}, {"x": 1, "y": 2, "z": 3}])
def test_each_variable_must_be_given_and_no_other(values: dict[str, int]) -> None:
    program = cel.kubernetes({"x": cel.INT, "y": cel.INT}).compile("x + y")
    with pytest.raises(TypeError, match="the environment declares the variables x, y, and given are"):
        program(**values)


def test_a_function_of_ones_own_is_checked_called_and_absorbed_when_it_fails() -> None:
    def percent(part: int, whole: int) -> int:
        return part * 100 // whole

    env = cel.kubernetes(
        {"part": cel.INT, "whole": cel.INT},
        functions=[
            cel.define("percent", (cel.INT, cel.INT), cel.INT, percent),
            cel.define("of", (cel.INT, cel.INT), cel.INT, percent, method=True),
        ],
    )
    assert env.compile("percent(part, whole) + part.of(whole)")(part=1, whole=4) == 50
    assert env.compile("percent(part, whole) > 1 || whole == 0")(part=1, whole=0) is True
    with pytest.raises(cel.EvalError, match="percent: integer division or modulo by zero"):
        env.compile("percent(part, whole)")(part=1, whole=0)
    with pytest.raises(cel.CompileError, match="found no matching overload for 'percent'"):
        env.compile("percent('1', whole)")


def test_a_function_may_name_its_own_error() -> None:
    def refuse(_: str) -> str:
        raise cel.EvalError("not today")

    env = cel.kubernetes(functions=[cel.define("refuse", (cel.STRING,), cel.STRING, refuse)])
    with pytest.raises(cel.EvalError, match=r"^not today$"):
        env.compile("refuse('a')").evaluate()
