from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.patch.errors import PatchError
from moorage.apiserver.patch.managed import MAX_UPDATE_MANAGERS, ManagedWrite, manager_name, track
from tests.apiserver.json_values import NESTED, maps, untouched, values
from tests.apiserver.patch.writers import Cluster, at, body, write

WEB = {"name": "web", "image": "web:1"}


def spec(**fields: Any) -> dict[str, Any]:
    return {"containers": [WEB], **fields}


def test_the_entry_of_a_new_object() -> None:
    labels = {"app": "web"}
    pod = body(
        metadata={"namespace": "default", "labels": labels, "generateName": "x-"}, spec=spec(dnsPolicy="Default")
    )
    assert track(write("kubectl-create"), None, pod)["metadata"]["managedFields"] == [
        {
            "manager": "kubectl-create",
            "operation": "Update",
            "apiVersion": "v1",
            "time": at(0),
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:generateName": {}},
                "f:spec": {
                    "f:containers": {'k:{"name":"web"}': {".": {}, "f:name": {}, "f:image": {}}},
                    "f:dnsPolicy": {},
                },
            },
        }
    ]


def test_the_rest_of_the_object_stays_as_it_is() -> None:
    pod = body(metadata={"labels": {"a": "b"}}, spec=spec())
    with untouched(pod):
        tracked = track(write("me"), None, pod)
    del tracked["metadata"]["managedFields"]
    assert tracked == pod


@pytest.mark.parametrize("status", [{}, {"phase": "Running"}])
def test_the_status_is_nobodys_at_first(status: Any) -> None:
    cluster = Cluster()
    cluster.create("me", spec=spec(), status=status)
    assert not any(path.startswith(".status") for path in cluster.owners["me Update"])


def test_who_changes_a_field_owns_it() -> None:
    cluster = Cluster()
    cluster.create("one", spec=spec(priority=1, hostNetwork=True))
    cluster.update("two", spec=spec(priority=2, hostNetwork=True))
    assert cluster.owners["two Update"] == [".spec.priority"]
    assert ".spec.hostNetwork" in cluster.owners["one Update"]
    assert ".spec.priority" not in cluster.owners["one Update"]


def test_who_changes_nothing_owns_nothing() -> None:
    cluster = Cluster()
    before = cluster.create("one", spec=spec())
    assert cluster.update("two", spec=spec()) == before


def test_what_is_removed_is_nobodys() -> None:
    cluster = Cluster("ConfigMap")
    cluster.create("one", data={"a": "1", "b": "2"})
    cluster.update("two", data={"b": "2"})
    assert cluster.owners == {"one Update": [".data", ".data.b"]}


def test_an_entry_that_owns_nothing_disappears() -> None:
    cluster = Cluster("ConfigMap")
    cluster.create("one", data={"a": "1"})
    cluster.update("two", data=None, immutable=True)
    assert cluster.owners == {"two Update": [".immutable"]}


def test_the_time_is_that_of_the_last_change() -> None:
    cluster = Cluster("ConfigMap")
    cluster.create("one", data={"a": "1", "b": "1"})
    cluster.update("two", data={"a": "1"})
    assert cluster.live
    assert [entry["time"] for entry in cluster.live["metadata"]["managedFields"]] == [at(1)]
    cluster.update("one", data={"a": "2"})
    assert [entry["time"] for entry in cluster.live["metadata"]["managedFields"]] == [at(3)]


def test_a_subresource_has_an_entry_of_its_own() -> None:
    cluster = Cluster()
    cluster.create("kubelet", spec=spec())
    conditions = [{"type": "Ready", "status": "True"}]
    cluster.update("kubelet", subresource="status", status={"phase": "Running", "conditions": conditions}, spec={})
    assert cluster.owners["kubelet Update status"] == [
        ".status.conditions",
        ".status.phase",
        '.status.conditions[type="Ready"]',
        '.status.conditions[type="Ready"].status',
        '.status.conditions[type="Ready"].type',
    ]
    assert '.spec.containers[name="web"].image' in cluster.owners["kubelet Update"]


