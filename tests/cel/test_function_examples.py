from __future__ import annotations

import re

import pytest

from moorage.cel.env import kubernetes
from moorage.cel.evaluate.counting import count
from moorage.cel.values import equal, type_of_value
from tests.cel.example import Example
from tests.cel.function_examples import EXAMPLES
from tests.cel.language_examples import OPERATORS

ENV = kubernetes({}, {})
NAMESPACES = ("optional", "strings", "lists", "sets", "ip", "format", "semver")
INTERNAL = re.compile(r"[^\w.]|^_|@")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.expression)
def test_examples(example: Example) -> None:
    actual, expected = (ENV.compile(source).evaluate() for source in (example.expression, example.result))
    assert equal(actual, expected)
    assert type_of_value(actual) == type_of_value(expected)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.expression)
def test_examples_cost_no_more_than_estimated(example: Example) -> None:
    program = ENV.compile(example.expression)
    assert count(program.checked).cost <= program.cost.max < 1_000_000


def arguments(text: str) -> int:
    """How many arguments a signature lists: commas inside parentheses do not count."""
    while (bare := re.sub(r"\([^()]*\)", "", text)) != text:
        text = bare
    return text.count(",") + 1 if text else 0


def described(example: Example) -> tuple[str, int, bool]:
    head = example.signature.split(" -> ")[0]
    opening = matching_parenthesis(head)
    callee, args = head[:opening], head[opening + 1 : -1]
    receiver, _, name = callee.rpartition(".")
    if receiver in NAMESPACES:
        return callee, arguments(args), False
    return name, arguments(args) + bool(receiver), bool(receiver)


def matching_parenthesis(text: str) -> int:
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[index], 0)
        if depth == 0:
            return index
    raise ValueError(text)


def test_every_function_and_macro_has_an_example() -> None:
    functions = {
        (name, len(overload.args), overload.method)
        for name, overloads in ENV.functions.items()
        for overload in overloads
        if not INTERNAL.search(name)
    }
    macros = {(macro.name, macro.args + macro.method, macro.method) for macro in ENV.macros.values()}
    assert {described(example) for example in EXAMPLES if example not in OPERATORS} == functions | macros


def test_every_operator_has_an_example() -> None:
    operators = {"_?_:_": " ? ", "!_": "!", "-_": "-T", "_[_]": ")[", "@in": " in ", "_?._": ".?", "_[?_]": "[?"}
    names = [name for name in ENV.functions if INTERNAL.search(name) and not re.search(r"@[a-z]{3}", name)]
    for name in names:
        symbol = operators.get(name) or f" {name.strip('_')} "
        assert any(symbol in example.signature for example in OPERATORS), name
