from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.patch import jsonpatch
from moorage.apiserver.patch.errors import PatchError, same
from tests.apiserver.json_values import NAMES, NESTED, refusal, untouched, values


def op(kind: str, path: str, **rest: Any) -> dict[str, Any]:
    return {"op": kind, "path": path, **rest}


def moved(kind: str, source: str, path: str) -> dict[str, Any]:
    return {"op": kind, "from": source, "path": path}


LIST = {"l": ["a", "b"]}

RESULTS: list[tuple[str, Any, list[Any], Any]] = [
    ("add a member", {"a": 1}, [op("add", "/b", value=2)], {"a": 1, "b": 2}),
    ("add over a member", {"a": 1}, [op("add", "/a", value=2)], {"a": 2}),
    ("add null", {"a": 1}, [op("add", "/b", value=None)], {"a": 1, "b": None}),
    ("add an item in the middle", LIST, [op("add", "/l/1", value="x")], {"l": ["a", "x", "b"]}),
    ("add an item at the end", LIST, [op("add", "/l/2", value="x")], {"l": ["a", "b", "x"]}),
    ("append", LIST, [op("add", "/l/-", value="x")], {"l": ["a", "b", "x"]}),
    ("append a list as one item", LIST, [op("add", "/l/-", value=["x"])], {"l": ["a", "b", ["x"]]}),
    ("add below a list", {"l": [{"a": 1}]}, [op("add", "/l/0/b", value=2)], {"l": [{"a": 1, "b": 2}]}),
    ("add the whole document", {"a": 1}, [op("add", "", value={"b": 2})], {"b": 2}),
    ("remove a member", {"a": 1, "b": 2}, [op("remove", "/b")], {"a": 1}),
    ("remove an item", LIST, [op("remove", "/l/0")], {"l": ["b"]}),
    ("remove the last item as -1", LIST, [op("remove", "/l/-1")], {"l": ["a"]}),
    ("replace a member", {"a": 1}, [op("replace", "/a", value=[])], {"a": []}),
    ("replace a member that is not there", {}, [op("replace", "/a", value=1)], {"a": 1}),
    ("replace an item", LIST, [op("replace", "/l/1", value="x")], {"l": ["a", "x"]}),
    ("replace the document", {"a": 1}, [op("replace", "", value={"b": 2})], {"b": 2}),
    ("move a member", {"a": {"b": 1}, "c": {}}, [moved("move", "/a/b", "/c/d")], {"a": {}, "c": {"d": 1}}),
    ("move an item", {"l": [1, 2, 3]}, [moved("move", "/l/0", "/l/2")], {"l": [2, 3, 1]}),
    ("copy", {"a": {"b": 1}}, [moved("copy", "/a", "/c")], {"a": {"b": 1}, "c": {"b": 1}}),
    ("test, then go on", {"a": 1}, [op("test", "/a", value=1), op("remove", "/a")], {}),
    ("test whole and broken numbers", {"a": 1}, [op("test", "/a", value=1.0)], {"a": 1}),
    ("test the document", {"a": [1]}, [op("test", "", value={"a": [1]})], {"a": [1]}),
    ("test null against nothing", {}, [op("test", "/a", value=None)], {}),
    ("escapes", {"a/b": 1, "m~n": 2}, [op("remove", "/a~1b"), op("add", "/m~0n", value=3)], {"m~n": 3}),
    ("a tilde and a one", {"~1": 1}, [op("remove", "/~01")], {}),
    ("the empty name", {"": 1}, [op("replace", "/", value=2)], {"": 2}),
    ("a name that is a number", {"0": 1}, [op("replace", "/0", value=2)], {"0": 2}),
    ("no operation", {"a": 1}, [], {"a": 1}),
    ("members we do not know", {}, [op("add", "/a", value=1, note="x")], {"a": 1}),
]


@pytest.mark.parametrize(("document", "patch", "want"), [row[1:] for row in RESULTS], ids=[row[0] for row in RESULTS])
def test_operations(document: Any, patch: list[Any], want: Any) -> None:
    with untouched(document, patch):
        assert same(jsonpatch.apply(document, patch), want)