def test_the_scale_of_a_deployment_is_tracked_in_it() -> None:
    cluster = Cluster("Deployment")
    cluster.create("me", spec={"replicas": 1, "paused": True})
    cluster.update("autoscaler", subresource="scale", spec={"replicas": 3, "paused": True})
    assert cluster.owners == {"me Update": [".spec.paused"], "autoscaler Update scale": [".spec.replicas"]}


METADATA = {"labels": {"a": "1"}, "ownerReferences": [{"uid": "1"}], "finalizers": ["f"]}
STATUS_WRITES = [
    ("Pod", [".metadata.labels", ".metadata.labels.a", ".metadata.finalizers", '.metadata.finalizers[="f"]']),
    ("Deployment", [".metadata.finalizers", '.metadata.finalizers[="f"]', ".metadata.ownerReferences",
                    '.metadata.ownerReferences[uid="1"]', '.metadata.ownerReferences[uid="1"].uid']),
    ("ResourceClaim", []),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "owned"), STATUS_WRITES)
def test_what_of_the_metadata_a_write_to_the_status_can_own(kind: str, owned: list[str]) -> None:
    cluster = Cluster(kind)
    cluster.create("me", spec={"a": 1})
    metadata = {**METADATA, "uid": "1", "name": "x"}
    cluster.update("other", subresource="status", metadata=metadata, spec={"b": 1}, status={"c": 1})
    assert sorted(cluster.owners["other Update status"]) == sorted([*owned, ".status.c"])


def test_lists_are_owned_by_item_or_as_one() -> None:
    cluster = Cluster()
    pod = spec(tolerations=[{"key": "a"}], volumes=[{"name": "v", "emptyDir": {}}], nodeSelector={"a": "b"})
    cluster.create("one", spec=pod)
    assert [path for path in cluster.owners["one Update"] if "containers" not in path] == [
        ".spec.nodeSelector",
        ".spec.tolerations",
        ".spec.volumes",
        '.spec.volumes[name="v"]',
        '.spec.volumes[name="v"].emptyDir',
        '.spec.volumes[name="v"].name',
    ]
    cluster.update("two", spec={**pod, "tolerations": [{"key": "a"}, {"key": "b"}]})
    assert cluster.owners["two Update"] == [".spec.tolerations"]


def test_ports_have_two_keys_of_which_one_has_a_default() -> None:
    cluster = Cluster()
    ports = [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]
    cluster.create("one", spec={"containers": [{"name": "dns", "ports": ports}]})
    assert '.spec.containers[name="dns"].ports[containerPort=53,protocol="TCP"]' in cluster.owners["one Update"]
    assert (
        '.spec.containers[name="dns"].ports[containerPort=53,protocol="UDP"].protocol' in cluster.owners["one Update"]
    )


def test_a_key_without_a_default_may_be_left_out() -> None:
    cluster = Cluster("ResourceClaim")
    cluster.create("one", spec={"a": 1})
    device = {"driver": "d", "pool": "p", "device": "x"}
    cluster.update("two", subresource="status", status={"devices": [device, {**device, "shareID": "1"}]})
    assert '.status.devices[device="x",driver="d",pool="p"]' in cluster.owners["two Update status"]
    assert '.status.devices[device="x",driver="d",pool="p",shareID="1"]' in cluster.owners["two Update status"]


def test_the_order_of_items_is_nobodys() -> None:
    cluster = Cluster()
    cluster.create("one", spec={"containers": [WEB, {"name": "log"}]})
    before = cluster.owners
    cluster.update("two", spec={"containers": [{"name": "log"}, WEB]})
    assert cluster.owners == before


