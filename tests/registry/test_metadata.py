from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.api import kinds
from moorage.registry import metadata
from moorage.registry.metadata import MetadataError, generated_name, metadata_errors
from moorage.registry.pod.defaults import default_pod
from moorage.registry.prepare import prepare_create, prepare_update
from moorage.registry.state import State
from moorage.registry.table import strategy_of
from tests.plane import api_server
from tests.registry.wordings import LABEL, SUBDOMAIN

NOW, LATER, UID = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "00000000-0000-0000-0000-000000000001"
POD, NODE, NAMESPACE = kinds.row("v1", "Pod"), kinds.row("v1", "Node"), kinds.row("v1", "Namespace")
DEPLOYMENT, CONFIG_MAP = kinds.row("apps/v1", "Deployment"), kinds.row("v1", "ConfigMap")
SERVICE, VOLUME = kinds.row("v1", "Service"), kinds.row("v1", "PersistentVolume")
DAEMON_SET = kinds.row("apps/v1", "DaemonSet")
ROLE, CLAIM = kinds.row("rbac.authorization.k8s.io/v1", "Role"), kinds.row("resource.k8s.io/v1", "ResourceClaim")
STATEFUL_SET, BUDGET = kinds.row("apps/v1", "StatefulSet"), kinds.row("policy/v1", "PodDisruptionBudget")
ANYTHING = State(is_complete=False)


def created(kind: kinds.Kind, obj: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
    obj = copy.deepcopy(obj)
    prepare_create(strategy_of(kind), obj, namespace if kind.namespaced else "", ANYTHING, NOW, UID)
    return obj


def updated(
    kind: kinds.Kind, old: dict[str, Any], new: dict[str, Any], subresource: str = "", now: str = LATER
) -> dict[str, Any]:
    new = copy.deepcopy(new)
    prepare_update(strategy_of(kind), new, old, subresource, ANYTHING, now)
    return new


def test_the_server_says_when_an_object_was_made_and_what_it_is_called() -> None:
    given_ = {
        "name": "a", "uid": "x", "creationTimestamp": LATER, "deletionTimestamp": LATER, "selfLink": "/a",
        "deletionGracePeriodSeconds": 5, "generation": 7, "resourceVersion": "", "labels": {"l": "v"},
    }  # fmt: skip
    assert created(CONFIG_MAP, {"metadata": given_})["metadata"] == {
        "name": "a",
        "namespace": "default",
        "uid": UID,
        "creationTimestamp": NOW,
        "labels": {"l": "v"},
    }
    assert created(DEPLOYMENT, {"metadata": given_})["metadata"]["generation"] == 1


def test_a_new_object_has_no_version_yet() -> None:
    with pytest.raises(MetadataError, match="resourceVersion should not be set on objects to be created"):
        created(POD, {"metadata": {"name": "a", "resourceVersion": "5"}})


def test_an_object_is_made_in_the_namespace_of_the_request() -> None:
    problem = "the namespace of the provided object does not match the namespace sent on the request"
    with pytest.raises(MetadataError, match=problem):
        created(POD, {"metadata": {"name": "a", "namespace": "other"}})
    assert "namespace" not in created(NODE, {"metadata": {"name": "a", "namespace": "other"}})["metadata"]


@given(st.text(max_size=80))
def test_a_generated_name_begins_as_asked_and_fits_a_label(prefix: str) -> None:
    name = generated_name(prefix)
    assert name.startswith(prefix[:58])
    assert len(name) == len(prefix[:58]) + 5
    assert re.fullmatch("[bcdfghjklmnpqrstvwxz2456789]{5}", name[-5:])


def test_a_name_is_generated_only_when_there_is_none() -> None:
    stored = created(POD, {"metadata": {"generateName": "web-"}})["metadata"]
    assert re.fullmatch("web-[a-z0-9]{5}", stored["name"])
    assert created(POD, {"metadata": {"generateName": "web-", "name": "a"}})["metadata"]["name"] == "a"


QOS = [
    ({}, "BestEffort"),
    ({"requests": {"cpu": "0"}}, "BestEffort"),
    ({"requests": {"cpu": "1"}}, "Burstable"),
    ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}}, "Guaranteed"),
    ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}, "Burstable"),
    ({"limits": {"example.com/gpu": "1"}}, "BestEffort"),
]


@pytest.mark.parametrize(("resources", "qos"), QOS)
def test_a_new_pod_is_pending_in_its_class_of_service(resources: dict[str, Any], qos: str) -> None:
    pod = {
        "metadata": {"name": "a"},
        "spec": {"containers": [{"resources": resources}]},
        "status": {"phase": "Running"},
    }
    assert created(POD, pod)["status"] == {"phase": "Pending", "qosClass": qos}


