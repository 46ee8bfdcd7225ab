from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.patch import strategic
from moorage.apiserver.patch.errors import PatchError, same
from moorage.registry.merging import OBJECT
from moorage.registry.table import shape_of
from tests.apiserver.json_values import maps, refusal, untouched, values

POD, DEPLOYMENT = shape_of("", "Pod"), shape_of("apps", "Deployment")
BUDGET, JOB = shape_of("policy", "PodDisruptionBudget"), shape_of("batch", "Job")


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def items(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


WEB, LOG = {"name": "web", "image": "web:1"}, {"name": "log", "image": "log:1"}
BOTH = spec(containers=[WEB, LOG])
ORDER, DELETE = "$setElementOrder", "$deleteFromPrimitiveList"

PODS: list[tuple[str, Any, Any, Any]] = [
    ("scalars replace", spec(a=1), spec(a=2), spec(a=2)),
    ("null removes", spec(a=1, b=2), spec(a=None), spec(b=2)),
    ("null for nothing is nothing", spec(a=1), spec(b=None), spec(a=1)),
    (
        "maps merge",
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"b": "2"}}},
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
    ),
    (
        "an item is found by its key",
        BOTH,
        spec(containers=[{"name": "log", "image": "log:2"}]),
        spec(containers=[WEB, {"name": "log", "image": "log:2"}]),
    ),
    ("an item that is new comes first", spec(containers=[LOG]), spec(containers=[WEB]), BOTH),
    (
        "items of a patch keep its order",
        BOTH,
        spec(containers=[{"name": "log", "a": 1}, {"name": "web", "a": 1}]),
        spec(containers=[{**LOG, "a": 1}, {**WEB, "a": 1}]),
    ),
    ("an item is deleted", BOTH, spec(containers=[{"name": "web", "$patch": "delete"}]), spec(containers=[LOG])),
    ("deleting what is not there", BOTH, spec(containers=[{"name": "x", "$patch": "delete"}]), BOTH),
    (
        "a list is replaced on request",
        BOTH,
        spec(containers=[{"name": "x"}, {"$patch": "replace"}]),
        spec(containers=items("x")),
    ),
    (
        "a map is replaced on request",
        {"spec": {"a": 1, "b": {"c": 2}}},
        {"spec": {"$patch": "replace", "b": 3}},
        {"spec": {"b": 3}},
    ),
    ("a map is emptied on request", {"spec": {"a": 1}}, {"spec": {"$patch": "delete"}}, {"spec": {}}),
    ("a map that is not there is not deleted into being", {}, {"spec": {"$patch": "delete"}}, {}),
    ("a map that is not there is replaced", {}, {"spec": {"$patch": "replace", "a": 1}}, spec(a=1)),
    (
        "tolerations are one value",
        spec(tolerations=[{"key": "a"}, {"key": "b"}]),
        spec(tolerations=[{"key": "c"}]),
        spec(tolerations=[{"key": "c"}]),
    ),
    ("lists we do not know are one value", spec(x=[1, 2]), spec(x=[3]), spec(x=[3])),
    (
        "ports merge by containerPort alone",
        spec(containers=[{"name": "web", "ports": [{"containerPort": 53, "protocol": "TCP"}]}]),
        spec(containers=[{"name": "web", "ports": [{"containerPort": 53, "protocol": "UDP"}]}]),
        spec(containers=[{"name": "web", "ports": [{"containerPort": 53, "protocol": "UDP"}]}]),
    ),
    (
        "mounts merge by mountPath",
        spec(containers=[{"name": "web", "volumeMounts": [{"mountPath": "/a", "name": "v"}]}]),
        spec(containers=[{"name": "web", "volumeMounts": [{"mountPath": "/b", "name": "v"}]}]),
        spec(
            containers=[
                {"name": "web", "volumeMounts": [{"mountPath": "/b", "name": "v"}, {"mountPath": "/a", "name": "v"}]}
            ]
        ),
    ),
    (
        "finalizers are a set",
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"finalizers": ["b", "c"]}},
        {"metadata": {"finalizers": ["a", "b", "c"]}},
    ),
    (
        "an item of a set is deleted",
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {f"{DELETE}/finalizers": ["a", "x"]}},
        {"metadata": {"finalizers": ["b"]}},
    ),
    ("nothing to delete from", {"metadata": {}}, {"metadata": {f"{DELETE}/finalizers": ["a"]}}, {"metadata": {}}),
    (
        "what kubectl sends to swap finalizers",
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {f"{DELETE}/finalizers": ["a"], f"{ORDER}/finalizers": ["c", "b"], "finalizers": ["c"]}},
        {"metadata": {"finalizers": ["c", "b"]}},
    ),
    (
        "an order without a change",
        BOTH,
        spec(**{f"{ORDER}/containers": items("log", "web")}),
        spec(containers=[LOG, WEB]),
    ),
    (
        "an order for a list that is not there",
        {"spec": {}},
        spec(**{f"{ORDER}/containers": items("web")}),
        {"spec": {}},
    ),
    (
        "an order and an addition",
        spec(containers=items("a", "b")),
        spec(**{f"{ORDER}/containers": items("c", "a")}, containers=items("c")),
        spec(containers=items("c", "a", "b")),
    ),
    (
        "what the server added stays where it was",
        spec(containers=items("injected", "a", "b")),
        spec(**{f"{ORDER}/containers": items("b", "a")}, containers=[{"name": "b", "x": 1}]),
        spec(containers=[{"name": "injected"}, {"name": "b", "x": 1}, {"name": "a"}]),
    ),
    (
        "an order in which the server stands between",
        spec(containers=items("a", "injected", "b")),
        spec(**{f"{ORDER}/containers": items("a", "b")}),
        spec(containers=items("a", "injected", "b")),
    ),
    (
        "what replaces a deleted item comes after what the server added",
        spec(containers=items("a", "injected")),
        spec(**{f"{ORDER}/containers": items("b")}, containers=[{"name": "b"}, {"name": "a", "$patch": "delete"}]),
        spec(containers=items("injected", "b")),
    ),
    (
        "a new list with an order",
        {"spec": {}},
        spec(**{f"{ORDER}/containers": items("a", "b")}, containers=items("a", "b")),
        spec(containers=items("a", "b")),
    ),
    (
        "a volume changes its source",
        spec(volumes=[{"name": "v", "emptyDir": {}}]),
        spec(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]),
        spec(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
    ),
    (
        "instructions never become fields",
        {},
        spec(
            containers=[
                {"name": "a", f"{ORDER}/env": items("A"), "$retainKeys": ["name"], f"{DELETE}/args": ["x"], "b": None}
            ]
        ),
        spec(containers=items("a")),
    ),
    (
        "deletions in a new list never become items",
        {},
        spec(containers=[{"name": "a", "$patch": "delete"}]),
        spec(containers=[]),
    ),
    (
        "a list takes the place of a map",
        spec(containers={"a": 1}),
        spec(containers=items("a")),
        spec(containers=items("a")),
    ),
    (
        "an item that stands twice",
        spec(containers=[{"name": "a", "x": 1}, {"name": "a", "x": 2}]),
        spec(containers=[{"name": "a", "x": 3}]),
        spec(containers=[{"name": "a", "x": 3}, {"name": "a", "x": 2}]),
    ),
    (
        "a patch that names an item twice",
        {"spec": {"containers": []}},
        spec(containers=[{"name": "a", "x": 1}, {"name": "a", "y": 2}]),
        spec(containers=[{"name": "a", "x": 1, "y": 2}]),
    ),
    (
        "the status too",
        {"status": {"conditions": [{"type": "A", "status": "True"}]}},
        {"status": {"conditions": [{"type": "A", "status": "False"}, {"type": "B", "status": "True"}]}},
        {"status": {"conditions": [{"type": "A", "status": "False"}, {"type": "B", "status": "True"}]}},
    ),
    (
        "host addresses merge for patches",
        {"status": {"hostIPs": [{"ip": "1"}]}},
        {"status": {"hostIPs": [{"ip": "2"}]}},
        {"status": {"hostIPs": [{"ip": "2"}, {"ip": "1"}]}},
    ),
]


