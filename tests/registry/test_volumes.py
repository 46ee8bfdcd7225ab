from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.registry.pods import a_pod, said


def test_a_mount_needs_a_volume_that_is_there_and_right() -> None:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/x"}, {"name": "v", "mountPath": "/x"}]}
    assert said(a_pod(copy.deepcopy(mount), volumes=[{"name": "v"}])) == [
        'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/x": must be unique'
    ]
    assert said(a_pod({"volumeMounts": mount["volumeMounts"][:1]}, volumes=[{"name": "v", "hostPath": {}}])) == [
        "spec.volumes[0].hostPath.path: Required value",
        'spec.containers[0].volumeMounts[0].name: Not found: "v"',
    ]


VOLUME_ERRORS = [
    ({"nfs": {"path": "x"}}, [
        "spec.volumes[0].nfs.server: Required value",
        'spec.volumes[0].nfs.path: Invalid value: "x": must be an absolute path']),
    ({"csi": {}}, ["spec.volumes[0].csi.driver: Required value"]),
    ({"csi": {"driver": "d" * 64}}, ["spec.volumes[0].csi.driver: Too long: may not be more than 63 bytes"]),
    ({"emptyDir": {"sizeLimit": "-1"}}, [
        "spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"]),
    ({"hostPath": {"path": "/a", "type": "Hole"}}, [
        'spec.volumes[0].hostPath.type: Unsupported value: "Hole": supported values: "", "BlockDevice", "CharDevice", '
        '"Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"']),
    ({"secret": {"defaultMode": 512, "items": [{"key": "k", "path": "/a"}, {"key": "k", "path": "..a"}]}}, [
        "spec.volumes[0].secret.secretName: Required value",
        "spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both "
        "inclusive",
        'spec.volumes[0].secret.items[0].path: Invalid value: "/a": must be a relative path',
        "spec.volumes[0].secret.items[1].path: Invalid value: \"..a\": must not start with '..'"]),
    ({"downwardAPI": {"items": [
        {"path": "a"}, {"path": "b", "fieldRef": {"fieldPath": "spec.x"}, "resourceFieldRef": {}},
        {"fieldRef": {}}]}}, [
        "spec.volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
        'spec.volumes[0].downwardAPI.fieldRef.fieldPath: Invalid value: "spec.x": error converting fieldPath: field '
        "label not supported: spec.x",
        'spec.volumes[0].downwardAPI: Invalid value: "resource": fieldRef and resourceFieldRef can not be specified '
        "simultaneously",
        "spec.volumes[0].downwardAPI.path: Required value",
        "spec.volumes[0].downwardAPI.fieldRef.fieldPath: Required value"]),
    ({"projected": {"sources": [
        {"secret": {}, "configMap": {"name": "c"}}, {"serviceAccountToken": {"path": "t", "expirationSeconds": 5}},
        {"serviceAccountToken": {"expirationSeconds": 2**33}}]}}, [
        "spec.volumes[0].projected.sources[0].secret.name: Required value",
        "spec.volumes[0].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source",
        "spec.volumes[0].projected.sources[1].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify "
        "a duration less than 10 minutes",
        "spec.volumes[0].projected.sources[2].serviceAccountToken.expirationSeconds: Invalid value: 8589934592: may "
        "not specify a duration larger than 2^32 seconds",
        "spec.volumes[0].projected.path: Required value"]),
    ({"ephemeral": {"volumeClaimTemplate": {"spec": {"volumeMode": "Tape", "storageClassName": "A",
                                                     "dataSource": {"kind": "Tape"}}}}}, [
        "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 access mode is "
        "required",
        "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
        'spec.volumes[0].ephemeral.volumeClaimTemplate.spec.storageClassName: Invalid value: "A": a lowercase RFC 1123 '
        "subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
        "alphanumeric character (e.g. 'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        'spec.volumes[0].ephemeral.volumeClaimTemplate.spec.volumeMode: Unsupported value: "Tape": supported values: '
        '"Block", "Filesystem"',
        "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.dataSource.name: Required value",
        'spec.volumes[0].ephemeral.volumeClaimTemplate.spec.dataSource: Invalid value: "Tape": must be '
        "'PersistentVolumeClaim' when referencing the default apiGroup"]),
]  # fmt: skip


