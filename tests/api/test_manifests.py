from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from moorage.api import manifests, yamltext
from moorage.api.manifests import Document, ManifestError, read
from moorage.api.scalars import resolve

PODS = """\
# two pods
apiVersion: v1
kind: Pod
metadata:
  name: first
  labels: {a.b/c: x, "12": y}
spec:
  tolerations:
  - key: example.com/sla
    operator: Gt
    value: "900"
  - {key: other,
     value: "1"}
---
---
kind: Pod

metadata:
  name: second
"""


def load(text: str | bytes) -> list[Document]:
    data = text.encode() if isinstance(text, str) else text
    return list(read(["-"], io.BytesIO(data)))


def only(text: str) -> Any:
    (document,) = load(text)
    return document.data


def refusal(text: str | bytes) -> ManifestError:
    with pytest.raises(ManifestError) as caught:
        load(text)
    return caught.value


def test_each_document_knows_its_file_number_and_first_line(tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(PODS)
    first, second = read([str(file)])
    assert (first.file, first.index, first.line) == (str(file), 1, 2)
    assert (second.file, second.index, second.line) == (str(file), 3, 16)
    assert second.data == {"kind": "Pod", "metadata": {"name": "second"}}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", 2),
        ("kind", 3),
        ("metadata.name", 5),
        ("metadata.labels[a.b/c]", 6),
        ("metadata.labels[12]", 6),
        ("spec.tolerations", 8),
        ("spec.tolerations[0]", 9),
        ("spec.tolerations[0].key", 9),
        ("spec.tolerations[0].value", 11),
        ("spec.tolerations[1].key", 12),
        ("spec.tolerations[1].value", 13),
        ("spec.tolerations[1].absent", 12),
        ("spec.tolerations[2].value", 8),
        ("spec.tolerations[0].key.deeper", 9),
        ("spec.absent.deeper", 7),
        ("absent", 2),
    ],
)
def test_a_field_or_its_nearest_ancestor_has_a_line(path: str, line: int) -> None:
    assert load(PODS)[0].line_of(path) == line


def test_lines_are_those_of_the_file_in_later_documents() -> None:
    assert load(PODS)[1].line_of("metadata.name") == 19


def test_a_key_that_is_no_string_has_a_line_too() -> None:
    (document,) = load("kind: A\ndata:\n  on: 1\n  8: 2\n")
    assert (document.line_of("data.true"), document.line_of("data[8]")) == (3, 4)


LIST = """\
apiVersion: v1
items:
- kind: Pod
  metadata:
    name: a
-
  kind: Pod
  spec: &spec
    nodeName: n1
- {kind: Pod, metadata: {name: c},
   spec: *spec}
kind: List
"""


def test_a_list_is_its_entries_with_their_own_lines() -> None:
    documents = load("kind: A\n---\n" + LIST)
    assert [(each.index, each.line) for each in documents] == [(1, 1), (2, 5), (2, 9), (2, 12)]
    assert documents[1].line_of("metadata.name") == 7
    assert documents[2].line_of("spec.nodeName") == 11
    assert documents[3].line_of("spec.nodeName") == 13
    assert documents[3].data["spec"] == {"nodeName": "n1"}


def test_entries_of_a_json_list_have_their_own_lines() -> None:
    data = only_list = {
        "apiVersion": "v1",
        "items": [{"kind": "A", "x": [1]}, {"kind": "B"}, {"kind": "B"}],
        "kind": "List",
    }
    text = "\n" + json.dumps(only_list, indent=1)
    documents = load(text)
    assert [each.data for each in documents] == data["items"]
    lines = text.splitlines()
    assert [lines[each.line - 1].strip() for each in documents] == ["{", "{", "{"]
    assert lines[documents[0].line_of("x[0]") - 1].strip() == "1"
    assert [lines[each.line_of("kind") - 1].strip() for each in documents] == [
        '"kind": "A",',
        '"kind": "B"',
        '"kind": "B"',
    ]


@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump])
def test_entries_of_a_typed_list_need_not_say_their_kind(dump: Callable[[Any], str]) -> None:
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}, {"kind": "Other"}]}
    assert [each.data for each in load(dump(pods))] == [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "Other"},
    ]


@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump])
@pytest.mark.parametrize("items", [[], None])
def test_an_empty_list_has_no_documents(dump: Callable[[Any], str], items: Any) -> None:
    assert load(dump({"kind": "List", "items": items})) == []