def test_the_class_of_service_follows_the_resources_of_the_whole_pod() -> None:
    amounts = {"cpu": "1", "memory": "1Gi"}
    spec = {"containers": [{}], "resources": {"limits": amounts, "requests": amounts}}
    assert created(POD, {"metadata": {"name": "a"}, "spec": spec})["status"]["qosClass"] == "Guaranteed"


def test_a_gated_pod_says_that_it_waits() -> None:
    pod = created(POD, {"metadata": {"name": "a"}, "spec": {"schedulingGates": [{"name": "x"}]}})
    assert pod["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": NOW,
        }
    ]


def test_label_keys_become_conditions_on_the_values_of_the_pod() -> None:
    term = {"labelSelector": {}, "matchLabelKeys": ["a", "none"], "mismatchLabelKeys": ["b"], "topologyKey": "zone"}
    pod = {
        "metadata": {"name": "p", "labels": {"a": "1", "b": "2"}},
        "spec": {
            "topologySpreadConstraints": [{"labelSelector": {}, "matchLabelKeys": ["a"]}, {"matchLabelKeys": ["a"]}],
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        },
    }
    spec = created(POD, pod)["spec"]
    same = {"key": "a", "operator": "In", "values": ["1"]}
    assert spec["topologySpreadConstraints"] == [
        {"labelSelector": {"matchExpressions": [same]}, "matchLabelKeys": ["a"]},
        {"matchLabelKeys": ["a"]},
    ]
    [kept] = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert kept["labelSelector"]["matchExpressions"] == [same, {"key": "b", "operator": "NotIn", "values": ["2"]}]


def test_a_new_object_has_no_status_but_a_node_keeps_its_own() -> None:
    status = {"replicas": 3, "capacity": {"cpu": "1"}}
    assert created(DEPLOYMENT, {"metadata": {"name": "a"}, "status": status})["status"] == {}
    assert created(NODE, {"metadata": {"name": "a"}, "status": status})["status"] == {
        **status,
        "allocatable": {"cpu": "1"},
    }
    assert created(VOLUME, {"metadata": {"name": "a"}})["status"] == {
        "phase": "Pending",
        "lastPhaseTransitionTime": NOW,
    }
    assert created(CONFIG_MAP, {"metadata": {"name": "a"}, "status": status})["status"] == status


def test_a_namespace_is_active_and_finalized_by_the_server() -> None:
    stored = created(NAMESPACE, {"metadata": {"generateName": "team-"}, "spec": {"finalizers": ["x/y"]}})
    assert stored["spec"] == {"finalizers": ["x/y", "kubernetes"]}
    assert stored["status"] == {"phase": "Active"}
    assert stored["metadata"]["labels"] == {"kubernetes.io/metadata.name": stored["metadata"]["name"]}


def test_a_service_account_only_names_its_secrets() -> None:
    account = kinds.row("v1", "ServiceAccount")
    stored = created(account, {"metadata": {"name": "a"}, "secrets": [{"name": "s", "namespace": "other"}]})
    assert stored["secrets"] == [{"name": "s"}]


def test_a_claim_has_its_data_source_in_both_fields() -> None:
    claim = kinds.row("v1", "PersistentVolumeClaim")
    source = {"kind": "PersistentVolumeClaim", "name": "a"}
    stored = created(claim, {"metadata": {"name": "a"}, "spec": {"dataSource": source}})
    assert stored["spec"]["dataSourceRef"] == source
    stored = created(claim, {"metadata": {"name": "a"}, "spec": {"dataSourceRef": source}})
    assert stored["spec"]["dataSource"] == source
    foreign = {**source, "namespace": "other"}
    assert "dataSource" not in created(claim, {"metadata": {"name": "a"}, "spec": {"dataSourceRef": foreign}})["spec"]


def pod(**more: Any) -> dict[str, Any]:
    stored = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "a:1"}]}, **more}
    default_pod(stored)
    return created(POD, stored)


def test_an_update_takes_over_what_the_server_set() -> None:
    old = pod()
    old["metadata"] |= {"deletionTimestamp": LATER, "deletionGracePeriodSeconds": 30, "resourceVersion": "7"}
    new = {
        "metadata": {"name": "a", "creationTimestamp": LATER, "generation": 9, "selfLink": "/x"},
        "spec": old["spec"],
    }
    assert updated(POD, old, new)["metadata"] == {
        "name": "a",
        "namespace": "default",
        "uid": UID,
        "creationTimestamp": NOW,
        "generation": 1,
        "deletionTimestamp": LATER,
        "deletionGracePeriodSeconds": 30,
    }