NOWHERE = "operation does not apply: doc is missing"

ERRORS: list[tuple[Any, Any, int, str]] = [
    ({}, {"op": "add"}, 400, "error decoding patch: a JSON patch is a list of operations"),
    ({}, ["add"], 400, "error decoding patch: a JSON patch is a list of operations"),
    ({}, None, 400, "error decoding patch: a JSON patch is a list of operations"),
    ({}, [{}], 422, "Unexpected kind: unknown"),
    ({}, [op("frob", "/a")], 422, "Unexpected kind: frob"),
    ({}, [{"op": ["add"], "path": "/a"}], 422, "Unexpected kind: unknown"),
    ({}, [{"op": "add", "value": 1}], 422, "add operation failed to decode path: missing value"),
    ({}, [{"op": "move", "path": "/a"}], 422, "move operation failed to decode from: missing value"),
    ({}, [op("add", "/a")], 422, "add operation, missing value field: missing value"),
    ({}, [op("add", "/a/b", value=1)], 422, f'add {NOWHERE} path: "/a/b": missing value'),
    ({"a": 1}, [op("add", "/a/b", value=1)], 422, f'add {NOWHERE} path: "/a/b": missing value'),
    (5, [op("add", "/a/b", value=1)], 422, f'add {NOWHERE} path: "/a/b": missing value'),
    ({}, [op("add", "a", value=1)], 422, f'add {NOWHERE} path: "a": missing value'),
    ({}, [op("remove", "/a/b")], 422, f'remove {NOWHERE} path: "/a/b": missing value'),
    ({}, [op("remove", "")], 422, f'remove {NOWHERE} path: "": missing value'),
    (
        {},
        [op("remove", "/a")],
        422,
        "error in remove for path: '/a': Unable to remove nonexistent key: a: missing value",
    ),
    ({}, [op("replace", "/a/b", value=1)], 422, f"replace {NOWHERE} path: /a/b: missing value"),
    ({}, [moved("move", "/a/b", "/c")], 422, f"move {NOWHERE} from path: /a/b: missing value"),
    ({}, [moved("copy", "/a", "/c")], 422, f"copy {NOWHERE} from path: /a: missing value"),
    (
        {"a": 1},
        [moved("copy", "/a", "/c/d")],
        422,
        f"copy {NOWHERE} destination path: /c/d: missing value",
    ),
    (
        {"a": {"b": 1}},
        [moved("move", "/a", "/a/b")],
        422,
        f"move {NOWHERE} destination path: /a/b: missing value",
    ),
    ({"a": 1}, [op("test", "/a", value=2)], 422, "testing value /a failed: test failed"),
    ({"a": 1}, [op("test", "/a", value=True)], 422, "testing value /a failed: test failed"),
    ({"a": [1]}, [op("test", "/a", value=[True])], 422, "testing value /a failed: test failed"),
    ({}, [op("test", "/a/b", value=None)], 422, "test operation does not apply: is missing path: /a/b: missing value"),
    (
        LIST,
        [op("add", "/l/3", value=1)],
        422,
        "error in add for path: '/l/3': Unable to access invalid index: 3: invalid index referenced",
    ),
    (
        LIST,
        [op("add", "/l/x", value=1)],
        422,
        "error in add for path: '/l/x': value was not a proper array index: 'x'",
    ),
    (
        LIST,
        [op("remove", "/l/-3")],
        422,
        "error in remove for path: '/l/-3': Unable to access invalid index: -3: invalid index referenced",
    ),
]


@pytest.mark.parametrize(("document", "patch", "status", "message"), ERRORS)
def test_errors(document: Any, patch: Any, status: int, message: str) -> None:
    with untouched(document, patch), pytest.raises(PatchError) as caught:
        jsonpatch.apply(document, patch)
    assert (caught.value.status, caught.value.message) == (status, message)