def test_a_kind_that_only_ends_like_a_list_is_an_object() -> None:
    assert only("kind: AllowList\nspec: {}\n") == {"kind": "AllowList", "spec": {}}
    assert only('{"kind": "AllowList", "items": 5}') == {"kind": "AllowList", "items": 5}


def test_lists_in_lists_and_entries_by_alias_are_found() -> None:
    text = "x: &x {kind: X}\nkind: List\nitems:\n- kind: List\n  items:\n  - kind: A\n  - kind: B\n- *x\n"
    assert [(each.data["kind"], each.line) for each in load(text)] == [("A", 6), ("B", 7), ("X", 8)]
    assert load(text)[1].line_of("kind") == 7


def test_standard_input_is_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [each.file for each in read(["-"], io.BytesIO(b"a: 1"))] == ["<stdin>"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: 1")))
    assert [each.data for each in read(["-"])] == [{"a": 1}]


def test_a_folder_is_all_manifests_below_it_in_order(tmp_path: Path) -> None:
    for name in ("b.yaml", "a/c.yml", "a/b/d.json", "notes.txt", "z.YAML.bak"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('{"kind": "A"}')
    found = [Path(each.file).relative_to(tmp_path).as_posix() for each in read([str(tmp_path)])]
    assert found == ["a/b/d.json", "a/c.yml", "b.yaml"]


def test_paths_are_read_in_the_order_given(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(f"kind: {name}")
    assert [each.data["kind"] for each in read([str(tmp_path / "b"), str(tmp_path / "a")])] == ["b", "a"]


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# nothing\n", "---\n", "---\n# nothing\n---\n", "~", "null\n...\n", "\ufeff"]
)
def test_nothing_is_no_document_and_no_error(text: str) -> None:
    assert load(text) == []


def test_json_texts_may_follow_each_other() -> None:
    documents = load('{"kind": "A"}\n{"kind": "B",\n "x": 1}\n\n{"kind": "List", "items": [{"kind": "C"}]}')
    assert [(each.data["kind"], each.index, each.line) for each in documents] == [("A", 1, 1), ("B", 2, 2), ("C", 3, 5)]
    assert documents[1].line_of("x") == 3


def test_yaml_that_starts_like_json_is_yaml() -> None:
    assert only("{kind: A, on: [yes, 0x10]} # comment") == {"kind": "A", "true": [True, 16]}
    assert [each.data for each in load('{"kind": "A"}\n---\nkind: B')] == [{"kind": "A"}, {"kind": "B"}]


def test_a_byte_order_mark_and_windows_lines_are_read() -> None:
    (document,) = load("\ufeffkind: A\r\nspec:\r\n  x: 1\r\n")
    assert document.data == {"kind": "A", "spec": {"x": 1}}
    assert document.line_of("spec.x") == 3


SCALARS = {
    "yes": True, "Yes": True, "y": True, "ON": True, "true": True, "TRUE": True,
    "no": False, "n": False, "Off": False, "False": False, "yEs": "yEs", "tRue": "tRue",
    "": None, "~": None, "null": None, "Null": None, "nULL": "nULL", "none": "none",
    "0": 0, "-0": 0, "12": 12, "+12": 12, "-12": -12, "1_000": 1000, "1__0_": 10, "_1": "_1",
    "0x1F": 31, "-0x1f": -31, "0X1f": 31, "0o17": 15, "0O17": 15, "017": 15, "0b101": 5, "-0b101": -5, "0x": "0x",
    "08": 8, "0o8": "0o8", "0b2": "0b2", "09.5": 9.5,
    "9223372036854775807": 2**63 - 1, "-9223372036854775808": -(2**63), "18446744073709551615": 2**64 - 1,
    "18446744073709551616": 2.0**64, "-9223372036854775809": -(2**63), "+18446744073709551615": 2.0**64,
    "0xFFFFFFFFFFFFFFFFF": "0xFFFFFFFFFFFFFFFFF",
    "1.5": 1.5, "1.": 1, ".5": 0.5, "+.5": 0.5, "-.5": -0.5, "1e3": 1000, "1E-2": 0.01, "1.5e+1": 15, "1e400": "1e400",
    ".": ".", "-": "-", "+": "+", ".5_0": ".5_0", "1.5_0": 1.5, "1e": "1e", "1.2.3": "1.2.3", "e3": "e3",
    "12:30:45": "12:30:45", "1:2": "1:2", "2001-12-14": "2001-12-14", "2001-12-14T21:59:43Z": "2001-12-14T21:59:43Z",
    "64Gi": "64Gi", "100m": "100m", "v1.2": "v1.2", "=": "=", "<<": "<<",
    "0777777777777777777777777777": 7.77777777777777777e26,
    "!!str 12": "12", "!!int '12'": 12, "!!float 12": 12, "!!bool 'yes'": True, "!!null ''": None, "! 12": "12",
    "!!binary aGVs bG8=": "hello", "!custom 12": "12", "!!timestamp 2001-12-14": "2001-12-14",
    "'yes'": "yes", '"12"': "12", "'~'": "~", '""': "",
}  # fmt: skip


@pytest.mark.parametrize("text", [text for text in SCALARS if text != "-"])
def test_a_scalar_means_what_it_means_to_kubernetes(text: str) -> None:
    value = only(f"x: {text}\n")["x"]
    assert (value, type(value)) == (SCALARS[text], type(SCALARS[text]))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("true", "true"),
        ("No", "false"),
        ("1", "1"),
        ("0x10", "16"),
        ("1.5", "1.5"),
        ("1.10", "1.1"),
        ("0.1", "0.1"),
        ("100000.5", "100000.5"),
        ("1e6", "1e+06"),
        ("1e5", "100000"),
        ("0.00001", "1e-05"),
        ("-2.5", "-2.5"),
        ("16777217.0", "1.6777216e+07"),
        ("1e300", ".inf"),
        ("-1e300", "-.inf"),
        (".nan", ".nan"),
        ("-.inf", "-.inf"),
        ("'yes'", "yes"),
        ("2001-12-14", "2001-12-14"),
    ],
)
def test_a_key_becomes_the_string_that_json_has(text: str, key: str) -> None:
    assert only(f"{text}: x\n") == {key: "x"}


