from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.registry.pods import a_pod, said
from tests.registry.wordings import LABEL

CONTAINERS = [
    ({"name": ""}, ["spec.containers[0].name: Required value"]),
    ({"name": "A"}, [f'spec.containers[0].name: Invalid value: "A": {LABEL}']),
    ({"image": ""}, ["spec.containers[0].image: Required value"]),
    ({"image": " a"}, [
        'spec.containers[0].image: Invalid value: " a": must not have leading or trailing whitespace']),
    ({"imagePullPolicy": "Often"}, [
        'spec.containers[0].imagePullPolicy: Unsupported value: "Often": supported values: "Always", "IfNotPresent", '
        '"Never"']),
    ({"terminationMessagePolicy": "Log"}, [
        'spec.containers[0].terminationMessagePolicy: Unsupported value: "Log": supported values: "File", '
        '"FallbackToLogsOnError"']),
    ({"ports": [{"containerPort": 0}]}, ["spec.containers[0].ports[0].containerPort: Required value"]),
    ({"ports": [{"containerPort": 65536, "hostPort": -1, "protocol": "ICMP", "name": "a-very-long-name"}]}, [
        'spec.containers[0].ports[0].name: Invalid value: "a-very-long-name": must be no more than 15 characters',
        "spec.containers[0].ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
        "spec.containers[0].ports[0].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
        'spec.containers[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"']),
    ({"ports": [{"containerPort": 1, "name": "-1-"}]}, [
        'spec.containers[0].ports[0].name: Invalid value: "-1-": must contain at least one letter (a-z)',
        'spec.containers[0].ports[0].name: Invalid value: "-1-": must not begin or end with a hyphen']),
    ({"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]}, [
        'spec.containers[0].ports[1].name: Duplicate value: "a"']),
    ({"ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80}]}, [
        'spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80"']),
    ({"env": [{"name": ""}, {"name": "a=b"}]}, [
        "spec.containers[0].env[0].name: Required value",
        'spec.containers[0].env[1].name: Invalid value: "a=b": a valid environment variable name must consist only of '
        "printable ASCII characters other than '='"]),
    ({"env": [{"name": "A", "valueFrom": {}}]}, [
        'spec.containers[0].env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, '
        "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"]),
    ({"env": [{"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}, [
        'spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty']),
    ({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "s"}}}]}, [
        "spec.containers[0].env[0].valueFrom.configMapKeyRef.key: Required value"]),
    ({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}]}, []),
    ({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.nope"}}}]}, [
        'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "metadata.nope": error converting '
        "fieldPath: field label not supported: metadata.nope"]),
    ({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.disk"}}}]}, [
        'spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.disk": supported '
        'values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", '
        '"requests.ephemeral-storage", "requests.memory"']),
    ({"envFrom": [{}]}, [
        'spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`']),
    ({"volumeMounts": [{"name": "v", "mountPath": "/x"}]}, [
        'spec.containers[0].volumeMounts[0].name: Not found: "v"']),
    ({"volumeDevices": [{"name": "v"}]}, [
        'spec.containers[0].volumeDevices[0].name: Not found: "v"',
        "spec.containers[0].volumeDevices[0].devicePath: Required value"]),
    ({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}, [
        'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1']),
    ({"resources": {"requests": {"cpu": "-1"}}}, [
        'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
    ({"resources": {"requests": {"example.com/gpu": "1"}}}, [
        "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"]),
    ({"resources": {"limits": {"example.com/gpu": "1500m"}}}, [
        'spec.containers[0].resources.limits[example.com/gpu]: Invalid value: "1500m": must be an integer',
        'spec.containers[0].resources.requests[example.com/gpu]: Invalid value: "1500m": must be an integer']),
    ({"resources": {"requests": {"disk": "1"}}}, [
        'spec.containers[0].resources.requests[disk]: Invalid value: "disk": must be a standard resource type or fully '
        "qualified",
        'spec.containers[0].resources.requests[disk]: Invalid value: "disk": must be a standard resource for '
        "containers"]),
    ({"resources": {"limits": {"hugepages-2Mi": "3Mi"}}}, [
        'spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer '
        "multiple of hugepages-2Mi",
        'spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer '
        "multiple of hugepages-2Mi",
        "spec.containers[0].resources: Forbidden: HugePages require cpu or memory"]),
    ({"resources": {"claims": [{"name": "gpu"}]}}, [
        'spec.containers[0].resources.claims[0]: Not found: "gpu": must be one of the names in pod.spec.resourceClaims '
        "which is empty"]),
    ({"livenessProbe": {}}, ["spec.containers[0].livenessProbe: Required value: must specify a handler type"]),
    ({"livenessProbe": {"exec": {}, "httpGet": {"port": 1}, "successThreshold": 2}}, [
        "spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type",
        "spec.containers[0].livenessProbe.exec.command: Required value",
        "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"]),
    ({"readinessProbe": {"httpGet": {"port": "UP", "scheme": "FTP"}, "terminationGracePeriodSeconds": 1}}, [
        'spec.containers[0].readinessProbe.httpGet.port: Invalid value: "UP": must contain only alpha-numeric '
        "characters (a-z, 0-9), and hyphens (-)",
        'spec.containers[0].readinessProbe.httpGet.port: Invalid value: "UP": must contain at least one letter (a-z)',
        'spec.containers[0].readinessProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"',
        "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for "
        "readinessProbes"]),
    ({"lifecycle": {"preStop": {"sleep": {"seconds": 60}}}}, [
        "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 60: must be non-negative and less than "
        "terminationGracePeriodSeconds (30)"]),
    ({"securityContext": {"runAsUser": -1, "privileged": True, "allowPrivilegeEscalation": False}}, [
        "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        'spec.containers[0].securityContext: Invalid value: {"runAsUser":-1,"privileged":true,'
        '"allowPrivilegeEscalation":false}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true']),
    ({"env": [{"name": "A", "valueFrom": {"fieldRef": {}}}, {"name": "B", "valueFrom": {"fieldRef": {
        "fieldPath": "spec.nodeName['x']"}}},
        {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]}, [
        "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Required value",
        """spec.containers[0].env[1].valueFrom.fieldRef.fieldPath: Invalid value: "spec.nodeName['x']": error """
        "converting fieldPath: field label does not support subscript: spec.nodeName['x']",
        'spec.containers[0].env[2].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported '
        'values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", '
        '"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"']),
    ({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {}, "fileKeyRef": {"key": "=", "path": "a/../b"}}}]}, [
        "spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Required value",
        'spec.containers[0].env[0].valueFrom.fileKeyRef.key: Invalid value: "=": a valid environment variable name '
        "must consist only of printable ASCII characters other than '='",
        "spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Required value",
        'spec.containers[0].env[0].valueFrom.fileKeyRef.path: Invalid value: "a/../b": must not contain \'..\'',
        'spec.containers[0].env[0].valueFrom: Invalid value: "": may not have more than one field specified at a time',
        'spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: ""']),
    ({"env": [{"name": "A", "valueFrom": {"fileKeyRef": {"key": "k", "volumeName": "v"}}}]}, [
        "spec.containers[0].env[0].valueFrom.fileKeyRef.path: Required value",
        'spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: "v"']),
    ({"envFrom": [{"prefix": "=", "configMapRef": {}, "secretRef": {"name": "s-"}}]}, [
        'spec.containers[0].envFrom[0].prefix: Invalid value: "=": a valid environment variable name must consist only '
        "of printable ASCII characters other than '='",
        "spec.containers[0].envFrom[0].configMapRef.name: Required value",
        'spec.containers[0].envFrom: Invalid value: "": may not have more than one field specified at a time']),
    ({"resources": {"limits": {"example.com/gpu": "2"}, "requests": {"example.com/gpu": "1"}}}, [
        'spec.containers[0].resources.requests: Invalid value: "1": must be equal to example.com/gpu limit of 2']),
    ({"resources": {"limits": {"cpu": "1", "requests.example.com/gpu": "1", "hugepages-x": "1"}}}, [
        'spec.containers[0].resources.limits[requests.example.com/gpu]: Invalid value: "requests.example.com/gpu": '
        "doesn't follow extended resource name standard",
        'spec.containers[0].resources.limits[hugepages-x]: Invalid value: "1": 1 is not positive integer multiple of '
        "hugepages-x",
        'spec.containers[0].resources.requests[requests.example.com/gpu]: Invalid value: "requests.example.com/gpu": '
        "doesn't follow extended resource name standard",
        'spec.containers[0].resources.requests[hugepages-x]: Invalid value: "1": 1 is not positive integer multiple of '
        "hugepages-x"]),
    ({"livenessProbe": {"tcpSocket": {"port": 0}, "initialDelaySeconds": -1, "terminationGracePeriodSeconds": 0}}, [
        "spec.containers[0].livenessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive",
        "spec.containers[0].livenessProbe.initialDelaySeconds: Invalid value: -1: must be greater than or equal to 0",
        "spec.containers[0].livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0"]),
    ({"startupProbe": {"httpGet": {"port": 1, "httpHeaders": [{"name": "a b"}]}}}, [
        'spec.containers[0].startupProbe.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header must consist '
        "of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"]),
    ({"volumeMounts": [{"name": "data", "mountPath": "/d", "recursiveReadOnly": "Maybe"}]}, [
        'spec.containers[0].volumeMounts[0].name: Not found: "data"',
        'spec.containers[0].volumeMounts.recursiveReadOnly: Unsupported value: "Maybe": supported values: "Disabled", '
        '"Enabled", "IfPossible"']),
    ({"securityContext": {"seccompProfile": {}, "appArmorProfile": {"type": "Localhost"}}}, [
        "spec.containers[0].securityContext.seccompProfile.type: Required value: type is required when "
        "seccompProfile is set",
        "spec.containers[0].securityContext.appArmorProfile.localhostProfile: Required value: must be set when "
        "AppArmor type is Localhost"]),
    ({"restartPolicyRules": [{"action": "Wait", "exitCodes": {"operator": "Eq"}}, {"action": "Restart"}]}, [
        "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used",
        'spec.containers[0].restartPolicyRules[0].action: Unsupported value: "Wait": supported values: "Restart", '
        '"RestartAllContainers"',
        'spec.containers[0].restartPolicyRules[0].exitCodes.operator: Unsupported value: "Eq": supported values: "In", '
        '"NotIn"',
        "spec.containers[0].restartPolicyRules[1].exitCodes: Required value: must be specified"]),
    ({"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In"}}] * 21}, [
        "spec.containers[0].restartPolicyRules: Too many: 21: must have at most 20 items"]),
    ({"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]},
                          "procMount": "Odd"}}, [
        'spec.containers[0].securityContext.procMount: Unsupported value: "Odd": supported values: "Default", '
        '"Unmasked"',
        'spec.containers[0].securityContext: Invalid value: {"allowPrivilegeEscalation":false,"capabilities":{"add":'
        '["CAP_SYS_ADMIN"]},"procMount":"Odd"}: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` '
        "CAP_SYS_ADMIN"]),
    ({"ports": [{"containerPort": 1, "name": "a--B"}]}, [
        'spec.containers[0].ports[0].name: Invalid value: "a--B": must contain only alpha-numeric characters (a-z, '
        "0-9), and hyphens (-)",
        'spec.containers[0].ports[0].name: Invalid value: "a--B": must not contain consecutive hyphens']),
    ({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2}, [
        'spec.containers[0].resizePolicy[1]: Duplicate value: "cpu"']),
    ({"resizePolicy": [{"resourceName": "disk", "restartPolicy": "NotRequired"}]}, [
        'spec.containers[0].resizePolicy: Unsupported value: "disk": supported values: "cpu", "memory"']),
]  # fmt: skip