@pytest.mark.parametrize(("volume", "errors"), VOLUME_ERRORS)
def test_what_is_wrong_with_a_volume(volume: dict[str, Any], errors: list[str]) -> None:
    assert said(a_pod(volumes=[{"name": "v", **volume}])) == errors


def test_volumes_have_names_of_their_own() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
    volumes = [
        {"name": "a"},
        {"name": "a"},
        {"emptyDir": {}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "p-e"}},
    ]
    assert said(a_pod(volumes=volumes)) == [
        'spec.volumes[1].name: Duplicate value: "a"',
        "spec.volumes[2].name: Required value",
        'spec.volumes[4].persistentVolumeClaim.claimName: Invalid value: "p-e": must not reference a PVC that gets '
        "created for an ephemeral volume",
    ]


def test_a_volume_is_mounted_or_used_as_a_device() -> None:
    container = {
        "volumeMounts": [
            {"name": "disk", "mountPath": "/d", "subPath": "/x", "subPathExpr": "y", "mountPropagation": "Odd"},
            {"mountPath": "", "mountPropagation": "Bidirectional"},
        ],
        "volumeDevices": [
            {"name": "disk", "devicePath": "/d"},
            {"name": "disk", "devicePath": "/d/../e"},
            {"name": "", "devicePath": "/d"},
            {"name": "empty", "devicePath": "/f"},
        ],
    }
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "empty"}]
    here = "spec.containers[0]"
    assert said(a_pod(container, volumes=volumes)) == [
        f'{here}.volumeMounts[0].name: Invalid value: "disk": must not already exist in volumeDevices',
        f'{here}.volumeMounts[0].mountPath: Invalid value: "/d": must not already exist as a path in volumeDevices',
        f'{here}.volumeMounts.subPath: Invalid value: "/x": must be a relative path',
        f'{here}.volumeMounts[0].subPathExpr: Invalid value: "y": subPathExpr and subPath are mutually exclusive',
        f'{here}.volumeMounts.mountPropagation: Unsupported value: "Odd": supported values: "Bidirectional", '
        '"HostToContainer", "None"',
        f"{here}.volumeMounts[1].name: Required value",
        f'{here}.volumeMounts[1].name: Not found: ""',
        f"{here}.volumeMounts[1].mountPath: Required value",
        f'{here}.volumeMounts[1].name: Invalid value: "": must not already exist in volumeDevices',
        f"{here}.volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to "
        "privileged containers",
        f'{here}.volumeDevices[0].name: Invalid value: "disk": must not already exist in volumeMounts',
        f'{here}.volumeDevices[0].devicePath: Invalid value: "/d": must not already exist as a path in volumeMounts',
        f'{here}.volumeDevices[1].name: Invalid value: "disk": must be unique',
        f"{here}.volumeDevices[1].devicePath: Invalid value: \"/d/../e\": can not contain backsteps ('..')",
        f'{here}.volumeDevices[1].name: Invalid value: "disk": must not already exist in volumeMounts',
        f"{here}.volumeDevices[2].name: Required value",
        f'{here}.volumeDevices[2].name: Not found: ""',
        f'{here}.volumeDevices[2].devicePath: Invalid value: "/d": must be unique',
        f'{here}.volumeDevices[2].devicePath: Invalid value: "/d": must not already exist as a path in volumeMounts',
        f'{here}.volumeDevices[3].name: Invalid value: "empty": can only use volume source type of '
        "PersistentVolumeClaim or Ephemeral for block mode",
    ]