def test_anchors_and_aliases_repeat_values() -> None:
    text = "a: &x {m: 1}\nb: *x\nc: &k name\nd: [*k, *x]\n*k : e\n&i 5: f\ng: *i\n"
    assert only(text) == {
        "a": {"m": 1}, "b": {"m": 1}, "c": "name", "d": ["name", {"m": 1}], "name": "e", "5": "f", "g": 5,
    }  # fmt: skip


def test_an_anchor_can_be_set_again_but_not_used_in_another_document() -> None:
    assert only("a: &x 1\nb: &x 2\nc: *x\n") == {"a": 1, "b": 2, "c": 2}
    assert str(refusal("a: &x 1\n---\nb: *x\n")) == "<stdin>:3: document 2: alias *x has no anchor &x before it"


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("<<: *x\nb: 3", {"a": 1, "b": 3}),
        ("b: 3\n<<: *x", {"a": 1, "b": 2}),
        ("<<: [*x, *y]", {"a": 1, "b": 2, "c": 8}),
        ("<<: [*y, *x]", {"a": 9, "b": 2, "c": 8}),
        ("<<: {a: 5}\na: 6", {"a": 6}),
        ("<<: *x\n<<: *y", {"a": 9, "b": 2, "c": 8}),
        ("<<: []", {}),
        ("'<<': 1", {"<<": 1}),
    ],
)
def test_merge_keys_take_the_entries_of_other_maps_in_the_order_of_kubernetes(text: str, data: Any) -> None:
    merged = only("x: &x {a: 1, b: 2}\ny: &y {a: 9, c: 8}\nz:\n" + textwrap.indent(text, "  "))
    assert merged["z"] == data
    assert merged["x"] == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\n", ":4: document 1: key 'c' is given twice"),
        ("a: 1\n'a': 2\n", ":2: document 1: key 'a' is given twice"),
        ("1: a\n'1': b\n", ":2: document 1: key '1' is given twice"),
        ("x: &x {a: 1}\ny:\n  <<: *x\n  a: 2\n  a: 3\n", ":5: document 1: key 'a' is given twice"),
        ('{"a": 1,\n "b": {"c": 1,\n "c": 2}}', ":3: document 1: key 'c' is given twice"),
        ('{"kind": "List",\n "items": [{"a": 1},\n {"b": 1,\n "b": 2}]}', ":4: document 1: key 'b' is given twice"),
        (
            '{"kind": "List", "items": [\n{"a":\n1},\n{"b": 2}\n],\n "kind": "List"}',
            ":6: document 1: key 'kind' is given twice",
        ),
        ('{"a": 1}\n{"b": 1,\n"b": 2}', ":3: document 2: key 'b' is given twice"),
        ("a: 1\n---\n- b\n", ":3: document 2: an object is a map with apiVersion and kind, but this is a list"),
        ("hello\n", ":1: document 1: an object is a map with apiVersion and kind, but this is text"),
        ("\n12", ":2: document 1: an object is a map with apiVersion and kind, but this is a number"),
        ("[]", ":1: document 1: an object is a map with apiVersion and kind, but this is a list"),
        (
            "kind: List\nitems:\n- a: 1\n- x\n",
            ":4: document 1: an object is a map with apiVersion and kind, but this is text",
        ),
        (
            '{"kind": "List",\n "items": ["List",\n null]}',
            ":2: document 1: an object is a map with apiVersion and kind, but this is text",
        ),
        ("a: b: c\n", ":1: document 1: bad YAML: mapping values are not allowed in this context"),
        (
            "a: 1\n---\nb: 1\n\tc: 2\n",
            ":4: document 2: bad YAML: a tab stands where the line is indented; YAML wants spaces",
        ),
        (
            "a: [1,\n 2\nb: 3\n",
            ":3: document 1: bad YAML: did not find expected ',' or ']'"
            " while parsing a flow sequence that starts on line 1",
        ),
        (
            "a: 'x\n\n",
            ":3: document 1: bad YAML: found unexpected end of stream"
            " while scanning a quoted scalar that starts on line 1",
        ),
        ("a: @b\n", ":1: document 1: bad YAML: found character that cannot start any token"),
        ("é: 1\na: \x07", ":2: document 1: bad YAML: the character U+0007 is not allowed"),
        ("a: 1\nb: \x00", ":2: document 1: bad YAML: the character U+0000 is not allowed"),
        ('{"a": "\\ud800"}', ":1: document 1: bad YAML: found invalid Unicode character escape code"),
        ("a: *b\n", ":1: document 1: alias *b has no anchor &b before it"),
        ("a: &a\n  b: [*a]\n", ":2: document 1: anchor &a contains itself"),
        ("a: &a [*a]\n", ":1: document 1: anchor &a contains itself"),
        ("a: 1\n<<: 2\n", ":2: document 1: << wants a map or a list of maps"),
        ("? [a]\n: 1\n", ":1: document 1: a key is a map or a list; it must be a string"),
        ("a: &a [1]\n*a : 1\n", ":2: document 1: a key is a map or a list; it must be a string"),
        ("~: 1\n", ":1: document 1: a key is null"),
        ("a: .nan\n", ":1: document 1: a number must be finite: JSON has no .inf and no .nan"),
        ("a: !!int x\n", ":1: document 1: 'x' does not fit its tag !!int"),
        ("a: !!binary '*'\n", ":1: document 1: !!binary value contains invalid base64 data"),
        ("%TAG !a! x\n" * 200, ":1: document 1: there are more than 100 %TAG directives"),
    ],
)
def test_a_bad_manifest_is_refused_with_its_place(text: str, message: str) -> None:
    assert str(refusal(text)) == f"<stdin>{message}"


