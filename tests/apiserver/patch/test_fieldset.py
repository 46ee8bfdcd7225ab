from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.patch import fieldset
from moorage.apiserver.patch.fieldset import FieldSet

ELEMENTS = ("f:a", "f:b", 'k:{"name":"x"}', 'k:{"port":80}', 'v:"s"', "v:1")

paths = st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=3).map(tuple)
path_sets = st.frozensets(paths, max_size=8)


def tree(members: frozenset[tuple[str, ...]]) -> FieldSet:
    """The set of some paths, built by inserting them one by one."""
    root: dict[str, Any] = {}
    for path in members:
        here = root
        for element in path:
            here = here.setdefault(element, {})
        here["."] = {}
    return _tidy(root)


def _tidy(node: dict[str, Any]) -> dict[str, Any]:
    tidied = {name: _tidy(below) if name != "." else {} for name, below in node.items()}
    return {} if tidied.keys() == {"."} else tidied


def members(fields: FieldSet, prefix: tuple[str, ...] = ()) -> frozenset[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    for element, below in fields.items():
        if element == ".":
            continue
        if fieldset.is_member(below):
            found.add((*prefix, element))
        found |= members(below, (*prefix, element))
    return frozenset(found)


@given(path_sets, path_sets)
def test_the_algebra_is_that_of_sets_of_paths(left: Any, right: Any) -> None:
    one, other = tree(left), tree(right)
    assert members(one) == left
    assert fieldset.union(one, other) == tree(left | right)
    assert fieldset.difference(one, other) == tree(left - right)
    assert fieldset.intersection(one, other) == tree(left & right)


@given(path_sets)
def test_the_order_of_a_set_does_not_depend_on_how_it_came_about(members: frozenset[tuple[str, ...]]) -> None:
    ordered = fieldset.in_order(tree(members))
    assert ordered == tree(members)
    assert str(ordered) == str(fieldset.in_order(_backwards(ordered)))


def _backwards(fields: FieldSet) -> FieldSet:
    return {element: _backwards(fields[element]) for element in reversed(list(fields))}


def test_a_set_is_written_as_kubernetes_writes_it() -> None:
    unordered: FieldSet = {'k:{"port":443}': {}, "f:b": {}, 'k:{"port":80}': {}, "v:1": {}, "f:a": {}, ".": {}}
    assert list(fieldset.in_order(unordered)) == [".", "f:a", "f:b", 'k:{"port":80}', 'k:{"port":443}', "v:1"]


def test_paths_in_words() -> None:
    fields = {
        "f:spec": {
            "f:containers": {
                'k:{"name":"web"}': {
                    ".": {},
                    "f:ports": {
                        'k:{"containerPort":443,"protocol":"TCP"}': {},
                        'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:name": {}},
                    },
                }
            },
            "f:replicas": {},
        },
        "f:metadata": {
            "f:finalizers": {'v:"b"': {}, 'v:"a"': {}, "v:5": {}, "v:true": {}},
            "f:labels": {"f:a.b/c": {}},
        },
    }
    assert list(fieldset.paths(fields)) == [
        ".metadata.finalizers[=5]",
        '.metadata.finalizers[="a"]',
        '.metadata.finalizers[="b"]',
        ".metadata.finalizers[=true]",
        ".metadata.labels.a.b/c",
        ".spec.replicas",
        '.spec.containers[name="web"]',
        '.spec.containers[name="web"].ports[containerPort=80,protocol="TCP"]',
        '.spec.containers[name="web"].ports[containerPort=443,protocol="TCP"]',
        '.spec.containers[name="web"].ports[containerPort=80,protocol="TCP"].name',
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("web", '"web"'), ('a"b', '"a\\"b"'), ("<&>", '"\\u003c\\u0026\\u003e"'), ("é", '"é"'), ("\u2028", '"\\u2028"'),
        (80, "80"), (80.0, "80"), (0.5, "0.5"), (True, "true"), (None, "null"), (10**30, "1" + "0" * 30),
    ],
)  # fmt: skip
def test_scalars_are_spelled_as_go_does(value: Any, text: str) -> None:
    assert fieldset.scalar(value) == text


CANONICAL: list[tuple[Any, Any]] = [
    ({}, {}),
    ({"f:a": {"f:b": {}, ".": {"x": 1}}}, {"f:a": {"f:b": {}, ".": {}}}),
    ({'k:{ "b": 1, "a": "x" }': {}}, {'k:{"a":"x","b":1}': {}}),
    ({'v: "x"': {}, "i:3": {}}, {'v:"x"': {}, "i:3": {}}),
    ({"z:from-the-future": {}}, {}),
    ({"f": {}}, None),
    ({"field": {}}, None),
    ({"k:{": {}}, None),
    ({"k:[1]": {}}, None),
    ({'k:{"a":{}}': {}}, None),
    ({"k:{}": {}}, None),
    ({"v:[1]": {}}, None),
    ({"v:nonsense": {}}, None),
    ({"i:x": {}}, None),
    ({"f:a": 1}, None),
    ([], None),
    (None, None),
]


@pytest.mark.parametrize(("given", "want"), CANONICAL)
def test_sets_of_clients_are_respelled(given: Any, want: Any) -> None:
    assert fieldset.canonical(given) == want