def test_an_update_in_another_namespace_is_refused() -> None:
    with pytest.raises(MetadataError, match="does not match the namespace"):
        updated(POD, pod(), {"metadata": {"name": "a", "namespace": "other"}})


def test_the_generation_of_a_pod_template_counts_changes_of_the_template() -> None:
    kind = kinds.row("v1", "PodTemplate")
    old = created(kind, {"metadata": {"name": "a"}, "template": {"spec": {"hostname": "a"}}})
    assert old["metadata"]["generation"] == 1
    labelled = {"metadata": {"name": "a", "labels": {"a": "b"}}, "template": {"spec": {"hostname": "a"}}}
    assert updated(kind, old, labelled)["metadata"]["generation"] == 1
    changed = {"metadata": {"name": "a"}, "template": {"spec": {"hostname": "b"}}}
    assert updated(kind, old, changed)["metadata"]["generation"] == 2


def test_the_generation_counts_changes_of_the_specification() -> None:
    old = pod()
    same = copy.deepcopy(old)
    same["spec"]["hostNetwork"] = False
    assert updated(POD, old, same)["metadata"]["generation"] == 1
    changed = copy.deepcopy(old)
    changed["spec"]["containers"][0]["image"] = "a:2"
    assert updated(POD, old, changed)["metadata"]["generation"] == 2
    labelled = copy.deepcopy(old)
    labelled["metadata"]["labels"] = {"a": "b"}
    assert updated(POD, old, labelled)["metadata"]["generation"] == 1


def test_a_deployment_also_counts_changes_of_its_annotations() -> None:
    old = created(DEPLOYMENT, {"metadata": {"name": "a"}, "spec": {"replicas": 1}})
    noted = copy.deepcopy(old)
    noted["metadata"]["annotations"] = {"a": "b"}
    assert updated(DEPLOYMENT, old, noted)["metadata"]["generation"] == 2


def test_the_main_resource_leaves_the_status_alone_and_the_other_way_round() -> None:
    old = pod()
    old["status"]["phase"] = "Running"
    new = copy.deepcopy(old)
    new["status"] = {"phase": "Failed"}
    new["spec"]["nodeName"] = "n"
    assert updated(POD, old, new)["status"] == old["status"]
    by_status = updated(POD, old, new, "status")
    assert by_status["spec"] == old["spec"]
    assert by_status["status"] == {"phase": "Failed", "qosClass": "BestEffort"}
    assert by_status["metadata"]["generation"] == 1


def test_a_status_update_cannot_change_whose_pod_it_is() -> None:
    old = pod()
    new = copy.deepcopy(old)
    new["metadata"] |= {"ownerReferences": [{"name": "x"}], "labels": {"a": "b"}, "deletionTimestamp": LATER}
    metadata = updated(POD, old, new, "status")["metadata"]
    assert "ownerReferences" not in metadata
    assert "deletionTimestamp" not in metadata
    assert metadata["labels"] == {"a": "b"}


def test_a_status_update_of_a_claim_leaves_its_labels_alone() -> None:
    old = created(CLAIM, {"metadata": {"name": "a", "labels": {"a": "1"}}, "spec": {}})
    new = copy.deepcopy(old)
    new["metadata"]["labels"] = {"a": "2"}
    assert updated(CLAIM, old, new, "status")["metadata"]["labels"] == {"a": "1"}


def test_generations_that_were_observed_are_not_forgotten() -> None:
    old = pod()
    old["status"] |= {"observedGeneration": 3, "conditions": [{"type": "Ready", "observedGeneration": 2}]}
    new = copy.deepcopy(old)
    new["status"] = {"conditions": [{"type": "Ready"}, {"type": "Other"}]}
    status = updated(POD, old, new, "status")["status"]
    assert status["observedGeneration"] == 3
    assert status["conditions"] == [{"type": "Ready", "observedGeneration": 2}, {"type": "Other"}]


def test_a_volume_remembers_when_its_phase_changed() -> None:
    old = created(VOLUME, {"metadata": {"name": "a"}})
    bound = {**copy.deepcopy(old), "status": {"phase": "Bound"}}
    assert updated(VOLUME, old, bound, "status")["status"]["lastPhaseTransitionTime"] == LATER
    same = {**copy.deepcopy(old), "status": {"phase": "Pending"}}
    assert updated(VOLUME, old, same, "status")["status"]["lastPhaseTransitionTime"] == NOW


