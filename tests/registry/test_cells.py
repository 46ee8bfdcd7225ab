"""The cells of a table say of an object what `kubectl get` says of it in a Kubernetes cluster."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.api import kinds
from tests.registry.rows import Item, ago, heads, shown

RUNNING: Item = {"running": {"startedAt": "2026-01-02T11:00:00Z"}}
READY = [{"type": "Ready", "status": "True"}]


def done(code: int = 0, reason: str = "", **more: Any) -> Item:
    return {"terminated": {"exitCode": code, **({"reason": reason} if reason else {}), **more}}


def waiting(reason: str) -> Item:
    return {"waiting": {"reason": reason}}


def container(state: Item, restarts: int = 0, ready: bool = False, **more: Any) -> Item:
    return {"name": more.pop("name", "c"), "state": state, "restartCount": restarts, "ready": ready, **more}


def up(restarts: int = 0, **more: Any) -> Item:
    return container(RUNNING, restarts, ready=True, **more)


def pod(
    *statuses: Item,
    phase: str = "Running",
    init: tuple[Item, ...] = (),
    count: int = 0,
    metadata: Item | None = None,
    sidecars: tuple[str, ...] = (),
    **status: Any,
) -> Item:
    names = [each["name"] for each in init]
    return {
        "metadata": metadata or {},
        "spec": {
            "containers": [{"name": f"c{index}"} for index in range(count or len(statuses))],
            "initContainers": [{"name": n, **({"restartPolicy": "Always"} if n in sidecars else {})} for n in names],
        },
        "status": {
            "phase": phase,
            "containerStatuses": list(statuses),
            "initContainerStatuses": list(init),
            **status,
        },
    }


GONE = {"deletionTimestamp": "2026-01-02T11:59:00Z"}
GATED = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
INITIALIZED = [{"type": "Initialized", "status": "True"}]
LAST = {"lastState": done(1, finishedAt=ago(seconds=10))}
EARLIER = {"lastState": done(1, finishedAt=ago(seconds=40))}


@pytest.mark.parametrize(
    ("item", "ready", "status", "restarts"),
    [
        (pod(phase="Pending", count=2), "0/2", "Pending", "0"),
        (pod(up(6), container(RUNNING)), "1/2", "Running", "6"),
        (pod(up(3, **EARLIER), up(1, **LAST)), "2/2", "Running", "4 (10s ago)"),
        (pod(up(3, **LAST), up(1, **EARLIER)), "2/2", "Running", "4 (10s ago)"),
        (pod(up(0, **LAST)), "1/1", "Running", "0"),
        (pod(up(), container(waiting("CrashLoopBackOff"), 6)), "1/2", "CrashLoopBackOff", "6"),
        (pod(container(waiting("ErrImagePull")), container(waiting("CrashLoopBackOff"))), "0/2", "ErrImagePull", "0"),
        (pod(container({"waiting": {}}), phase="Pending"), "0/1", "Pending", "0"),
        (pod(container(waiting("ContainerCreating")), phase="Pending"), "0/1", "ContainerCreating", "0"),
        (pod(container(done(1))), "0/1", "ExitCode:1", "0"),
        (pod(container(done(137, signal=9))), "0/1", "Signal:9", "0"),
        (pod(container(done(137, "OOMKilled", signal=9))), "0/1", "OOMKilled", "0"),
        (pod(container(done(0, "Completed")), phase="Succeeded"), "0/1", "Completed", "0"),
        (pod(up(), container(done(0, "Completed")), conditions=READY), "1/2", "Running", "0"),
        (pod(container(done(0, "Completed")), up(), conditions=READY), "1/2", "Running", "0"),
        (pod(container(done(0, "Completed")), up()), "1/2", "NotReady", "0"),
        (pod(container(done(0, "Completed")), container(done(1, "Error"))), "0/2", "Error", "0"),
        (pod(container(done(0, "Completed")), container(done(1, "Error")), up()), "1/3", "Error", "0"),
        (pod(phase="Failed", count=1, reason="Evicted"), "0/1", "Evicted", "0"),
        (pod(phase="Pending", count=1, conditions=GATED), "0/1", "SchedulingGated", "0"),
        (pod(up(), metadata=GONE), "1/1", "Terminating", "0"),
        (pod(up(), metadata=GONE, reason="NodeLost"), "1/1", "Unknown", "0"),
        (pod(container(done(0, "Completed")), phase="Succeeded", metadata=GONE), "0/1", "Completed", "0"),
        (pod(phase="Failed", count=1, reason="Shutdown", metadata=GONE), "0/1", "Shutdown", "0"),
    ],
)
def test_pods_say_what_their_containers_are_at(item: Item, ready: str, status: str, restarts: str) -> None:
    cells = shown("v1", "Pod", item)
    assert (cells["READY"], cells["STATUS"], cells["RESTARTS"]) == (ready, status, restarts)


def init(name: str, state: Item, restarts: int = 0, **more: Any) -> Item:
    return container(state, restarts, name=name, **more)


def sidecar(name: str, restarts: int = 0, ready: bool = True, **more: Any) -> Item:
    return init(name, RUNNING, restarts, ready=ready, started=True, **more)


STARTING = container(waiting("PodInitializing"))


@pytest.mark.parametrize(
    ("item", "ready", "status", "restarts"),
    [
        (pod(STARTING, phase="Pending", init=(init("a", RUNNING),)), "0/1", "Init:0/1", "0"),
        (pod(STARTING, phase="Pending", init=(init("a", done()), init("b", RUNNING, 3))), "0/1", "Init:1/2", "3"),
        (pod(STARTING, phase="Pending", init=(init("a", waiting("PodInitializing")),)), "0/1", "Init:0/1", "0"),
        (pod(STARTING, init=(init("a", waiting("CrashLoopBackOff"), 3, **LAST),)), "0/1", "Init:CrashLoopBackOff",
         "3 (10s ago)"),
        (pod(STARTING, init=(init("a", done(2, "Error")),)), "0/1", "Init:Error", "0"),
        (pod(STARTING, init=(init("a", done(2)),)), "0/1", "Init:ExitCode:2", "0"),
        (pod(STARTING, init=(init("a", done(137, signal=9)),)), "0/1", "Init:Signal:9", "0"),
        (pod(up(1), init=(init("a", done(), 4),)), "1/1", "Running", "1"),
        (pod(up(1), init=(init("a", RUNNING, 4),), conditions=INITIALIZED), "1/1", "Init:0/1", "1"),
        (pod(up(1), init=(sidecar("s", 2),), sidecars=("s",)), "2/2", "Running", "3"),
        (pod(up(1), init=(sidecar("s", 2, ready=False, **LAST),), sidecars=("s",)), "1/2", "Running", "3 (10s ago)"),
        (pod(STARTING, phase="Pending", init=(sidecar("s", 1), init("b", RUNNING, 2)), sidecars=("s",)), "1/2",
         "Init:1/2", "3"),
        (pod(STARTING, phase="Pending", init=(init("s", RUNNING, started=False),), sidecars=("s",)), "0/2", "Init:0/1",
         "0"),
    ],
)  # fmt: skip
def test_pods_that_are_being_prepared_say_how_far_they_are(item: Item, ready: str, status: str, restarts: str) -> None:
    cells = shown("v1", "Pod", item)
    assert (cells["READY"], cells["STATUS"], cells["RESTARTS"]) == (ready, status, restarts)


def test_wide_pods_show_where_they_are() -> None:
    gates = [{"conditionType": "a"}, {"conditionType": "b"}, {"conditionType": "c"}]
    conditions = [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}]
    item = pod(up(), podIPs=[{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], nominatedNodeName="n2", conditions=conditions)
    item["spec"] |= {"nodeName": "n1", "readinessGates": gates}
    cells = shown("v1", "Pod", item)
    assert [cells[head] for head in ("IP", "NODE", "NOMINATED NODE", "READINESS GATES")] == [
        "10.0.0.1", "n1", "n2", "1/3",
    ]  # fmt: skip
    cells = shown("v1", "Pod", pod(podIP="10.0.0.9"))
    assert [cells[head] for head in ("IP", "NODE", "NOMINATED NODE", "READINESS GATES")] == [
        "10.0.0.9", "<none>", "<none>", "<none>",
    ]  # fmt: skip


def node(ready: str | None = "True", labels: Item | None = None, **more: Any) -> Item:
    conditions = [{"type": "MemoryPressure", "status": "False"}]
    if ready:
        conditions.append({"type": "Ready", "status": ready})
    info = {"kubeletVersion": "v1.36.0", "osImage": "Linux", "kernelVersion": "6.1", "architecture": "arm64"}
    status = {"conditions": conditions, "nodeInfo": info, "addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]}
    return {"metadata": {"labels": labels or {}}, "spec": more, "status": status}


@pytest.mark.parametrize(
    ("item", "status", "roles"),
    [
        (node(), "Ready", "<none>"),
        (node(unschedulable=True), "Ready,SchedulingDisabled", "<none>"),
        (node("False", unschedulable=True), "NotReady,SchedulingDisabled", "<none>"),
        (node("Unknown"), "NotReady", "<none>"),
        (node(None), "Unknown", "<none>"),
        (node(None, unschedulable=True), "Unknown,SchedulingDisabled", "<none>"),
        (node(labels={"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "control-plane", "x": "y"}), "Ready",
         "control-plane,worker"),
        (node(labels={"node-role.kubernetes.io/": "", "kubernetes.io/role": ""}), "Ready", "<none>"),
    ],
)  # fmt: skip
def test_nodes_say_whether_they_take_pods(item: Item, status: str, roles: str) -> None:
    cells = shown("v1", "Node", item)
    assert (cells["STATUS"], cells["ROLES"], cells["VERSION"]) == (status, roles, "v1.36.0")


def test_wide_nodes_show_what_runs_there() -> None:
    cells = shown("v1", "Node", node())
    assert [cells[head] for head in heads(kinds.row("v1", "Node"))[1].split("|")] == [
        "10.0.0.2", "<none>", "Linux", "6.1 (arm64)", "<unknown>",
    ]  # fmt: skip


TEMPLATE = {
    "spec": {
        "containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:2"}],
        "nodeSelector": {"disk": "ssd", "arch": "arm64"},
    }
}
SELECTOR = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["b", "a"]},
        {"key": "zone", "operator": "NotIn", "values": ["z"]},
        {"key": "old", "operator": "DoesNotExist"},
        {"key": "new", "operator": "Exists"},
    ],
}
SELECTED = "app=web,new,!old,tier in (a,b),zone notin (z)"
WRONG = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
WIDE = {"CONTAINERS": "a,b", "IMAGES": "x:1,y:2", "SELECTOR": SELECTED}
CONTROLLER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": True}


def workload(wanted: int | None, selector: Item | None = SELECTOR, **status: Any) -> Item:
    spec = {"template": TEMPLATE, "selector": selector, **({"replicas": wanted} if wanted is not None else {})}
    return {"spec": spec, "status": status}


@pytest.mark.parametrize(
    ("api_version", "kind", "item", "cells"),
    [
        ("v1", "Namespace", {"status": {"phase": "Active"}}, {"STATUS": "Active"}),
        ("v1", "ConfigMap", {"data": {"a": "", "b": ""}, "binaryData": {"c": ""}}, {"DATA": 3}),
        ("v1", "Secret", {"type": "Opaque", "data": {"a": ""}}, {"TYPE": "Opaque", "DATA": 1}),
        ("v1", "ServiceAccount", {}, {}),
        ("apps/v1", "Deployment", workload(5, readyReplicas=4, updatedReplicas=3, availableReplicas=2),
         {"READY": "4/5", "UP-TO-DATE": 3, "AVAILABLE": 2, **WIDE}),
        ("apps/v1", "Deployment", workload(0, None), {"READY": "0/0", "UP-TO-DATE": 0, "AVAILABLE": 0, "SELECTOR": ""}),
        ("apps/v1", "Deployment", workload(None, WRONG), {"READY": "0/1", "SELECTOR": "<invalid>"}),
        ("apps/v1", "ReplicaSet", workload(5, replicas=4, readyReplicas=3),
         {"DESIRED": 5, "CURRENT": 4, "READY": 3, **WIDE}),
        ("apps/v1", "ReplicaSet", workload(0, {}), {"DESIRED": 0, "CURRENT": 0, "READY": 0, "SELECTOR": "<none>"}),
        ("apps/v1", "ReplicaSet", workload(1, WRONG), {"SELECTOR": "<error>"}),
        ("apps/v1", "StatefulSet", workload(2, readyReplicas=1), {"READY": "1/2", "CONTAINERS": "a,b"}),
        ("apps/v1", "DaemonSet",
         workload(None, desiredNumberScheduled=5, currentNumberScheduled=4, numberReady=3, updatedNumberScheduled=2,
                  numberAvailable=1),
         {"DESIRED": 5, "CURRENT": 4, "READY": 3, "UP-TO-DATE": 2, "AVAILABLE": 1,
          "NODE SELECTOR": "arch=arm64,disk=ssd", **WIDE}),
        ("apps/v1", "ControllerRevision", {"revision": 7, "metadata": {"ownerReferences": [CONTROLLER]}},
         {"CONTROLLER": "statefulset.apps/db", "REVISION": 7}),
        ("apps/v1", "ControllerRevision", {"revision": 1}, {"CONTROLLER": "<none>"}),
        ("batch/v1", "Job", {"spec": {"completions": 3, "template": TEMPLATE, "selector": SELECTOR},
                             "status": {"succeeded": 1, "startTime": ago(minutes=3)}},
         {"STATUS": "Running", "COMPLETIONS": "1/3", "DURATION": "3m", **WIDE}),
        ("batch/v1", "Job", {"spec": {}, "status": {}}, {"COMPLETIONS": "0/1", "DURATION": ""}),
        ("batch/v1", "Job", {"spec": {"parallelism": 4}, "status": {"succeeded": 2}}, {"COMPLETIONS": "2/1 of 4"}),
        ("batch/v1", "Job", {"status": {"startTime": ago(hours=2), "completionTime": ago(hours=1),
                                        "conditions": [{"type": "Complete", "status": "True"}]}},
         {"STATUS": "Complete", "DURATION": "60m"}),
        ("batch/v1", "Job", {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, {"STATUS": "Failed"}),
        ("batch/v1", "Job", {"metadata": GONE, "status": {"conditions": [{"type": "Suspended", "status": "True"}]}},
         {"STATUS": "Terminating"}),
        ("batch/v1", "Job", {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}},
         {"STATUS": "Suspended"}),
        ("batch/v1", "Job", {"status": {"conditions": [{"type": "FailureTarget", "status": "True"}]}},
         {"STATUS": "FailureTarget"}),
        ("batch/v1", "CronJob",
         {"spec": {"schedule": "*/5 * * * *", "timeZone": "Europe/Oslo", "suspend": False,
                   "jobTemplate": {"spec": {"template": TEMPLATE}}},
          "status": {"active": [{}, {}], "lastScheduleTime": ago(minutes=5)}},
         {"SCHEDULE": "*/5 * * * *", "TIMEZONE": "Europe/Oslo", "SUSPEND": "False", "ACTIVE": 2, "LAST SCHEDULE": "5m",
          "CONTAINERS": "a,b", "SELECTOR": "<none>"}),
        ("batch/v1", "CronJob", {"spec": {"suspend": True}}, {"TIMEZONE": "<none>", "SUSPEND": "True",
                                                              "LAST SCHEDULE": "<none>", "ACTIVE": 0}),
        ("batch/v1", "CronJob", {}, {"SUSPEND": "<unset>"}),
        ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": 0}, "status": {"disruptionsAllowed": 5}},
         {"MIN AVAILABLE": "0", "MAX UNAVAILABLE": "N/A", "ALLOWED DISRUPTIONS": 5}),
        ("policy/v1", "PodDisruptionBudget", {"spec": {"maxUnavailable": "25%"}},
         {"MIN AVAILABLE": "N/A", "MAX UNAVAILABLE": "25%", "ALLOWED DISRUPTIONS": 0}),
        ("node.k8s.io/v1", "RuntimeClass", {"handler": "runc"}, {"HANDLER": "runc"}),
        ("v1", "PodTemplate", {"template": {"metadata": {"labels": {"a": "b"}},
                                            "spec": {"containers": [{"name": "c", "image": "i"}]}}},
         {"CONTAINERS": "c", "IMAGES": "i", "POD LABELS": "a=b"}),
        ("v1", "PodTemplate", {}, {"CONTAINERS": "", "IMAGES": "", "POD LABELS": "<none>"}),
        ("v1", "ReplicationController", {"spec": {"selector": {"b": "c", "a": "b"}}, "status": {"replicas": 2}},
         {"DESIRED": 1, "CURRENT": 2, "READY": 0, "SELECTOR": "a=b,b=c"}),
        ("scheduling.k8s.io/v1", "PriorityClass", {"value": 9, "globalDefault": True, "preemptionPolicy": "Never"},
         {"VALUE": 9, "GLOBAL-DEFAULT": True, "PREEMPTIONPOLICY": "Never"}),
        ("coordination.k8s.io/v1", "Lease", {"spec": {"holderIdentity": "me"}}, {"HOLDER": "me"}),
        ("coordination.k8s.io/v1", "Lease", {}, {"HOLDER": ""}),
        ("rbac.authorization.k8s.io/v1", "RoleBinding",
         {"roleRef": {"kind": "ClusterRole", "name": "view"},
          "subjects": [{"kind": "User", "name": "ann"}, {"kind": "User", "name": "bob"},
                       {"kind": "Group", "name": "ops"},
                       {"kind": "ServiceAccount", "name": "ci", "namespace": "build"}]},
         {"ROLE": "ClusterRole/view", "USERS": "ann, bob", "GROUPS": "ops", "SERVICEACCOUNTS": "build/ci"}),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", {}, {"NAME": "it", "CREATED AT": "2026-01-02T07:00:00Z"}),
        ("resource.k8s.io/v1", "ResourceClaim", {}, {"STATE": "pending"}),
        ("resource.k8s.io/v1", "ResourceClaim", {"status": {"allocation": {}}}, {"STATE": "allocated"}),
        ("resource.k8s.io/v1", "ResourceClaim", {"status": {"allocation": {}, "reservedFor": [{}]}},
         {"STATE": "allocated,reserved"}),
        ("resource.k8s.io/v1", "ResourceClaim", {"metadata": GONE}, {"STATE": "deleted"}),
        ("resource.k8s.io/v1", "ResourceClaim", {"metadata": GONE, "status": {"allocation": {}, "reservedFor": [{}]}},
         {"STATE": "deleted,allocated,reserved"}),
        ("resource.k8s.io/v1", "ResourceSlice", {"spec": {"nodeName": "n", "driver": "d", "pool": {"name": "p"}}},
         {"NODE": "n", "DRIVER": "d", "POOL": "p"}),
        ("resource.k8s.io/v1", "DeviceTaintRule",
         {"spec": {"taint": {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": ago(seconds=7)}}},
         {"KEY": "k", "VALUE": "v", "EFFECT": "NoExecute", "TIMEADDED": "7s"}),
        ("storage.k8s.io/v1", "StorageClass", {"provisioner": "p"},
         {"NAME": "it", "PROVISIONER": "p", "RECLAIMPOLICY": "Delete", "VOLUMEBINDINGMODE": "Immediate",
          "ALLOWVOLUMEEXPANSION": False}),
        ("storage.k8s.io/v1", "StorageClass",
         {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p",
          "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": True},
         {"NAME": "it (default)", "RECLAIMPOLICY": "Retain", "VOLUMEBINDINGMODE": "WaitForFirstConsumer",
          "ALLOWVOLUMEEXPANSION": True}),
        ("storage.k8s.io/v1", "CSINode", {"spec": {"drivers": [{}, {}]}}, {"DRIVERS": 2}),
        ("storage.k8s.io/v1", "CSIDriver",
         {"spec": {"tokenRequests": [{"audience": "a"}, {"audience": "b"}], "volumeLifecycleModes": ["Persistent"]}},
         {"ATTACHREQUIRED": True, "PODINFOONMOUNT": False, "STORAGECAPACITY": False, "TOKENREQUESTS": "a,b",
          "REQUIRESREPUBLISH": False, "MODES": "Persistent"}),
        ("storage.k8s.io/v1", "CSIDriver", {"spec": {"attachRequired": False}},
         {"ATTACHREQUIRED": False, "TOKENREQUESTS": "<unset>", "MODES": "<none>"}),
        ("storage.k8s.io/v1", "VolumeAttachment",
         {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
          "status": {"attached": True}}, {"ATTACHER": "a", "PV": "v", "NODE": "n", "ATTACHED": True}),
    ],
)  # fmt: skip
def test_objects_are_shown_as_in_kubernetes(api_version: str, kind: str, item: Item, cells: Item) -> None:
    found = shown(api_version, kind, item)
    assert {head: found[head] for head in cells} == cells
    assert found.get("AGE", "5h") == "5h"


VOLUME = {
    "capacity": {"storage": "1024Mi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadWriteOnce"],
    "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "ns", "name": "data"},
    "storageClassName": "fast", "volumeMode": "Block",
}  # fmt: skip


def test_volumes_and_claims_show_sizes_and_modes_in_short() -> None:
    cells = shown("v1", "PersistentVolume", {"spec": VOLUME, "status": {"phase": "Bound"}})
    assert list(cells.values()) == [
        "it", "1Gi", "RWO,RWX", "Retain", "Bound", "ns/data", "fast", "<unset>", "", "5h", "Block",
    ]  # fmt: skip
    beta = {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}, **GONE}
    cells = shown("v1", "PersistentVolume", {"metadata": beta, "spec": {}, "status": {"phase": "Available"}})
    assert list(cells.values()) == ["it", "0", "", "", "Terminating", "", "old", "<unset>", "", "5h", "<unset>"]

    status = {"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOncePod"]}
    claim = {"spec": {"volumeName": "v", "storageClassName": "fast"}, "status": status}
    cells = shown("v1", "PersistentVolumeClaim", claim)
    assert list(cells.values()) == ["it", "Bound", "v", "2Gi", "RWOP", "fast", "<unset>", "5h", "<unset>"]
    cells = shown("v1", "PersistentVolumeClaim", {"spec": {}, "status": {**status, "phase": "Pending"}})
    assert list(cells.values()) == ["it", "Pending", "", "", "", "", "<unset>", "5h", "<unset>"]


PORTS = [{"port": 80}, {"port": 53, "protocol": "UDP", "nodePort": 30053}]
BALANCED = {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "lb.example.com"}, {"ip": "2.2.2.2"}]}}


@pytest.mark.parametrize(
    ("spec", "status", "cells"),
    [
        ({"clusterIPs": ["10.9.8.7"], "ports": PORTS, "selector": {"app": "web"}}, {},
         ["ClusterIP", "10.9.8.7", "<none>", "80/TCP,53:30053/UDP", "app=web"]),
        ({"type": "NodePort", "clusterIP": "None", "externalIPs": ["1.1.1.1", "1.1.1.2"]}, {},
         ["NodePort", "None", "1.1.1.1,1.1.1.2", "<none>", "<none>"]),
        ({"type": "LoadBalancer"}, {}, ["LoadBalancer", "<none>", "<pending>", "<none>", "<none>"]),
        ({"type": "LoadBalancer", "externalIPs": ["1.1.1.1"]}, BALANCED,
         ["LoadBalancer", "<none>", "2.2.2.2,lb.example.com,1.1.1.1", "<none>", "<none>"]),
        ({"type": "ExternalName", "externalName": "x.example.com"}, {},
         ["ExternalName", "<none>", "x.example.com", "<none>", "<none>"]),
        ({"type": "Strange"}, {}, ["Strange", "<none>", "<unknown>", "<none>", "<none>"]),
    ],
)  # fmt: skip
def test_services_show_where_they_are_reached(spec: Item, status: Item, cells: list[str]) -> None:
    found = shown("v1", "Service", {"spec": spec, "status": status})
    assert [found[head] for head in ("TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "SELECTOR")] == cells


ABOUT = {"kind": "Pod", "name": "web", "fieldPath": "spec.containers{a}"}


@pytest.mark.parametrize(
    ("item", "cells"),
    [
        ({"firstTimestamp": ago(minutes=30), "lastTimestamp": ago(minutes=5, seconds=1), "count": 7, "type": "Warning",
          "reason": "BackOff", "message": " again \n", "involvedObject": ABOUT,
          "source": {"component": "kubelet", "host": "n1"}},
         ["5m1s", "Warning", "BackOff", "pod/web", "spec.containers{a}", "kubelet, n1", "again", "30m", 7, "it"]),
        ({"eventTime": "2026-01-02T11:59:50.123456Z", "involvedObject": {"kind": "Node"},
          "reportingComponent": "sched"},
         ["9s", "", "", "node", "", "sched", "", "9s", 1, "it"]),
        ({"eventTime": ago(minutes=9), "series": {"count": 5, "lastObservedTime": ago(seconds=3)},
          "reportingInstance": "i"},
         ["3s", "", "", "", "", ", i", "", "9m", 5, "it"]),
        ({}, ["<unknown>", "", "", "", "", "", "", "<unknown>", 1, "it"]),
    ],
)  # fmt: skip
def test_events_show_when_and_about_what(item: Item, cells: list[Any]) -> None:
    assert list(shown("v1", "Event", item).values()) == cells


def test_both_spellings_of_events_show_the_same() -> None:
    core = {"involvedObject": ABOUT, "message": "m", "firstTimestamp": ago(minutes=9), "lastTimestamp": ago(minutes=3),
            "count": 2, "source": {"component": "c"}, "reportingComponent": "r"}  # fmt: skip
    newer = {"regarding": ABOUT, "note": "m", "deprecatedFirstTimestamp": ago(minutes=9),
             "deprecatedLastTimestamp": ago(minutes=3), "deprecatedCount": 2, "deprecatedSource": {"component": "c"},
             "reportingController": "r"}  # fmt: skip
    assert shown("v1", "Event", core) == shown("events.k8s.io/v1", "Event", newer)
