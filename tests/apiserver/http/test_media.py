"""An Accept header gets the first form that it asks for and that can be had."""

from __future__ import annotations

import pytest

from moorage.apiserver.http.media import PARTIAL, PLAIN, TABLE, Form, negotiate, prefers_yaml

AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
KUBECTL = f"{AS_TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("*", PLAIN),
        ("application/*", PLAIN),
        ("application/json, */*", PLAIN),
        ("APPLICATION/JSON", PLAIN),
        ("application/json;charset=utf-8", PLAIN),
        ("application/json;stream=watch", PLAIN),
        (f"{PROTOBUF},application/json", PLAIN),
        (KUBECTL, TABLE),
        (AS_TABLE, TABLE),
        (AS_TABLE.replace("=Table", '="Table"'), TABLE),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json", PARTIAL),
        (f"application/json,{AS_TABLE}", PLAIN),
        (f"application/json;q=0.5,{AS_TABLE};q=0.9", TABLE),
        (f"*/*,{AS_TABLE}", TABLE),
        (f"{AS_TABLE};q=0,application/json", PLAIN),
        ("application/json;as=Picture;g=meta.k8s.io;v=v1,application/json", PLAIN),
        ("application/json;q=high", PLAIN),
        ("application/json;as=Picture;g=meta.k8s.io;v=v1", None),
        ("application/json;as=Table", None),
        ("application/yaml", PLAIN),
        (AS_TABLE.replace("json", "yaml"), TABLE),
        (PROTOBUF, None),
        ("text/html", None),
        ("json", None),
        (",;=", None),
    ],
)
def test_the_first_form_that_can_be_had_is_given(accept: str, form: Form | None) -> None:
    assert negotiate(accept, (PLAIN, TABLE, PARTIAL)) == form


@pytest.mark.parametrize(
    ("accept", "yaml"),
    [
        ("application/yaml", True),
        ("application/yaml, application/json", True),
        ("text/html, application/yaml, */*", True),
        ("application/json, application/yaml", False),
        ("application/yaml;q=0.5, application/json", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_who_asks_for_yaml_first_gets_yaml(accept: str, yaml: bool) -> None:
    assert prefers_yaml(accept) == yaml


def test_a_table_is_no_answer_where_only_the_object_is_on_offer() -> None:
    assert negotiate(AS_TABLE) is None
    assert negotiate(KUBECTL) == PLAIN


def test_nothing_is_assumed_where_the_object_itself_is_not_on_offer() -> None:
    assert negotiate("", (TABLE,)) is None


def test_an_answer_is_labelled_with_its_form() -> None:
    assert PLAIN.content_type == "application/json"
    assert TABLE.content_type == "application/json;g=meta.k8s.io;v=v1;as=Table"
