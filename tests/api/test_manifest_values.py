"""What is written in a manifest means what it means to Kubernetes."""

from __future__ import annotations

import contextlib
import json
import textwrap
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from moorage.api.manifests import ManifestError
from moorage.api.yamlscalars import resolve
from tests.api.manifest_texts import load, only, refusal

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
    assert [document.data for document in load(text)] == data


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
