from __future__ import annotations

import copy
from typing import Any

import pytest

from moorage.api import kinds
from moorage.registry.table import strategy_of
from tests.registry.ruled import Changed, New, made, said_of, said_of_change
from tests.registry.wordings import IMMUTABLE, SUBDOMAIN

CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME_SPEC = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}}
CSI_SPEC: dict[str, Any] = {
    "accessModes": ["ReadWriteOnce"],
    "capacity": {"storage": "1Gi"},
    "csi": {"driver": "d", "volumeHandle": "h"},
}
ATTACHED = {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}
CLASS = {"provisioner": "example.com/disks"}
NEW: list[New] = [
    ("v1", "PersistentVolumeClaim", {"spec": CLAIM_SPEC}, []),
    ("v1", "PersistentVolumeClaim", {}, [
        "spec.accessModes: Required value: at least 1 access mode is required",
        "spec.resources[storage]: Required value"]),
    ("v1", "PersistentVolumeClaim", {"spec": {**CLAIM_SPEC, "accessModes": ["ReadWriteOncePod", "Sometimes",
                                                                            "ReadOnlyMany"]}}, [
        'spec.accessModes: Unsupported value: "Sometimes": supported values: "ReadOnlyMany", "ReadWriteMany", '
        '"ReadWriteOnce", "ReadWriteOncePod"',
        "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"]),
    ("v1", "PersistentVolumeClaim", {"spec": {**CLAIM_SPEC, "resources": {"requests": {"storage": "0"}}}}, [
        'spec.resources[storage]: Invalid value: "0": must be greater than zero']),
    ("v1", "PersistentVolume", {"spec": VOLUME_SPEC}, []),
    ("v1", "PersistentVolume", {}, [
        "spec.accessModes: Required value",
        "spec.capacity: Required value",
        'spec.capacity: Unsupported value: {}: supported values: "storage"',
        "spec: Required value: must specify a volume type"]),
    ("v1", "PersistentVolume", {"spec": {**VOLUME_SPEC, "nfs": {}, "persistentVolumeReclaimPolicy": "Burn"}}, [
        'spec.persistentVolumeReclaimPolicy: Unsupported value: "Burn": supported values: "Delete", "Recycle", '
        '"Retain"',
        "spec.nfs: Forbidden: may not specify more than 1 volume type"]),
    ("v1", "PersistentVolume", {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"},
                                         "local": {"path": "/d"}}}, [
        "spec.nodeAffinity: Required value: Local volume requires node affinity"]),
    ("storage.k8s.io/v1", "StorageClass", CLASS, []),
    ("storage.k8s.io/v1", "StorageClass", {"reclaimPolicy": "Recycle", "volumeBindingMode": "Late"}, [
        "provisioner: Required value",
        'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"',
        'volumeBindingMode: Unsupported value: "Late": supported values: "Immediate", "WaitForFirstConsumer"']),
    ("storage.k8s.io/v1", "VolumeAttachment", {"spec": {"attacher": "a", "nodeName": "n", "source": {}}}, [
        "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"]),
    ("storage.k8s.io/v1", "CSIDriver", {"spec": {"fsGroupPolicy": "Maybe", "volumeLifecycleModes": ["Eternal"]}}, [
        'spec.fsGroupPolicy: Unsupported value: "Maybe": supported values: "File", "None", "ReadWriteOnceWithFSType"',
        'spec.volumeLifecycleModes: Unsupported value: "Eternal": supported values: "Persistent", "Ephemeral"']),
    ("storage.k8s.io/v1", "CSINode", {"spec": {"drivers": [{"name": "d", "nodeID": "n"}, {"name": "d"}]}}, [
        "spec.drivers[1].nodeID: Required value",
        'spec.drivers[1].name: Duplicate value: "d"']),
    ("storage.k8s.io/v1", "StorageClass", {**CLASS, "allowedTopologies": [
        {"matchLabelExpressions": [{"key": "a"}, {"key": "a", "values": ["b", "b"]}]}]}, [
        "allowedTopologies[0].matchLabelExpressions[0].values: Required value",
        'allowedTopologies[0].matchLabelExpressions[1].values[1]: Duplicate value: "b"',
        'allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "a"']),
    ("storage.k8s.io/v1", "CSIDriver", {"spec": {"tokenRequests": [{"expirationSeconds": 1}, {}]}}, [
        "spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
        'spec.tokenRequests[1].audience: Duplicate value: ""']),
    ("storage.k8s.io/v1", "VolumeAttachment", {"spec": {"attacher": "a", "nodeName": "n", "source": {
        "inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"], "nfs": {"server": "s", "path": "/"}}}}}, [
        "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes"]),
    ("storage.k8s.io/v1", "CSIStorageCapacity", {"storageClassName": "a", "capacity": "-1"}, [
        'capacity: Invalid value: "-1": must be greater than or equal to 0']),
    ("v1", "PersistentVolume", {"spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}, "csi": {}, "volumeMode": "Tape",
        "storageClassName": "A"}}, [
        "spec.csi.driver: Required value",
        "spec.csi.volumeHandle: Required value",
        f'spec.storageClassName: Invalid value: "A": {SUBDOMAIN}',
        'spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"']),
    ("v1", "PersistentVolume", {"spec": {**VOLUME_SPEC, "hostPath": {"path": "/"},
                                         "persistentVolumeReclaimPolicy": "Recycle"}}, [
        "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"]),
    ("storage.k8s.io/v1", "StorageClass", {**CLASS, "parameters": {"": "x"}}, [
        'parameters: Invalid value: "": field can not be empty.']),
    ("storage.k8s.io/v1", "StorageClass", {**CLASS, "parameters": {str(number): "" for number in range(513)}}, [
        "parameters: Too long: may not be more than 512 bytes"]),
    ("storage.k8s.io/v1", "StorageClass", {**CLASS, "parameters": {"a": "x" * 2**18}}, [
        "parameters: Too long: may not be more than 262144 bytes"]),
    ("storage.k8s.io/v1", "VolumeAttachment", {"spec": {"attacher": "a", "nodeName": "n", "source": {
        "persistentVolumeName": "p", "inlineVolumeSpec": {}}}}, [
        "spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName"]),
    ("storage.k8s.io/v1", "VolumeAttachment", {"spec": {"attacher": "a", "nodeName": "n", "source": {
        "persistentVolumeName": ""}}}, [
        "spec.source.persistentVolumeName: Required value: must specify non empty persistentVolumeName",
        f'spec.source.persistentVolumeName: Invalid value: "": {SUBDOMAIN}']),
]  # fmt: skip


