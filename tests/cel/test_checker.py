"""The checker's answers: types, and errors in cel-go's words."""

from __future__ import annotations

import pytest

from moorage.cel import types
from moorage.cel.check.declarations import Field
from moorage.cel.env import KUBERNETES, Env
from moorage.cel.errors import CompileError
from moorage.cel.types import DYN, INT, STRING, TIMESTAMP
from tests.cel.inputs import environment

STRICT = environment()
LOOSE = Env(
    KUBERNETES,
    {
        "x": DYN,
        "count": INT,
        "names": types.list_of(STRING),
        "pod.name": STRING,
        "pod.spec.node": STRING,
        "acme.size": INT,
        "held": types.optional_of(types.map_of(STRING, INT)),
        "box": types.object_of("acme.Box"),
    },
    {"acme.Box": {"width": Field(INT, "width"), "opened": Field(TIMESTAMP, "opened", optional=True)}},
    container="acme.inner",
)


def errors(text: str, env: Env = STRICT) -> list[str]:
    with pytest.raises(CompileError) as caught:
        env.check(text)
    return [line.removeprefix("ERROR: <input>:") for line in str(caught.value).splitlines() if line[:5] == "ERROR"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1 + 2", "int"),
        ("[1, 2]", "list(int)"),
        ("[]", "list(dyn)"),
        ("[[], [1]]", "list(list(int))"),
        ("{'a': [1u]}", "map(string, list(uint))"),
        ("[1, 'a']", "list(dyn)"),
        ("[1, x]", "list(dyn)"),
        ("{}", "map(dyn, dyn)"),
        ("true ? [] : ['a']", "list(string)"),
        ("true ? timestamp(0) : null", "google.protobuf.Timestamp"),
        ("x.y.z", "dyn"),
        ("x + 1", "int"),
        ("x + x", "dyn"),
        ("names.map(n, n.size())", "list(int)"),
        ("names.filter(n, n != '')", "list(string)"),
        ("names.map(n, {n: [n]})", "list(map(string, list(string)))"),
        ("names.transformMap(i, n, n + 'x')", "map(int, string)"),
        ("names[0]", "string"),
        ("names[?0]", "optional_type(string)"),
        ("names[?0].orValue('')", "string"),
        ("held.a", "optional_type(int)"),
        ("held.?a.orValue(1)", "int"),
        ("held.optMap(m, m.size())", "optional_type(int)"),
        ("optional.none()", "optional_type(dyn)"),
        ("[?held.?a, 2]", "list(int)"),
        ("box.width", "int"),
        ("box.?opened", "optional_type(google.protobuf.Timestamp)"),
        ("has(box.opened)", "bool"),
        ("box", "acme.Box"),
        ("Box{width: 1}", "acme.Box"),
        ("type(1)", "type(int)"),
        ("string", "type(string)"),
        ("type", "type(type)"),
        ("Box", "type(acme.Box)"),
        ("pod.name", "string"),
        ("size", "int"),
        ("names.size()", "int"),
        ("duration('1s') + timestamp(0)", "google.protobuf.Timestamp"),
        ("[1].exists(size, size == 1)", "bool"),
        ("{1: 2, 'a': 3}", "map(dyn, int)"),
        ("lists.range(3)", "list(int)"),
        ("sets.contains([], [1])", "bool"),
    ],
)
def test_expressions_have_types(text: str, want: str) -> None:
    assert str(LOOSE.check(text).type) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("foo", "1:1: undeclared reference to 'foo' (in container '')"),
        ("taint.key == foo", "1:14: undeclared reference to 'foo' (in container '')"),
        ("foo.bar()", "1:1: undeclared reference to 'foo' (in container '')"),
        ("taint.key.foo()", "1:14: undeclared reference to 'foo' (in container '')"),
        ("foo(1)", "1:4: undeclared reference to 'foo' (in container '')"),
        ("taint.name", "1:6: undefined field 'name'"),
        ("taint.key.name", "1:10: type 'string' does not support field selection"),
        ("taint.timeAdded.x", "1:16: type 'timestamp' does not support field selection"),
        ("taint.key + 1", "1:11: found no matching overload for '_+_' applied to '(string, int)'"),
        ("-taint.key", "1:1: found no matching overload for '-_' applied to '(string)'"),
        ("size(1)", "1:5: found no matching overload for 'size' applied to '(int)'"),
        ("taint.key.size(1)", "1:15: found no matching overload for 'size' applied to 'string.(int)'"),
        ("node.labels[1]", "1:12: found no matching overload for '_[_]' applied to '(map(string, string), int)'"),
        ("1 in node.labels", "1:3: found no matching overload for '@in' applied to '(int, map(string, string))'"),
        ("true ? 1 : 'a'", "1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
        ("1 ? 1 : 2", "1:3: found no matching overload for '_?_:_' applied to '(int, int, int)'"),
        ("1 && taint.key", "1:1: expected type 'bool' but found 'int'"),
        ("[1, 'a']", "1:5: expected type 'int' but found 'string'"),
        ("{'a': 1, 2: 3}", "1:10: expected type 'string' but found 'int'"),
        ("{'a': 1, 'b': 2u}", "1:15: expected type 'int' but found 'uint'"),
        ("[1, dyn('a')]", "1:8: expected type 'int' but found 'dyn'"),
        ("[?1]", "1:3: expected type 'optional_type(int)' but found 'int'"),
        (
            "taint.key.all(c, true)",
            "1:6: expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("[1].all(x, x)", "1:12: expected type 'bool' but found 'int'"),
        ("[1].filter(x, x + 'a')", "1:17: found no matching overload for '_+_' applied to '(int, string)'"),
        ("timestamp('x')", "1:11: invalid timestamp argument"),
        ("duration('1 hour')", "1:10: invalid duration argument"),
        ("taint.key.matches('[')", "1:19: invalid matches argument"),
        ("Foo{a: 1}", "1:4: undeclared reference to 'Foo' (in container '')"),
        ("int{a: 1}", "1:4: 'int' is not a message type"),
        ("kubernetes.Taint{name: 1}", "1:22: undefined field 'name'"),
        (
            "kubernetes.Taint{key: 1}",
            "1:21: expected type of field 'key' is 'string' but provided type is 'int'",
        ),
        ("1 == 1.0", "1:3: found no matching overload for '_==_' applied to '(int, double)'"),
        (
            "optional.of(1).orValue('a')",
            "1:23: found no matching overload for 'orValue' applied to 'optional_type(int).(string)'",
        ),
    ],
)  # fmt: skip
def test_errors_are_worded_as_cel_go_words_them(text: str, want: str) -> None:
    assert errors(text)[0] == want