@pytest.mark.parametrize(("document", "patch", "want"), [row[1:] for row in PODS], ids=[row[0] for row in PODS])
def test_pods(document: Any, patch: Any, want: Any) -> None:
    with untouched(document, patch):
        assert same(strategic.apply(document, patch, POD), want)


def test_a_deployment_changes_its_strategy() -> None:
    old = spec(strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}})
    patch = spec(strategy={"$retainKeys": ["type"], "type": "Recreate"})
    assert strategic.apply(old, patch, DEPLOYMENT) == spec(strategy={"type": "Recreate"})


def test_the_containers_of_a_template_merge() -> None:
    old, patch = spec(template=BOTH), spec(template=spec(containers=[{"name": "log", "image": "log:2"}]))
    want = spec(template=spec(containers=[WEB, {"name": "log", "image": "log:2"}]))
    assert strategic.apply(old, patch, DEPLOYMENT) == want


def test_the_selector_of_a_disruption_budget_is_replaced() -> None:
    old, patch = spec(selector={"matchLabels": {"a": "1"}}), spec(selector={"matchLabels": {"b": "2"}})
    assert strategic.apply(old, patch, BUDGET) == patch


def test_the_conditions_of_a_job_merge() -> None:
    old, patch = {"status": {"conditions": [{"type": "A"}]}}, {"status": {"conditions": [{"type": "B"}]}}
    assert strategic.apply(old, patch, JOB) == {"status": {"conditions": [{"type": "B"}, {"type": "A"}]}}


