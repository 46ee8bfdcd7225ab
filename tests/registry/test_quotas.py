"""ResourceQuotas: what is wrong with them, what objects use of them, and what they refuse, in Kubernetes' words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from moorage.api import kinds
from moorage.api.decode import convert
from moorage.api.quota import ResourceQuota
from moorage.registry.quotas import ObjectWrite, charge, measure, names_of
from moorage.registry.state import Denied
from moorage.registry.table import strategy_of
from tests.registry.ruled import changes, made, said

Data = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
EXISTS = {"scopeName": "PriorityClass", "operator": "Exists"}


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ({"hard": {"pods": "1", "count/things.example.com": "2", "requests.example.com/gpu": "1"}}, []),
        ({"hard": {"hugepages-2Mi": "1", "requests.hugepages-2Mi": "1", "requests.storage": "1Gi"}}, []),
        ({"hard": {"pods": "-1"}}, ['spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0']),
        ({"hard": {"services": "1.5"}}, ['spec.hard[services]: Invalid value: "1500m": must be an integer']),
        ({"hard": {"storage": "1"}}, [
            'spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota']),
        ({"hard": {"things": "1"}}, [
            'spec.hard[things]: Invalid value: "things": must be a standard resource type or fully qualified',
            'spec.hard[things]: Invalid value: "things": must be a standard resource for quota']),
        ({"hard": {"pods": "1"}, "scopes": ["Sometimes"]}, [
            'spec.scopes: Invalid value: ["Sometimes"]: unsupported scope']),
        ({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}, [
            'spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource']),
        ({"hard": {"pods": "1"}, "scopes": ["Terminating", "NotTerminating"]}, [
            'spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes']),
        ({"hard": {"secrets": "1"}, "scopeSelector": {"matchExpressions": [EXISTS]}}, [
            'spec.scopeSelector.matchExpressions: Invalid value: {"MatchExpressions":[{"ScopeName":"PriorityClass",'
            '"Operator":"Exists","Values":null}]}: unsupported scope applied to resource']),
        ({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}}, [
            "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is "
            "'In' or 'NotIn' for scope selector"]),
        ({"scopeSelector": {"matchExpressions": [{**EXISTS, "values": ["a"]}]}}, [
            'spec.scopeSelector.matchExpressions.values: Invalid value: ["a"]: must be no value when `operator` is '
            "'Exist' or 'DoesNotExist' for scope selector"]),
        ({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Like"}]}}, [
            'spec.scopeSelector.matchExpressions.operator: Invalid value: "Like": not a valid selector operator']),
    ],
)  # fmt: skip
def test_a_quota_must_make_sense(spec: Data, problems: list[str]) -> None:
    assert said("v1", "ResourceQuota", spec=spec) == problems


def test_the_scopes_of_a_quota_stay() -> None:
    before, after = ({"spec": {"hard": {"pods": "1"}, "scopes": scopes}} for scopes in (["BestEffort"], []))
    assert changes("v1", "ResourceQuota", before, after) == ["spec.scopes: Invalid value: []: field is immutable"]


def quota(hard: Data, used: Data | None = None, **spec: Any) -> ResourceQuota:
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") | (used or {})}
    return convert({"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}, "status": status}, ResourceQuota)


def write(kind: str, new: Data, old: Data | None = None, subresource: str = "", api_version: str = "v1") -> ObjectWrite:
    row = kinds.row(api_version, kind)
    before = None if old is None else convert(made(api_version, kind, **old), row.struct)
    return ObjectWrite(strategy_of(row), convert(made(api_version, kind, **new), row.struct), before, subresource, NOW)


def used(written: ObjectWrite, *hard: str, **spec: Any) -> Data:
    """What an object uses of an empty quota that limits these resources and is large enough."""
    (amounts,) = charge(written, [quota(dict.fromkeys(hard, "1Ti"), **spec)])
    return amounts or {}


def refusal(written: ObjectWrite, of: ResourceQuota) -> str:
    with pytest.raises(Denied) as refused:
        charge(written, [of])
    return str(refused.value)


def pod(*containers: Data, **spec: Any) -> Data:
    whole = [{"name": f"c{number}", "image": "web", "resources": each} for number, each in enumerate(containers)]
    return {"spec": {"containers": whole, **spec}}


SMALL = {"requests": {"cpu": "100m", "memory": "1Mi"}, "limits": {"cpu": "200m", "memory": "2Mi"}}
COMPUTE = ("pods", "count/pods", "cpu", "requests.memory", "limits.cpu", "limits.memory")


def test_a_pod_uses_what_its_containers_ask_for() -> None:
    assert used(write("Pod", pod(SMALL, SMALL)), *COMPUTE) == {
        "pods": "1", "count/pods": "1", "cpu": "200m", "requests.memory": "2Mi", "limits.cpu": "400m",
        "limits.memory": "4Mi",
    }  # fmt: skip
    assert used(write("Pod", pod(SMALL, resources={"requests": {"cpu": "3"}})), "cpu") == {"cpu": "3"}


def test_an_init_container_counts_when_it_needs_more_than_the_others_together() -> None:
    first = {"name": "first", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}
    assert used(write("Pod", pod(SMALL, SMALL, initContainers=[first])), "requests.cpu") == {"requests.cpu": "1"}


def test_extended_resources_and_huge_pages_are_counted_by_their_requests() -> None:
    amounts = {"example.com/gpu": "2", "hugepages-2Mi": "4Mi", "cpu": "1"}
    names = ("requests.example.com/gpu", "hugepages-2Mi", "requests.hugepages-2Mi")
    assert used(write("Pod", pod({"limits": amounts})), *names) == {
        "requests.example.com/gpu": "2", "hugepages-2Mi": "4Mi", "requests.hugepages-2Mi": "4Mi",
    }  # fmt: skip


def test_every_container_says_how_much_it_needs_of_what_is_limited() -> None:
    init = [{"name": "i", "image": "web"}]
    written = write("Pod", pod(SMALL, {"requests": {"cpu": "1"}}, initContainers=init))
    words = refusal(written, quota({"limits.cpu": "9", "requests.cpu": "9", "pods": "9"}))
    assert words == "failed quota: q: must specify limits.cpu for: c1,i; requests.cpu for: i"


def test_what_exceeds_a_quota_is_refused_with_the_numbers() -> None:
    hard, present = {"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi"}, {"pods": "2", "requests.cpu": "950m"}
    assert refusal(write("Pod", pod(SMALL)), quota(hard, present)) == (
        "exceeded quota: q, requested: pods=1,requests.cpu=100m, used: pods=2,requests.cpu=950m, "
        "limited: pods=2,requests.cpu=1"
    )


def test_a_quota_whose_usage_is_not_known_yet_refuses() -> None:
    unknown = convert({"metadata": {"name": "q"}, "status": {"hard": {"pods": "2", "services": "1"}}}, ResourceQuota)
    assert refusal(write("Pod", pod()), unknown) == "status unknown for quota: q, resources: pods"


def test_a_quota_that_does_not_count_the_kind_is_not_charged() -> None:
    assert charge(write("Pod", pod()), [quota({"services": "0"}), quota({"pods": "1"})]) == [None, {"pods": "1"}]


TERMINATING, EFFORT = {"activeDeadlineSeconds": 5}, {"requests": {"cpu": "1"}}
ELSEWHERE = {"topologyKey": "zone", "namespaces": ["other"], "labelSelector": {}}


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ("Terminating", pod(**TERMINATING), pod()),
        ("NotTerminating", pod(), pod(**TERMINATING)),
        ("BestEffort", pod({}), pod(EFFORT)),
        ("NotBestEffort", pod(EFFORT), pod({})),
        ("PriorityClass", pod(priorityClassName="system-node-critical"), pod()),
        (
            "CrossNamespacePodAffinity",
            pod(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [ELSEWHERE]}}),
            pod(),
        ),
        ("VolumeAttributesClass", None, pod()),
    ],
)
def test_a_quota_counts_the_pods_in_its_scope(scope: str, inside: Data | None, outside: Data) -> None:
    assert used(write("Pod", outside), "pods", scopes=[scope]) == {}
    if inside is not None:
        assert used(write("Pod", inside), "pods", scopes=[scope]) == {"pods": "1"}


@pytest.mark.parametrize(
    ("operator", "values", "counted"),
    [
        ("In", ["system-node-critical"], (True, False)),
        ("NotIn", ["system-node-critical"], (False, True)),
        ("In", ["other"], (False, False)),
        ("Exists", [], (True, False)),
        ("DoesNotExist", [], (False, True)),
    ],
)
def test_a_quota_counts_the_pods_of_priority_classes(
    operator: str, values: list[str], counted: tuple[bool, bool]
) -> None:
    condition = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    pods = (pod(priorityClassName="system-node-critical"), pod())
    selector = {"matchExpressions": [condition]}
    assert tuple(bool(used(write("Pod", each), "pods", scopeSelector=selector)) for each in pods) == counted


def test_an_update_is_charged_what_it_adds() -> None:
    small, large = pod({"requests": {"cpu": "1"}}), pod({"requests": {"cpu": "3"}})
    hard = {"requests.cpu": "4", "pods": "1"}
    grown = write("Pod", large, small, "resize")
    assert charge(grown, [quota(hard, {"requests.cpu": "1", "pods": "1"})]) == [{"requests.cpu": "3", "pods": "1"}]
    assert "requested: requests.cpu=2, used: requests.cpu=3" in refusal(grown, quota(hard, {"requests.cpu": "3"}))
    assert charge(write("Pod", small, large, "resize"), [quota(hard, {"requests.cpu": "3"})]) == [None]


def test_a_label_can_be_changed_where_a_new_pod_would_be_refused() -> None:
    full = quota({"pods": "0", "limits.cpu": "0"})
    assert charge(write("Pod", pod({}), pod({})), [full]) == [None]


def test_a_pod_that_comes_into_a_scope_is_charged_whole() -> None:
    ends = write("Pod", pod(**TERMINATING), pod())
    assert used(ends, "pods", scopes=["Terminating"]) == {"pods": "1"}
    assert used(ends, "pods") == {}


@pytest.mark.parametrize(
    ("spec", "ports", "balancers"),
    [
        ({"type": "ClusterIP"}, "0", "0"),
        ({"type": "NodePort"}, "2", "0"),
        ({"type": "LoadBalancer"}, "2", "1"),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, "0", "1"),
    ],
)
def test_services_use_node_ports_and_load_balancers(spec: Data, ports: str, balancers: str) -> None:
    listed = [{"port": 1, "name": "a"}, {"port": 2, "name": "b"}]
    names = ("services", "services.nodeports", "services.loadbalancers")
    amounts = used(write("Service", {"spec": {**spec, "ports": listed}}), *names)
    assert amounts == dict(zip(names, ("1", ports, balancers), strict=True))


def claim(size: str, **spec: Any) -> Data:
    return {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}}


def test_claims_use_storage_in_all_and_of_their_class() -> None:
    gold = "gold.storageclass.storage.k8s.io/"
    names = ("persistentvolumeclaims", "requests.storage", f"{gold}requests.storage", f"{gold}persistentvolumeclaims")
    golden = used(write("PersistentVolumeClaim", claim("1Gi", storageClassName="gold")), *names)
    assert golden == dict(zip(names, ("1", "1Gi", "1Gi", "1"), strict=True))
    plain = used(write("PersistentVolumeClaim", claim("1Gi")), *names)
    assert plain == dict(zip(names, ("1", "1Gi", "0", "0"), strict=True))
    attributes = claim("1Gi", volumeAttributesClassName="fast")
    scoped = used(write("PersistentVolumeClaim", attributes), *names[:1], scopes=["VolumeAttributesClass"])
    assert scoped == {names[0]: "1"}


def test_device_claims_use_devices_of_each_class_at_most() -> None:
    ways = [
        {"name": "two", "deviceClassName": "a", "allocationMode": "ExactCount", "count": 2},
        {"name": "one", "deviceClassName": "b", "allocationMode": "ExactCount", "count": 1},
        {"name": "three", "deviceClassName": "a", "allocationMode": "ExactCount", "count": 3},
    ]
    requests = [
        {"name": "r", "firstAvailable": ways},
        {"name": "s", "exactly": {"deviceClassName": "b", "allocationMode": "All"}},
    ]
    written = write("ResourceClaim", {"spec": {"devices": {"requests": requests}}}, api_version="resource.k8s.io/v1")
    names = ("a.deviceclass.resource.k8s.io/devices", "b.deviceclass.resource.k8s.io/devices")
    assert used(written, *names, "count/resourceclaims.resource.k8s.io") == {
        names[0]: "3", names[1]: "33", "count/resourceclaims.resource.k8s.io": "1",
    }  # fmt: skip


def test_every_kind_in_a_namespace_can_be_counted_but_events() -> None:
    counts = {f"count/{kind.resource}" for kind in kinds.KINDS}
    counted = {kind.resource for kind in kinds.KINDS if names_of(strategy_of(kind), counts)}
    uncounted = {kind.resource for kind in kinds.KINDS if kind.namespaced} - counted
    assert (uncounted, "nodes" in counted) == ({"events", "events.events.k8s.io"}, False)
    old_names = {name for kind in kinds.KINDS for name in names_of(strategy_of(kind), ("secrets", "configmaps"))}
    assert old_names == {"secrets", "configmaps"}


def test_what_is_used_is_the_sum_of_what_is_there() -> None:
    strategy = strategy_of(kinds.row("v1", "Pod"))
    live = [convert(made("v1", "Pod", **pod(SMALL)), strategy.kind.struct) for _ in range(3)]
    over, late = (made("v1", "Pod", **pod(SMALL)) for _ in range(2))
    over["status"]["phase"] = "Succeeded"
    late["metadata"] |= {"deletionTimestamp": "2025-12-31T23:00:00Z", "deletionGracePeriodSeconds": 30}
    gone = [convert(each, strategy.kind.struct) for each in (over, late)]
    of = quota({"pods": "9", "count/pods": "9", "cpu": "9", "count/widgets.example.com": "1", "services": "1"},
               {"count/widgets.example.com": "1", "secrets": "7"})  # fmt: skip
    assert measure(of, [(strategy, [*live, *gone])], NOW) == {
        "pods": "3", "count/pods": "5", "cpu": "300m", "count/widgets.example.com": "1", "services": "0",
    }  # fmt: skip
