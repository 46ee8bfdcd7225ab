"""Which documents there are, where each of them is, and what is wrong with those that cannot be read."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.api.manifests import ManifestError, read
from tests.api.manifest_texts import load, only, refusal

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
    assert [(document.index, document.line) for document in documents] == [(1, 1), (2, 5), (2, 9), (2, 12)]
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
    assert [document.data for document in documents] == data["items"]
    lines = text.splitlines()
    assert [lines[document.line - 1].strip() for document in documents] == ["{", "{", "{"]
    assert lines[documents[0].line_of("x[0]") - 1].strip() == "1"
    assert [lines[document.line_of("kind") - 1].strip() for document in documents] == [
        '"kind": "A",',
        '"kind": "B"',
        '"kind": "B"',
    ]


@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump])
def test_entries_of_a_typed_list_need_not_say_their_kind(dump: Callable[[Any], str]) -> None:
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}, {"kind": "Other"}]}
    assert [document.data for document in load(dump(pods))] == [
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
    assert [(document.data["kind"], document.line) for document in load(text)] == [("A", 6), ("B", 7), ("X", 8)]
    assert load(text)[1].line_of("kind") == 7


def test_standard_input_is_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [document.file for document in read(["-"], io.BytesIO(b"a: 1"))] == ["<stdin>"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: 1")))
    assert [document.data for document in read(["-"])] == [{"a": 1}]


def test_a_folder_is_all_manifests_below_it_in_order(tmp_path: Path) -> None:
    for name in ("b.yaml", "a/c.yml", "a/b/d.json", "notes.txt", "z.YAML.bak"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('{"kind": "A"}')
    files = [Path(document.file).relative_to(tmp_path).as_posix() for document in read([str(tmp_path)])]
    assert files == ["a/b/d.json", "a/c.yml", "b.yaml"]


def test_paths_are_read_in_the_order_given(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(f"kind: {name}")
    assert [document.data["kind"] for document in read([str(tmp_path / "b"), str(tmp_path / "a")])] == ["b", "a"]


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# nothing\n", "---\n", "---\n# nothing\n---\n", "~", "null\n...\n", "\ufeff"]
)
def test_nothing_is_no_document_and_no_error(text: str) -> None:
    assert load(text) == []


def test_json_texts_may_follow_each_other() -> None:
    documents = load('{"kind": "A"}\n{"kind": "B",\n "x": 1}\n\n{"kind": "List", "items": [{"kind": "C"}]}')
    assert [(document.data["kind"], document.index, document.line) for document in documents] == [
        ("A", 1, 1),
        ("B", 2, 2),
        ("C", 3, 5),
    ]
    assert documents[1].line_of("x") == 3


def test_yaml_that_starts_like_json_is_yaml() -> None:
    assert only("{kind: A, on: [yes, 0x10]} # comment") == {"kind": "A", "true": [True, 16]}
    assert [document.data for document in load('{"kind": "A"}\n---\nkind: B')] == [{"kind": "A"}, {"kind": "B"}]


def test_a_byte_order_mark_and_windows_lines_are_read() -> None:
    (document,) = load("\ufeffkind: A\r\nspec:\r\n  x: 1\r\n")
    assert document.data == {"kind": "A", "spec": {"x": 1}}
    assert document.line_of("spec.x") == 3


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
        ("%TAG !a! x\r" * 200, ":1: document 1: there are more than 100 %TAG directives"),
        ("%TAG !a! x\u2028" * 200, ":1: document 1: there are more than 100 %TAG directives"),
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