def test_items_that_cannot_be_told_apart_are_owned_as_one() -> None:
    cluster = Cluster()
    twice = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    cluster.create("one", spec={"containers": [{"name": "c", "env": twice}]})
    assert [path for path in cluster.owners["one Update"] if ".env" in path] == [
        '.spec.containers[name="c"].env',
        '.spec.containers[name="c"].env[name="A"]',
    ]
    cluster.update("two", spec={"containers": [{"name": "c", "env": twice[:1]}]})
    assert '.spec.containers[name="c"].env[name="A"].value' in cluster.owners["two Update"]


@pytest.mark.parametrize("broken", ["x", [1], [{"name": {}}], [None]])
def test_a_list_that_is_none_is_owned_as_one(broken: Any) -> None:
    cluster = Cluster()
    cluster.create("one", spec={"containers": broken})
    assert cluster.owners == {"one Update": [".spec.containers"]}


def test_true_is_not_one() -> None:
    cluster = Cluster()
    cluster.create("one", spec={"x": 1, "l": [1]})
    cluster.update("two", spec={"x": True, "l": [True]})
    assert cluster.owners == {"two Update": [".spec.l", ".spec.x"]}


def test_a_map_that_becomes_a_scalar_and_back() -> None:
    cluster = Cluster("ConfigMap")
    cluster.create("one", data={"a": {"b": "1", "c": "2"}})
    cluster.update("two", data={"a": "x"})
    assert cluster.owners == {"one Update": [".data"], "two Update": [".data.a"]}
    cluster.update("three", data={"a": {"b": "1"}})
    assert cluster.owners == {"one Update": [".data"], "three Update": [".data.a", ".data.a.b"]}


def test_null_is_nothing() -> None:
    cluster = Cluster("ConfigMap")
    cluster.create("one", data={"a": None, "b": "1"}, immutable=None)
    assert cluster.owners == {"one Update": [".data", ".data.b"]}


@pytest.mark.parametrize("emptied", [[], [{}]])
def test_a_client_may_reset_the_managers(emptied: Any) -> None:
    cluster = Cluster("ConfigMap")
    cluster.create("one", data={"a": "1"})
    cluster.update("two", metadata={"name": "x", "uid": "1", "managedFields": emptied})
    assert cluster.owners == {}
    cluster.update("three", data={"a": "2"})
    assert cluster.owners == {}, "tracking begins again when the object is applied"


@pytest.mark.parametrize("forgotten", [{}, {"managedFields": None}])
def test_a_client_that_does_not_know_managers_loses_none(forgotten: Any) -> None:
    cluster = Cluster("ConfigMap")
    cluster.create("one", data={"a": "1"})
    cluster.update("two", metadata={"name": "x", "uid": "1", **forgotten})
    assert cluster.owners == {"one Update": [".data", ".data.a"]}


def entry(**fields: Any) -> dict[str, Any]:
    return {
        "manager": "mine", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}}, **fields,
    }  # fmt: skip


def test_a_client_may_rename_a_manager() -> None:
    cluster = Cluster("ConfigMap")
    cluster.create("one", data={"a": "1"})
    managers = [entry(time="2025-01-01T02:00:00.5+01:00")]
    cluster.update("two", metadata={"name": "x", "uid": "1", "managedFields": managers})
    assert cluster.owners == {"mine Apply": [".data.a"]}
    assert cluster.live
    assert cluster.live["metadata"]["managedFields"][0]["time"] == "2025-01-01T01:00:00Z"


WRONG = [
    "x", ["x"], [entry(operation="Frob")], [entry(apiVersion="")], [entry(fieldsType="FieldsV2")],
    [entry(fieldsV1="x")],
    [entry(fieldsV1={"a": {}})], [entry(time="soon")], [entry(time=5)], [entry(time="2025-01-01T00:00:00")],
    [entry(time="0001-01-01T00:00:00+23:00")], [entry(manager=5)], [entry(), None],
]  # fmt: skip


