"""The CEL specification's own tests, when their data lies beside the checkout: run natively and by walking the tree."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage.cel import types
from moorage.cel.env import Env
from moorage.cel.errors import CompileError, EvalError
from moorage.cel.evaluate.evaluator import Evaluator
from moorage.cel.ext import strings
from moorage.cel.stdlib.optionals import OPTIONALS
from moorage.cel.stdlib.standard import TWO_VARIABLE_COMPREHENSIONS
from moorage.cel.types import Type
from moorage.cel.values import Duration, Timestamp, UInt, to_key, type_name

DATA = Path(__file__).parents[3] / "shared" / "cel-spec"
LIBRARIES = (OPTIONALS, TWO_VARIABLE_COMPREHENSIONS, strings.LATEST)
_LOST = "the recorded input has lost the backslashes that the recorded answer still has"
_NO_ERROR = "cel-go, and so Kubernetes, answers -1 where the specification wants an error"
FAILING = {
    "parse bytes_literals/triple_single_quoted_unescaped_punctuation": _LOST,
    "parse bytes_literals/triple_double_quoted_unescaped_punctuation": _LOST,
    "string_ext value_errors/indexof_out_of_range": _NO_ERROR,
    "string_ext value_errors/lastindexof_out_of_range": _NO_ERROR,
}

Case = dict[str, Any]


def cases() -> Iterator[Any]:
    for file in sorted(DATA.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            case = json.loads(line)
            yield pytest.param(case, id=f"{file.stem} {case['name']}")


_VALUES: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "uint": lambda text: UInt(int(text)),
    "double": float,
    "bytes": base64.b64decode,
    "null": lambda _: None,
    "list": lambda items: [value(item) for item in items],
    "map": lambda pairs: {to_key(value(key)): value(held) for key, held in pairs},
    "timestamp": lambda parts: Timestamp(parts[0] * 10**9 + parts[1]),
    "duration": lambda parts: Duration(parts[0] * 10**9 + parts[1]),
}


def value(tagged: dict[str, Any]) -> Any:
    ((tag, content),) = tagged.items()
    return _VALUES.get(tag, lambda plain: plain)(content)


_TYPES = {
    "bool": types.BOOL, "int": types.INT, "uint": types.UINT, "double": types.DOUBLE, "string": types.STRING,
    "bytes": types.BYTES, "null": types.NULL, "timestamp": types.TIMESTAMP, "duration": types.DURATION,
}  # fmt: skip


def declared(text: str) -> Type:
    name, _, rest = text.partition("(")
    if name == "list":
        return types.list_of(declared(rest[:-1]))
    if name == "map":
        key, _, held = rest[:-1].partition(", ")
        return types.map_of(declared(key), declared(held))
    return _TYPES.get(name, types.DYN)


def same(want: Any, actual: Any) -> bool:
    """Equality that also tells 1 from 1u, 1.0 and true, and 0.0 from -0.0."""
    if type(want) is not type(actual):
        return False
    if isinstance(want, list):
        return len(want) == len(actual) and all(map(same, want, actual))
    if isinstance(want, dict):
        return want.keys() == actual.keys() and all(same(want[key], actual[key]) for key in want)
    if isinstance(want, float):
        return want == actual and math.copysign(1, want) == math.copysign(1, actual)
    return bool(want == actual)


def outcomes(case: Case) -> list[Any]:
    """What native code gives and what walking the tree gives: values, or the errors."""
    unchecked = bool(case.get("disable_check"))
    variables = {name: declared(text) for name, text in case["vars"].items()}
    if unchecked:
        variables = dict.fromkeys((*variables, *case["bindings"]), types.DYN)
    env = Env(LIBRARIES, variables, container=case.get("container", ""), cross_type_comparison=True)
    try:
        program = env.compile(case["expr"], lenient=unchecked)
    except CompileError as error:
        return [error]
    inputs = tuple(value(case["bindings"][name]) for name in env.variables)
    walk = Evaluator(program.checked, inputs)
    return [attempt(lambda: program.evaluate(*inputs)), attempt(lambda: walk.eval(program.checked.expr))]


def attempt(evaluate: Callable[[], Any]) -> Any:
    try:
        return evaluate()
    except EvalError as error:
        return error


def passes(want: dict[str, Any], outcome: Any) -> bool:
    if "error" in want:
        return isinstance(outcome, CompileError | EvalError)
    if "type" in want["value"]:
        return isinstance(outcome, Type) and type_name(outcome) == want["value"]["type"]
    return same(value(want["value"]), outcome)


@pytest.mark.skipif(not DATA.is_dir(), reason="the specification's tests are not here")
@pytest.mark.parametrize("case", list(cases()))
def test_the_specification(case: Case, request: pytest.FixtureRequest) -> None:
    expected = request.node.callspec.id not in FAILING
    for outcome in outcomes(case):
        assert passes(case["want"], outcome) is expected, outcome
