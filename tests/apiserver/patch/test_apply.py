from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

import pytest

from moorage.apiserver.patch.apply import LAST_APPLIED, ConflictError, apply
from moorage.apiserver.patch.errors import Cause, PatchError
from moorage.apiserver.patch.managed import ManagedWrite
from tests.apiserver.json_values import untouched
from tests.apiserver.patch.writers import Cluster, at, body, write

WEB = {"name": "web", "image": "web:1"}
LOG = {"name": "log", "image": "log:1"}


def containers(*items: dict[str, Any]) -> dict[str, Any]:
    return {"containers": list(items)}


def names(cluster: Cluster, field: str = "containers") -> list[str]:
    assert cluster.live
    return [item["name"] for item in cluster.live["spec"][field]]


def test_the_entry_of_an_applied_object() -> None:
    config = body(metadata={"labels": {"app": "web"}}, spec=containers({**WEB, "resources": {}}))
    with untouched(config):
        applied = apply(write("me"), None, config)
    assert applied["metadata"].pop("managedFields") == [
        {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": at(0),
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {"f:app": {}}},
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"web"}': {".": {}, "f:name": {}, "f:image": {}, "f:resources": {}},
                    }
                },
            },
        }
    ]
    assert applied == config


def test_applying_again_changes_nothing_not_even_the_time() -> None:
    cluster = Cluster()
    first = cluster.apply("me", spec=containers(WEB))
    assert cluster.apply("me", spec=containers(WEB)) == first


def test_fields_are_added_and_changed() -> None:
    cluster = Cluster("ConfigMap")
    cluster.apply("me", data={"a": "1"})
    cluster.apply("me", data={"a": "2", "b": "1"})
    assert cluster.bare() == body("ConfigMap", data={"a": "2", "b": "1"})


def test_what_a_manager_no_longer_applies_is_removed() -> None:
    cluster = Cluster("ConfigMap")
    cluster.apply("me", metadata={"labels": {"x": "y"}}, data={"a": "1", "b": "2"}, immutable=True)
    cluster.apply("me", data={"b": "2"})
    assert cluster.bare() == body("ConfigMap", data={"b": "2"})
    cluster.apply("me")
    assert cluster.bare() == body("ConfigMap")
    assert cluster.owners == {}


def test_items_that_a_manager_no_longer_applies_are_removed() -> None:
    cluster = Cluster()
    cluster.apply("me", metadata={"finalizers": ["a", "b"]}, spec=containers(WEB, LOG))
    cluster.apply("me", metadata={"finalizers": ["b"]}, spec=containers(WEB))
    assert cluster.bare() == body(metadata={"finalizers": ["b"]}, spec=containers(WEB))


def test_what_nobody_owns_goes_with_the_item_it_is_in() -> None:
    cluster = Cluster()
    cluster.apply("me", spec=containers(WEB, LOG))
    assert cluster.live
    cluster.live["spec"]["containers"][1] = {**LOG, "imagePullPolicy": "Always"}
    cluster.apply("me", spec=containers(WEB))
    assert names(cluster) == ["web"]


def test_what_nobody_owns_stays_beside_what_is_removed() -> None:
    cluster = Cluster("Deployment")
    cluster.apply("me", spec={"replicas": 1, "paused": True})
    assert cluster.live
    cluster.live["spec"] = {**cluster.live["spec"], "progressDeadlineSeconds": 600}
    cluster.apply("me", spec={"paused": True})
    assert cluster.bare()["spec"] == {"paused": True, "progressDeadlineSeconds": 600}


def test_what_another_applier_owns_too_stays() -> None:
    cluster = Cluster("ConfigMap")
    cluster.apply("one", data={"a": "1", "b": "1"})
    cluster.apply("two", data={"a": "1"})
    cluster.apply("one", data={"b": "1"})
    assert cluster.bare()["data"] == {"a": "1", "b": "1"}
    assert cluster.owners == {"one Apply": [".data.b"], "two Apply": [".data.a"]}