def test_only_finalize_changes_the_finalizers_of_a_namespace() -> None:
    old = created(NAMESPACE, {"metadata": {"name": "a"}})
    new = copy.deepcopy(old)
    new["spec"]["finalizers"] = []
    assert updated(NAMESPACE, old, new)["spec"]["finalizers"] == ["kubernetes"]
    assert updated(NAMESPACE, old, new, "finalize")["spec"]["finalizers"] == []


def test_a_daemon_set_counts_its_templates() -> None:
    key = "deprecated.daemonset.template.generation"
    old = created(DAEMON_SET, {"metadata": {"name": "a"}, "spec": {"template": {}}})
    assert old["metadata"]["annotations"] == {key: "1"}
    new = copy.deepcopy(old)
    new["spec"]["template"] = {"spec": {"nodeName": "x"}}
    assert updated(DAEMON_SET, old, new)["metadata"]["annotations"] == {key: "2"}


def test_a_service_keeps_its_address_and_gives_it_up_to_become_an_alias() -> None:
    address = {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ipFamilies": ["IPv4"]}
    old = created(SERVICE, {"metadata": {"name": "a"}, "spec": {"type": "ClusterIP", **address}})
    bare = {"metadata": {"name": "a"}, "spec": {"type": "NodePort"}}
    assert {name: updated(SERVICE, old, bare)["spec"].get(name) for name in address} == address
    alias = {"metadata": {"name": "a"}, "spec": {"type": "ExternalName", **address}}
    assert not address.keys() & updated(SERVICE, old, alias)["spec"].keys()


def test_a_rule_that_taints_otherwise_taints_from_now() -> None:
    rule = kinds.row("resource.k8s.io/v1", "DeviceTaintRule")
    old = created(rule, {"metadata": {"name": "a"}, "spec": {"taint": {"effect": "NoSchedule", "timeAdded": NOW}}})
    new = copy.deepcopy(old)
    new["spec"]["taint"]["effect"] = "NoExecute"
    assert updated(rule, old, new)["spec"]["taint"]["timeAdded"] == LATER
    assert updated(rule, old, old)["spec"]["taint"]["timeAdded"] == NOW


def test_sub_resources_of_a_pod_change_their_part_only() -> None:
    old = pod()
    new = copy.deepcopy(old)
    new["spec"]["nodeName"] = "elsewhere"
    new["spec"]["ephemeralContainers"] = [{"name": "debug"}]
    new["spec"]["containers"][0] |= {"image": "b", "resources": {"requests": {"cpu": "1"}}}
    added = updated(POD, old, new, "ephemeralcontainers")
    [debug] = added["spec"].pop("ephemeralContainers")
    assert debug["name"] == "debug"
    assert added["spec"] == old["spec"]
    assert added["metadata"]["generation"] == 2
    resized = updated(POD, old, new, "resize")["spec"]
    assert resized["containers"] == [{**old["spec"]["containers"][0], "resources": {"requests": {"cpu": "1"}}}]
    assert "nodeName" not in resized


ERRORS: list[tuple[kinds.Kind, dict[str, Any], list[str]]] = [
    (POD, {"name": "a.b-c"}, []),
    (POD, {"name": ""}, ["metadata.name: Required value: name or generateName is required"]),
    (POD, {"name": "Web"}, [f'metadata.name: Invalid value: "Web": {SUBDOMAIN}']),
    (POD, {"name": "a" * 254}, [f'metadata.name: Invalid value: "{"a" * 254}": must be no more than 253 characters']),
    (SERVICE, {"name": "a.b"}, ['metadata.name: Invalid value: "a.b": must not contain dots']),
    (SERVICE, {"name": "1a"}, []),
    (STATEFUL_SET, {"name": "a" * 64},
     [f'metadata.name: Invalid value: "{"a" * 64}": must be no more than 63 characters']),
    (NAMESPACE, {"name": "Team"}, [f'metadata.name: Invalid value: "Team": {LABEL}']),
    (ROLE, {"name": "system:anything GOES"}, []),
    (ROLE, {"name": "a/b%"}, ['metadata.name: Invalid value: "a/b%": may not contain \'/\'',
                              'metadata.name: Invalid value: "a/b%": may not contain \'%\'']),
    (ROLE, {"name": ".."}, ['metadata.name: Invalid value: "..": may not be \'..\'']),
    (POD, {"name": "a", "generateName": "web-"}, []),
    (POD, {"name": "a", "generateName": "Web-"}, [f'metadata.generateName: Invalid value: "Web-": {SUBDOMAIN}']),
    (POD, {"name": "a", "namespace": "a.b"}, ['metadata.namespace: Invalid value: "a.b": must not contain dots']),
    (POD, {"name": "a", "namespace": ""}, ["metadata.namespace: Required value"]),
    (NODE, {"name": "a", "namespace": "b"}, ["metadata.namespace: Forbidden: not allowed on this type"]),
    (POD, {"name": "a", "annotations": {"Example.com/Key": "v" * (256 * 1024)}},
     ["metadata.annotations: Too long: may not be more than 262144 bytes"]),
    (POD, {"name": "a", "annotations": {"x/": ""}}, [
        'metadata.annotations: Invalid value: "x/": name part must be non-empty',
        'metadata.annotations: Invalid value: "x/": name part must consist of alphanumeric characters, \'-\', \'_\' or '
        "'.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
        "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"]),
    (POD, {"name": "a", "labels": {"a": "x" * 64}},
     [f'metadata.labels: Invalid value: "{"x" * 64}": must be no more than 63 bytes']),
    (POD, {"name": "a", "finalizers": ["mine"]},
     ['metadata.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer name nor is it fully '
      "qualified"]),
    (BUDGET, {"name": "a", "finalizers": ["mine"]}, []),
    (POD, {"name": "a", "finalizers": ["orphan", "foregroundDeletion"]},
     ['metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion '
      "cannot be both set"]),
    (POD, {"name": "a", "ownerReferences": [{"controller": True}]}, [
        'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
        'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
        'metadata.ownerReferences.name: Invalid value: "": must not be empty',
        'metadata.ownerReferences.uid: Invalid value: "": must not be empty']),
    (POD, {"name": "a", "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "Set", "name": name, "uid": name, "controller": True} for name in "xy"]},
     ['metadata.ownerReferences: Invalid value: [{"apiVersion":"apps/v1","kind":"Set","name":"x","uid":"x",'
      '"controller":true},{"apiVersion":"apps/v1","kind":"Set","name":"y","uid":"y","controller":true}]: Only one '
      'reference can have Controller set to true. Found "true" in references for Set/x and Set/y']),
    (POD, {"name": "a", "managedFields": [{"operation": "Patch", "manager": "m" * 129, "fieldsType": "V2"}]}, [
        'metadata.managedFields[0].operation: Invalid value: "Patch": must be `Apply` or `Update`',
        'metadata.managedFields[0].fieldsType: Invalid value: "V2": must be `FieldsV1`',
        "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "metadata", "errors"), ERRORS)
def test_what_is_wrong_with_metadata_is_said_as_kubernetes_says_it(
    kind: kinds.Kind, metadata: dict[str, Any], errors: list[str]
) -> None:
    if kind.namespaced:
        metadata = {"namespace": "default", **metadata}
    assert [str(error) for error in metadata_errors(strategy_of(kind), {"metadata": metadata})] == errors


CHANGES = [
    ({"uid": "other"}, {}, ['metadata.uid: Invalid value: "other": field is immutable']),
    ({"name": "b"}, {}, ['metadata.name: Invalid value: "b": field is immutable']),
    ({"deletionTimestamp": NOW}, {}, [f'metadata.deletionTimestamp: Invalid value: "{NOW}": field is immutable']),
    ({"labels": {"a": "b"}, "annotations": {"a": "b"}}, {}, []),
    ({"finalizers": ["x/a"]}, {}, []),
    ({"finalizers": ["x/a", "x/b"], "deletionTimestamp": NOW}, {"finalizers": ["x/a"], "deletionTimestamp": NOW},
     ["metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new "
      'finalizers []string{"x/b"}']),
]  # fmt: skip


@pytest.mark.parametrize(("new", "old", "errors"), CHANGES)
def test_what_may_not_change_is_said(new: dict[str, Any], old: dict[str, Any], errors: list[str]) -> None:
    base = {"name": "a", "namespace": "default", "uid": UID, "creationTimestamp": NOW}
    found = metadata_errors(strategy_of(POD), {"metadata": {**base, **new}}, {"metadata": {**base, **old}})
    assert [str(error) for error in found] == errors


async def test_a_generated_name_that_is_taken_is_made_up_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter(["web-taken", "web-taken", "web-free"])
    monkeypatch.setattr(metadata, "generated_name", lambda _: next(names))
    async with api_server(tmp_path) as server:
        client = server.client("test")
        stored = [
            msgspec.json.decode(await client.create(CONFIG_MAP, {"metadata": {"generateName": "web-"}}, "default"))
            for _ in range(2)
        ]
        assert [each["metadata"]["name"] for each in stored] == ["web-taken", "web-free"]
