"""What users do with objects, done with three clients: the server must answer all of them alike."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from tests.live.clients import CLIENTS, Client, Refused
from tests.live.conftest import Live

Data = dict[str, Any]
_number = count()


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, live: Live) -> Client:
    return CLIENTS[request.param](live)


@pytest.fixture
def name() -> str:
    return f"it-{next(_number)}"


def pod(name: str, *tolerations: Data, **spec: Any) -> Data:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"it": name}},
        "spec": {"containers": [{"name": "app", "image": "myapp:latest"}], "tolerations": [*tolerations], **spec},
    }


SLA = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}


def test_an_object_can_be_created_read_listed_changed_and_deleted(client: Client, name: str) -> None:
    created = client.create(pod(name, SLA))
    assert created["metadata"]["uid"]
    assert created["status"]["phase"] == "Pending"
    assert client.get(created)["spec"]["tolerations"][0] == SLA
    assert client.names("v1", "Pod", selector=f"it={name}") == [name]
    patched = client.patch(created, {"metadata": {"labels": {"more": "yes"}}})
    assert patched["metadata"]["labels"] == {"it": name, "more": "yes"}
    assert int(patched["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
    client.delete(created)
    with pytest.raises(Refused, match=f'pods "{name}" not found'):
        client.get(created)


def test_defaults_are_those_of_kubernetes(client: Client, name: str) -> None:
    spec = client.create(pod(name))["spec"]
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["schedulerName"]) == (
        "Always",
        "ClusterFirst",
        "default-scheduler",
    )
    assert (spec["priority"], spec["serviceAccountName"]) == (0, "default")
    assert [(toleration["key"], toleration["tolerationSeconds"]) for toleration in spec["tolerations"]] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]


def test_all_errors_of_an_object_are_reported_at_once(client: Client, name: str) -> None:
    with pytest.raises(Refused) as refused:
        client.create(pod(name, SLA | {"value": "0950"}, {"key": "a?b", "operator": "Exists"}))
    message = str(refused.value)
    assert f'Pod "{name}" is invalid' in message
    assert (
        'spec.tolerations[0].value: Invalid value: "0950": must be a valid decimal integer in canonical form' in message
    )
    assert "only '*' is a wildcard in a toleration key" in message


def test_an_expression_that_does_not_compile_is_shown_with_its_place(client: Client, name: str) -> None:
    with pytest.raises(Refused) as refused:
        client.create(pod(name, {"expression": "taint.key == foo && taint.value == 'bar'"}))
    assert "<input>:1:14: undeclared reference to 'foo' (in container '')" in str(refused.value)


def test_a_costly_expression_is_refused_as_the_design_document_words_it(client: Client, name: str) -> None:
    source = 'node.labels.all(k, node.labels.all(v, k.matches(".*") && v.matches(".*")))'
    term = {"nodeSelectorTerms": [{"matchCELExpressions": [source]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    with pytest.raises(Refused, match="is invalid: spec: Forbidden: too complex, exceeds cost limit"):
        client.create(pod(name, affinity=affinity))


def test_a_name_can_be_used_once(client: Client, name: str) -> None:
    client.create(pod(name))
    with pytest.raises(Refused, match=f'pods "{name}" already exists'):
        client.create(pod(name))


def test_an_update_from_an_old_version_is_a_conflict(client: Client, name: str) -> None:
    first = client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
    client.replace(first | {"data": {"a": "1"}})
    with pytest.raises(Refused, match="the object has been modified"):
        client.replace(first | {"data": {"a": "2"}})


def test_tolerations_of_a_pod_are_only_added_to(client: Client, name: str) -> None:
    created = client.create(pod(name, SLA))
    more = created["spec"]["tolerations"] + [{"key": "gpu", "operator": "Exists"}]
    assert len(client.patch(created, {"spec": {"tolerations": more}})["spec"]["tolerations"]) == 4
    with pytest.raises(Refused, match="existing toleration can not be modified except its tolerationSeconds"):
        client.patch(created, {"spec": {"tolerations": []}})


def test_an_object_needs_a_namespace_that_exists(client: Client, name: str) -> None:
    elsewhere = pod(name)
    elsewhere["metadata"]["namespace"] = "nowhere"
    with pytest.raises(Refused, match='namespaces "nowhere" not found'):
        client.create(elsewhere)


def test_a_new_node_is_not_ready(client: Client, name: str) -> None:
    node = client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    assert node["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    client.delete(node)


def test_a_workload_is_refused_when_its_pods_would_be(client: Client, name: str) -> None:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod(name, SLA | {"value": "0950"})["spec"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    with pytest.raises(Refused, match=r'spec\.template\.spec\.tolerations\[0\]\.value: Invalid value: "0950"'):
        client.create(deployment)