def test_what_an_update_took_over_stays() -> None:
    cluster = Cluster("Deployment")
    cluster.apply("me", spec={"replicas": 1, "paused": True})
    cluster.update("autoscaler", spec={"replicas": 5, "paused": True})
    cluster.apply("me", spec={"paused": True})
    assert cluster.bare()["spec"] == {"replicas": 5, "paused": True}


def test_appliers_share_a_list() -> None:
    cluster = Cluster()
    cluster.apply("one", spec=containers(WEB))
    cluster.apply("two", spec=containers(LOG))
    cluster.apply("one", spec=containers({**WEB, "image": "web:2"}))
    assert cluster.bare()["spec"] == containers({**WEB, "image": "web:2"}, LOG)
    cluster.apply("one")
    assert names(cluster) == ["log"]


def test_appliers_share_an_item() -> None:
    cluster = Cluster()
    cluster.apply("one", spec=containers(WEB))
    cluster.apply("two", spec=containers({"name": "web", "tty": True}))
    cluster.apply("one")
    assert cluster.bare()["spec"] == containers({"name": "web", "tty": True})


ORDERS = [
    ("abc", "cab", "cab"),
    ("abc", "dab", "dabc"),
    ("abc", "bd", "abcd"),
    ("xaybz", "ba", "xybza"),
    ("abc", "", "abc"),
    ("", "ba", "ba"),
]


@pytest.mark.parametrize(("live", "config", "want"), ORDERS)
def test_the_order_of_items(live: str, config: str, want: str) -> None:
    cluster = Cluster()
    cluster.apply("one", spec={"volumes": [{"name": name} for name in live]})
    cluster.apply("two", spec={"volumes": [{"name": name} for name in config]})
    assert "".join(names(cluster, "volumes")) == want


def test_a_conflict_with_an_update() -> None:
    cluster = Cluster("Deployment")
    cluster.create("kubectl-edit", spec={"replicas": 1})
    with untouched(cluster.live), pytest.raises(ConflictError) as caught:
        cluster.apply("me", spec={"replicas": 2})
    assert caught.value.status == HTTPStatus.CONFLICT
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-edit" using apps/v1: .spec.replicas'
    )  # fmt: skip
    cause = Cause("FieldManagerConflict", 'conflict with "kubectl-edit" using apps/v1', ".spec.replicas")
    assert caught.value.causes == (cause,)


def test_conflicts_with_several() -> None:
    cluster = Cluster()
    cluster.create("a", spec={"priority": 1, "containers": [WEB]})
    cluster.apply("b", spec={"hostNetwork": True, "tolerations": [{"key": "x"}]})
    cluster.update("c", subresource="status", status={"phase": "Running"})
    spec = {"priority": 2, "containers": [{**WEB, "image": "web:2"}], "tolerations": [], "hostNetwork": False}
    with pytest.raises(ConflictError) as caught:
        cluster.apply("me", spec=spec)
    assert caught.value.message == (
        'Apply failed with 4 conflicts: conflicts with "a" using v1:\n'
        "- .spec.priority\n"
        '- .spec.containers[name="web"].image\n'
        'conflicts with "b":\n'
        "- .spec.hostNetwork\n"
        "- .spec.tolerations"
    )
    assert [cause.field for cause in caught.value.causes] == [
        ".spec.priority", '.spec.containers[name="web"].image', ".spec.hostNetwork", ".spec.tolerations",
    ]  # fmt: skip


def test_a_conflict_about_the_status() -> None:
    cluster = Cluster()
    cluster.create("me", spec=containers(WEB))
    cluster.update("kubelet", subresource="status", status={"phase": "Running"})
    with pytest.raises(ConflictError) as caught:
        cluster.apply("me", subresource="status", status={"phase": "Failed"})
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "kubelet" with subresource "status" using v1: .status.phase'
    )  # fmt: skip