@pytest.mark.parametrize("managers", WRONG)
def test_managers_that_make_no_sense_are_not_taken(managers: Any) -> None:
    cluster = Cluster("ConfigMap")
    cluster.create("one", data={"a": "1"})
    cluster.update("two", metadata={"name": "x", "uid": "1", "managedFields": managers})
    assert cluster.owners == {"one Update": [".data", ".data.a"]}


@pytest.mark.parametrize("managers", [["x"], [{}], "x"])
def test_a_stored_object_with_managers_that_make_no_sense_has_none(managers: Any) -> None:
    cluster = Cluster("ConfigMap")
    cluster.create("one", data={"a": "1"})
    assert cluster.live
    cluster.live["metadata"]["managedFields"] = managers
    cluster.update("two", metadata={"name": "x", "uid": "1"})
    assert cluster.owners == {}


def test_managers_cannot_be_set_through_a_subresource() -> None:
    cluster = Cluster("ConfigMap")
    cluster.create("one", data={"a": "1"})
    cluster.update("two", subresource="status", metadata={"name": "x", "uid": "1", "managedFields": []})
    assert cluster.owners == {"one Update": [".data", ".data.a"]}


def test_the_oldest_of_too_many_managers_are_joined() -> None:
    cluster = Cluster("ConfigMap")
    data = {"0": "x"}
    cluster.create("m0", data=data)
    for number in range(1, 15):
        data = {**data, str(number): "x"}
        cluster.update(f"m{number}", data=data)
        assert len(cluster.owners) <= MAX_UPDATE_MANAGERS
    assert list(cluster.owners) == ["ancient-changes Update", *(f"m{number} Update" for number in range(6, 15))]
    assert cluster.owners["ancient-changes Update"] == [".data", *(f".data.{number}" for number in range(6))]
    assert cluster.live
    assert cluster.live["metadata"]["managedFields"][0]["time"] == at(6)


def test_entries_stand_in_order() -> None:
    cluster = Cluster("ConfigMap")
    cluster.create("z", data={"a": "1"})
    cluster.update("b", data={"a": "1", "b": "1"})
    cluster.apply("y", data={"c": "1"})
    cluster.apply("x", data={"d": "1"})
    assert list(cluster.owners) == ["y Apply", "x Apply", "z Update", "b Update"]


NAMES = [
    ("given", "kubectl/v1.36 (linux)", "given"),
    ("", "kubectl/v1.36 (linux)", "kubectl"),
    ("", "my controller", "my controller"),
    ("", "a\tb\x00c/1", "abc"),
    ("", "é" * 100, "é" * 64),
    ("", "", "unknown"),
    ("", "/1", "unknown"),
]


@pytest.mark.parametrize(("name", "agent", "want"), NAMES)
def test_the_name_of_a_manager(name: str, agent: str, want: str) -> None:
    assert manager_name(name, agent) == want


def test_nesting_beyond_the_stack_is_an_error() -> None:
    nested: Any = {}
    for _ in range(50_000):
        nested = {"a": nested}
    with pytest.raises(PatchError, match="nested too deeply"):
        track(write("me"), None, body(data=nested))
    assert track(write("me"), None, body(data=NESTED))["metadata"]["managedFields"]


shapes = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {}, optional={"labels": values, "finalizers": values, "managedFields": values}
        )
        | values,
        "spec": st.fixed_dictionaries({}, optional={"containers": values, "volumes": values, "x": values}) | values,
        "status": values,
    },
)


@given(st.none() | shapes, shapes | maps, st.sampled_from(("", "status")))
def test_garbage_is_tracked_or_refused_politely(live: Any, new: Any, subresource: str) -> None:
    live = live and track(ManagedWrite("v1", "Pod", "first", at(0)), None, live)
    with untouched(live, new):
        tracked = track(ManagedWrite("v1", "Pod", "me", at(1), subresource), live, new)
    assert {**tracked, "metadata": 0} == {**new, "metadata": 0}
