from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.api.labels import SelectorError
from moorage.apiserver.request import fieldselectors
from tests.apiserver.json_values import maps, values

POD = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"nodeName": "n1", "restartPolicy": "Always", "schedulerName": "s", "serviceAccountName": "sa"},
    "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}], "nominatedNodeName": "n2"},
}
SLICE = {"metadata": {"name": "s"}, "spec": {"nodeName": "n1", "driver": "d", "pool": {"name": "p"}}}
EVENT = {
    "metadata": {"name": "e", "namespace": "ns"},
    "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "web", "uid": "1", "apiVersion": "v1",
                       "resourceVersion": "5", "fieldPath": "spec"},
    "reason": "Failed", "type": "Warning", "source": {"component": "kubelet"}, "reportingComponent": "kubelet2",
}  # fmt: skip
NEW_EVENT = {"regarding": {"name": "web"}, "reportingController": "c"}

MATCHES: list[tuple[str, str, Any, str, bool]] = [
    ("v1", "Pod", POD, "", True),
    ("v1", "Pod", POD, ",", True),
    ("v1", "Pod", POD, "metadata.name=web", True),
    ("v1", "Pod", POD, "metadata.name==web", True),
    ("v1", "Pod", POD, "metadata.name!=web", False),
    ("v1", "Pod", POD, "metadata.namespace=default,metadata.name=log", False),
    ("v1", "Pod", POD, "spec.nodeName=n1,status.phase!=Failed,spec.restartPolicy=Always", True),
    ("v1", "Pod", POD, "spec.host=n1", True),
    ("v1", "Pod", {}, "spec.nodeName=", True),
    ("v1", "Pod", {}, "spec.nodeName!=", False),
    ("v1", "Pod", POD, "spec.nodeName!=", True),
    ("v1", "Pod", POD, "spec.schedulerName=s,spec.serviceAccountName=sa,status.nominatedNodeName=n2", True),
    ("v1", "Pod", POD, "status.podIP=10.0.0.1", True),
    ("v1", "Pod", POD, "status.podIP=::1", False),
    ("v1", "Pod", {"status": {"podIPs": []}}, "status.podIP=", True),
    ("v1", "Pod", POD, "status.podIPs=10.0.0.1", False),
    ("v1", "Pod", POD, "spec.hostNetwork=false", True),
    ("v1", "Pod", {"spec": {"hostNetwork": True}}, "spec.hostNetwork=true", True),
    ("v1", "Pod", {"metadata": {"name": "a,b=c\\"}}, "metadata.name=a\\,b\\=c\\\\", True),
    ("v1", "Node", {"spec": {}}, "spec.unschedulable=false", True),
    ("v1", "Node", {"spec": {"unschedulable": True}}, "spec.unschedulable!=true", False),
    ("v1", "Namespace", {"status": {"phase": "Active"}}, "status.phase=Active", True),
    ("v1", "Secret", {"type": "Opaque"}, "type=Opaque", True),
    (
        "v1",
        "Service",
        {"spec": {"type": "ClusterIP", "clusterIP": "None"}},
        "spec.type=ClusterIP,spec.clusterIP=None",
        True,
    ),
    ("v1", "Event", EVENT, "involvedObject.name=web,involvedObject.kind=Pod,involvedObject.uid=1", True),
    ("v1", "Event", EVENT, "involvedObject.fieldPath=spec,involvedObject.resourceVersion=5", True),
    ("v1", "Event", EVENT, "reason=Failed,type=Warning,reportingComponent=kubelet2,source=kubelet", True),
    ("v1", "Event", NEW_EVENT, "involvedObject.name=web,source=c", True),
    ("events.k8s.io/v1", "Event", EVENT, "regarding.name=web,reportingController=kubelet2", True),
    ("events.k8s.io/v1", "Event", NEW_EVENT, "regarding.name=log", False),
    ("batch/v1", "Job", {"status": {"succeeded": 2}}, "status.successful=2", True),
    ("batch/v1", "Job", {}, "status.successful=0", True),
    ("resource.k8s.io/v1", "ResourceSlice", SLICE, "spec.nodeName=n1,spec.driver=d,spec.pool.name=p", True),
    ("resource.k8s.io/v1", "ResourceSlice", {"spec": {"pool": 1}}, "spec.pool.name=p", False),
    ("apps/v1", "ReplicaSet", {"metadata": {"name": "r"}}, "metadata.name=r", True),
]


@pytest.mark.parametrize(("version", "kind", "item", "text", "want"), MATCHES)
def test_matches(version: str, kind: str, item: Any, text: str, want: bool) -> None:
    assert fieldselectors.parse(text, version, kind).matches(item) is want


ERRORS = [
    ("v1", "Pod", "spec.foo=1", "field label not supported: spec.foo"),
    ("v1", "Pod", "metadata.labels=1,spec.foo=1", "field label not supported: metadata.labels"),
    ("v1", "Node", "metadata.namespace=x", "field label not supported: metadata.namespace"),
    ("events.k8s.io/v1", "Event", "involvedObject.name=x", "field label not supported: involvedObject.name"),
    ("batch/v1", "Job", "status.phase=x", 'field label "status.phase" not supported for Job'),
    (
        "resource.k8s.io/v1", "ResourceSlice", "x=y",
        "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: x",
    ),
    (
        "apps/v1", "ReplicaSet", "status.replicas=1",
        '"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"',
    ),
    ("v1", "Pod", "metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
    ("v1", "Pod", "metadata.name=a,x", "invalid selector: 'metadata.name=a,x'; can't understand 'x'"),
    ("v1", "Pod", "metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
    ("v1", "Pod", "metadata.name!==a", "invalid field selector: unescaped character in value: 61"),
    ("v1", "Pod", "metadata.name=a\\b", "invalid field selector: invalid escape sequence: \\b"),
    ("v1", "Pod", "metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
]  # fmt: skip


@pytest.mark.parametrize(("version", "kind", "text", "message"), ERRORS)
def test_errors(version: str, kind: str, text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        fieldselectors.parse(text, version, kind)
    assert str(caught.value) == message


def test_the_value_that_a_field_must_have() -> None:
    selector = fieldselectors.parse("metadata.name=web,spec.nodeName!=n1", "v1", "Pod")
    assert selector.exact("metadata.name") == "web"
    assert selector.exact("spec.nodeName") is None
    assert selector.exact("status.phase") is None


names = st.text(st.sampled_from("ab\\,=é"), max_size=5)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


@given(names, names, st.booleans())
def test_any_value_can_be_asked_for(wanted: str, name: str, equal: bool) -> None:
    selector = fieldselectors.parse(f"metadata.name{'=' if equal else '!='}{escaped(wanted)}", "v1", "Pod")
    assert selector.matches({"metadata": {"name": name}}) is ((wanted == name) is equal)


KINDS = [
    ("v1", "Pod"),
    ("v1", "Event"),
    ("resource.k8s.io/v1", "ResourceSlice"),
    ("batch/v1", "Job"),
    ("v1", "ConfigMap"),
]
labels = st.sampled_from(
    ("metadata.name", "metadata.namespace", "spec.nodeName", "status.podIP", "source", "spec.pool.name")
)
objects = st.dictionaries(st.sampled_from(("metadata", "spec", "status", "source")), values | maps)


@given(
    st.sampled_from(KINDS),
    st.lists(st.builds("{}={}".format, labels, names)).map(",".join) | st.text(max_size=8),
    objects,
)
def test_any_text_and_any_object(kind: tuple[str, str], text: str, item: Any) -> None:
    with suppress(SelectorError):
        assert fieldselectors.parse(text, *kind).matches(item) in (True, False)
