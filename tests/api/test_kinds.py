from __future__ import annotations

import json
from collections import Counter

import msgspec
import pytest

from moorage.api import kinds
from moorage.api.decode import convert, from_manifest
from moorage.api.kinds import KINDS, Kind
from moorage.api.meta import Data, Object, wire_name
from moorage.api.pod import Toleration
from tests.api.every_field import document

READ = [kind for kind in KINDS if kind.struct is not Object]
"""The kinds that placement depends on; of the others only the metadata is read."""

every_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.kind for kind in KINDS])

CLUSTER_WIDE = {
    "Namespace", "Node", "PersistentVolume", "PriorityClass", "StorageClass", "ResourceSlice", "DeviceClass",
    "DeviceTaintRule", "CSINode", "CSIDriver", "VolumeAttachment", "RuntimeClass",
}  # fmt: skip
IN_NAMESPACES = {
    "Pod", "PersistentVolumeClaim", "Event", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob",
    "PodDisruptionBudget", "Lease", "ResourceClaim", "ResourceClaimTemplate", "ControllerRevision", "Service",
    "CSIStorageCapacity", "ReplicationController", "PodTemplate", "LimitRange", "ResourceQuota",
}  # fmt: skip
SHORT_NAMES = {
    "cj", "cm", "deploy", "ds", "ev", "limits", "no", "ns", "pc", "pdb", "po", "pv", "pvc", "quota", "rc", "rs", "sa",
    "sc", "sts", "svc",
}  # fmt: skip
HOLD_PODS = {
    "Pod", "PodTemplate", "ReplicationController", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job",
    "CronJob",
}  # fmt: skip


def test_the_table_has_every_kind_that_scheduling_reads_in_its_scope() -> None:
    assert {kind.kind for kind in READ if not kind.namespaced} == CLUSTER_WIDE
    assert {kind.kind for kind in READ if kind.namespaced} == IN_NAMESPACES


def test_no_two_kinds_answer_to_one_name() -> None:
    names = Counter(name for kind in KINDS for name in (kind.plural, kind.singular, *kind.short_names))
    # Events are in two groups, as in Kubernetes.
    assert {name for name, count in names.items() if count > 1} == {"events", "event", "ev"}
    assert len({(kind.api_version, kind.kind) for kind in KINDS}) == len(KINDS)
    assert len({kind.struct for kind in READ}) == len(READ)


def test_short_names_are_those_of_kubectl() -> None:
    assert {name for kind in KINDS for name in kind.short_names} == SHORT_NAMES


@every_kind
def test_a_plural_is_the_kind_in_lower_case_and_an_s(kind: Kind) -> None:
    plural = kind.singular + ("es" if kind.kind.endswith("s") else "s")
    assert kind.plural == plural.replace("ys", "ies")


@every_kind
def test_an_empty_object_decodes(kind: Kind) -> None:
    item = convert({}, kind.struct)
    assert isinstance(item, Object)
    assert item == kind.struct()


@every_kind
def test_a_kind_is_found_by_what_its_objects_say(kind: Kind) -> None:
    for version in (kind.version, *kind.older_versions):
        api_version = f"{kind.group}/{version}" if kind.group else version
        assert kinds.find(api_version, kind.kind) is kind
        item = from_manifest({"apiVersion": api_version, "kind": kind.kind, "metadata": {"name": "x"}})
        assert isinstance(item, kind.struct)
        assert kinds.of(item) is kind
        assert item.metadata.name == "x"


@pytest.mark.parametrize(
    ("api_version", "name"),
    [("v1", "Deployment"), ("apps/v1", "Pod"), ("apps/v1beta1", "Deployment"), ("", ""), ("v1", "pods")],
)
def test_what_is_not_in_the_table_is_not_found(api_version: str, name: str) -> None:
    assert kinds.find(api_version, name) is None


def test_api_versions_are_spelled_as_in_manifests() -> None:
    spelled = {kind.kind: kind.api_version for kind in KINDS}
    assert spelled["Pod"] == "v1"
    assert spelled["CronJob"] == "batch/v1"
    assert spelled["DeviceTaintRule"] == "resource.k8s.io/v1"


@every_kind
def test_the_pod_specification_is_where_the_table_says(kind: Kind) -> None:
    item = kind.struct()
    if kind.kind not in HOLD_PODS:
        assert kind.pod_spec == ""
        assert kind.pod_spec_of(item) is None
        return
    steps = (*kind.pod_spec.split("."), "tolerations")
    item = convert(document(steps, [{"key": "mine", "operator": "Exists"}]), kind.struct)
    spec = kind.pod_spec_of(item)
    assert spec is not None
    assert spec.tolerations == (Toleration("mine", "Exists"),)


@every_kind
def test_only_a_kind_with_an_older_version_is_upgraded(kind: Kind) -> None:
    assert bool(kind.older_versions) == (kind.upgrade is not None) == (kind.group == "resource.k8s.io")


SPELLINGS: list[tuple[str, str]] = [
    ("key", "key"),
    ("node_selector_terms", "nodeSelectorTerms"),
    ("match_cel_expressions", "matchCELExpressions"),
    ("pod_cidr", "podCIDR"),
    ("provider_id", "providerID"),
    ("host_ip", "hostIP"),
    ("pod_ips", "podIPs"),
    ("uid", "uid"),
    ("qos_class", "qosClass"),
    ("cel", "cel"),
    ("int_", "int"),
    ("bool_", "bool"),
    ("api_version", "apiVersion"),
]


@pytest.mark.parametrize(("name", "spelled"), SPELLINGS)
def test_a_field_is_spelled_as_in_kubernetes(name: str, spelled: str) -> None:
    assert wire_name(name) == spelled


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("Pod", {"status": {"hostIP": "10.0.0.1", "podIP": "10.0.0.2", "qosClass": "Burstable"}}),
        ("Node", {"spec": {"podCIDR": "10.0.0.0/24", "providerID": "aws:///i-1"}}),
        ("ResourceSlice", {"spec": {"devices": [{"name": "a", "attributes": {"x": {"int": 3}, "y": {"bool": True}}}]}}),
    ],
)
def test_fields_with_odd_spellings_are_read(kind: str, data: Data) -> None:
    struct = next(row.struct for row in KINDS if row.kind == kind)
    assert json.loads(msgspec.json.encode(convert(data, struct))) == data