def test_all_errors_are_reported_at_once_in_order() -> None:
    assert errors("foo + taint.name == bar() && 1 && taint.key.x") == [
        "1:1: undeclared reference to 'foo' (in container '')",
        "1:12: undefined field 'name'",
        "1:24: undeclared reference to 'bar' (in container '')",
        "1:30: expected type 'bool' but found 'int'",
        "1:44: type 'string' does not support field selection",
    ]


def test_comparison_across_number_types_is_a_setting() -> None:
    assert errors("1 < 1.5", LOOSE) == ["1:3: found no matching overload for '_<_' applied to '(int, double)'"]
    assert str(STRICT.check("1 < 1.5").type) == "bool"


def test_names_are_looked_up_from_the_container_outwards() -> None:
    checked = LOOSE.check("size + pod.spec.node.size()")
    assert sorted(checked.names.values()) == ["acme.size", "pod.spec.node"]
    assert errors("nope", LOOSE) == ["1:1: undeclared reference to 'nope' (in container 'acme.inner')"]


def test_iteration_variables_hide_declared_names_unless_a_dot_is_in_front() -> None:
    assert str(LOOSE.check("['a'].map(count, count)").type) == "list(string)"
    assert str(LOOSE.check("['a'].map(count, .count)").type) == "list(int)"
    assert LOOSE.check("['a'].map(count, count)").names == {}


def test_a_namespaced_function_is_not_a_method() -> None:
    checked = LOOSE.check("lists.range(count)")
    (overloads,) = checked.overloads.values()
    assert [overload.id for overload in overloads] == ["lists_range"]


def test_a_lenient_check_leaves_errors_to_evaluation() -> None:
    checked = LOOSE.check("nope || true", lenient=True)
    assert list(checked.failures.values()) == ["undeclared reference to 'nope' (in container 'acme.inner')"]


def test_types_do_not_grow_without_bound() -> None:
    chain = "".join(f".map(v{index}, {{v{index}: v{index}}})" for index in range(60))
    assert str(LOOSE.check(f"[1]{chain}.size()").type) == "int"