def test_documents_before_a_bad_one_are_given_first() -> None:
    documents = read(["-"], io.BytesIO(b"a: 1\n---\nb: [\n"))
    assert next(documents).data == {"a": 1}
    with pytest.raises(ManifestError) as caught:
        next(documents)
    assert (caught.value.file, caught.value.document, caught.value.line) == ("<stdin>", 2, 4)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    for path, message in (
        ("absent.yaml", "No such file or directory"),
        ("empty", "no .yaml, .yml, .json files in this folder"),
        ("loop.yaml", "Too many levels of symbolic links"),
        ("nul\0.yaml", "embedded null byte"),
    ):
        with pytest.raises(ManifestError) as caught:
            list(read([str(tmp_path / path)]))
        assert str(caught.value) == f"{tmp_path / path}: {message}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_files_and_folders_without_permission_are_named(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.yaml").touch()
    for locked in (tmp_path / "inner" / "a.yaml", tmp_path / "inner"):
        locked.chmod(0)
        with pytest.raises(ManifestError) as caught:
            list(read([str(tmp_path)]))
        assert str(caught.value) == f"{locked}: Permission denied"
    locked.chmod(0o700)


def test_what_is_not_utf8_is_refused() -> None:
    assert str(refusal(b"a: 1\n\xff\xfe\x00")) == "<stdin>:2: not text in UTF-8; is it a binary file?"
    assert str(refusal("a: 1".encode("utf-16"))) == "<stdin>:1: not text in UTF-8; is it a binary file?"


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "large.yaml").open("wb") as file:
        file.truncate(manifests.MAX_FILE_SIZE + 1)
    with pytest.raises(ManifestError, match="larger than 256 MiB; give it in parts"):
        list(read([str(tmp_path)]))