def test_a_patch_that_fails_halfway_changes_nothing() -> None:
    document = {"a": {"b": [1, {"c": 2}]}}
    patch = [op("add", "/a/b/1/c", value=3), op("remove", "/a/b/0"), op("test", "/a/x", value=1)]
    with untouched(document, patch), pytest.raises(PatchError):
        jsonpatch.apply(document, patch)


def test_a_copy_and_its_original_are_two() -> None:
    patch = [moved("copy", "/a", "/b"), op("add", "/a/x", value=1), op("add", "/b/y", value=2)]
    assert jsonpatch.apply({"a": {"l": []}}, patch) == {"a": {"l": [], "x": 1}, "b": {"l": [], "y": 2}}


def test_the_value_of_an_operation_is_not_written_to() -> None:
    shared: dict[str, Any] = {"l": []}
    patch = [op("add", "/a", value=shared), op("add", "/b", value=shared), op("add", "/a/l/-", value=1)]
    with untouched(patch):
        assert jsonpatch.apply({}, patch) == {"a": {"l": [1]}, "b": {"l": []}}


def test_what_a_patch_does_not_touch_is_shared() -> None:
    document = {"spec": {"containers": []}, "metadata": {"labels": {}}}
    patched = jsonpatch.apply(document, [op("add", "/metadata/labels/a", value="b")])
    assert patched["spec"] is document["spec"]


def test_ten_thousand_operations_are_allowed() -> None:
    patch = [op("add", "/l/0", value=index) for index in range(10_000)]
    assert len(jsonpatch.apply({"l": []}, patch)["l"]) == 10_000


def test_more_than_ten_thousand_operations_are_too_many() -> None:
    with pytest.raises(PatchError) as caught:
        jsonpatch.apply({}, [op("test", "/a", value=None)] * 10_001)
    assert caught.value.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert caught.value.message == "The allowed maximum operations in a JSON patch is 10000, got 10001"


def test_copies_of_copies_do_not_fill_the_memory() -> None:
    patch = [op("add", "/a", value=["x" * 100])] + [moved("copy", "/a", "/a/-") for _ in range(60)]
    with pytest.raises(PatchError, match="the accumulated size increase of copy is"):
        jsonpatch.apply({}, patch)


def test_nesting_beyond_the_stack_is_an_error_of_the_patch() -> None:
    patch = [op("add", "/a", value=NESTED), moved("copy", "/a", "/b")]
    with pytest.raises(PatchError, match="nested too deeply") as caught:
        jsonpatch.apply({}, patch)
    assert caught.value.status == HTTPStatus.BAD_REQUEST


def token(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def difference(old: Any, new: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """A patch from one value to another, as simple as can be."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old.keys() - new.keys():
            yield op("remove", f"{path}/{token(name)}")
        for name, value in new.items():
            if name in old:
                yield from difference(old[name], value, f"{path}/{token(name)}")
            else:
                yield op("add", f"{path}/{token(name)}", value=value)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(len(old) - 1, len(new) - 1, -1):
            yield op("remove", f"{path}/{index}")
        for index, value in enumerate(new):
            if index < len(old):
                yield from difference(old[index], value, f"{path}/{index}")
            else:
                yield op("add", f"{path}/-", value=value)
    elif not same(old, new):
        yield op("replace", path, value=new)


@given(values, values)
def test_a_difference_applied_is_the_other_value(old: Any, new: Any) -> None:
    patch = list(difference(old, new))
    with untouched(old, patch):
        assert same(jsonpatch.apply(old, patch), new)


paths = st.lists(st.sampled_from((*map(token, NAMES), "0", "1", "-1", "-", "x")), max_size=4).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(("add", "remove", "replace", "move", "copy", "test")), "path": paths},
    optional={"from": paths, "value": values},
)


@given(values, st.lists(operations, max_size=8) | values)
def test_garbage_is_refused_politely(document: Any, patch: Any) -> None:
    with untouched(document, patch):
        error = refusal(lambda: jsonpatch.apply(document, patch))
    assert error is None or error.status in (400, 422)