def test_the_same_value_is_no_conflict_but_shared() -> None:
    cluster = Cluster("ConfigMap")
    cluster.create("one", data={"a": "1"})
    cluster.apply("two", data={"a": "1"})
    assert cluster.owners == {"one Update": [".data", ".data.a"], "two Apply": [".data.a"]}


def test_force_takes_over() -> None:
    cluster = Cluster("ConfigMap")
    cluster.apply("one", data={"a": "1", "b": "1"})
    cluster.apply("two", force=True, data={"a": "2"})
    assert cluster.bare()["data"] == {"a": "2", "b": "1"}
    assert cluster.owners == {"one Apply": [".data.b"], "two Apply": [".data.a"]}
    with pytest.raises(ConflictError):
        cluster.apply("one", data={"a": "1", "b": "1"})


def test_a_map_that_is_one_value() -> None:
    cluster = Cluster()
    cluster.apply("one", spec={"nodeSelector": {"a": "b"}})
    with pytest.raises(ConflictError, match=r"\.spec\.nodeSelector$"):
        cluster.apply("two", spec={"nodeSelector": {"c": "d"}})
    cluster.apply("two", force=True, spec={"nodeSelector": {"c": "d"}})
    assert cluster.bare()["spec"] == {"nodeSelector": {"c": "d"}}


def test_appliers_and_updaters_of_one_name_are_two() -> None:
    cluster = Cluster("ConfigMap")
    cluster.create("me", data={"a": "1"})
    with pytest.raises(ConflictError):
        cluster.apply("me", data={"a": "2"})


def test_an_object_that_was_not_tracked_has_an_owner_nobody_knows() -> None:
    cluster = Cluster("Deployment")
    cluster.live = body("Deployment", metadata={"uid": "1"}, spec={"replicas": 1, "paused": True})
    with pytest.raises(ConflictError) as caught:
        cluster.apply("me", spec={"replicas": 2})
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "before-first-apply" using apps/v1: .spec.replicas'
    )  # fmt: skip
    cluster.apply("me", spec={"replicas": 1})
    assert cluster.owners == {
        "me Apply": [".spec.replicas"], "before-first-apply Update": [".spec.paused", ".spec.replicas"],
    }  # fmt: skip


def test_the_status_of_a_configuration_does_not_count_except_for_the_status() -> None:
    cluster = Cluster()
    cluster.apply("me", spec=containers(WEB), status={"phase": "Running"})
    assert "status" not in cluster.bare()
    cluster.apply("me", subresource="status", spec=containers(LOG), status={"phase": "Running"})
    assert cluster.bare() == body(spec=containers(WEB), status={"phase": "Running"})
    assert cluster.owners["me Apply status"] == [".status.phase"]
    cluster.apply("me", spec=containers(WEB))
    assert cluster.bare()["status"] == {"phase": "Running"}


def test_empty_maps_and_lists_are_kept() -> None:
    cluster = Cluster()
    volume = {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}
    cluster.apply("me", metadata={"labels": {"a": "b"}}, spec={"volumes": [volume]})
    spec = {"volumes": [{"name": "v", "emptyDir": {}}], "schedulingGates": []}
    first = cluster.apply("me", metadata={"labels": {}}, spec=spec)
    assert cluster.bare() == body(metadata={"labels": {}}, spec=spec)
    assert cluster.apply("me", metadata={"labels": {}}, spec=spec) == first


def test_null_unsets_a_value() -> None:
    cluster = Cluster("Deployment")
    cluster.create("one", spec={"replicas": 1, "template": {"spec": {"hostNetwork": True}}})
    with pytest.raises(ConflictError, match=r"\.spec\.replicas$"):
        cluster.apply("two", spec={"replicas": None})
    cluster.apply("two", force=True, spec={"replicas": None, "template": None})
    assert cluster.bare()["spec"] == {"template": {"spec": {"hostNetwork": True}}}
    assert cluster.owners["two Apply"] == [".spec.replicas", ".spec.template"]