@pytest.mark.parametrize("text", ["{a: [1, 2, 3, 4]}", '{"a": [1, 2, 3, 4], "b": 1}', "a: [1, 2, 3, 4]"])
def test_a_document_of_too_many_values_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (manifests, yamltext):
        monkeypatch.setattr(module, "MAX_EVENTS", 5)
    assert str(refusal(text)) == "<stdin>:1: document 1: more than 5 values in one document; give it in parts"


def test_many_values_in_many_documents_are_welcome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yamltext, "MAX_EVENTS", 10)
    assert len(load("a: [1, 2]\n---\n" * 50)) == 50


DEEP = {
    "flow lists": "a: " + "[" * 100_000,
    "flow maps": "{a: " * 100_000,
    "block lists": "a:\n  " + "- " * 100_000,
    "explicit keys": "? " * 100_000,
    "block maps": "".join(" " * depth + "a:\n" for depth in range(2_000)),
    "json maps": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "json lists": '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
    "json just too deep": '{"a":' + "[" * 100 + "]" * 100 + "}",
    "json list": '{"kind":"List","items":[' + '{"a":' * 500 + "1" + "}" * 500 + "]}",
    "aliases": "a0: &a0 []\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 500)),
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_nesting_is_refused_quickly(name: str) -> None:
    start = time.perf_counter()
    error = refusal(DEEP[name])
    wanted = "a key is a map" if name == "explicit keys" else "nested deeper than 100 levels"
    assert error.message.startswith(wanted)
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize("text", ["a: " + "[" * 99 + "]" * 99, '{"a":' + "[" * 99 + "]" * 99 + "}"])
def test_a_hundred_levels_are_not_too_deep(text: str) -> None:
    assert list(only(text)) == ["a"]


BOMBS = {
    "lists": "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)),
    "maps": "a0: &a0 {x: y}\n"
    + "".join(f"a{n}: &a{n} {{{', '.join(f'k{key}: *a{n - 1}' for key in range(10))}}}\n" for n in range(1, 30)),
    "long text": f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 1_000)}]\n",
    "long keys": f"a: &a\n  ? {'x' * 1_000_000}\n  : y\nb: [{', '.join(['*a'] * 1_000)}]\n",
    "merges": f"a: &a {{{', '.join(f'k{n}: v' for n in range(10_000))}}}\nb:\n" + "- <<: *a\n" * 10_000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_an_alias_bomb_is_refused_quickly(name: str) -> None:
    start = time.perf_counter()
    assert refusal(BOMBS[name]).message == "aliases repeat more than 400,000 values"
    assert time.perf_counter() - start < 2


