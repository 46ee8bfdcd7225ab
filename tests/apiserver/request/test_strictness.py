from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.api import kinds
from moorage.apiserver.request import repeatedkeys
from moorage.apiserver.request.bodies import read_yaml
from moorage.apiserver.request.strictness import BodyError, Level, check, level_of, repeated_keys
from moorage.validation.field import FieldError
from tests.apiserver.asked import MERGE, Asked

POD = kinds.row("v1", "Pod")


def test_a_strict_client_is_refused_what_nobody_reads() -> None:
    with pytest.raises(BodyError) as refused:
        check(POD, {"spec": {"foo": 1, "containers": [{"imge": "a"}]}}, Level.STRICT)
    assert str(refused.value) == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.foo", '
        'unknown field "spec.containers[0].imge"'
    )


def test_other_clients_are_warned_or_left_alone() -> None:
    assert check(POD, {"spec": {"foo": 1}}, Level.WARN) == ['unknown field "spec.foo"']
    assert check(POD, {"spec": {"foo": 1}}, Level.IGNORE) == []


def test_what_an_object_has_already_is_no_fault_of_a_patch() -> None:
    before, after = {"spec": {"foo": 1}}, {"spec": {"foo": 2}, "more": 1}
    assert check(POD, after, Level.WARN, before=before) == ['unknown field "more"']
    assert check(POD, {"spec": {"foo": 1, "nodeName": "n"}}, Level.STRICT, before=before) == []


async def test_an_object_with_an_unknown_field_can_still_be_patched(ask: Asked) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "newer": 1}
    assert (await ask("POST", maps, made)).status == 201
    label = {"metadata": {"labels": {"a": "b"}}}
    assert (await ask("PATCH", f"{maps}/x?fieldValidation=Strict", label, MERGE)).status == 200
    refused = await ask("PATCH", f"{maps}/x?fieldValidation=Strict", {"other": 1}, MERGE)
    assert (refused.status, b'unknown field \\"other\\"' in refused.body) == (400, True)


def test_what_was_found_in_the_text_comes_first_and_once() -> None:
    problems = ['duplicate field "spec"', 'duplicate field "spec"']
    assert check(POD, {"a": 1}, Level.WARN, problems) == ['duplicate field "spec"', 'unknown field "a"']
    assert check(POD, {}, Level.IGNORE, problems) == []


def test_a_client_is_told_in_the_order_of_its_text() -> None:
    body = b'{"metadata":{"name":"a"},"spec":{"first":1,"hostname":"a","hostname":"b","last":1}}'
    problems = repeated_keys(body, data := msgspec.json.decode(body), Level.WARN)
    assert check(POD, data, Level.WARN, problems, body=body) == [
        'unknown field "spec.first"',
        'duplicate field "spec.hostname"',
        'unknown field "spec.last"',
    ]


def test_no_more_is_told_than_anybody_reads() -> None:
    assert len(check(POD, {f"field-{number}": 1 for number in range(1000)}, Level.WARN)) == 100


@pytest.mark.parametrize("level", Level)
def test_a_field_that_cannot_be_read_is_refused_at_every_level(level: Level) -> None:
    with pytest.raises(BodyError, match="cannot unmarshal string into Go struct field Pod"):
        check(POD, {"spec": "x"}, level)


@pytest.mark.parametrize(
    ("text", "level"),
    [("", Level.WARN), ("Strict", Level.STRICT), ("Warn", Level.WARN), ("Ignore", Level.IGNORE)],
)
def test_the_query_names_the_level(text: str, level: Level) -> None:
    assert level_of(text) is level


def test_a_level_that_does_not_exist_is_an_error_of_the_query() -> None:
    error = level_of("strict")
    assert isinstance(error, FieldError)
    assert str(error) == (
        'fieldValidation: Unsupported value: "strict": supported values: "", "Ignore", "Strict", "Warn"'
    )


JSON_TEXTS = [
    ('{"a":1,"b":{"c":2}}', []),
    ('{"a":1,"a":2}', ["a"]),
    ('{"spec":{"x":1,"y":[{"z":1},{"z":1,"z":2}],"x":2}}', ["spec.y[1].z", "spec.x"]),
    ('{"a" : 1, "b":2}', []),
    ('{"a" : 1, "a" : 2}', ["a"]),
    ('{"a":"\\":","b":1}', []),
    ('{"a":"\\":","b" :1,"b":2}', ["b"]),
    ('{"a":1,"a":2,"a":3}', ["a", "a"]),
    ('{"a":{"b":1,"b":2},"a":{}}', ["a.b", "a"]),
    ("[1, 2]", []),
]


@pytest.mark.parametrize(("text", "places"), JSON_TEXTS)
def test_keys_that_json_gives_twice_are_found(text: str, places: list[str]) -> None:
    body = text.encode()
    assert repeatedkeys.in_json(body, msgspec.json.decode(body)) == places


