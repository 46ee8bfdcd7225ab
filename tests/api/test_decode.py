from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect as types

from moorage.api.decode import DecodeError, convert, decode, from_manifest, without_nulls
from moorage.api.kinds import KINDS, Kind
from moorage.api.meta import Data, Object
from moorage.api.node import Node, Taint
from moorage.api.pod import Pod, Toleration
from tests.api.every_field import Place, alternatives, document, filled, misfits, places

every_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.kind for kind in KINDS])


def problem(data: Any, struct: type[Object]) -> DecodeError:
    """The error that data meets, parsed or as JSON."""
    with pytest.raises(DecodeError) as parsed:
        convert(data, struct)
    with pytest.raises(DecodeError) as text:
        decode(json.dumps(data), struct)
    assert str(parsed.value) == str(text.value)
    return parsed.value


@every_kind
def test_a_wrong_type_in_any_field_is_named_by_its_path(kind: Kind) -> None:
    for place in places(kind):
        for sort, value in misfits(place.type).items():
            error = problem(document(place.steps, value), kind.struct)
            assert error.path == place.path
            assert str(error) == f"{place.path}: {error.message}"
            assert error.message.startswith("expected ")
            assert f"got {sort}" in error.message


def test_the_walk_reaches_what_scheduling_reads() -> None:
    paths = {kind.kind: {place.path for place in places(kind)} for kind in KINDS}
    term = "nodeSelectorTerms[0].matchExpressions[0].values[0]"
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    assert {"spec.tolerations[0].tolerationSeconds", f"spec.affinity.nodeAffinity.{required}.{term}"} <= paths["Pod"]
    assert {"spec.taints[0].value", "metadata.labels[...]", "status.allocatable[...]"} <= paths["Node"]
    assert f"spec.nodeAffinity.required.{term}" in paths["PersistentVolume"]
    assert "spec.devices.requests[0].exactly.tolerations[0].operator" in paths["ResourceClaim"]
    assert "spec.jobTemplate.spec.template.spec.tolerations[0].expression" in paths["CronJob"]


@every_kind
def test_a_text_that_is_no_time_is_refused_wherever_a_time_stands(kind: Kind) -> None:
    for place in places(kind):
        if isinstance(alternatives(place.type)[0], types.DateTimeType):
            for value in ("yesterday", "2024-05-06", "2024-05-06T07:08:09", ""):
                assert problem(document(place.steps, value), kind.struct).path == place.path


def _is_integer(place: Place) -> bool:
    sorts = alternatives(place.type)
    return any(isinstance(sort, types.IntType) for sort in sorts) and not any(
        isinstance(sort, types.FloatType) for sort in sorts
    )


@every_kind
def test_no_integer_is_longer_than_kubernetes_has_it(kind: Kind) -> None:
    for place in filter(_is_integer, places(kind)):
        for value in (2**63, 2**64, -(2**63) - 1, 10**30):
            assert problem(document(place.steps, value), kind.struct).path == place.path


@pytest.mark.parametrize(
    ("path", "least", "greatest"),
    [
        (("spec", "tolerations", 0, "tolerationSeconds"), -(2**63), 2**63 - 1),
        (("spec", "priority"), -(2**31), 2**31 - 1),
    ],
)
def test_an_integer_may_be_as_long_as_its_field(path: tuple[str | int, ...], least: int, greatest: int) -> None:
    for value in (least, -1, 0, greatest):
        assert json.loads(msgspec.json.encode(convert(document(path, value), Pod))) == document(path, value)
    for value in (least - 1, greatest + 1):
        assert str(least if value < 0 else greatest) in problem(document(path, value), Pod).message


@every_kind
def test_null_is_absent_in_every_field(kind: Kind) -> None:
    for place in places(kind):
        if place.is_field:
            data, absent = document(place.steps, None), document(place.steps[:-1], {})
            assert convert(data, kind.struct) == convert(absent, kind.struct), place.path
            assert decode(json.dumps(data), kind.struct) == convert(absent, kind.struct), place.path


def test_null_is_absent_at_the_place_of_a_whole_object_inside() -> None:
    pod = convert({"metadata": None, "spec": {"tolerations": [{"key": "a", "value": None}], "affinity": None}}, Pod)
    assert pod == convert({"spec": {"tolerations": [{"key": "a"}]}}, Pod)


def test_a_null_label_value_is_the_empty_value_and_not_a_condition_forgotten() -> None:
    # Go reads null in a map of strings as "": a nodeSelector must not get wider by it.
    assert convert({"spec": {"nodeSelector": {"disk": None}}}, Pod).spec.node_selector == {"disk": ""}


@every_kind
def test_unknown_fields_are_ignored_at_every_depth(kind: Kind) -> None:
    unknown = {"someFutureField": {"deeply": [{"nested": None}]}}
    for place in places(kind):
        if isinstance(alternatives(place.type)[0], types.StructType):
            data, known = document(place.steps, unknown), document(place.steps, {})
            assert convert(data, kind.struct) == convert(known, kind.struct), place.path
            assert decode(json.dumps(data), kind.struct) == convert(known, kind.struct), place.path


@every_kind
def test_an_object_with_every_field_set_reads_and_writes_unchanged(kind: Kind) -> None:
    data = filled(types.type_info(kind.struct))
    item = convert(data, kind.struct)
    assert decode(json.dumps(data), kind.struct) == item
    assert json.loads(msgspec.json.encode(item)) == data


def test_what_is_not_set_is_not_written() -> None:
    assert msgspec.json.encode(Toleration(key="a", operator="Exists")) == b'{"key":"a","operator":"Exists"}'