@pytest.mark.parametrize(("container", "errors"), CONTAINERS)
def test_what_is_wrong_with_a_container(container: dict[str, Any], errors: list[str]) -> None:
    assert said(a_pod(container)) == errors


def test_containers_share_names_and_ports() -> None:
    port = {"containerPort": 80, "hostPort": 80}
    pod = a_pod({"name": "a", "ports": [port]}, {"name": "a", "ports": [dict(port)]}, initContainers=[{"name": "a"}])
    assert said(pod) == [
        'spec.containers[1].name: Duplicate value: "a"',
        'spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//80"',
        "spec.initContainers[0].image: Required value",
        'spec.initContainers[0].name: Duplicate value: "a"',
    ]


def test_init_containers_have_probes_only_when_they_stay() -> None:
    probe = {"livenessProbe": {"exec": {"command": ["x"]}}}
    init = {"name": "i", "image": "a", **probe}
    assert said(a_pod(initContainers=[copy.deepcopy(init)])) == [
        "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without "
        "restartPolicy=Always"
    ]
    assert said(a_pod(initContainers=[{**copy.deepcopy(init), "restartPolicy": "Always"}])) == []
    assert said(a_pod(initContainers=[{"name": "i", "image": "a", "restartPolicy": "Maybe"}])) == [
        'spec.initContainers[0].restartPolicy: Unsupported value: "Maybe": supported values: "Always", "Never", '
        '"OnFailure"'
    ]


def test_claims_of_containers_are_claims_of_their_pod() -> None:
    claims = [{"name": "gpu", "resourceClaimName": "g"}]
    uses = [{"name": "gpu", "request": "A"}, {"name": "gpu"}, {"name": "gpu"}, {}, {"name": "nic"}]
    assert said(a_pod({"resources": {"claims": uses}}, resourceClaims=claims)) == [
        f'spec.containers[0].resources.claims[0].request: Invalid value: "A": {LABEL}',
        'spec.containers[0].resources.claims[1]: Duplicate value: "gpu"',
        'spec.containers[0].resources.claims[2]: Duplicate value: "gpu"',
        "spec.containers[0].resources.claims[3]: Required value",
        'spec.containers[0].resources.claims[4]: Not found: "nic": must be one of the names in '
        "pod.spec.resourceClaims: gpu",
    ]