def test_null_applied_again_changes_nothing() -> None:
    cluster = Cluster()
    metadata = {"creationTimestamp": None, "labels": {"a": None}}
    cluster.apply("me", metadata={"labels": {"a": "b"}}, spec={"securityContext": {"runAsUser": 1}})
    first = cluster.apply("me", metadata=metadata, spec={"securityContext": None, "volumes": None})
    assert cluster.apply("me", metadata=metadata, spec={"securityContext": None, "volumes": None}) == first


def test_null_for_what_the_server_sets_is_ignored() -> None:
    cluster = Cluster()
    cluster.apply("me", spec=containers(WEB))
    assert cluster.live
    cluster.live["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z"
    cluster.apply("me", metadata={"creationTimestamp": None}, spec=containers(WEB))
    assert cluster.bare()["metadata"]["creationTimestamp"] == "2025-01-01T00:00:00Z"


def test_items_of_the_live_object_that_stand_twice_become_one() -> None:
    cluster = Cluster()
    twice = [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}]
    cluster.create("one", spec=containers({"name": "c", "env": twice}))
    cluster.apply("two", force=True, spec=containers({"name": "c", "env": [{"name": "A", "value": "3"}]}))
    assert cluster.bare()["spec"] == containers({"name": "c", "env": [{"name": "A", "value": "3"}, {"name": "B"}]})


def test_live_lists_that_are_none_are_replaced() -> None:
    cluster = Cluster()
    cluster.create("one", spec={"containers": "x", "volumes": [1]})
    cluster.apply("two", force=True, spec={"containers": [WEB], "volumes": [{"name": "v"}]})
    assert cluster.bare()["spec"] == {"containers": [WEB], "volumes": [{"name": "v"}]}


def test_a_new_version_of_the_applied_object_is_the_same_applier() -> None:
    config = body("ResourceClaim", spec={"a": 1})
    live = apply(write("me", "ResourceClaim"), None, config)
    older = {**config, "apiVersion": "resource.k8s.io/v1beta1", "spec": {}}
    one = write("me", "ResourceClaim", second=9)
    newer = apply(type(one)("resource.k8s.io/v1beta1", one.kind, one.manager, one.time), live, older)
    assert "a" not in newer.get("spec", {})