def test_owners_merge_by_uid_in_every_kind() -> None:
    old, new = ({"metadata": {"ownerReferences": [{"uid": uid, "name": "x"}]}} for uid in ("1", "2"))
    owners = strategic.apply(old, new, OBJECT)["metadata"]["ownerReferences"]
    assert [owner["uid"] for owner in owners] == ["2", "1"]


def test_what_a_patch_does_not_touch_is_shared() -> None:
    document = {"metadata": {"labels": {}}, "spec": {"containers": [WEB]}}
    assert strategic.apply(document, {"metadata": {"labels": {"a": "b"}}}, POD)["spec"] is document["spec"]


KEYLESS, UNLIKE = "does not contain declared merge key: name", "list element types are not identical"

ERRORS: list[tuple[Any, Any, int, str]] = [
    ({}, [], 400, "invalid JSON document"),
    (spec(a=1), {"spec": {"$patch": "frob"}}, 422, "unknown patch type: frob in map: map[$patch:frob]"),
    (spec(a=1), {"spec": {"$patch": "merge"}}, 422, "unknown patch type: merge in map: map[$patch:merge]"),
    (BOTH, spec(containers=[{"$patch": "merge"}]), 422, "merging lists cannot yet be specified in the patch"),
    (BOTH, spec(containers=[{"$patch": None}]), 422, "unknown patch type: <nil> in map: map[$patch:<nil>]"),
    (
        BOTH,
        spec(containers=[{"image": "x", "tty": True}]),
        422,
        f"map: map[image:x tty:true] {KEYLESS}",
    ),
    (BOTH, spec(containers=[{"$patch": "delete"}]), 422, f"map: map[$patch:delete] {KEYLESS}"),
    (spec(containers=[WEB]), spec(containers=["x"]), 422, f"{UNLIKE}: [map[image:web:1 name:web] x]"),
    (BOTH, spec(containers=[["x"]]), 422, "lists of lists are not supported"),
    (BOTH, spec(containers=[{"name": ["x"]}]), 422, "lists of lists are not supported"),
    (
        spec(tolerations=[{"key": "a"}]),
        spec(**{f"{ORDER}/tolerations": [{"key": "a"}]}),
        422,
        "cannot merge lists without merge key",
    ),
    ({"metadata": {"finalizers": ["a"]}}, {"metadata": {"finalizers": [{}]}}, 422, f"{UNLIKE}: [a map[]]"),
    (BOTH, spec(**{ORDER: []}), 400, "invalid patch format of setElementOrder list"),
    (BOTH, spec(**{f"{ORDER}/containers": {}}), 400, "invalid patch format of setElementOrder list"),
    (BOTH, spec(**{DELETE: []}), 400, "invalid patch format of primitive list"),
    (BOTH, spec(**{f"{DELETE}/x": 1}), 400, "invalid patch format of primitive list"),
    (BOTH, {"spec": {"$retainKeys": "a"}}, 400, "invalid patch format of retainKeys"),
    (BOTH, {"spec": {"$retainKeys": ["a"], "b": 1}}, 400, "invalid patch format of retainKeys"),
    (
        BOTH,
        spec(**{f"{ORDER}/containers": items("log", "web")}, containers=[{"name": "web"}, {"name": "log"}]),
        422,
        "The order in patch list:\n[map[name:web] map[name:log]]\n doesn't match $setElementOrder list:\n"
        "[map[name:log] map[name:web]]\n",
    ),
]


