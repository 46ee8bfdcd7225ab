from __future__ import annotations

import copy
from typing import Any

import pytest

from moorage.api import kinds
from moorage.registry.pod.defaults import pull_policy
from moorage.registry.table import strategy_of
from moorage.registry.workload.jobs import JOB

POD = kinds.row("v1", "Pod")
CONTAINER = {
    "imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File", "resources": {},
}  # fmt: skip
TEMPLATE = {
    "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30, "securityContext": {},
}  # fmt: skip


def defaulted(api_version: str, kind: str, obj: dict[str, Any], now: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    obj = copy.deepcopy(obj)
    strategy_of(kinds.row(api_version, kind)).defaults(obj, now)
    return obj


def pod_spec(**spec: Any) -> dict[str, Any]:
    filled: dict[str, Any] = defaulted("v1", "Pod", {"spec": spec})["spec"]
    return filled


def first_container(**container: Any) -> dict[str, Any]:
    filled: dict[str, Any] = pod_spec(containers=[{"image": "a:1", **container}])["containers"][0]
    return filled


def test_a_pod_gets_what_kubernetes_gives_it() -> None:
    assert pod_spec(containers=[{"name": "c", "image": "a:1"}]) == {
        **TEMPLATE,
        "enableServiceLinks": True,
        "containers": [{"name": "c", "image": "a:1", **CONTAINER}],
    }


def test_a_template_gets_less_than_a_pod() -> None:
    template = {"spec": {"containers": [{"image": "a", "resources": {"limits": {"cpu": "1"}}}]}}
    filled = defaulted("apps/v1", "ReplicaSet", {"spec": {"template": template}})["spec"]["template"]["spec"]
    assert filled == {
        **TEMPLATE,
        "containers": [{"image": "a", **CONTAINER, "imagePullPolicy": "Always", "resources": {"limits": {"cpu": "1"}}}],
    }


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("registry.example.com:5000/a/b", "Always"),
        ("registry.example.com:5000/a/b:v1", "IfNotPresent"),
        ("localhost/a:latest", "Always"),
        ("nginx@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "IfNotPresent"),
        ("nginx:latest@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "Always"),
        ("", "IfNotPresent"),
        ("Not An Image", "IfNotPresent"),
    ],
)
def test_an_image_that_may_move_is_pulled_each_time(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_requests_follow_limits_where_they_are_not_given() -> None:
    resources = first_container(resources={"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}})
    assert resources["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


def test_no_more_than_thousandths_of_a_resource_are_kept() -> None:
    resources = first_container(resources={"requests": {"cpu": "1500u", "memory": "1Gi"}})["resources"]
    assert resources["requests"] == {"cpu": "2m", "memory": "1Gi"}


def test_ports_have_a_protocol_and_are_those_of_the_host_when_the_network_is() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "hostPort": 54}]
    assert first_container(ports=ports)["ports"][0] == {"containerPort": 80, "protocol": "TCP"}
    shared = pod_spec(hostNetwork=True, containers=[{"image": "a", "ports": ports}])["containers"][0]["ports"]
    assert shared == [
        {"containerPort": 80, "hostPort": 80, "protocol": "TCP"},
        {"containerPort": 53, "protocol": "UDP", "hostPort": 54},
    ]


def test_probes_and_hooks_get_their_rhythm() -> None:
    rhythm = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    container = first_container(
        livenessProbe={"httpGet": {"port": 80}, "periodSeconds": 5},
        readinessProbe={"grpc": {"port": 1}},
        lifecycle={"preStop": {"httpGet": {"port": 80, "path": "/bye", "scheme": "HTTPS"}}},
    )
    http = {"port": 80, "path": "/", "scheme": "HTTP"}
    assert container["livenessProbe"] == {**rhythm, "periodSeconds": 5, "httpGet": http}
    assert container["readinessProbe"] == {**rhythm, "grpc": {"port": 1, "service": ""}}
    assert container["lifecycle"] == {"preStop": {"httpGet": {"port": 80, "path": "/bye", "scheme": "HTTPS"}}}


def test_variables_read_fields_of_version_one() -> None:
    env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    assert first_container(env=env)["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"


VOLUMES = [
    ({"name": "a"}, {"emptyDir": {}}),
    ({"name": "a", "hostPath": {"path": "/x"}}, {"hostPath": {"path": "/x", "type": ""}}),
    ({"name": "a", "configMap": {"name": "c"}}, {"configMap": {"name": "c", "defaultMode": 420}}),
    ({"name": "a", "secret": {"defaultMode": 256}}, {"secret": {"defaultMode": 256}}),
    (
        {"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {"projected": {
            "defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}},
    ),
    (
        {"name": "a", "downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"downwardAPI": {"defaultMode": 420, "items": [
            {"path": "x", "fieldRef": {"fieldPath": "metadata.labels", "apiVersion": "v1"}}]}},
    ),
    (
        {"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"ephemeral": {"volumeClaimTemplate": {"spec": {"volumeMode": "Filesystem", "resources": {}}}}},
    ),
    ({"name": "a", "image": {"reference": "a:1"}}, {"image": {"reference": "a:1", "pullPolicy": "IfNotPresent"}}),
    ({"name": "a", "iscsi": {"iscsiInterface": ""}}, {"iscsi": {"iscsiInterface": "default"}}),
    (
        {"name": "a", "rbd": {"pool": "p"}},
        {"rbd": {"pool": "p", "user": "admin", "keyring": "/etc/ceph/keyring"}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("volume", "filled"), VOLUMES)
def test_sources_of_volumes_are_filled_in(volume: dict[str, Any], filled: dict[str, Any]) -> None:
    assert pod_spec(volumes=[volume])["volumes"] == [{"name": "a", **filled}]


def test_both_names_of_the_service_account_say_the_same() -> None:
    assert pod_spec(serviceAccount="a")["serviceAccountName"] == "a"
    both = pod_spec(serviceAccount="a", serviceAccountName="b")
    assert (both["serviceAccount"], both["serviceAccountName"]) == ("b", "b")
    assert "serviceAccountName" not in pod_spec()


def test_a_negative_grace_period_is_one_second() -> None:
    assert pod_spec(terminationGracePeriodSeconds=-5)["terminationGracePeriodSeconds"] == 1
    assert pod_spec(terminationGracePeriodSeconds=0)["terminationGracePeriodSeconds"] == 0


def test_a_limit_of_the_whole_pod_brings_a_request() -> None:
    containers = [
        {"image": "a", "resources": {"requests": {"cpu": "100m"}}},
        {"image": "b", "resources": {"requests": {"cpu": "200m"}}},
    ]
    starting = [
        {"image": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}},
        {"image": "i", "resources": {"requests": {"cpu": "400m"}}},
    ]
    limits = {"limits": {"cpu": "1", "memory": "1Gi"}}
    assert pod_spec(containers=containers, resources=limits)["resources"]["requests"] == {
        "cpu": "300m",
        "memory": "1Gi",
    }
    with_init = pod_spec(containers=containers, initContainers=starting, resources=limits)
    assert with_init["resources"]["requests"]["cpu"] == "450m"
    assert pod_spec(containers=containers, resources={})["resources"] == {}


def test_the_first_address_of_a_pod_is_its_address() -> None:
    status = {"podIP": "10.0.0.1"}
    assert defaulted("v1", "Pod", {"status": status})["status"]["podIPs"] == [{"ip": "10.0.0.1"}]
    status_list = {"podIPs": [{"ip": "10.0.0.2"}]}
    assert defaulted("v1", "Pod", {"status": status_list})["status"]["podIP"] == "10.0.0.2"


WORKLOADS = [
    ("apps/v1", "Deployment", {}, {
        "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
    }),
    ("apps/v1", "Deployment", {"replicas": 0, "strategy": {"type": "Recreate"}}, {
        "replicas": 0, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {"type": "Recreate"},
    }),
    ("apps/v1", "ReplicaSet", {}, {"replicas": 1}),
    ("apps/v1", "DaemonSet", {}, {
        "revisionHistoryLimit": 10,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
    }),
    ("apps/v1", "StatefulSet", {}, {
        "replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    }),
    ("batch/v1", "Job", {}, {
        "parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False,
        "manualSelector": False, "podReplacementPolicy": "TerminatingOrFailed",
    }),
    ("batch/v1", "Job", {"parallelism": 2, "backoffLimitPerIndex": 1, "podFailurePolicy": {}}, {
        "parallelism": 2, "backoffLimit": 2147483647, "backoffLimitPerIndex": 1, "completionMode": "NonIndexed",
        "suspend": False, "manualSelector": False, "podFailurePolicy": {}, "podReplacementPolicy": "Failed",
    }),
]  # fmt: skip


@pytest.mark.parametrize(("api_version", "kind", "given", "filled"), WORKLOADS)
def test_workloads_are_filled_in(api_version: str, kind: str, given: dict[str, Any], filled: dict[str, Any]) -> None:
    assert defaulted(api_version, kind, {"spec": given})["spec"] == {**filled, "template": {"spec": TEMPLATE}}


def test_a_replication_controller_has_the_labels_of_its_template_unless_it_says_otherwise() -> None:
    template = {"metadata": {"labels": {"a": "b"}}}
    plain = defaulted("v1", "ReplicationController", {"spec": {"template": template}})
    assert plain["metadata"]["labels"] == plain["spec"]["selector"] == {"a": "b"}
    assert (plain["spec"]["replicas"], plain["spec"]["template"]["spec"]) == (1, TEMPLATE)
    own = {"metadata": {"labels": {"c": "d"}}, "spec": {"selector": {"e": "f"}, "template": template}}
    kept = defaulted("v1", "ReplicationController", own)
    assert (kept["metadata"]["labels"], kept["spec"]["selector"]) == ({"c": "d"}, {"e": "f"})
    assert defaulted("v1", "ReplicationController", {"spec": {}})["spec"] == {"replicas": 1}


def test_a_cron_job_fills_in_its_pods_and_not_its_jobs() -> None:
    assert defaulted("batch/v1", "CronJob", {"spec": {"schedule": "@daily"}})["spec"] == {
        "schedule": "@daily",
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": {"spec": {"template": {"spec": TEMPLATE}}},
    }


def test_claims_of_a_stateful_set_say_what_they_are() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    filled = defaulted("apps/v1", "StatefulSet", {"spec": {"volumeClaimTemplates": [claim]}})
    assert filled["spec"]["volumeClaimTemplates"] == [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {"resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"},
            "status": {"phase": "Pending"},
        }
    ]


def test_a_job_takes_the_labels_of_its_template_without_sharing_them() -> None:
    template = {"metadata": {"labels": {"app": "a"}}}
    job = defaulted("batch/v1", "Job", {"metadata": {"name": "j"}, "spec": {"template": template}})
    assert job["metadata"]["labels"] == {"app": "a"}
    job["metadata"]["uid"] = "u"
    JOB.generate(job)
    assert job["metadata"]["labels"] == {"app": "a"}
    assert job["spec"]["template"]["metadata"]["labels"] == {
        "app": "a",
        "job-name": "j",
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": "u",
        "batch.kubernetes.io/controller-uid": "u",
    }
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}


def test_a_manual_selector_is_left_alone() -> None:
    job = {"metadata": {"name": "j", "uid": "u"}, "spec": {"manualSelector": True}}
    JOB.generate(job)
    assert job["spec"] == {"manualSelector": True}


SERVICES = [
    ({"ports": [{"port": 80}]}, {
        "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
    }),
    ({"type": "LoadBalancer", "sessionAffinity": "ClientIP"}, {
        "type": "LoadBalancer", "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Cluster",
        "externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": True,
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
    }),
    ({"type": "ExternalName", "externalName": "a.b"}, {
        "type": "ExternalName", "externalName": "a.b", "sessionAffinity": "None",
    }),
    ({"sessionAffinityConfig": {}}, {
        "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
    }),
]  # fmt: skip


@pytest.mark.parametrize(("given", "filled"), SERVICES)
def test_services_are_filled_in(given: dict[str, Any], filled: dict[str, Any]) -> None:
    assert defaulted("v1", "Service", {"spec": given})["spec"] == filled


OTHERS = [
    ("v1", "PersistentVolume", {"spec": {"hostPath": {"path": "/a"}, "capacity": {"storage": "1Gi"}}},
     {"spec": {"hostPath": {"path": "/a", "type": ""}, "capacity": {"storage": "1Gi"}, "volumeMode": "Filesystem",
               "persistentVolumeReclaimPolicy": "Retain"}, "status": {"phase": "Pending"}}),
    ("v1", "PersistentVolumeClaim", {},
     {"spec": {"volumeMode": "Filesystem", "resources": {}}, "status": {"phase": "Pending"}}),
    ("storage.k8s.io/v1", "StorageClass", {"provisioner": "a"},
     {"provisioner": "a", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": 1}, {"value": 1, "preemptionPolicy": "PreemptLowerPriority"}),
    ("v1", "Namespace", {"metadata": {"name": "a"}},
     {"metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "a"}}, "status": {"phase": "Active"}}),
    ("v1", "Secret", {"data": {"a": "YQ=="}, "stringData": {"a": "b", "c": "é"}},
     {"type": "Opaque", "data": {"a": "Yg==", "c": "w6k="}}),
    ("v1", "Node", {"status": {"capacity": {"cpu": "4"}}},
     {"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}}),
    ("v1", "Node", {"spec": {"podCIDR": "10.0.0.0/24"}},
     {"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}}),
    ("rbac.authorization.k8s.io/v1", "RoleBinding",
     {"roleRef": {"kind": "Role", "name": "r"},
      "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount"}]},
     {"roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}, "subjects": [
         {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}, {"kind": "ServiceAccount"}]}),
    ("resource.k8s.io/v1", "ResourceClaim",
     {"spec": {"devices": {"requests": [
         {"name": "a", "exactly": {"tolerations": [{"key": "k"}, {"expression": "true"}]}},
         {"name": "b", "firstAvailable": [{"allocationMode": "All"}]}]}}},
     {"spec": {"devices": {"requests": [
         {"name": "a", "exactly": {"allocationMode": "ExactCount", "count": 1, "tolerations": [
             {"key": "k", "operator": "Equal"}, {"expression": "true"}]}},
         {"name": "b", "firstAvailable": [{"allocationMode": "All"}]}]}}}),
    ("resource.k8s.io/v1", "ResourceSlice",
     {"spec": {"devices": [{"name": "a", "taints": [{"key": "k"}]}]}},
     {"spec": {"devices": [{"name": "a", "taints": [{"key": "k", "timeAdded": "2026-01-01T00:00:00Z"}]}]}}),
    ("storage.k8s.io/v1", "CSIDriver", {}, {"spec": {
        "attachRequired": True, "podInfoOnMount": False, "storageCapacity": False, "requiresRepublish": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType", "seLinuxMount": False, "volumeLifecycleModes": ["Persistent"]}}),
    ("v1", "ConfigMap", {"data": {"a": "b"}}, {"data": {"a": "b"}}),
    ("coordination.k8s.io/v1", "Lease", {"spec": {}}, {"spec": {}}),
    ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": 1}}, {"spec": {"minAvailable": 1}}),
]  # fmt: skip


@pytest.mark.parametrize(("api_version", "kind", "given", "filled"), OTHERS)
def test_other_kinds_are_filled_in(api_version: str, kind: str, given: dict[str, Any], filled: dict[str, Any]) -> None:
    assert defaulted(api_version, kind, given) == filled


def test_a_taint_of_a_device_dates_from_now_when_nobody_says_when_now_is() -> None:
    rule = defaulted("resource.k8s.io/v1", "DeviceTaintRule", {"spec": {"taint": {"key": "k"}}}, now="")
    assert rule["spec"]["taint"]["timeAdded"].endswith("Z")