HOSTILE = {
    "digits": "a: " + "1" * 1_000_000,
    "zeros": "a: 0" + "0" * 1_000_000,
    "ones": "a: 0b" + "1" * 1_000_000,
    "decimals": "a: 1." + "1" * 1_000_000,
    "underscores": "a: 1" + "_" * 1_000_000,
    "json digits": '{"a": ' + "1" * 100_000 + "}",
    "commas": "a: [" + "," * 100_000,
    "documents": "---\n" * 100_000,
    "braces": "{" + "}" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_little_time(name: str) -> None:
    start = time.perf_counter()
    with contextlib.suppress(ManifestError):
        load(HOSTILE[name])
    assert time.perf_counter() - start < 2


NODE = """\
---
apiVersion: v1
kind: Node
metadata:
  name: node-{0}
  labels: {{zone: z{0}, kernel: "5.15.{0}"}}
spec:
  taints:
  - key: example.com/sla
    value: "{0}"
    effect: NoSchedule
status:
  allocatable: {{cpu: "16", memory: 64Gi, pods: "110"}}
"""


def test_ten_thousand_nodes_load_in_seconds(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text("".join(map(NODE.format, range(10_000))))
    start = time.perf_counter()
    assert sum(1 for _ in read([str(tmp_path)])) == 10_000
    assert time.perf_counter() - start < 10


def large_documents() -> Iterator[str]:
    for number in range(100):
        yield f"---\nkind: ConfigMap\ndata:\n  c{number}: |\n" + ("    " + "x" * 95 + "\n") * 10_000


def large_json_list() -> Iterator[str]:
    item = json.dumps({"kind": "A", "data": ["x" * 40] * 200})
    yield '{"kind": "List", "items": [' + item
    for _ in range(10_000 - 1):
        yield ",\n" + item
    yield "]}"


def large_yaml_list() -> Iterator[str]:
    yield "kind: List\nitems:"
    for number in range(20_000):
        yield NODE.format(number).replace("---", "\n-").replace("\n", "\n  ").replace("\n  -\n", "\n-\n", 1)


def small_documents() -> Iterator[str]:
    yield from map(NODE.format, range(20_000))


LIMITED = """
import resource, sys
from moorage.api.manifests import read
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
print(sum(1 for _ in read(sys.argv[1:])))
"""


@pytest.mark.parametrize(
    ("parts", "count"),
    [(large_documents, 100), (large_json_list, 10_000), (large_yaml_list, 20_000), (small_documents, 20_000)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_large_files_stay_within_a_gigabyte_and_a_minute(
    parts: Callable[[], Iterator[str]], count: int, tmp_path: Path
) -> None:
    file = tmp_path / "large"
    with file.open("w") as out:
        out.writelines(parts())
    done = subprocess.run([sys.executable, "-c", LIMITED, str(file)], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (str(count), "")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda values: st.lists(values, max_size=5) | st.dictionaries(st.text(max_size=20), values, max_size=5),
    max_leaves=20,
)
wrapped = st.fixed_dictionaries({"kind": st.just("Thing"), "value": json_values})


@given(wrapped, st.sampled_from([None, 0, 2]), st.booleans())
def test_any_json_reads_back(data: Any, indent: int | None, ascii_only: bool) -> None:
    assert only(json.dumps(data, indent=indent, ensure_ascii=ascii_only)) == data


@given(st.lists(wrapped, max_size=3), st.sampled_from([True, False, None]), st.booleans())
def test_any_yaml_with_quoted_text_reads_back(data: list[Any], flow: bool | None, is_unicode: bool) -> None:
    text = yaml.safe_dump_all(data, default_style='"', default_flow_style=flow, allow_unicode=is_unicode)
    assert [each.data for each in load(text)] == data


def has_plain_text_only(data: Any) -> bool:
    if isinstance(data, dict):
        return all(map(has_plain_text_only, [*data, *data.values()]))
    if isinstance(data, list):
        return all(map(has_plain_text_only, data))
    return not isinstance(data, str) or (resolve(data) == data and data != "<<")


@given(wrapped.filter(has_plain_text_only), st.sampled_from([True, False, None]))
def test_any_yaml_reads_back(data: Any, flow: bool | None) -> None:
    assert only(yaml.safe_dump(data, default_flow_style=flow)) == data


@given(wrapped.filter(has_plain_text_only))
def test_a_list_entry_reads_the_same_alone(data: Any) -> None:
    text = yaml.safe_dump({"items": [{"kind": "First"}, data], "kind": "List"}, sort_keys=False)
    entry = load(text)[1]
    assert entry.data == data
    assert text.splitlines()[entry.line_of("value") - 1].strip("- ").startswith("value:")


@given(st.text() | st.text("{}[]:,-?&*!|>'\"%@` \n\tab1#<~"))
def test_any_text_is_documents_or_one_error(text: str) -> None:
    try:
        documents = load(text)
    except ManifestError:
        return
    for document in documents:
        assert 1 <= document.line_of("a[0].b") <= text.count("\n") + 2
        json.dumps(document.data, allow_nan=False)


@given(st.binary())
def test_any_bytes_are_documents_or_one_error(data: bytes) -> None:
    with contextlib.suppress(ManifestError):
        load(data)