@pytest.mark.parametrize("new", NEW)
def test_a_wrong_object_is_refused_with_the_right_message(new: New) -> None:
    assert said_of(new) == new[-1]


CHANGED: list[Changed] = [
    ("v1", "PersistentVolumeClaim", {"spec": CLAIM_SPEC}, {"spec": {**CLAIM_SPEC, "volumeName": "v"}}, []),
    ("v1", "PersistentVolumeClaim", {"spec": CLAIM_SPEC}, {"spec": {**CLAIM_SPEC, "storageClassName": "fast"}}, []),
    ("v1", "PersistentVolumeClaim", {"spec": {**CLAIM_SPEC, "storageClassName": "slow"}},
     {"spec": {**CLAIM_SPEC, "storageClassName": "fast"}}, [
         "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName "
         'for bound claims\n- spec.storageClassName: "slow"\n+ spec.storageClassName: "fast"']),
    ("v1", "PersistentVolume", {"spec": VOLUME_SPEC}, {"spec": {**VOLUME_SPEC, "hostPath": {"path": "/b"}}}, [
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n"
        '- spec.hostPath.path: "/a"\n+ spec.hostPath.path: "/b"']),
    ("v1", "PersistentVolume", {"spec": VOLUME_SPEC}, {"spec": {**VOLUME_SPEC, "capacity": {"storage": "2Gi"}}}, []),
    ("storage.k8s.io/v1", "StorageClass", CLASS, {"provisioner": "other", "parameters": {"a": "b"}}, [
        f'parameters: Invalid value: {{"a":"b"}}: {IMMUTABLE}',
        f'provisioner: Invalid value: "other": {IMMUTABLE}']),
    ("v1", "PersistentVolume", {"spec": {**CSI_SPEC, "volumeAttributesClassName": "a"}},
     {"spec": {**CSI_SPEC, "csi": {**CSI_SPEC["csi"], "controllerExpandSecretRef": {"name": "s", "namespace": "n"}}}}, [
         "spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden"]),
    ("storage.k8s.io/v1", "CSIDriver", {"spec": {}}, {"spec": {"attachRequired": False, "volumeLifecycleModes": [
        "Ephemeral"]}}, [
        f"spec.attachedRequired: Invalid value: false: {IMMUTABLE}",
        f'spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: {IMMUTABLE}']),
    ("storage.k8s.io/v1", "VolumeAttachment", {"spec": ATTACHED}, {"spec": {**ATTACHED, "nodeName": "m"}}, [
        'spec: Invalid value: {"attacher":"a","nodeName":"m","source":{"persistentVolumeName":"p"}}: '
        f"{IMMUTABLE}"]),
    ("storage.k8s.io/v1", "CSIStorageCapacity", {"storageClassName": "a"}, {"storageClassName": "b"}, [
        f'storageClassName: Invalid value: "b": {IMMUTABLE}']),
]  # fmt: skip


@pytest.mark.parametrize("changed", CHANGED)
def test_what_may_not_change_is_refused(changed: Changed) -> None:
    assert said_of_change(changed) == changed[-1]


def test_a_bound_claim_may_grow_but_not_shrink_below_what_it_has() -> None:
    kind = kinds.row("v1", "PersistentVolumeClaim")
    old = made("v1", "PersistentVolumeClaim", spec={**CLAIM_SPEC, "resources": {"requests": {"storage": "5Gi"}}})
    old["status"] = {"phase": "Bound", "capacity": {"storage": "3Gi"}}

    def resized(size: str) -> list[str]:
        new = copy.deepcopy(old)
        new["spec"]["resources"]["requests"]["storage"] = size
        return [str(error) for error in strategy_of(kind).errors(new, old)]

    assert resized("9Gi") == []
    assert resized("4Gi") == []
    assert resized("2Gi") == ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]