TAINT_VALUE = "spec.taints[0].value"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (950, "expected a string, got an integer: put it in quotes"),
        (95.5, "expected a string, got a number: put it in quotes"),
        (True, "expected a string, got true or false: put it in quotes"),
        (["950"], "expected a string, got a list"),
        ({"is": "950"}, "expected a string, got a map"),
    ],
    ids=repr,
)
def test_a_number_where_text_belongs_comes_with_the_hint_to_quote_it(value: Any, message: str) -> None:
    error = problem({"spec": {"taints": [{"key": "sla", "value": value, "effect": "NoSchedule"}]}}, Node)
    assert (error.path, error.message) == (TAINT_VALUE, message)


def test_text_where_a_number_belongs_comes_without_that_hint() -> None:
    error = problem({"spec": {"tolerations": [{"tolerationSeconds": "30"}]}}, Pod)
    assert str(error) == "spec.tolerations[0].tolerationSeconds: expected an integer, got a string"


def test_the_index_of_the_item_is_in_the_path() -> None:
    tolerations = [{"key": "a"}, {"key": "b"}, {"key": 3}]
    assert problem({"spec": {"tolerations": tolerations}}, Pod).path == "spec.tolerations[2].key"


def test_a_key_that_is_no_text_is_reported_at_the_path_of_its_map() -> None:
    with pytest.raises(DecodeError) as caught:
        convert({"metadata": {"labels": {1: "x"}}}, Pod)
    assert caught.value.path == "metadata.labels"


NOT_OBJECTS = [b"null", b"[]", b'"Pod"', b"3", b"true"]


@pytest.mark.parametrize("data", NOT_OBJECTS, ids=bytes.decode)
def test_what_is_no_map_is_no_object(data: bytes) -> None:
    with pytest.raises(DecodeError, match="expected a map"):
        decode(data, Pod)


BROKEN_BYTES = {
    "nothing": b"",
    "a piece": b'{"spec": {',
    "yaml": b"kind: Pod",
    "two documents": b"{} {}",
    "binary": bytes(range(256)),
    "broken utf-8": b'{"metadata": {"name": "\xff"}}',
    "too deep": b'{"metadata": {"name": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "too deep in a part that is ignored": b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a number of 5000 digits": b'{"metadata": {"generation": ' + b"1" * 5000 + b"}}",
    "a number beyond all floats": b'{"metadata": {"generation": 1e999}}',
    "not a number": b'{"metadata": {"generation": NaN}}',
}


@pytest.mark.parametrize("data", BROKEN_BYTES.values(), ids=BROKEN_BYTES)
def test_broken_bytes_are_refused_with_a_sentence(data: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(data, Pod)
    assert str(caught.value)


@given(st.binary() | st.text(st.sampled_from('{}[]":,0e-n \\ulspec')).map(str.encode))
def test_any_bytes_are_an_object_or_a_decode_error(data: bytes) -> None:
    try:
        assert isinstance(decode(data, Pod), Pod)
    except DecodeError as error:
        assert str(error)  # noqa: PT017


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "labels", "spec", "taints", "key", "status", "allocatable", "cpu"]), inner
        )
    ),
    max_leaves=8,
)


@given(json_values)
def test_any_data_is_an_object_or_a_decode_error(data: Any) -> None:
    try:
        assert isinstance(convert(data, Node), Node)
    except DecodeError as error:
        assert str(error)  # noqa: PT017


@given(json_values)
def test_without_nulls_leaves_no_null_member_and_changes_nothing_else(data: Any) -> None:
    def members(value: Any) -> list[Any]:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        own = list(value.values()) if isinstance(value, dict) else []
        return own + [member for each in inner for member in members(each)]

    lean = without_nulls(data)
    assert None not in members(lean)
    assert without_nulls(lean) == lean
    if None not in members(data):
        assert lean == data


def test_a_manifest_becomes_the_object_that_it_names() -> None:
    node = from_manifest(
        {"apiVersion": "v1", "kind": "Node", "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}
    )
    assert isinstance(node, Node)
    assert node.spec.taints == (Taint("a", "", "NoExecute"),)


@pytest.mark.parametrize(
    ("api_version", "kind"), [("v2", "Pod"), ("apps/v1", "Pod"), ("v1", "pod"), ("v1", "Deployment")]
)
def test_a_manifest_of_another_kind_is_nobodys(api_version: str, kind: str) -> None:
    assert from_manifest({"apiVersion": api_version, "kind": kind, "spec": 3}) is None


@pytest.mark.parametrize("missing", [{}, {"apiVersion": None}, {"apiVersion": ""}])
def test_a_manifest_must_say_its_api_version(missing: Data) -> None:
    with pytest.raises(DecodeError, match="apiVersion: is missing: every object says its apiVersion and kind"):
        from_manifest({"kind": "Pod", **missing})


def test_a_manifest_must_say_its_kind() -> None:
    with pytest.raises(DecodeError, match="kind: is missing: every object says its apiVersion and kind"):
        from_manifest({"apiVersion": "v1"})


@pytest.mark.parametrize("wrong", [{"kind": ["Pod"]}, {"kind": {"a": 1}}, {"kind": 1}, {"apiVersion": 1.1}])
def test_a_manifest_says_its_type_in_words(wrong: Data) -> None:
    with pytest.raises(DecodeError, match="expected a string"):
        from_manifest({"apiVersion": "v1", "kind": "Pod", **wrong})


def test_a_manifest_that_does_not_fit_is_refused_with_the_path() -> None:
    with pytest.raises(DecodeError) as caught:
        from_manifest({"apiVersion": "v1", "kind": "Pod", "spec": {"tolerations": {}}})
    assert str(caught.value) == "spec.tolerations: expected a list, got a map"
