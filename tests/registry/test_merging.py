from __future__ import annotations

from collections.abc import Iterator

import pytest

from moorage.api import kinds
from moorage.registry.merging import OBJECT, PLAIN, MergeShape
from moorage.registry.table import shape_of

TEMPLATE = "spec.template.spec"
CRON = "spec.jobTemplate.spec.template.spec"

KEYS: list[tuple[str, str, str, str]] = [
    ("", "Pod", "spec.containers", "name"),
    ("", "Pod", "spec.initContainers", "name"),
    ("", "Pod", "spec.ephemeralContainers", "name"),
    ("", "Pod", "spec.containers.env", "name"),
    ("", "Pod", "spec.containers.ports", "containerPort protocol"),
    ("", "Pod", "spec.containers.volumeMounts", "mountPath"),
    ("", "Pod", "spec.containers.volumeDevices", "devicePath"),
    ("", "Pod", "spec.containers.envFrom", ""),
    ("", "Pod", "spec.containers.args", ""),
    ("", "Pod", "spec.tolerations", ""),
    ("", "Pod", "spec.volumes", "name"),
    ("", "Pod", "spec.hostAliases", "ip"),
    ("", "Pod", "spec.topologySpreadConstraints", "topologyKey whenUnsatisfiable"),
    ("", "Pod", "status.conditions", "type"),
    ("", "Pod", "status.podIPs", "ip"),
    ("", "Pod", "status.hostIPs", ""),
    ("", "Node", "spec.taints", ""),
    ("", "Node", "status.addresses", "type"),
    ("", "Service", "spec.ports", "port protocol"),
    ("", "ServiceAccount", "secrets", "name"),
    ("", "ServiceAccount", "imagePullSecrets", ""),
    ("", "ConfigMap", "metadata.ownerReferences", "uid"),
    ("apps", "Deployment", f"{TEMPLATE}.containers.ports", "containerPort protocol"),
    ("apps", "StatefulSet", "spec.volumeClaimTemplates", ""),
    ("batch", "CronJob", f"{CRON}.containers", "name"),
    ("batch", "Job", "status.conditions", ""),
    ("rbac.authorization.k8s.io", "Role", "rules", ""),
    ("rbac.authorization.k8s.io", "RoleBinding", "subjects", ""),
    ("resource.k8s.io", "ResourceClaim", "status.reservedFor", "uid"),
    ("resource.k8s.io", "ResourceClaim", "status.devices", "device driver pool shareID"),
    ("resource.k8s.io", "ResourceSlice", "spec.devices", ""),
]
MERGE_KEYS = {
    ("Pod", "spec.containers.ports"): "containerPort",
    ("Pod", "spec.topologySpreadConstraints"): "topologyKey",
    ("Pod", "status.hostIPs"): "ip",
    ("Deployment", f"{TEMPLATE}.containers.ports"): "containerPort",
    ("Service", "spec.ports"): "port",
    ("Job", "status.conditions"): "type",
    ("ResourceClaim", "status.devices"): "",
}
ATOMIC = [
    ("", "Pod", "spec.nodeSelector"),
    ("", "Pod", "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"),
    ("", "Service", "spec.selector"),
    ("apps", "Deployment", "spec.selector"),
    ("", "PersistentVolume", "spec.nodeAffinity.required"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", "roleRef"),
]


def at(group: str, kind: str, path: str) -> MergeShape:
    shape = shape_of(group, kind)
    for name in path.split("."):
        shape = shape.fields.get(name, PLAIN)
    return shape


@pytest.mark.parametrize(("group", "kind", "path", "keys"), KEYS)
def test_the_keys_of_lists(group: str, kind: str, path: str, keys: str) -> None:
    shape = at(group, kind, path)
    assert " ".join(shape.keys) == keys
    assert shape.merge_key == MERGE_KEYS.get((kind, path), keys)


@pytest.mark.parametrize(("group", "kind", "path"), ATOMIC)
def test_maps_that_are_one_value(group: str, kind: str, path: str) -> None:
    assert at(group, kind, path).atomic


def test_finalizers_are_a_set() -> None:
    assert OBJECT.fields["metadata"].fields["finalizers"].is_set


def every_shape(shape: MergeShape, path: str = "") -> Iterator[tuple[str, MergeShape]]:
    yield path, shape
    for name, inner in shape.fields.items():
        yield from every_shape(inner, f"{path}.{name}")


@pytest.mark.parametrize("row", kinds.KINDS, ids=lambda row: f"{row.group}/{row.kind}")
def test_every_shape_makes_sense(row: kinds.Kind) -> None:
    for path, shape in every_shape(shape_of(row.group, row.kind)):
        assert shape.associative == bool(shape.keys or shape.is_set), path
        assert not (shape.keys and shape.is_set), path
        assert not (shape.associative and shape.atomic), path
        assert shape.defaults.keys() <= set(shape.keys), path
        assert not shape.merge_key or shape.merges, path
        assert shape.keys == tuple(sorted(shape.keys)), path
        assert not (shape.merge_key and shape.keys) or shape.merge_key in shape.keys, path
