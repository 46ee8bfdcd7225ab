from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.api import kinds
from moorage.quantity import Quantity
from moorage.registry import schema
from moorage.registry.schema import ShapeError

POD, NODE, SECRET = kinds.row("v1", "Pod"), kinds.row("v1", "Node"), kinds.row("v1", "Secret")
DEPLOYMENT, LEASE = kinds.row("apps/v1", "Deployment"), kinds.row("coordination.k8s.io/v1", "Lease")

QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [fields]}}


UNKNOWN = [
    (POD, {"foo": 1}, ["foo"]),
    (POD, {"spec": {"foo": {"bar": 1}}}, ["spec.foo"]),
    (POD, container(name="a", imagee="b"), ["spec.containers[0].imagee"]),
    (POD, {"metadata": {"labels": {"anything": "goes"}}}, []),
    (POD, {"spec": {"tolerations": [{"expression": "true"}]}}, []),
    (DEPLOYMENT, {"spec": {"template": {"spec": {"container": []}}}}, ["spec.template.spec.container"]),
    (
        POD,
        {"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchCELExpressions": ["true"], "matchCelExpressions": []}]}}}}},
        ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
         ".matchCelExpressions"],
    ),
    (
        kinds.row("resource.k8s.io/v1", "ResourceSlice"),
        {"spec": {"devices": [{"name": "a", "capacity": {"memory": {"value": "1", "odd": 1}}}]}},
        ["spec.devices[0].capacity.memory.odd"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "obj", "unknown"), UNKNOWN)
def test_fields_that_a_kind_does_not_have_are_named(kind: kinds.Kind, obj: dict[str, Any], unknown: list[str]) -> None:
    assert schema.read(kind, obj) == unknown