ERRORS: list[tuple[Any, str]] = [
    (None, "error decoding patch: an applied configuration is an object with metadata"),
    ([], "error decoding patch: an applied configuration is an object with metadata"),
    ({**body(), "metadata": 1}, "error decoding patch: an applied configuration is an object with metadata"),
    (body("Service"), "invalid object type: /v1, Kind=Service"),
    ({**body(), "apiVersion": "apps/v2"}, "invalid object type: apps/v2, Kind=Pod"),
    ({}, "invalid object type: /, Kind="),
    (body(metadata={"managedFields": []}), "metadata.managedFields must be nil"),
    (
        body(metadata={"namespace": "ns"}, spec=containers(WEB, WEB)),
        "failed to create typed patch object (ns/x; /v1, Kind=Pod): "
        '.spec.containers: duplicate entries for key [name="web"]',
    ),
    (
        body(spec=containers({**WEB, "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]})),
        "failed to create typed patch object (/x; /v1, Kind=Pod): "
        '.spec.containers[name="web"].ports: duplicate entries for key [containerPort=80,protocol="TCP"]',
    ),
    (
        body(spec={"containers": "x"}),
        "failed to create typed patch object (/x; /v1, Kind=Pod): .spec.containers: expected list, got scalar",
    ),
    (
        body(spec={"containers": ["x"]}),
        "failed to create typed patch object (/x; /v1, Kind=Pod): "
        ".spec.containers: element 0: associative list with keys may not have non-map elements",
    ),
    (
        body(spec={"containers": [None]}),
        "failed to create typed patch object (/x; /v1, Kind=Pod): "
        ".spec.containers: element 0: associative list with keys may not have a null element",
    ),
    (
        body(spec={"containers": [{"name": []}]}),
        "failed to create typed patch object (/x; /v1, Kind=Pod): "
        ".spec.containers: element 0: the keys name may not be maps or lists",
    ),
    (
        body(metadata={"finalizers": [{}]}),
        "failed to create typed patch object (/x; /v1, Kind=Pod): "
        ".metadata.finalizers: element 0: associative list without keys has an element that's a map type",
    ),
    (
        body(metadata={"finalizers": ["a", None]}),
        "failed to create typed patch object (/x; /v1, Kind=Pod): "
        ".metadata.finalizers: element 1: associative list without keys has an element that's an explicit null",
    ),
]


def test_an_item_without_a_key_has_no_name() -> None:
    config = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "x"}, "secrets": [{"kind": "Secret"}]}
    with pytest.raises(PatchError) as caught:
        apply(ManagedWrite("v1", "ServiceAccount", "me", at(0)), None, config)
    assert caught.value.message == (
        "failed to create typed patch object (/x; /v1, Kind=ServiceAccount): .secrets: element 0: associative list "
        'with keys has an element that omits all key fields ["name"] '
        "(and doesn't have default values for any key fields)"
    )


@pytest.mark.parametrize(("config", "message"), ERRORS)
def test_errors(config: Any, message: str) -> None:
    with untouched(config), pytest.raises(PatchError) as caught:
        apply(write("me"), None, config)
    assert (caught.value.status, caught.value.message) == (HTTPStatus.BAD_REQUEST, message)


def last_applied(cluster: Cluster) -> Any:
    assert cluster.live
    return json.loads(cluster.live["metadata"]["annotations"][LAST_APPLIED])


def applied_by_client(**fields: Any) -> Cluster:
    """An object as `kubectl apply` leaves it."""
    cluster = Cluster("ConfigMap")
    text = json.dumps(body("ConfigMap", **fields)) + "\n"
    cluster.create("kubectl-client-side-apply", metadata={"annotations": {LAST_APPLIED: text}}, **fields)
    return cluster


def test_kubectl_goes_over_to_the_server() -> None:
    cluster = applied_by_client(data={"a": "1"})
    cluster.apply("kubectl", data={"a": "2"})
    assert cluster.bare()["data"] == {"a": "2"}
    assert cluster.owners["kubectl Apply"] == [".data.a"]
    assert last_applied(cluster) == body("ConfigMap", data={"a": "2"})


def test_what_was_changed_since_kubectl_applied_it_is_a_conflict() -> None:
    cluster = applied_by_client(data={"a": "1", "b": "1"})
    cluster.update("kubectl-edit", data={"a": "1", "b": "2"})
    with pytest.raises(ConflictError) as caught:
        cluster.apply("kubectl", data={"a": "2", "b": "3"})
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-edit" using v1: .data.b'
    )  # fmt: skip


def test_only_kubectl_owns_what_kubectl_applied() -> None:
    cluster = applied_by_client(data={"a": "1"})
    with pytest.raises(ConflictError):
        cluster.apply("me", data={"a": "2"})


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"apiVersion": "v2"}', '{"apiVersion": "v1", "metadata": 5}'])
def test_an_annotation_that_makes_no_sense_allows_nothing(text: str) -> None:
    cluster = Cluster("ConfigMap")
    cluster.create("me", metadata={"annotations": {LAST_APPLIED: text}}, data={"a": "1"})
    with pytest.raises(ConflictError):
        cluster.apply("kubectl", data={"a": "2"})


def test_an_annotation_that_would_be_too_long_is_dropped() -> None:
    cluster = applied_by_client(data={"a": "1"})
    cluster.apply("kubectl", data={"a": "1", "b": "x" * 256 * 1024})
    assert cluster.live
    assert LAST_APPLIED not in cluster.live["metadata"]["annotations"]


def test_nesting_beyond_the_stack_is_an_error() -> None:
    nested: Any = {}
    for _ in range(50_000):
        nested = {"a": nested}
    with pytest.raises(PatchError, match="nested too deeply"):
        apply(write("me"), None, body(spec=nested))