def test_what_is_said_of_keys_given_twice() -> None:
    body = b'{"spec":{"a":1,"a":2}}'
    data = msgspec.json.decode(body)
    assert repeated_keys(body, data, Level.STRICT) == ['duplicate field "spec.a"']
    assert repeated_keys(body, data, Level.IGNORE) == []


def test_many_keys_given_twice_below_a_long_one_are_named_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[int] = []
    text = repeatedkeys.KeyPlace.__str__

    def counted(place: repeatedkeys.KeyPlace) -> str:
        joined.append(place.length)
        return text(place)

    monkeypatch.setattr(repeatedkeys.KeyPlace, "__str__", counted)
    many = ",".join(['"k":1'] * 20_000)
    for length, most in ((1, repeatedkeys.MOST), (20_000, 3)):
        body = f'{{"{"a" * length}":{{{many}}},"spec":{{"what":1}}}}'.encode()
        data = msgspec.json.decode(body)
        found = repeated_keys(body, data, Level.WARN)
        assert len(found) == most
        assert sum(joined) <= repeatedkeys.LONGEST
        warnings = check(POD, {"spec": {"what": 1}}, Level.WARN, found, None, body)
        assert len(warnings) <= 101
        assert sum(joined) <= 5 << 20
        joined.clear()


VALUES = st.recursive(
    st.none() | st.integers(0, 9) | st.text(alphabet='":\\ ,{}ab', max_size=4),
    lambda child: (
        st.lists(child, max_size=3) | st.dictionaries(st.text(alphabet='":\\ ab', max_size=2), child, max_size=3)
    ),
    max_leaves=10,
)


@given(VALUES, st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]))
def test_a_text_without_repeated_keys_has_none(data: Any, separators: tuple[str, str]) -> None:
    body = json.dumps(data, separators=separators).encode()
    assert repeatedkeys.in_json(body, msgspec.json.decode(body)) == []


@given(VALUES, st.text(alphabet='":\\ ab', max_size=2), st.sampled_from([":", " :", "\n:"]))
def test_a_key_that_is_added_again_is_found(data: Any, key: str, colon: str) -> None:
    inner = json.dumps(data)
    body = f"[{inner}, {{{json.dumps(key)}{colon} 1, {json.dumps(key)}: {inner}}}]".encode()
    assert f"[1].{key}" in repeatedkeys.in_json(body, msgspec.json.decode(body))


YAML_TEXTS = [
    ("a: 1\nb: 2\n", [], {"a": 1, "b": 2}),
    ("a: 1\na: 2\n", [(2, "a")], {"a": 2}),
    ("spec:\n  x: 1\n  b: [{z: 1}, {z: 1, z: 2}]\n  x: 2\n", [(3, "z"), (4, "x")],
     {"spec": {"b": [{"z": 1}, {"z": 2}], "x": 2}}),
    ("a:\n  - b: 1\n    b: 2\n  - b: 1\n", [(3, "b")], {"a": [{"b": 2}, {"b": 1}]}),
    ("a: {b: 1, b: 2}\nc: 1\na: 3\n", [(1, "b"), (3, "a")], {"c": 1, "a": 3}),
    ("a: 1\na: 2\nb: 0\na: 3\n", [(2, "a"), (4, "a")], {"b": 0, "a": 3}),
    ("? a\n: 1\n? a\n: 2\n", [(3, "a")], {"a": 2}),
    ("x: &x {a: 1}\nz:\n  <<: *x\n  <<: *x\n", [], {"x": {"a": 1}, "z": {"a": 1}}),
    ("---\na: 1\n---\na: 1\na: 2\n", [], {"a": 1}),
    ("a: &x {b: 1}\na: 2\nc: *x\n", [(2, "a")], {"a": 2, "c": {"b": 1}}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "repeated", "data"), YAML_TEXTS)
def test_the_last_of_several_keys_of_yaml_counts(text: str, repeated: list[tuple[int, str]], data: Any) -> None:
    body = read_yaml(text.encode())
    lines = [f'  line {line}: key "{key}" already set in map' for line, key in repeated]
    assert body.repeated == (["yaml: unmarshal errors:\n" + "\n".join(lines)] if lines else [])
    assert json.dumps(body.data) == json.dumps(data)


def test_a_text_as_deep_as_the_reader_reads_is_answered() -> None:
    depth = 900
    body = b'{"a":' * depth + b"1" + b"}" * depth
    assert repeated_keys(body, msgspec.json.decode(body), Level.WARN) == []
    with pytest.raises(BodyError, match="nested deeper than 100 levels"):
        check(POD, msgspec.json.decode(body), Level.WARN)


def test_of_very_many_repeated_yaml_keys_a_hundred_are_noted() -> None:
    body = read_yaml(b"a:\n" * 50_000)
    (warning,) = body.repeated
    assert warning.count("already set in map") == 100