MISFITS = [
    (POD, container(name=1),
     "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string"),
    (POD, {"spec": {"containers": {}}},
     "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container"),
    (POD, {"spec": []}, "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
    (POD, {"spec": {"restartPolicy": True}},
     "json: cannot unmarshal bool into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy"),
    (POD, {"spec": {"priority": 2**31}},
     "json: cannot unmarshal number 2147483648 into Go struct field PodSpec.spec.priority of type int32"),
    (POD, {"spec": {"priority": 1.5}},
     "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32"),
    (DEPLOYMENT, {"spec": {"replicas": "3"}},
     "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"),
    (POD, {"metadata": {"labels": {"a": 1}}},
     "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"),
    (DEPLOYMENT, {"spec": {"template": {"spec": {"containers": [{"env": [{"name": "A", "value": 1}]}]}}}},
     "json: cannot unmarshal number into Go struct field EnvVar.spec.template.spec.containers.env.value of type "
     "string"),
    (POD, container(resources={"limits": {"cpu": "lots"}}), f"spec.containers[0].resources.limits[cpu]: {QUANTITY}"),
    (NODE, {"metadata": {"creationTimestamp": "yesterday"}},
     'metadata.creationTimestamp: parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": '
     'cannot parse "yesterday" as "2006"'),
    (NODE, {"metadata": {"creationTimestamp": "2026-02-30T00:00:00Z"}},
     'metadata.creationTimestamp: parsing time "2026-02-30T00:00:00Z": day out of range'),
    (NODE, {"metadata": {"creationTimestamp": "2026-13-01T00:00:00Z"}},
     'metadata.creationTimestamp: parsing time "2026-13-01T00:00:00Z": month out of range'),
    (NODE, {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Zx"}},
     'metadata.creationTimestamp: parsing time "2026-01-01T00:00:00Zx": extra text: "x"'),
    (LEASE, {"spec": {"renewTime": "2026-01-01T00:00:00Z"}},
     'spec.renewTime: parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as '
     '".000000"'),
    (NODE, {"metadata": {"creationTimestamp": 1}},
     "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type v1.Time"),
    (SECRET, {"data": {"a": "?"}}, "data[a]: illegal base64 data at input byte 0"),
    (SECRET, {"data": {"a": "YWJjZ"}}, "data[a]: illegal base64 data at input byte 4"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "obj", "problem"), MISFITS)
def test_what_does_not_fit_is_refused_in_the_words_of_the_decoder(
    kind: kinds.Kind, obj: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ShapeError) as refused:
        schema.read(kind, obj)
    assert str(refused.value) == problem


SETTLED = [
    (POD, {"metadata": {"creationTimestamp": None}, "spec": {"nodeName": None}}, {"metadata": {}, "spec": {}}),
    (POD, {"metadata": {"labels": {"a": None}}}, {"metadata": {"labels": {"a": ""}}}),
    (POD, container(args=["a", None]), container(args=["a", ""])),
    (POD, {"spec": {"containers": [None]}}, {"spec": {"containers": [{}]}}),
    (POD, container(resources={"limits": {"cpu": 0.5, "memory": "1024Mi"}, "requests": {"cpu": None}}),
     container(resources={"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "0"}})),
    (NODE, {"metadata": {"creationTimestamp": "2026-01-01T01:00:00.9+01:00"}},
     {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}),
    (LEASE, {"spec": {"renewTime": "2026-01-01T01:00:00.000000+01:00"}},
     {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}),
    (SECRET, {"data": {"a": "YWJj\nZGVm\r\n"}}, {"data": {"a": "YWJjZGVm"}}),
    (POD, {"foo": None}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "given_", "kept"), SETTLED)
def test_null_is_absent_and_amounts_and_times_have_one_spelling(
    kind: kinds.Kind, given_: dict[str, Any], kept: dict[str, Any]
) -> None:
    schema.read(kind, given_)
    assert given_ == kept


SAME = [
    ({}, {"spec": {}}),
    ({"spec": {"hostNetwork": False}}, {"spec": {}}),
    ({"spec": {"volumes": []}}, {"spec": {}}),
    ({"spec": {"nodeSelector": {}}}, {}),
    (container(resources={}), container()),
    (container(resources={"limits": {"cpu": "1"}}), container(resources={"limits": {"cpu": "1000m"}})),
    (container(resources={"limits": {"memory": "1Gi"}}), container(resources={"limits": {"memory": "1073741824"}})),
]
DIFFERENT = [
    ({"spec": {"automountServiceAccountToken": False}}, {"spec": {}}),
    ({"spec": {"securityContext": {}}}, {"spec": {}}),
    ({"spec": {"terminationGracePeriodSeconds": 0}}, {"spec": {}}),
    ({"spec": {"hostNetwork": True}}, {"spec": {}}),
    (container(name="a"), container(name="b")),
    ({"spec": {"unknown": 1}}, {"spec": {"unknown": 2}}),
    (container(resources={"limits": {"cpu": "1"}}), container(resources={"limits": {"cpu": "2"}})),
    ({"spec": {"nodeSelector": {"a": ""}}}, {"spec": {"nodeSelector": {}}}),
]


@pytest.mark.parametrize(("left", "right"), SAME)
def test_an_empty_field_means_none_unless_kubernetes_tells_them_apart(
    left: dict[str, Any], right: dict[str, Any]
) -> None:
    assert schema.same(POD, left, right, "spec")
    assert schema.same(POD, right, left, "spec")


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_what_kubernetes_tells_apart_is_different(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert not schema.same(POD, left, right, "spec")
    assert not schema.same(POD, right, left, "spec")


def test_what_is_no_stored_object_is_read_too() -> None:
    assert schema.read_as("autoscaling", "Scale", {"spec": {"replicas": 3, "size": 3}}) == ["spec.size"]
    assert schema.read_as("", "Binding", {"target": {"kind": "Node", "name": "a"}}) == []


@given(st.from_regex(r"[0-9]{1,6}(\.[0-9]{1,4})?([mkMGTPE]|Ki|Mi|Gi|e[0-9])?", fullmatch=True))
def test_the_spelling_of_an_amount_keeps_its_value_and_stays(text: str) -> None:
    node = {"status": {"capacity": {"cpu": text}}}
    schema.read(NODE, node)
    kept = node["status"]["capacity"]["cpu"]
    assert Quantity.parse(kept) == Quantity.parse(text)
    schema.read(NODE, node)
    assert node["status"]["capacity"]["cpu"] == kept


def test_what_nobody_could_walk_through_is_refused() -> None:
    deep: Any = 1
    for _ in range(101):
        deep = {"a": deep}
    for obj in ({"x": deep}, {"metadata": {"managedFields": [{"fieldsV1": deep}]}}):
        with pytest.raises(ShapeError, match="nested deeper than 100 levels"):
            schema.read(POD, obj)


def test_an_event_is_read_in_the_spelling_that_it_names() -> None:
    event = kinds.row("events.k8s.io/v1", "Event")
    assert schema.read(event, {"apiVersion": "events.k8s.io/v1", "note": "a", "regarding": {}}) == []
    assert schema.read(event, {"apiVersion": "v1", "message": "a", "involvedObject": {}}) == []
    assert schema.read(event, {"apiVersion": "v1", "note": "a"}) == ["note"]
