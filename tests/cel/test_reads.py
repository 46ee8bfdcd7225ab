from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from moorage.cel.check.reads import reads
from moorage.cel.errors import EvalError
from moorage.cel.program import Program
from tests.cel.expressions import LITERALS, STANDARD, Grammar, expressions
from tests.cel.inputs import Node, Taint, environment

ENV = environment()
LABELS = ("node", "labels")


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("true", set()),
        ("taint.key == 'a'", set()),
        ("taint.key == 'labels' && [1].all(node, node == 1)", set()),
        ("node.labels['a'] == 'x'", {"a"}),
        ("node.labels.a == 'x'", {"a"}),
        (".node.labels.a == 'x'", {"a"}),
        ("has(node.labels.a)", {"a"}),
        ("'a' in node.labels", {"a"}),
        ("node.labels[?'a'].orValue('') == 'x'", {"a"}),
        ("node.labels.?a.orValue('') == 'x'", {"a"}),
        ("node.?labels.a.orValue('') == 'x'", {"a"}),
        ("node.?labels[?'a'].hasValue()", {"a"}),
        ("'a' in node.labels && node.labels['b'] == 'x' || has(node.labels.c)", {"a", "b", "c"}),
        ("['a', 'b'].all(k, k in node.labels)", {"a", "b"}),
        ("['a', 'b'].exists(i, k, node.labels[k] == 'x')", {"a", "b"}),
        ("['a'].exists(k, ['b'].exists(k, k in node.labels))", {"b"}),
        ("node.labels['a'].split(',').exists(part, part == 'x')", {"a"}),
        ("[1].exists(node, node == 1) && node.labels.a == 'x'", {"a"}),
        ("optional.of('x').optMap(k, k + node.labels.a).hasValue()", {"a"}),
    ],
)
def test_constant_look_ups_name_their_keys(text: str, keys: set[str]) -> None:
    assert reads(ENV.check(text), LABELS) == frozenset(keys)


@pytest.mark.parametrize(
    "text",
    [
        "node.labels.exists(k, k == 'a')",
        "node.labels.exists(k, v, v == 'a')",
        "node.labels.size() > 1",
        "size(node.labels) > 1",
        "node.labels[taint.key] == 'x'",
        "node.labels[node.labels['a']] == 'x'",
        "node.labels['a' + 'b'] == 'x'",
        "taint.key in node.labels",
        "node.labels == {'a': 'x'}",
        "(true ? node.labels : {'a': 'x'}).a == 'x'",
        "[node.labels].exists(labels, labels.a == 'x')",
        "dyn(node.labels).a == 'x'",
        "dyn(node).labels.a == 'x'",
        "[node].exists(n, n.labels.a == 'x')",
        "node == node",
        "has(node.labels)",
        "node.?labels.hasValue()",
        "['a', taint.key].all(k, k in node.labels)",
        "['a'].exists(k, v, string(k) in node.labels)",
        "['a'].exists(k, [taint.key].exists(k, k in node.labels))",
        "optional.of(node.labels).optMap(labels, labels.a).hasValue()",
    ],
)
def test_anything_else_reads_all_keys(text: str) -> None:
    assert reads(ENV.check(text), LABELS) is None


def test_a_path_can_be_a_variable_of_its_own() -> None:
    assert reads(ENV.check("taint.key == 'a' && taint.value == ''"), ("taint",)) == frozenset(("key", "value"))


KEYS = ("a", "b", "c", "a/b")
TEMPLATES = {
    **STANDARD,
    "str": (*STANDARD["str"], "node.labels[?'c'].orValue(<str>)"),
    "bool": (
        *STANDARD["bool"],
        "['a', 'c'].exists(x, node.labels[x] == <str x:str>)",
        "[<str>].all(x, x in node.labels)",
    ),
}
LEAVES = {
    **LITERALS,
    "str": LITERALS["str"] | st.sampled_from(("node.labels['a']", "node.labels.b")),
    "bool": st.sampled_from(("has(node.labels.a)", "('b' in node.labels)", "node.labels.?c.hasValue()")),
    "map": LITERALS["map"] | st.just("node.labels"),
}
VALUES = st.sampled_from(("", "a", "b", "1", "a/b"))
MAPS = st.dictionaries(st.sampled_from(KEYS), VALUES)


def outcome(program: Program, labels: dict[str, str]) -> Any:
    try:
        return program.evaluate(Taint(), Node(labels))
    except EvalError:
        return EvalError


@settings(max_examples=300, deadline=None)
@given(text=expressions(Grammar(LEAVES, TEMPLATES), "bool"), before=MAPS, after=MAPS)
def test_other_keys_have_no_influence(text: str, before: dict[str, str], after: dict[str, str]) -> None:
    program = ENV.compile(text)
    keys = reads(program.checked, LABELS)
    event("all keys" if keys is None else f"{len(keys)} keys")
    if keys is not None:
        kept = {key: value for key, value in before.items() if key in keys}
        others = {key: value for key, value in after.items() if key not in keys}
        assert outcome(program, kept | others) == outcome(program, before)