@pytest.mark.parametrize(("document", "patch", "status", "message"), ERRORS)
def test_errors(document: Any, patch: Any, status: int, message: str) -> None:
    with untouched(document, patch), pytest.raises(PatchError) as caught:
        strategic.apply(document, patch, POD)
    assert (caught.value.status, caught.value.message) == (status, message)


letters = st.sampled_from("abcdef")
fields = st.dictionaries(st.sampled_from(("image", "tty", "args")), st.integers(0, 3) | st.lists(letters, max_size=2))
containers = st.lists(st.tuples(letters, fields), unique_by=lambda pair: pair[0], max_size=6).map(
    lambda pairs: [{"name": name, **rest} for name, rest in pairs]
)
deletions = st.sets(letters, max_size=3)


@given(containers, containers, deletions)
def test_keyed_lists_merge_as_maps_would(old: list[Any], new: list[Any], deleted: set[str]) -> None:
    new = [item for item in new if item["name"] not in deleted]
    patch = spec(containers=[*new, *({"name": name, "$patch": "delete"} for name in deleted)])
    document = spec(containers=old)
    with untouched(document, patch):
        merged = strategic.apply(document, patch, POD)["spec"]["containers"]

    want = {item["name"]: item for item in old if item["name"] not in deleted}
    for item in new:
        want[item["name"]] = {**want.get(item["name"], {}), **item}
    assert {item["name"]: item for item in merged} == want
    assert len(merged) == len(want)

    patched = [item["name"] for item in new]
    names = [item["name"] for item in merged]
    assert [name for name in names if name in patched] == patched
    assert [name for name in names if name not in patched] == [
        item["name"] for item in old if item["name"] in want and item["name"] not in patched
    ]


@given(containers, st.permutations("abcdef"))
def test_an_order_is_obeyed(old: list[Any], order: list[str]) -> None:
    patch = spec(**{f"{ORDER}/containers": items(*order)})
    names = [item["name"] for item in strategic.apply(spec(containers=old), patch, POD)["spec"]["containers"]]
    assert names == [name for name in order if name in names]
    assert sorted(names) == sorted(item["name"] for item in old)


sets = st.lists(letters, unique=True, max_size=6)


@given(sets, sets, sets)
def test_sets_merge_as_sets_would(old: list[str], added: list[str], deleted: list[str]) -> None:
    patch = {"metadata": {"finalizers": added, f"{DELETE}/finalizers": deleted}}
    merged = strategic.apply({"metadata": {"finalizers": old}}, patch, POD)["metadata"]["finalizers"]
    assert set(merged) == (set(old) | set(added)) - set(deleted)
    assert len(merged) == len(set(merged))


@given(containers, containers)
def test_a_patch_applied_twice_is_applied_once(old: list[Any], new: list[Any]) -> None:
    patch = spec(containers=new)
    once = strategic.apply(spec(containers=old), patch, POD)
    assert strategic.apply(once, patch, POD) == once


instructions = st.dictionaries(
    st.sampled_from(("name", "env", "$patch", "$retainKeys", f"{ORDER}/env", f"{DELETE}/env", ORDER)),
    values | st.sampled_from(("delete", "replace", "merge")),
    max_size=4,
)
bodies = st.dictionaries(
    st.sampled_from(("containers", "volumes", f"{ORDER}/containers", f"{DELETE}/containers", "$patch")),
    st.lists(instructions | values, max_size=3) | values,
    max_size=4,
)


@given(st.fixed_dictionaries({"spec": bodies | maps}), st.fixed_dictionaries({"spec": bodies | values}) | values)
def test_garbage_is_refused_politely(document: Any, patch: Any) -> None:
    with untouched(document, patch):
        error = refusal(lambda: strategic.apply(document, patch, POD))
    assert error is None or error.status in (400, 422)
